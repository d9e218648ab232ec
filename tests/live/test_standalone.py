# Locks on a single server that is no replica set: no change streams, no elections; the protocols
# without bells poll.
# SPDX-License-Identifier: Apache-2.0
import json
import signal
import time
import unittest

import pymongo

from contest import Command, Contest, Worker, boot_ns, check_all, idle_seconds
from mongod import ReplicaSet, until


class Standalone(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ReplicaSet(standalone=True)
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()
        cls.uri = cls.server.uri

    def setUp(self):
        self.name = self.id().rsplit(".", 1)[1]

    def start(self, program):
        self.addCleanup(program.kill)
        return program

    def contest(self):
        contest = Contest(self.uri, self.name)
        self.addCleanup(contest.__exit__)
        return contest

    def holder(self, *words):
        worker = self.start(Worker(self.uri, "--script", "--name=" + self.name, *words))
        worker.ask("acquire", "acquired")
        return worker

    def run_command(self, *words):
        """Runs the command to its end; its exit status and itself."""
        command = self.start(Command("--store", self.uri, *words))
        return command.status(30), command

    def uri_of(self, **keys):
        ours = "&".join("hf%s=%s" % (key, value) for key, value in keys.items())
        base, _, options = self.uri.partition("?")
        return "%s/%s?%s" % (base.rstrip("/"), keys["Protocol"],
                             "&".join(each for each in (options, ours) if each))

    def test_protocol_sharding_needs_a_set(self):
        uri = self.uri_of(Protocol="sharding")
        holder = self.start(Worker(uri, "--script", "--name=x"))
        holder.ask("acquire", "acquired")
        run = self.start(Command("--store", uri, "run", "-w", "60s", "x", "--", "true"))
        self.assertEqual(run.status(30), 65, str(run))
        self.assertIn("needs a replica set (one member is enough)", run.errors)

    def test_a_set_that_it_does_not_belong_to(self):
        uri = self.uri + ("&" if "?" in self.uri else "?") + "replicaSet=rs7"
        run = self.start(Command("--store", uri, "run", "x", "--", "true"))
        self.assertEqual(run.status(30), 65, str(run))
        self.assertRegex(run.errors, "replicaSet=rs7: mongodb at .* belongs to no set: leave out")

    def test_one_that_requires_an_api_version(self):
        admin = pymongo.MongoClient(self.uri, heartbeatFrequencyMS=600000).admin
        admin.command("setParameter", 1, requireApiVersion=True)
        self.addCleanup(admin.command, "setParameter", 1, requireApiVersion=False, apiVersion="1")
        sign = "&" if "?" in self.uri else "?"
        for options in ("", sign + "replicaSet=rs0"):
            for words in (("run", "-w", "1m", "x", "--", "true"), ("doctor",)):
                run = self.start(Command("--store", self.uri + options, *words))
                self.assertEqual(run.status(30), 65, str(run))
                self.assertIn("put hfApi=1 into the URI", run.errors)
        for protocol in ("queue", "ttl", "sharding"):
            uri = self.uri_of(Protocol=protocol, Api=1, Collection="api_" + protocol)
            run = self.start(Command("--store", uri, "run", "x", "--", "true"))
            self.assertEqual((run.status(30), run.errors), (0, ""))

    def test_protocol_ttl_polls(self):
        uri = self.uri_of(Protocol="ttl")
        holder, waiter = (self.start(Worker(uri, "--script", "--name=x")) for _ in range(2))
        holder.ask("acquire", "acquired")
        waiter.ask("acquire", "waits")
        asked = boot_ns()
        holder.ask("release", "release")
        self.assertLess(idle_seconds(asked, waiter.wait("acquired", 30)["at"]), 5)

    def test_four_processes_lose_no_update(self):
        contest = self.contest()
        for _ in range(4):
            contest.add("--turns=15")
        contest.finish(60)
        self.assertEqual(contest.value(), 60)
        check_all(self, contest)

    def test_readers_writers_and_tries_keep_apart(self):
        contest = self.contest()
        for mode in ["exclusive", "shared", "shared", "try"]:
            contest.add("--turns=10", "--mode=" + mode, "--work=10")
        contest.finish(60)
        check_all(self, contest)

    def test_permits_are_never_exceeded(self):
        contest = self.contest()
        for permits in [1, 1, 2, 3]:
            contest.add("--turns=10", "--permits=%d" % permits, "--limit=3", "--work=10")
        contest.finish(60)
        check_all(self, contest)

    def test_a_try_is_refused(self):
        self.holder()
        status, command = self.run_command("run", "-n", self.name, "--", "true")
        self.assertEqual(status, 75, command)
        status, command = self.run_command("run", "-n", "-s", self.name, "--", "true")
        self.assertEqual(status, 75, command)

    def test_tokens_are_on_the_scale_of_a_set(self):
        """Those of a member that is opened as a standalone go on above what its set has given."""
        worker = self.start(Worker(self.uri, "--script", "--name=" + self.name))
        began = int(time.time())
        token = worker.ask("acquire", "acquired")["token"]
        self.assertGreaterEqual(token, began << 20)
        self.assertLess(token, (began + 3600) << 20)

    def test_it_waits_for_a_ring(self):
        self.name = "first"
        first = self.holder()
        self.name = "second"
        second = self.holder()
        waiter = self.start(Command("--store", self.uri, "-v", "run", "first", "second", "--",
                                    "echo", "had"))
        waiter.said('waiting for "first"', 10)
        first.ask("release", "release")
        waiter.said('waiting for "second"', 10)
        until(self.listens, 10, "the bell")
        second.ask("release", "release")
        released = boot_ns()
        at, _ = waiter.line("had", 10)
        self.assertLess(idle_seconds(released, at), 4)  # without the ring: a look each 5 to 10 s
        self.assertEqual(waiter.status(10), 0)
        self.assertNotIn("polling", waiter.errors)

    def listens(self):
        """Whether a waiter has made its bell."""
        names = pymongo.MongoClient(self.uri).holdfast.list_collection_names()
        return any(name.startswith("holdfast.bells.") for name in names)

    def test_without_being_asked_it_says_nothing(self):
        status, command = self.run_command("run", self.name, "--", "true")
        self.assertEqual((status, command.errors), (0, ""))

    def test_a_killed_holder_is_followed_within_a_ttl_and_a_second(self):
        holder = self.holder("--ttl=6000")
        waiter = self.start(Worker(self.uri, "--script", "--name=" + self.name))
        waiter.ask("acquire", "waits")
        holder.signal(signal.SIGKILL)
        killed = boot_ns()
        had = waiter.wait("acquired", 10)
        # L1, and half a second more for polling
        self.assertLess(idle_seconds(killed, had["at"]), 6 + 1)

    def test_doctor_names_it(self):
        status, command = self.run_command("--json", "doctor")
        findings = json.loads("\n".join(command.lines))
        self.assertIn(status, (0, 1))
        self.assertEqual(status, int(any(each["is_danger"] for each in findings)))
        self.assertRegex(" ".join(each["text"] for each in findings), "(?i)standalone")
        self.assertRegex(" ".join(each["text"] for each in findings), "bells: ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
