# Locks on a real replica set of three servers, while processes and servers die and pause.
# SPDX-License-Identifier: Apache-2.0
import datetime
import os
import pwd
import signal
import time
import unittest

from beats import before_a_beat
from contest import Command, boot_ns, check_all, idle_seconds, seconds_since
from guardian import kill_host
from mongod import ReplicaSet, until
from on_a_set import LONG_TTL, SHORT_TTL, OnAQuickSet, OnASet, is_gone, shared

# For a lease that is to outlive a failover: nothing may be lost then. When the primary was stopped,
# the servers need about 7 s until a majority acknowledges again: the election's 2 s and more, and
# the 5 s after which a secondary does not wait any longer for a primary that says nothing.
FAILOVER_TTL = "30000"


def setUpModule():
    unittest.addModuleCleanup(shared.stop)
    shared.start()


class Contention(OnASet):
    def test_eight_processes_lose_no_update(self):
        contest = self.contest()
        for _ in range(8):
            contest.add("--turns=30", "--ttl=" + LONG_TTL)
        contest.finish(60)
        self.assertEqual(contest.value(), 240)
        check_all(self, contest)

    def test_readers_writers_and_tries_keep_apart(self):
        contest = self.contest()
        for mode in ["exclusive", "exclusive", "shared", "shared", "shared", "try"]:
            contest.add("--turns=15", "--mode=" + mode, "--ttl=" + LONG_TTL, "--work=10")
        contest.finish(60)
        check_all(self, contest)

    def test_permits_are_never_exceeded(self):
        contest = self.contest()
        for permits in [1, 1, 1, 2, 2, 3]:
            contest.add("--turns=15", "--permits=%d" % permits, "--limit=3", "--ttl=" + LONG_TTL,
                        "--work=10")
        contest.finish(60)
        check_all(self, contest)
        together = sorted(contest.turns(), key=lambda turn: turn["from"])
        self.assertTrue(any(a["until"] > b["from"] for a, b in zip(together, together[1:])),
                        "nobody ever held together with another")


class Connections(OnASet):
    def connections(self, member):
        with member.client() as client:
            return len(list(client.admin.aggregate([
                {"$currentOp": {"allUsers": True, "idleConnections": True}},
                {"$match": {"appName": self.name, "connectionId": {"$exists": True}}}])))

    def test_a_waiter_has_two_to_the_primary_and_one_to_the_others(self):
        holder = self.holder("--ttl=" + LONG_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL, uri=self.rs.uri + "&appName=" + self.name)
        self.check_connections(waiter)
        holder.ask("release", "release")
        waiter.wait("acquired", 10)

    def test_threads_that_wait_look_one_after_the_other(self):
        """Each has a ticket of its own, and all look when the holder has beaten."""
        holder = self.holder("--ttl=" + LONG_TTL)
        contest = self.contest(uri=self.rs.uri + "&appName=" + self.name)
        waiters = contest.add("--threads=8", "--turns=1", "--local-turns=-1", "--ttl=" + LONG_TTL)
        until(lambda: len(self.tickets()) == 9, 20, "the waiters")
        self.check_connections(waiters)
        holder.ask("release", "release")
        contest.finish(60)
        self.assertEqual(contest.value(), 8)

    def check_connections(self, waiter):
        until(lambda: self.session_of(waiter)["beat"] > 2, 60, "beats of the waiter")
        primary = self.rs.wait_primary()
        for member in self.rs.members:
            most = 2 if member is primary else 1
            # Calls that met have opened more; what is not needed is closed after ten seconds.
            until(lambda: self.connections(member) <= most, 60, "no more than %d connections" % most)


class Crashes(OnASet):
    def test_a_killed_holder_is_followed_within_a_ttl_and_a_second(self):
        holder = self.holder("--ttl=" + SHORT_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL)
        holder.signal(signal.SIGKILL)
        killed = boot_ns()
        had = waiter.wait("acquired", 10)
        # L1: a ttl after the last beat, two allowances of 11 ms, and the look's 0.1 s
        self.assertLess(idle_seconds(killed, had["at"]), 6 + 1)
        self.assertGreater(had["token"], holder.token)
        self.assertEqual(had["previous"], 2, "HF_OUTCOME_ABANDONED")
        self.assertEqual(had["previous_token"], holder.token)

    def test_a_killed_run_is_followed_within_a_ttl_and_a_second(self):
        self.check_followed("run")

    def test_a_killed_leader_is_followed_within_a_ttl_and_a_second(self):
        follower = self.start(Command("--store", self.rs.uri, "elect", "--print", self.name))
        follower.line("nobody", 20)
        leader = self.check_followed("elect")
        self.assertIn(":%d since" % leader.pid, follower.line(pwd.getpwuid(os.getuid()).pw_name + "/bash@", 5)[1])
        # the candidate has resigned, too, as its command has ended
        follower.until(lambda: follower.lines[-1] == "nobody", 5, "that nobody leads")

    def check_followed(self, verb):
        run = self.run_holder("--ttl", "6s", verb=verb)
        waiter = self.start(Command("--store", self.rs.uri, "-v", verb, self.name, "--", "echo",
                                    "had"))
        waiter.said("waiting for", 10)
        kill_host(run)
        killed = boot_ns()
        until(lambda: is_gone(run.child), 2, "the end of the killed run's child")
        at, _ = waiter.line("had", 10)
        # as above; and the start of echo, which is well within the second
        self.assertLess(idle_seconds(killed, at), 6 + 1)
        self.assertEqual(waiter.status(10), 0)
        return run

    def test_a_try_finds_a_holder_that_died_long_ago(self):
        trier = self.scripted("--clock-trust=500", "--mode=try")
        holder = self.holder("--ttl=6000")
        beaten = before_a_beat(lambda: self.session_of(holder)["beat"])
        holder.signal(signal.SIGKILL)
        had = until(lambda: self.has_tried(trier), 60, "the lock")
        # R6: a ttl of 6 s and a trust of 0.5 s after the last beat
        self.assertGreater((had["at"] - beaten) / 1e9, 6.5 - 0.1)
        self.assertGreater(had["token"], holder.token)

    def test_a_try_finds_a_holder_that_was_never_renewed(self):
        """Dead before its second beat; a minute and an hour later by all clocks of this host."""
        run = self.run_holder("--ttl", "30s")
        kill_host(run)
        self.make_older(run, 120000)
        refused = self.start(Command("--store", self.rs.uri, "run", "-n", self.name, "--", "true"))
        self.assertEqual(refused.status(20), 75, refused)
        self.assertRegex(refused.errors, r"its lease ended \d+s ago, so it is probably dead: a "
                         r"request that waits 45s or longer \(-w 45s, wait_ms 45000\) makes sure")
        self.make_older(run, 3600000)
        tried = self.start(Command("--store", self.rs.uri, "run", "-n", self.name, "--", "true"))
        self.assertEqual(tried.status(20), 0, tried)

    def make_older(self, run, ms):
        self.mongo.holdfast.holdfast.sessions.update_one({"pid": run.pid}, [{"$set": {
            "expires_at": {"$subtract": ["$expires_at", ms]},
            "clock.at": {"$subtract": ["$clock.at", ms]}}}])

    def has_tried(self, worker):
        answer = worker.ask("acquire", "acquired refused")
        if answer["event"] == "acquired":
            return answer
        self.assertEqual(answer["code"], "HF_HELD")
        return None

    def test_a_paused_holder_finds_its_lock_lost_at_its_first_call(self):
        holder = self.holder("--ttl=" + SHORT_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL)
        holder.signal(signal.SIGSTOP)
        had = waiter.wait("acquired", 10)
        holder.send("check")
        holder.signal(signal.SIGCONT)
        answer = holder.wait("check", 10)
        self.assertEqual(answer["code"], "HF_LOST", answer)
        self.assertGreater(had["token"], holder.token)
        self.assert_check(waiter, "HF_OK")
        again = holder.ask("release", "release")
        self.assertEqual(again["code"], "HF_LOST", again)
        self.assert_check(waiter, "HF_OK")

    def test_a_paused_run_stops_its_child_and_says_so(self):
        run = self.run_holder("--ttl", "6s")
        waiter = self.waiter("--ttl=" + LONG_TTL)
        run.signal(signal.SIGSTOP)
        waiter.wait("acquired", 10)
        run.signal(signal.SIGCONT)
        self.assertEqual(run.status(10), 76, run)
        self.assertTrue(is_gone(run.child))
        self.assertIn("lost the lock", run.errors)
        self.assert_check(waiter, "HF_OK")


class Failovers(OnAQuickSet):
    """Each of eight processes counts up while the primary goes: five through the library, three
    through `holdfast run`."""

    def contend(self):
        contest = self.contest()
        for _ in range(5):
            contest.add_endless("--ttl=" + FAILOVER_TTL)
        for _ in range(3):
            contest.add_command("--ttl", "30s")
        contest.await_turns(2, 40)
        return contest

    def end(self, contest):
        # an election of 2 to 5 s, a socket's 5 s, a release's time to be confirmed, and 8 turns
        contest.await_turns(3, 40)
        contest.finish(40)
        check_all(self, contest)

    def test_a_killed_primary(self):
        contest = self.contend()
        old = self.rs.wait_primary()
        self.rs.kill(old)
        self.rs.wait_primary(other_than=old)
        self.end(contest)

    def test_a_drop_just_before_is_found_in_time(self):
        """The look that is due has no answer, as its connection went with the primary: it is repeated."""
        holder = self.holder("--ttl=12000")
        self.mongo.holdfast.holdfast.locks.delete_one({"_id": self.name})
        gone = boot_ns()
        self.rs.step_down()
        told = holder.wait("told", 30)
        self.assertLess(idle_seconds(gone, told["at"]), 12 + 4 + 2)  # L3, and two retries

    def test_a_stopped_primary_that_comes_back(self):
        contest = self.contend()
        old = self.rs.wait_primary()
        self.rs.kill(old, signal.SIGSTOP)
        self.rs.wait_primary(other_than=old)
        contest.await_turns(1, 40)
        self.rs.cont(old)
        self.end(contest)

    def test_a_primary_that_steps_down(self):
        contest = self.contend()
        self.rs.step_down()
        self.end(contest)

    def test_a_waiter_hears_whom_the_next_primary_grants(self):
        holder = self.holder("--ttl=" + FAILOVER_TTL)
        waiter = self.waiter("--ttl=" + FAILOVER_TTL)
        self.rs.step_down()
        holder.ask("release", "release")
        released = boot_ns()
        had = waiter.wait("acquired", 10)
        self.assertLess(idle_seconds(released, had["at"]), 3 + 1)  # L2: a look, if it hears nothing


class ClockAhead(OnASet):
    """Of a set of its own, member 1's clock is 25 s ahead, and it becomes the primary."""

    @classmethod
    def setUpClass(cls):
        cls.rs = ReplicaSet(election_ms=2000, skew={1: 25})
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.ahead = self.rs.members[1]
        self.step_up(self.rs.members[0])

    def step_up(self, member):
        """An election can fail, when the member has not seen the latest write yet."""
        until(lambda: self.rs.primary() is member or self.rs.step_up(member, wait=False), 30,
              "an election")
        until(lambda: self.rs.primary() is member, 30, "the new primary")

    def assert_is_ahead(self):
        clock = self.ahead.wait_hello()["localTime"].replace(tzinfo=datetime.timezone.utc)
        ahead = clock.timestamp() - time.time()
        self.assertAlmostEqual(ahead, 25, delta=2)

    def test_a_live_lease_does_not_end(self):
        holder = self.holder("--ttl=" + LONG_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL)
        self.step_up(self.ahead)
        self.assert_is_ahead()
        stepped = boot_ns()
        # over a whole ttl after the election: who stole by the clock would have done it at once,
        # who stole because of the election's pause in beats would by now
        while seconds_since(stepped) < 10.5:
            self.assert_check(holder, "HF_OK")
            run = self.start(Command("--store", self.rs.uri, "run", "-n", self.name, "--", "true"))
            self.assertEqual(run.status(20), 75, run)
        self.assertEqual(waiter.events("acquired"), [])
        self.assertEqual(holder.ask("release", "release")["code"], "HF_OK")
        self.assertGreater(waiter.wait("acquired", 10)["token"], holder.token)

    def test_a_try_does_not_trust_the_clock_of_another_primary(self):
        holder = self.holder("--ttl=20000")
        holder.signal(signal.SIGSTOP)  # no beat: expires_at stays as the old primary's clock said
        self.step_up(self.ahead)
        self.assert_is_ahead()
        trier = self.scripted("--mode=try", "--clock-trust=1000")
        refused = trier.ask("acquire", "refused")
        self.assertEqual(refused["code"], "HF_HELD", refused)
        holder.send("check")
        holder.signal(signal.SIGCONT)
        answer = holder.wait("check", 10)
        self.assertEqual(answer["code"], "HF_OK", "of a lease of 20 s: %s" % answer)


class ClockSet(OnASet):
    """A set of one, whose clock can be moved: it stays primary, as it has nobody to hear from."""

    @classmethod
    def setUpClass(cls):
        cls.rs = ReplicaSet(members=1, skew={0: 0})
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()
        super().setUpClass()

    def test_a_try_does_not_trust_a_clock_that_was_set(self):
        """The server's uptime follows its clock, and tells nothing."""
        holder = self.holder("--ttl=15000")
        until(lambda: self.session_of(holder)["beat"] > 2, 60, "a second beat")
        self.rs.members[0].move_clock(3600)
        # no beat comes in between: the lease ends by the new clock, and the holder knows better
        self.mongo.holdfast.holdfast.sessions.update_one({"pid": holder.pid}, [
            {"$set": {"expires_at": {"$subtract": ["$$NOW", 3500000]}}}])
        trier = self.scripted("--mode=try", "--clock-trust=1000")
        refused = trier.ask("acquire", "refused")
        self.assertEqual(refused["code"], "HF_HELD", refused)
        self.assert_check(holder, "HF_OK")


if __name__ == "__main__":
    unittest.main(verbosity=2)
