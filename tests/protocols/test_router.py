# A sharded cluster as a driver sees it: servers that answer `hello` as a mongos does (bed/router.py).
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

from contest import Command, Contest, Worker, check_all, check_counter, check_exclusion, check_failures
from foreign import shared, start_set
from mongod import until
from router import Router

CONFORMANCE = os.path.join(os.environ["HOLDFAST_BUILD"], "tests", "conformance")
UNREACHABLE = 69


def setUpModule():
    start_set()


class Routed(unittest.TestCase):
    """Two routers, as a cluster has: each client takes one of them."""

    def setUp(self):
        self.database = self.id().rsplit(".", 1)[1][:38]
        self.routers = [self.enterContext(Router(shared)) for _ in range(2)]

    def start(self, program):
        self.addCleanup(program.kill)
        return program

    def uri(self, **keys):
        hosts = ",".join("127.0.0.1:%d" % router.port for router in self.routers)
        return "mongodb://%s/%s?%s" % (hosts, self.database,
                                       "&".join("hf%s=%s" % each for each in keys.items()))

    def contend(self, uri):
        contest = Contest(uri, "x")
        self.addCleanup(contest.__exit__)
        for _ in range(6):
            contest.add_endless()
        contest.await_turns(10, 120)
        contest.finish(60)
        return contest

    def test_queue(self):
        check_all(self, self.contend(self.uri()))

    def test_ttl(self):
        contest = self.contend(self.uri(Protocol="ttl"))
        check_counter(self, contest)
        check_exclusion(self, contest.turns())
        check_failures(self, contest)

    def test_the_suite(self):
        """But for what is done on a replica set only."""
        done = subprocess.run([CONFORMANCE, "--but", "many_threads_are_batched", "mongodb"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, HOLDFAST_TEST_URI=self.routers[0].uri()))
        self.assertEqual(done.returncode, 0, done.stdout.decode("utf-8", "replace")[-4000:])

    def doctor(self):
        """It looks once: a server that was slow to say hello is asked again."""
        doctor = self.start(Command("--store", self.uri(), "doctor"))
        return doctor if doctor.status(60) != UNREACHABLE else None

    def test_the_doctor_warns(self):
        doctor = until(self.doctor, 60, "a server that answers in time")
        self.assertIn("a sharded cluster, through mongos: not tested", "\n".join(doctor.lines))

    def test_protocol_sharding_refuses_what_is_held(self):
        uri = self.uri(Protocol="sharding", PollMS=100)
        self.start(Worker(uri, "--script", "--name=x")).ask("acquire", "acquired")
        run = self.start(Command("--store", uri, "run", "-w", "60s", "x", "--", "true"))
        self.assertEqual(run.status(60), 65, str(run))


if __name__ == "__main__":
    unittest.main(verbosity=2)
