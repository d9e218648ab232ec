# What docs/operations.md says about privileges: a user who has these and no others can do what it
# says, on a real server with authentication. SPDX-License-Identifier: Apache-2.0
import collections
import json
import os
import subprocess
import tempfile
import time
import unittest
import urllib.request

import bson
import pymongo

from guardian import kill_host
from idle import boot_ns, idle_seconds
from limits import BUSY
from mongod import ReplicaSet, until

BIN = os.environ["HOLDFAST_BIN"]
DATABASE = "app"
PATIENCE = 60 * BUSY
READ = ["find"]
WRITE = ["find", "insert", "update", "remove"]
KEEP = ["find", "insert", "createCollection", "convertToCapped", "createIndex"]  # a history

# What each protocol needs: the collection of its locks, what the names beside it begin with, rights on collections and on the cluster, and keys
# of the URI. That of queue is the least with which it works.
Needs = collections.namedtuple("Needs", "locks first grants cluster options")
QUEUE = Needs("holdfast.locks", "holdfast", [("holdfast.locks", WRITE), ("holdfast.sessions", WRITE)], [], "")
TTL = Needs("jobs", "jobs", [("jobs", WRITE + ["changeStream", "listIndexes", "createIndex"])], [],
            "&hfProtocol=ttl&hfCollection=jobs")
DOCUMENT = Needs("orders", "orders", [("orders", ["find", "update", "changeStream"])], [],
                 "&hfProtocol=document&hfCollection=orders")
SHARDING = Needs("locks2", "locks2", [("locks2", WRITE + ["changeStream", "createIndex"]),
                            ("lockpings", WRITE + ["createIndex"])], ["serverStatus"],
                 "&hfProtocol=sharding&hfCollection=locks2")
UNINDEXED = "createIndex|^$"  # a user that may make no index is told who is to


class Guarded(ReplicaSet):
    """A set of one that wants a user and a password; root may do everything."""

    def __init__(self):
        self.key = tempfile.NamedTemporaryFile(prefix="holdfast-key-")
        self.key.write(b"for tests only")
        self.key.flush()
        os.chmod(self.key.name, 0o600)
        super().__init__(members=1, args=["--auth", "--keyFile", self.key.name])

    def _initiate(self):
        member = self.members[0]
        member.admin("replSetInitiate", {"_id": self.name,
                                         "members": [{"_id": 0, "host": member.host}]})
        self.wait_primary()
        until(lambda: self.makes_root(member), 30, "the first user")

    @staticmethod
    def makes_root(member):
        try:
            return member.admin("createUser", "root", pwd="r00t", roles=["root"])
        except pymongo.errors.PyMongoError:
            return None

    def uri_of(self, user, options=""):
        return "mongodb://%s@%s/%s?authSource=admin&replicaSet=%s%s" % (
            user, self.members[0].host, DATABASE, self.name, options)


class Privileges(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.set = Guarded()
        cls.addClassCleanup(cls.set.key.close)
        cls.addClassCleanup(cls.set.stop)
        cls.set.start()
        cls.root = pymongo.MongoClient(cls.set.uri_of("root:r00t"))
        cls.addClassCleanup(cls.root.close)
        cls.users = 0

    def setUp(self):
        """What another test left behind, as a lease that is overdue, is none of this one's."""
        database = self.root[DATABASE]
        for name in ("holdfast.sessions", "holdfast.locks", "lockpings", "orders"):
            database[name].delete_many({})
        database.orders.insert_many({"_id": name} for name in "xy")

    def user(self, *grants, options="", cluster=()):
        """The URI of a new user with these privileges: (collection, actions)."""
        name = "user%d" % Privileges.users
        Privileges.users += 1
        privileges = [{"resource": {"db": DATABASE, "collection": collection}, "actions": actions}
                      for collection, actions in grants]
        privileges += [{"resource": {"cluster": True}, "actions": [each]} for each in cluster]
        self.root.admin.command("createRole", name, privileges=privileges, roles=[])
        self.root.admin.command("createUser", name, pwd="s3cret", roles=[name])
        return self.set.uri_of(name + ":s3cret", options)

    def user_of(self, protocol, *more):
        """The URI of a new user with what the protocol needs, and more."""
        return self.user(*protocol.grants, *more, options=protocol.options, cluster=protocol.cluster)

    def run_command(self, store, *words):
        return subprocess.run([BIN, *words], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=PATIENCE, env=self.env_of(store))

    @staticmethod
    def env_of(store):
        return dict(os.environ, HOLDFAST_STORE=store)

    def check(self, status, store, *words):
        done = self.run_command(store, *words)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        return done

    def start(self, store, *words):
        process = subprocess.Popen([BIN, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.env_of(store))
        for pipe in process.stdin, process.stdout, process.stderr:
            self.addCleanup(pipe.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def assert_it_works(self, store, warning="^$"):
        """Taken, waited for, and taken after that, with no other complaint than this."""
        holder = self.start(store, "run", "x", "--", "sh", "-c", "echo held; exec cat")
        self.assertEqual(holder.stdout.readline(), "held\n", store)
        waiter = self.start(store, "run", "x", "--", "echo", "ran")
        holder.stdin.close()
        for process, text in (waiter, "ran\n"), (holder, ""):
            self.assertEqual((process.wait(PATIENCE), process.stdout.read()), (0, text))
            self.assertRegex(process.stderr.read(), warning)

    def assert_it_reads(self, store, *verbs):
        for verb in verbs or (["list"], ["show", "x"], ["sessions"], ["why", "x"]):
            self.check(0, store, *verb)

    def json(self, store, *words):
        return json.loads(self.check(0, store, *words, "--json").stdout)

    # ---- queue ----

    def test_queue(self):
        store = self.user(("", WRITE + ["changeStream", "createCollection", "convertToCapped", "createIndex"]))
        self.assert_it_works(store)
        self.assertIn("bells", self.check(0, store, "doctor").stdout)

    def test_queue_without_bells(self):
        """No right on other collections than the two: it falls back to change streams."""
        self.assert_it_works(self.user(("holdfast.locks", WRITE + ["changeStream", "createIndex"]),
                                       ("holdfast.sessions", WRITE + ["createIndex"])))

    def test_who_cannot_ring_is_not_waited_for(self):
        """Nobody tells the waiter, who listens to a bell: it looks by itself, every 3 s at the latest."""
        mute = self.user(("holdfast.locks", WRITE + ["changeStream", "createIndex"]),
                         ("holdfast.sessions", WRITE + ["createIndex"]))
        bells = self.user(("", WRITE + ["createCollection", "convertToCapped", "createIndex"]))
        holder = self.start(mute, "run", "mute", "--", "sh", "-c", "echo held; exec cat")
        self.assertEqual(holder.stdout.readline(), "held\n")
        waiter = self.start(bells, "run", "mute", "--", "echo", "ran")
        until(lambda: self.queue_of("mute"), PATIENCE, "the waiter")
        self.assertGreater(self.queue_of("mute")[0]["bell"], 0)
        holder.stdin.close()
        released = boot_ns()
        self.assertEqual(waiter.stdout.readline(), "ran\n")
        self.assertLess(idle_seconds(released, boot_ns()), 3 + 1)

    def test_a_forged_ring_is_found_out(self):
        """By one who may read the locks, and write to the bells only, also if it tells of a block of tokens: before
        the next beat, which is due after 5 s."""
        forger = self.user(("holdfast.locks", READ), *(("holdfast.bells.%d" % n, ["insert"]) for n in range(1, 65)))
        everybody = self.user(("", WRITE + ["changeStream", "createCollection", "convertToCapped", "createIndex"]))
        holder = self.start(everybody, "run", "forged", "--", "sh", "-c", "echo held; exec cat")
        self.assertEqual(holder.stdout.readline(), "held\n")
        waiter = self.start(everybody, "run", "forged", "--", "sh", "-c", "echo ran; exec sleep 100")
        until(lambda: self.queue_of("forged"), PATIENCE, "the waiter")
        with pymongo.MongoClient(forger) as client:
            bells = client[DATABASE]
            head = bells.holdfast.locks.find_one({"_id": "forged"})["queue"][0]
            until(lambda: self.root[DATABASE].holdfast.bells[str(head["bell"])].find_one(), PATIENCE, "its bell")
            says = "%s:%s:%d:1000" % (head["session"], head["ticket"], 77)
            bells.holdfast.bells[str(head["bell"])].insert_one(
                {"session": head["session"], "lock": "forged", "notify": says,
                 "stamp": bson.Timestamp(int(time.time()) - 1, 1)})
        self.assertEqual(waiter.stdout.readline(), "ran\n")
        began = boot_ns()
        self.assertEqual(waiter.wait(PATIENCE), 76)
        self.assertLess(idle_seconds(began, boot_ns()), 4)
        holder.stdin.close()
        self.assertEqual(holder.wait(PATIENCE), 0)

    def queue_of(self, name):
        return (self.root[DATABASE].holdfast.locks.find_one({"_id": name}) or {}).get("queue")

    def test_queue_without_notices(self):
        """Nor on streams: it looks. Nor on indexes: it says who is to make them."""
        self.assert_it_works(self.user_of(QUEUE), UNINDEXED)

    def test_who_may_only_read(self):
        self.assert_it_works(self.user(("", WRITE)), UNINDEXED)
        reader = self.user(("holdfast.locks", READ), ("holdfast.sessions", READ))
        self.assert_it_reads(reader)
        done = self.run_command(reader, "run", "x", "--", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("readWrite", done.stderr)
        self.assertRegex(self.check(0, reader, "doctor").stdout,
                         r"(?m)^LOOK +write concern +not checked: this user may not write")

    def test_who_may_only_read_follows(self):
        holder = self.start(self.user_of(QUEUE), "elect", "followed", "--", "sh", "-c", "echo leads; exec cat")
        self.assertEqual(holder.stdout.readline(), "leads\n")
        reader = self.user(("holdfast.locks", READ), ("holdfast.sessions", READ))
        watcher = self.start(reader, "watch", "--json", "followed")
        self.assertEqual(json.loads(watcher.stdout.readline())["event"], "grant")
        self.assertIn("/sh@", self.start(reader, "elect", "--print", "followed").stdout.readline())

    # ---- The others ----

    def test_ttl(self):
        self.assert_it_works(self.user_of(TTL))

    def test_document(self):
        self.assert_it_works(self.user_of(DOCUMENT))

    def test_sharding(self):
        self.assert_it_works(self.user_of(SHARDING))

    def test_what_the_doctor_finds_is_shown_to_who_may_not_list(self):
        done = self.check(69, self.user(("holdfast.sessions", READ)), "doctor")
        self.assertIn("reach", done.stdout)
        self.assertIn("listing locks failed", done.stderr)

    def test_who_may_not_ask_for_the_clock_of_sharding(self):
        for cluster, is_told in ((SHARDING.cluster, False), ([], True)):
            user = self.user_of(SHARDING._replace(cluster=cluster))
            self.assertEqual("serverStatus" in self.check(0, user, "doctor").stdout, is_told)

    def test_the_indexes_of_sharding(self):
        """Who may not make them is told which are missing, if he may not see that none is."""
        locks, pings = self.root[DATABASE].locks2, self.root[DATABASE].lockpings
        all_of_them = "(?s)locks2.*ts: 1.*locks2.*state: 1.*lockpings.*ping: 1"
        kept = SHARDING._replace(grants=[(each.name, WRITE + ["changeStream"]) for each in (locks, pings)])
        seeing = [(each.name, ["listIndexes"]) for each in (locks, pings)]
        for each in locks, pings:
            each.drop()
        for user, said in ((self.user_of(kept), all_of_them), (self.user_of(kept, *seeing), all_of_them),
                           (self.user_of(SHARDING), "^$"), (self.user_of(kept), all_of_them),
                           (self.user_of(kept, *seeing), "^$")):
            locks.delete_many({})  # who makes a lock's document makes the indexes
            self.check_warning(user, said)

    def check_warning(self, store, said):
        self.assertRegex(self.check(0, store, "run", "x", "--", "true").stderr, said)

    # ---- All of them ----

    def check_history(self, protocol):
        """With these rights it is kept, also without createIndex; who may only read it, reads; without them,
        locks work."""
        self.root[DATABASE].drop_collection(protocol.first + ".history")
        right = "%s.history" % protocol.first, KEEP
        self.assert_it_works(self.user_of(protocol, right), UNINDEXED)
        reader = self.user((protocol.locks, READ), (right[0], READ), options=protocol.options)
        self.assertEqual([turn["end"] for turn in self.json(reader, "history", "x")["turns"]], ["released"] * 2)
        self.root[DATABASE].drop_collection(right[0])
        unindexed = self.user_of(protocol, (right[0], [each for each in KEEP if each != "createIndex"]))
        self.assert_it_works(unindexed, UNINDEXED)
        self.assertEqual(len(self.json(unindexed, "history", "x")["turns"]), 2)
        self.root[DATABASE].drop_collection(right[0])
        self.assertIn("keeps none", self.check(0, self.user_of(protocol, (right[0], READ)), "doctor").stdout)
        without = self.user_of(protocol)
        self.assert_it_works(without, UNINDEXED)
        self.assertIn("createIndex on %s.history" % protocol.first, self.check(0, without, "doctor").stdout)
        self.assertEqual(self.run_command(without, "history", "x").returncode, 69)

    def test_the_history_of_queue(self):
        self.check_history(QUEUE)

    def test_the_history_of_ttl(self):
        self.check_history(TTL)

    def test_the_history_of_document(self):
        self.check_history(DOCUMENT)

    def test_the_history_of_sharding(self):
        self.check_history(SHARDING)

    def check_done(self, protocol):
        """Who may write beside the locks knows how the last holder left, and runs once per period."""
        once = ["run", "--once-per", "87600h", "--skip-code", "9", "y", "--", "sh", "-c", "exit 0"]
        self.assertNotIn(self.run_command(self.user_of(protocol), *once).returncode, (0, 9))
        store = self.user_of(protocol, (protocol.first + ".done", WRITE))
        done = self.check(0, store, *once)
        self.assertRegex(done.stderr, UNINDEXED)
        self.check(9, store, *once)
        last = self.json(store, "show", "y")["last"]
        self.assertEqual((last["outcome"], last["exit_status"]), ("released", 0))

    def test_what_is_done_beside_ttl(self):
        self.check_done(TTL)

    def test_what_is_done_beside_documents(self):
        self.check_done(DOCUMENT)

    def test_what_is_done_beside_sharding(self):
        self.check_done(SHARDING)

    # ---- Each verb with what `run` needs ----

    def check_leases(self, protocol):
        store = self.user_of(protocol)
        lease = self.json(store, "acquire", "x")["lease"]
        self.check(0, store, "renew", lease)
        self.check(0, store, "release", lease)

    def check_election(self, protocol):
        done = self.check(0, self.user_of(protocol), "elect", "x", "--", "echo", "leads")
        self.assertEqual(done.stdout, "leads\n")

    def check_break(self, protocol):
        """The holder lives on where it cannot be asked; its end is another test's."""
        store = self.user_of(protocol)
        holder = self.start(store, "run", "x", "--", "sh", "-c", "echo held; exec cat")
        self.assertEqual(holder.stdout.readline(), "held\n")
        how = [] if protocol is QUEUE else ["--force"]
        self.check(0, store, "break", "x", *how, "--reason", "for a test")
        self.assertEqual([lock for lock in self.json(store, "list") if lock["name"] == "x"], [])
        holder.stdin.close()
        holder.wait(PATIENCE)

    def check_service(self, protocol):
        service = self.start(self.user_of(protocol), "serve", "--listen", "127.0.0.1:0")
        url = service.stdout.readline().split()[-1]

        def ask(method, path, body=None):
            head = {"Content-Type": "application/json"}
            with urllib.request.urlopen(urllib.request.Request(url + path, body, head, method=method),
                                        timeout=PATIENCE) as answer:
                return answer.read().decode()
        lease = json.loads(ask("POST", "/v1/locks/x", b"{}"))["lease"]
        ask("PUT", "/v1/leases/" + lease)
        [lock] = json.loads(ask("GET", "/v1/locks?in_use=1"))["locks"]
        self.assertEqual(lock["name"], "x")
        for path in ("/v1/locks/x", "/v1/why/x", "/v1/sessions", "/metrics", "/readyz"):
            ask("GET", path)
        ask("DELETE", "/v1/leases/" + lease)
        service.terminate()
        self.assertEqual(service.wait(PATIENCE), 0)

    def check_verbs(self, protocol):
        self.check_election(protocol)
        self.check_leases(protocol)
        self.check_break(protocol)
        self.check_service(protocol)
        doctor = self.check(0, self.user_of(protocol), "--ttl", "2m", "doctor")  # with it, a slow write is none
        self.assertNotIn("DANGER", doctor.stdout)

    def test_the_verbs_with_queue(self):
        self.check_verbs(QUEUE)

    def test_the_verbs_with_ttl(self):
        self.check_verbs(TTL)

    def test_the_verbs_with_document(self):
        self.check_verbs(DOCUMENT)

    def test_the_verbs_with_sharding(self):
        self.check_verbs(SHARDING)

    def test_unlock_all(self):
        store = self.user_of(SHARDING) + "&hfProcess=nightly"
        holder = self.start(store, "run", "x", "--", "sh", "-c", "echo held; exec cat")
        self.assertEqual(holder.stdout.readline(), "held\n")
        kill_host(holder)
        holder.wait()
        self.assertEqual(self.json(store, "unlock-all", "nightly"), {"process": "nightly", "unlocked": 1})

    def test_bench(self):
        """What it makes in the same database is gone after it; what it may not do, it says."""
        rights = WRITE + ["createCollection", "convertToCapped", "dropCollection"]
        rows = self.json(self.user(("", rights)), "bench", "--runs", "1", "--only", "threads,work,protocols")
        self.assertEqual({row["part"] for row in rows if "note" in row}, {"work", "protocols", "notices"})
        self.assertIn("waiters are told at once", " ".join(row.get("note", "") for row in rows))
        for name in self.root[DATABASE].list_collection_names(filter={"name": {"$regex": "bells"}}):
            self.root[DATABASE][name].drop()
        without = self.user(("", [right for right in rights if right != "convertToCapped"]))
        lines = self.check(0, without, "bench", "--runs", "1", "--only", "threads").stdout
        self.assertIn("without bells", lines)
        for lacking in ("dropCollection", "insert"):
            without = self.user(("", [right for right in rights if right != lacking]))
            refused = self.run_command(without, "bench", "--json", "--runs", "1", "--only", "pairs")
            self.assertEqual((refused.returncode, refused.stdout), (69, ""))
            self.assertIn("dropCollection on all collections", refused.stderr)
        self.assertEqual([name for name in self.root[DATABASE].list_collection_names() if "bench" in name], [])
        self.assertIn("clusterMonitor", " ".join(row.get("note", "") for row in rows))
        self.assertEqual([name for name in self.root[DATABASE].list_collection_names() if "bench" in name], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
