# Locks on a replica set whose servers were upgraded, but not yet their features: MongoDB 6.0 with
# featureCompatibilityVersion 5.0, in which such a set stays until an administrator says otherwise.
# SPDX-License-Identifier: Apache-2.0
import json
import signal
import unittest

from contest import Command, Contest, Worker, check_all
from mongod import ReplicaSet

VERSION = "5.0"


class OldFeatures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rs = ReplicaSet()
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()
        cls.uri = cls.rs.uri
        with cls.rs.client() as client:
            client.admin.command("setFeatureCompatibilityVersion", VERSION)

    def setUp(self):
        self.name = self.id().rsplit(".", 1)[1]

    def tearDown(self):
        with self.rs.client() as client:
            found = client.admin.command("getParameter", featureCompatibilityVersion=1)
        self.assertEqual(found["featureCompatibilityVersion"], {"version": VERSION})

    def start(self, program):
        self.addCleanup(program.kill)
        return program

    def run_it(self, *words):
        """Runs the command, which must succeed; what it printed."""
        command = self.start(Command("--store", self.uri, *words))
        self.assertEqual(command.status(30), 0, command)
        return "\n".join(command.lines)

    def json_of(self, *words):
        return json.loads(self.run_it("--json", *words))

    def names(self):
        return [lock["name"] for lock in self.json_of("list")]

    def test_processes_hand_over_and_lose_no_update(self):
        contest = Contest(self.uri, self.name)
        self.addCleanup(contest.__exit__)
        for mode in ("exclusive", "exclusive", "shared", "try"):
            contest.add("--turns=10", "--mode=" + mode)
        contest.finish(60)
        check_all(self, contest)

    def test_a_killed_holder_is_followed(self):
        holder, waiter = (self.start(Worker(self.uri, "--script", "--name=" + self.name, "--ttl=2000"))
                          for _ in range(2))
        token = holder.ask("acquire", "acquired")["token"]
        waiter.ask("acquire", "waits")
        holder.signal(signal.SIGKILL)
        self.assertGreater(waiter.wait("acquired", 10)["token"], token)
        waiter.ask("release", "release")  # or the doctor finds it dead

    def test_each_verb(self):
        self.assertEqual(self.run_it("run", self.name, "other", "--", "echo", "had"), "had")
        self.assertEqual(self.run_it("run", "--once-per", "daily", "once", "--", "echo", "done"), "done")
        self.assertEqual(self.run_it("elect", "lead", "--", "echo", "led"), "led")
        lease = self.json_of("acquire", self.name)["lease"]
        self.assertIn(self.name, self.names())
        self.assertEqual(len(self.json_of("show", self.name)["holders"]), 1)
        self.run_it("why", self.name)
        self.run_it("sessions")
        self.run_it("renew", lease)
        self.run_it("release", lease)
        self.assertGreaterEqual(len(self.json_of("history", self.name)), 1)
        self.json_of("--ttl", "2s", "acquire", self.name)
        self.run_it("break", "--reason", "test", self.name)
        self.assertNotIn(self.name, self.names())

    def test_doctor_finds_no_danger(self):
        findings = self.json_of("--ttl", "10m", "doctor")  # with a short one a slow write is a danger
        self.assertEqual([each for each in findings if each["is_danger"]], [])
        self.assertIn("bells: ", " ".join(each["text"] for each in findings))


if __name__ == "__main__":
    unittest.main(verbosity=2)
