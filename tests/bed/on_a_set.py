# What tests on a replica set share: the set, workers that hold or wait, records and sessions in it.
# SPDX-License-Identifier: Apache-2.0
import unittest

from contest import Command, Contest, Worker
from mongod import ReplicaSet

LONG_TTL = "10000"
SHORT_TTL = "6000"  # no shorter than what a machine that stops for seconds can keep


def is_gone(pid):
    """A process has ended, though perhaps nobody has waited for it."""
    try:
        with open("/proc/%d/stat" % pid) as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


shared = ReplicaSet()  # a machine that is slow for two seconds elects nobody


class OnASet(unittest.TestCase):
    """One set for most tests; each finds it whole, and takes a lock of its own name."""

    rs = shared

    @classmethod
    def setUpClass(cls):
        cls.mongo = cls.rs.client()
        cls.addClassCleanup(cls.mongo.close)

    def setUp(self):
        self.name = self.id().rsplit(".", 1)[1]
        self.addCleanup(self.make_whole)

    def make_whole(self):
        for member in self.rs.members:
            if member.running():
                self.rs.cont(member)
            else:
                member.start()
        self.rs.wait_primary()
        self.rs.wait_secondaries()
        self.rs.heal()

    def start(self, program):
        self.addCleanup(program.kill)
        return program

    def contest(self, uri=None):
        contest = Contest(uri or self.rs.uri, self.name)
        self.addCleanup(contest.__exit__)
        return contest

    def scripted(self, *words, uri=None):
        worker = Worker(uri or self.rs.uri, "--script", "--name=" + self.name, *words)
        worker = self.start(worker)
        worker.wait("ready", 10)
        return worker

    def holder(self, *words, uri=None):
        """A worker that holds the lock; its token is holder.token."""
        worker = self.scripted(*words, uri=uri)
        worker.token = worker.ask("acquire", "acquired")["token"]
        return worker

    def waiter(self, *words, uri=None):
        """A worker that stands in the queue."""
        worker = self.scripted(*words, uri=uri)
        worker.ask("acquire", "waits")
        return worker

    def run_holder(self, *words, verb="run", uri=None):
        """`holdfast run`, whose child holds until a line comes on its stdin; .child is its pid."""
        run = self.start(Command("--store", uri or self.rs.uri, *words, verb, self.name, "--", "bash",
                                 "-c", "echo child $$; read line"))
        run.child = int(run.line("child", 20)[1].split()[1])
        return run

    def record(self):
        return self.mongo.holdfast.holdfast.locks.find_one({"_id": self.name})

    def tickets(self):
        record = self.record() or {"holders": [], "queue": []}
        return record["holders"] + record["queue"]

    def session_of(self, worker):
        return self.mongo.holdfast.holdfast.sessions.find_one({"pid": worker.pid})

    def assert_check(self, worker, code):
        answer = worker.ask("check", "check")
        self.assertEqual(answer["code"], code, answer)
        return answer


class OnAQuickSet(OnASet):
    """A set of its own, which misses a primary soon."""

    @classmethod
    def setUpClass(cls):
        cls.rs = ReplicaSet(election_ms=2000)
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()
        super().setUpClass()
