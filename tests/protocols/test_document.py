# Protocol `document`: locks inside the user's own documents, beside programs that follow the same
# article, on a real three-node set. SPDX-License-Identifier: Apache-2.0
import datetime
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import bson
import pymongo

import golden
from contest import CONTEST_SECONDS
from idle import boot_ns, idle_seconds
from limits import BUSY
from mongod import ReplicaSet, until

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("HOLDFAST_BUILD") or os.path.join(HERE, "..", "..", "build")
BIN = os.path.join(BUILD, "holdfast")
WORKER = os.path.join(BUILD, "document_worker")
ARTICLE = os.path.join(HERE, "document_article.py")
DATABASE = "documents_%d" % os.getpid()
PATIENCE = 60 * BUSY  # seconds: only what hangs takes longer


def setUpModule():
    """One set for all, unless there is one already."""
    if not os.environ.get("HOLDFAST_TEST_URI"):
        rs = ReplicaSet(members=1)
        unittest.addModuleCleanup(rs.stop)
        os.environ["HOLDFAST_TEST_URI"] = rs.start().uri
        unittest.addModuleCleanup(os.environ.pop, "HOLDFAST_TEST_URI")


class Script:
    """A worker that does what it is told, line by line."""

    def __init__(self, uri, ttl_ms=10000):
        self.process = subprocess.Popen([WORKER, "script", uri, str(ttl_ms)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def ask(self, line):
        """The first word of the answer, and the rest."""
        self.process.stdin.write(line.encode() + b"\n")
        return self.hear()

    def hear(self):
        ready = select.select([self.process.stdout], [], [], PATIENCE)[0]
        if not ready:
            raise AssertionError("the worker says nothing")
        line = self.process.stdout.readline().decode().rstrip("\n")
        return (line.split(" ", 1) + [""])[:2]

    def take(self, what, flags="-"):
        """What was taken: its token and the document."""
        code, rest = self.ask("take %s %s" % (flags, what))
        assert code == "HF_OK", (code, rest)
        token, document = rest.split(" ", 1)
        return int(token), json.loads(document)

    def done(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class OnASet(unittest.TestCase):
    maxDiff = None
    standalone = False

    @classmethod
    def setUpClass(cls):
        uri = os.environ["HOLDFAST_TEST_URI"]
        if cls.standalone:
            server = ReplicaSet(standalone=True)
            cls.addClassCleanup(server.stop)
            uri = server.start().uri
        hosts, options = uri.split("?") if "?" in uri else (uri, "")
        cls.driver_uri = "%s/%s?%s" % (hosts.rstrip("/").rsplit("/", 1)[0] if hosts.count("/") > 3
                                       else hosts.rstrip("/"), DATABASE, options)
        cls.mongo = pymongo.MongoClient(cls.driver_uri)
        cls.addClassCleanup(cls.mongo.close)
        cls.addClassCleanup(cls.mongo.drop_database, DATABASE)

    def setUp(self):
        self.name = self.id().rsplit(".test_", 1)[1]
        majority = pymongo.WriteConcern("majority")
        codec = bson.CodecOptions(uuid_representation=bson.binary.UuidRepresentation.UNSPECIFIED)
        self.documents = self.mongo[DATABASE].get_collection(self.name, codec, write_concern=majority)
        self.documents.drop()
        self.mongo[DATABASE].create_collection(self.name)

    def uri(self, **keys):
        more = "".join("&%s=%s" % each for each in keys.items())
        return "%s&hfProtocol=document&hfCollection=%s%s" % (self.driver_uri, self.name, more)

    def script(self, ttl_ms=10000, **keys):
        script = Script(self.uri(**keys), ttl_ms)
        self.addCleanup(script.done)
        return script

    def insert(self, **document):
        self.documents.insert_one(document)
        return document

    def now(self):
        return self.mongo.admin.command("hello")["localTime"]

    def find(self, name):
        return self.documents.find_one({"_id": name})

    def command(self, *words, uri=None, **more):
        result = subprocess.run([BIN, "--store", uri or self.uri(), *words], timeout=PATIENCE,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
        return result

    def check(self, status, *words, **more):
        result = self.command(*words, **more)
        self.assertEqual(result.returncode, status, (words, result.stdout, result.stderr))
        return result

    def run_document(self, status, *words, **more):
        return self.check(status, "run", "--document", self.name, *words, uri=self.driver_uri,
                          **more)


def outputs(processes):
    """What each said, once all have ended well."""
    said = [process.communicate(timeout=PATIENCE + CONTEST_SECONDS)[0] for process in processes]
    assert not any(process.returncode for process in processes), said
    return said


# ---- Together with programs of the article's kind ----

class BothKinds(OnASet):
    def contend(self, name, each, seconds, fields=(), **keys):
        """The turns of ours, of theirs, and what the counter says."""
        with tempfile.NamedTemporaryFile("w", suffix=".counter") as counter:
            counter.write("0")
            counter.flush()
            ours = [WORKER, "contend", self.uri(**keys), name, str(seconds), counter.name]
            theirs = [sys.executable, ARTICLE, self.driver_uri, DATABASE, self.name, name,
                      str(seconds), counter.name, "30", *fields]
            started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
                       for words in [ours] * each + [theirs] * each]
            turns = [int(text) for text in outputs(started)]
            with open(counter.name) as stream:
                return turns[:each], turns[each:], int(stream.read())

    def test_eight_processes_lose_no_update(self):
        rest = {"title": "x", "n": bson.Int64(7), "deep": {"a": [1, {"b": None}]}}
        self.insert(_id="one", **rest)
        ours, theirs, counted = self.contend("one", 4, CONTEST_SECONDS)
        print("ours %s, theirs %s, in %d s" % (ours, theirs, CONTEST_SECONDS))
        self.assertEqual(counted, sum(ours) + sum(theirs))
        self.assertGreater(min(sum(ours), sum(theirs)), 0)
        self.assertEqual(self.find("one"), {"_id": "one", **rest, "lockId": None, "lockTs": None})

    def test_programs_that_poll_get_their_turn(self):
        self.insert(_id="one")
        ours, theirs, counted = self.contend("one", 4, CONTEST_SECONDS, hfFair=1, hfPollMS=20)
        print("ours %s, theirs %s, in %d s" % (ours, theirs, CONTEST_SECONDS))
        self.assertEqual(counted, sum(ours) + sum(theirs))
        self.assertGreater(min(sum(ours), sum(theirs)), 0)

    def test_paths_lose_no_update(self):
        self.insert(_id="one", meta={"by": "us"})
        ours, theirs, counted = self.contend(
            "one", 2, 5, ("meta.lock.id", "meta.lock.ts"),
            hfLockField="meta.lock.id", hfTimeField="meta.lock.ts")
        self.assertEqual(counted, sum(ours) + sum(theirs))
        self.assertEqual(self.find("one")["meta"],
                         {"by": "us", "lock": {"id": None, "ts": None}})

    def test_lock_ids_of_other_types_lose_no_update(self):
        for kind, means in (("uuid", "refreshed"), ("uuidLegacy", "expires"), ("string", "expires")):
            self.insert(_id=kind)
            ours, theirs, counted = self.contend(
                kind, 2, 5, ("lockId", "lockTs", kind, means), hfLockIdType=kind, hfTimeMeans=means,
                hfStaleMultiplier=6)
            print("%s: ours %s, theirs %s" % (kind, ours, theirs))
            self.assertEqual(counted, sum(ours) + sum(theirs))
            self.assertGreater(min(sum(ours), sum(theirs)), 0)
            self.assertEqual(self.find(kind), {"_id": kind, "lockId": None, "lockTs": None})


# ---- The documents ----

class Documents(OnASet):
    def test_fields(self):
        expected = golden.load("document-fields.json")
        document = self.insert(_id=bson.ObjectId(), title="one", n=bson.Int64(5), tags=["a", "b"])
        self.assertEqual(golden.seen(self.find(document["_id"])), expected["never locked"])
        script = self.script()
        script.take(json.dumps({"$oid": str(document["_id"])}))
        self.assertEqual(golden.seen(self.find(document["_id"])), expected["held"])
        self.assertEqual(script.ask("release")[0], "HF_OK")
        self.assertEqual(golden.seen(self.find(document["_id"])), expected["released"])

    def test_paths(self):
        expected = golden.load("document-paths.json")
        self.insert(_id="p", meta={"by": "us"})
        script = self.script(hfLockField="meta.lock.id", hfTimeField="meta.lock.ts",
                             hfTokenField="fence")
        self.assertEqual(script.take("p")[0], 1)
        self.assertEqual(golden.seen(self.find("p")), expected["held"])
        self.assertEqual(script.ask("release")[0], "HF_OK")
        self.assertEqual(golden.seen(self.find("p")), expected["released"])
        self.assertEqual(script.take("p")[0], 2)
        self.assertEqual(golden.seen(self.find("p")), expected["held again"])

    def test_refresh_touches_the_date_only(self):
        self.insert(_id="one", x=1)
        script = self.script(ttl_ms=9000)
        _, taken = script.take("one")
        first = self.find("one")
        later = until(lambda: [d for d in [self.find("one")] if d["lockTs"] > first["lockTs"]], 10,
                      "a refresh")[0]
        self.assertEqual(dict(later, lockTs=0), dict(first, lockTs=0))
        self.assertEqual(taken["x"], 1)

    def test_what_is_closed_can_be_taken_at_once(self):
        self.insert(_id="one")
        script = self.script()
        script.take("one")
        for _ in range(20):
            script.take("one", "x")
        self.assertEqual(script.ask("release")[0], "HF_OK")
        self.assertIsNone(self.find("one")["lockId"])

    def test_ids_of_all_types(self):
        ids = ["plain", "42", '"quoted"', "", " blank ", "true", 42, bson.Int64(2) ** 40, 1.5,
               bson.ObjectId(), {"a": 1, "b": {"c": "d"}}, True, bson.Binary(b"abc", 4),
               "1} {\"b\":2", "ä€"]
        self.documents.insert_many([{"_id": each} for each in ids])
        for _ in ids:
            self.script(ttl_ms=60000, hfRefreshMS=10000).take("{}", "cn")
        listed = json.loads(self.check(0, "list", "--json").stdout)
        self.assertEqual(len(listed), len(ids))
        for lock in listed:
            shown = json.loads(self.check(0, "show", lock["name"], "--json").stdout)
            self.assertEqual(shown["name"], lock["name"])
            self.assertEqual(shown["holders"][0]["session"], lock["holders"][0]["session"])

    def test_no_index_and_no_document_is_made(self):
        collections = self.mongo[DATABASE].list_collection_names()
        self.assertIn("no document", self.run_document(65, "--id", "gone", "--", "true").stderr)
        self.assertEqual(self.documents.count_documents({}), 0)
        self.insert(_id="one")
        self.run_document(0, "--id", "one", "--", "true")
        self.assertEqual(list(self.documents.index_information()), ["_id_"])
        self.assertEqual(self.documents.count_documents({}), 1)
        self.assertCountEqual(self.mongo[DATABASE].list_collection_names(),
                              collections + [self.name + ".done", self.name + ".history"])


class OddShapes(OnASet):
    PATHS = {"hfLockField": "a.b.id", "hfTimeField": "a.b.ts", "hfTokenField": "fence"}

    def refused(self, document, field, **keys):
        self.insert(_id="odd", **document)
        before = self.find("odd")
        result = self.check(65, "run", "-n", "odd", "--", "true", uri=self.uri(**keys))
        for word in (self.name, "odd", "field " + field):
            self.assertIn(word, result.stderr)
        claimed = self.script(**keys).ask("take cn {}")
        self.assertEqual(claimed[0], "HF_NOT_FOUND", claimed)
        self.assertEqual(self.find("odd"), before)
        self.documents.delete_many({})

    def test_lock_fields_of_other_types(self):
        when = self.mongo.admin.command("hello")["localTime"]
        for document, field in (({"lockId": "text"}, "lockId"), ({"lockId": 5}, "lockId"),
                                ({"lockId": {"a": 1}}, "lockId"), ({"lockId": []}, "lockId"),
                                ({"lockId": bson.ObjectId()}, "lockTs"),
                                ({"lockId": bson.ObjectId(), "lockTs": None}, "lockTs"),
                                ({"lockId": bson.ObjectId(), "lockTs": 5}, "lockTs"),
                                ({"lockTs": "text"}, "lockTs"),
                                ({"lockId": False, "lockTs": when}, "lockId")):
            self.refused(document, field)

    def test_parents_of_other_types(self):
        for document, field in (({"a": 5}, "a"), ({"a": None}, "a"), ({"a": [{"b": 1}]}, "a"),
                                ({"a": {"b": "text"}}, "a.b"), ({"a": {"b": {"id": 1}}}, "a.b.id"),
                                ({"a": {}, "fence": "text"}, "fence")):
            self.refused(document, field, **self.PATHS)
        for field in ("a", "c"):
            self.refused({field: 5}, field, hfLockField="a.id", hfTimeField="c.ts")
        self.refused({"d": 5}, "d", hfTokenField="d.token")

    def test_what_is_absent_or_null_is_free(self):
        for document in ({}, {"lockId": None}, {"lockTs": None}, {"lockId": None, "lockTs": None}):
            self.insert(_id="free", **document)
            self.run_document(0, "-n", "--id", "free", "--", "true")
            self.documents.delete_many({})
        for document in ({}, {"a": {}}, {"a": {"b": {}, "c": 1}, "fence": 5.0}):
            self.insert(_id="free", **document)
            self.check(0, "run", "-n", "free", "--", "true", uri=self.uri(**self.PATHS))
            self.documents.delete_many({})

    def test_the_list_goes_on_behind_one(self):
        self.insert(_id="a", lockId="text")
        self.insert(_id="b", lockId=bson.ObjectId(), lockTs=self.mongo.admin.command("hello")["localTime"])
        result = self.check(0, "list", "--json")
        self.assertEqual([lock["name"] for lock in json.loads(result.stdout)], ["b"])
        self.assertIn("_id a: field lockId", result.stderr)

    def test_what_does_not_fit_is_refused_when_it_is_opened(self):
        for keys, words in (({}, "hfCollection="), (dict(hfCollection=self.name, hfRefreshMS=1000,
                                                        hfStaleMultiplier=6),
                                                   "a ttl of 10000 ms is longer than the 6000 ms"),
                            (dict(hfCollection=self.name, hfLockField="a", hfTimeField="a.b"),
                             "overlap"),
                            (dict(hfCollection=self.name, hfLockField="_id.x"), "hfLockField")):
            uri = self.driver_uri + "&hfProtocol=document" + "".join(
                "&%s=%s" % each for each in keys.items())
            self.assertIn(words, self.check(65, "list", uri=uri).stderr)
        self.assertIn("semaphore", self.check(65, "run", "-s", "x", "--", "true").stderr)


# ---- Losing it ----

class Losing(OnASet):
    ROUNDS = 20

    def lost_ms(self, script, spoil):
        """How long after the write the holder hears of it."""
        begun = boot_ns()
        spoil()
        word, rest = script.hear()
        taken = idle_seconds(begun) * 1000
        self.assertEqual(word, "lost", rest)
        self.assertEqual(script.ask("check")[0], "HF_LOST")
        self.assertEqual(script.ask("release")[0], "HF_LOST")
        return taken

    def rounds(self, what, spoil, document=None, **keys):
        script = self.script(ttl_ms=30000, **keys)
        times = []
        for _ in range(self.ROUNDS):
            self.documents.replace_one({"_id": "one"}, document or {"x": 1}, upsert=True)
            script.take("one")
            time.sleep(0.02)
            times.append(self.lost_ms(script, spoil))
        print("lost after %s: median %.1f ms, most %.1f ms" %
              (what, statistics.median(times), max(times)))
        self.assertLess(statistics.median(times), 200)

    def change(self, update):
        return lambda: self.documents.update_one({"_id": "one"}, update)

    def test_overwritten(self):
        self.rounds("an overwrite", self.change({"$set": {"lockId": bson.ObjectId()}}))
        self.assertEqual(self.find("one")["x"], 1)

    def test_deleted(self):
        self.rounds("a deletion", lambda: self.documents.delete_one({"_id": "one"}))

    def test_otherwise(self):
        self.ROUNDS = 3
        self.rounds("an odd overwrite", self.change({"$set": {"lockId": "text"}}))
        self.rounds("an unset", self.change({"$unset": {"lockId": 1}}))
        self.rounds("a replacement",
                    lambda: self.documents.replace_one({"_id": "one"}, {"lockId": None}))

    def test_at_a_path(self):
        self.ROUNDS = 3
        keys = {"hfLockField": "a.b.id", "hfTimeField": "a.b.ts"}
        for what, update in (("the field itself", {"$set": {"a.b.id": bson.ObjectId()}}),
                             ("its parent", {"$set": {"a.b": {"id": None}}}),
                             ("the uppermost parent", {"$set": {"a": 5}}),
                             ("an unset", {"$unset": {"a.b.id": 1}}),
                             ("an unset parent", {"$unset": {"a": 1}})):
            for document in ({"x": 1}, {"a": {"b": {}}}):
                self.rounds("a write to " + what, self.change(update), document, **keys)

    def test_other_changes_are_none(self):
        self.insert(_id="one")
        script = self.script()
        script.take("one")
        self.change({"$set": {"x": 1, "lockIdx": 2}})()
        self.change({"$set": {"lockTs": self.find("one")["lockTs"]}})()
        time.sleep(1)
        self.assertEqual(script.ask("check")[0], "HF_OK")
        self.assertEqual(script.ask("release")[0], "HF_OK")

    def test_killed_is_taken_over_when_stale(self):
        self.insert(_id="one")
        keys = {"hfRefreshMS": 1000, "hfStaleMultiplier": 6}
        words = ["--store", self.uri(**keys), "--ttl", "6s", "run", "one", "--"]
        holder = subprocess.Popen([BIN, *words, "sleep", "100"])
        until(lambda: self.find("one").get("lockId"), 20, "the holder")
        time.sleep(1)
        holder.kill()
        holder.wait()
        killed = boot_ns()
        self.assertEqual(subprocess.run([BIN, *words, "true"], timeout=PATIENCE).returncode, 0)
        taken = idle_seconds(killed)
        print("taken over %.2f s after SIGKILL, stale after 6 s" % taken)
        self.assertLess(taken, 7)

    def test_a_stale_holder_of_the_other_kind(self):
        begun = time.monotonic()
        self.insert(_id="one", lockId=bson.ObjectId(), lockTs=self.now())
        self.check(75, "run", "-n", "one", "--", "true")
        self.check(0, "--ttl", "6s", "run", "one", "--", "true", uri=self.uri(
            hfRefreshMS=1000, hfStaleMultiplier=6))
        self.assertGreater(time.monotonic() - begun, 5.5)


class Refreshing(OnASet):
    """Beside programs as the article has them: they refresh every 30 s, and call stale what is two to
    three minutes old."""

    def test_nothing_said_the_default_is_safe_beside_the_article(self):
        late = self.now() - datetime.timedelta(seconds=120)
        document = self.insert(_id="one", lockId=bson.ObjectId(), lockTs=late)
        self.check(75, "run", "-n", "one", "--", "true")
        self.assertEqual(self.find("one"), document)
        self.change_time("one", 200)
        self.check(0, "run", "-n", "one", "--", "true")

    def change_time(self, name, seconds):
        late = self.now() - datetime.timedelta(seconds=seconds)
        self.documents.update_one({"_id": name}, {"$set": {"lockTs": late}})

    def test_ours_refresh_every_five_seconds_whatever_their_ttl(self):
        self.insert(_id="one")
        script = self.script(ttl_ms=60000)
        script.take("one")
        first = self.find("one")["lockTs"]
        later = until(lambda: self.refreshed("one", first), 60, "a refresh")
        print("refreshed after %s" % (later - first))
        self.assertLess((later - first).total_seconds(), 15)

    def refreshed(self, name, than):
        now = self.find(name)["lockTs"]
        return now if now > than else None

    def waiter_beside(self, seconds, rounds, **keys):
        """What a waiter says while another program refreshes so often: all of it, or up to a warning; and
        the longest time between two refreshes."""
        self.documents.replace_one({"_id": "one"}, {"lockId": bson.ObjectId(), "lockTs": self.now()},
                                   upsert=True)
        words = ["--store", self.uri(**keys), "-v", "--ttl", "2s", "run", "-w", "100s", "one"]
        with tempfile.TemporaryFile("w+") as said:
            waiter = subprocess.Popen([BIN, *words, "--", "true"], stderr=said)
            longest, before = 0, time.monotonic()
            for _ in range(rounds):
                time.sleep(seconds)
                began = time.monotonic()
                self.change_time("one", 0)
                longest, before = max(longest, time.monotonic() - before), began
                said.seek(0)
                if "refreshes it only" in said.read():
                    break
            waiter.terminate()
            waiter.wait(PATIENCE)
            said.seek(0)
            return said.read(), longest

    def test_a_refresh_that_is_slower_than_what_is_set_is_warned_of(self):
        said, _ = self.waiter_beside(2.5, 20, hfRefreshMS=1000, hfStaleMultiplier=60)
        self.assertRegex(said, "_id one: its holder refreshes it only every [0-9]+ ms, and here it is "
                               "stale after 60000 ms")

    def test_refreshes_that_come_in_time_are_not(self):
        for _ in range(20):  # until this machine has not stopped for so long that one came too late
            said, longest = self.waiter_beside(0.3, 20, hfRefreshMS=1000, hfStaleMultiplier=60)
            if longest < 1:
                break
        self.assertNotIn("refreshes it only", said)

    def test_a_lock_id_that_is_a_guid_is_waited_for(self):
        """As the library behind the article writes it."""
        for subtype in (3, 4):
            document = {"_id": "one", "lockId": bson.Binary(b"0123456789abcdef", subtype),
                        "lockTs": self.now() - datetime.timedelta(hours=1)}
            self.documents.replace_one({"_id": "one"}, document, upsert=True)
            document = self.find("one")
            self.assertIn("held by lockId", self.check(75, "run", "-n", "one", "--", "true").stderr)
            self.assertEqual(self.find("one"), document)


class Types(OnASet):
    """What the library behind the article writes."""

    IDS = {"uuid": bson.Binary(b"0123456789abcdef", 4),
           "uuidLegacy": bson.Binary(b"0123456789abcdef", 3), "string": "somebody"}

    def keys(self, kind, **more):
        return dict(hfLockIdType=kind, hfRefreshMS=5000, hfStaleMultiplier=6, **more)

    def put(self, **fields):
        self.documents.replace_one({"_id": "one"}, dict({"_id": "one"}, **fields), upsert=True)
        return self.find("one")

    def assert_waits(self, status, **keys):
        before = self.find("one")
        result = self.check(status, "run", "-n", "one", "--", "true", uri=self.uri(**keys))
        self.assertEqual(self.find("one"), before)
        return result.stderr

    def assert_taken(self, **keys):
        self.check(0, "run", "-n", "one", "--", "true", uri=self.uri(**keys))
        self.assertEqual(self.find("one"), {"_id": "one", "lockId": None, "lockTs": None})

    def test_it_writes_and_knows_its_own(self):
        types = {"uuid": (bson.Binary, 4), "uuidLegacy": (bson.Binary, 3), "string": (str, None)}
        for kind, (python, subtype) in types.items():
            self.put()
            script = self.script(**self.keys(kind, hfTokenField="fence"))
            self.assertEqual(script.take("one")[0], 1)
            held = self.find("one")["lockId"]
            self.assertIsInstance(held, python)
            self.assertEqual(getattr(held, "subtype", None), subtype)
            self.assertEqual(script.ask("check")[0], "HF_OK")
            listed = json.loads(self.check(0, "list", "--json",
                                           uri=self.uri(**self.keys(kind))).stdout)
            self.assertEqual([each["name"] for each in listed], ["one"])
            self.assertEqual(script.ask("release")[0], "HF_OK")
            self.assertIsNone(self.find("one")["lockId"])

    def test_one_that_is_refreshed_is_waited_for_and_a_stale_one_is_taken(self):
        for kind, theirs in self.IDS.items():
            self.put(lockId=theirs, lockTs=self.now() - datetime.timedelta(seconds=5))
            self.assertIn("held by lockId", self.assert_waits(75, **self.keys(kind)))
            self.put(lockId=theirs, lockTs=self.now() - datetime.timedelta(seconds=31))
            self.assert_taken(**self.keys(kind))

    def test_a_time_that_is_ahead(self):
        for kind, theirs in self.IDS.items():
            keys = self.keys(kind, hfTimeMeans="expires")
            self.put(lockId=theirs, lockTs=self.now() + datetime.timedelta(minutes=5))
            self.assert_waits(75, **keys)
            self.put(lockId=theirs, lockTs=self.now() - datetime.timedelta(seconds=5))
            self.assert_waits(75, **keys)  # the library calls it stale ten lock times later
            self.put(lockId=theirs, lockTs=self.now() - datetime.timedelta(seconds=31))
            self.assert_taken(**keys)

    def test_ours_is_ahead_by_the_stale_time(self):
        self.put()
        script = self.script(**self.keys("uuid", hfTimeMeans="expires"))
        script.take("one")
        ahead = (self.find("one")["lockTs"] - self.now()).total_seconds()
        self.assertTrue(0 < ahead <= 30, ahead)

    def test_those_of_other_types_are_never_taken(self):
        old = self.now() - datetime.timedelta(hours=1)
        others = dict(self.IDS, objectId=bson.ObjectId(), short=bson.Binary(b"0123", 4))
        for kind in ("objectId", "uuid", "uuidLegacy", "string"):
            for other, theirs in others.items():
                if other != kind:
                    is_one = other != "short" and (other != "string" or kind == "string")
                    self.put(lockId=theirs, lockTs=old)
                    told = self.assert_waits(75 if is_one else 65, **self.keys(kind))
                    if is_one:
                        self.assertIn("put hfLockIdType=%s into the URI" % other, told)

    def test_each_says_how_many_it_passes_by(self):
        """They are not free, so the status stays 0, as with those that are held."""
        old = self.now() - datetime.timedelta(hours=1)
        self.documents.insert_many([{"_id": n, "lockId": self.IDS["uuid"], "lockTs": old} for n in range(3)] + [
            {"_id": "other", "lockId": self.IDS["uuid"], "lockTs": old, "done": True},
            {"_id": "held", "lockId": self.IDS["uuid"], "lockTs": self.now()}, {"_id": "free"}])
        words = ("run", "--document", self.name, "--filter", '{"done":{"$ne":true}}', "--each", "--",
                 "sh", "-c", 'echo "$HOLDFAST_DOCUMENT_ID"')
        result = self.check(0, *words, uri=self.driver_uri)
        self.assertEqual(result.stdout, "free\n")
        self.assertIn("passed by 3 that match and are stale", result.stderr)
        self.assertIn("put hfLockIdType=uuid into the URI", result.stderr)
        result = self.check(0, *words, uri=self.driver_uri + "&hfLockIdType=uuid")
        self.assertEqual(sorted(result.stdout.split()), ["0", "1", "2", "free"])
        self.assertEqual(result.stderr, "")

    def test_a_lock_without_a_time(self):
        for fields in ({}, {"lockTs": None}):
            for kind, theirs in dict(self.IDS, objectId=bson.ObjectId()).items():
                self.put(lockId=theirs, **fields)
                self.assertIn("field lockTs", self.assert_waits(65, **self.keys(kind)))
                self.assert_taken(**self.keys(kind, hfNoTimeMeans="stale"))
            self.put(lockId=5, **fields)
            self.assert_waits(65, **self.keys("uuid", hfNoTimeMeans="stale"))

    def test_its_loss_is_told(self):
        self.put()
        script = self.script(ttl_ms=30000, **self.keys("uuid"))
        script.take("one")
        time.sleep(0.5)  # it listens
        self.put(lockId=self.IDS["uuid"], lockTs=self.now())
        begun = boot_ns()
        self.assertEqual(script.hear()[0], "lost")
        self.assertLess(idle_seconds(begun), 3)


class Alone(OnASet):
    standalone = True

    def test_without_change_streams_the_refresh_tells(self):
        self.insert(_id="one")
        script = self.script(ttl_ms=3000)
        script.take("one")
        self.documents.update_one({"_id": "one"}, {"$set": {"lockId": bson.ObjectId()}})
        begun = boot_ns()
        self.assertEqual(script.hear()[0], "lost")
        self.assertLess(idle_seconds(begun), 2)


# ---- By hand ----

class ByHand(OnASet):
    def test_nothing_else_refreshes_it(self):
        self.insert(_id="one")
        script = self.script(ttl_ms=9000)
        script.take("one", "h")
        first = self.find("one")["lockTs"]
        time.sleep(3.5)  # the third of it, at which others are refreshed
        self.assertEqual(self.find("one")["lockTs"], first)
        self.assertEqual(script.ask("refresh")[0], "HF_OK")
        self.assertGreater(self.find("one")["lockTs"], first)
        code, left = script.ask("check")
        self.assertEqual(code, "HF_OK")
        self.assertGreater(int(left), 1000)
        begun = boot_ns()
        word, why = script.hear()
        self.assertEqual(word, "lost")
        self.assertIn("not refreshed in time", why)
        self.assertLess(idle_seconds(begun), 9.6)
        self.assertEqual(script.ask("refresh")[0], "HF_LOST")

    def test_a_refresh_tells_of_a_loss(self):
        self.insert(_id="one")
        script = self.script(ttl_ms=3000)
        script.take("one", "h")
        self.documents.update_one({"_id": "one"}, {"$set": {"lockId": None}})
        answers = [script.ask("refresh")[0], script.hear()[0]]
        self.assertCountEqual(answers, ["lost", "HF_LOST"])

    def test_other_stores_have_none_of_it(self):
        for uri in ("memory:", self.driver_uri, self.driver_uri + "&hfProtocol=ttl"):
            script = Script(uri)
            self.addCleanup(script.done)
            for words in ("take h one", "take c {}", "take n one"):
                code, text = script.ask(words)
                self.assertEqual(code, "HF_UNSUPPORTED")
                self.assertIn("hfProtocol=document", text)


# ---- Claiming ----

class Claiming(OnASet):
    JOBS = 200

    def test_four_workers_do_each_job_once(self):
        self.documents.insert_many([{"_id": n, "rank": -n} for n in range(self.JOBS)])
        words = [WORKER, "claim", self.uri(), '{"done":{"$exists":false}}', '{"rank":1}', DATABASE,
                 self.name]
        env = dict(os.environ, DRIVER_URI=self.driver_uri)
        begun = time.monotonic()
        said = outputs([subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
                        for _ in range(4)])
        print("%d jobs by 4 workers in %.1f s: %s" %
              (self.JOBS, time.monotonic() - begun, [len(each.split()) for each in said]))
        done = sorted(int(name) for each in said for name in each.split())
        self.assertEqual(done, list(range(self.JOBS)))
        self.assertEqual(self.documents.count_documents({"runs": 1, "lockId": None}), self.JOBS)
        for each in said:  # by the sort
            names = [int(name) for name in each.split()]
            self.assertEqual(names, sorted(names, reverse=True))

    def test_one_that_waits_comes_back_when_there_is_one(self):
        script = self.script()
        begun = boot_ns()
        waiter = subprocess.Popen([BIN, "--store", self.driver_uri, "run", "--document", self.name,
                                   "--filter", '{"ready":true}', "--", "cat"],
                                  stdout=subprocess.PIPE, text=True)
        self.insert(_id="one", ready=True)
        self.assertIn('"one"', waiter.communicate(timeout=PATIENCE)[0])
        self.assertLess(idle_seconds(begun), 10)
        self.assertEqual(script.ask("take cn {\"ready\":false}")[0], "HF_NOT_FOUND")

    def claimant(self, ready):
        """A process that waits for such a document; it asks once an hour unless it is told."""
        uri = self.driver_uri + ("&" if "?" in self.driver_uri else "?") + "hfPollMS=3600000"
        waiter = subprocess.Popen([BIN, "-v", "--store", uri, "run", "--document", self.name,
                                   "--filter", '{"ready":%s}' % ready, "--", "cat"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(waiter.communicate)
        self.addCleanup(waiter.kill)
        while "waiting" not in waiter.stderr.readline():
            pass
        return waiter

    def test_one_that_waits_is_told_of_a_new_document(self):
        waiter = self.claimant("true")
        self.insert(_id="one", ready=True)
        self.assertIn('"one"', waiter.communicate(timeout=PATIENCE)[0])

    def test_one_that_waits_is_told_of_a_document_that_comes_to_match(self):
        self.insert(_id="one", ready=False)
        waiter = self.claimant("true")
        self.documents.update_one({"_id": "one"}, {"$set": {"ready": True}})
        self.assertIn('"one"', waiter.communicate(timeout=PATIENCE)[0])

    def test_a_lost_answer_leaves_nothing_behind(self):
        self.insert(_id="one")
        failing = {"failCommands": ["findAndModify"], "appName": "unlucky",
                   "writeConcernError": {"code": 91, "errmsg": "injected"}}
        self.mongo.admin.command("configureFailPoint", "failCommand", mode={"times": 1},
                                 data=failing)
        script = Script(self.uri(appName="unlucky"), 5000)
        self.addCleanup(script.done)
        begun = boot_ns()
        _, document = script.take("{}", "c")
        self.assertLess(idle_seconds(begun), 4)
        self.assertEqual(str(self.find("one")["lockId"]), document["lockId"]["$oid"])
        self.assertEqual(script.ask("release")[0], "HF_OK")

    def test_an_answer_lost_for_one_name(self):
        self.insert(_id="one")
        failing = {"failCommands": ["findAndModify"], "appName": "unlucky",
                   "writeConcernError": {"code": 91, "errmsg": "injected"}}
        self.mongo.admin.command("configureFailPoint", "failCommand", mode={"times": 1},
                                 data=failing)
        script = Script(self.uri(appName="unlucky"), 5000)
        self.addCleanup(script.done)
        script.take("one")
        self.assertEqual(script.ask("release")[0], "HF_OK")
        self.assertIsNone(self.find("one")["lockId"])

    def test_filters_that_are_none(self):
        script = self.script()
        for filter_, word in (("{", "not an object"), ("[]", "not an object"), ("5", "not an object"),
                              ('{"a":1} {"b":2}', "not an object"),
                              ('{"$nonsense":1}', "refused")):
            code, text = script.ask("take cn " + filter_)
            self.assertEqual((code, word in text), ("HF_INVALID", True), text)


# ---- The command ----

MARK = r'''
import os, pymongo, sys, json
document = json.loads(sys.stdin.read())
jobs = pymongo.MongoClient(os.environ["DRIVER_URI"])[sys.argv[1]][sys.argv[2]]
jobs.update_one({"_id": document["_id"]}, {"$set": {"done": True}})
print(document["_id"])
sys.exit(9 if document.get("bad") else 0)
'''


class Command(OnASet):
    def test_the_command_gets_the_document(self):
        oid = self.insert(_id=bson.ObjectId(), big="ä" * 100000, n=5)["_id"]
        script = 'cat; cat; echo "$HOLDFAST_DOCUMENT_ID"; echo "$HOLDFAST_NAME"'
        result = self.run_document(0, "--id", '{"$oid": "%s"}' % oid, "--", "sh", "-c", script)
        line, name, again = result.stdout.splitlines()
        document = json.loads(line)
        self.assertEqual((document["n"], len(document["big"])), (5, 100000))
        self.assertEqual((name, again), ('{"$oid":"%s"}' % oid,) * 2)

    def test_each(self):
        self.documents.insert_many([{"_id": n, "bad": n == 3} for n in range(6)])
        result = self.run_document(
            9, "--filter", '{"done":{"$ne":true}}', "--sort", '{"_id":-1}', "--each", "--",
            sys.executable, "-c", MARK, DATABASE, self.name,
            env=dict(os.environ, DRIVER_URI=self.driver_uri))
        self.assertEqual(result.stdout.split(), list("543210"))
        self.assertEqual(self.documents.count_documents({"lockId": None, "done": True}), 6)

    def test_each_has_every_document_once(self):
        self.documents.insert_many([{"_id": each} for each in ("a", 1, bson.ObjectId())])
        result = self.run_document(3, "--sort", '{"_id":1}', "--each", "--", "sh", "-c",
                                   'echo x; test "$HOLDFAST_DOCUMENT_ID" != a || exit 3')
        self.assertEqual(result.stdout, "x\n" * 3)

    def test_a_claim_is_told_how_the_last_one_left(self):
        """Its work may be half done, whatever the document says."""
        self.insert(_id="job")
        tell = ("--each", "--", "sh", "-c", 'echo "[$HOLDFAST_PREVIOUS $HOLDFAST_PREVIOUS_STATUS]"; exit 3')
        self.assertEqual(self.run_document(3, *tell).stdout, "[ ]\n")
        self.assertEqual(self.run_document(3, *tell).stdout, "[released 3]\n")
        holder = subprocess.Popen([BIN, "--store", self.driver_uri, "run", "--document", self.name, "--",
                                   "sh", "-c", "echo held; exec sleep 60"], stdout=subprocess.PIPE)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        holder.kill()
        result = self.run_document(3, "-w", "20s", "--", *tell[2:])
        self.assertEqual(result.stdout, "[abandoned ]\n")
        self.assertIn('"job" was abandoned by', result.stderr)

    def test_each_of_none(self):
        self.assertEqual(self.run_document(0, "--each", "--", "true").stderr, "")

    def test_each_ends_when_it_is_asked_to(self):
        self.documents.insert_many([{"_id": n} for n in range(5)])
        running = subprocess.Popen(
            [BIN, "--store", self.driver_uri, "run", "--document", self.name, "--each", "--",
             "sh", "-c", "trap 'exit 0' TERM; echo begun; while :; do sleep 0.1; done"],
            stdout=subprocess.PIPE, text=True)
        self.assertEqual(running.stdout.readline(), "begun\n")
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.communicate(timeout=PATIENCE)[0], "")
        self.assertEqual(running.returncode, 0)
        self.assertEqual(self.documents.count_documents({"lockId": {"$ne": None}}), 0)

    def test_statuses(self):
        self.insert(_id="one")
        script = self.script()
        script.take("one")
        self.assertIn("lockId", self.run_document(75, "-n", "--id", "one", "--", "true").stderr)
        self.run_document(75, "-n", "--", "true")
        self.run_document(4, "-n", "-E", "4", "--", "true")
        self.run_document(75, "-w", "600ms", "--", "true")
        self.run_document(65, "--filter", "{", "--", "true")
        self.run_document(64, "name", "--", "true")
        self.run_document(64, "--id", "one", "--each", "--", "true")
        self.check(64, "run", "--id", "one", "--", "true")
        self.check(65, "run", "--document", "x", "--", "true", uri="memory:")

    def test_listings_and_break(self):
        self.insert(_id=17)
        script = self.script(ttl_ms=20000)
        script.take("17")
        listed = json.loads(self.check(0, "list", "--json").stdout)
        self.assertEqual([lock["name"] for lock in listed], ["17"])
        self.assertEqual(len(json.loads(self.check(0, "sessions", "--json").stdout)), 1)
        self.assertNotIn("1970", self.check(0, "sessions").stdout)
        result = self.check(65, "break", "17", "--reason", "test")
        self.assertIn("--force", result.stderr)
        forced = self.check(0, "break", "17.0", "--force", "--reason", "test")
        self.assertIn("no token protects", forced.stderr)
        self.assertEqual(script.hear()[0], "lost")
        self.assertEqual(json.loads(self.check(0, "list", "--json").stdout), [])
        self.assertIsNone(self.find(17)["lockId"])

    def test_a_forced_break_frees_what_other_programs_write(self):
        """Their lockIds are longer than a ticket."""
        guid = bytes(range(16))
        for kind, lock_id in (("uuid", bson.Binary(guid, 4)), ("uuidLegacy", bson.Binary(guid, 3)),
                              ("string", "worker-7 of the other program"),
                              ("objectId", bson.Binary(guid, 4))):
            now = datetime.datetime.now(datetime.timezone.utc)
            self.insert(_id=kind, lockId=lock_id, lockTs=now, other=5)
            self.insert(_id=kind + " beside", lockId=lock_id, lockTs=now)
            self.check(0, "break", kind, "--force", "--reason", "test",
                       uri=self.uri(hfLockIdType=kind))
            self.assertIsNone(self.find(kind)["lockId"])
            self.assertEqual(self.find(kind)["other"], 5)
            self.assertEqual(self.find(kind + " beside")["lockId"], lock_id)

    def test_a_forced_break_says_what_protects(self):
        self.insert(_id="p")
        uri = self.uri(hfTokenField="fence")
        self.assertEqual(self.script(hfTokenField="fence").take("p")[0], 1)
        refused = self.check(65, "break", "p", "--reason", "test", uri=uri)
        self.assertIn("only the token protects", refused.stderr)
        forced = self.check(0, "break", "p", "--force", "--reason", "test", uri=uri)
        self.assertIn("only the fencing token protects", forced.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
