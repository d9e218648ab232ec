# What docs/operations.md says about privileges: a user who has these and no others can do what it
# says, on a real server with authentication. SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

import pymongo

from limits import BUSY
from mongod import ReplicaSet, until

BIN = os.environ["HOLDFAST_BIN"]
DATABASE = "app"
PATIENCE = 60 * BUSY
READ = ["find"]
WRITE = ["find", "insert", "update", "remove"]


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

    # ---- queue ----

    def test_queue(self):
        store = self.user(("", WRITE + ["changeStream", "createCollection", "convertToCapped", "createIndex"]))
        self.assert_it_works(store)
        self.assertIn("bells", self.check(0, store, "doctor").stdout)

    def test_queue_without_bells(self):
        """No right on other collections than the two: it falls back to change streams."""
        self.assert_it_works(self.user(("locks", WRITE + ["changeStream", "createIndex"]),
                                       ("sessions", WRITE + ["createIndex"])))

    def test_queue_without_notices(self):
        """Nor on streams: it looks. Nor on indexes: it says who is to make them."""
        self.assert_it_works(self.user(("locks", WRITE), ("sessions", WRITE)), "createIndex|^$")

    def test_who_may_only_read(self):
        self.assert_it_works(self.user(("", WRITE)), "createIndex|^$")
        reader = self.user(("locks", READ), ("sessions", READ))
        self.assert_it_reads(reader)
        done = self.run_command(reader, "run", "x", "--", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("readWrite", done.stderr)

    def test_the_history(self):
        """With these rights it is kept; who may only read it, reads; without them, locks work."""
        rights = ("", WRITE), ("locks.history", ["find", "insert", "createCollection", "convertToCapped",
                                              "createIndex"])
        self.assert_it_works(self.user(*rights), "createIndex|^$")
        reader = self.user(("locks", READ), ("sessions", READ), ("locks.history", READ))
        self.assertIn("released", self.check(0, reader, "history", "x").stdout)
        without = self.user(("locks", WRITE), ("sessions", WRITE))
        self.assert_it_works(without, "createIndex|^$")
        self.assertIn("convertToCapped and createIndex on locks.history", self.check(0, without, "doctor").stdout)
        self.assertEqual(self.run_command(without, "history", "x").returncode, 69)

    # ---- The others ----

    def test_ttl(self):
        self.assert_it_works(self.user(
            ("jobs", WRITE + ["changeStream", "listIndexes", "createIndex"]),
            options="&hfProtocol=ttl&hfCollection=jobs"))

    def test_document(self):
        orders = self.root[DATABASE].get_collection("orders")
        orders.insert_one({"_id": "x"})
        self.assert_it_works(self.user(("orders", ["find", "update", "changeStream"]),
                                       options="&hfProtocol=document&hfCollection=orders"))

    def test_sharding(self):
        self.assert_it_works(self.user(
            ("locks2", WRITE + ["changeStream", "createIndex"]),
            ("lockpings", WRITE + ["createIndex"]), cluster=["serverStatus"],
            options="&hfProtocol=sharding&hfCollection=locks2"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
