# Protocol ttl: against programs written after articles 000 and 003, and with itself.
# SPDX-License-Identifier: Apache-2.0
import datetime
import signal
import threading
import time
import unittest

import bson

import golden
from contest import CONTEST_SECONDS, Command, boot_ns, idle_seconds, seconds_since
from foreign import OnASet, as_json, start_set
from mongod import until
from proxy import Proxy


def setUpModule():
    start_set()


def minutes_ago(minutes):
    return datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=minutes)


class Ttl(OnASet):
    keys = {"Protocol": "ttl"}

    def await_document(self):
        until(lambda: self.db.locks.find_one({"_id": "x"}), 10, "the other program's document")


class WithOthers(Ttl):
    """8 processes on one lock over an unprotected counter."""

    def contend(self, contest):
        for _ in range(4):
            contest.add_endless("--ttl=10000", "--pause=60")
        contest.run_for(CONTEST_SECONDS)
        contest.finish(30)
        contest.check(self)

    def test_a_spin_that_expires_at(self):
        contest = self.mixed(self.store(Shape="expire-at"))
        for _ in range(4):
            contest.add_other("spin.py", self.database)
        self.contend(contest)

    def test_a_spin_that_gets_its_turn(self):
        contest = self.mixed(self.store(Shape="expire-at", Fair=1))
        for _ in range(3):
            contest.add_other("spin.py", self.database)
        self.contend(contest)

    def test_inserts_with_both_spellings(self):
        contest = self.mixed()
        for field in ("acquirer", "acquirer", "aqcuirer", "aqcuirer"):
            contest.add_other("insert.py", self.database, field)
        self.contend(contest)

    def with_bare_ids(self, **keys):
        contest = self.mixed(self.store(**keys))
        for _ in range(4):
            contest.add_other("bare.py", self.database)
        self.contend(contest)

    def test_bare_ids_beside_updated(self):
        self.with_bare_ids()

    def test_bare_ids_beside_expire_at(self):
        self.with_bare_ids(Shape="expire-at")


class Busy(threading.Thread):
    """Writes elsewhere, a hundred times a second at most."""

    def __init__(self, collection):
        super().__init__(daemon=True)
        self.collection, self.written, self.has_ended = collection, 0, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.has_ended.set()
        self.join()

    def run(self):
        while not self.has_ended.wait(0.01):
            self.collection.insert_one({})
            self.written += 1


class Owners(Ttl):
    def test_ours_never_releases_theirs(self):
        holder = self.holder()
        theirs = {"_id": "x", "acquirer": "somebody", "updated": minutes_ago(0)}
        self.db.locks.replace_one({"_id": "x"}, theirs)
        told = holder.wait("told", 5)
        self.assertIn("gone from the store", told["text"])
        self.assertEqual(holder.ask("release", "release")["code"], "HF_LOST")
        self.assertEqual(self.db.locks.find_one({"_id": "x"})["acquirer"], "somebody")

    def test_theirs_never_releases_ours(self):
        holder = self.holder()
        self.assertEqual(self.db.locks.delete_one({"_id": "x", "acquirer": "me"}).deleted_count, 0)
        self.assertEqual(holder.ask("check", "check")["code"], "HF_OK")
        self.assertEqual(holder.ask("release", "release")["code"], "HF_OK")
        self.assertIsNone(self.db.locks.find_one({"_id": "x"}))

    def test_deleting_the_document_is_told_at_once(self):
        run = self.start(Command("--store", self.uri, "run", "x", "--", "sh", "-c",
                                 "echo up; exec sleep 60"))
        run.line("up", 10)
        time.sleep(0.5)  # the stream is open
        deleted = boot_ns()
        self.db.locks.delete_one({"_id": "x"})
        self.assertEqual(run.status(10), 76)
        self.assertLess(idle_seconds(deleted), 2)

    def test_where_others_write_much_it_is_found_by_a_look(self):
        busy = self.enterContext(Busy(self.db.other))
        run = self.start(Command("--store", self.store(StreamWrites=1), "-v", "run", "x", "--",
                                 "sleep", "600"))
        run.said("looking each 500 ms", 120)
        deleted = boot_ns()
        self.db.locks.delete_one({"_id": "x"})
        self.assertEqual(run.status(60), 76)
        self.assertLess(idle_seconds(deleted), 5)
        self.assertGreater(busy.written, 0)

    def test_break_takes_theirs_only_by_force_and_as_it_was_seen(self):
        self.db.locks.insert_one({"_id": "x", "acquirer": "somebody", "updated": minutes_ago(0)})
        refused = self.run_command("break", "--reason", "test", "x", status=65)
        self.assertIn("protocol ttl cannot ask", refused.errors)
        self.assertEqual(refused.lines, [])
        self.run_command("break", "--force", "--reason", "test", "x")
        self.assertIsNone(self.db.locks.find_one({"_id": "x"}))


class Bare(Ttl):
    """The first version of article 000: an _id and nothing else."""

    SHAPES = ({}, {"Shape": "expire-at"})

    def test_it_is_held_in_both_shapes(self):
        for keys in self.SHAPES:
            for bare in ({"_id": "x"}, {"_id": "x", "acquirer": "somebody"}):
                self.db.locks.replace_one({"_id": "x"}, bare, upsert=True)
                run = self.run_command("run", "-n", "x", "--", "true", uri=self.store(**keys),
                                       status=75)
                self.assertIn("held by " + bare.get("acquirer", "a program that does not say"),
                              run.errors)
                self.assertEqual(self.db.locks.find_one({"_id": "x"}), bare)

    def test_its_deletion_wakes_who_waits(self):
        self.db.locks.insert_one({"_id": "x"})
        waiter = self.worker()
        waiter.ask("acquire 60000", "waits")
        self.db.locks.delete_one({"_id": "x"})
        waiter.wait("acquired", 30)

    def test_it_is_broken_only_as_it_was_seen(self):
        self.db.locks.insert_one({"_id": "x"})
        self.run_command("break", "--force", "--reason", "test", "x")
        self.assertIsNone(self.db.locks.find_one({"_id": "x"}))

    def test_it_is_watched_without_a_time(self):
        self.db.locks.insert_one({"_id": "x"})
        watcher = self.start(Command("--store", self.uri, "watch", "--json", "x"))
        until(lambda: watcher.events("grant"), 60, "the grant")
        self.db.locks.delete_one({"_id": "x"})
        until(lambda: watcher.events("release") + watcher.events("loss"), 60, "the end")
        self.assertEqual([event["for_ms"] for event in watcher.events()], [0, 0])

    def test_it_is_listed_without_a_time(self):
        self.db.locks.insert_one({"_id": "x"})
        x, = as_json(self.run_command("list", "--json"))
        self.assertEqual((x["holders"][0]["who"], x["holders"][0]["lease_left_ms"]),
                         ("a program that does not say", None))
        self.assertIsNone(x["holders"][0]["since"])
        for words in (["list"], ["show", "x"]):
            shown = "\n".join(self.run_command(*words).lines)
            self.assertIn("a program that does not say", shown)
            self.assertNotIn("1970", shown)
            self.assertNotIn("since", shown)
        self.assertRegex(shown, r"(?m)^limit +one holder$")


class Index(Ttl):
    """What the TTL index says of documents of other programs."""

    def theirs(self, updated):
        document = {"_id": "x", "acquirer": "somebody", "updated": updated}
        self.db.locks.insert_one(document)
        return self.db.locks.find_one({"_id": "x"})

    def test_what_a_partial_index_does_not_cover_is_never_taken(self):
        self.db.locks.create_index("updated", expireAfterSeconds=5, name="theirs",
                                   partialFilterExpression={"class": "short"})
        there = self.theirs(minutes_ago(60))
        run = self.run_command("-v", "run", "--ttl=5s", "-n", "x", "--", "true", status=75)
        self.assertIn("is partial: it is left as it is", run.errors)
        self.assertEqual(self.db.locks.find_one({"_id": "x"}), there)
        self.assertEqual(set(self.db.locks.index_information()), {"_id_", "theirs"})

    def test_a_partial_index_of_dates_that_expire_spares_the_rest(self):
        self.db.locks.create_index("ExpireAt", expireAfterSeconds=0,
                                   partialFilterExpression={"class": "short"})
        self.db.locks.insert_one({"_id": "x", "ExpireAt": minutes_ago(60)})
        self.run_command("run", "-n", "x", "--", "true", uri=self.store(Shape="expire-at"),
                         status=75)

    def test_an_index_that_mongodb_passes_over_ends_nothing(self):
        """It removes by no index that is "hashed"; where there is another one, by that."""
        self.db.locks.create_index([("updated", "hashed")], expireAfterSeconds=5)
        there = self.theirs(minutes_ago(5))
        self.run_command("run", "-n", "x", "--", "true", status=75)
        self.assertEqual(self.db.locks.find_one({"_id": "x"}), there)

    def test_who_may_not_read_the_indexes_takes_nothing_of_theirs(self):
        """The index would let it stand for an hour more."""
        self.db.locks.create_index("ExpireAt", expireAfterSeconds=3600)
        self.db.locks.insert_one({"_id": "x", "ExpireAt": minutes_ago(1)})

        def change(name, _, reply):
            if name == "listIndexes":
                reply.pop("cursor")
                reply.update(ok=0.0, code=13, codeName="Unauthorized", errmsg="not authorized")
        with Proxy(self.rs.wait_primary().host, change) as proxy:
            uri = proxy.uri(self.database, hfProtocol="ttl", hfShape="expire-at")
            run = self.run_command("-v", "run", "-n", "x", "--", "true", uri=uri, status=75)
            self.assertIn("privilege listIndexes", run.errors)
            self.run_command("run", "-n", "y", "--", "true", uri=uri)

    def test_without_any_index_nothing_ends_theirs(self):
        """The index is made at the first acquire, so it is gone only later."""
        worker = self.holder()
        worker.ask("release", "release")
        self.db.locks.drop_index("updated_1")
        there = self.theirs(minutes_ago(60))
        self.assertEqual(worker.ask("acquire 1000", "refused acquired", 60)["event"], "refused")
        self.assertEqual(self.db.locks.find_one({"_id": "x"}), there)

    def test_an_index_that_is_changed_under_a_waiter_counts_as_it_is_now(self):
        self.db.locks.create_index("updated", expireAfterSeconds=3)
        there = self.theirs(minutes_ago(-5 / 60))  # so it would pass in 8 s
        waiter = self.worker("--ttl=3000")
        waiter.ask("acquire 12000", "waits")
        self.db.command("collMod", "locks", index={"keyPattern": {"updated": 1},
                                                   "expireAfterSeconds": 600})
        had = waiter.wait("acquired refused", 60)
        self.assertEqual(had["event"], "refused", had)
        self.assertEqual(self.db.locks.find_one({"_id": "x"}), there)


class Strangers(Ttl):
    """A collection that holds something else: nothing there is deleted, taken or changed."""

    def setUp(self):
        super().setUp()
        self.uri = self.store(Collection="users")
        self.db.users.insert_many([{"_id": name, "name": name, "email": name + "@example.org",
                                    "updated": minutes_ago(3 * 24 * 60)}
                                   for name in ("ann", "bob", "billing")])
        self.there = list(self.db.users.find())

    def assert_untouched(self):
        self.assertEqual(list(self.db.users.find()), self.there)

    def test_no_index_is_made_over_them(self):
        for keys in ({}, {"Shape": "expire-at", "TimeField": "updated"}):
            run = self.run_command("run", "-n", "job", "--", "true",
                                   uri=self.store(Collection="users", **keys), status=65)
            self.assertIn('_id "ann" is no lock', run.errors)
            self.assertIn("db.users.createIndex({updated: 1}, {expireAfterSeconds: ", run.errors)
            self.assertEqual(set(self.db.users.index_information()), {"_id_"})
        self.assert_untouched()

    def test_none_is_a_lock_beside_an_index(self):
        self.rs.wait_primary().admin("setParameter", 1, ttlMonitorEnabled=False)
        self.addCleanup(self.rs.wait_primary().admin, "setParameter", 1, ttlMonitorEnabled=True)
        self.db.users.create_index("updated", expireAfterSeconds=600)
        run = self.run_command("run", "-n", "billing", "--", "true", status=65)
        self.assertIn('users, _id "billing": field acquirer: expected an owner', run.errors)
        self.run_command("break", "--force", "--reason", "test", "billing", status=65)
        self.assert_untouched()
        self.run_command("run", "-n", "job", "--", "true")
        self.assert_untouched()

    def test_a_lock_whose_time_an_index_would_end_at_once(self):
        self.db.locks.insert_one({"_id": "y", "acquirer": "somebody", "updated": minutes_ago(60)})
        run = self.run_command("run", "-n", "x", "--", "true", uri=self.store(), status=65)
        self.assertIn('_id "y" is another program\'s lock, and its time is over', run.errors)
        self.db.locks.create_index("updated", expireAfterSeconds=600)  # as it says
        self.run_command("run", "-n", "x", "--", "true", uri=self.store())

    def test_both_spellings_of_the_owner_are_locks(self):
        for owner in ("acquirer", "aqcuirer"):
            self.db.locks.insert_one({"_id": owner, owner: "somebody", "updated": minutes_ago(0)})
        self.run_command("run", "-n", "x", "--", "true", uri=self.store())


class OwnTtl(Ttl):
    """The TTL index removes our documents as well."""

    def test_a_ttl_longer_than_the_index_is_refused(self):
        self.db.locks.create_index("updated", expireAfterSeconds=6)
        run = self.run_command("run", "--ttl=60s", "x", "--", "true", status=65)
        self.assertIn("removes documents after 6 s", run.errors)
        self.assertIn("a ttl of at most 6 s", run.errors)
        self.assertEqual(self.db.locks.count_documents({}), 0)
        self.run_command("run", "--ttl=6s", "x", "--", "true")

    def test_an_index_on_the_date_of_their_beginning_is_refused(self):
        self.db.locks.create_index("since", expireAfterSeconds=86400)
        run = self.run_command("run", "x", "--", "true", status=65)
        self.assertIn("field since, removes documents 86400 s after", run.errors)
        self.assertEqual(self.db.locks.count_documents({}), 0)

    def test_the_index_that_is_made_is_long_enough(self):
        self.run_command("run", "--ttl=30m", "x", "--", "true")
        index = self.db.locks.index_information()["updated_1"]
        self.assertEqual(index["expireAfterSeconds"], 1800)
        run = self.run_command("-v", "run", "--ttl=30m", "x", "--", "true")
        self.assertNotIn("expireAfterSeconds", run.errors)

    def test_the_index_that_is_made_spares_other_programs(self):
        """Of which one renews each 10 s or so, as the article says, and one each 15 s."""
        for age in (9, 14):
            self.db.locks.drop()
            self.db.locks.insert_one({"_id": "y", "acquirer": "somebody", "updated": minutes_ago(age / 60)})
            self.run_command("run", "x", "--", "true", uri=self.store(ExpireAfterSeconds=1))
            seconds = self.db.locks.index_information()["updated_1"]["expireAfterSeconds"]
            self.assertGreaterEqual(seconds, max(30, 3 * age))
        self.assertIsNotNone(self.db.locks.find_one({"_id": "y"}))

    def test_an_index_that_is_made_shorter_ends_the_belief(self):
        primary = self.rs.wait_primary()
        primary.admin("setParameter", 1, ttlMonitorEnabled=False)  # it would be gone between two beats
        self.addCleanup(primary.admin, "setParameter", 1, ttlMonitorEnabled=True)
        holder = self.holder()
        self.db.command("collMod", "locks", index={"keyPattern": {"updated": 1},
                                                   "expireAfterSeconds": 2})
        told = holder.wait("told", 10 + 4 + 1)  # a ttl, a beat, and some time
        self.assertIn("removes documents after 2 s", told["text"])
        self.assertIsNotNone(self.db.locks.find_one({"_id": "x"}))
        self.assertEqual(holder.ask("check", "check")["code"], "HF_LOST")


class Ids(Ttl):
    def test_an_id_of_another_type_is_another_lock_and_that_is_said(self):
        self.db.locks.insert_one({"_id": 5, "acquirer": "somebody", "updated": minutes_ago(0)})
        run = self.run_command("-v", "run", "-n", "5", "--", "true")
        self.assertIn("locks has a document whose _id is not a string: 5.", run.errors)
        doctor = self.run_command("doctor")
        self.assertRegex("\n".join(doctor.lines), "LOOK +names +locks has a document whose _id")

    def test_a_prefix_is_a_part_of_it(self):
        """Another program locks "shop/x": the "x" of ours with that prefix, and no other."""
        self.db.locks.insert_one({"_id": "shop/x", "acquirer": "somebody", "updated": minutes_ago(0)})
        shop = self.store(NamePrefix="shop%2F")
        self.run_command("run", "-n", "x", "--", "true", uri=shop, status=75)
        self.run_command("run", "-n", "x", "--", "true")
        self.assertEqual(self.run_command("list", "--names", uri=shop).lines, ["x"])
        self.db.locks.delete_one({"_id": "shop/x"})
        self.run_command("run", "-n", "x", "--", "true", uri=shop)

    def test_where_all_are_strings_nothing_is_said(self):
        self.db.locks.insert_one({"_id": "5", "acquirer": "somebody", "updated": minutes_ago(0)})
        run = self.run_command("-v", "run", "-n", "x", "--", "true")
        self.assertNotIn("is not a string", run.errors)
        self.assertNotIn("names", "\n".join(self.run_command("doctor").lines))


class Crashes(Ttl):
    def assert_taken_over(self, killed, lease, ttl=10000):
        waiter = self.worker("--ttl=%d" % ttl)
        had = waiter.ask("acquire 30000", "acquired refused", lease + 20)
        self.assertEqual(had["event"], "acquired", had)
        print("taken over after %.2f s, lease %g s" % ((had["at"] - killed) / 1e9, lease))
        self.assertLess(idle_seconds(killed, had["at"]), lease + 1)

    def test_ours_is_followed_within_its_lease(self):
        holder = self.holder("--ttl=3000")
        holder.signal(signal.SIGKILL)
        self.assert_taken_over(boot_ns(), 3)

    def test_ours_that_expires_at_is_followed_within_its_lease(self):
        self.uri = self.store(Shape="expire-at")
        holder = self.holder("--ttl=3000")
        holder.signal(signal.SIGKILL)
        self.assert_taken_over(boot_ns(), 3)

    def test_theirs_that_expires_at_is_followed_when_it_says(self):
        self.uri = self.store(Shape="expire-at")
        other = self.other("spin.py", "4")
        self.await_document()
        other.kill()
        self.assert_taken_over(boot_ns(), 4)

    def test_theirs_is_followed_when_the_index_says(self):
        self.uri = self.store(ExpireAfterSeconds=4)
        other = self.other("insert.py", "acquirer", "4")
        self.await_document()
        other.kill()
        self.assert_taken_over(boot_ns(), 4, ttl=4000)

    def test_a_stopped_holder_has_lost_when_it_goes_on(self):
        holder = self.holder("--ttl=2000")
        holder.signal(signal.SIGSTOP)
        self.assert_taken_over(boot_ns(), 2)
        holder.signal(signal.SIGCONT)
        holder.wait("told", 5)
        self.assertEqual(holder.ask("check", "check")["code"], "HF_LOST")

    def test_the_index_alone_cleans_up(self):
        """A program that only polls has its turn then."""
        self.db.locks.create_index("updated", expireAfterSeconds=2)
        holder = self.holder("--ttl=1000")
        self.other("insert.py", "acquirer", "2")
        primary = self.rs.wait_primary()
        primary.admin("setParameter", 1, ttlMonitorSleepSecs=1)
        self.addCleanup(primary.admin, "setParameter", 1, ttlMonitorSleepSecs=60)
        holder.signal(signal.SIGKILL)
        until(lambda: self.db.locks.find_one({"_id": "x", "ticket": None}), 90, "the TTL monitor")


class Documents(Ttl):
    def assert_golden(self, title, **keys):
        self.holder("--why=nightly", uri=self.store(**keys))
        found = self.db.locks.find_one({"_id": "x"})
        owner = "%s@%s:%d/%s" % (found["app"], found["host"], found["pid"], found["session"])
        self.assertEqual(found["acquirer"], owner)
        found.update(acquirer="<app>@<host>:<pid>/<session>", app="<app>", host="<host>",
                     pid=bson.Int64(0))
        self.assertEqual(golden.seen(found), golden.load("ttl.json")[title])

    def test_updated(self):
        self.assert_golden("updated")

    def test_expire_at(self):
        self.assert_golden("expire-at", Shape="expire-at")

    def test_names_of_fields(self):
        self.holder(uri=self.store(TimeField="touched", OwnerField="aqcuirer"))
        document = self.db.locks.find_one({"_id": "x"})
        self.assertIn("aqcuirer", document)
        self.assertIsInstance(document["touched"], datetime.datetime)
        self.assertNotIn("updated", document)
        index = self.db.locks.index_information()["touched_1"]
        self.assertEqual((index["key"], index["expireAfterSeconds"]), ([("touched", 1)], 600))

    def test_an_index_that_is_there_is_respected(self):
        self.db.locks.create_index("updated", expireAfterSeconds=77, name="theirs")
        run = self.run_command("-v", "run", "x", "--", "true")
        self.assertIn("has expireAfterSeconds 77, not 600: it is left as it is", run.errors)
        indexes = self.db.locks.index_information()
        self.assertEqual(set(indexes), {"_id_", "theirs"})
        self.assertEqual(indexes["theirs"]["expireAfterSeconds"], 77)

    def test_the_heartbeat_moves_the_date_and_nothing_else(self):
        self.holder()
        first = self.db.locks.find_one({"_id": "x"})
        later = until(lambda: self.moved(first), 5, "the heartbeat")
        self.assertEqual(dict(first, updated=None), dict(later, updated=None))

    def moved(self, first):
        now = self.db.locks.find_one({"_id": "x"})
        return now if now["updated"] > first["updated"] else None

    def test_another_shape_is_named_and_left_alone(self):
        self.db.locks.create_index("updated", expireAfterSeconds=600)
        for odd in ({"_id": "x", "updated": "yesterday"}, {"_id": "x", "note": 1}):
            self.db.locks.replace_one({"_id": "x"}, odd, upsert=True)
            run = self.run_command("run", "--no-wait", "x", "--", "true", status=65)
            self.assertIn('locks, _id "x": field updated: expected a date', run.errors)
            self.assertEqual(self.db.locks.find_one({"_id": "x"}), odd)


class Words(Ttl):
    def test_what_the_protocol_has_not_is_said_with_who_has_it(self):
        for words in (["--shared"], ["--permits", "1", "--limit", "2"]):
            run = self.run_command("run", *words, "x", "--", "true", status=65)
            self.assertIn("protocol ttl has no shared locks and no semaphores: hfProtocol=queue",
                          run.errors)

    def test_lists_show_the_holder(self):
        holder = self.holder("--why=nightly")
        self.db.locks.insert_one({"_id": "y", "acquirer": "somebody", "updated": minutes_ago(0)})
        x, y = as_json(self.run_command("list", "--json"))
        self.assertIn(":%d" % holder.pid, x["holders"][0]["who"])
        self.assertEqual(x["holders"][0]["why"], "nightly")
        self.assertTrue(0 < x["holders"][0]["lease_left_ms"] <= 40000, x)
        self.assertEqual(y["holders"][0]["who"], "somebody")
        self.assertTrue(500000 < y["holders"][0]["lease_left_ms"] <= 600000, y)
        sessions = as_json(self.run_command("sessions", "--json"))
        self.assertEqual({each["pid"] for each in sessions}, {holder.pid, 0})
        self.assertIn("no lock z: nobody has it", self.run_command("show", "z", status=65).errors)

    def test_waiting_ends_after_ten_seconds_by_default(self):
        self.holder()
        began = boot_ns()
        self.run_command("run", "x", "--", "true", status=75)
        self.assertGreater(seconds_since(began), 9.5)
        self.assertLess(idle_seconds(began), 12)

    def test_run_says_how_long_it_waited_and_has_no_token(self):
        run = self.run_command("-v", "run", "x", "--", "sh", "-c", "echo [$HOLDFAST_TOKEN]")
        self.assertRegex(run.errors, 'have "x" after [0-9]+ms$')
        self.assertEqual(run.lines, ["[]"])


class Told(Ttl):
    """It does not ask for an hour."""

    keys = dict(Ttl.keys, PollMS=3600000)

    def test_a_release_wakes_who_waits(self):
        holder, waiter = self.holder(), self.worker()
        waiter.ask("acquire", "waits")
        time.sleep(1)  # its stream is open
        holder.ask("release", "release")
        waiter.wait("acquired", 60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
