#!/usr/bin/python3
"""The benchmark still measures: quick parts of it on SQLite; what it made there is gone."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import sqlite3
import subprocess

import cli


class Bench(cli.Case):
    def rows(self, *words):
        result = self.check(0, "--json", "bench", "--runs", "1", *words, timeout=1000)
        self.assertIn("figure", result.err)  # the table for people
        return json.loads(result.out)

    def assert_nothing_left(self):
        left = [name for name in os.listdir(self.folder) if "bench" in name]
        self.assertEqual(left, [])
        db = sqlite3.connect(self.path("locks.db"))
        self.addCleanup(db.close)
        self.assertEqual(db.execute("SELECT name FROM locks").fetchall(), [])

    def test_quick_parts(self):
        rows = self.rows("--only", "process,threads,recovery,work")
        self.assertEqual([row["part"] for row in rows if row["part"] != "noise"],
                         ["process"] * 3 + ["threads"] * 2 + ["work"] * 11 + ["recovery"])
        for row in rows:
            self.assertTrue("note" in row or row["ours"]["runs"] > 0, row)
        [crash] = [row for row in rows if row["part"] == "recovery"]
        self.assertEqual(crash["goal"], "<= 50")
        self.assert_nothing_left()

    def test_hand_over(self):
        rows = self.rows("--only", "handover")
        figures = [row["figure"] for row in rows]
        for processes in (2, 4, 8, 16, 32, 64):
            self.assertIn("hand-over, %d processes, median ms / one write" % processes, figures)
        self.assert_nothing_left()

    def test_a_crowd(self):
        rows = self.rows("--only", "crowd", "--seconds", "2")
        of = {row["figure"]: row["ours"]["median"] for row in rows}
        self.assertEqual(of["the same, waiters that did not time out when told to give up"], 0)
        self.assertEqual(of["the same, tickets left a second later"], 0)

    def test_a_crowd_at_a_service(self):
        rows = self.rows("--only", "service", "--seconds", "1", "--clients", "50")
        of = {row["figure"]: row["ours"]["median"] for row in rows}
        for figure in ("leases that were lost", "renewals, and calls of /healthz, that failed",
                       "waits that ended"):
            self.assertEqual(of[figure], 0)
        db = sqlite3.connect(self.path("locks.db"))
        self.addCleanup(db.close)
        self.assertEqual(db.execute("SELECT name FROM locks").fetchall(), [])

    def test_interrupted_it_cleans_up(self):
        bench = self.start("bench", "--only", "threads,pairs", "--runs", "3")
        bench.out.expect("pairs/s, 1 lock, lingering")
        bench.signal(signal.SIGINT)
        self.assertEqual(bench.status(), 128 + signal.SIGINT)
        self.assert_nothing_left()

    def test_no_such_part(self):
        self.assertIn("holdfast bench: all: there is no such part; there are process, pairs, ",
                      self.check(65, "bench", "--only", "all").err)

    def test_what_cannot_be(self):
        for words in (("--runs", "x"), ("--runs", "99"), ("--seconds", "0")):
            self.assertIn("whole number", self.check(65, "bench", *words).err)
        self.check(64, "bench", "more")
        with open("/dev/full", "w") as full:
            bench = subprocess.run([cli.BIN, "bench", "--only", "pairs", "--runs", "1"], stdout=full,
                                   stderr=subprocess.PIPE, env=self.env)
        self.assertEqual((bench.returncode, b"cannot be written" in bench.stderr), (74, True))
        nowhere = "sqlite:" + self.path("nowhere/x.db")
        self.check(69, "bench", "--only", "pairs", "--store", nowhere)


if __name__ == "__main__":
    cli.main()
