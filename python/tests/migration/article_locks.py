"""Locks as article 003 has them: an insert is the lock, a thread moves `updated` on every 10 s, only its
acquirer deletes it; a TTL index removes what a crash has left."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import datetime
import threading
import time
import uuid

import pymongo
import pymongo.errors


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class ArticleLocks:
    def __init__(self, uri):
        self.locks = pymongo.MongoClient(uri).get_default_database().locks
        self.locks.create_index("updated", expireAfterSeconds=600)
        self.me = str(uuid.uuid4())
        threading.Thread(target=self.heartbeat, daemon=True).start()

    def heartbeat(self):
        while True:
            time.sleep(10)
            self.locks.update_many({"acquirer": self.me}, {"$set": {"updated": now()}})

    def try_to_lock(self, name):
        try:
            self.locks.insert_one({"_id": name, "acquirer": self.me, "updated": now()})
        except pymongo.errors.DuplicateKeyError:
            return False
        return True

    @contextlib.contextmanager
    def hold(self, name):
        while not self.try_to_lock(name):
            time.sleep(0.01)
        try:
            yield
        finally:
            self.locks.delete_one({"_id": name, "acquirer": self.me})
