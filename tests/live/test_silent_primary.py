# A primary that hangs, with everybody's defaults: who asks for something gets an answer when his time is over,
# whatever is left to be done. Each bound is what is promised, and half a second for the machine.
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import sys
import unittest

from bystanders import Later, Service
from contest import Command, boot_ns, idle_seconds
from mongod import ReplicaSet, until

os.environ.setdefault("HOLDFAST_LIBRARY", os.path.join(os.environ["HOLDFAST_BUILD"], "libholdfast.so.1"))
sys.path.insert(0, os.path.join(os.environ["HOLDFAST_SOURCE"], "python"))
import holdfast  # noqa: E402

UNREACHABLE, INTERRUPTED = 69, 128 + signal.SIGINT
TRY_S = 4  # the patience of a request that may not wait
SERVICE_S = 5  # that of a service's calls
LATE_S = 0.8  # a call that was under way may take so long, and the machine
INTERRUPTED_S = 2
GONE_S = 30  # what was left behind is gone by then; the lease lasts longer
WAIT_S = 4
DOCTOR_S = 10
STUBBORN = "trap : TERM; while :; do sleep 1; done"
LEASE_S, FREE_S = 100, 20  # of a lease, and of what is free long before it would be over
SHORT_S = 1  # the patience of a program's tries; a command may take 5 s


class Test(unittest.TestCase):
    """Each test finds the set whole."""

    @classmethod
    def setUpClass(cls):
        cls.rs = ReplicaSet()
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()
        cls.mongo = cls.rs.client()
        cls.addClassCleanup(cls.mongo.close)
        with cls.command("run", "first", "--", "true") as first:  # makes what is made once
            assert first.status(60) == 0, first

    @classmethod
    def command(cls, *words):
        return Command("--store", cls.rs.uri, *words)

    def setUp(self):
        self.name = self.id().rsplit(".", 1)[1]
        self.rs.make_whole()

    def start(self, *words):
        command = self.command(*words)
        self.addCleanup(command.kill)
        return command

    def freeze(self):
        primary = self.rs.wait_primary()
        self.rs.kill(primary, signal.SIGSTOP)
        self.addCleanup(self.rs.cont, primary)
        return primary

    def assert_given_up(self, calls, seconds):
        """All of them, which are under way since the primary hangs."""
        for status, began, ended in calls:
            self.assertEqual(status, UNREACHABLE)
            self.assertLess(idle_seconds(began, ended), seconds)

    def given_up(self, *words):
        began = boot_ns()
        with self.command(*words) as command:
            status = command.status(60)
            ended = boot_ns()
        return status, began, ended

    def at_once(self, *calls):
        return [later.wait(60) for later in [Later(call) for call in calls]]

    def test_tries(self):
        self.freeze()
        self.assert_given_up(self.at_once(
            lambda: self.given_up("run", "-n", self.name, "--", "true"),
            lambda: self.given_up("run", "-n", self.name, self.name + "-too", "--", "true"),
            lambda: self.given_up("acquire", "-n", self.name)), TRY_S + LATE_S)

    def test_waits(self):
        self.freeze()
        self.assert_given_up(self.at_once(
            lambda: self.given_up("run", "-w", "%ds" % WAIT_S, self.name, "--", "true"),
            lambda: self.given_up("acquire", "-w", "%ds" % WAIT_S, self.name)), WAIT_S + LATE_S)

    def test_a_program_that_is_connected(self):
        with holdfast.Client(self.rs.uri, call_patience=SHORT_S) as client:
            client.acquire(self.name).release()
            primary = self.freeze()
            began = boot_ns()
            with self.assertRaises(holdfast.HoldfastError):
                client.acquire(self.name, wait=0)
            ended = boot_ns()
            self.rs.cont(primary)
        self.assertLess(idle_seconds(began, ended), SHORT_S + LATE_S)

    def test_an_interrupted_wait(self):
        """Its ticket is left to its guardian."""
        holder = self.start("run", self.name, "--", "sleep", "60")
        until(lambda: self.record().get("holders"), 30, "a holder")
        waiter = self.start("run", self.name, "--", "echo", "ran")
        until(lambda: self.record().get("queue"), 30, "a waiter")
        primary = self.freeze()
        frozen = boot_ns()
        until(lambda: idle_seconds(frozen) > 1, 10, "a second in which nothing is answered")
        interrupted = boot_ns()
        waiter.signal(signal.SIGINT)
        self.assertEqual(waiter.status(60), INTERRUPTED, waiter)
        self.assertLess(idle_seconds(interrupted), INTERRUPTED_S + LATE_S, waiter)
        self.rs.cont(primary)
        self.rs.wait_primary()
        until(lambda: not self.record()["queue"], GONE_S, "no waiter")
        holder.signal(signal.SIGINT)
        holder.status(30)
        self.assertEqual(waiter.lines, [])

    def test_a_doctor(self):
        """It says what it could not look at, and measures nothing that did not happen."""
        self.freeze()
        began = boot_ns()
        with self.command("doctor") as doctor:
            status = doctor.status(60)
        self.assertLess(idle_seconds(began), DOCTOR_S + LATE_S, doctor)
        self.assertIn(status, (0, 1, UNREACHABLE), doctor)
        if status == UNREACHABLE:
            self.assertRegex(doctor.errors, "is silent")
        self.assertNotIn("a new connection 0.0 ms", "\n".join(doctor.lines))

    def test_a_break_and_its_interrupt(self):
        holder = self.start("run", self.name, "--", "sh", "-c", STUBBORN)
        until(lambda: self.record().get("holders"), 30, "a holder")
        breaker = self.start("break", self.name, "--reason", "out of hand")
        until(lambda: breaker.lines, 30, "a holder that is asked")
        primary = self.freeze()
        frozen = boot_ns()
        until(lambda: idle_seconds(frozen) > 1, 10, "a second in which nothing is answered")
        interrupted = boot_ns()
        breaker.signal(signal.SIGINT)
        breaker.status(60)
        self.assertLess(idle_seconds(interrupted), INTERRUPTED_S + LATE_S, breaker)
        self.rs.cont(primary)

    def record(self):
        return self.mongo.holdfast.holdfast.locks.find_one({"_id": self.name}) or {}

    def test_a_service(self):
        service = Service(self.rs.uri)
        self.addCleanup(service.end)
        status, lease = service.acquire(self.name)
        self.assertEqual(status, 201, lease)
        self.freeze()
        began = boot_ns()
        calls = [Later(call) for call in (
            lambda: service.acquire(self.name + "-new"),
            lambda: service.acquire(self.name + "-key", key="k"),
            lambda: service.call("PUT", "/v1/leases/" + lease["lease"]),
            lambda: service.call("GET", "/v1/locks"))]
        for each in calls:
            status, answer = each.wait(60)
            self.assertIn(status, (503, 504), answer)
            self.assertLess(idle_seconds(began, each.at), SERVICE_S + LATE_S, answer)

    def test_a_lease_that_is_released_in_an_outage(self):
        """Its service sends the release until the set answers: nobody comes back to repeat it."""
        service = Service(self.rs.uri)
        self.addCleanup(service.end)
        status, lease = service.acquire(self.name, ttl_ms=LEASE_S * 1000)
        self.assertEqual(status, 201, lease)
        frozen = [self.rs.wait_primary(), self.rs.wait_secondary()]  # a majority
        for member in frozen:
            self.rs.kill(member, signal.SIGSTOP)
            self.addCleanup(self.rs.cont, member)
        status, answer = service.call("DELETE", "/v1/leases/" + lease["lease"])
        self.assertIn(status, (503, 504), answer)
        for member in frozen:
            self.rs.cont(member)
        self.rs.wait_primary()
        began = boot_ns()
        with self.command("run", "-w", "5m", self.name, "--", "true") as newcomer:
            self.assertEqual(newcomer.status(300), 0, newcomer)
        self.assertLess(idle_seconds(began), FREE_S, newcomer)


if __name__ == "__main__":
    unittest.main(verbosity=2)
