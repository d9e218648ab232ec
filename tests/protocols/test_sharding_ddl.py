# Protocol `sharding` and MongoDB itself on one config server: Holdfast holds MongoDB's DDL up,
# waits for it, lists its locks beside ours, and is overtaken by it after a crash.
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import pymongo

import golden
from cluster import HELD
from guardian import kill_host
from mongod import until
from sharding_bed import LONG, LOST, NOT_ACQUIRED, OnACluster

QUARTER = 15 * 60  # seconds: MongoDB's expiry


class HoldsMongoDbUp(OnACluster):
    def test_a_drop_waits_while_holdfast_holds_and_then_succeeds(self):
        self.cluster.create_database(self.name)
        run = self.run_holder()
        drop = self.cluster.drop_database(self.name)
        self.assertTrue(drop.is_waiting(3), drop.failure)
        self.assertEqual(self.lock()["state"], HELD)
        self.assertIsNotNone(self.cluster.databases.find_one({"_id": self.name}))
        ended = self.end(run)
        drop.end(30)
        print("    a drop was held up for 3 s, and ended %.3f s after the command's child" % (
            drop.ended - ended))
        self.assertLess(drop.idle_seconds_since(ended), 0.5 + 5)  # MongoDB looks every 500 ms
        self.assertIsNone(self.cluster.databases.find_one({"_id": self.name}))

    def test_a_collections_drop_waits_for_the_collections_name(self):
        self.cluster.create_database(self.name)
        run = self.run_holder(name=self.name + ".c")
        drop = self.cluster.drop_collection(self.name, "c")
        self.cluster.wait_held_by(self.name, "shard")
        self.assertTrue(drop.is_waiting(1), drop.failure)
        self.assertEqual(self.try_it(), NOT_ACQUIRED)  # it holds the database's name meanwhile
        self.end(run)
        drop.end(30)
        self.assertEqual(self.try_it(), 0)

    def test_a_drop_that_gives_up_is_told_who_holds(self):
        self.cluster.create_database(self.name)
        run = self.run_holder()
        with self.cluster.drops_give_up_after(1500):
            with self.assertRaisesRegex(pymongo.errors.OperationFailure, self.name) as raised:
                self.cluster.drop_database(self.name).end(30)
        self.assertEqual(raised.exception.code, 46)  # LockBusy
        self.assertEqual(self.lock()["state"], HELD)
        self.end(run)
        self.cluster.drop_database(self.name).end(30)

    def test_the_document_is_as_mongodb_would_write_it(self):
        run = self.run_holder("--why", "by the book")
        held = self.lock()
        process, thread = held["process"], held["who"].rsplit(":", 1)[1]
        self.assertRegex(process, r"^.+:\d+:\d+:-?\d+$")
        self.assertEqual(held["who"], process + ":" + thread)
        ping = self.cluster.pings.find_one({"_id": process})
        self.end(run)
        wanted = golden.load("sharding-lock.json")
        for lock, title in (held, "held"), (self.lock(), "free"):
            seen = golden.seen(dict(lock, who="<process>:<thread>"), name=self.name,
                               process=process, why="by the book")
            self.assertEqual(seen, wanted["a lock of Holdfast's, " + title])
        self.assertEqual(golden.seen(ping, process=process), wanted["a ping"])
        self.assertIsNone(self.cluster.ping(process), "the ping outlived its process")

    def test_a_lock_that_mongodb_had_before_is_taken_over_as_it_stands(self):
        self.cluster.create_database(self.name)
        self.cluster.drop_database(self.name).end(30)
        run = self.run_holder()
        self.assertEqual(self.lock()["term"], -1)  # what it does not know it leaves alone
        self.end(run)
        self.cluster.create_database(self.name)
        self.cluster.drop_database(self.name).end(30)


class WaitsForMongoDb(OnACluster):
    def test_it_waits_for_a_drop_under_way(self):
        self.cluster.create_database(self.name)
        with self.cluster.drops_hang():
            drop = self.cluster.drop_database(self.name)
            held = self.cluster.wait_held_by(self.name, "shard")
            waiter = self.run_waiter()
            self.assertIn("shard", waiter.errors)
            self.assertEqual(self.try_it(), NOT_ACQUIRED)
            self.assertTrue(drop.is_waiting(2))
            self.assertEqual(waiter.lines, [])
            self.assertEqual(self.lock(), held)
        drop.end(30)
        had_ns, _ = waiter.line("had", 20)
        print("    had %.3f s after the drop" % (had_ns / 1e9 - drop.ended))
        self.assertEqual(waiter.status(20), 0, waiter)
        self.assert_free()

    def test_it_waits_for_a_drop_that_waits_for_a_second_lock(self):
        self.cluster.create_database(self.name)
        self.cluster.hold(self.name + ".c")
        drop = self.cluster.drop_collection(self.name, "c")
        self.cluster.wait_held_by(self.name, "shard")
        waiter = self.run_waiter()
        self.assertTrue(drop.is_waiting(2))
        self.assertEqual(waiter.lines, [])
        self.cluster.free(self.name + ".c")
        drop.end(30)
        waiter.line("had", 20)
        self.assertEqual(waiter.status(20), 0, waiter)

    def test_drops_and_commands_take_turns(self):
        """Databases are made and dropped while commands take the same name: all get their turn,
        and nobody runs while another holds."""
        runs = [self.command("run", "-w", "60s", self.name, "--", "sh", "-c",
                             "echo began $(date +%s%N); sleep 0.2; echo ended $(date +%s%N)")
                for _ in range(4)]
        for _ in range(4):
            self.cluster.create_database(self.name)
            self.cluster.drop_database(self.name).end(60)
        spans = []
        for run in runs:
            self.assertEqual(run.status(60), 0, run)
            spans.append([int(run.line(word, 1)[1].split()[1]) for word in ("began", "ended")])
        spans.sort()
        for (_, ended), (began, _) in zip(spans, spans[1:]):
            self.assertLess(ended, began)
        self.assert_free()


class Listings(OnACluster):
    def test_list_and_show_have_both(self):
        self.cluster.create_database(self.name)
        run = self.run_holder("--why", "mine", name="ours")
        with self.cluster.drops_hang():
            drop = self.cluster.drop_database(self.name)
            self.cluster.wait_held_by(self.name, "shard")
            locks = {lock["name"]: lock for lock in self.json("list")}
            mongodb = self.json("show", self.name)
        drop.end(30)
        [ours], [theirs] = locks["ours"]["holders"], locks[self.name]["holders"]
        self.assertEqual(ours["why"], "mine")
        self.assertIn(self.cluster.lock("ours")["process"], ours["who"])
        self.assertEqual(theirs["why"], "dropDatabase")
        self.assertIn("shard:ShardingDDLCoordinator", theirs["who"])
        self.assertEqual(mongodb["holders"][0]["who"], theirs["who"])
        self.assertEqual(mongodb["queue"], [])
        self.end(run)
        self.assertEqual(self.json("show", "ours")["holders"], [])

    def test_sessions_are_the_pings_of_both(self):
        self.options = LONG
        run = self.run_holder()
        process = self.lock()["process"]
        text = json.dumps(self.json("sessions"))
        self.assertIn('"shard', text)  # MongoDB's own
        self.assertIn(str(run.pid), text)
        first = self.cluster.ping(process)
        until(lambda: self.cluster.ping(process) > first, 10, "the next ping")
        self.end(run)
        self.assertNotIn(process, json.dumps(self.json("sessions")))
        self.assertIsNotNone(self.cluster.ping("shard"))

    def test_break_takes_a_lock_from_an_owner_that_cannot_be_asked(self):
        self.cluster.create_database(self.name)
        self.cluster.hold(self.name, why="never to end")
        drop = self.cluster.drop_database(self.name)
        self.assertTrue(drop.is_waiting(1))
        asked = self.command("break", "--reason", "stuck", self.name)
        self.assertNotEqual(asked.status(30), 0)
        self.assertIn("--force", asked.errors)
        self.assertTrue(drop.is_waiting(1))
        forced = self.command("break", "--force", "--reason", "stuck", self.name)
        self.assertEqual(forced.status(30), 0, forced)
        drop.end(30)

    def test_a_broken_lock_is_lost_to_its_holder(self):
        self.options = LONG
        run = self.run_holder()
        broken = self.command("break", "--force", "--reason", "test", self.name)
        self.assertEqual(broken.status(30), 0, broken)
        self.assertEqual(run.status(30), LOST, run)
        self.assertEqual(self.try_it(), 0)

    def test_what_this_protocol_cannot_do_names_the_one_that_can(self):
        for words in (["-s"], ["--permits", "1", "--limit", "2"]):
            refused = self.command("run", *words, self.name, "--", "echo", "ran")
            self.assertEqual(refused.status(30), 65, refused)
            self.assertIn("hfProtocol=queue", refused.errors)
            self.assertEqual(refused.lines, [])
        self.assertIsNone(self.lock())


class Crash(OnACluster):
    """A config server whose clock can be moved by a quarter of an hour."""

    skew = 0

    def ping_of_holder(self):
        return self.cluster.ping(self.lock()["process"])

    def test_mongodb_overtakes_a_holdfast_that_was_killed(self):
        self.options = "hfPingMS=100"
        self.cluster.create_database(self.name)
        run = self.run_holder()
        drop = self.cluster.drop_database(self.name)
        self.assertTrue(drop.is_waiting(2))
        member = self.cluster.config.members[0]
        for _ in range(8):  # it pings after each step, however slow this machine is
            member.move_clock((QUARTER + 60) / 8)
            ping = self.ping_of_holder()
            until(lambda: self.ping_of_holder() > ping, 30, "a ping")
        self.assertTrue(drop.is_waiting(4), "it pings: it must not be overtaken")
        kill_host(run)
        self.assertTrue(drop.is_waiting(1))
        member.set_skew(member.skew + QUARTER + 60)
        drop.end(60)
        self.assertEqual(self.lock()["process"], "shard")


if __name__ == "__main__":
    unittest.main(verbosity=2)
