"""Programs of this version and of the one in HOLDFAST_OLD (a build folder) in one database, for each
protocol: they exclude each other, wait for each other, and lose no update; and each can list, break
and take over what the other has left.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import tempfile
import time
import unittest

import pymongo

from contest import Command, Contest, Worker, check_counter, check_exclusion, check_failures
from mongod import ReplicaSet

OLD = os.environ["HOLDFAST_OLD"]
SECONDS = 20
servers = ReplicaSet(election_ms=2000)


def setUpModule():
    unittest.addModuleCleanup(servers.stop)
    servers.start()


def old_uri(uri):
    """The old one has protocol `queue`, too, lock in the collection that it is in now; see `run`."""
    is_queue = uri.startswith("mongodb:") and "hfProtocol" not in uri
    return uri + "&hfCollection=holdfast.locks" if is_queue else uri


class OldWorker(Worker):
    program = os.path.join(OLD, "live_worker")

    def __init__(self, uri, *words):
        super().__init__(old_uri(uri), *words)


class OldCommand(Command):
    program = os.path.join(OLD, "holdfast")

    def __init__(self, option, uri, *words):
        super().__init__(option, old_uri(uri), *words)


class Ages:
    """`uri` is the store; both ages use the lock x in it."""

    def start(self, program):
        self.addCleanup(program.kill)
        return program

    def done(self, program, status=0):
        self.start(program)
        self.assertEqual(program.status(60), status, str(program))
        return program

    def test_they_contend(self):
        with Contest(self.uri, "x") as contest:
            for worker in (Worker, OldWorker) * 3:
                contest.add_endless(worker=worker)
            time.sleep(SECONDS)
            contest.await_turns(1, 60)
            contest.finish(60)
            turns = contest.turns()
            check_counter(self, contest)
            check_exclusion(self, turns)
            check_failures(self, contest)
            print("%s: %d turns, %s" % (self.id(), len(turns),
                                        [len(each.events("turn")) for each in contest.workers]))

    def check_wait(self, holder, waiter):
        self.start(holder).ask("acquire", "acquired")
        self.start(waiter).ask("acquire", "waits")
        holder.ask("release", "release")
        waiter.wait("acquired", 60)
        waiter.ask("release", "release")

    def test_one_waits_for_the_other(self):
        words = (self.uri, "--script", "--name=x")
        self.check_wait(Worker(*words), OldWorker(*words))
        self.check_wait(OldWorker(*words), Worker(*words))

    def check_death(self, dead, heir):
        self.start(dead).ask("acquire", "acquired")
        dead.signal(signal.SIGKILL)
        dead.process.wait()
        self.start(heir).send("acquire 300000")
        heir.wait("acquired", 120)
        heir.ask("release", "release")

    def test_one_follows_the_other_that_died(self):
        words = (self.uri, "--script", "--name=x", "--ttl=2000")
        self.check_death(Worker(*words), OldWorker(*words))
        self.check_death(OldWorker(*words), Worker(*words))

    def check_seen(self, holder, command):
        self.start(holder).ask("acquire", "acquired")
        shown = self.done(command("--store", self.uri, "show", "--json", "x"))
        found = json.loads("\n".join(shown.lines))
        self.assertEqual(len(found["holders"]), 1, found)
        holder.ask("release", "release")

    def test_one_sees_the_other(self):
        words = (self.uri, "--script", "--name=x")
        self.check_seen(Worker(*words), OldCommand)
        self.check_seen(OldWorker(*words), Command)


class OnSqlite(Ages, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-ages-")
        self.addCleanup(folder.cleanup)
        self.uri = "sqlite:" + os.path.join(folder.name, "locks.db")

    def test_a_file_of_the_old_one(self):
        self.done(OldCommand("--store", self.uri, "run", "x", "--", "true"))
        self.done(Command("--store", self.uri, "run", "x", "--", "true"))
        self.done(OldCommand("--store", self.uri, "run", "x", "--", "true"))


class OnMongo(Ages):
    keys = ""

    def setUp(self):
        base, _, options = servers.uri.partition("?")
        name = self.id().replace(".", "_")[-60:]
        self.uri = "%s/%s?%s%s" % (base.rstrip("/"), name, options, self.keys)
        self.db = pymongo.MongoClient(servers.uri)[name]


class OnQueue(OnMongo, unittest.TestCase):
    def check_break(self, holder, command):
        self.start(holder).ask("acquire", "acquired")
        self.done(command("--store", self.uri, "break", "x", "--reason", "age"))
        holder.wait("told", 60)
        holder.kill()

    def test_one_breaks_the_lock_of_the_other(self):
        words = (self.uri, "--script", "--name=x", "--ttl=3000")
        self.check_break(Worker(*words), OldCommand)
        self.check_break(OldWorker(*words), Command)


class OnTtl(OnMongo, unittest.TestCase):
    keys = "&hfProtocol=ttl&hfPollMS=50"


class OnSharding(OnMongo, unittest.TestCase):
    keys = "&hfProtocol=sharding&hfPollMS=50&hfPingMS=300&hfExpiryMS=20000"


class OnDocument(OnMongo, unittest.TestCase):
    keys = "&hfProtocol=document&hfCollection=orders&hfTokenField=fence&hfPollMS=50"

    def setUp(self):
        super().setUp()
        self.db.orders.insert_one({"_id": "x"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
