# The history, in each protocol: what stands in its collection, whose collection is left alone, and
# who keeps none. SPDX-License-Identifier: Apache-2.0
import signal
import unittest

from contest import Command
from foreign import OnASet, as_json, start_set
from mongod import until


def setUpModule():
    start_set()


class Histories:
    """What is the same in all protocols; `collection` is that of the locks, and `first` what the names
    beside it begin with."""

    collection = first = "locks"
    has_tokens = keeps_reasons = True  # while a lock is held
    holder_named = "alice@"

    def setUp(self):
        super().setUp()
        self.mongo.drop_database(self.database)  # the other protocols' test of that name had it
        self.history = self.db[self.first + ".history"]

    def work(self, **more):
        self.run_command("run", "--why=nightly", "x", "--", "true", uri=self.store(**more))

    def turns(self, *words):
        return as_json(self.run_command("history", *words, "--json"))["turns"]

    def test_a_turn(self):
        self.work()
        [document] = self.history.find()
        self.assertEqual((document["name"], document["why"], document["end"], document["exit_status"]),
                         ("x", "nightly", "released", 0))
        self.assertEqual("token" in document, self.has_tokens)
        self.assertLess(abs(document["ended_at"] - document["granted_at"]).total_seconds(), 30)
        options = self.history.options()
        self.assertEqual((options["capped"], options["size"]), (True, 64 << 20))
        self.assertIn("name_1_ended_at_-1", self.history.index_information())
        [turn] = self.turns("x")
        self.assertEqual((turn["why"], turn["token"]), ("nightly", document.get("token", 0)))
        self.work()
        self.assertEqual(len(self.turns("x")), 2)

    def test_a_lease_that_a_script_had(self):
        """Another process releases it than the one that has made it."""
        had = as_json(self.run_command("acquire", "--why=nightly", "--owner=alice", "x", "--json"))
        self.run_command("release", had["lease"])
        [turn] = self.turns("x")
        why = "nightly" if self.keeps_reasons else ""
        self.assertEqual((turn["why"], turn["end"], turn["token"]), (why, "released", had.get("token") or 0))
        self.assertIn(self.holder_named, turn["who"])

    def test_a_lost_turn(self):
        self.holder("--ttl=3000")
        self.db[self.collection].delete_one({"_id": "x"})
        until(lambda: self.history.find_one({"name": "x"}), 60, "the turn")
        self.assertEqual(self.history.find_one({"name": "x"})["end"], "lost")

    def test_a_break_is_told_of(self):
        watcher = self.start(Command("--store", self.uri, "watch", "--json", "x"))
        self.holder()
        until(lambda: watcher.events("grant"), 60, "the grant")
        self.run_command("break", "--force", "--reason", "hangs", "x")
        [loss] = until(lambda: watcher.events("loss"), 60, "the loss")
        self.assertRegex(loss["reason"], "^broken by .*: hangs$")

    def test_a_collection_of_the_user_s(self):
        self.history.insert_one({"_id": 1, "what": "mine"})
        self.work()
        self.assertEqual(list(self.history.find()), [{"_id": 1, "what": "mine"}])
        self.assertIn("not capped", "\n".join(self.run_command("doctor").lines))
        self.assertEqual(self.turns("x"), [])

    def test_a_capped_collection_of_the_user_s(self):
        self.db.create_collection(self.history.name, capped=True, size=1 << 20)
        self.history.insert_one({"_id": 1, "what": "mine"})
        self.work()
        self.assertEqual(self.history.count_documents({}), 1)
        self.assertEqual(self.turns(), [])

    def test_none_is_kept(self):
        self.work(History=0)
        self.assertNotIn(self.history.name, self.db.list_collection_names())
        self.run_command("doctor", uri=self.store(History=0))


class Queue(Histories, OnASet):
    keys = {"Protocol": "queue"}
    collection, first = "holdfast.locks", "holdfast"

    def test_one_that_died(self):
        holder = self.holder("--ttl=3000", "--why=half done")
        token = holder.events("acquired")[0]["token"]
        holder.kill()
        self.work()
        after, dead = self.turns("x")
        self.assertEqual((dead["end"], dead["token"], after["end"]), ("abandoned", token, "released"))


class Overtaken:
    """The holder's time is over, and the next one takes the lock over."""

    sooner = {}

    def overtake(self):
        self.run_command("--ttl", "5s", "run", "-w", "60s", "x", "--", "true", uri=self.store(**self.sooner))

    def held(self):
        return self.holder("--ttl=5000", "--why=half done", uri=self.store(**self.sooner))

    def check_turns(self):
        after, before = self.turns("x")
        self.assertEqual((before["end"], before["why"], after["end"]),
                         ("abandoned", "half done", "released"))
        self.assertTrue(before["who"])
        self.assertLessEqual(before["granted"], before["ended"])

    def test_one_that_died(self):
        self.held().kill()
        self.overtake()
        self.check_turns()

    def test_one_that_was_stopped_tells_of_no_other_turn(self):
        holder = self.held()
        holder.signal(signal.SIGSTOP)
        self.overtake()
        holder.signal(signal.SIGCONT)
        self.assertEqual(holder.ask("release", "release", 60)["code"], "HF_LOST")
        holder.ask("close", "close", 60)  # writes its diary
        self.check_turns()


class Ttl(Overtaken, Histories, OnASet):
    keys = {"Protocol": "ttl"}
    has_tokens = False


class Sharding(Overtaken, Histories, OnASet):
    keys = {"Protocol": "sharding"}
    has_tokens = False
    sooner = {"ExpiryMS": 6000, "PingMS": 300}
    test_a_lost_turn = None  # its ping is each 30 s


class Document(Histories, OnASet):
    keys = {"Protocol": "document", "Collection": "orders"}
    collection = first = "orders"
    has_tokens = keeps_reasons = False
    holder_named = "lockId "

    def setUp(self):
        super().setUp()
        self.db.orders.insert_one({"_id": "x"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
