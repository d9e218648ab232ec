# The services of a fault campaign: two `holdfast serve` on its store, and their clients.
# SPDX-License-Identifier: Apache-2.0
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

from contest import boot_ns

HERE = os.path.dirname(os.path.abspath(__file__))
HOLDFAST = os.environ["HOLDFAST_BIN"]
PORT = 8430
PORTS = (20000, 30000)  # on a host that others use; below those that connections get
LEAK_TRIES = 3
ANSWERS_S = 0.5  # for a connection to a service that runs


def free_port():
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(*PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Pausable:
    """A process of a bed that says when it was not running: `process`, `who` and `off_since`."""

    def stop(self):
        self.is_off()
        self.process.send_signal(signal.SIGSTOP)

    def cont(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_on()

    def is_off(self):
        self.off_since = self.off_since or boot_ns()

    def is_on(self):
        if self.off_since:
            self.bed.pauses.setdefault(self.who, []).append((self.off_since, boot_ns()))
        self.off_since = None


class Service(Pausable):
    """A `holdfast serve` and its successors, at the same address. It is started again whenever it
    has ended, as a machine's supervisor would."""

    def __init__(self, bed, number):
        self.bed, self.number, self.process, self.off_since = bed, number, None, None
        self.host = bed.network.host() if bed.network else None
        self.address = self.host.address if self.host else "127.0.0.1"
        self.port = PORT if self.host else free_port()
        self.mutex = threading.Lock()  # guards what follows, and the process
        self.is_wanted, self.is_beginning, self.restarts = False, False, 0

    @property
    def who(self):
        return "s%d" % self.number

    def start(self):
        with self.mutex:
            self.start_locked()

    def start_locked(self):
        command = ["setpriv", "--pdeathsig", "KILL", "--"]
        command += self.host.prefix if self.host else []
        command += [HOLDFAST, "-v", "--store", self.bed.store_uri(self),
                    "--ttl=%dms" % (self.bed.ttl * 1000), "serve", "--insecure-serve-anybody",
                    "--listen=%s:%d" % (self.address, self.port)]
        with open(os.path.join(self.bed.folder, self.who + ".log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        self.is_wanted = self.is_beginning = True

    def answers(self):
        try:
            socket.create_connection((self.address, self.port), ANSWERS_S).close()
            return True
        except OSError:
            return False

    def kill(self):
        with self.mutex:
            self.is_wanted = False
            self.is_off()
            self.process.kill()
            self.process.wait()

    def supervise(self):
        """A store that it does not reach ends it as it begins; a signal that is not ours is a
        crash."""
        with self.mutex:
            if not self.is_wanted:
                return
            status = self.process.poll()
            if status is not None:
                self.begin_again(status)
            elif self.is_beginning and self.answers():
                self.is_beginning = False
                self.is_on()

    def begin_again(self, status):
        self.is_off()
        self.bed.note("%s ended by itself, status %d" % (self.who, status))
        if status < 0:
            self.bed.crashed.append("%s was ended by signal %d" % (self.who, -status))
        self.restarts += 1
        self.start_locked()

    def await_begin(self, seconds):
        deadline = time.monotonic() + seconds
        while self.is_beginning and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self.is_beginning

    def finish(self, seconds):
        """Told to end, it ends."""
        with self.mutex:
            self.is_wanted = False
        self.process.terminate()
        try:
            status = self.process.wait(seconds)
            if status:
                self.bed.crashed.append("%s ended with status %d" % (self.who, status))
        except subprocess.TimeoutExpired:
            self.bed.crashed.append("%s does not end" % self.who)

    def end(self):
        self.is_wanted = False
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def tenant_command(bed, client, locks, words):
    services = ",".join("%s:%d" % (each.address, each.port) for each in bed.services)
    return [sys.executable, os.path.join(HERE, "tenant.py"), "--id=" + client.who,
            "--history=" + client.path(client.who), "--until=" + bed.end_file,
            "--store=" + bed.store_uri(client), "--services=" + services,
            "--locks=" + ",".join(locks), "--ttl=%d-%d" % bed.lease_ttls_ms(),
            "--seed=%d" % client.seed] + words


def take_all(bed, locks, seconds):
    """Takes each lock as a whole, once; returns those that are not to be had, and why. What is
    leaked is so for as long as the services live, so an election excuses a try that failed."""
    held = dict.fromkeys(locks)
    for n in range(LEAK_TRIES):
        held = try_all(bed, held, seconds)
        if not held:
            break
        bed.note("not free: %s" % held)
        look(bed, n, "list")
        look(bed, n, "sessions", "--all")
    return held


def try_all(bed, locks, seconds):
    runs = {}
    for lock in locks:
        whole = ["--permits=3", "--limit=3"] if lock.startswith("sem") else []
        runs[lock] = subprocess.Popen(
            [HOLDFAST, "--store", bed.store_uri(None), "run", "--ttl=2s", "--wait=%gs" % seconds,
             *whole, lock, "--", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, universal_newlines=True)
    said = {lock: run.communicate()[0].strip() for lock, run in runs.items()}
    return {lock: said[lock] for lock, run in runs.items() if run.returncode}


def look(bed, n, *what):
    """Keeps what is there, for the search for the cause."""
    with open(os.path.join(bed.folder, "held-%d-%s.json" % (n, what[0])), "wb") as out:
        subprocess.call([HOLDFAST, "--store", bed.store_uri(None), *what, "--json"],
                        stdin=subprocess.DEVNULL, stdout=out)
