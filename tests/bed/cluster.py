# A config server and one shard of a real sharded cluster, for the tests of protocol `sharding`:
# MongoDB takes locks of its own there. No router: what it would send is sent to the servers.
# SPDX-License-Identifier: Apache-2.0
"""
    with Cluster() as cluster:
        cluster.create_database("app")
        cluster.hold("app")              # as another manager would
        drop = cluster.drop_database("app")
        drop.is_waiting(1)               # for the lock "app", in config.locks
        cluster.free("app")
        drop.end(10)                     # how many seconds it took; raises what the server said

Start clusters from the main thread (see mongod.py).
"""
import contextlib
import datetime
import threading
import time

import bson
import pymongo

from idle import idle_seconds
from limits import BUSY
from mongod import ReplicaSet, until

MAJORITY = {"w": "majority"}
FREE, HELD = 0, 2


def boot_seconds():
    """The clock of contest.boot_ns()."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Ddl(threading.Thread):
    """A command of MongoDB's that may have to wait for a lock."""

    def __init__(self, database, *words, **fields):
        super().__init__(daemon=True)
        self.database, self.words, self.fields = database, words, fields
        self.failure = None
        self.began = boot_seconds()
        self.start()

    def run(self):
        while self.is_given_up():
            pass
        self.ended = boot_seconds()

    def is_given_up(self):
        """One round. A call to the config server runs out of time when the clock there is moved, and
        the shard gives the command up: it may come again."""
        try:
            self.database.command(*self.words, codec_options=self.database.codec_options,
                                  writeConcern=MAJORITY, **self.fields)
        except pymongo.errors.ExecutionTimeout:
            return True
        except pymongo.errors.PyMongoError as error:
            self.failure = error
        return False

    def is_waiting(self, seconds):
        """It does not end within these seconds."""
        self.join(seconds)
        return self.is_alive()

    def idle_seconds_since(self, boot_second):
        """From then until it ended; see idle.py."""
        return idle_seconds(int(boot_second * 1e9), int(self.ended * 1e9))

    def end(self, timeout):
        timeout *= BUSY
        self.join(timeout)
        if self.is_alive():
            raise TimeoutError("waited %g s for the end of %s %s" % (
                timeout, self.database.name, self.words))
        if self.failure:
            raise self.failure
        return self.ended - self.began


class Cluster:
    """skew: the config server's clock is so far ahead, and can be moved (see Member.set_skew)."""

    def __init__(self, skew=None):
        self.config = ReplicaSet(1, name="config", role="configsvr", election_ms=2000,
                                 skew=None if skew is None else {0: skew})
        self.shard = ReplicaSet(1, name="shard", role="shardsvr")
        self.clients = []

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.config.start()
        self.shard.start()
        host = "%s/%s" % (self.shard.name, self.shard.members[0].host)
        self.config.wait_primary().admin("_configsvrAddShard", host, writeConcern=MAJORITY)
        # a database's version has a UUID in it, which must come back as it was
        self.clients = [rs.client(uuidRepresentation="standard")
                        for rs in (self.config, self.shard)]
        self.on_config, self.on_shard = self.clients
        config = self.on_config.get_database("config",
                                             write_concern=pymongo.WriteConcern("majority"))
        self.locks, self.pings, self.databases = config.locks, config.lockpings, config.databases
        until(lambda: self.ping(self.shard.name), 60, "the shard's first ping")
        return self

    def stop(self):
        for client in self.clients:
            client.close()
        self.shard.stop()
        self.config.stop()

    def uri(self, options=""):
        """For Holdfast: MongoDB's own locks, with more options: "hfPollMS=100"."""
        return self.config.uri_for("config", "&".join(
            each for each in ("hfProtocol=sharding", options) if each))

    # What MongoDB does

    def create_database(self, name):
        self.on_config.admin.command("_configsvrCreateDatabase", name,
                                     primaryShardId=self.shard.name, writeConcern=MAJORITY)

    def version(self, name):
        return self.databases.find_one({"_id": name})["version"]

    def drop_database(self, name):
        """Takes the lock of the database's name, for as long as it runs."""
        return Ddl(self.on_shard[name], "_shardsvrDropDatabase", 1,
                   databaseVersion=self.version(name))

    def drop_collection(self, database, name):
        """Takes the lock of the database's name, then that of "database.name"."""
        return Ddl(self.on_shard[database], "_shardsvrDropCollection", name,
                   databaseVersion=self.version(database))

    def drops_hang(self):
        """Drops hang, with their lock held, until the end of `with`."""
        return self.fail_point("hangBeforeRunningCoordinatorInstance")

    def drops_give_up_after(self, ms):
        """Drops wait no longer for a lock, instead of 5 minutes, until the end of `with`."""
        return self.fail_point("overrideDDLLockTimeout", timeoutMillisecs=ms)

    @contextlib.contextmanager
    def fail_point(self, name, **data):
        shard = self.shard.members[0]
        shard.admin("configureFailPoint", name, mode="alwaysOn", data=data)
        try:
            yield
        finally:
            shard.admin("configureFailPoint", name, mode="off")

    # What stands there

    def lock(self, name):
        return self.locks.find_one({"_id": name})

    def is_held_by(self, name, process):
        """As a majority has it, which is what Holdfast reads."""
        concern = pymongo.read_concern.ReadConcern("majority")
        lock = self.locks.with_options(read_concern=concern).find_one({"_id": name})
        return lock and lock["state"] == HELD and lock["process"] == process and lock

    def wait_held_by(self, name, process, timeout=10):
        return until(lambda: self.is_held_by(name, process), timeout,
                     "%s to hold %r" % (process, name))

    def ping(self, process):
        found = self.pings.find_one({"_id": process})
        return found and found["ping"]

    # As another manager would

    def hold(self, name, process="elsewhere:27017:1350047994:16807", why="by hand"):
        self.locks.find_one_and_update(
            {"_id": name, "state": FREE},
            {"$set": {"ts": bson.ObjectId(), "state": HELD, "who": process + ":main",
                      "process": process, "when": datetime.datetime.utcnow(), "why": why}},
            upsert=True)

    def free(self, name):
        self.locks.update_one({"_id": name}, {"$set": {"state": FREE}})

    def send_ping(self, process):
        self.pings.find_one_and_update({"_id": process},
                                       {"$set": {"ping": datetime.datetime.utcnow()}}, upsert=True)
