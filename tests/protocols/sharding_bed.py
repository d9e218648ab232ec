# What the tests of protocol `sharding` share: a cluster, and commands on its config server.
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

from cluster import FREE, Cluster, boot_seconds
from contest import Command

NOT_ACQUIRED, LOST = 75, 76
POLL = "hfPollMS=100"
# Between programs of ours only: MongoDB pings every 30 s.
EXPIRY = 4  # seconds
SHORT = POLL + "&hfPingMS=300&hfExpiryMS=%d000" % EXPIRY
# Where nobody is to be overtaken: a machine that stops for seconds loses no lease.
LONG = POLL + "&hfPingMS=300&hfExpiryMS=30000"


class OnACluster(unittest.TestCase):
    skew = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(skew=cls.skew)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def setUp(self):
        self.name = self.id().rsplit(".test_", 1)[1]
        self.assertLess(len(self.name), 60, "a database's name has at most 63 bytes")
        self.options = POLL

    @property
    def uri(self):
        return self.cluster.uri(self.options + "&appName=" + self.name[:40])

    def command(self, *words):
        ttl = ["--ttl", "%ds" % (EXPIRY - 1)] if self.options == SHORT else []
        command = Command("--store", self.uri, *ttl, *words)
        self.addCleanup(command.kill)
        return command

    def json(self, *words):
        command = self.command("--json", *words)
        self.assertEqual(command.status(30), 0, command)
        return json.loads("\n".join(command.lines))

    def run_holder(self, *words, name=None):
        """`holdfast run`, whose child holds until a line comes on its stdin."""
        run = self.command("run", *words, name or self.name, "--", "bash", "-c",
                           "echo holding; read line")
        run.line("holding", 20)
        return run

    def run_waiter(self, *words, name=None):
        """`holdfast run`, that has said that it waits; its child says "had"."""
        run = self.command("-v", "run", *words, name or self.name, "--", "echo", "had")
        run.said("waiting for", 20)
        return run

    def try_it(self):
        """The exit status of one try, which takes nothing along."""
        return self.command("run", "-n", self.name, "--", "true").status(30)

    def end(self, run):
        """Its child ends; returns when that was."""
        run.send("")
        ended = boot_seconds()
        self.assertEqual(run.status(30), 0, run)
        return ended

    def lock(self):
        return self.cluster.lock(self.name)

    def assert_free(self):
        self.assertEqual(self.lock()["state"], FREE, self.lock())
