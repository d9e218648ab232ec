# Negative controls: runs in which something is wrong on purpose; the checker must complain, and
# must not when the same run is right.
# SPDX-License-Identifier: Apache-2.0
import json
import re
import signal
import time
import unittest
import unittest.mock

import campaign
import network
import serving
import tenant
from checker import NS
from mongod import until

SECONDS = 60  # to wait for what comes within a few
MARKS = 15  # some of the leases had been left
AHEAD = campaign.SetBed.AHEAD


class Controls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rs = campaign.start_set([], election_ms=10000)
        cls.addClassCleanup(cls.rs.stop)

    def bed(self, ttl):
        asked = campaign.arguments(["--seed=1", "--ttl=%g" % ttl, "--slack=5", "--quiet"])
        bed = campaign.SetBed(asked, self.rs)
        self.enterContext(bed)
        self.addCleanup(bed.clean)
        bed.watchers = []
        return bed

    def writer(self, bed, *words):
        return bed.add("--writer", "--threads=1", "--locks=rw-0", *words)

    def events(self, client, kind):
        try:
            with open(client.path(client.who)) as stream:
                return [line for line in stream if re.match('{"event":"%s"' % kind, line)]
        except FileNotFoundError:
            return []

    def wait_for(self, client, kind):
        until(lambda: self.events(client, kind), SECONDS, "%s of %s" % (kind, client.who))

    @staticmethod
    def is_stopped(client):
        with open("/proc/%d/stat" % client.process.pid) as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] == "T"

    # ---- A late write ----

    def late_write(self, *words):
        """A holder is stopped between its last look at the lease and its write, until another has
        had the lock and has written (three times, if the machine lets it); then it
        writes."""
        bed = self.bed(ttl=4)
        late = self.writer(bed, "--turns=1", "--stop-before-write", *words)
        late.start()
        until(lambda: self.is_stopped(late), SECONDS, "the holder to stop")
        late.is_off()
        bed.shock()
        other = self.writer(bed, "--turns=3", *words)
        other.start()
        self.assertEqual(other.process.wait(SECONDS), 0)
        late.cont()
        self.assertEqual(late.process.wait(SECONDS), 0)
        report = bed.report()
        updates = report.figures["unguarded updates"]
        self.assertIn(updates, (2, 3, 4))
        self.assertEqual(report.figures["unguarded updates lost"], updates - 1)
        return report

    def test_a_late_write_is_refused_by_the_guard(self):
        report = self.late_write()
        self.assertEqual(report.complaints, [])
        self.assertEqual(report.figures["guarded writes refused"], 1)
        self.assertIn(report.figures["guarded updates"], (1, 2, 3))

    def test_a_late_write_without_a_guard_is_complained_of(self):
        self.assertEqual(self.late_write("--unguarded").kinds(), {"counter"})

    # ---- A judge with a clock ----

    def judged(self, by_clock):
        """The member that is 25 s ahead becomes primary while a lease of 20 s runs, whose beats
        get no answer. A waiter leaves it alone; `by_clock` somebody judges sessions by $$NOW."""
        bed = self.bed(ttl=20)
        self.step_up(self.rs.members[0])
        holder = self.writer(bed, "--turns=1", "--hold=15000")
        holder.start()
        self.wait_for(holder, "believes")
        for member in self.rs.members:
            self.rs.fail_command("findAndModify", "alwaysOn", member, appName="torture-0",
                                 namespace="holdfast.holdfast.sessions", closeConnection=True)
        self.addCleanup(self.rs.heal)
        self.step_up(self.rs.members[AHEAD])
        if by_clock:
            marked = bed.mongo.holdfast.holdfast.sessions.update_many(
                {"dead": False, "$expr": {"$lt": ["$expires_at", "$$NOW"]}},
                [{"$set": {"dead": True, "dead_at": "$$NOW"}}])
            self.assertGreater(marked.modified_count, 0)
        other = self.writer(bed, "--turns=1")
        other.start()
        self.wait_for(other, "believes")
        self.rs.heal()
        for client in (holder, other):
            self.assertEqual(client.process.wait(SECONDS), 0)
        return bed.report()

    def step_up(self, member):
        until(lambda: self.rs.primary() is member or self.rs.step_up(member, wait=False), SECONDS,
              "an election")
        until(lambda: self.rs.primary() is member, SECONDS, "the new primary")

    def test_a_live_session_is_left_alone(self):
        self.assertEqual(self.judged(by_clock=False).complaints, [])

    def test_a_judge_with_a_clock_is_complained_of(self):
        self.assertIn("overlap", self.judged(by_clock=True).kinds())

    # ---- A ticket that is taken out ----

    def test_a_ticket_that_is_taken_out_is_complained_of(self):
        """Nobody else wants the lock, so nobody believes beside its holder, who looks after it once
        per ttl."""
        bed = self.bed(ttl=60)
        holder = self.writer(bed, "--turns=1", "--hold=%d" % (SECONDS * 1000))
        holder.start()
        self.wait_for(holder, "believes")
        self.assertEqual(bed.mongo.holdfast.holdfast.locks.update_one(
            {"_id": "rw-0"}, {"$set": {"holders": []}}).modified_count, 1)
        until(lambda: bed.take_snapshot() or bed.snapshots, SECONDS, "a look at the record")
        looks = len(self.events(holder, "believes"))
        until(lambda: len(self.events(holder, "believes")) > looks or self.events(holder, "lost"),
              SECONDS, "the holder to look")
        holder.kill()
        self.assertIn("record", bed.report().kinds())

    # ---- Leases that are taken ----

    def test_leases_that_are_judged_at_random_are_complained_of(self):
        """Sessions without a process, which are those of leases, are marked dead while they live."""
        bed = self.bed(ttl=3)
        self.addCleanup(lambda: [watcher.end() for watcher in bed.watchers])
        bed.add_tenants()
        bed.serve()
        bed.clients[0].start()
        marks = []
        until(lambda: marks.append(self.mark_leases(bed)) or sum(marks) >= MARKS, SECONDS, "leases")
        bed.finish()
        report = bed.report()
        self.assertNotIn("leak", report.kinds())
        self.assertTrue({"overlap", "ended"} & report.kinds(), report)

    def test_a_lease_that_nobody_knows_is_complained_of(self):
        bed = self.bed(ttl=3)
        self.addCleanup(lambda: [watcher.end() for watcher in bed.watchers])
        bed.add_tenants()
        bed.serve()
        service = bed.services[0]
        answer = tenant.call((service.address, service.port), "POST", "/v1/locks/lease-0",
                             json.dumps({"ttl_ms": 600000}))
        self.assertEqual(answer.status, 201)
        with unittest.mock.patch.object(serving, "LEAK_TRIES", 1):
            bed.finish()
        self.assertEqual(list(bed.held), ["lease-0"])
        self.assertEqual(bed.report().kinds(), {"leak"})

    @staticmethod
    def mark_leases(bed):
        return bed.mongo.holdfast.holdfast.sessions.update_many(
            {"dead": False, "pid": 0},
            [{"$set": {"dead": True, "dead_at": "$$NOW"}}]).modified_count

    # ---- An answer that hides another ----

    def test_a_guarded_write_that_landed_is_never_called_unsent(self):
        """The driver sends a write again when it got no answer. The answer to the second one, "not
        primary", says nothing about the first one, which lands later."""
        bed = self.bed(ttl=30)
        writer = self.writer(bed, "--turns=1", "--stop-before-write")
        writer.start()
        until(lambda: self.is_stopped(writer), SECONDS, "the writer to stop")
        primary = self.rs.wait_primary()
        self.addCleanup(self.rs.heal)
        with primary.client() as admin:
            admin.admin.command("fsync", lock=True)  # no write gets on
            try:
                writer.process.send_signal(signal.SIGCONT)
                self.wait_for(writer, "write")
                time.sleep(1)  # it is under way, and its client waits for 5 s
                self.rs.fail_command("update", "alwaysOn", primary, appName="torture-data",
                                     errorCode=10107)
                self.wait_for(writer, "written")
            finally:
                admin.admin.command("fsyncUnlock")
        self.assertEqual(writer.process.wait(SECONDS), 0)
        until(lambda: bed.counters("")["rw-0"] == 1, SECONDS, "the first write to land")
        written = json.loads(self.events(writer, "written")[0])
        self.assertEqual(written["code"], "HF_UNKNOWN", written)


if __name__ == "__main__":
    network.enter()
    unittest.main(verbosity=2)
