#!/usr/bin/python3
# A program that is not ours, after article 003: an insert is the lock, a thread moves `updated` on
# every 10 s, only its acquirer deletes it. Counts up the number in a file until another file is
# there: insert.py URI DATABASE COLLECTION NAME COUNTER END [ACQUIRER_FIELD [EXPIRE_AFTER_SECONDS]]
# SPDX-License-Identifier: Apache-2.0
import datetime
import os
import sys
import threading
import time
import uuid

import pymongo
import pymongo.errors

from counter import count_up

uri, database, collection, name, counter, end = sys.argv[1:7]
field = sys.argv[7] if len(sys.argv) > 7 else "acquirer"
expire_after = int(sys.argv[8]) if len(sys.argv) > 8 else 600
locks = pymongo.MongoClient(uri)[database][collection]
locks.create_index("updated", expireAfterSeconds=expire_after)
me = str(uuid.uuid4())


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def lock():
    try:
        locks.insert_one({"_id": name, field: me, "updated": now()})
    except pymongo.errors.DuplicateKeyError:
        return False
    return True


def heartbeat():
    while True:
        time.sleep(10)
        locks.update_many({field: me}, {"$set": {"updated": now()}})


threading.Thread(target=heartbeat, daemon=True).start()
print("ready", flush=True)
while not os.path.exists(end):
    if lock():
        print("turn", count_up(counter), flush=True)
        locks.delete_one({"_id": name, field: me})
    time.sleep(0.01)
