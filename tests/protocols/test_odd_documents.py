# Documents as no program should write them, by the hundred: every field missing and of each BSON type,
# in each protocol that shares its documents with programs that are not ours. What a program of the
# article's kind would call held is never taken, and never changed; the error names collection, _id and
# field. SPDX-License-Identifier: Apache-2.0
import datetime
import itertools
import json
import time
import unittest

import bson
from bson.raw_bson import RawBSONDocument

from contest import Command, Worker
from foreign import OnASet, as_json, start_set
from mongod import until
from proxy import Proxy

MISSING = object()
DATE, INT64 = b"\x09", b"\x12"


class RawDate:
    """A date that Python has none for."""

    def __init__(self, ms):
        self.ms = ms


class Ago:
    """A date so many seconds before the document is written: however slow the machine is, its time
    does not run out while other documents are tried."""

    def __init__(self, seconds):
        self.seconds = seconds


def setUpModule():
    start_set()


def ago(seconds):
    now = datetime.datetime.utcnow() - datetime.timedelta(seconds=seconds)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


# ---- Values ----

ODD = {
    "missing": MISSING, "null": None, "double": 1.5, "zero": 0.0, "nan": float("nan"),
    "infinite": float("inf"), "string": "yesterday", "empty string": "", "object": {"a": 1},
    "array": [], "array of dates": [ago(0), ago(1)], "binary": b"abc",
    "guid": bson.Binary(b"0123456789abcdef", 4), "objectId": bson.ObjectId(), "true": True,
    "false": False, "regex": bson.Regex("a"), "code": bson.Code("1"),
    "scope": bson.Code("1", {"a": 1}), "int32": 5, "negative": -5, "timestamp": bson.Timestamp(1, 1),
    "int64": bson.Int64(2**62), "least int64": bson.Int64(-2**63),
    "decimal": bson.Decimal128("1.5"), "decimal nan": bson.Decimal128("NaN"),
    "minKey": bson.MinKey(), "maxKey": bson.MaxKey(), "dbref": bson.DBRef("c", 1),
}
AHEAD = {"date far ahead": RawDate(2**63 - 1), "year 9999": RawDate(2**47)}


def as_plain(value):
    if isinstance(value, Ago):
        return ago(value.seconds)
    return bson.Int64(value.ms) if isinstance(value, RawDate) else value


def encode(fields):
    """The document, with raw dates in it, at the top."""
    plain = {key: as_plain(value) for key, value in fields.items() if value is not MISSING}
    data = bson.encode(plain)
    for key, value in fields.items():
        if isinstance(value, RawDate):
            name = key.encode() + b"\0"
            data = data.replace(INT64 + name, DATE + name, 1)
    return data


class Odd(OnASet):
    COLLECTION = "locks"

    def setUp(self):
        super().setUp()
        self.documents = self.db.get_collection(
            self.COLLECTION, codec_options=bson.CodecOptions(document_class=RawBSONDocument))
        self.n = 0

    def begin(self, uri=None, *words):
        self.tries = Worker(uri or self.uri, "--script", "--name=x", "--ttl=1000", *words)
        self.addCleanup(self.tries.kill)
        self.tries.wait("ready", 20)
        self.heard = 0

    def answer(self):
        """The next line that says how a try ended, and how many lines there are up to it."""
        lines = self.tries.out
        for i in range(self.heard, len(lines)):
            if lines[i][1].startswith(('{"event":"acquired"', '{"event":"refused"')):
                return i + 1, lines[i][1]
        return None

    def attempt(self, name="x"):
        """(code, text) of a try; what was taken is given back."""
        self.tries.send("acquire -1 " + name)
        self.heard, line = self.tries.until(self.answer, 60, "an answer")
        said = json.loads(line)
        if said["event"] == "acquired":
            self.tries.ask("release", "release", 60)
        return said["code"], said["text"]

    def put(self, fields, name="x"):
        data = encode(dict({"_id": name}, **fields))
        self.db.command("update", self.COLLECTION, writeConcern={"w": "majority"}, updates=[
            {"q": {"_id": name}, "u": RawBSONDocument(data), "upsert": True}])
        return data

    def raw(self, name="x"):
        found = self.documents.find_one({"_id": name})
        return None if found is None else found.raw

    def check_left_alone(self, title, fields, suspects, name="x"):
        """suspects: which fields an error may name; held is an answer, too."""
        data = self.put(fields, name)
        code, text = self.attempt(name)
        self.n += 1
        with self.subTest(title):
            self.assertIn(code, ("HF_HELD", "HF_SHAPE"), text)
            self.assertEqual(self.raw(name), data, "it was changed")
            self.assertIn(name, text)
            if code == "HF_SHAPE":
                self.assertIn("%s, _id " % self.COLLECTION, text)
                self.assertTrue(any("field %s:" % each in text for each in suspects), text)
        return code

    def tearDown(self):
        print("    %d documents" % self.n)


# ---- ttl ----

class Updated(Odd):
    """An index of 600 s, unless the test says otherwise."""

    keys = {"Protocol": "ttl"}
    TIME = "updated"
    FRESH, HELD = Ago(0), Ago(300)  # a ttl_ms of ours would be over

    def setUp(self):
        super().setUp()
        self.begin(None, "--ttl=10000")  # long enough to give back what was taken, on a busy machine
        self.attempt("first")  # which makes the index

    def owners(self):
        yield "theirs", {"acquirer": "somebody"}
        yield "bare", {}
        yield "like ours", {"acquirer": "somebody", "ticket": bson.ObjectId(), "ttl_ms": 600000}

    def test_no_time_but_a_date_ends_a_lock(self):
        codes = set()
        times = dict(ODD, fresh=self.FRESH, **AHEAD)
        for (owner, fields), (kind, time) in itertools.product(self.owners(), times.items()):
            codes.add(self.check_left_alone("%s, %s" % (owner, kind),
                                            dict(fields, **{self.TIME: time}), [self.TIME]))
        self.assertEqual(codes, {"HF_HELD", "HF_SHAPE"})

    def test_no_field_of_ours_of_another_type_ends_a_lock_of_theirs(self):
        """`ttl_ms` and `ticket` shorten a time only together, and only as we write them."""
        theirs = {"acquirer": "somebody", self.TIME: self.HELD}
        for field in ("acquirer", "ticket", "session", "ttl_ms", "since", "app", "why", "hf_left"):
            for kind, value in ODD.items():
                self.check_left_alone("%s: %s" % (field, kind), dict(theirs, **{field: value}),
                                      [self.TIME])
        for kind, value in ODD.items():
            if kind != "int32":  # 5 ms, by our own word
                self.check_left_alone("ticket, ttl_ms: " + kind, dict(
                    theirs, ticket=bson.ObjectId(), ttl_ms=value), [self.TIME])
            if kind != "objectId":
                self.check_left_alone("ttl_ms, ticket: " + kind, dict(
                    theirs, ttl_ms=5, ticket=value), [self.TIME])

    def test_a_date_that_has_passed_does(self):
        for date in (ago(3600), RawDate(0), RawDate(-1), RawDate(-2**62)):
            self.put({"acquirer": "somebody", self.TIME: date})
            self.assertEqual(self.attempt(), ("HF_OK", ""))
            self.assertIsNone(self.raw())
            self.n += 1


class ExpireAt(Updated):
    """With an index of 0 s."""

    keys = {"Protocol": "ttl", "Shape": "expire-at"}
    TIME = "ExpireAt"
    FRESH, HELD = Ago(-600), Ago(-300)


# ---- document ----

class Document(Odd):
    COLLECTION = "jobs"
    keys = {"Protocol": "document", "Collection": "jobs", "TokenField": "fence"}
    TIMES = ("missing", "null", "string", "double", "nan", "int64", "object", "array", "timestamp",
             "true", "objectId")

    def setUp(self):
        super().setUp()
        self.begin()

    def locks(self):
        return {kind: value for kind, value in ODD.items() if kind not in ("missing", "null")}

    def test_a_lock_id_of_any_type_is_held(self):
        for kind, value in self.locks().items():
            for when in (Ago(0), Ago(100)):
                self.check_left_alone(kind, {"lockId": value, "lockTs": when}, ["lockId"])
            if kind != "objectId":  # nothing else is ours to call stale
                self.check_left_alone("stale " + kind, {"lockId": value, "lockTs": ago(3600)},
                                      ["lockId"])

    def test_no_time_but_a_date_makes_it_stale(self):
        for (kind, lock), time in itertools.product(self.locks().items(), self.TIMES):
            self.check_left_alone("%s, %s" % (kind, time), {"lockId": lock, "lockTs": ODD[time]},
                                  ["lockId", "lockTs"])
        for kind, time in dict(AHEAD, fresh=Ago(0)).items():
            self.check_left_alone(kind, {"lockId": bson.ObjectId(), "lockTs": time}, [])

    TOKENS = ("missing", "null", "zero", "int32", "negative")

    def bad_tokens(self):
        ends = {"%s %s" % (name, kind.__name__): kind(value) for kind in (bson.Int64, float)
                for name, value in (("2^53", 2**53), ("-2^53", -2**53), ("1e18", 10**18))}
        return dict({kind: value for kind, value in ODD.items() if kind not in self.TOKENS}, **ends,
                    huge=1e300, max=bson.Int64(2**63 - 1))

    def test_a_token_that_cannot_be_counted_is_left_alone(self):
        for kind, value in self.bad_tokens().items():
            self.check_left_alone(kind, {"lockId": None, "lockTs": None, "fence": value}, ["fence"])

    def test_the_last_token(self):
        for value in (bson.Int64(2**53 - 1), 2.0**53 - 1):
            self.put({"fence": value})
            self.assertEqual(self.attempt(), ("HF_OK", ""))
            self.assertEqual(self.db.jobs.find_one({"_id": "x"})["fence"], 2**53)
            self.n += 1

    def test_a_claim_passes_all_of_them_by(self):
        """By a token that is none, or an _id that no name can say, in the order of the claim."""
        for kind, value in self.bad_tokens().items():
            self.put({"n": 1, "fence": value}, "a " + kind)
        for each in ("b" * 513, "b\x00" * 200, '{"b":"%s"}' % ("b" * 500)):
            self.put({"n": 1}, each)
        self.put({"n": 1}, {"k": "x" * 600})
        before = {str(each["_id"]): each.raw for each in self.documents.find()}
        self.put({"n": 1}, "c" * 512)
        run = self.run_command("run", "--document", "jobs", "--filter", '{"n":1}', "--sort", '{"_id":1}',
                               "--each", "--", "sh", "-c", "echo $HOLDFAST_DOCUMENT_ID")
        self.assertEqual(run.lines, ["c" * 512])
        for each in self.documents.find({"_id": {"$type": "string", "$ne": "c" * 512}}):
            if len(each["_id"]) == 513 or each["_id"].startswith("a "):
                self.assertEqual(each.raw, before[each["_id"]])
        held = self.db.jobs.count_documents({"lockId": {"$ne": None}, "n": 1})
        self.assertEqual(held, 0)
        self.n += len(before)

    def test_a_parent_that_is_no_object_is_left_alone(self):
        self.begin(self.store(LockField="a.lockId", TimeField="a.lockTs", TokenField="b.fence"))
        for kind, value in ODD.items():
            if kind not in ("missing", "object", "dbref"):
                self.check_left_alone(kind, {"a": value}, ["a"])
                self.check_left_alone(kind, {"b": value}, ["b"])

    def test_what_is_free_or_stale_is_taken(self):
        for fields in ({}, {"lockId": None, "lockTs": None}, {"lockTs": ago(0)},
                       {"lockId": bson.ObjectId(), "lockTs": ago(3600)},
                       {"lockId": bson.ObjectId(), "lockTs": RawDate(-2**62)}):
            self.put(fields)
            self.assertEqual(self.attempt(), ("HF_OK", ""))
            self.n += 1


# ---- sharding ----

EXPIRY_MS = 1000
OWNER = "elsewhere:27017:1350047994:16807"


class Sharding(Odd):
    keys = {"Protocol": "sharding", "ExpiryMS": EXPIRY_MS}

    def lock(self, **more):
        return dict({"state": 2, "process": OWNER, "ts": bson.ObjectId(), "when": ago(0),
                     "who": OWNER + ":main", "why": "by hand"}, **more)

    def put_ping(self, value):
        self.db.lockpings.delete_one({"_id": OWNER})
        if value is not MISSING:
            self.db.lockpings.insert_one({"_id": OWNER, "ping": value})

    def test_fields_of_each_type(self):
        self.begin()
        for field in ("state", "process", "ts", "when", "who", "why"):
            for kind, value in ODD.items():
                if field != "state" or kind != "zero":  # any number that is 0 is free
                    self.check_left_alone("%s: %s" % (field, kind), self.lock(**{field: value}),
                                          [field])

    def test_an_array_that_has_the_state_is_none(self):
        self.begin()
        for value in ([0], [0, 2], [2, 0], [0.0], [[0]]):
            self.assertEqual(self.check_left_alone("state: %r" % value, self.lock(state=value),
                                                   ["state"]), "HF_SHAPE")

    def pass_expiry(self, name):
        """Looks at the lock until its owner, who does not ping, could be overtaken."""
        data = self.put(self.lock(), name)
        self.assertEqual(self.attempt(name)[0], "HF_HELD")
        seen = self.db.command("serverStatus")["localTime"]
        until(lambda: self.db.command("serverStatus")["localTime"] - seen > datetime.timedelta(
            milliseconds=2 * EXPIRY_MS), 60, "the expiry")
        return data

    def test_a_ping_that_is_no_date_overtakes_nobody(self):
        """Each counts neither as a ping nor as none, and what was seen before is remembered."""
        self.begin()
        data = self.pass_expiry("x")
        pings = self.db.lockpings
        for kind, value in ODD.items():
            if kind == "missing":
                pings.insert_one({"_id": OWNER})
            else:
                pings.replace_one({"_id": OWNER}, {"ping": value}, upsert=True)
            code, text = self.attempt()
            self.n += 1
            with self.subTest(kind):
                self.assertEqual(code, "HF_SHAPE", text)
                self.assertIn('lockpings, _id "%s": field ping: expected a date' % OWNER, text)
                self.assertEqual(self.raw(), data)
        pings.delete_one({"_id": OWNER})
        said = self.attempt()
        # where a slow machine lost the session before the answer came, the lock is not given at once
        self.assertNotEqual(self.db.locks.find_one({"_id": "x"})["process"], OWNER, said)

    def test_a_time_of_the_server_that_is_no_date_overtakes_nobody(self):
        """A look that has one leaves nothing behind by which the next would overtake."""
        now = [None]

        def change(name, _, reply):
            if name == "serverStatus" and now[0] is not None:
                reply.pop("localTime")
                if now[0] is not MISSING:
                    reply["localTime"] = now[0]
        with Proxy(self.rs.wait_primary().host, change) as proxy:
            self.begin(proxy.uri(self.database, hfProtocol="sharding", hfExpiryMS=EXPIRY_MS))
            for kind, value in ODD.items():
                now[0] = value if kind != "null" else bson.Regex("null")
                data = self.put(self.lock())
                code, text = self.attempt()
                now[0] = None
                after = self.attempt()[0]
                self.n += 1
                with self.subTest(kind):
                    self.assertEqual(code, "HF_SHAPE", text)
                    self.assertIn("field localTime: expected a date", text)
                    self.assertEqual((after, self.raw()), ("HF_HELD", data))


# ---- Afterwards ----

class Afterwards(Odd):
    """What was not taken need not be given back: no write comes after a try that was refused. A
    heartbeat could come while a try is under way, and would write, so none comes for minutes."""

    STORES = (("locks", {"acquirer": "somebody", "updated": "yesterday"}, {"Protocol": "ttl"}),
              ("jobs", {"lockId": 1.5, "lockTs": []},
               {"Protocol": "document", "Collection": "jobs", "RefreshMS": 600000}),
              ("locks", {"state": "held"}, {"Protocol": "sharding", "ExpiryMS": 3600000}))

    def writes(self, collection):
        return [op["command"] for op in self.db["system.profile"].find(
            {"op": {"$in": ["update", "remove"]}, "ns": "%s.%s" % (self.database, collection)})]

    def try_and_see(self, collection, fields, keys):
        self.COLLECTION = collection
        self.documents = self.db[collection]
        self.begin(self.store(**keys), "--ttl=1800000")
        self.put(fields)
        self.attempt()  # which makes an index, perhaps
        self.db.command("profile", 2)
        for _ in range(5):
            self.assertEqual(self.attempt()[0], "HF_SHAPE")
        time.sleep(1)  # a leave that was not confirmed would be repeated by then
        self.db.command("profile", 0)
        self.assertEqual(self.writes(collection), [])

    def test_nothing_is_given_back(self):
        for collection, fields, keys in self.STORES:
            with self.subTest(collection):
                self.try_and_see(collection, fields, keys)


# ---- Texts ----

def no_utf8(fields):
    return RawBSONDocument(bson.encode(fields).replace(b"cafe", b"caf\xe9"))


class NoUTF8(OnASet):
    """Which no server refuses."""

    def test_a_document_is_handed_over_with_marks_in_place_of_bad_bytes(self):
        uri = self.store(Protocol="document", Collection="jobs")
        self.db.jobs.insert_one(no_utf8({"_id": "a", "name": "cafe", "n": 5}))
        for which in (("--id", "a"), ("--filter", '{"n":5}')):
            run = self.run_command("run", "--document", "jobs", *which, "--", "cat", uri=uri)
            document = json.loads("\n".join(run.lines))
            self.assertEqual((document["name"], document["n"]), ("caf\ufffd", 5))
        name = self.db.jobs.aggregate([{"$project": {"n": {"$strLenBytes": "$name"}}}]).next()["n"]
        self.assertEqual(name, 4)

    def test_an_id_that_cannot_be_shown_is_passed_over(self):
        uri = self.store(Protocol="document", Collection="jobs")
        for each in ({"k": "cafe"}, "cafe"):
            self.db.jobs.insert_one(no_utf8({"_id": each, "lockId": bson.ObjectId(), "lockTs": ago(0)}))
        self.db.jobs.insert_one({"_id": "well", "lockId": bson.ObjectId(), "lockTs": ago(0)})
        listed = self.run_command("list", "--json", uri=uri)
        self.assertEqual([each["name"] for each in as_json(listed)], ["well"])
        self.assertIn("jobs, _id (it cannot be shown): field _id", listed.errors)

    def test_another_one_that_is_deleted_is_no_matter(self):
        uri = self.store(Protocol="document", Collection="jobs")
        self.db.jobs.insert_one({"_id": "x"})
        holder = self.holder(uri=uri)
        self.db.jobs.insert_one(no_utf8({"_id": {"k": "cafe"}, "n": 1}))
        self.db.jobs.delete_one({"n": 1})
        self.db.jobs.update_one({"_id": "x"}, {"$set": {"lockId": bson.ObjectId()}})
        until(lambda: holder.ask("check", "check")["code"] == "HF_LOST", 20, "the notice")

    def test_ttl_warns_of_an_id_that_cannot_be_shown(self):
        self.db.locks.insert_one(no_utf8({"_id": {"k": "cafe"}}))
        run = self.run_command("run", "-n", "x", "--", "true", uri=self.store(Protocol="ttl"))
        self.assertIn("whose _id is not a string: (it cannot be shown)", run.errors)


# ---- Arrays ----

class Arrays(OnASet):
    """Filters look into them: what has our ticket in one is none of ours any more."""

    STORES = (("locks", "ticket", {"Protocol": "ttl"}),
              ("jobs", "lockId", {"Protocol": "document", "Collection": "jobs"}),
              ("locks", "ts", {"Protocol": "sharding"}), ("locks", "process", {"Protocol": "sharding"}))

    def hold_and_change(self, collection, field, keys):
        """The field becomes an array of what it was; the holder's beats and its release leave it so."""
        self.mongo.drop_database(self.database)
        documents = self.db[collection]
        if collection == "jobs":
            documents.insert_one({"_id": "x"})
        holder = self.holder("--ttl=1000", uri=self.store(**keys))
        documents.update_one({"_id": "x"}, [{"$set": {field: ["$" + field]}}])
        changed = documents.find_one({"_id": "x"})
        until(lambda: holder.ask("check", "check")["code"] == "HF_LOST", 20, "the loss")
        holder.send("release")
        holder.send("close")
        holder.kill()
        self.assertEqual(documents.find_one({"_id": "x"}), changed)

    def test_a_field_that_became_an_array(self):
        for collection, field, keys in self.STORES:
            with self.subTest(field=field, **keys):
                self.hold_and_change(collection, field, keys)


# ---- Replies ----

class Replies(OnASet):
    """What no server sends."""

    ODD = [("value", odd) for odd in (1, "x", True, bson.ObjectId(), ["x"])] + [
        ("writeConcernError", odd) for odd in ({}, [], {"code": "x"}, {"code": 64, "errmsg": 5},
                                              "slow", 64, None)]

    def test_an_odd_reply_to_a_grab_leaves_no_lock_behind(self):
        now = [None]

        def change(name, command, reply):
            if name == "findAndModify" and command[name] == "locks":
                reply[now[0][0]] = now[0][1]
        with Proxy(self.rs.wait_primary().host, change) as proxy:
            uri = proxy.uri(self.database, hfProtocol="sharding", serverSelectionTimeoutMS=1000)
            for now[0] in self.ODD:
                with self.subTest(now[0]):
                    run = self.run_command("run", "-n", "x", "--", "true", uri=uri, status=69)
                    self.assertNotIn("held by", run.errors)
                    self.assertEqual(self.db.locks.find_one({"_id": "x"})["state"], 0)

    def test_no_reply_to_any_command_ends_the_process(self):
        """Neither to a write, nor to a read; what the driver does not survive is refused."""
        fields = {"writeConcernError": "slow", "cursor": {"id": bson.Int64(0), "ns": 5, "firstBatch": []},
                  "code": 1e300}
        odd = [None]

        def change(name, command, reply):
            if name not in ("hello", "isMaster", "ismaster"):
                reply[odd[0]] = fields[odd[0]]
        with Proxy(self.rs.wait_primary().host, change) as proxy:
            for protocol, odd[0] in itertools.product(("queue", "ttl", "sharding"), fields):
                with self.subTest(protocol=protocol, field=odd[0]):
                    uri = proxy.uri(self.database, hfProtocol=protocol, serverSelectionTimeoutMS=1000)
                    for words in (("run", "-w", "1s", "x", "--", "true"), ("list",)):
                        command = self.start(Command("--store", uri, *words))
                        self.assertGreater(command.status(30), 0, str(command))
                        self.assertNotIn("precondition", command.errors)
                        self.assertIn("the reply is not that of a MongoDB server", command.errors)

    def test_no_hello_ends_the_process(self):
        odd = [None]

        def change(name, command, reply):
            if name in ("hello", "isMaster", "ismaster"):
                reply[odd[0][0]] = odd[0][1]
        with Proxy(self.rs.wait_primary().host, change) as proxy:
            uri = proxy.uri(self.database, serverSelectionTimeoutMS=300)
            for odd[0] in (("compression", [5]), ("speculativeAuthenticate", 5), ("code", 1e300)):
                with self.subTest(odd[0]):
                    self.run_command("list", uri=uri, status=69)


if __name__ == "__main__":
    unittest.main(verbosity=2)
