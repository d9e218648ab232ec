# Locks on a real replica set of three servers, while processes and servers die, pause and err.
# SPDX-License-Identifier: Apache-2.0
import datetime
import os
import pwd
import signal
import time
import unittest

from beats import before_a_beat
from contest import (Command, Contest, Worker, boot_ns, check_all, check_failures, check_tokens,
                     idle_seconds, seconds_since)
from guardian import kill_host
from mongod import ReplicaSet, until

LONG_TTL = "10000"
SHORT_TTL = "6000"  # no shorter than what a machine that stops for seconds can keep
# For a lease that is to outlive a failover: nothing may be lost then. When the primary was stopped,
# the servers need about 7 s until a majority acknowledges again: the election's 2 s and more, and
# the 5 s after which a secondary does not wait any longer for a primary that says nothing.
FAILOVER_TTL = "30000"


def is_gone(pid):
    """A process has ended, though perhaps nobody has waited for it."""
    try:
        with open("/proc/%d/stat" % pid) as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


shared = ReplicaSet()  # a machine that is slow for two seconds elects nobody


def setUpModule():
    unittest.addModuleCleanup(shared.stop)
    shared.start()


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

    def run_holder(self, *words, verb="run"):
        """`holdfast run`, whose child holds until a line comes on its stdin; .child is its pid."""
        run = self.start(Command("--store", self.rs.uri, *words, verb, self.name, "--", "bash",
                                 "-c", "echo child $$; read line"))
        run.child = int(run.line("child", 20)[1].split()[1])
        return run

    def record(self):
        return self.mongo.holdfast.locks.find_one({"_id": self.name})

    def tickets(self):
        record = self.record() or {"holders": [], "queue": []}
        return record["holders"] + record["queue"]

    def session_of(self, worker):
        return self.mongo.holdfast.sessions.find_one({"pid": worker.pid})

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
        self.mongo.holdfast.sessions.update_one({"pid": run.pid}, [{"$set": {
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
        self.mongo.holdfast.locks.delete_one({"_id": self.name})
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


class Faults(OnASet):
    """failCommand on the primary, for one worker's connections only: those named "victim"."""

    FAULTS = {
        "closed before it was done": {"closeConnection": True},
        "done, not acknowledged": {"writeConcernError": {"code": 91, "errmsg": "shutting down"}},
        "interrupted": {"errorCode": 91},
    }

    def setUp(self):
        super().setUp()
        self.victim_uri = self.rs.uri_for("", "appName=victim")

    def fail(self, commands, collection="locks", mode=None, **data):
        self.rs.fail_command(commands, mode=mode, member=self.rs.wait_primary(), appName="victim",
                             namespace="holdfast." + collection, **data)

    def hits(self):
        """How often the primary's failCommand has hit since it was set; it goes on."""
        server = self.rs.wait_primary()
        return server.admin("getParameter", **{"failpoint.failCommand": 1})[
            "failpoint.failCommand"]["timesEntered"]

    def assert_no_ticket_stays(self, ttl):
        # an orphan is found by the session's own look at its suspects, each ttl, or ends with it
        until(lambda: not self.tickets(), ttl + 2, "the tickets to go: %s" % self.tickets())

    def assert_hit(self, before):
        until(lambda: self.hits() > before, 60, "the fault to hit")  # a beat comes every two seconds
        self.assertEqual(self.hits(), before + 1)

    def test_an_enter_without_an_answer(self):
        for number, (title, fault) in enumerate(self.FAULTS.items()):
            with self.subTest(title):
                self.name = "enter %d" % number
                before = self.hits()
                self.fail("findAndModify", **fault)
                worker = self.holder("--ttl=" + SHORT_TTL, uri=self.victim_uri)
                self.assert_hit(before)
                self.assert_check(worker, "HF_OK")
                self.assertEqual(len(self.tickets()), 1)
                self.assertEqual(worker.ask("release", "release")["code"], "HF_OK")
                self.assert_no_ticket_stays(6)

    def test_a_leave_without_an_answer(self):
        for number, (title, fault) in enumerate(self.FAULTS.items()):
            with self.subTest(title):
                self.name = "leave %d" % number
                worker = self.holder("--ttl=" + SHORT_TTL, uri=self.victim_uri)
                before = self.hits()
                self.fail(["findAndModify", "update"], **fault)
                self.assertEqual(worker.ask("release", "release")["code"], "HF_OK")
                self.assert_hit(before)
                self.assert_no_ticket_stays(6)
                self.assertEqual(self.record()["last"]["outcome"], "released")

    def test_a_beat_without_an_answer(self):
        for number, (title, fault) in enumerate(self.FAULTS.items()):
            with self.subTest(title):
                self.name = "beat %d" % number
                worker = self.holder("--ttl=" + SHORT_TTL, uri=self.victim_uri)
                before = self.hits()
                self.fail(["findAndModify", "update"], "sessions", **fault)
                self.assert_hit(before)
                hit = boot_ns()
                until(lambda: seconds_since(hit) > 6.1, 10, "a ttl")  # to see that it goes on
                self.assert_check(worker, "HF_OK")
                self.assertEqual(worker.ask("release", "release")["code"], "HF_OK")

    def test_beats_that_all_fail_lose_the_lock_in_time(self):
        for number in range(5):  # a machine that stops the holder just then lets it know too late
            self.name = "late %d" % number
            worker = self.holder("--ttl=" + SHORT_TTL, uri=self.victim_uri)
            waiter = self.waiter("--ttl=" + LONG_TTL)
            self.fail("findAndModify", "sessions", mode="alwaysOn", closeConnection=True)
            told, had = worker.wait("told", 10), waiter.wait("acquired", 10)
            self.rs.heal()
            if told["at"] < had["at"]:
                break
        self.assertLess(told["at"], had["at"], "the holder knew later than the next one had it")

    def test_replies_lost_at_random_lose_no_update(self):
        contest = Contest(self.victim_uri, self.name)
        self.addCleanup(contest.__exit__)
        for fault in self.FAULTS.values():
            self.rs.fail_command(["findAndModify", "insert", "update", "find", "aggregate"],
                                 mode={"activationProbability": 0.15}, appName="victim", **fault)
            for _ in range(4):
                contest.add("--turns=10", "--ttl=" + LONG_TTL)
            contest.finish(60)
            self.rs.heal()
        self.assertEqual(contest.value(), 120)
        check_all(self, contest)
        self.assert_no_ticket_stays(10)

    def test_an_enter_that_lands_after_its_leave_is_taken_out(self):
        worker = self.scripted("--ttl=" + SHORT_TTL, uri=self.victim_uri)
        # longer than the connection's 5 s: the client takes it for lost, and it lands all the same
        self.fail("findAndModify", blockConnection=True, blockTimeMS=7000)
        began = boot_ns()
        worker.send("acquire 1000")
        refused = worker.wait("refused", 12)
        self.assertIn(refused["code"], ["HF_TIMEOUT", "HF_UNKNOWN", "HF_UNREACHABLE"])
        landed = until(self.tickets, 10, "the late enter to land")
        self.assertEqual(len(landed), 1)
        self.assertGreater(seconds_since(began), 6.5)
        self.assert_no_ticket_stays(6)

    def bell(self):
        """The collection on which the waiter listens for rings."""
        waits = until(lambda: (self.mongo.holdfast.locks.find_one(self.name) or {}).get("queue"),
                      10, "the waiter")
        return "locks.bells.%d" % waits[0]["bell"]

    def test_waiters_without_a_bell_get_their_turn(self):
        for commands in (["getMore"], ["find", "getMore"]):
            with self.subTest(commands):
                self.name = "bell " + " ".join(commands)
                holder = self.holder("--ttl=" + LONG_TTL)
                waiter = self.waiter("--ttl=" + LONG_TTL, uri=self.victim_uri)
                before = self.hits()
                self.fail(commands, collection=self.bell(), mode="alwaysOn",
                          errorCode=136)  # CappedPositionLost
                until(lambda: self.hits() > before, 5, "the cursor's end")
                holder.ask("release", "release")
                released = boot_ns()
                had = waiter.wait("acquired", 10)
                # L2: every waiter looks by itself, every 3 s at the latest
                self.assertLess(idle_seconds(released, had["at"]), 3 + 1)
                self.rs.heal()

    def test_a_bell_whose_connection_was_cut_is_opened_anew(self):
        holder = self.holder("--ttl=" + LONG_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL, uri=self.victim_uri)
        before = self.hits()
        self.fail("getMore", collection=self.bell(), closeConnection=True)
        until(lambda: self.hits() > before, 5, "the cursor's end")
        holder.ask("release", "release")
        released = boot_ns()
        had = waiter.wait("acquired", 10)
        self.assertLess(idle_seconds(released, had["at"]), 3 + 1)  # L2, as above

    def test_a_bell_that_is_dropped_is_made_anew(self):
        holder = self.holder("--ttl=" + LONG_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL)
        dropped = self.bell()
        self.mongo.holdfast.drop_collection(dropped)
        until(lambda: self.mongo.holdfast[dropped].options().get("capped"), 10, "the bell")
        holder.ask("release", "release")
        released = boot_ns()
        had = waiter.wait("acquired", 10)
        self.assertLess(idle_seconds(released, had["at"]), 3 + 1)  # L2, as above


    def test_a_bell_that_is_not_capped_is_made_so(self):
        """Who rings a bell that was dropped makes it so."""
        for number in range(1, 65):
            self.mongo.holdfast["locks.bells.%d" % number].drop()
            self.mongo.holdfast["locks.bells.%d" % number].insert_one({"lock": "", "notify": ""})
        holder = self.holder("--ttl=" + LONG_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL)
        until(lambda: self.mongo.holdfast[self.bell()].options().get("capped"), 10, "the bell")
        holder.ask("release", "release")
        waiter.wait("acquired", 10)


class Drops(OnASet):
    def test_a_holder_finds_out_that_the_collection_is_dropped(self):
        holder = self.holder("--ttl=" + SHORT_TTL)
        token = holder.token
        self.mongo.holdfast.locks.drop()
        dropped = boot_ns()
        told = holder.wait("told", 10)
        self.assertLess(idle_seconds(dropped, told["at"]), 6 + 2 + 0.5)  # L3, as below
        self.assert_check(holder, "HF_LOST")
        after = self.holder("--ttl=" + LONG_TTL)
        self.assertGreater(after.token, token, "a dropped collection brought the token down")

    def test_a_holder_that_does_not_listen_finds_it_out_within_a_ttl(self):
        holder = self.holder("--ttl=" + SHORT_TTL)
        self.mongo.holdfast.locks.delete_one({"_id": self.name})
        gone = boot_ns()
        told = holder.wait("told", 10)
        # L3: each lock is verified once per ttl; the job comes round every third of it
        self.assertLess(idle_seconds(gone, told["at"]), 6 + 2 + 0.5)

    def test_waiters_enter_again_after_a_drop(self):
        contest = self.contest()
        for _ in range(4):
            contest.add_endless("--ttl=" + SHORT_TTL)
        contest.await_turns(2, 20)
        self.mongo.holdfast.locks.drop()
        contest.await_turns(2, 20)
        contest.finish(20)
        # two may believe until the holder's next verification: only the tokens are promised
        check_tokens(self, contest.turns())
        check_failures(self, contest, allowed=["lost", "HF_LOST"])


class Ends(OnAQuickSet):
    """With the whole set gone, everything ends in bounded time."""

    def stop_all(self, number):
        for member in self.rs.members:
            self.rs.kill(member, number)
        return boot_ns()

    def test_close(self):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            with self.subTest(number):
                self.make_whole()
                self.name = "close %d" % number
                first = self.holder("--ttl=" + LONG_TTL)
                listener = self.waiter("--ttl=" + LONG_TTL)
                first.ask("release", "release")
                listener.wait("acquired", 10)
                self.name += " too"
                workers = [first, listener, self.scripted(), self.holder("--ttl=" + LONG_TTL)]
                self.stop_all(number)
                for worker in workers:
                    worker.send("close")
                for worker in workers:
                    closed = worker.wait("close", 20)
                    # 4 s for releases, 5 s for a call that was under way, and its end
                    self.assertLess(closed["took_ms"], 10500, worker)

    def test_the_end_of_run(self):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            with self.subTest(number):
                self.make_whole()
                self.name = "run %d" % number
                run = self.run_holder("--ttl", "10s")
                gone = self.stop_all(number)
                run.send("go")
                status = run.status(60)
                # 30 s, in which the release is tried, a call of 5 s that is under way then, and the close
                self.assertLess(idle_seconds(gone), 30 + 5 + 5, run)
                self.assertEqual(status, 79, run)
                self.assertIn("was not released", run.errors)

    def test_a_lost_run(self):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            with self.subTest(number):
                self.make_whole()
                self.name = "lost %d" % number
                run = self.run_holder("--ttl", "3s")
                gone = self.stop_all(number)
                until(lambda: is_gone(run.child), 10, "the end of the child")
                # before the lease ends, which began before the servers stopped
                self.assertLess(idle_seconds(gone), 3.1, run)
                self.assertEqual(run.status(20), 76, run)
                # the lease's 3 s, a call of 5 s that was under way, and the close
                self.assertLess(idle_seconds(gone), 12, run)


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
        self.mongo.holdfast.sessions.update_one({"pid": holder.pid}, [
            {"$set": {"expires_at": {"$subtract": ["$$NOW", 3500000]}}}])
        trier = self.scripted("--mode=try", "--clock-trust=1000")
        refused = trier.ask("acquire", "refused")
        self.assertEqual(refused["code"], "HF_HELD", refused)
        self.assert_check(holder, "HF_OK")


if __name__ == "__main__":
    unittest.main(verbosity=2)
