# Protocol sharding: contention among ours, and with a manager written after article 001; how it is woken, and
# what it says.
# SPDX-License-Identifier: Apache-2.0
import datetime
import signal
import time
import unittest

import bson

from beats import before_a_beat
from contest import CONTEST_SECONDS, Command, boot_ns, idle_seconds
from foreign import OnASet, as_json, start_set, store_of
from mongod import until

TTL = 10  # seconds
EXPIRY = 30
# Where the expiry is waited for.
SHORT_TTL = 3
SHORT_EXPIRY = 4


def setUpModule():
    start_set()


class Sharding(OnASet):
    keys = {"Protocol": "sharding", "PollMS": 100, "PingMS": 500, "ExpiryMS": EXPIRY * 1000}

    def ours(self, contest, n):
        return [contest.add_endless("--ttl=%d" % (TTL * 1000)) for _ in range(n)]

    def holder(self, *words, **more):
        return super().holder("--ttl=%d" % (TTL * 1000), *words, **more)

    def waiter(self):
        return self.worker("--ttl=%d" % (TTL * 1000))

    def short(self):
        return self.store(ExpiryMS=SHORT_EXPIRY * 1000)

    def lock(self):
        return self.db.locks.find_one({"_id": "x"})

    def assert_all_left(self):
        until(lambda: self.lock()["state"] == 0, 10, "the lock to be free")


class Indexes(Sharding):
    def test_they_are_there_when_the_first_acquire_returns(self):
        self.holder()
        self.assertEqual(set(self.db.locks.index_information()),
                         {"_id_", "ts_1", "state_1_process_1"})
        self.assertEqual(set(self.db.lockpings.index_information()), {"_id_", "ping_1"})


class Contention(Sharding):
    def test_eight_of_ours(self):
        contest = self.mixed()
        self.ours(contest, 8)
        contest.run_for(CONTEST_SECONDS)
        contest.finish(60)
        contest.check(self)
        self.assert_all_left()

    def contend_with_managers(self, contest):
        for _ in range(4):
            contest.add_other("manager.py", self.database)
        for _ in range(4):
            contest.add_endless("--ttl=%d" % (TTL * 1000), "--pause=60")
        contest.run_for(CONTEST_SECONDS)
        contest.finish(60)
        contest.check(self)
        self.assert_all_left()

    def test_with_managers_that_are_not_ours(self):
        self.contend_with_managers(self.mixed())

    def test_managers_that_poll_get_their_turn(self):
        self.contend_with_managers(self.mixed(self.store(Fair=1)))


class Told(Sharding):
    """It does not ask for an hour."""

    keys = dict(Sharding.keys, PollMS=3600000)

    def test_a_release_wakes_who_waits(self):
        holder, waiter = self.holder(), self.waiter()
        waiter.ask("acquire", "waits")
        time.sleep(1)  # its stream is open
        asked = boot_ns()
        holder.ask("release", "release")
        had = waiter.wait("acquired", 60)
        print("had %.3f s after the release was asked for" % ((had["at"] - asked) / 1e9))


class Waking(Sharding):
    def test_who_is_overtaken_is_told_at_once(self):
        holder = self.holder()
        time.sleep(1)
        changed = boot_ns()
        self.db.locks.update_one({"_id": "x"}, {"$currentDate": {"when": True},
                                                "$set": {"ts": bson.ObjectId(), "process": "another"}})
        told = holder.wait("told", 5)
        self.assertIn("gone from the store", told["text"])
        self.assertLess(idle_seconds(changed), 2)

    def test_a_killed_owner_is_overtaken_after_the_expiry(self):
        ttl = "--ttl=%d" % (SHORT_TTL * 1000)
        holder = self.worker(ttl, uri=self.short())
        holder.ask("acquire", "acquired")
        waiter = self.worker(ttl, uri=self.short())
        waiter.ask("acquire", "waits")
        pinged = before_a_beat(lambda: self.db.lockpings.find_one({"_id": self.lock()["process"]}))
        holder.signal(signal.SIGKILL)
        killed = boot_ns()
        had = waiter.wait("acquired", SHORT_EXPIRY + 10)
        print("overtaken %.2f s after the kill, the expiry being %d s" % (
            (had["at"] - killed) / 1e9, SHORT_EXPIRY))
        self.assertGreater((had["at"] - pinged) / 1e9, SHORT_EXPIRY - 0.1)
        self.assertLess(idle_seconds(killed, had["at"]), 2 * SHORT_EXPIRY)

    def test_the_indexes_are_those_of_a_config_server(self):
        self.holder()
        until(lambda: len(self.db.lockpings.index_information()) == 2, 10, "the indexes")
        keys = [[index["key"] for index in self.db[each].index_information().values()]
                for each in ("locks", "lockpings")]
        self.assertCountEqual(keys[0], [[("_id", 1)], [("ts", 1)], [("state", 1), ("process", 1)]])
        self.assertCountEqual(keys[1], [[("_id", 1)], [("ping", 1)]])


class Settings(Sharding):
    def test_a_ttl_longer_than_the_expiry_is_refused(self):
        run = self.run_command("--ttl", "31s", "run", "x", "--", "true", status=65)
        self.assertIn("longer than hfExpiryMS=30000", run.errors)

    def test_a_client_pings_as_rarely_as_mongodb_by_default(self):
        """With the ttl of other protocols it would ping each 3.3 s."""
        uri = store_of(self.database, Protocol="sharding")
        run = self.start(Command("--store", uri, "run", "x", "--", "sh", "-c",
                                 "echo holding; read line"))
        run.line("holding", 20)
        first = self.db.lockpings.find_one()
        time.sleep(7)
        self.assertEqual(self.db.lockpings.find_one(), first)
        run.send("end")
        self.assertEqual(run.status(30), 0, run)
        self.assertEqual(self.lock()["state"], 0)

    def test_a_command_that_is_late_names_the_key_that_gives_it_longer(self):
        """Each grab is answered after three seconds."""
        self.addCleanup(self.rs.heal)
        self.rs.fail_command("findAndModify", mode="alwaysOn", appName="late", blockConnection=True,
                             blockTimeMS=3000, namespace=self.database + ".locks")
        for command_ms, status in (1000, 69), (20000, 0):
            uri = self.store(CommandMS=command_ms) + "&appName=late"
            run = self.run_command("--ttl", "10s", "run", "-n", "x", "--", "true", uri=uri,
                                   status=status)
            self.assertEqual("a command may take 1000 ms: hfCommandMS" in run.errors, status != 0,
                             str(run))

    def test_keys_are_checked(self):
        for key, value in ("LockSession", "12"), ("ExpiryMS", "0"), ("Process", ""):
            run = self.run_command("run", "x", "--", "true", uri=self.store(**{key: value}),
                                   status=65)
            self.assertIn("hf%s=%s: it " % (key, value), run.errors)
        run = self.run_command("run", "x", "--", "true", status=65,
                               uri=self.store(Protocol="queue"))
        self.assertIn("is for hfProtocol=", run.errors)

    def test_a_program_that_is_run_again_has_its_own_locks_at_once(self):
        uri = self.store(Process="nightly", LockSession="0123456789abcdef01234567")
        first = self.holder(uri=uri)
        first.signal(signal.SIGKILL)
        self.run_command("--ttl", "10s", "run", "-n", "x", "--", "true", uri=uri)
        self.assertEqual(self.lock()["state"], 0)

    def test_a_lock_session_of_one_run_is_found_and_taken_back(self):
        session = "0123456789abcdef01234567"
        run = self.start(Command("--store", self.uri, "--ttl", "10s", "run", "--lock-session", session,
                                 "x", "--", "sh", "-c", "echo holding; exec sleep 60"))
        run.line("holding", 20)
        self.assertEqual(self.lock()["ts"], bson.ObjectId(session))
        run.signal(signal.SIGKILL)
        listed = self.run_command("--ttl", "10s", "list", "--names", "--lock-session", session)
        self.assertEqual(listed.lines, ["x"])
        self.run_command("--ttl", "10s", "run", "left", "--", "true")
        all_of_it = self.run_command("--ttl", "10s", "list", "-a", "--names", "--lock-session", session)
        self.assertEqual(all_of_it.lines, ["x"])
        self.run_command("--ttl", "10s", "run", "-n", "x", "--", "true", status=75)
        self.run_command("--ttl", "10s", "run", "-n", "--lock-session", session, "x", "--", "true")
        self.assertEqual(self.lock()["state"], 0)

    def test_what_a_lock_session_has_left_is_unlocked(self):
        session = "0123456789abcdef01234567"
        for name in "x", "y", "z":
            self.db.locks.insert_one({"_id": name, "state": 2, "process": "gone", "who": "gone:main",
                                      "ts": bson.ObjectId(session if name < "z" else None),
                                      "when": datetime.datetime.now(), "why": ""})
        one = self.run_command("--ttl", "10s", "unlock-all", "--lock-session", session, "y")
        self.assertEqual(one.lines, ['1 lock of "%s" unlocked' % session])
        rest = self.run_command("--ttl", "10s", "--json", "unlock-all", "--lock-session", session)
        self.assertEqual(as_json(rest),
                         {"lock_session": session, "unlocked": 1})
        self.assertEqual([self.db.locks.find_one({"_id": name})["state"] for name in "xyz"], [0, 0, 2])
        self.run_command("unlock-all", "--lock-session", session, status=65,
                         uri=self.store(Protocol="queue"))

    def test_what_a_former_life_has_left_is_unlocked_at_its_start(self):
        uri = self.store(Process="nightly", ExpiryMS=900000)
        first = self.holder(uri=uri)
        first.signal(signal.SIGKILL)
        offered = self.run_command("complete", "unlock-all", "nigh", uri=uri).lines
        self.assertEqual([line.split("\t")[0] for line in offered], ["nightly"])
        self.run_command("run", "-n", "x", "--", "true", uri=uri, status=75)
        unlocked = self.run_command("unlock-all", "nightly", uri=uri)
        self.assertEqual(unlocked.lines, ['1 lock of "nightly" unlocked'])
        self.assertIsNone(self.db.lockpings.find_one({"_id": "nightly"}))
        self.run_command("run", "-n", "x", "--", "true", uri=uri)

    def test_unlock_all_leaves_others_alone_and_its_holder_has_lost(self):
        other = self.holder()
        uri = self.store(Process="nightly", ExpiryMS=900000)
        self.assertEqual(as_json(self.run_command("unlock-all", "--json", "nightly", uri=uri)),
                         {"process": "nightly", "unlocked": 0})
        self.assertRegex(self.run_command("unlock-all", "nightly", uri=uri).lines[0],
                         r'^0 locks of "nightly" unlocked \(.*`holdfast sessions` shows')
        self.assertEqual(self.lock()["state"], 2)
        process = self.lock()["process"]
        self.run_command("unlock-all", process, uri=uri)
        self.assertEqual(self.lock()["state"], 0)
        self.assertEqual(other.ask("release", "release")["code"], "HF_LOST")

    def test_a_release_of_what_another_holds_says_that_it_was_lost(self):
        holder = self.holder()
        self.db.locks.update_one({"_id": "x"}, {"$set": {"state": 0}})
        self.assertEqual(holder.ask("release", "release")["code"], "HF_LOST")


if __name__ == "__main__":
    unittest.main(verbosity=2)
