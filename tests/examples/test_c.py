"""examples/c and examples/cpp: they compile without a warning, and do what they say."""
# SPDX-License-Identifier: Apache-2.0
import sqlite3
import unittest

import bed


class Counter(bed.Case):
    def setUp(self):
        super().setUp()
        self.program = self.build("cc", "c/counter.c", "-lsqlite3")
        self.data = self.path("counter.db")

    def rows(self, query):
        database = sqlite3.connect(self.data)
        try:
            with database:
                return database.execute(query).fetchall()
        finally:
            database.close()

    def test_several_lose_no_count(self):
        counting = [self.start(self.program, self.store, self.data) for _ in range(8)]
        counts = []
        for process in counting:
            said = process.communicate(timeout=bed.PATIENCE)
            self.assertEqual(process.returncode, 0, said)
            counts.append(int(said[0].split(",")[0]))
        self.assertEqual(sorted(counts), list(range(1, 9)))
        self.assertEqual(self.rows("SELECT n FROM counter"), [(8,)])

    def test_a_later_holder_has_been_there(self):
        self.assertRegex(self.check(0, self.program, self.store, self.data), r"^1, with token \d+\n$")
        self.rows("UPDATE holdfast_fence SET token = 1 << 53")
        self.assertIn("HF_FENCED", self.check(1, self.program, self.store, self.data))
        self.assertEqual(self.rows("SELECT n FROM counter"), [(1,)])


class Worker(bed.Case):
    def setUp(self):
        super().setUp()
        self.worker = self.start(self.build("c++", "cpp/worker.cpp", "-std=c++17"), self.store)
        self.assertRegex(self.worker.stdout.readline(), r"^working with token \d+$")

    def test_works_until_its_input_ends(self):
        self.assertEqual(self.worker.communicate("abc", bed.PATIENCE)[0], "... done\n")
        self.assertEqual(self.worker.returncode, 0)

    def test_stops_when_the_lock_is_lost(self):
        """Its input is still open: only the descriptor can wake it."""
        self.check(0, "holdfast", "break", "--force", "--reason", "test", "worker")
        self.assertEqual(self.worker.wait(bed.PATIENCE), 76)
        self.assertIn("test", self.worker.stderr.read())


unittest.main(verbosity=2)
