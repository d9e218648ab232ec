# What the tests of the articles' protocols share: stores and programs that are not ours, on one set.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import time
import unittest

from contest import Command, Contest, Program, Worker, check_exclusion, check_failures
from mongod import ReplicaSet

HERE = os.path.dirname(os.path.abspath(__file__))

shared = ReplicaSet()


def start_set(members=1, election_ms=None):
    """One server costs the machine a third, and is primary for ever: a fault that is set there, and a proxy,
    stay with it. election_ms: for tests in which the primary steps down, as all fails until there is another
    one."""
    shared.election_ms = election_ms
    del shared.members[members:]
    unittest.addModuleCleanup(shared.stop)
    shared.start()


def store_of(database, **keys):
    """The set's URI with that database and our keys."""
    base, _, options = shared.uri.partition("?")
    ours = "&".join("hf%s=%s" % (key, value) for key, value in keys.items())
    return base.rstrip("/") + "/" + database + "?" + options + "&" + ours


class Mixed(Contest):
    """Ours and others over one counter."""

    def __init__(self, store, name):
        super().__init__(store, name)
        self.others = []

    def __exit__(self, *_):
        for each in self.others:
            each.kill()
        super().__exit__()

    def add_other(self, script, database, *words):
        self.others.append(Program(sys.executable, os.path.join(HERE, script), shared.uri, database,
                                   "locks", self.name, self.counter, self.end, *words,
                                   env={"PYTHONDONTWRITEBYTECODE": "1"}))
        return self.others[-1]

    def run_for(self, seconds):
        """And until everybody has had a turn: a slow machine starts some late."""
        time.sleep(seconds)
        for each in self.workers:
            each.wait("turn", 60)
        for each in self.others:
            each.line("turn", 60)

    def finish(self, timeout):
        """The others end their turns, too: what they write is counted by what they say after it."""
        super().finish(timeout)
        for each in self.others:
            each.status(timeout)

    def check(self, test):
        """No update was lost, and ours never believed together; everybody had turns."""
        written = sum(turn["wrote"] for turn in self.turns())
        theirs = [each.count("turn") for each in self.others]
        test.assertEqual(self.value(), written + sum(theirs), "an update was lost")
        check_exclusion(test, self.turns())
        check_failures(test, self)
        test.assertTrue(all(theirs), [str(each) for each in self.others])
        test.assertTrue(all(worker.events("turn") for worker in self.workers))
        print("turns: ours %d, theirs %s" % (written, theirs), file=sys.stderr)


class OnASet(unittest.TestCase):
    """Each test has a database of its own, also where two classes have a test of one name."""

    rs = shared
    keys = {}

    def setUp(self):
        self.database = "-".join(self.id().split(".")[-2:])[:63]  # as long as it may be
        self.mongo = self.rs.client()
        self.addCleanup(self.mongo.close)
        self.db = self.mongo[self.database]
        self.uri = self.store()

    def store(self, **more):
        return store_of(self.database, **dict(self.keys, **more))

    def start(self, program):
        self.addCleanup(program.kill)
        return program

    def mixed(self, uri=None):
        contest = Mixed(uri or self.uri, "x")
        self.addCleanup(contest.__exit__)
        return contest

    def worker(self, *words, uri=None):
        worker = self.start(Worker(uri or self.uri, "--script", "--name=x", *words))
        worker.wait("ready", 10)
        return worker

    def holder(self, *words, uri=None):
        worker = self.worker(*words, uri=uri)
        worker.ask("acquire", "acquired")
        return worker

    def other(self, script, *words):
        """Another program that holds x until it is killed."""
        other = self.start(Program(sys.executable, os.path.join(HERE, script), shared.uri,
                                   self.database, "locks", "x", "-", "/nonexistent", *words,
                                   env={"PYTHONDONTWRITEBYTECODE": "1"}))
        other.line("ready", 20)
        return other

    def run_command(self, *words, uri=None, status=0):
        command = self.start(Command("--store", uri or self.uri, *words))
        self.assertEqual(command.status(30), status, str(command))
        return command


def as_json(command):
    return json.loads("\n".join(command.lines))
