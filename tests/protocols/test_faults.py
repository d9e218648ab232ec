# The other protocols than queue, while processes die and stop and the primary steps down, under contention.
# SPDX-License-Identifier: Apache-2.0
import signal
import time
import unittest

from contest import check_exclusion, check_failures, written_twice
from foreign import OnASet, start_set

ENDS = ("lost", "HF_LOST", "HF_UNKNOWN")  # of turns that a fault fell upon


def setUpModule():
    start_set(3, election_ms=2000)


class Faults:
    """Four contenders over a counter that only the lock protects."""

    STOPPED = 4  # seconds: longer than the lease, whoever judges it

    def setUp(self):
        super().setUp()
        self.prepare()
        self.contest = self.mixed()
        for _ in range(4):
            self.contest.add_endless("--ttl=3000", "--work=50", "--pause=50")
        self.contest.await_turns(3, 60)

    def prepare(self):
        pass

    def check(self, killed=0):
        """A process that was killed may have written, and not lived to say so."""
        self.contest.await_turns(3, 60)
        self.contest.finish(60)
        turns = self.contest.turns()
        check_exclusion(self, turns)
        written = sum(turn["wrote"] for turn in turns) + killed
        self.assertIn(self.contest.value() - written, range(2 if killed else 1),
                      "updates were lost: %s" % written_twice(turns))
        check_failures(self, self.contest, ENDS)

    def test_a_killed_process(self):
        worker = self.contest.workers.pop()
        worker.signal(signal.SIGKILL)
        worker.status(60)  # when all that it has said is read
        killed = sum(turn["wrote"] for turn in worker.events("turn"))
        worker.kill()
        self.contest.await_turns(3, 60)
        self.check(killed)

    def test_a_process_that_was_stopped_for_longer_than_its_lease(self):
        worker = self.contest.workers[0]
        for _ in range(3):
            worker.signal(signal.SIGSTOP)
            time.sleep(self.STOPPED)
            worker.signal(signal.SIGCONT)
            self.contest.await_turns(2, 60)
        self.check()

    def test_a_primary_that_steps_down(self):
        for _ in range(2):
            self.rs.step_down(3)
            self.contest.await_turns(2, 90)
        self.check()


class Updated(Faults, OnASet):
    keys = {"Protocol": "ttl"}


class ExpireAt(Faults, OnASet):
    keys = {"Protocol": "ttl", "Shape": "expire-at"}


class OutlivesAStepDown(OnASet):
    """Leases longer than all that happens: no turn is lost."""

    keys = {"Protocol": "ttl"}

    def test_ours_alone_while_the_primary_steps_down(self):
        contest = self.mixed()
        workers = [contest.add_endless("--ttl=60000") for _ in range(6)]
        contest.await_turns(3, 30)
        self.rs.step_down()
        contest.await_turns(3, 60)
        workers[0].signal(signal.SIGSTOP)
        time.sleep(1)
        workers[0].signal(signal.SIGCONT)
        contest.await_turns(3, 60)
        contest.finish(60)
        contest.check(self)


class Sharding(Faults, OnASet):
    STOPPED = 6
    keys = {"Protocol": "sharding", "PollMS": 100, "PingMS": 500, "ExpiryMS": 4000}


class Document(Faults, OnASet):
    keys = {"Protocol": "document", "Collection": "jobs", "RefreshMS": 1000, "StaleMultiplier": 3}

    def prepare(self):
        self.db.jobs.insert_one({"_id": "x", "note": "left alone"})

    def check(self, killed=0):
        super().check(killed)
        self.assertEqual(self.db.jobs.find_one({"_id": "x"})["note"], "left alone")


if __name__ == "__main__":
    unittest.main(verbosity=2)
