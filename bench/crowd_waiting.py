# Very many processes `run`, or threads of some processes, that wait for one lock: what they cost while nothing
# happens, what a hand-over costs, whether they come in order, and what it costs if half of them are killed at once.
# For crowd.py.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import holdfast

from crowd_stores import Client, Clock, children_ms, cpu_ms, kill_hosts, run
from mongod import until

APART_S = {"SQLite": 0.012, "MongoDB": 0.03}  # one comes after the other: all at once is for tests/torture
ARRIVE_S = 5  # of a machine that does nothing else, as all that until() is told
SETTLE_S = 2
IDLE_S = 4
LOOK_S = 0.01
ORDER_S = 0.1  # who came so much later than another comes behind it
DRAIN_S = 150
PROCESSES = 20  # in which threads wait
HOLDS = ("sh", "-c", "echo holds; exec sleep 1000")


class Turns:
    """The file in which each waiter writes its number when it has the lock."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "turns")

    def words(self, number):
        return "sh", "-c", 'echo %d >> "$0"' % number, self.path

    def numbers(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path) as turns:
            return [int(line) for line in turns]


class Gaps(threading.Thread):
    """The longest time without a turn, from now until it is stopped."""

    def __init__(self, turns):
        super().__init__(daemon=True)
        self.turns, self.longest, self.is_over = turns, 0.0, threading.Event()
        self.start()

    def run(self):
        n, since = len(self.turns.numbers()), time.monotonic()
        while not self.is_over.wait(LOOK_S):
            now, there = time.monotonic(), len(self.turns.numbers())
            if there > n:
                self.longest = max(self.longest, now - since)
                n, since = there, now

    def stop(self):
        self.is_over.set()
        self.join()
        return self.longest


class Line:
    """Beside one that holds the lock. All wait when this is made."""

    def __init__(self, store, n, ttl_s=None):
        self.store, self.folder = store, tempfile.mkdtemp(prefix="holdfast-crowd-")
        self.turns, self.uri = Turns(self.folder), store.fresh()
        self.ttl = ["--ttl", "%ds" % ttl_s] if ttl_s else []
        self.holder = self.start("q", "--", *HOLDS)
        self.holder.line()
        self.waiters, self.came = [], []
        began = time.monotonic()
        for number in range(n):
            time.sleep(max(0, began + number * APART_S[store.name] - time.monotonic()))
            self.came.append(time.monotonic())
            self.waiters.append(self.start("-w", "20m", "q", "--", *self.turns.words(number), says=False))
        self.await_all()

    def start(self, *words, **more):
        return run(self.uri, *self.ttl, *words, **more)

    def await_all(self):
        client = holdfast.Client(self.uri)

        def stand():
            info = client.show("q")
            return len(info.queue) + info.outside
        until(lambda: stand() >= len(self.waiters), ARRIVE_S, "all to stand in line")
        client.close()
        time.sleep(SETTLE_S)

    def pids(self):
        return [each.pid for each in self.waiters if each.process.poll() is None]

    def release(self):
        self.holder.process.send_signal(signal.SIGTERM)

    def drain(self):
        """Until all who live have had their turn, or nobody believes in that any more."""
        end = time.monotonic() + DRAIN_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            for each in self.waiters:
                each.process.wait(max(0, end - time.monotonic()))

    def failures(self):
        """Of those that nobody has killed."""
        return sum(each.process.poll() not in (0, -signal.SIGKILL) for each in self.waiters)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in [self.holder, *self.waiters]:
            with contextlib.suppress(ProcessLookupError):
                each.end(signal.SIGKILL)
        shutil.rmtree(self.folder)


def inverted(turns, came):
    """Pairs that came apart, and had their turns the other way round."""
    return sum(came[first] - came[second] > ORDER_S for first, second in itertools.combinations(turns, 2))


def idle(store, pids, n):
    clock = Clock(store, pids)
    time.sleep(IDLE_S)
    return {"idle": clock.clients_ms() / clock.seconds / n, "idle servers": clock.servers_ms() / clock.seconds / n}


def wait(store, n):
    """N processes, one after the other."""
    with Line(store, n) as line:
        figures = idle(store, line.pids(), n)
        clock, ended, used = Clock(store), children_ms(), cpu_ms(line.pids())
        had = line.holder.process.poll() is None
        line.release()
        line.drain()
        turns = line.turns.numbers()
        figures.update({
            "kept": had, "turn": clock.seconds * 1000 / n, "turn servers": clock.servers_ms() / n,
            "turn clients": (children_ms() - ended - used) / n, "failed": line.failures() + n - len(turns),
            "inverted": inverted(turns, line.came)})
    return figures


def kill_half(store, n, ttl_s):
    """Every second one, with its guardian; at that moment the lock becomes free."""
    with Line(store, n, ttl_s) as line:
        clock, gaps = Clock(store), Gaps(line.turns)
        kill_hosts(line.waiters[1::2])
        line.release()
        line.drain()
        took, still = clock.seconds, gaps.stop()
        left = n - n // 2
        return {"still": still, "turn": (took - still) * 1000 / left, "turn servers": clock.servers_ms() / left,
                "failed": line.failures() + left - len(line.turns.numbers())}


# ---- Threads of some processes

class Threads:
    """N threads in some processes, beside one that holds the lock. All wait when this is made. by_itself: each thread
    has a ticket of its own; else those of one process pass the lock on."""

    def __init__(self, store, n, by_itself):
        self.folder = tempfile.mkdtemp(prefix="holdfast-crowd-")
        self.path, uri = os.path.join(self.folder, "turns"), store.fresh()
        env = {"CROWD_TURNS": self.path, "CROWD_APART": str(APART_S[store.name] * PROCESSES)}
        env.update({"CROWD_LOCAL_TURNS": "-1"} if by_itself else {})
        self.holder = run(uri, "q", "--", *HOLDS)
        self.holder.line()
        self.clients = []
        for _ in range(PROCESSES):
            self.clients.append(Client("stand", uri, n // PROCESSES, env=env))
            time.sleep(APART_S[store.name])
        for each in self.clients:
            each.answer()
        time.sleep(SETTLE_S)

    def pids(self):
        return [each.pid for each in self.clients]

    def came(self):
        with open(self.path) as turns:
            return [float(line) for line in turns]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in [self.holder, *self.clients]:
            each.end(signal.SIGKILL)
        shutil.rmtree(self.folder)


def stand(store, n, by_itself):
    """N threads in 20 processes."""
    with Threads(store, n, by_itself) as crowd:
        figures = idle(store, crowd.pids(), n)
        had = crowd.holder.process.poll() is None
        clock = Clock(store, crowd.pids())
        crowd.holder.process.send_signal(signal.SIGTERM)
        failed = sum(each.answer()["failed"] for each in crowd.clients)
        came = crowd.came()
        figures.update({
            "kept": had, "turn": clock.seconds * 1000 / n, "turn servers": clock.servers_ms() / n,
            "turn clients": clock.clients_ms() / n, "failed": failed + n - len(came),
            "inverted": inverted(range(len(came)), came)})
    return figures
