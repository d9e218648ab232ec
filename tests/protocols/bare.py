#!/usr/bin/python3
# A program that is not ours, after the first version in article 000: a document of an _id and
# nothing else is the lock, which the index on _id makes exclusive; deleting it is the release. Counts
# up the number in a file until another file is there: bare.py URI DATABASE COLLECTION NAME COUNTER END
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import time

import pymongo
import pymongo.errors

from counter import count_up

uri, database, collection, name, counter, end = sys.argv[1:7]
locks = pymongo.MongoClient(uri)[database].get_collection(
    collection, write_concern=pymongo.WriteConcern("majority"))


def lock():
    try:
        locks.insert_one({"_id": name})
    except pymongo.errors.DuplicateKeyError:
        return False
    return True


print("ready", flush=True)
while not os.path.exists(end):
    if lock():
        print("turn", count_up(counter), flush=True)
        locks.delete_one({"_id": name})
    time.sleep(0.01)
