"""A pymongo program of article 003 goes over to the package by three lines, one process after the other,
under load: docs/protocols.md."""
# SPDX-License-Identifier: Apache-2.0
import difflib
import os
import re
import sys
import unittest

from contest import Contest, Program
from foreign import OnASet, start_set

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "migration")
PAGE = os.path.join(HERE, "..", "..", "docs", "protocols.md")
TURNS = 20


def setUpModule():
    start_set()


def lines(program):
    with open(os.path.join(PROGRAMS, program), encoding="utf-8") as stream:
        return stream.read().splitlines()


class Process:
    """One of the programs, with a file that ends it."""

    def __init__(self, contest, program, uri, number):
        self.end = os.path.join(contest.folder.name, "end-%d" % number)
        self.program = Program(sys.executable, os.path.join(PROGRAMS, program), uri, "x", contest.counter,
                               self.end)

    @property
    def turns(self):
        return self.program.count("turn")

    def await_turns(self, count):
        wanted = self.turns + count
        self.program.until(lambda: self.turns >= wanted, 60, "%d more turns" % count)

    def finish(self):
        open(self.end, "w").close()
        status = self.program.status(60)
        if status != 0:
            raise AssertionError(str(self.program))


class Migration(OnASet):
    def setUp(self):
        super().setUp()
        base, _, options = self.rs.uri.partition("?")
        self.plain = base.rstrip("/") + "/" + self.database + "?" + options
        self.contest = Contest(self.plain, "x")
        self.addCleanup(self.contest.folder.cleanup)
        self.processes = []

    def begin(self, program):
        process = Process(self.contest, program, self.plain, len(self.processes))
        self.addCleanup(process.program.kill)
        self.processes.append(process)
        return process

    def test_one_process_after_the_other(self):
        old = [self.begin("before.py") for _ in range(4)]
        new = [self.begin("after.py") for _ in range(2)]
        for each in old + new:
            each.await_turns(TURNS)
        for each in old:
            new.append(self.begin("after.py"))
            new[-1].await_turns(TURNS)
            each.await_turns(1)  # they have turns beside those that went over
            each.finish()
        for each in new:
            each.await_turns(TURNS)
        for each in new:
            each.finish()
        turns = [each.turns for each in self.processes]
        print("turns: %s" % turns, file=sys.stderr)
        self.assertEqual(self.contest.value(), sum(turns), "an update was lost")
        self.assertEqual(self.db.locks.count_documents({}), 0)


class ThreeLines(unittest.TestCase):
    def changes(self):
        diff = list(difflib.ndiff(lines("before.py"), lines("after.py")))
        return [[line[2:].strip() for line in diff if line.startswith(sign)] for sign in "-+"]

    def test_three_lines_are_changed(self):
        self.assertEqual([len(each) for each in self.changes()], [3, 3])

    def test_the_page_shows_them(self):
        with open(PAGE, encoding="utf-8") as stream:
            shown = re.search(r"### A pymongo program.*?```diff\n(.*?)```", stream.read(), re.S).group(1)
        for sign, program in zip("-+", self.changes()):
            said = [line[1:].strip() for line in shown.splitlines() if line.startswith(sign)]
            self.assertEqual(said, program)


if __name__ == "__main__":
    unittest.main(verbosity=2)
