# From each other protocol to queue, under load, without a moment of double holding: docs/protocols.md.
# SPDX-License-Identifier: Apache-2.0
import os
import unittest

from contest import COMMAND, Program
from foreign import OnASet, start_set

COUNT = 'read v <"$0"; sleep 0.002; printf "%-20d\\n" $((v + 1)) 1<>"$0"; echo turn'
LOOP = 'end=$1; shift; while [ ! -e "$end" ]; do "$@" || echo "status $?"; done'


def setUpModule():
    start_set()


class Migration(OnASet):
    def run_on(self, *stores):
        """The words of a `run` under the locks of all these stores."""
        words = []
        for store in stores:
            words += [COMMAND, "--store", store, "run", "--wait", "60s", "x", "--"]
        return words

    def start_generation(self, name, *stores):
        """Three loops, until the file is there whose path is returned with them."""
        end = os.path.join(self.contest.folder.name, "end-" + name)
        loops = [self.start(Program("bash", "-c", LOOP, "loop", end, *self.run_on(*stores), "bash",
                                    "-c", COUNT, self.contest.counter)) for _ in range(3)]
        return end, loops

    def await_turns(self, loops):
        for loop in loops:
            before = loop.count("turn")
            loop.until(lambda: loop.count("turn") >= before + 3, 60, "three more turns")

    def finish(self, end, loops):
        open(end, "w").close()
        for loop in loops:
            self.assertEqual(loop.status(60), 0, str(loop))
            self.assertEqual(loop.count("status"), 0, str(loop))

    def move(self, **protocol):
        self.contest = self.mixed()
        old = self.store(**protocol)
        new = self.store(Protocol="queue", Collection="queue_locks")
        generations = [("old", [old]), ("both", [old, new]), ("new", [new])]
        running, all_loops = None, []
        for name, stores in generations:
            following = self.start_generation(name, *stores)
            all_loops += following[1]
            self.await_turns(following[1])
            if running:
                self.await_turns(running[1])
                self.finish(*running)
            running = following
        self.await_turns(running[1])
        self.finish(*running)
        self.assertEqual(self.contest.value(), sum(loop.count("turn") for loop in all_loops))

    def test_from_ttl(self):
        self.move(Protocol="ttl")

    def test_from_sharding(self):
        self.move(Protocol="sharding")

    def test_from_document(self):
        self.db.work.insert_one({"_id": "x"})
        self.move(Protocol="document", Collection="work")


if __name__ == "__main__":
    unittest.main(verbosity=2)
