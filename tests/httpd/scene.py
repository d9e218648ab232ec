"""What the tests of the page need of the past: a store in which things have happened over hours, under
names that are nobody's. All is real, holders, waiters and turns alike; but while a service stands
still, their times and hosts are set in its SQLite file.
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import datetime
import signal
import socket
import sqlite3
import time

import bson

import browsing

MINUTE_MS = 60000
EARLY_MS = 50  # a client's time may be that early
EPOCH = datetime.datetime(1970, 1, 1)


def now_ms():
    return int(time.time() * 1000)


def in_ms(moment):
    return (moment - EPOCH) // datetime.timedelta(milliseconds=1)


def neutral(text):
    """An owner brings its host: of "alice@build1@HOST:4711", "alice@build1:4711" is left."""
    for host in (socket.gethostname(), "127.0.0.1"):
        if text.count("@") > 1:
            text = text.replace("@" + host, "")
    return text


class Case(browsing.Case):
    """Minutes count from the beginning of the test, where the page is opened."""

    def setUp(self):
        super().setUp()
        self.began_ms = now_ms()
        self.spans = []  # when something was done, from and to, and the time that it is given

    @contextlib.contextmanager
    def at(self, minute, service=None):
        """What is done meanwhile is done in that minute. The service sees it when it is over."""
        if service:
            service.running.signal(signal.SIGSTOP)
        from_ms = now_ms() - EARLY_MS
        yield
        self.spans.append((from_ms, now_ms(), self.began_ms + int(minute * MINUTE_MS)))
        time.sleep(2 * EARLY_MS / 1000)  # so that the spans are told apart
        self.date()
        if service:
            service.running.signal(signal.SIGCONT)

    def dated(self, ms):
        if ms in (as_ms for _, _, as_ms in self.spans):
            return ms
        return next((as_ms for from_ms, to_ms, as_ms in self.spans if from_ms <= ms <= to_ms), ms)

    def date(self):
        with sqlite3.connect(self.path("locks.db"), timeout=browsing.serving.PATIENCE) as db:
            db.execute("BEGIN IMMEDIATE")
            self.date_locks(db)
            self.date_turns(db)
            for row, app in db.execute("SELECT row, app FROM sessions WHERE app LIKE '%@%'").fetchall():
                db.execute("UPDATE sessions SET app = ?, host = ? WHERE row = ?", (*app.split("@"), row))

    def date_locks(self, db):
        def set_times(of, *keys):
            for key in keys:
                of[key] = EPOCH + datetime.timedelta(milliseconds=self.dated(in_ms(of[key])))

        for name, record in db.execute("SELECT name, record FROM locks").fetchall():
            lock = bson.decode(record)
            for entry in lock["holders"] + lock["queue"]:
                set_times(entry, "since", "granted_at")
                entry["actor"] = neutral(entry["actor"])
            if "last" in lock:
                set_times(lock["last"], "at")
                lock["last"].update({key: neutral(lock["last"][key]) for key in ("who", "reason")
                                     if key in lock["last"]})
            db.execute("UPDATE locks SET record = ? WHERE name = ?", (bson.encode(lock), name))

    def date_turns(self, db):
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'history'").fetchall():
            return
        for row, who, reason, *times in db.execute(
                "SELECT row, who, reason, granted_at, ended_at FROM history").fetchall():
            db.execute("UPDATE history SET who = ?, reason = ?, granted_at = ?, ended_at = ? WHERE row = ?",
                       (neutral(who), neutral(reason), *map(self.dated, times), row))

    def let_run_out(self, name, minutes):
        """The lease of this lock is over, for so long."""
        with sqlite3.connect(self.path("locks.db"), timeout=browsing.serving.PATIENCE) as db:
            [[record]] = db.execute("SELECT record FROM locks WHERE name = ?", (name,))
            session = bson.decode(record)["holders"][0]["session"].binary
            db.execute("UPDATE sessions SET expires_at = expires_at - ttl_ms - ? WHERE id = ?",
                       (int(minutes * MINUTE_MS), session))
