#!/usr/bin/python3
"""A program that locks elements of arrays as the library behind an article does: takes turns at one
element, over a counter in a file that nothing else protects. No Holdfast in here.

    element_article.py URI DATABASE COLLECTION ID KEY SECONDS FILE STALE_SECONDS
"""
# SPDX-License-Identifier: Apache-2.0
import datetime
import sys
import time

import bson
import pymongo

from document_article import POLL, raise_counter


class ElementLock:
    """Of lines.[id=KEY] in the document with this _id."""

    def __init__(self, collection, document, key, stale):
        self.collection = collection.with_options(write_concern=pymongo.WriteConcern("majority"))
        self.document, self.key = document, key
        self.stale = datetime.timedelta(seconds=stale)
        self.mine = None

    def change(self, which, values):
        """Changes the element if it fits; whether it did."""
        result = self.collection.update_one(
            {"_id": self.document, "lines": {"$elemMatch": {"id": self.key, **which}}},
            {"$set": {"lines.$[line]." + name: value for name, value in values.items()}},
            array_filters=[{"line.id": self.key}])
        return result.matched_count == 1

    def acquire(self):
        now, mine = datetime.datetime.utcnow(), bson.ObjectId()
        free = {"lockId": None, "lockTs": None}
        old = {"lockId": {"$ne": None}, "lockTs": {"$lte": now - self.stale}}
        taken = self.change({"$or": [free, old]}, {"lockId": mine, "lockTs": now})
        self.mine = mine if taken else None
        return taken

    def refresh(self):
        now = datetime.datetime.utcnow()
        return self.change({"lockId": self.mine}, {"lockTs": now})

    def release(self):
        return self.change({"lockId": self.mine}, {"lockId": None, "lockTs": None})


def main(uri, database, collection, document, key, seconds, path, stale):
    lock = ElementLock(pymongo.MongoClient(uri)[database][collection], document, int(key),
                       float(stale))
    end, turns = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        if not lock.acquire():
            time.sleep(POLL)
            continue
        time.sleep(0.002)
        if not lock.refresh():
            sys.exit("lost it between two calls")
        raise_counter(path)
        if not lock.release():
            sys.exit("lost it while working")
        turns += 1
    print(turns)


if __name__ == "__main__":
    main(*sys.argv[1:])
