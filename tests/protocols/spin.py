#!/usr/bin/python3
# A program that is not ours, after article 000: an upsert that only sets on insert, tried every 100
# ms for at most 10 s; a lease in ExpireAt. Counts up the number in a file until another file is
# there: spin.py URI DATABASE COLLECTION NAME COUNTER END [LEASE_SECONDS]
# SPDX-License-Identifier: Apache-2.0
import datetime
import os
import sys
import time

import pymongo
import pymongo.errors

from counter import count_up

uri, database, collection, name, counter, end = sys.argv[1:7]
lease = datetime.timedelta(seconds=float(sys.argv[7]) if len(sys.argv) > 7 else 60)
locks = pymongo.MongoClient(uri)[database][collection]
locks.create_index("ExpireAt", expireAfterSeconds=0)


def attempt():
    until = datetime.datetime.now(datetime.timezone.utc) + lease
    try:
        before = locks.find_one_and_update({"_id": name}, {"$setOnInsert": {"ExpireAt": until}},
                                           upsert=True)
    except pymongo.errors.DuplicateKeyError:
        return False
    return before is None


def acquire():
    give_up = time.monotonic() + 10
    while not attempt():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)
    return True


print("ready", flush=True)
while not os.path.exists(end):
    if acquire():
        print("turn", count_up(counter), flush=True)
        locks.delete_one({"_id": name})
