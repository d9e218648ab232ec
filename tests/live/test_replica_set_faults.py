# Locks on a real replica set of three servers, while calls fail, collections go, and the whole set ends.
# SPDX-License-Identifier: Apache-2.0
import signal
import unittest

from contest import Contest, boot_ns, check_all, check_failures, check_tokens, idle_seconds, seconds_since
from mongod import until
from on_a_set import LONG_TTL, SHORT_TTL, OnAQuickSet, OnASet, is_gone, shared


def setUpModule():
    unittest.addModuleCleanup(shared.stop)
    shared.start()


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

    def fail(self, commands, collection="holdfast.locks", mode=None, **data):
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
                self.fail(["findAndModify", "update"], "holdfast.sessions", **fault)
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
            self.fail("findAndModify", "holdfast.sessions", mode="alwaysOn", closeConnection=True)
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
        waits = until(lambda: (self.mongo.holdfast.holdfast.locks.find_one(self.name) or {}).get("queue"),
                      10, "the waiter")
        return "holdfast.bells.%d" % waits[0]["bell"]

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
            self.mongo.holdfast["holdfast.bells.%d" % number].drop()
            self.mongo.holdfast["holdfast.bells.%d" % number].insert_one({"lock": "", "notify": ""})
        holder = self.holder("--ttl=" + LONG_TTL)
        waiter = self.waiter("--ttl=" + LONG_TTL)
        until(lambda: self.mongo.holdfast[self.bell()].options().get("capped"), 10, "the bell")
        holder.ask("release", "release")
        waiter.wait("acquired", 10)


class Drops(OnASet):
    def test_a_holder_finds_out_that_the_collection_is_dropped(self):
        holder = self.holder("--ttl=" + SHORT_TTL)
        token = holder.token
        self.mongo.holdfast.holdfast.locks.drop()
        dropped = boot_ns()
        told = holder.wait("told", 10)
        self.assertLess(idle_seconds(dropped, told["at"]), 6 + 2 + 0.5)  # L3, as below
        self.assert_check(holder, "HF_LOST")
        after = self.holder("--ttl=" + LONG_TTL)
        self.assertGreater(after.token, token, "a dropped collection brought the token down")

    def test_a_holder_that_does_not_listen_finds_it_out_within_a_ttl(self):
        holder = self.holder("--ttl=" + SHORT_TTL)
        self.mongo.holdfast.holdfast.locks.delete_one({"_id": self.name})
        gone = boot_ns()
        told = holder.wait("told", 10)
        # L3: each lock is verified once per ttl; the job comes round every third of it
        self.assertLess(idle_seconds(gone, told["at"]), 6 + 2 + 0.5)

    def test_waiters_enter_again_after_a_drop(self):
        contest = self.contest()
        for _ in range(4):
            contest.add_endless("--ttl=" + SHORT_TTL)
        contest.await_turns(2, 20)
        self.mongo.holdfast.holdfast.locks.drop()
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
                run = self.run_holder("--ttl", "10s", uri=self.rs.uri_for("", "serverSelectionTimeoutMS=6000"))
                gone = self.stop_all(number)
                run.send("go")
                status = run.status(60)
                # 6 s, in which the release is tried, a call of 5 s that is under way then, and the close
                self.assertLess(idle_seconds(gone), 6 + 5 + 5, run)
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
