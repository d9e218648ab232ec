# Members that no call needs, because they are silent, slow or odd, delay nobody and nothing.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import re
import signal
import statistics
import sys
import threading
import unittest

import pymongo

from contest import Command, boot_ns, idle_seconds
from mongod import ReplicaSet, until

SOURCE = os.environ["HOLDFAST_SOURCE"]
os.environ.setdefault("HOLDFAST_LIBRARY", os.path.join(os.environ["HOLDFAST_BUILD"], "libholdfast.so.1"))
sys.path.insert(0, os.path.join(SOURCE, "python"))
import holdfast  # noqa: E402

RUNS = 5
FACTOR, MORE_S = 2, 0.3  # what a busy machine may add; `make bench` says how much it is
ROUNDS = 20  # of calls of the client that has been there for long
CALL_S = 0.5  # a call of it; 0.2 s is what an idle machine may take


def seconds_of(*words):
    began = boot_ns()
    with Command(*words) as command:
        status = command.status(60)
        assert status == 0, "status %d: %s" % (status, command)
    return (boot_ns() - began) / 1e9


class Behind(unittest.TestCase):
    """A set behind gates, with the settings that it comes with. Each test finds all well."""
    members = 3

    @classmethod
    def setUpClass(cls):
        cls.rs = ReplicaSet(members=cls.members, gates=True)
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()
        seconds_of("--store", cls.rs.uri, "run", "x", "--", "true")  # makes what is made once

    def setUp(self):
        self.addCleanup(self.rs.gates.heal)

    def freeze(self, member):
        self.rs.kill(member, signal.SIGSTOP)
        self.addCleanup(self.thaw, member)

    def thaw(self, member):
        self.rs.cont(member)
        self.rs.wait_secondaries()

    def assert_as_quick(self, befall, heal, *words):
        """In turn without and with what befalls the set."""
        times = {False: [], True: []}
        for _ in range(RUNS):
            for is_there in (False, True):
                (befall if is_there else heal)()
                times[is_there].append(seconds_of("--store", self.rs.uri, *words))
        calm, there = statistics.median(times[False]), statistics.median(times[True])
        self.assertLess(there, max(FACTOR * calm, calm + MORE_S), times)

    def assert_calls_as_quick(self, befall, heal):
        for words in (["run", "x", "--", "true"], ["list"]):
            with self.subTest(words):
                self.assert_as_quick(befall, heal, *words)

    def assert_behind_gates(self, members, fault, sources=("clients",), **details):
        def befall():
            for member in members:
                self.rs.gates.set(member, fault, sources=sources, **details)
        self.assert_calls_as_quick(befall, self.rs.gates.heal)


class OneOfThree(Behind):
    def test_a_frozen_one(self):
        for number in range(2):
            with self.subTest(number):
                self.assert_in_spite_of_frozen(self.rs.wait_secondary(number))

    def assert_in_spite_of_frozen(self, member):
        try:
            self.assert_calls_as_quick(lambda: self.rs.kill(member, signal.SIGSTOP),
                                       lambda: self.rs.cont(member))
        finally:
            self.thaw(member)

    def test_a_doctor_names_those_that_do_not_answer(self):
        """One is frozen; the other refuses new connections, and keeps those that make the majority."""
        frozen = self.rs.wait_secondary()
        refuses, = [each for each in self.rs.members if each not in (frozen, self.rs.wait_primary())]
        self.freeze(frozen)
        self.rs.gates.set(refuses, "refuse")
        with Command("--store", self.rs.uri, "doctor") as doctor:
            self.assertIn(doctor.status(60), (0, 1), doctor)
            told = "\n".join(doctor.lines)
        self.assertRegex(told, r"LOOK +members +%s has not answered for " % re.escape(frozen.host))
        self.assertRegex(told, r"LOOK +members +%s cannot be asked: " % re.escape(refuses.host))

    def test_one_whose_host_is_off(self):
        self.assert_behind_gates([self.rs.wait_secondary()], "lost", sources=None)

    def test_a_slow_one(self):
        """Its `hello` takes 400 ms."""
        self.assert_behind_gates([self.rs.wait_secondary()], "delay", seconds=0.1)

    def test_one_that_trickles(self):
        self.assert_behind_gates([self.rs.wait_secondary()], "trickle")

    def test_one_that_speaks_another_language(self):
        self.assert_behind_gates([self.rs.wait_secondary()], "garbage")

    def test_a_client_that_has_run_for_long(self):
        """While a member is silent, each second more of its threads call at once, and want connections."""
        with holdfast.Client(self.rs.uri) as client:
            client.acquire("long").release()
            self.freeze(self.rs.wait_secondary())
            until(self.is_set_quick, 60, "quick majority writes")
            with self.plain_writes() as plain:
                took = [each for n in range(1, ROUNDS + 1) for each in self.call_at_once(client, n)]
        longest = max(idle_seconds(*each) for each in took)
        self.assertLess(longest, CALL_S + max(idle_seconds(*each) for each in plain))

    @staticmethod
    def plain(client):
        return client.test.get_collection("plain", write_concern=pymongo.WriteConcern("majority"))

    def is_set_quick(self):
        """A secondary that has read the log from the silent one looks for another source first."""
        with self.rs.client() as client:
            began = boot_ns()
            for _ in range(5):
                self.plain(client).insert_one({})
            return idle_seconds(began) < CALL_S

    @contextlib.contextmanager
    def plain_writes(self):
        """Gives when each began and ended: what the set itself is slow at, it is slow at for these, too."""
        took, is_over = [], threading.Event()

        def write():
            with self.rs.client() as client:
                while not is_over.wait(0.02):
                    self.timed(took, lambda: self.plain(client).insert_one({}))
        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield took
        finally:
            is_over.set()
            writer.join()

    def call_at_once(self, client, number):
        """From when until when each of so many acquires and releases took, a second after those before."""
        took, rested = [], threading.Event()

        def call(n):
            lock = self.timed(took, lambda: client.acquire("long-%d" % n))
            self.timed(took, lock.release)
        rested.wait(1)
        threads = [threading.Thread(target=call, args=(n,)) for n in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(took), 2 * number, "a call has failed")
        return took

    @staticmethod
    def timed(took, call):
        began = boot_ns()
        result = call()
        took.append((began, boot_ns()))
        return result


class TwoOfFive(Behind):
    members = 5

    def assert_in_spite_of_two(self, fault, **details):
        primary = self.rs.wait_primary()
        others = [each for each in self.rs.members if each is not primary]
        self.assert_behind_gates(others[1:3], fault, **details)

    def test_silent_ones(self):
        self.assert_in_spite_of_two("silence")

    def test_slow_ones(self):
        self.assert_in_spite_of_two("delay", seconds=0.1)

    def test_ones_that_trickle(self):
        self.assert_in_spite_of_two("trickle")


if __name__ == "__main__":
    unittest.main(verbosity=2)
