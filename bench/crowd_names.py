# What killed processes leave behind: one-off names that nobody asks for again, and who takes them out: one client
# that stays, or very many that live for some ms. For crowd.py. SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import datetime
import itertools
import os
import sqlite3
import statistics
import subprocess
import time

import bson
import holdfast

from crowd_stores import COMMAND, Client, Clock, children_ms, kill_hosts, run
from mongod import until

NAMES_EACH, AT_ONCE = 20, 10  # names of a process; processes that begin together
MANY_EACH = 1000              # of one that takes very many
SWEEP_S = 12                  # of a machine that does nothing else
HOUR_MS, DAY = 3600 * 1000, datetime.timedelta(days=1)
MS = datetime.timedelta(milliseconds=1)
BRIEF_S = "0.03"              # a brief client's command; the client lives for some ms longer
BRIEF_AT_ONCE = 2
LOOK_EACH = 16                # brief clients, before one looks again whether the sweep is done
BRIEF_MOST_S = 1800


# ---- Time that passes

def let_an_hour_pass(store):
    """Two hours: leases are over for one, by all clocks that the sweep asks, and the next sweep begins at once."""
    if not store.has_servers:
        return in_file(store, "UPDATE meta SET value = 0 WHERE key IN ('swept_at', 'sweep_part', 'sweep_until')",
                       "UPDATE sessions SET dead_at = dead_at - %d WHERE dead_at > 0" % (2 * HOUR_MS))
    with store.set.client() as client:
        sessions = client[store.database].holdfast.sessions
        sessions.delete_many({"sweep": True})
        sessions.update_many({}, [{"$set": {
            field: {"$cond": [{"$ifNull": ["$" + field, False]}, {"$subtract": ["$" + field, 2 * HOUR_MS]}, "$$REMOVE"]}
            for field in ("expires_at", "marked_at")}}])
        sessions.update_many({"clock.at": {"$exists": True}}, {"$inc": {"clock.at": -2 * HOUR_MS}})


def let_days_pass(store):
    """Four, for records and for what happened to them."""
    if store.has_servers:
        with store.set.client() as client:
            client[store.database].holdfast.locks.update_many(
                {"last.at": {"$exists": True}}, [{"$set": {"last.at": {"$subtract": ["$last.at", 4 * DAY // MS]}}}])
        return
    with sqlite3.connect(store.path, timeout=60) as database:
        rows = database.execute("SELECT name, record FROM locks").fetchall()
        database.executemany("UPDATE locks SET record = ? WHERE name = ?",
                             [(aged(record), name) for name, record in rows])
    database.close()


def aged(record):
    document = bson.decode(record)
    if "at" in document.get("last", {}):
        document["last"]["at"] -= 4 * DAY
    return bson.encode(document)


def in_file(store, *statements):
    with sqlite3.connect(store.path, timeout=60) as database:
        for each in statements:
            database.execute(each)
    database.close()


# ---- One that stays

def held(uri):
    with holdfast.Client(uri) as client:
        return sum(len(info.holders) > 0 for info in client.locks(in_use=True))


def take_some(uri, processes, each, verb):
    some = [Client(verb, uri, each) for _ in range(processes)]
    for one in some:
        one.answer()
    kill_hosts(some)
    for one in some:
        one.end()


def take_and_die(uri, n, each, verb):
    """Processes take names that nobody asks for again, N in all, and are killed: no guardian helps."""
    left = n // each
    while left:
        take_some(uri, min(AT_ONCE, left), each, verb)
        left -= min(AT_ONCE, left)


def once(store, n):
    uri = store.fresh()
    take_and_die(uri, n, NAMES_EACH, "once")
    let_an_hour_pass(store)
    with run(uri, "sweeper", "--", "sleep", "1000", says=False) as sweeper:
        clock = Clock(store, [sweeper.pid])
        until(lambda: held(uri) <= 1, SWEEP_S, "the names to go")
        return {"gone": clock.seconds, "clients": clock.clients_ms(), "servers": clock.servers_ms()}


# ---- Very many that live for some ms

class Place:
    """How far the sweep has come, as it stands in the store."""

    def __init__(self, store):
        self.store = store
        self.client = store.set.client() if store.has_servers else None
        self.database = store.database if store.has_servers else store.path

    def is_done(self):
        if self.client:
            place = self.client[self.database].holdfast.sessions.find_one({"sweep": True})
            return place is not None and place["part"] == 0
        with sqlite3.connect(self.database, timeout=60) as database:
            meta = dict(database.execute("SELECT key, value FROM meta").fetchall())
        database.close()
        return meta["swept_at"] > 0 and meta["sweep_part"] == 0

    def records(self):
        if self.client:
            return self.client[self.database].holdfast.locks.estimated_document_count()
        with sqlite3.connect(self.database, timeout=60) as database:
            n = database.execute("SELECT count(*) FROM locks").fetchone()[0]
        database.close()
        return n


class Runs:
    """Brief clients, some at a time: what each of them took."""

    def __init__(self, store, uri):
        self.store, self.uri, self.numbers = store, uri, itertools.count()
        self.took, self.clients, self.servers, self.seconds = [], 0.0, 0.0, 0.0

    def one(self, number):
        began = time.monotonic()
        subprocess.run([COMMAND, "--store", self.uri, "run", "brief/%d" % number, "--",
                        "sleep", BRIEF_S], check=True)
        return (time.monotonic() - began) * 1000

    def some(self, n=LOOK_EACH):
        clock, ended = Clock(self.store), children_ms()
        with concurrent.futures.ThreadPoolExecutor(BRIEF_AT_ONCE) as pool:
            self.took += pool.map(self.one, range(n))
        self.clients += children_ms() - ended
        self.servers += clock.servers_ms()
        self.seconds += clock.seconds

    @property
    def n(self):
        return len(self.took)


def sweep_by_runs(store, litter, clean):
    """Runs until the sweep is done; every fourth lot is of runs where nothing is to be swept."""
    place, first, lots = Place(store), Runs(store, litter), itertools.count(1)
    beside = Runs(store, clean)
    while not place.is_done() and first.seconds < BRIEF_MOST_S:
        first.some()
        if next(lots) % 4 == 0:
            beside.some()
    return first, beside


def figures_of(runs, beside, prefix):
    def of_both(figure):
        return {prefix + figure.__name__: figure(runs), prefix + figure.__name__ + " clean": figure(beside)}

    def run(of):
        return statistics.mean(of.took) if of.n else 0.0

    def slow(of):
        return sorted(of.took)[of.n * 99 // 100] if of.n else 0.0

    def clients(of):
        return of.clients / max(1, of.n)

    def servers(of):
        return of.servers / max(1, of.n)
    return {prefix + "runs": runs.n, prefix + "gone": runs.seconds,
            **of_both(run), **of_both(slow), **of_both(clients), **of_both(servers)}


def brief(store, n):
    """N one-off names of killed processes. An hour later, and three days later, only brief clients come."""
    clean = store.fresh()
    Runs(store, clean).some()
    litter = store.fresh()
    take_and_die(litter, n, min(n, MANY_EACH), "many")
    let_an_hour_pass(store)
    runs, beside = sweep_by_runs(store, litter, clean)
    figures = figures_of(runs, beside, "")
    figures["held"] = held(litter)
    let_an_hour_pass(store)
    let_days_pass(store)
    runs, beside = sweep_by_runs(store, litter, clean)
    figures.update(figures_of(runs, beside, "days "))
    figures["left"] = Place(store).records()
    return figures
