#!/usr/bin/python3
# A program that is not ours, after article 001: a plain lock manager: a ping each second, a grab
# every 100 ms for at most 10 s, an unlock by its ts. Counts up the number in a file until another
# file is there: manager.py URI DATABASE COLLECTION NAME COUNTER END
# SPDX-License-Identifier: Apache-2.0
import datetime
import os
import random
import socket
import sys
import threading
import time

import bson
import pymongo
import pymongo.errors

from counter import count_up

uri, database, collection, name, counter, end = sys.argv[1:7]
db = pymongo.MongoClient(uri).get_database(database, write_concern=pymongo.WriteConcern("majority"))
locks = db[collection]
process = "%s:%d:%d:%d" % (socket.gethostname(), os.getpid(), time.time(),
                           random.randrange(-1 << 63, 1 << 63))


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def ping():
    while True:
        try:
            db.lockpings.find_one_and_update({"_id": process}, {"$set": {"ping": now()}},
                                             upsert=True)
        except pymongo.errors.PyMongoError:
            pass
        time.sleep(1)


def grab(ts):
    try:
        return locks.find_one_and_update(
            {"_id": name, "state": 0},
            {"$set": {"ts": ts, "state": 2, "who": process + ":main", "process": process,
                      "when": now(), "why": "counting"}}, upsert=True,
            return_document=pymongo.ReturnDocument.AFTER) is not None
    except pymongo.errors.DuplicateKeyError:
        return False


def acquire():
    ts, give_up = bson.ObjectId(), time.monotonic() + 10
    while not grab(ts):
        if time.monotonic() > give_up:
            return None
        time.sleep(0.1)
    return ts


threading.Thread(target=ping, daemon=True).start()
print("ready", flush=True)
while not os.path.exists(end):
    ts = acquire()
    if ts:
        print("turn", count_up(counter), flush=True)
        locks.update_one({"ts": ts, "_id": name}, {"$set": {"state": 0}})
