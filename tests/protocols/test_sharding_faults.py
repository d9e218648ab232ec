# Protocol `sharding` among programs of ours, on a config server: who is overtaken and who never is,
# and that errors, step-downs and lost replies leave no lock behind.
# SPDX-License-Identifier: Apache-2.0
import signal
import time
import unittest

from beats import before_a_beat
from cluster import FREE, HELD
from contest import Contest, boot_ns, check_counter, check_exclusion, check_failures, idle_seconds
from guardian import kill_host
from mongod import until
from sharding_bed import EXPIRY, LONG, LOST, NOT_ACQUIRED, POLL, SHORT, OnACluster


class Expiry(OnACluster):
    """Programs of ours among themselves, with a shortened expiry."""

    def setUp(self):
        super().setUp()
        self.options = SHORT

    def kill(self, run):
        """Returns when it was killed, and a time before its last ping."""
        pinged = before_a_beat(lambda: self.cluster.ping(self.lock()["process"]))
        kill_host(run)
        return boot_ns(), pinged

    def test_an_owner_that_pings_is_never_overtaken(self):
        expiry = 8
        self.options = POLL + "&hfPingMS=300&hfExpiryMS=%d000" % expiry
        run = self.run_holder("--ttl", "%ds" % expiry)
        waiter = self.run_waiter("--ttl", "%ds" % expiry, "-w", "%ds" % (2 * expiry))
        self.assertEqual(waiter.status(60), NOT_ACQUIRED, waiter)
        self.assertEqual(waiter.lines, [])
        self.end(run)

    def test_an_owner_that_was_killed_is_overtaken_after_the_expiry(self):
        run = self.run_holder()
        waiter = self.run_waiter()
        owner = self.lock()["process"]
        killed, pinged = self.kill(run)
        had, _ = waiter.line("had", EXPIRY + 30)
        print("    overtaken %.1f s after the kill, the expiry being %d s" % (
            (had - killed) / 1e9, EXPIRY))
        self.assertGreater((had - pinged) / 1e9, EXPIRY - 0.1)
        self.assertLess(idle_seconds(killed, had), EXPIRY + 5)
        self.assertEqual(waiter.status(20), 0, waiter)
        self.assertNotEqual(self.lock()["process"], owner)

    def step_down(self):
        self.cluster.config.members[0].admin("replSetStepDown", 1, force=True)
        self.cluster.config.wait_primary()

    def test_a_step_down_does_not_begin_the_expiry_anew(self):
        """Another primary's clock cannot be compared, but the waiter's own counts on."""
        expiry = 14
        self.options = POLL + "&hfPingMS=300&hfExpiryMS=%d000" % expiry
        run = self.run_holder("--ttl", "3s")
        waiter = self.run_waiter("--ttl", "3s", "-w", "120s")
        killed, pinged = self.kill(run)
        time.sleep(expiry - 4)
        self.step_down()
        had, _ = waiter.line("had", 90)
        print("    overtaken %.1f s after the kill, the expiry being %d s" % (
            (had - killed) / 1e9, expiry))
        self.assertGreater((had - pinged) / 1e9, expiry - 0.1)
        self.assertLess(idle_seconds(killed, had), 2 * expiry - 5)
        self.assertEqual(waiter.status(20), 0, waiter)

    def test_an_owner_that_pings_over_step_downs_is_never_overtaken(self):
        expiry = 12
        self.options = POLL + "&hfPingMS=300&hfExpiryMS=%d000" % expiry
        run = self.run_holder("--ttl", "%ds" % expiry)
        waiter = self.run_waiter("--ttl", "3s", "-w", "%ds" % (2 * expiry))
        for _ in range(3):
            time.sleep(expiry / 3)
            self.step_down()
        self.assertEqual(waiter.status(90), NOT_ACQUIRED, waiter)
        self.assertEqual(waiter.lines, [])
        self.end(run)

    def test_an_owner_that_was_stopped_has_lost_it(self):
        run = self.run_holder()
        waiter = self.run_waiter()
        run.signal(signal.SIGSTOP)
        waiter.line("had", EXPIRY + 30)
        run.signal(signal.SIGCONT)
        self.assertEqual(run.status(30), LOST, run)
        self.assertEqual(waiter.status(20), 0, waiter)
        self.assert_free()  # what the first did afterwards has freed nobody else's lock

    def test_an_owner_that_never_pinged_is_overtaken_after_the_expiry(self):
        self.cluster.hold(self.name)
        began = boot_ns()
        waiter = self.run_waiter()
        had, _ = waiter.line("had", EXPIRY + 30)
        self.assertGreater((had - began) / 1e9, EXPIRY)
        self.assertEqual(waiter.status(20), 0, waiter)

    def test_one_try_after_the_other_never_overtakes_at_first_sight(self):
        self.cluster.hold(self.name)
        for _ in range(3):
            self.assertEqual(self.try_it(), NOT_ACQUIRED)
            time.sleep(EXPIRY / 3 + 0.5)


class Contention(OnACluster):
    def test_eight_processes_lose_no_update(self):
        contest = Contest(self.uri, self.name)
        self.addCleanup(contest.__exit__)
        for _ in range(8):
            contest.add("--turns=5")
        contest.finish(120)
        self.assertEqual(contest.value(), 40)
        check_counter(self, contest)  # of tokens there are none
        check_exclusion(self, contest.turns())
        check_failures(self, contest)


class Faults(OnACluster):
    """What goes wrong between Holdfast and the config server leaves no lock behind."""

    FAULTS = {
        "stepped down": {"errorCode": 189},
        "not primary": {"errorCode": 10107},
        "interrupted": {"errorCode": 11602},
        "shutting down": {"errorCode": 91},
        "closed before it was done": {"closeConnection": True},
        "done, not acknowledged": {"writeConcernError": {"code": 91, "errmsg": "shutdown"}},
        "done, not acknowledged in time": {"writeConcernError": {
            "code": 64, "errmsg": "waiting for replication timed out"}},
    }

    def setUp(self):
        super().setUp()
        self.options = LONG
        self.addCleanup(self.cluster.config.heal)

    def fail(self, commands, mode=None, **data):
        self.cluster.config.fail_command(commands, mode=mode, appName=self.name[:40], **data)

    def ends_well(self, run):
        self.assertEqual((run.status(60), run.lines), (0, ["ran"]), run)
        until(lambda: self.lock()["state"] == FREE, 10, "the lock to be free")

    def test_each_write_fails_for_a_while(self):
        for title, data in self.FAULTS.items():
            for nth in range(3):  # the first ping, the grab, the unlock, and all that come after
                with self.subTest(title, nth=nth):
                    self.fail(["findAndModify", "update"], mode={"skip": nth}, **data)
                    run = self.command("run", "-w", "20s", self.name, "--", "echo", "ran")
                    time.sleep(0.7)
                    self.cluster.config.heal()
                    self.ends_well(run)

    def test_two_writes_fail(self):
        for title, data in self.FAULTS.items():
            with self.subTest(title):
                self.fail(["findAndModify", "update"], mode={"times": 2}, **data)
                self.ends_well(self.command("run", "-w", "20s", self.name, "--", "echo", "ran"))
                self.cluster.config.heal()

    def test_two_reads_fail_while_another_holds(self):
        self.options = POLL  # the other does not ping
        for i, (title, data) in enumerate(self.FAULTS.items()):
            if "writeConcernError" in data:
                continue
            with self.subTest(title):
                name = "%s%d" % (self.name, i)
                self.cluster.hold(name)
                self.fail(["find", "serverStatus"], mode={"times": 2}, **data)
                waiter = self.run_waiter(name=name)
                self.cluster.free(name)
                waiter.line("had", 20)
                self.assertEqual(waiter.status(20), 0, waiter)
                self.cluster.config.heal()

    def test_an_unlock_that_fails_is_tried_at_each_ping(self):
        run = self.run_holder()
        self.fail(["findAndModify", "update"], mode="alwaysOn", errorCode=91)
        run.send("")
        time.sleep(1)
        self.assertEqual(self.lock()["state"], HELD)
        self.cluster.config.heal()
        self.assertEqual(run.status(30), 0, run)
        until(lambda: self.lock()["state"] == FREE, 10, "the lock to be free")

    def test_a_step_down_loses_nothing(self):
        run = self.run_holder()
        waiter = self.run_waiter()
        before = self.lock()
        self.cluster.config.members[0].admin("replSetStepDown", 1, force=True)
        self.cluster.config.wait_primary()
        self.assertFalse(waiter.lines)
        self.assertEqual(self.lock(), before)
        self.end(run)
        waiter.line("had", 30)
        self.assertEqual(waiter.status(30), 0, waiter)
        self.assert_free()


if __name__ == "__main__":
    unittest.main(verbosity=2)
