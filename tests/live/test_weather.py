# Bad input and bad weather for the command on MongoDB: each with a clear message and the right exit
# status, and nothing lost. And the listings, which are there for such days.
# SPDX-License-Identifier: Apache-2.0
import datetime
import json
import os
import signal
import tempfile
import unittest

import bson
import pymongo

from beats import before_a_beat
from contest import (Command, Contest, Worker, boot_ns, check_all, idle_seconds,
                     seconds_since)
from mongod import ReplicaSet, free_ports, until

UNREACHABLE, USAGE, VALUE, NOT_ACQUIRED, LOST = 69, 64, 65, 75, 76


class Commands(unittest.TestCase):
    uri = None

    def setUp(self):
        self.name = self.id().rsplit(".", 1)[1]

    def start(self, *words, store=None):
        command = Command("--store", store or self.uri, *words)
        self.addCleanup(command.kill)
        return command

    def run_to_end(self, *words, store=None, timeout=30):
        command = self.start(*words, store=store)
        command.ended_with = command.status(timeout)
        return command

    def json_of(self, *words):
        command = self.run_to_end("--json", *words)
        self.assertEqual(command.ended_with, 0, command)
        return json.loads("\n".join(command.lines))

    def assert_refused(self, command, status, *texts):
        """It ended so, and said why in one line of its own, in words and not in codes."""
        self.assertEqual(command.ended_with, status, command)
        for text in texts:
            self.assertRegex(command.errors, text)
        self.assertEqual(command.lines, [])
        self.assertTrue(command.errors.startswith("holdfast: "), command.errors)


class BadInput(Commands):
    """No server is needed to refuse these."""

    def test_uris(self):
        for uri, text in {
            "mongodb://": "URI",
            "mongodb://host:notaport/": "URI",
            "mongodb://a/b?replicaSet": "URI",
            "mongo://host/": "mongodb://",
            "http://host/": "mongodb://",
            " ": "known are sqlite:PATH",
            "mongodb://h/?hfProtocols=queue": "hfProtocols.*hfProtocol",
            "mongodb://h/?hfProtocol=nonesuch": "nonesuch",
            "mongodb://h/?hfCollection=": "hfCollection",
            "mongodb://h/?hfCollection=a$b": "hfCollection",
            "mongodb://h/?hfWeakWrites=maybe": "maybe",
        }.items():
            with self.subTest(uri):
                self.assert_refused(self.run_to_end("run", "x", "--", "echo", "ran", store=uri),
                                    VALUE, text)

    def test_a_bad_uri_does_not_show_its_password(self):
        for uri in ["mongodb://user:s3cret@/", "mongodb://user:s3cret@h:port/",
                    "mongodb://user:s3cr:et@h/", "mongo://user:s3cret@h/",
                    "mongodb://user:s3cret@h/?hfNone=1"]:
            with self.subTest(uri):
                command = self.run_to_end("list", store=uri)
                self.assert_refused(command, VALUE)
                self.assertNotIn("s3cr", command.errors)


class Denied(Commands):
    """A server that wants a user and a password."""

    @classmethod
    def setUpClass(cls):
        key = tempfile.NamedTemporaryFile(prefix="holdfast-key-")
        cls.addClassCleanup(key.close)
        key.write(b"for tests only")
        key.flush()
        os.chmod(key.name, 0o600)
        cls.server = ReplicaSet(standalone=True, args=["--auth", "--keyFile", key.name])
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()
        cls.server.members[0].admin("createUser", "root", pwd="r00t", roles=["root"])
        with pymongo.MongoClient(cls.uri_of("root", "r00t")) as client:
            client.admin.command("createUser", "user", pwd="s3cret",
                                 roles=[{"role": "readWrite", "db": "holdfast"}])
            client.admin.command("createUser", "reader", pwd="s3cret",
                                 roles=[{"role": "read", "db": "holdfast"}])

    @classmethod
    def uri_of(cls, user, password):
        return "mongodb://%s:%s@%s/?authSource=admin" % (user, password, cls.server.members[0].host)

    def assert_denied(self, store, text):
        began = boot_ns()
        command = self.run_to_end("run", "x", "--", "echo", "ran", store=store)
        self.assert_refused(command, UNREACHABLE, self.server.members[0].host, text)
        self.assertNotIn("s3cret", command.errors)
        self.assertNotIn("wr0ng", command.errors)
        # it is asked once more: that does not pass by itself
        self.assertLess(idle_seconds(began), 4, command)

    def test_a_right_password(self):
        command = self.run_to_end("run", "x", "--", "echo", "ran", store=self.uri_of("user", "s3cret"))
        self.assertEqual((command.ended_with, command.lines), (0, ["ran"]), command)

    def test_a_wrong_password(self):
        self.assert_denied(self.uri_of("user", "wr0ng"), "(?i)authenticat.*user, password and authSource")

    def test_no_password(self):
        self.assert_denied("mongodb://%s/" % self.server.members[0].host, "(?i)auth.*readWrite")

    def test_too_few_rights(self):
        self.assert_denied(self.uri_of("reader", "s3cret"), "(?i)not authorized.*readWrite")

    def test_a_list_without_rights(self):
        command = self.run_to_end("list", store="mongodb://%s/" % self.server.members[0].host)
        self.assert_refused(command, UNREACHABLE, "(?i)auth")


class OnASet(Commands):
    ELECTION_MS = None  # the server's own: a machine that is slow for a moment elects nobody
    URI_OPTIONS = ""

    @classmethod
    def setUpClass(cls):
        cls.rs = ReplicaSet(election_ms=cls.ELECTION_MS)
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()
        cls.uri = cls.rs.uri_for("", cls.URI_OPTIONS)
        cls.mongo = cls.rs.client()
        cls.addClassCleanup(cls.mongo.close)

    def setUp(self):
        super().setUp()
        self.locks = self.mongo.holdfast.holdfast.locks

    def json_of(self, *words):
        """A listing is tried once: a server that was slow to say hello is asked again."""
        def answer():
            command = self.run_to_end("--json", *words)
            return command if command.ended_with != UNREACHABLE else None
        command = until(answer, 60, "a server that answers in time")
        self.assertEqual(command.ended_with, 0, command)
        return json.loads("\n".join(command.lines))

    def worker(self, *words):
        worker = Worker(self.uri, "--script", "--name=" + self.name, *words)
        self.addCleanup(worker.kill)
        return worker

    def holder(self, *words):
        worker = self.worker(*words)
        worker.token = worker.ask("acquire", "acquired")["token"]
        return worker

    def waiter(self, *words):
        worker = self.worker(*words)
        worker.ask("acquire", "waits")
        return worker


class Down(OnASet):
    """The database goes away; each test finds it up."""
    ELECTION_MS = 2000
    URI_OPTIONS = "serverSelectionTimeoutMS=2000"  # the command's patience

    def setUp(self):
        super().setUp()
        self.addCleanup(self.bring_up)

    def bring_up(self):
        for member in self.rs.members:
            if member.running():
                self.rs.cont(member)
            else:
                member.start(waits=False)  # a busy machine takes longer than the patience, one by one
        self.rs.wait_primary()
        self.rs.wait_secondaries()

    def take_down(self, number=signal.SIGKILL):
        gone = boot_ns()
        for member in self.rs.members:
            self.rs.kill(member, number)
        return gone

    def start_child(self, script):
        """`run` with a shell's script as its command, which first says "child" and its pid."""
        run = self.start("--ttl", "3s", "run", self.name, "--", "bash", "-c",
                         "echo child $$; " + script)
        run.line("child", 20)
        return run

    def test_at_the_start(self):
        uri = "mongodb://127.0.0.1:%d/?serverSelectionTimeoutMS=2000" % free_ports(1)[0]
        for words in [("run", "x", "--", "echo", "ran"), ("list",), ("show", "x"), ("sessions",),
                      ("doctor",), ("break", "x", "--reason", "why")]:
            with self.subTest(words):
                began = boot_ns()
                command = self.run_to_end(*words, store=uri)
                self.assert_refused(command, UNREACHABLE, uri.split("/")[2], "is it running")
                # the patience of 2 s, one call of it that began just before, and the close
                self.assertLess(idle_seconds(began), 2 + 5, command)

    def test_a_set_without_a_primary(self):
        for member in self.rs.members[1:]:
            self.rs.kill(member)
        until(lambda: not self.rs.primary(), 20, "the last one to step down")
        command = self.run_to_end("run", self.name, "--", "echo", "ran")
        self.assert_refused(command, UNREACHABLE, "primary")

    def test_while_waiting(self):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(number):
                self.name = "waiting %d" % number
                holder = self.holder("--ttl=3000")
                waiter = self.start("-v", "run", self.name, "--", "echo", "ran")
                waiter.said("waiting for", 10)
                gone = self.take_down(number)
                waiter.ended_with = waiter.status(40)
                self.assertEqual(waiter.ended_with, UNREACHABLE, waiter)
                self.assertNotIn("ran", waiter.lines)
                self.assertIn("is it running", waiter.errors)
                # the next look within 3 s, a call of 5 s that has no answer, the patience of 2 s,
                # one more call, the give-back's, and the close with its 5 s
                self.assertLess(idle_seconds(gone), 3 + 5 + 2 + 5 + 5 + 5, waiter)
                holder.kill()
                self.bring_up()

    def test_while_waiting_and_back_again(self):
        holder = self.holder("--ttl=3000")
        waiter = self.start("-v", "run", self.name, "--", "echo", "ran", store=self.rs.uri)
        waiter.said("waiting for", 10)
        self.take_down()
        holder.wait("told", 10)
        holder.kill()
        self.bring_up()
        # its patience is 30 s: it goes on as if nothing had been, and judges the dead holder
        waiter.line("ran", 30)
        self.assertEqual(waiter.status(10), 0, waiter)

    def test_while_holding_stops_the_command_in_time(self):
        with tempfile.NamedTemporaryFile(prefix="holdfast-ticks-") as ticks:
            # a child that will not hear of SIGTERM, and says until when it lived
            run = self.start_child("trap '' TERM; while :; do read up rest </proc/uptime; echo $up; "
                                   "sleep 0.02; done >%s" % ticks.name)
            until(lambda: os.path.getsize(ticks.name), 5, "the first tick")
            gone = self.take_down()
            run.ended_with = run.status(20)
            with open(ticks.name) as stream:
                last = float(stream.read().split()[-1])
        self.assertEqual(run.ended_with, LOST, run)
        self.assertIn("lost the lock", run.errors)
        # the lease of 3 s began no later than the servers ended; ticks are 10 ms apart
        self.assertLess(last - gone / 1e9, 3, run)

    def test_while_holding_and_back_in_time(self):
        run = self.start("--ttl", "2m", "run", self.name, "--", "bash", "-c",
                         "echo child $$; read line; exit 7")
        run.line("child", 20)
        self.take_down()
        self.bring_up()
        run.send("end")
        self.assertEqual(run.status(20), 7, run)
        record = self.locks.find_one({"_id": self.name})
        self.assertEqual((record["holders"], record["last"]["outcome"]), ([], "released"))
        self.assertEqual(record["last"]["exit_status"], 7)

    def test_while_releasing(self):
        run = self.start_child("read line; exit 7")
        gone = self.take_down()
        run.send("end")
        self.assertEqual(run.status(30), 7, run)  # the command's own, which did its work
        self.assertIn("was not released", run.errors)
        # the lease's 3 s at most, a call's 5 s, the close's 5 s
        self.assertLess(idle_seconds(gone), 3 + 5 + 5, run)


class AnotherShape(OnASet):
    def test_a_record_of_another_shape_is_left_alone(self):
        now = datetime.datetime(2020, 1, 1)
        entry = {"ticket": bson.ObjectId(), "session": bson.ObjectId(), "ttl_ms": 1000, "actor": "",
                 "permits": 1, "since": now, "why": "", "token": bson.Int64(1), "granted_at": now}
        whole = {"limit": 1 << 30, "token": bson.Int64(1), "holders": [], "queue": [], "notify": ""}
        shapes = {
            "limit": {"ExpireAt": now},
            "token": dict(whole, token="one"),
            "holders": dict(whole, holders="nobody"),
            "queue": dict(whole, queue={"a": 1}),
            "holders.0.ticket": dict(whole, holders=[dict(entry, ticket="one")]),
            "queue.0.permits": dict(whole, queue=[dict(entry, permits="all")]),
        }
        for field, shape in shapes.items():
            for words in [("run", "-n"), ("run",), ("show",), ("break", "--reason", "why")]:
                with self.subTest(field, words=words):
                    name = "%s of %s" % (field, " ".join(words))
                    self.locks.insert_one(dict(shape, _id=name))
                    before = self.locks.find_one({"_id": name})
                    rest = ["--", "echo", "ran"] if words[0] == "run" else []
                    command = self.run_to_end(*words, name, *rest)
                    self.assert_refused(command, VALUE, "collection holdfast.locks", name,
                                        "field %s " % field.replace(".", r"\."))
                    self.assertEqual(self.locks.find_one({"_id": name}), before)
                    self.locks.delete_one({"_id": name})

    def test_a_limit_that_disagrees(self):
        self.name = "limits"
        self.holder("--permits=1", "--limit=3")
        for words in [(), ("-n",), ("--permits", "1", "--limit", "4"), ("-s",)]:
            with self.subTest(words):
                command = self.run_to_end("run", *words, self.name, "--", "echo", "ran")
                self.assert_refused(command, VALUE, "a limit of 3")


class Listings(OnASet):
    def test_more_waiters_than_the_queue_takes(self):
        patient = ("--ttl=60000", "--patience=300000")  # that many want all of a busy machine
        holder = self.holder(*patient)
        contest = Contest(self.uri, self.name)
        self.addCleanup(contest.__exit__)
        for _ in range(8):
            contest.add("--threads=12", "--turns=1", "--work=1", "--local-turns=-1", *patient)
        lock = until(lambda: [each for each in self.json_of("list", self.name)
                              if each["outside"] >= 32], 120, "a line outside the queue")[0]
        self.assertEqual(len(lock["queue"]), 64)
        self.assertEqual([each["position"] for each in lock["queue"]], list(range(1, 65)))
        self.assertGreaterEqual(len({each["session"] for each in lock["queue"]}), 6)  # of 12 each
        holder.ask("release", "release")
        contest.finish(60)
        self.assertEqual(contest.value(), 96)
        check_all(self, contest)

    def test_list_show_and_sessions(self):
        holder = self.start("--ttl", "20s", "run", "--why", "for \"fun\"", self.name, "--", "bash",
                            "-c", "echo child $$; read line; exit 3")
        holder.line("child", 10)
        waiter = self.waiter("--id=second", "--ttl=10000")
        lock, = self.json_of("list", self.name)
        self.assertEqual(set(lock), {"name", "limit", "token", "holders", "queue", "outside", "last"})
        self.assertEqual((lock["name"], lock["limit"]), (self.name, 1 << 30))
        first, = lock["holders"]
        self.assertEqual(set(first), {"session", "who", "why", "token", "permits", "since",
                                      "lease_left_ms"})
        self.assertRegex(first["who"], r"^[^/]+/bash@.+:%d$" % holder.pid)
        self.assertEqual((first["why"], first["token"]), ("for \"fun\"", lock["token"]))
        since = datetime.datetime.fromisoformat(first["since"].replace("Z", "+00:00"))
        self.assertLess(abs(datetime.datetime.now(datetime.timezone.utc) - since),
                        datetime.timedelta(seconds=20))
        self.assertTrue(0 < first["lease_left_ms"] <= 20000, first)
        second, = lock["queue"]
        self.assertEqual((second["position"], second["token"]), (1, 0))
        self.assertRegex(second["who"], r"^second@.+:%d$" % waiter.pid)
        self.assertEqual([each["name"] for each in self.json_of("list", self.name[:-1])], [self.name])
        self.assertEqual(self.json_of("list", "no such prefix"), [])
        shown = self.run_to_end("show", self.name)
        self.assertEqual(shown.ended_with, 0)
        self.assertRegex("\n".join(shown.lines), r"holder +\S+/bash@")
        alive = {each["pid"]: each for each in self.json_of("sessions") if not each["dead"]}
        self.assertRegex(alive[holder.pid]["app"], "^[^/]+/bash$")
        self.assertEqual(alive[holder.pid]["ttl_ms"], 20000)
        self.assertIn(waiter.pid, alive)
        holder.send("end")
        self.assertEqual(holder.status(10), 3)
        waiter.wait("acquired", 10)
        lock, = self.json_of("list", self.name)
        self.assertEqual((lock["last"]["outcome"], lock["last"]["exit_status"]), ("released", 3))
        self.assertRegex(lock["last"]["who"], r"^[^/]+/bash@.+:%d$" % holder.pid)
        until(lambda: holder.pid in {each["pid"] for each in self.json_of("sessions", "--all")
                                     if each["dead"]}, 30, "its end is a mark")

    def test_show_of_nothing(self):
        self.assert_refused(self.run_to_end("show", "no such lock"), VALUE, "no such lock")

    def test_doctor(self):
        findings = {}
        self.uri = self.rs.uri_for("doctor", self.URI_OPTIONS)  # without holders that other tests have killed
        for each in self.json_of("--ttl", "10m", "doctor"):  # with a short one a slow write is a danger
            self.assertEqual(set(each), {"topic", "text", "is_danger", "wants_care"})
            self.assertIs(each["is_danger"], False, each)
            findings.setdefault(each["topic"], []).append(each["text"])
        for topic, text in {"reach": "mongodb|127.0.0.1", "server": "6.0.5", "members": "PRIMARY.*SECONDARY",
                            "notices": "bells: waiters are told at once", "write concern": "majority",
                            "latency": "ms", "clock": "ms"}.items():
            self.assertIn(topic, findings)
            self.assertRegex(" ".join(findings[topic]), text)
        told = self.run_to_end("doctor")
        has_danger = any(line.startswith("DANGER") for line in told.lines)
        self.assertEqual(told.ended_with, int(has_danger), told)
        for member in self.rs.members:
            self.assertIn(member.host, "\n".join(told.lines))


class Break(OnASet):
    def test_a_holder_is_told_and_the_next_one_has_it(self):
        holder = self.holder("--ttl=6000")
        waiter = self.waiter()
        asked = boot_ns()
        breaker = self.start("break", self.name, "--reason", "it must \"end\"")
        told = holder.wait("told", 10)
        # R9: the next beat's answer brings it, which is due within a third of the ttl
        self.assertLess(idle_seconds(asked, told["at"]), 2 + 0.75)
        self.assertIn("it must \"end\"", told["text"])
        answer = holder.ask("check", "check")
        self.assertEqual(answer["code"], "HF_LOST", answer)
        holder.send("release")  # and closes it: the holder leaves when its work has stopped
        had = waiter.wait("acquired", 10)
        self.assertGreater(had["at"], told["at"])
        self.assertGreater(had["token"], holder.token)
        self.assertEqual(breaker.status(10), 0, breaker)
        # it left by itself: nobody waited the whole ttl
        self.assertLess(idle_seconds(asked), 5, breaker)

    def test_a_holder_that_does_not_leave(self):
        holder = self.holder("--ttl=6000")
        waiter = self.waiter()
        sessions = self.mongo.holdfast.holdfast.sessions
        beaten = before_a_beat(lambda: sessions.find_one({"pid": holder.pid})["beat"])
        began = boot_ns()
        breaker = self.run_to_end("break", self.name, "--reason", "why")
        took, took_idle = seconds_since(beaten), idle_seconds(began)
        self.assertEqual(breaker.ended_with, 0, breaker)
        # its client takes it out at the end of the lease that ran before the ask; beats are sent
        # each third of a ttl, so that lease ends 4 to 6 s after the ask; a look each 0.1 s
        self.assertGreater(took, 6 - 0.1)
        self.assertLess(took_idle, 6 + 1)
        self.assertGreater(waiter.wait("acquired", 5)["token"], holder.token)
        self.assertEqual(holder.ask("release", "release")["code"], "HF_LOST")
        self.assertEqual(waiter.ask("check", "check")["code"], "HF_OK")

    def test_run_stops_its_command(self):
        run = self.start("--ttl", "15s", "run", self.name, "--", "bash", "-c", "echo child; read x")
        run.line("child", 10)
        began = boot_ns()
        breaker = self.run_to_end("break", self.name, "--reason", "enough")
        self.assertEqual(breaker.ended_with, 0, breaker)
        self.assertEqual(run.status(5), LOST, run)
        self.assertRegex(run.errors, "lost the lock .*enough")
        self.assertLess(idle_seconds(began), 10, "told within a ttl / 3, it left at once")

    def test_force(self):
        holder = self.holder("--ttl=10000")
        began = boot_ns()
        breaker = self.run_to_end("break", self.name, "--force", "--reason", "why")
        self.assertEqual(breaker.ended_with, 0, breaker)
        self.assertLess(idle_seconds(began), 3, "at once: a ttl is 10 s")
        self.assertRegex(breaker.errors, "(?i)force.*only the fencing token protects")
        after = self.holder()
        self.assertGreater(after.token, holder.token)
        holder.wait("told", 10)

    def test_a_token_that_is_not_the_holders(self):
        holder = self.holder()
        breaker = self.run_to_end("break", self.name, "--if-token", str(holder.token - 1),
                                  "--reason", "why")
        self.assertEqual(breaker.ended_with, VALUE, breaker)
        self.assertRegex(breaker.errors, str(holder.token))
        self.assertEqual(holder.ask("check", "check")["code"], "HF_OK")

    def test_nobody(self):
        self.assertEqual(self.run_to_end("break", "nobody's", "--reason", "why").ended_with, VALUE)

    def test_interrupted_the_ask_stays(self):
        holder = self.holder("--ttl=6000")
        waiter = self.waiter()
        breaker = self.start("break", self.name, "--reason", "why")
        session = self.mongo.holdfast.holdfast.sessions
        until(lambda: session.find_one({"pid": holder.pid, "asked.0": {"$exists": True}}), 5,
              "the ask")
        breaker.signal(signal.SIGINT)
        self.assertEqual(breaker.status(10), 128 + signal.SIGINT, breaker)
        self.assertIn("still asked", breaker.errors)
        holder.wait("told", 5)
        # R9: any waiter that has watched the ask for a ttl takes the ticket out
        had = waiter.wait("acquired", 10)
        self.assertGreater(had["token"], holder.token)


if __name__ == "__main__":
    unittest.main(verbosity=2)
