# ID leases over HTTP, in the protocols without a queue: beside programs written after the articles, on
# their own documents. SPDX-License-Identifier: Apache-2.0
import datetime
import http.client
import json
import os
import sys
import threading
import unittest
import urllib.parse

import bson
import pymongo
import pymongo.errors

from contest import Command, Program
from counter import count_up
from document_article import DocumentLock
from foreign import HERE, OnASet, shared, start_set

TURNS = 10  # of each of ours
TTL_MS = 10000


def setUpModule():
    start_set()


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class Service(Command):
    """`holdfast serve`, and calls of it."""

    def __init__(self, store):
        super().__init__("--store", store, "serve", "--listen", "127.0.0.1:0")
        self.host = urllib.parse.urlsplit(self.line("listening on ", 30)[1].split()[-1]).netloc

    def call(self, method, path, asked=None):
        connection = http.client.HTTPConnection(self.host, timeout=300)
        try:
            connection.request(method, path, json.dumps(asked) if asked else None,
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()


class Caller(threading.Thread):
    """Takes turns at the counter under a lease: had from one service, released at the other."""

    def __init__(self, services, counter):
        super().__init__()
        self.services, self.counter, self.failure = services, counter, None
        self.turns = 0

    def run(self):
        while self.turns < TURNS and not self.failure:
            status, lease = self.services[0].call("POST", "/v1/locks/x",
                                                  {"wait_ms": 60000, "ttl_ms": TTL_MS})
            if status == 409:  # the others were faster for so long
                continue
            if status != 201:
                self.failure = (status, lease)
                return
            count_up(self.counter)
            self.turns += 1
            status, said = self.services[1].call("DELETE", "/v1/leases/" + lease["lease"])
            if status != 204:
                self.failure = (status, said)


class Beside:
    """A lease is one more acquirer: turns at one counter, of which none is lost."""

    def add_others(self, contest):
        return [contest.add_other(self.script, self.database) for _ in range(2)]

    @staticmethod
    def await_turns(others):
        for other in others:
            other.line("turn", 60)

    @staticmethod
    def turns_of(other):
        return other.count("turn")

    def test_leases_and_programs_of_the_article_take_turns(self):
        contest = self.mixed()
        others = self.add_others(contest)
        services = [self.start(Service(self.store())) for _ in range(2)]
        callers = [Caller(services[::way], contest.counter) for way in (1, -1)]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
            self.assertIsNone(each.failure)
        self.await_turns(others)
        contest.finish(60)
        theirs = [self.turns_of(other) for other in others]
        print("turns: ours %d, theirs %s" % (2 * TURNS, theirs), file=sys.stderr)
        self.assertEqual(contest.value(), 2 * TURNS + sum(theirs), "an update was lost")

    def test_a_lease_keeps_them_out_and_is_renewed_by_any_service(self):
        first = self.start(Service(self.store()))
        status, lease = first.call("POST", "/v1/locks/x", {"ttl_ms": TTL_MS})
        self.assertEqual(status, 201, lease)
        first.kill()
        self.assertFalse(self.take_as_the_article_does())
        second = self.start(Service(self.store()))
        path = "/v1/leases/" + lease["lease"]
        self.assertEqual(second.call("PUT", path)[0], 200)
        self.assertFalse(self.take_as_the_article_does())
        self.assertEqual(second.call("DELETE", path)[0], 204)
        self.assertTrue(self.take_as_the_article_does())
        self.assertEqual(second.call("POST", "/v1/locks/x", {})[0], 409)


class Updated(Beside, OnASet):
    keys = {"Protocol": "ttl"}
    script = "insert.py"

    def take_as_the_article_does(self):
        try:
            self.db.locks.insert_one({"_id": "x", "acquirer": "them", "updated": now()})
        except pymongo.errors.DuplicateKeyError:
            return False
        return True


class ExpireAt(Beside, OnASet):
    keys = {"Protocol": "ttl", "Shape": "expire-at"}
    script = "spin.py"

    def take_as_the_article_does(self):
        until = now() + datetime.timedelta(minutes=1)
        before = self.db.locks.find_one_and_update(
            {"_id": "x"}, {"$setOnInsert": {"ExpireAt": until}}, upsert=True)
        return before is None


class Document(Beside, OnASet):
    keys = {"Protocol": "document", "Collection": "jobs"}
    SECONDS = "10"

    def setUp(self):
        super().setUp()
        self.db.jobs.insert_one({"_id": "x", "note": "left alone"})

    def add_others(self, contest):
        words = [sys.executable, os.path.join(HERE, "document_article.py"), shared.uri, self.database,
                 "jobs", "x", self.SECONDS, contest.counter, "30"]
        contest.others += [Program(*words, env={"PYTHONDONTWRITEBYTECODE": "1"}) for _ in range(2)]
        return contest.others

    @staticmethod
    def await_turns(others):
        for other in others:
            other.status(60)

    @staticmethod
    def turns_of(other):
        return int(other.lines[-1])

    def take_as_the_article_does(self):
        self.assertEqual(self.db.jobs.find_one({"_id": "x"})["note"], "left alone")
        return DocumentLock(self.db.jobs, 30).acquire("x") is not None


class Sharding(Beside, OnASet):
    keys = {"Protocol": "sharding", "PollMS": 100, "PingMS": 500}
    script = "manager.py"

    def take_as_the_article_does(self):
        try:
            self.db.locks.find_one_and_update(
                {"_id": "x", "state": 0},
                {"$set": {"ts": bson.ObjectId(), "state": 2, "who": "them:main", "process": "them",
                          "when": now(), "why": "counting"}}, upsert=True)
        except pymongo.errors.DuplicateKeyError:
            return False
        return True


if __name__ == "__main__":
    unittest.main(verbosity=2)
