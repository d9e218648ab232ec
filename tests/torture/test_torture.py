# The fault campaign in short: each kind of fault once on a replica set, in random order, and a few
# seconds of SQLite. `make torture` is the long one; its words can repeat what fails here.
# SPDX-License-Identifier: Apache-2.0
import os
import random
import unittest

import campaign
import faults
import network

SEED = int(os.environ.get("HOLDFAST_TEST_SEED", random.SystemRandom().randrange(10**6)))
SLACK = "3"  # seconds that a loaded machine may take, in waits only
DIVIDED = bool(os.environ.get(network.ENTERED))


def say(text):
    print("HOLDFAST_TEST_SEED=%d %s" % (SEED, text), flush=True)


class Torture(unittest.TestCase):
    def campaign(self, fixed, *words):
        """Every fault of `fixed` once, for a second or two."""
        say("repeats this")
        random.Random(SEED).shuffle(fixed)
        report = campaign.run(campaign.arguments(
            ["--seed=%d" % SEED, "--slack=" + SLACK, "--seconds=0", *words]), fixed)
        self.assertEqual(report.complaints, [], "HOLDFAST_TEST_SEED=%d" % SEED)
        for figure in ("believed", "guarded updates", "unguarded updates", "leases granted"):
            self.assertGreater(report.figures[figure], 5, figure)
        for figure in ("calls repeat", "calls renew", "calls release"):
            self.assertGreater(report.figures[figure], 0, figure)
        return report

    def test_a_replica_set(self):
        kinds = [faults.KillClient, faults.StopClient, faults.KillPrimary, faults.DropLocks,
                 faults.DropBells, faults.Messages, faults.ClockAhead, faults.KillService, faults.StopService,
                 faults.ForeignIndex, faults.ForeignCollection, faults.RepeatBeats]
        kinds += ([faults.CutClient, faults.CutPrimary, faults.CutService] if DIVIDED
                  else [faults.StopPrimary])
        report = self.campaign(kinds, "--ttl=2", "--shortest")
        self.assertGreater(report.figures["ms without a primary"], 0)

    def test_behind_gates_with_the_servers_own_election_time_out(self):
        kinds = [faults.KillClient, faults.KillPrimary, faults.CutOffPrimary] + [faults.AtAGate] * 5
        self.campaign(kinds, "--ttl=6", "--shortest", "--gates", "--election-ms=0")

    def test_a_sqlite_file(self):
        kinds = [faults.KillClient, faults.StopClient, faults.KillService, faults.StopService] * 2
        kinds += [faults.FullDisk] if DIVIDED else []
        self.campaign(kinds, "--store=sqlite", "--ttl=2", "--shortest")


if __name__ == "__main__":
    if not network.enter():
        say("LEFT OUT: partitions and the full disk: no namespaces here (be root, or allow users"
            " namespaces)")
    unittest.main(verbosity=2)
