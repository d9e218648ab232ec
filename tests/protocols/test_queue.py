# Protocol queue: its documents, byte for byte. SPDX-License-Identifier: Apache-2.0
import re
import time
import unittest

import bson

import golden
from contest import Command
from foreign import OnASet, start_set
from mongod import until


def setUpModule():
    start_set()


class Documents(OnASet):
    keys = {"Protocol": "queue"}

    def lock(self):
        """The lock's document, in which tokens, periods and bells are zero: they come from the cluster
        time, the clock and the session's id."""
        found = self.db.holdfast.locks.find_one({"_id": "x"})
        found["notify"] = ":".join("<%d>" % len(part) for part in found["notify"].split(":"))
        parts = [found, found.get("last", {}), found.get("done", {})]
        for each in parts + found["holders"] + found["queue"]:
            for number in ("token", "period", "period_end"):
                if each.get(number):
                    each[number] = bson.Int64(0)
            if "bell" in each:
                each["bell"] = 0
            if "who" in each:
                each["who"] = "<app>@<host>:<pid>"
        return golden.seen(found)

    def test_a_lock(self):
        expected = golden.load("queue.json")
        holder, waiter = self.holder("--why=nightly"), self.worker()
        self.assertEqual(self.lock(), expected["held"])
        waiter.ask("acquire", "waits")
        self.assertEqual(self.lock(), expected["waited for"])
        holder.ask("release", "release")
        waiter.wait("acquired", 10)
        self.assertEqual(self.lock(), expected["handed over"])

    def test_how_work_of_a_period_was_left(self):
        self.run_command("run", "--once-per", "87600h", "x", "--", "sh", "-c", "exit 3", status=3)
        self.assertEqual(self.lock(), golden.load("queue.json")["done once per period"])

    def test_why_it_was_lost(self):
        self.run_command("run", "--max-hold", "500ms", "x", "--", "sleep", "60", status=76)
        self.assertEqual(self.lock(), golden.load("queue.json")["held for too long"])

    def test_what_a_newer_format_looks_like_is_left_alone(self):
        self.run_command("run", "x", "--", "true")
        self.db.holdfast.locks.update_one({"_id": "x"}, {"$set": {"notify": {}, "format": 2}})
        before = self.db.holdfast.locks.find_one({"_id": "x"})
        for words in (["run", "-n", "x", "--", "true"], ["run", "x", "--", "true"], ["show", "x"]):
            told = self.run_command(*words, status=65).errors
            self.assertIn("has format 2, of a newer Holdfast", told)
        self.assertEqual(self.db.holdfast.locks.find_one({"_id": "x"}), before)

    def test_a_set_of_another_name(self):
        uri = re.sub("replicaSet=[^&]*", "replicaSet=other", self.uri)
        result = self.run_command("run", "x", "--", "true", uri=uri, status=65)
        self.assertRegex(result.errors,
                         "replicaSet=other: mongodb at .* belongs to the set \"[^\"]+\": name")

    def test_a_session(self):
        holder = self.holder("--ttl=9000")
        found = until(lambda: self.db.holdfast.sessions.find_one({"pid": holder.pid,
                                                         "waits": {"$exists": True}}),
                      15, "its second beat")
        found["clock"].update(boot="<boot>", at=bson.Int64(0))
        found.update(app="<app>", host="<host>", pid=bson.Int64(0), beat=bson.Int64(0),
                     seen=bson.Int64(0))
        self.assertEqual(golden.seen(found), golden.load("queue.json")["a session"])


class OthersDocuments(OnASet):
    def test_what_is_no_record_is_never_taken_over(self):
        """A bare _id is how the first article's first program holds a lock."""
        for theirs in ({"_id": "x"}, {"_id": "x", "acquirer": "a", "limit": 1}):
            self.db.holdfast.locks.replace_one({"_id": "x"}, theirs, upsert=True)
            for words in (["-n"], ["-w60s"], ["--shared", "-n"]):
                told = self.run_command("run", *words, "x", "--", "true", status=65).errors
                self.assertIn('"x" in collection holdfast.locks is not Holdfast\'s: field ', told)
            self.run_command("break", "--force", "--reason", "test", "x", status=65)
            self.assertEqual(self.db.holdfast.locks.find_one({"_id": "x"}), theirs)
        self.db.holdfast.locks.delete_one({"_id": "x"})
        self.run_command("run", "x", "--", "true")

    def test_no_index_is_made_beside_them(self):
        """It could delete them."""
        self.db.holdfast.sessions.insert_one({"_id": "theirs", "user": 1})
        run = self.start(Command("--store", self.uri, "run", "x", "--", "sleep", "600"))
        run.said('has a document that is not Holdfast\'s, _id "theirs", so no index is made there', 60)
        self.assertEqual(set(self.db.holdfast.sessions.index_information()), {"_id_"})

    def test_no_index_is_made_beside_them_on_sharding(self):
        self.db.lockpings.insert_one({"_id": "theirs", "user": 1})
        run = self.run_command("run", "x", "--", "true", uri=self.store(Protocol="sharding"))
        self.assertIn('collection lockpings in database %s has a document that' % self.database, run.errors)
        self.assertEqual(set(self.db.lockpings.index_information()), {"_id_"})

    def test_they_are_counted_in_one_line(self):
        self.db.holdfast.sessions.insert_many({"_id": "s%d" % n, "user": n} for n in range(20))
        self.db.holdfast.locks.insert_many({"_id": "l%d" % n, "user": n} for n in range(20))
        for words in (["sessions"], ["list", "--all"]):
            told = self.run_command(*words).errors
            self.assertIn("; 19 more are left out as well", told)
            self.assertEqual(told.count("is not Holdfast's"), 1, told)


class Collations(OnASet):
    """By one that knows no case, two names would be one lock."""

    def test_they_are_refused_before_two_names_are_one(self):
        for protocol, name in (("queue", "holdfast.locks"), ("ttl", "locks")):
            self.db.create_collection(name, collation={"locale": "en", "strength": 2})
            uri = self.store(Protocol=protocol)
            first = self.run_command("run", "-n", "Job", "--", "true", uri=uri,
                                     status=0 if protocol == "queue" else 65)
            for wait in ("-n", "-w30s"):
                told = self.run_command("run", wait, "job", "--", "true", uri=uri, status=65).errors
                self.assertIn("locks has a collation", told)
            if protocol == "queue":
                self.assertEqual(self.db[name].find_one()["queue"], [], first)


class Doctor(OnASet):
    """It does what a lock does, and looks at where that happens."""

    def told(self, status, **keys):
        return "\n".join(self.run_command("doctor", uri=self.store(**keys), status=status).lines)

    def test_where_locks_can_be_had_it_takes_some_and_leaves_nothing(self):
        self.db.users.insert_one({"_id": "x", "name": "y"})
        for keys in ({}, {"Protocol": "ttl"}, {"Protocol": "sharding"},
                     {"Protocol": "document", "Collection": "users"},
                     {"Protocol": "document", "Collection": "users", "Element": "lines.id"}):
            told = self.told(0, **keys)
            self.assertRegex(told, "(?m)^ok +trial lock ")
            self.assertNotRegex(told, "(?m)^[A-Za-z]+ +collection ")
        for name in ("holdfast.locks", "holdfast.sessions", "locks", "lockpings"):
            self.assertEqual(self.db[name].count_documents({}), 0, name)
        self.assertEqual(list(self.db.users.find()), [{"_id": "x", "name": "y"}])

    def test_where_none_can_be_had_it_says_so(self):
        kinds = (({"viewOn": "users", "pipeline": []}, "no collection of documents .view."),
                 ({"timeseries": {"timeField": "at"}}, "no collection of documents .timeseries."),
                 ({"capped": True, "size": 4096}, "locks is capped"),
                 ({"collation": {"locale": "en", "strength": 2}}, "locks has a collation"),
                 ({"validator": {"email": {"$exists": True}}}, "it cannot be taken: .*failed validation"))
        for options, told in kinds:
            self.db.drop_collection("holdfast.locks")
            self.db.create_collection("holdfast.locks", **options)
            self.assertRegex(self.told(1), "(?m)^DANGER .*" + told)

    def test_other_programs_there(self):
        self.db.holdfast.locks.insert_many([{"_id": n, "email": "%d@example.org" % n} for n in range(3)])
        self.assertRegex(self.told(0), "LOOK +collection +holdfast.locks has 3 documents that are not Holdfast's")
        self.db.holdfast.locks.create_index("email", unique=True)
        self.db.holdfast.sessions.create_index("expires_at", expireAfterSeconds=9, name="theirs")
        told = self.told(1)
        self.assertIn("locks has the unique index email_1", told)
        self.assertIn("sessions has the TTL index theirs", told)


class ForeignIndexes(OnASet):
    """A clash in a unique index of the application's says nothing about who holds."""

    def refused(self, keys, collection, index):
        self.db[collection].create_index(index, unique=True, name="theirs")
        self.db[collection].insert_one({"_id": "an application's"})
        began = time.monotonic()
        for words in (["-n"], ["-w60s"]):
            run = self.run_command("run", *words, "x", "--", "true", uri=self.store(**keys), status=69)
            self.assertIn("%s.%s index: theirs" % (self.database, collection), run.errors)
            self.assertIn("have an administrator drop the index", run.errors)
            self.assertNotIn("held by", run.errors)
        self.assertLess(time.monotonic() - began, 60)

    def test_on_sessions(self):
        self.refused({}, "holdfast.sessions", "user_id")

    def test_on_locks(self):
        self.refused({}, "holdfast.locks", "owner")

    def test_on_locks_by_upsert(self):
        self.db.locks.create_index("updated", expireAfterSeconds=600)
        self.refused({"Protocol": "ttl"}, "locks", "owner")

    def test_on_locks_of_sharding(self):
        self.refused({"Protocol": "sharding"}, "locks", "owner")

    def test_on_pings_of_sharding(self):
        self.refused({"Protocol": "sharding"}, "lockpings", "owner")


if __name__ == "__main__":
    unittest.main(verbosity=2)
