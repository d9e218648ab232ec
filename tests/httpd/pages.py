#!/usr/bin/python3
"""How long a page of the locks takes among few locks and among very many, in turn: prints medians
with their ranges, and the ratio. Then lists all, for time and memory. Not a test:
[with-set.py --] pages.py [--few N] [--many N] [--turns N]; on the replica set of HOLDFAST_TEST_URI,
or on SQLite. Every twentieth lock is held; of those that begin with "x", half of all, none is."""
# SPDX-License-Identifier: Apache-2.0
import argparse
import http.client
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time

BIN = os.environ.get("HOLDFAST_BIN", "build/holdfast")
HELD, FREE = "held%05d" % 0, "free%05d" % 0  # as long as the names that are made of them
QUERIES = {"limit 50": "limit=50", "limit 50, with a prefix": "limit=50&prefix=n0000",
           "limit 50, in use": "limit=50&in_use=1",
           "limit 50, in use, and there is none": "limit=50&in_use=1&prefix=x"}


def name_of(i):
    return ("n%08d" if i % 2 else "x%08d") % i


def is_held(i):
    return i % 20 == 1


def fill_sqlite(path, n):
    with sqlite3.connect(path) as db:
        records = dict(db.execute("SELECT name, record FROM locks"))
        db.execute("DELETE FROM locks")
        for i in range(n):
            old = HELD if is_held(i) else FREE
            db.execute("INSERT INTO locks(name, record) VALUES(?, ?)",
                       (name_of(i), records[old].replace(old.encode(), name_of(i).encode())))


def fill_mongo(uri, database, n):
    import pymongo
    locks = pymongo.MongoClient(uri)[database]["locks"]
    records = {doc["_id"]: doc for doc in locks.find()}
    locks.delete_many({})
    for start in range(0, n, 10000):
        locks.insert_many([dict(records[HELD if is_held(i) else FREE], _id=name_of(i))
                           for i in range(start, min(n, start + 10000))])


class Store:
    """A store with n locks, a holder, and a service."""

    def __init__(self, folder, n):
        uri = os.environ.get("HOLDFAST_TEST_URI")
        path = os.path.join(folder, "%d.db" % n)
        database = "pages%d" % n
        self.uri = uri.replace("/?", "/%s?" % database) if uri else "sqlite:" + path
        self.run("run", FREE, "--", "true")
        self.holder = subprocess.Popen([BIN, "--store", self.uri, "run", "--ttl", "10m", HELD, "--",
                                        "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        if uri:
            fill_mongo(uri, database, n)
        else:
            fill_sqlite(path, n)
        self.service = subprocess.Popen([BIN, "--store", self.uri, "serve", "--listen",
                                         "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        port = int(self.service.stdout.readline().rsplit(":", 1)[1])
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self, *words):
        subprocess.run([BIN, "--store", self.uri, *words], check=True)

    def page_ms(self, query):
        began = time.perf_counter()
        self.connection.request("GET", "/v1/locks?" + query)
        answer = self.connection.getresponse()
        answer.read()
        assert answer.status == 200
        return (time.perf_counter() - began) * 1000

    def list_all(self, *words):
        """Seconds, and the peak of memory in MiB, as last seen."""
        began, peak = time.perf_counter(), 0
        lister = subprocess.Popen([BIN, "--store", self.uri, "list", "--all", *words],
                                  stdout=subprocess.DEVNULL)
        while lister.poll() is None:
            with open("/proc/%d/status" % lister.pid) as status:
                peak = next((int(line.split()[1]) for line in status if line.startswith("VmHWM")),
                            peak)
            time.sleep(0.002)
        assert lister.returncode == 0
        return time.perf_counter() - began, peak / 1024

    def close(self):
        for process in (self.service, self.holder):
            process.kill()
            process.wait()


def spread(values):
    return "%.2f (%.2f..%.2f)" % (statistics.median(values), min(values), max(values))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=100000)
    parser.add_argument("--turns", type=int, default=21)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-pages-") as folder:
        _, many = stores = [Store(folder, n) for n in (args.few, args.many)]
        for what, query in QUERIES.items():
            times = [[store.page_ms(query) for store in stores] for _ in range(args.turns + 1)][1:]
            of_few, of_many = zip(*times)
            print("%s: %s ms among %d, %s ms among %d, ratio %s" % (
                what, spread(of_few), args.few, spread(of_many), args.many,
                spread([b / a for a, b in times])), flush=True)
        for words in ([], ["--json"], ["--names"]):
            print("list --all %s of %d: %.2f s, %.1f MiB" %
                  (" ".join(words), args.many, *many.list_all(*words)), flush=True)
        for store in stores:
            store.close()


if __name__ == "__main__":
    main()
