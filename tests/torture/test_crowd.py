# A crowd that arrives at once: very many processes want one lock. Some are killed with their hosts, while they wait
# and while they hold, and some stand still for a moment. All others have it once, alone.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import random
import signal
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bed"))
BUILD = os.environ.setdefault("HOLDFAST_BUILD", os.path.join(HERE, "..", "..", "build"))
os.environ.setdefault("HOLDFAST_BIN", os.path.join(BUILD, "holdfast"))

from contest import Command
from guardian import kill_host
from mongod import ReplicaSet, until

SEED = int(os.environ.get("HOLDFAST_TEST_SEED", random.SystemRandom().randrange(10**6)))
CROWD, KILLED_WAITING, KILLED_LATER, STOPPED = 60, 8, 4, 6
STILL_S = 0.5
SOON = 60  # seconds of an idle machine; it takes a tenth of that
TURN = """
exec 9> "$0.held"
flock -n 9 || echo overlap >> "$0"
echo "$1 $HOLDFAST_TOKEN" >> "$0"
sleep 0.02 9>&-
"""


class Crowd:
    """All wait when this is made, beside one that holds the lock."""

    def __init__(self, uri, folder):
        self.uri, self.log, self.random = uri, os.path.join(folder, "turns"), random.Random(SEED)
        self.holder = self.run("q", "--", "sh", "-c", "echo holds; read line")
        self.holder.line("holds", SOON)
        self.all = [self.run("-w", "1h", "q", "--", "sh", "-c", TURN, self.log, str(number))
                    for number in range(CROWD)]
        self.killed = []
        until(lambda: self.standing() >= CROWD, SOON, "all to stand in line")

    def run(self, *words):
        return Command("--store", self.uri, "--ttl", "6s", "run", *words)

    def show(self):
        with Command("--store", self.uri, "show", "q", "--json") as show:
            self.status(show)
            return json.loads("\n".join(show.lines))

    @staticmethod
    def status(command):
        return command.status(SOON)

    def standing(self):
        shown = self.show()
        return len(shown["queue"]) + shown["outside"]

    def living(self):
        return [each for each in self.all if each not in self.killed and each.process.poll() is None]

    def kill_some(self, n):
        for each in self.random.sample(self.living(), min(n, len(self.living()))):
            kill_host(each)
            self.killed.append(each)

    def stop_some(self, n):
        """They stand still for less than a lease."""
        stopped = self.random.sample(self.living(), min(n, len(self.living())))
        for each in stopped:
            each.signal(signal.SIGSTOP)
        time.sleep(STILL_S)
        for each in stopped:
            each.signal(signal.SIGCONT)

    def lines(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as log:
            return log.read().splitlines()

    def end(self):
        for each in [self.holder, *self.all]:
            each.kill()


class Torture(unittest.TestCase):
    def crowd(self, uri):
        print("HOLDFAST_TEST_SEED=%d repeats this" % SEED, flush=True)
        folder = tempfile.TemporaryDirectory(prefix="holdfast-crowd-")
        self.addCleanup(folder.cleanup)
        crowd = Crowd(uri, folder.name)
        self.addCleanup(crowd.end)
        crowd.kill_some(KILLED_WAITING)
        crowd.holder.send("")
        crowd.stop_some(STOPPED)
        until(lambda: len(crowd.lines()) > CROWD // 4, SOON, "some turns")
        crowd.kill_some(KILLED_LATER)
        self.judge(crowd)

    def judge(self, crowd):
        for each in crowd.all:
            if each not in crowd.killed:
                self.assertEqual(crowd.status(each), 0, "seed %d: %s" % (SEED, each))
        lines = crowd.lines()
        self.assertNotIn("overlap", lines)
        turns = [tuple(map(int, line.split())) for line in lines]
        numbers = [number for number, _ in turns]
        self.assertEqual(len(numbers), len(set(numbers)), "each has it once")
        missing = {number for number, each in enumerate(crowd.all) if each not in crowd.killed} - set(numbers)
        self.assertEqual(missing, set())
        tokens = [token for _, token in turns]
        self.assertEqual(tokens, sorted(set(tokens)), "tokens rise")
        with crowd.run("-w", "1h", "q", "--", "true") as last:
            self.assertEqual(crowd.status(last), 0)
        until(lambda: not crowd.show()["holders"] and not crowd.standing(), SOON, "nobody to be there")

    def test_a_sqlite_file(self):
        with tempfile.TemporaryDirectory(prefix="holdfast-crowd-") as folder:
            self.crowd("sqlite:" + os.path.join(folder, "locks.db"))

    def test_a_replica_set(self):
        with ReplicaSet() as rs:
            self.crowd(rs.uri_for("crowd"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
