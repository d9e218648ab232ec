# Protocol `document`: locks in the elements of arrays, beside programs that lock them in the way of
# the library behind the article, on a real three-node set. SPDX-License-Identifier: Apache-2.0
import datetime
import json
import os
import subprocess
import sys
import tempfile
import unittest

import bson

from mongod import until
from test_document import (ARTICLE, BIN, DATABASE, PATIENCE, WORKER, OnASet, Script, outputs,
                           setUpModule)  # noqa: F401: the set

ELEMENT_ARTICLE = os.path.join(os.path.dirname(ARTICLE), "element_article.py")
SECONDS = 8


class Elements(OnASet):
    def uri(self, **keys):
        return super().uri(**{"hfElement": "lines.id", **keys})

    def order(self, name="one", n=3, **more):
        lines = [{"id": i, "sku": "s%d" % i} for i in range(n)]
        return self.insert(_id=name, by="us", lines=lines, **more)

    def line(self, name, key):
        return next(each for each in self.find(name)["lines"] if each["id"] == key)

    def lines_held(self):
        return sorted(line["id"] for order in self.documents.find() for line in order["lines"]
                      if line.get("lockId"))


class BothKinds(Elements):
    def test_processes_of_both_kinds_lose_no_update(self):
        self.order()
        name = '["one",1]'
        with tempfile.NamedTemporaryFile("w", suffix=".counter") as counter:
            counter.write("0")
            counter.flush()
            ours = [WORKER, "contend", self.uri(), name, str(SECONDS), counter.name]
            theirs = [sys.executable, ELEMENT_ARTICLE, self.driver_uri, DATABASE, self.name, "one",
                      "1", str(SECONDS), counter.name, "30"]
            started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
                       for words in [ours] * 3 + [theirs] * 3]
            turns = [int(text) for text in outputs(started)]
            with open(counter.name) as stream:
                counted = int(stream.read())
        print("ours %s, theirs %s, in %d s" % (turns[:3], turns[3:], SECONDS))
        self.assertEqual(counted, sum(turns))
        self.assertGreater(min(sum(turns[:3]), sum(turns[3:])), 0)
        self.assertEqual(self.find("one")["lines"], [
            {"id": 0, "sku": "s0"}, {"id": 1, "sku": "s1", "lockId": None, "lockTs": None},
            {"id": 2, "sku": "s2"}])


class Fields(Elements):
    def test_only_the_element_changes(self):
        before = self.order(total=bson.Int64(7), rest=[1, {"id": 1}])
        script = self.script(hfTokenField="fence")
        token, document = script.take('["one",1]')
        self.assertEqual(token, 1)
        self.assertEqual((document["lines"]["sku"], document["by"]), ("s1", "us"))
        held = self.find("one")
        line = held["lines"].pop(1)
        self.assertEqual((line["id"], line["sku"], line["fence"]), (1, "s1", 1))
        self.assertEqual(str(line["lockId"]), document["lines"]["lockId"]["$oid"])
        before["lines"].pop(1)
        self.assertEqual(held, before)
        self.assertEqual(script.ask("release")[0], "HF_OK")
        self.assertEqual(self.line("one", 1),
                         {"id": 1, "sku": "s1", "lockId": None, "lockTs": None, "fence": 1})
        self.assertEqual(script.take('["one",1]')[0], 2)

    def test_elements_of_one_document_are_locks_of_their_own(self):
        self.order()
        first, second = self.script(ttl_ms=9000), self.script(ttl_ms=9000)
        first.take('["one",0]')
        first.take('["one",1]')
        second.take('["one",2]')
        self.assertEqual(second.ask('take n ["one",1]')[0], "HF_HELD")
        begun = {i: self.line("one", i)["lockTs"] for i in range(3)}
        until(lambda: all(self.line("one", i)["lockTs"] > begun[i] for i in range(3)), PATIENCE,
              "a refresh of each")
        self.assertEqual(self.lines_held(), [0, 1, 2])

    def test_keys_of_all_types(self):
        keys = [7, "7", "a b", 2.5, bson.Int64(2) ** 40, bson.ObjectId(), True, {"a": 1}]
        self.insert(_id="one", lines=[{"id": each} for each in keys])
        oid = '{"$oid":"%s"}' % keys[5]
        for text in ("7", '"7"', '"a b"', "2.5", str(2 ** 40), oid, "true", '{"a":1}'):
            name = '["one",%s]' % text
            result = self.check(0, "run", "-n", name, "--", "sh", "-c", 'echo "$HOLDFAST_NAME"',
                                uri=self.uri())
            self.assertEqual(result.stdout.strip(), name)
        result = self.check(0, "run", "-n", ' [ "one", 7.0 ]', "--", "sh", "-c",
                            'echo "$HOLDFAST_NAME"', uri=self.uri())
        self.assertEqual(result.stdout.strip(), '["one",7]')

    def test_lock_ids_and_times_of_other_kinds(self):
        self.order()
        script = self.script(hfLockIdType="uuidLegacy", hfTimeMeans="expires", hfStaleMultiplier=12)
        script.take('["one",1]')
        line = self.line("one", 1)
        self.assertEqual((line["lockId"].subtype, len(line["lockId"])), (bson.binary.OLD_UUID_SUBTYPE, 16))
        self.assertGreater(line["lockTs"], self.now())
        self.assertEqual(script.ask("release")[0], "HF_OK")
        self.assertIsNone(self.line("one", 1)["lockId"])

    def test_a_loss_is_told_by_the_next_refresh(self):
        self.order()
        script = self.script(ttl_ms=3000)
        script.take('["one",1]')
        self.documents.update_one({"_id": "one"}, {"$pull": {"lines": {"id": 1}}})
        self.assertEqual(script.hear()[0], "lost")

    def test_a_stale_one_is_taken(self):
        self.order()
        when = self.now()
        self.documents.update_one({"_id": "one"}, {"$set": {
            "lines.0.lockId": bson.ObjectId(), "lines.0.lockTs": when,
            "lines.1.lockId": bson.ObjectId(),
            "lines.1.lockTs": when.replace(year=when.year - 1)}})
        script = self.script()
        script.take('["one",1]', "n")
        self.assertEqual(script.ask('take n ["one",0]')[0], "HF_HELD")


class Odd(Elements):
    def refused(self, status, name, *words, **keys):
        result = self.check(status, "run", "-n", name, "--", "true", uri=self.uri(**keys))
        for word in words:
            self.assertIn(word, result.stderr)

    def test_names(self):
        self.order()
        for name in ("one", "[]", '["one"]', '["one",1,2]', '["one",null]', '[["one"],1]', "17",
                     '["one",[1]]', '["one",99999999999999999999]'):
            self.refused(65, name, "lines.id", "array")

    def test_what_is_not_there(self):
        self.order()
        self.insert(_id="text", lines="text")
        self.insert(_id="object", lines={"id": 1})
        self.insert(_id="numbers", lines=[1, None, [{"id": 1}]])
        for name in ('["two",1]', '["one",9]', '["text",1]', '["object",1]', '["numbers",1]'):
            self.refused(65, name, "no element")

    def test_shapes(self):
        for line, field in (({"lockId": 5}, "lockId"), ({"lockId": bson.ObjectId()}, "lockTs"),
                            ({"lockTs": "text"}, "lockTs"), ({"fence": "text"}, "fence")):
            self.insert(_id="odd", lines=[{"id": 0}, {"id": 1, **line}])
            before = self.find("odd")
            self.refused(65, '["odd",1]', "odd", field, hfTokenField="fence")
            self.assertEqual(self.find("odd"), before)
            self.documents.delete_many({})

    def test_two_of_one_key(self):
        self.insert(_id="odd", lines=[{"id": 1}, {"id": 1}, {"id": 2}])
        self.refused(65, '["odd",1]', "2 elements")
        self.assertEqual(self.lines_held(), [])
        self.check(0, "run", "-n", '["odd",2]', "--", "true", uri=self.uri())

    def test_doctor_says_that_waiters_look(self):
        said = self.check(0, "doctor", uri=self.uri(hfPollMS=250)).stdout
        self.assertRegex(said, r"(?m)^ok +notices +looks each 250 ms \(hfPollMS\)")

    def test_the_uri(self):
        for keys, word in (({"hfElement": "lines"}, "ARRAY.KEY"), ({"hfElement": "a.b.c"}, "ARRAY.KEY"),
                           ({"hfLockField": "lock.id"}, "hfLockField"),
                           ({"hfTimeField": "id"}, "hfTimeField")):
            self.refused(65, '["one",1]', word, **keys)


class Claims(Elements):
    def test_workers_do_each_element_once(self):
        for i in range(12):
            self.order(i, 5)
        mark = ("import json, os, pymongo, sys\n"
                "order = json.loads(sys.stdin.read())\n"
                "orders = pymongo.MongoClient(os.environ['DRIVER_URI'])[sys.argv[1]][sys.argv[2]]\n"
                "orders.update_one({'_id': order['_id'], 'lines.id': order['lines']['id']},\n"
                "                  {'$inc': {'lines.$.runs': 1}})\n")
        words = [BIN, "--store", self.driver_uri, "run", "--document", self.name, "--element",
                 "lines.id", "--filter", '{"lines.runs":null}', "--each", "--", sys.executable,
                 "-c", mark, DATABASE, self.name]
        env = dict(os.environ, DRIVER_URI=self.driver_uri)
        outputs([subprocess.Popen(words, env=env, stdout=subprocess.PIPE) for _ in range(3)])
        runs = [line.get("runs") for order in self.documents.find() for line in order["lines"]]
        self.assertEqual(runs, [1] * 60)
        self.assertEqual(self.lines_held(), [])

    def test_each_says_how_many_it_passes_by(self):
        old = self.now() - datetime.timedelta(hours=1)
        guid = bson.Binary(b"0123456789abcdef", 4)
        self.insert(_id="one", lines=[{"id": n, "lockId": guid, "lockTs": old} for n in range(2)])
        result = self.run_document(0, "--element", "lines.id", "--each", "--", "true")
        self.assertIn("passed by 2 that match and are stale", result.stderr)
        self.assertIn("put hfLockIdType=uuid into the URI", result.stderr)

    def test_filter_and_sort_order_are_about_one_element(self):
        self.order("a", 3, paid=True)
        self.order("b", 3, paid=False)
        script = self.script()
        _, first = script.take('{"paid":true,"lines.sku":{"$ne":"s2"}}', "cn")
        self.assertEqual((first["_id"], first["lines"]["id"] in (0, 1)), ("a", True))
        script.take('{"paid":true,"lines.sku":{"$ne":"s2"}}', "cn")
        self.assertEqual(script.ask('take cn {"paid":true,"lines.sku":{"$ne":"s2"}}')[0],
                         "HF_NOT_FOUND")
        result = self.run_document(0, "--element", "lines.id", "--sort", '{"lines.id":-1,"_id":-1}',
                                   "--", "cat")
        taken = json.loads(result.stdout)
        self.assertEqual((taken["_id"], taken["lines"]["id"]), ("b", 2))

    def test_an_odd_element_hides_no_other(self):
        self.insert(_id="odd", lines=[{"id": 1}, {"id": 1}, {"id": [3]}, {}, 5, {"id": 2}])
        script = self.script()
        self.assertEqual(script.take("{}", "cn")[1]["lines"]["id"], 2)
        self.assertEqual(script.ask("take cn {}")[0], "HF_NOT_FOUND")

    def test_one_that_waits_comes_back_when_there_is_one(self):
        waiter = subprocess.Popen([BIN, "--store", self.driver_uri, "run", "--document", self.name,
                                   "--element", "lines.id", "--filter", '{"lines.ready":true}',
                                   "--", "cat"], stdout=subprocess.PIPE, text=True)
        self.order()
        self.documents.update_one({"_id": "one"}, {"$set": {"lines.1.ready": True}})
        taken = json.loads(waiter.communicate(timeout=PATIENCE)[0])
        self.assertEqual(taken["lines"]["id"], 1)

    def test_a_lost_answer_leaves_nothing_behind(self):
        self.order(n=1)
        for what, flags in (("{}", "c"), ('["one",0]', "-")):
            self.mongo.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data={
                "failCommands": ["findAndModify"], "appName": "unlucky",
                "writeConcernError": {"code": 91, "errmsg": "injected"}})
            script = Script(self.uri(appName="unlucky"), 5000)
            self.addCleanup(script.done)
            _, document = script.take(what, flags)
            self.assertEqual(str(self.line("one", 0)["lockId"]), document["lines"]["lockId"]["$oid"])
            self.assertEqual(script.ask("release")[0], "HF_OK")
            self.assertIsNone(self.line("one", 0)["lockId"])


class Command(Elements):
    def test_the_command_gets_the_element(self):
        self.order("A17")
        result = self.run_document(0, "--id", "A17", "--element", "lines.id=1", "--", "sh", "-c",
                                   'cat; echo "$HOLDFAST_DOCUMENT_ID"')
        document, name = result.stdout.splitlines()
        self.assertEqual(json.loads(document)["lines"]["sku"], "s1")
        self.assertEqual(name, '["A17",1]')

    def test_usage(self):
        self.order()
        for words in (("--id", "one", "--element", "lines.id"), ("--element", "lines.id=1")):
            self.assertIn("--element", self.run_document(64, *words, "--", "true").stderr)
        self.check(64, "run", "--element", "lines.id=1", "x", "--", "true")

    def test_listings_and_break(self):
        self.order("one")
        self.order("two", lockId=None)
        script = self.script(ttl_ms=20000)
        script.take('["one",2]')
        script.take('["one",0]')
        listed = json.loads(self.check(0, "list", "--json").stdout)
        self.assertEqual([lock["name"] for lock in listed], ['["one",0]', '["one",2]'])
        shown = json.loads(self.check(0, "show", "--json", '["two",1]').stdout)
        self.assertEqual(shown["holders"], [])
        self.check(0, "break", '["one",2]', "--force", "--reason", "test")
        self.assertEqual(script.hear()[0], "lost")
        self.assertEqual(self.lines_held(), [0])

    def test_a_forced_break_frees_what_other_programs_write(self):
        theirs = bson.Binary(bytes(range(16)), 4)
        self.order("one")
        lock = {"lockId": theirs, "lockTs": self.now()}
        self.documents.update_one({"_id": "one"}, {"$set": {
            "lines.%d.%s" % (at, field): value for at in (1, 2) for field, value in lock.items()}})
        self.check(0, "break", '["one",2]', "--force", "--reason", "test")
        held = self.documents.find_one({"_id": "one"})["lines"]
        self.assertEqual([line.get("lockId") for line in held[1:3]], [theirs, None])


if __name__ == "__main__":
    unittest.main(verbosity=2)
