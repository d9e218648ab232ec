# What very much of something costs one client: held locks, permits, readers, closed names, turns, a reader of the
# SQLite file. For crowd.py.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import sqlite3
import subprocess
import time

import holdfast

from crowd_names import held
from crowd_stores import COMMAND, Client, Clock, children_ms, run

TTL_S = 4
IDLE_S = TTL_S  # each record is verified once
SETTLE_S = 1
FAR_S = 0.015  # each way
SERVICE_S = 10  # each lease is renewed once
EARLY = 100  # which of the closed names somebody waits for
MIB = 1 << 20


# ---- Upkeep

def keep(store, verb, n):
    """What a client needs that holds N of something, while nothing happens."""
    with Client(verb, store.fresh(), n, TTL_S) as client:
        time.sleep(SETTLE_S)
        clock = Clock(store, [client.pid])
        time.sleep(IDLE_S)
        return {"idle": clock.clients_ms() / clock.seconds, "idle servers": clock.servers_ms() / clock.seconds}


def hold(store, n):
    return keep(store, "hold", n)


def share(store, n):
    return keep(store, "share", n)


# ---- Closing

def close(store, n):
    """A client with N held locks is closed. Then nothing is held."""
    uri = store.fresh()
    with Client("hold", uri, n) as client:
        clock = Clock(store, [client.pid])
        client.send("close")
        took = client.answer()["took"]
        figures = {"took": took, "clients": clock.clients_ms(), "servers": clock.servers_ms()}
        return dict(figures, left=held(uri))


def close_far(store, n):
    """The same over gates that hold back all that clients send and are sent."""
    uri = store.fresh()
    with Client("hold", uri, n) as client:
        for member in store.set.members:
            store.set.gates.set(member, "delay", seconds=FAR_S, sources=["clients"])
        client.send("close")
        took = client.answer()["took"]
        store.set.gates.heal()
        return {"took": took, "left": held(uri)}


def churn(store, seconds):
    """Threads close new names as fast as they can; then somebody wants one of the first."""
    uri = store.fresh()
    with Client("churn", uri, seconds) as client:
        began = time.monotonic()
        with run(uri, "-w", "100s", "new/%07d" % EARLY, "--", "true", says=False) as waiter:
            waiter.process.wait()
        return {"granted": (time.monotonic() - began) * 1000, "turns": client.said["turns"] / seconds,
                "longest": client.said["longest"] * 1000}


# ---- Readers

def read(store, n):
    """A writer that comes behind N readers of one process, and has the lock when they have left."""
    uri = store.fresh()
    with Client("read", uri, n) as client, run(uri, "-w", "100s", "readers", "--", "true", says=False) as writer:
        time.sleep(SETTLE_S)
        stood = writer.process.poll() is None
        clock = Clock(store)
        client.send("close")
        status = writer.process.wait()
        return {"stood": stood and status == 0, "granted": clock.seconds * 1000}


# ---- The history

def note(store, n):
    """N turns of as many locks: what the history has of them, and what it says is missing."""
    uri = store.fresh()
    clock, ended = Clock(store), children_ms()
    with Client("take", uri, n) as client:
        client.end(signal.SIGKILL)
    figures = {"clients": children_ms() - ended, "servers": clock.servers_ms(), "took": clock.seconds}
    with holdfast.Client(uri) as reader:
        turns = reader.history(limit=10000, missing=True)
    missing = sum(turn.more for turn in turns if turn.end == holdfast.TurnEnd.MISSING)
    listed = sum(1 + turn.more for turn in turns if turn.end != holdfast.TurnEnd.MISSING)
    return dict(figures, listed=listed, missing=missing, unsaid=n - listed - missing)


# ---- A reader of the file

def log_mib(path):
    return os.path.getsize(path + "-wal") / MIB


def back_up(store, seconds):
    """Somebody reads the file in one transaction, while threads take and close new names."""
    uri = store.fresh()
    with Client("churn", uri, 1):
        reader = sqlite3.connect(store.path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM locks").fetchone()
        with Client("churn", uri, seconds) as client:
            turns = client.said["turns"]
            figures = {"turns": turns / seconds, "log": log_mib(store.path) / turns * 1000,
                       "longest": client.said["longest"] * 1000}
        reader.close()
    return figures


# ---- The service

def serve(store, n):
    """N waits, N leases and N / 10 followers at one service."""
    words = [COMMAND, "--store", store.fresh(), "--json", "bench", "--only", "service",
             "--clients", str(n), "--seconds", str(SERVICE_S)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    of = {row["figure"]: row for row in json.loads(done.stdout) if "ours" in row}

    def figure(word, kind="ours"):
        return next(row[kind]["median"] for text, row in of.items() if word in text)
    return {"renewal": figure(": renewal, p99"), "lost": figure("leases that were lost"),
            "failed": figure("that failed"), "memory": figure("memory for each wait"),
            "clients": figure("processor time of the service"),
            "tenth": figure("processor time of the service", "other")}
