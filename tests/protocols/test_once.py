# Once per period, and how the last holder left, in the protocols without a queue: beside programs
# written after the articles, which must not notice. SPDX-License-Identifier: Apache-2.0
import datetime
import signal
import time
import unittest

import bson

from contest import Command
from foreign import OnASet, as_json, start_set
from proxy import Proxy

TEN_YEARS = "87600h"  # none ends before 2029


def setUpModule():
    start_set()


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class Outcomes(OnASet):
    """What is so in each of the three; the name is a document's _id, where there must be one."""

    def ours(self, *words, uri=None):
        return self.start(Command("--store", uri or self.uri, "-v", *words))

    def once(self, *words, status=0):
        return self.run_command("-v", "run", "--once-per", TEN_YEARS, *words, "x", "--", "sh", "-c",
                                "exit 0", status=status)

    def holder_of_period(self):
        holder = self.ours("run", "--once-per", TEN_YEARS, "x", "--", "sh", "-c",
                           "echo up; exec sleep 600")
        holder.line("up", 30)
        return holder

    def outcomes(self):
        return self.db[self.collection + ".done"].find_one({"_id": "x"})

    def last(self):
        return as_json(self.run_command("show", "x", "--json"))["last"]

    def crash(self):
        """A holder that dies; its lock can be had a ttl later."""
        holder = self.ours("run", "--once-per", TEN_YEARS, "x", "--", "sh", "-c",
                           "echo up; exec sleep 60 >/dev/null 2>&1")  # it is left behind
        holder.line("up", 30)
        holder.kill()

    def check_once(self):
        self.once()
        done = self.outcomes()
        self.assertEqual((done["last"]["outcome"], done["done"]["exit_status"]), ("released", 0))
        self.assertEqual(done["holders"], [])
        self.once("--skip-code", "9", status=9)
        self.assertEqual(self.outcomes(), done)
        for listed in (as_json(self.run_command("list", "--all", "--json"))[0],
                       as_json(self.run_command("show", "x", "--json"))):
            self.assertEqual((listed["name"], listed["holders"]), ("x", []))
            self.assertEqual(listed["last"]["outcome"], "released")
            self.assertEqual(listed["last"]["done"]["exit_status"], 0)

    def check_failure(self):
        self.run_command("run", "--once-per", TEN_YEARS, "x", "--", "sh", "-c", "exit 3", status=3)
        self.once("--skip-code", "9", status=9)
        self.once("--retry", "--skip-code", "9")
        self.assertEqual(self.last()["exit_status"], 0)
        self.once("--retry", "--skip-code", "9", status=9)

    def check_death(self):
        self.crash()
        taken = self.once("-w", "60s")
        self.assertIn("was abandoned by", str(taken))
        self.once("--skip-code", "9", status=9)


class WithTtl(Outcomes):
    keys = {"Protocol": "ttl"}
    collection = "locks"

    def test_once(self):
        self.check_once()

    def test_a_failure_is_repeated_only_when_asked(self):
        self.check_failure()

    def test_the_next_one_takes_up_what_a_dead_one_left(self):
        self.check_death()

    def test_the_lock_is_free_for_others_in_between(self):
        self.once()
        self.assertIsNone(self.db.locks.find_one({"_id": "x"}))
        self.db.locks.insert_one({"_id": "x", "acquirer": "them", "updated": now()})
        self.run_command("run", "-n", "x", "--", "true", status=75)
        self.assertEqual(self.last()["exit_status"], 0)
        self.assertEqual(self.db.locks.delete_one({"_id": "x", "acquirer": "them"}).deleted_count, 1)
        self.once("--skip-code", "9", status=9)

    def test_a_lost_holder_says_nothing_of_the_period(self):
        holder = self.holder_of_period()
        self.db.locks.delete_one({"_id": "x"})
        self.assertEqual(holder.status(60), 76)
        self.assertNotIn("period", self.outcomes().get("done", {}))
        self.once("--skip-code", "9")

    def test_what_was_broken_is_taken_up(self):
        holder = self.holder_of_period()
        self.run_command("break", "x", "--force", "--reason", "stuck")
        self.assertEqual(holder.status(60), 76)
        said = str(self.once())
        self.assertIn("was abandoned by", said)
        self.assertNotIn("token 0", said)

    def test_show_tells_what_was_finished_before(self):
        self.run_command("run", "x", "--", "sh", "-c", "exit 3", status=3)
        shown = str(self.run_command("show", "x"))
        self.assertRegex(shown, "last +released by .*, exit status 3")
        self.assertNotRegex(shown, "token 0|done  ")
        holder = self.ours("run", "x", "--", "sh", "-c", "echo up; exec sleep 600")
        holder.line("up", 30)
        self.run_command("break", "x", "--force", "--reason", "stuck")
        self.assertEqual(holder.status(60), 76)
        shown = str(self.run_command("show", "x"))
        self.assertRegex(shown, "last +abandoned by ")
        self.assertRegex(shown, "done +by .*, exit status 3")

    def test_one_that_stops_before_its_release_overwrites_nothing(self):
        """It is stopped for longer than its lease, as its work ends."""
        stopped = self.ours("run", "--once-per", TEN_YEARS, "x", "--", "sh", "-c",
                            "echo up; read line; exit 5")
        stopped.line("up", 30)
        stopped.signal(signal.SIGSTOP)
        self.once("-w", "60s")
        stopped.signal(signal.SIGCONT)
        stopped.send("")
        self.assertEqual(stopped.status(60), 76)
        self.assertEqual(self.outcomes()["done"]["exit_status"], 0)
        self.assertEqual(self.last()["outcome"], "released")

    def test_of_many_that_start_it_one_runs(self):
        started = [self.ours("run", "-w", "120s", "--once-per", TEN_YEARS, "x", "--", "echo", "ran")
                   for _ in range(8)]
        for each in started:
            self.assertEqual(each.status(120), 0, str(each))
        self.assertEqual(sum(each.count("ran") for each in started), 1)

    def test_beside_programs_of_the_article(self):
        """Both take turns at one counter, and each period's work of ours is done once."""
        contest = self.mixed()
        for _ in range(2):
            contest.add_other("insert.py", self.database)
        contest.add_endless("--ttl=10000", "--pause=60")
        contest.await_turns(1, 30)
        jobs = [self.ours("run", "-w", "120s", "--once-per", TEN_YEARS, "x", "--", "echo", "ran")
                for _ in range(4)]
        self.assertEqual([each.status(120) for each in jobs], [0] * 4)
        self.assertEqual(sum(each.count("ran") for each in jobs), 1)
        for other in contest.others:
            other.line("turn", 60)
        contest.await_turns(1, 30)
        contest.finish(60)
        contest.check(self)

    def deny(self, name, command, reply):
        """As for a user with rights on the collection of the locks only."""
        if command[name] == "locks.done":
            reply.clear()
            reply.update(ok=0.0, code=13, codeName="Unauthorized", errmsg="not authorized")

    def test_without_the_right_to_write_there(self):
        with Proxy(self.rs.wait_primary().host, self.deny) as proxy:
            uri = proxy.uri(self.database, hfProtocol="ttl")
            run = self.run_command("-v", "run", "x", "--", "true", uri=uri)
            self.assertIn("how locks are left is not kept", run.errors)
            self.assertIsNone(self.db.locks.find_one({"_id": "x"}))
            self.run_command("list", uri=uri)
            refused = self.run_command("run", "--once-per", TEN_YEARS, "x", "--", "true", uri=uri,
                                       status=69)
            self.assertIn("readWrite", refused.errors)
            self.assertIsNone(self.db.locks.find_one({"_id": "x"}))


class WithDocument(Outcomes):
    keys = {"Protocol": "document", "Collection": "jobs", "RefreshMS": 1000, "StaleMultiplier": 10}
    collection = "jobs"

    def setUp(self):
        super().setUp()
        self.theirs = {"_id": "x", "what": "report", "at": bson.ObjectId()}
        self.db.jobs.insert_one(dict(self.theirs))

    def seen(self):
        """The user's document, but for the lock's own fields."""
        document = self.db.jobs.find_one({"_id": "x"})
        self.assertIsNone(document.pop("lockId", None))
        self.assertIsNone(document.pop("lockTs", None))
        return document

    def test_once(self):
        self.check_once()
        self.assertEqual(self.seen(), self.theirs)

    def test_a_failure_is_repeated_only_when_asked(self):
        self.check_failure()

    def test_the_next_one_takes_up_what_a_dead_one_left(self):
        self.check_death()

    def test_a_program_of_the_article_in_between(self):
        self.once()
        taken = self.db.jobs.find_one_and_update(
            {"_id": "x", "lockId": None}, {"$set": {"lockId": bson.ObjectId(), "lockTs": now()}})
        self.assertIsNotNone(taken)
        self.run_command("run", "-n", "x", "--", "true", status=75)
        self.db.jobs.update_one({"_id": "x"}, {"$set": {"lockId": None, "lockTs": None}})
        self.once("--skip-code", "9", status=9)

    def test_claims_are_noted(self):
        self.run_command("run", "--document", "jobs", "--filter", '{"what":"report"}', "--", "true")
        self.assertEqual(self.db.jobs.done.find_one()["last"]["exit_status"], 0)


class WithSharding(Outcomes):
    keys = {"Protocol": "sharding", "PingMS": 300, "ExpiryMS": 10000, "PollMS": 50}
    collection = "locks"

    def test_once(self):
        self.check_once()
        self.assertEqual(self.db.locks.find_one({"_id": "x"})["state"], 0)

    def test_a_program_of_the_article_in_between(self):
        self.once()
        ts = bson.ObjectId()
        taken = self.db.locks.find_one_and_update(
            {"_id": "x", "state": 0},
            {"$set": {"ts": ts, "state": 2, "who": "them:main", "process": "them", "when": now(),
                      "why": "counting"}})
        self.assertIsNotNone(taken)
        self.run_command("run", "-n", "x", "--", "true", status=75)
        self.db.locks.update_one({"_id": "x", "ts": ts}, {"$set": {"state": 0}})
        self.once("--skip-code", "9", status=9)

    def test_a_failure_is_repeated_only_when_asked(self):
        self.check_failure()

    def test_the_next_one_takes_up_what_a_dead_one_left(self):
        self.check_death()


if __name__ == "__main__":
    unittest.main()
