# Writes that no majority acknowledges, in each protocol: a status must not say that somebody holds a
# lock that nobody holds, nor that all is well where a lock may still stand.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import time
import unittest

from contest import Command
from foreign import OnASet, start_set
from mongod import until

TIMED_OUT = {"code": 64, "errmsg": "waiting for replication timed out"}


def setUpModule():
    start_set(3)


class Cases:
    """`free` tells whether the document says that nobody holds x."""

    def setUp(self):
        super().setUp()
        self.prepare()
        self.options = "&appName=unacknowledged"
        self.addCleanup(self.rs.heal)

    def prepare(self):
        pass

    def command(self, *words, patience=60, ttl="10s"):
        uri = "%s%s&serverSelectionTimeoutMS=%d" % (self.uri, self.options, patience * 1000)
        return self.start(Command("--store", uri, "-v", "--ttl", ttl, *words))

    def fail(self, commands, **data):
        self.rs.fail_command(commands, mode="alwaysOn", appName="unacknowledged", **data)

    @contextlib.contextmanager
    def no_majority(self):
        """The secondaries answer, and replicate nothing: what is written stays on the primary."""
        stopped = self.rs.secondaries()
        for each in stopped:
            each.admin("configureFailPoint", "stopReplProducer", mode="alwaysOn")
        try:
            yield
        finally:
            for each in stopped:
                each.admin("configureFailPoint", "stopReplProducer", mode="off")

    def test_a_try_without_a_majority_does_not_say_that_others_hold(self):
        self.assertEqual(self.command("run", "-n", "x", "--", "true").status(60), 0)
        with self.no_majority():
            run = self.command("run", "-n", "x", "--", "true", patience=8, ttl="30s")
            status = run.status(120)
        self.assertEqual(status, 69, run)
        self.assertNotIn("held by", run.errors)

    def test_a_try_finds_its_own_ticket_of_a_session_that_was_lost(self):
        """The lease ends while no write is acknowledged, and the next session is another one."""
        self.assertEqual(self.command("run", "-n", "x", "--", "true").status(60), 0)
        self.fail(["findAndModify", "update", "delete"], writeConcernError=TIMED_OUT)
        run = self.command("run", "-n", "x", "--", "true", ttl="12s")
        run.said("trying again", 30)
        time.sleep(14)  # the next lease has just begun
        self.rs.heal()
        self.assertEqual(run.status(120), 0, run)
        until(self.free, 30, "the lock to be free")


class Queue(Cases, OnASet):
    keys = {"Protocol": "queue"}

    def free(self):
        return not self.db.holdfast.locks.find_one({"_id": "x"})["holders"]


class Outliving(Cases):
    """Protocols whose locks may stand for longer than a lease."""

    RELEASE = "update"

    def test_a_release_that_fails_to_the_end_is_no_success(self):
        run = self.command("run", "-n", "x", "--", "bash", "-c", "echo up; read line", patience=6,
                           ttl="10s")
        run.line("up", 30)
        self.fail([self.RELEASE], errorCode=11602)
        run.send("end")
        self.assertEqual(run.status(120), 79, run)
        self.assertIn("was not released", run.errors)
        self.assertFalse(self.free())

    def test_the_status_of_a_command_that_failed_stays(self):
        run = self.command("run", "-n", "x", "--", "bash", "-c", "echo up; read line; exit 7",
                           patience=6, ttl="10s")
        run.line("up", 30)
        self.fail([self.RELEASE], errorCode=11602)
        run.send("end")
        self.assertEqual(run.status(120), 7, run)


class Updated(Outliving, OnASet):
    """Programs that are not ours wait until the TTL index has removed the document."""

    keys = {"Protocol": "ttl"}
    RELEASE = "delete"

    def free(self):
        return not self.db.locks.find_one({"_id": "x"})


class ExpireAt(Updated):
    keys = {"Protocol": "ttl", "Shape": "expire-at"}


class Document(Outliving, OnASet):
    keys = {"Protocol": "document", "Collection": "jobs"}

    def prepare(self):
        self.db.jobs.insert_one({"_id": "x"})

    def free(self):
        return self.db.jobs.find_one({"_id": "x"}).get("lockId") is None


class Sharding(Outliving, OnASet):
    keys = {"Protocol": "sharding"}

    def free(self):
        return self.db.locks.find_one({"_id": "x"})["state"] == 0


if __name__ == "__main__":
    unittest.main(verbosity=2)
