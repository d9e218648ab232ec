"""ID leases, and work that is done once per period, on the protocols without a queue: six processes contend
while others are killed and stopped and the primary steps down. No update is lost, no token comes twice, and
nothing that was done is begun again."""
# SPDX-License-Identifier: Apache-2.0
import collections
import os
import signal
import sys
import time
import unittest

from contest import Contest, Program
from foreign import OnASet, start_set

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "faults", "turns.py")
PROCESSES = 6
WORKS = 1000  # more than come up
FAILURES = {"HeldError", "TimeoutError", "LostError", "UnknownError", "UnreachableError"}


def setUpModule():
    start_set(3, election_ms=2000)


class Faults:
    lock, work = "x", "work-%d"

    def setUp(self):
        super().setUp()
        self.prepare()
        self.contest = Contest(self.uri, "x")
        self.addCleanup(self.contest.folder.cleanup)
        self.begun = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.all, self.living = [], []
        for _ in range(PROCESSES):
            self.begin()

    def prepare(self):
        pass

    def begin(self):
        program = self.start(Program(
            sys.executable, PROGRAM, self.uri, str(len(self.all)), self.contest.counter, self.contest.end,
            self.lock, self.work, str(self.begun)))
        self.all.append(program)
        self.living.append(program)
        return program

    def await_turns(self, count):
        """Each of them, so nobody hangs; a lease that was left runs out meanwhile."""
        for program in self.living:
            wanted = program.count("wrote") + program.count("known") + program.count("done") + count
            program.until(lambda: program.count("wrote") + program.count("known")
                          + program.count("done") >= wanted, 300, "%d more turns" % count)

    def await_hold(self, program):
        """Until it has begun to hold; the length of that lease."""
        wanted = program.count("held") + 1
        program.until(lambda: program.count("held") >= wanted, 300, "a lease")
        return float([line for line in program.lines if line.startswith("held")][-1].split()[1])

    def kill(self):
        victim = self.living.pop(0)
        self.await_hold(victim)
        victim.signal(signal.SIGKILL)
        victim.process.wait()
        self.begin()

    def stop(self):
        victim = self.living[0]
        ttl = self.await_hold(victim)
        victim.signal(signal.SIGSTOP)
        time.sleep(ttl + 2)
        victim.signal(signal.SIGCONT)

    def finish(self):
        open(self.contest.end, "w").close()
        for program in self.living:
            self.assertEqual(program.status(300), 0, str(program))

    def check(self, kills):
        lines = [line.split() for program in self.all for line in program.lines]
        kinds = collections.Counter(line[0] for line in lines)
        failed = collections.Counter(line[1] for line in lines if line[0] == "failed")
        print("%s: %s; failed: %s" % (self.id(), dict(kinds), dict(failed)), file=sys.stderr)
        self.assertLessEqual(set(failed), FAILURES, [line for line in lines if line[0] == "failed"
                                                     and line[1] not in FAILURES][:3])
        written = [int(line[1]) for line in lines if line[0] == "wrote"]
        self.assertEqual(sorted(set(written)), sorted(written), "two wrote from one value")
        self.assertIn(self.contest.value() - len(written), range(kills + 1), "an update was lost")
        tokens = [int(line[2]) for line in lines if line[0] == "held" and int(line[2])]
        self.assertEqual(len(set(tokens)), len(tokens), "a token was given twice")
        done = collections.Counter(line[1] for line in lines if line[0] == "done")
        self.assertEqual([number for number, times in done.items() if times > 1], [], "done twice")
        self.assertGreater(len(done), 3)

    def check_order(self):
        """What was done is not begun again, by what each said when."""
        done = {}
        for program in self.all:
            for at, line in program.out:
                if line.startswith("done "):
                    done[line.split()[1]] = at
        for program in self.all:
            for at, line in program.out:
                if line.startswith("begin ") and at > done.get(line.split()[1], at):
                    self.fail("%s was done and is begun again" % line)

    def test_leases_and_work_of_a_period(self):
        self.await_turns(3)
        self.kill()
        self.await_turns(2)
        self.stop()
        self.await_turns(2)
        for _ in range(2):
            self.rs.step_down(3)
            self.await_turns(2)
        self.kill()
        self.stop()
        self.await_turns(2)
        self.finish()
        self.check(2)
        self.check_order()


class Updated(Faults, OnASet):
    keys = {"Protocol": "ttl"}


class ExpireAt(Faults, OnASet):
    keys = {"Protocol": "ttl", "Shape": "expire-at"}


class Document(Faults, OnASet):
    keys = {"Protocol": "document", "Collection": "jobs", "RefreshMS": 1000, "StaleMultiplier": 3,
            "TokenField": "fence"}

    def prepare(self):
        self.db.jobs.insert_many([{"_id": "x"}] + [{"_id": "work-%d" % i} for i in range(WORKS)])


class Element(Faults, OnASet):
    keys = {"Protocol": "document", "Collection": "jobs", "RefreshMS": 1000, "StaleMultiplier": 3,
            "Element": "lines.id", "TokenField": "fence"}
    lock, work = '["order",%d]' % WORKS, '["order",%d]'

    def prepare(self):
        self.db.jobs.insert_one({"_id": "order", "lines": [{"id": i, "n": 7} for i in range(WORKS + 1)]})

    def check(self, kills):
        super().check(kills)
        lines = self.db.jobs.find_one({"_id": "order"})["lines"]
        self.assertEqual([(line["id"], line["n"]) for line in lines], [(i, 7) for i in range(WORKS + 1)])


class Sharding(Faults, OnASet):
    keys = {"Protocol": "sharding", "PingMS": 300, "ExpiryMS": 6000, "PollMS": 100}


if __name__ == "__main__":
    unittest.main(verbosity=2)
