# docs/dotnet-*.md are followed literally, beside documents as the .NET driver writes them.
# SPDX-License-Identifier: Apache-2.0
import datetime
import json
import os
import re
import signal
import subprocess
import unittest

import bson
import pymongo

from contest import COMMAND
from foreign import OnASet, shared, start_set
from mongod import free_ports

DOCS = os.path.join(os.environ["HOLDFAST_SOURCE"], "docs")
GUID = bson.Binary(b"0123456789abcdef", 3)


def setUpModule():
    start_set()


class Page:
    """Its commands, block by block, in one shell, with the test's store and ports in place of the page's."""

    def __init__(self, name, uri):
        with open(os.path.join(DOCS, name)) as stream:
            text = stream.read()
        for port, free in zip(("8430", "8431"), free_ports(2)):
            text = text.replace(port, str(free))
        text = text.replace("'mongodb://a,b,c/app?replicaSet=rs0'", "'%s'" % uri)
        self.blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        env = dict(os.environ, PATH=os.path.dirname(COMMAND) + ":" + os.environ["PATH"])
        self.shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
                                      start_new_session=True)

    def follow(self, n):
        """What the nth block prints. It succeeds."""
        self.shell.stdin.write("%s\necho end $?\n" % self.blocks[n])
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.startswith("end "):
                assert line == "end 0\n", lines + [line]
                return "".join(lines)
            if not line.startswith("listening on "):
                lines.append(line)
        raise AssertionError("the shell has ended: %s" % lines)

    def end(self):
        """With the services that it has started."""
        os.killpg(self.shell.pid, signal.SIGTERM)
        self.shell.stdin.close()
        self.shell.stdout.read()
        self.shell.stdout.close()
        self.shell.wait()


class DotNet(OnASet):
    def open(self, name):
        page = Page(name, shared.uri_for(self.database))
        self.addCleanup(page.end)
        return page

    def ahead(self, seconds):
        return self.mongo.admin.command("hello")["localTime"] + datetime.timedelta(seconds=seconds)

    def expect(self, page, *statuses):
        """Of the next blocks."""
        for status in statuses:
            self.assertEqual(page.follow(self.at), "%d\n" % status)
            self.at += 1

    # ---- Documents with ExpireAt ----

    def upsert(self, seconds):
        """Whether the other program has the lock now."""
        return self.db.Locks.find_one_and_update(
            {"_id": "report"}, {"$setOnInsert": {"ExpireAt": self.ahead(seconds)}}, upsert=True,
            return_document=pymongo.ReturnDocument.BEFORE) is None

    def test_locks_that_are_documents(self):
        self.db.Locks.create_index("ExpireAt", expireAfterSeconds=0)
        self.assertTrue(self.upsert(60))
        page = self.open("dotnet-lock-documents.md")
        self.assertIn("report", page.follow(0))
        page.follow(1)
        self.db.Locks.delete_one({"_id": "report"})  # its Dispose
        self.assertIn('"lease"', page.follow(2))
        self.assertFalse(self.upsert(60))
        self.assertGreater(self.db.Locks.find_one({"_id": "report"})["ExpireAt"],
                           self.ahead(0).replace(tzinfo=None))
        self.at = 3
        self.expect(page, 200, 204)
        self.assertTrue(self.upsert(2))  # and it crashes
        self.assertIn('"lease"', page.follow(2))
        self.at = 4
        self.expect(page, 204)
        self.assertEqual(page.follow(5), "204\n204\n")
        self.assertEqual(len(page.blocks), 6)
        self.assertEqual(self.db["holdfast.locks"].count_documents({"_id": "report"}), 1)

    # ---- Objects that are locked themselves ----

    def setUp(self):
        super().setUp()
        self.events = self.db.get_collection("Events", bson.CodecOptions(
            uuid_representation=bson.binary.UuidRepresentation.UNSPECIFIED))

    def event(self, name, **fields):
        self.events.insert_one(dict({"_id": name, "LockId": None, "UpdateLock": None}, **fields))

    def test_objects_that_are_locked_themselves(self):
        self.event("some-task")
        self.event("held", LockId=GUID, UpdateLock=self.ahead(30))
        page = self.open("dotnet-locked-objects.md")
        self.assertIn("held", page.follow(0))
        done = [json.loads(line)["_id"] for line in page.follow(1).splitlines()]
        self.assertEqual(done, ["some-task"])
        page.follow(2)
        self.assertIn('"lease"', page.follow(3))
        locked = self.events.find_one({"_id": "some-task"})
        self.assertEqual(locked["LockId"].subtype, 3)
        self.assertGreater(locked["UpdateLock"], self.ahead(0).replace(tzinfo=None))
        self.at = 4
        self.expect(page, 200, 204)
        self.assertEqual(len(page.blocks), 6)
        self.assertEqual(self.events.find_one({"_id": "some-task"}),
                         {"_id": "some-task", "LockId": None, "UpdateLock": None})
        self.assertEqual(self.events.find_one({"_id": "held"})["LockId"], GUID)


if __name__ == "__main__":
    unittest.main(verbosity=2)
