#!/usr/bin/python3
"""The benchmark on the replica set of HOLDFAST_TEST_URI: it counts, and what it made is gone."""
# SPDX-License-Identifier: Apache-2.0
import json
import os

import cli


class BenchOnSet(cli.Case):
    def test_quick_parts(self):
        self.env["HOLDFAST_STORE"] = os.environ["HOLDFAST_TEST_URI"].replace("/?", "/bench?")
        words = ("--json", "bench", "--runs", "1", "--only", "process,work,recovery")
        rows = json.loads(self.check(0, *words, timeout=1000).out)
        of = {row["figure"]: row for row in rows}
        self.assertEqual([figure for figure, row in of.items() if "note" in row], [])
        for operation in ("acquire of a free lock", "release, awaited", "downgrade"):
            writes = of[operation + ": write commands"]["ours"]["median"]
            # what the server does besides is taken off, and varies
            self.assertAlmostEqual(writes, 1, delta=0.6, msg=operation)
        self.assertIn("crash recovery, ttl 1 s, from the last beat to the grant, ms", of)
        self.assertEqual(self.json("list", "--json"), [])
        self.assertEqual([one for one in self.json("sessions", "--json")
                          if "holdfast-bench" in json.dumps(one)], [])


if __name__ == "__main__":
    cli.main()
