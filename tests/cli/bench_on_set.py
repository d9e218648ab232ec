#!/usr/bin/python3
"""The benchmark on the replica set of HOLDFAST_TEST_URI: it counts, and what it made is gone."""
# SPDX-License-Identifier: Apache-2.0
import json
import os

import cli


class Case(cli.Case):
    def rows(self, parts):
        self.env["HOLDFAST_STORE"] = os.environ["HOLDFAST_TEST_URI"].replace("/?", "/bench?")
        rows = json.loads(self.check(0, "--json", "bench", "--runs", "1", "--only", parts, timeout=2000).out)
        of = {row["figure"]: row for row in rows}
        self.assertEqual([figure for figure, row in of.items() if "note" in row], ["notices"])
        self.assertIn("told at once", of["notices"]["note"])
        return of

    def assert_nothing_left(self):
        self.assertEqual(self.json("list", "--json"), [])
        self.assertEqual([one for one in self.json("sessions", "--json")
                          if "holdfast-bench" in json.dumps(one)], [])


class Quick(Case):
    def test_what_is_soon_done(self):
        of = self.rows("process,work,recovery")
        for operation in ("acquire of a free lock", "release, awaited", "downgrade"):
            writes = of[operation + ": write commands"]["ours"]["median"]
            # what the server does besides is taken off, and varies
            self.assertAlmostEqual(writes, 1, delta=0.6, msg=operation)
        self.assertIn("crash recovery, ttl 1 s, from the last beat to the grant, ms", of)
        self.assert_nothing_left()


class Busy(Case):
    def test_many_processes(self):
        of = self.rows("busy")
        waiting = "100 processes that wait, each for a lock of its own: processor time of the primary, ms/s"
        self.assertEqual(of[waiting]["goal"], "<= 30")
        connections = of["the same: connections to the primary"]["ours"]["median"]
        self.assertGreaterEqual(connections, 100)
        self.assertGreater(of["foreign writes/s that were made beside the waiters"]["ours"]["median"], 0)
        [handed_over] = [row for figure, row in of.items() if figure.startswith("hand-over beside them")]
        self.assertGreater(handed_over["ratio"]["median"], 0)
        self.assert_nothing_left()


if __name__ == "__main__":
    cli.main()
