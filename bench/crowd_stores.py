# The stores that a crowd comes to, the processes that it is made of, and what those use of a processor.
# For crowd.py and its parts. SPDX-License-Identifier: Apache-2.0
import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import guardian
from mongod import ReplicaSet

BUILD, COMMAND = os.environ["HOLDFAST_BUILD"], os.environ["HOLDFAST_BIN"]
HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 60
CALM_S, BASE_S = 6, 4  # a set that has just begun is busy with itself


# ---- Processor time

def cpu_ms(pids):
    """That those processes have used so far; of one that has ended, nothing."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime(~pid << 3 | 2) * 1000  # as clock_getcpuclockid(3) makes it
    return total


def children_ms():
    """Of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


class Clock:
    """What time went by, and what was used of processors, since it was made: by those processes, and by the
    servers of the store beyond what they use when nobody is there."""

    def __init__(self, store, pids=()):
        self.store, self.pids = store, list(pids)
        self.began, self.used, self.served = time.monotonic(), cpu_ms(self.pids), store.used_ms()

    @property
    def seconds(self):
        return time.monotonic() - self.began

    def clients_ms(self):
        return cpu_ms(self.pids) - self.used

    def servers_ms(self):
        return self.store.used_ms() - self.served - self.store.base * self.seconds


# ---- Stores

class Sqlite:
    """Each measurement has a file of its own."""
    name, has_servers, base = "SQLite", False, 0.0

    def __init__(self):
        self.folder, self.numbers = tempfile.mkdtemp(prefix="holdfast-crowd-"), itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self):
        self.path = os.path.join(self.folder, "%d.db" % next(self.numbers))
        return "sqlite:" + self.path

    def used_ms(self):
        return 0.0


class Mongo:
    """Three members as they come; each measurement has a database of its own. gates: see tests/bed/gates.py"""
    name, has_servers = "MongoDB", True

    def __init__(self, gates=False):
        self.set, self.numbers, self.base = ReplicaSet(gates=gates), itertools.count(), 0.0
        self.is_far = gates

    def __enter__(self):
        self.set.__enter__()
        if not self.is_far:
            self.base = self.measure_base()
        return self

    def __exit__(self, *_):
        self.set.__exit__()

    def measure_base(self):
        time.sleep(CALM_S)
        clock = Clock(self)
        time.sleep(BASE_S)
        return clock.servers_ms() / clock.seconds

    def fresh(self):
        self.database = "crowd%d" % next(self.numbers)
        return self.set.uri_for(self.database)

    def used_ms(self):
        return cpu_ms(member.pid for member in self.set.members)


# ---- Processes

class Process:
    """It ends with this one. Leaving `with` kills it. says: it is spoken to, and answers."""

    def __init__(self, *words, env=None, says=True):
        end = subprocess.PIPE if says else subprocess.DEVNULL
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *words], text=True,
                                        env=dict(os.environ, **guardian.MARK, **(env or {})),
                                        stdin=end, stdout=end, stderr=end)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGKILL)

    @property
    def pid(self):
        return self.process.pid

    def line(self):
        said = self.process.stdout.readline()
        if not said:
            raise RuntimeError(self.process.stderr.read() or "%s ended" % self.process.args[4:7])
        return said.strip()

    def send(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self, number=signal.SIGTERM):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def run(uri, *words, **more):
    return Process(COMMAND, "--store", uri, "run", *words, **more)


class Client(Process):
    """crowd_client.py. Within `with` it has done what the verb says, and said how."""

    def __init__(self, verb, uri, n, ttl_s=None, env=None):
        library = os.path.join(BUILD, "libholdfast.so.1")
        env = {"PYTHONPATH": os.path.join(HERE, "..", "python"), "HOLDFAST_LIBRARY": library, **(env or {})}
        env.update({"CROWD_TTL": str(ttl_s)} if ttl_s else {})
        super().__init__("/usr/bin/python3", os.path.join(HERE, "crowd_client.py"), verb, uri, str(n), env=env)

    def __enter__(self):
        self.said = self.answer()
        return self

    def answer(self):
        return json.loads(self.line())


def kill_hosts(processes):
    """All of them at once, as if their hosts had lost their power: no guardian helps."""
    victims = {each.pid for each in processes}
    for pid, of in guardian.guardians().items():
        if of in victims:
            os.kill(pid, signal.SIGKILL)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
