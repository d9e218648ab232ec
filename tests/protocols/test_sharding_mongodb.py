# What protocol `sharding` relies on: how MongoDB itself keeps its locks on a config server, how it
# waits for those of others, and when it overtakes them. No Holdfast in here.
# SPDX-License-Identifier: Apache-2.0
import threading
import unittest

import bson
import pymongo

import golden
from beats import before_a_beat
from cluster import FREE, HELD, Cluster, boot_seconds
from mongod import until

LOCK_BUSY = 46
DUPLICATE = 11000
OTHER = "elsewhere:27017:1350047994:16807"
QUARTER = 15 * 60  # seconds: after this a lock of an owner that does not ping is overtaken


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.make_cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    @staticmethod
    def make_cluster():
        return Cluster()

    def setUp(self):
        self.name = self.id().rsplit(".test_", 1)[1]
        self.assertLess(len(self.name), 60, "a database's name has at most 63 bytes")

    def drop_held_up(self):
        """A drop that waits, because another holds the database's name."""
        self.cluster.create_database(self.name)
        self.cluster.hold(self.name)
        drop = self.cluster.drop_database(self.name)
        self.assertTrue(drop.is_waiting(2), drop.failure)
        self.assertEqual(self.cluster.lock(self.name)["process"], OTHER)
        return drop

    def grab(self, **write_concern):
        """The raw reply to a grab; it has the write concern's error in it, if there is one."""
        with pymongo.MongoClient(self.cluster.config.uri, appname=self.name,
                                 retryWrites=False) as client:
            return client.config.command(
                "findAndModify", "locks", query={"_id": self.name, "state": FREE}, upsert=True,
                update={"$set": {"ts": bson.ObjectId(), "state": HELD}}, new=True, check=False,
                writeConcern=dict({"w": "majority"}, **write_concern))


class Documents(OnACluster):
    def test_indexes(self):
        keys = {each: [index["key"] for index in
                       getattr(self.cluster, each).index_information().values()]
                for each in ("locks", "pings")}
        self.assertCountEqual(keys["locks"], [[("_id", 1)], [("ts", 1)],
                                              [("state", 1), ("process", 1)]])
        self.assertCountEqual(keys["pings"], [[("_id", 1)], [("ping", 1)]])

    def test_a_lock_held_and_free(self):
        self.cluster.create_database(self.name)
        with self.cluster.drops_hang():
            drop = self.cluster.drop_database(self.name)
            held = self.cluster.wait_held_by(self.name, "shard")
            self.assertTrue(drop.is_waiting(0.2))
        drop.end(30)
        free = until(lambda: self.cluster.locks.find_one({"_id": self.name, "state": FREE}), 10,
                     "its unlock")
        wanted = golden.load("sharding-lock.json")
        thread = held["who"].split(":", 1)[1]
        for lock, title in (held, "held"), (free, "free"):
            self.assertEqual(golden.seen(lock, name=self.name, thread=thread),
                             wanted["a lock of MongoDB's, " + title])
        self.assertEqual(held["ts"], free["ts"])

    def test_a_ping(self):
        ping = self.cluster.pings.find_one({"_id": "shard"})
        self.assertEqual(golden.seen(ping, process="shard"),
                         golden.load("sharding-lock.json")["a ping"])

    def test_its_locks_have_one_ts_and_differ_in_their_dates(self):
        taken = []
        for i in range(2):
            self.cluster.create_database(self.name)
            self.cluster.drop_database(self.name).end(30)
            taken.append(self.cluster.lock(self.name))
        self.assertEqual(taken[0]["ts"], taken[1]["ts"])
        self.assertLess(taken[0]["when"], taken[1]["when"])


class Waiting(OnACluster):
    def test_a_drop_waits_for_whoever_holds_and_goes_on(self):
        drop = self.drop_held_up()
        self.cluster.free(self.name)
        freed = boot_seconds()
        drop.end(30)
        print("    went on %.3f s after the unlock" % (drop.ended - freed))
        self.assertLess(drop.idle_seconds_since(freed), 0.5 + 5)  # it looks every 500 ms
        self.assertIsNone(self.cluster.databases.find_one({"_id": self.name}))
        self.assertEqual(self.cluster.lock(self.name)["process"], "shard")

    def test_state_1_is_held_too(self):
        self.cluster.create_database(self.name)
        self.cluster.hold(self.name)
        self.cluster.locks.update_one({"_id": self.name}, {"$set": {"state": 1}})
        drop = self.cluster.drop_database(self.name)
        self.assertTrue(drop.is_waiting(2), drop.failure)
        self.cluster.free(self.name)
        drop.end(30)

    def test_a_grab_is_refused_while_a_drop_holds(self):
        self.cluster.create_database(self.name)
        with self.cluster.drops_hang():
            drop = self.cluster.drop_database(self.name)
            self.cluster.wait_held_by(self.name, "shard")
            self.assertEqual(self.grab()["code"], DUPLICATE)
        drop.end(30)
        self.assertEqual(self.grab()["value"]["state"], HELD)

    def test_a_collections_drop_holds_one_lock_and_waits_for_another(self):
        self.cluster.create_database(self.name)
        self.cluster.hold(self.name + ".c")
        drop = self.cluster.drop_collection(self.name, "c")
        lock = self.cluster.wait_held_by(self.name, "shard")
        self.assertEqual(lock["why"], "dropCollection")
        self.assertTrue(drop.is_waiting(1), drop.failure)
        self.cluster.free(self.name + ".c")
        drop.end(30)

    def test_a_drop_gives_up_in_the_end(self):
        self.cluster.create_database(self.name)
        self.cluster.hold(self.name)
        with self.cluster.drops_give_up_after(1500):
            drop = self.cluster.drop_database(self.name)
            with self.assertRaises(pymongo.errors.OperationFailure) as raised:
                drop.end(30)
        self.assertEqual(raised.exception.code, LOCK_BUSY)
        self.assertGreater(drop.ended - drop.began, 1.4)
        self.assertEqual(self.cluster.lock(self.name)["process"], OTHER)
        self.cluster.free(self.name)
        self.cluster.drop_database(self.name).end(30)


class Errors(OnACluster):
    """What fail_command can do to one program (its appName) on a config server."""

    def fail(self, command="findAndModify", **data):
        self.addCleanup(self.cluster.config.heal)
        self.cluster.config.fail_command(command, appName=self.name, **data)

    def test_an_error_code_means_that_nothing_was_done(self):
        for code in (91, 189, 10107, 11602):
            self.fail(errorCode=code)
            self.assertEqual(self.grab().get("code"), code)
            self.assertIsNone(self.cluster.lock(self.name))

    def test_a_closed_connection_means_that_nothing_was_done(self):
        self.fail(closeConnection=True)
        with self.assertRaises(pymongo.errors.AutoReconnect):
            self.grab()
        self.assertIsNone(self.cluster.lock(self.name))

    def test_a_write_concern_error_means_that_it_was_done(self):
        for code in (64, 91):
            self.fail(writeConcernError={"code": code, "errmsg": "not yet"})
            reply = self.grab()
            self.assertEqual((reply["ok"], reply["writeConcernError"]["code"]), (1, code))
            self.assertEqual(reply["value"], self.cluster.lock(self.name))
            self.cluster.free(self.name)

    def test_mongodb_itself_is_not_failed(self):
        self.cluster.create_database(self.name)
        self.fail(mode="alwaysOn", errorCode=91)
        self.cluster.drop_database(self.name).end(30)

    def test_a_primary_has_an_election_and_a_clock(self):
        status = self.cluster.on_config.admin.command("serverStatus")
        self.assertIsInstance(status["repl"]["electionId"], bson.ObjectId)
        self.assertTrue(status["repl"]["isWritablePrimary"])
        self.assertIn("localTime", status)


class Clock(OnACluster):
    """A config server whose clock can be moved by a quarter of an hour."""

    @staticmethod
    def make_cluster():
        return Cluster(skew=0)

    def move(self, seconds):
        self.cluster.config.members[0].move_clock(seconds)

    def test_it_overtakes_an_owner_that_does_not_ping(self):
        drop = self.drop_held_up()
        self.move(QUARTER - 60)
        self.assertTrue(drop.is_waiting(4), "the quarter was not over yet")
        self.move(120)
        drop.end(60)
        self.assertEqual(self.cluster.lock(self.name)["process"], "shard")

    def test_it_does_not_overtake_an_owner_that_pings(self):
        done = threading.Event()

        def ping():
            while not done.wait(0.1):
                self.cluster.send_ping(OTHER)

        pinger = threading.Thread(target=ping, daemon=True)
        pinger.start()
        try:
            drop = self.drop_held_up()
            for _ in range(8):  # it pings after each step, however slow this machine is
                self.move((QUARTER + 60) / 8)
                before_a_beat(lambda: self.cluster.ping(OTHER))
            self.assertTrue(drop.is_waiting(4), drop.failure)
            self.assertEqual(self.cluster.lock(self.name)["process"], OTHER)
        finally:
            done.set()
            pinger.join()
        self.cluster.free(self.name)
        drop.end(60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
