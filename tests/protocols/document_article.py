#!/usr/bin/python3
"""A program as an article on locks inside documents describes it: takes turns at one document, over
a counter in a file that nothing else protects. No Holdfast in here.

    document_article.py URI DATABASE COLLECTION ID SECONDS FILE STALE_SECONDS
                        [LOCK_FIELD TIME_FIELD [objectId|uuid|uuidLegacy|string [expires]]]

With `expires` the time is ahead by a tenth of the stale time, as the library behind the article sets it,
and stale after the whole of it.
"""
# SPDX-License-Identifier: Apache-2.0
import datetime
import sys
import time
import uuid

import bson
import pymongo

POLL = 0.02


IDS = {
    "objectId": bson.ObjectId,
    "uuid": lambda: bson.Binary.from_uuid(uuid.uuid4()),
    "uuidLegacy": lambda: bson.Binary.from_uuid(
        uuid.uuid4(), bson.binary.UuidRepresentation.CSHARP_LEGACY),
    "string": lambda: str(uuid.uuid4()),
}


class DocumentLock:
    def __init__(self, collection, stale, lock="lockId", stamp="lockTs", type_of_id="objectId",
                 means="refreshed"):
        self.collection = collection.with_options(
            write_concern=pymongo.WriteConcern("majority"))
        self.stale = datetime.timedelta(seconds=stale)
        self.lock, self.stamp, self.new_id = lock, stamp, IDS[type_of_id]
        self.ahead = self.stale / 10 if means == "expires" else datetime.timedelta(0)

    def acquire(self, name):
        """The document, or None if another holds it."""
        now = datetime.datetime.utcnow()
        mine = self.new_id()
        free = {self.lock: None, self.stamp: None}
        old = {self.lock: {"$ne": None}, self.stamp: {"$lte": now - self.stale}}
        found = self.collection.find_one_and_update(
            {"_id": name, "$or": [free, old]},
            {"$set": {self.lock: mine, self.stamp: now + self.ahead}},
            return_document=pymongo.ReturnDocument.AFTER)
        self.mine = mine if found else None
        return found

    def refresh(self, name):
        """Whether it is still ours."""
        until = datetime.datetime.utcnow() + self.ahead
        result = self.collection.update_one({"_id": name, self.lock: self.mine},
                                            {"$set": {self.stamp: until}})
        return result.matched_count == 1

    def release(self, name):
        result = self.collection.update_one({"_id": name, self.lock: self.mine},
                                            {"$set": {self.lock: None, self.stamp: None}})
        return result.modified_count == 1


def raise_counter(path):
    with open(path) as stream:
        value = int(stream.read())
    time.sleep(0.002)
    with open(path, "w") as stream:
        stream.write(str(value + 1))


def main(uri, database, collection, name, seconds, path, stale, *fields):
    lock = DocumentLock(pymongo.MongoClient(uri)[database][collection], float(stale), *fields)
    end, turns = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        if not lock.acquire(name):
            time.sleep(POLL)
            continue
        if not lock.refresh(name):
            sys.exit("lost it between two calls")
        raise_counter(path)
        if not lock.release(name):
            sys.exit("lost it while working")
        turns += 1
    print(turns)


if __name__ == "__main__":
    main(*sys.argv[1:])
