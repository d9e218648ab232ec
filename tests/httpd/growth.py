#!/usr/bin/python3
"""What very many locks and sessions cost a replica set in the background, and how long listings take:
with-set.py -- growth.py [--locks N] [--sessions N] [--seconds N]. Not a test. Every twentieth lock is
held, by one of the sessions. "ms/s" is processor time of the primary, or of the service, for each second,
less what it was before."""
# SPDX-License-Identifier: Apache-2.0
import argparse
import datetime
import http.client
import os
import statistics
import subprocess
import sys
import time

import bson
import pymongo

import pages

BIN = pages.BIN
QUERIES = ("/v1/locks?limit=50", "/v1/locks?limit=50&in_use=1", "/v1/sessions?limit=50", "/metrics")


class Servers:
    def __init__(self, uri):
        self.admin = pymongo.MongoClient(uri).admin
        self.idle = 0.0

    def cpu_ms(self):
        extra = self.admin.command("serverStatus")["extra_info"]
        return (extra["user_time_us"] + extra["system_time_us"]) / 1000

    def rate_while(self, seconds, work=time.sleep):
        before, began = self.cpu_ms(), time.monotonic()
        work(seconds)
        return (self.cpu_ms() - before) / (time.monotonic() - began) - self.idle


def process_ms(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    with open("/proc/%d/status" % pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def fill(database, n_locks, n_sessions):
    """From a real record and a real session."""
    later = datetime.datetime.utcnow() + datetime.timedelta(hours=2)
    session = database.sessions.find_one({"dead": False})
    ids = [bson.ObjectId() for _ in range(n_sessions)]
    database.sessions.insert_many([dict(session, _id=each, expires_at=later) for each in ids])
    records = {doc["_id"]: doc for doc in database.locks.find()}
    for start in range(0, n_locks, 10000):
        docs = []
        for i in range(start, min(n_locks, start + 10000)):
            doc = dict(records[pages.HELD if pages.is_held(i) else pages.FREE], _id=pages.name_of(i))
            if pages.is_held(i):
                doc["holders"] = [dict(doc["holders"][0], session=ids[i % n_sessions],
                                       ticket=bson.ObjectId())]
            docs.append(doc)
        database.locks.insert_many(docs)


def tell(what, text):
    print("%-44s %s" % (what, text), flush=True)


def seconds_of(uri, *words):
    began = time.monotonic()
    subprocess.run([BIN, "--store", uri, *words], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def sweep(servers, uri, database, seconds):
    """The first client after an hour sweeps; here the hour is over at once."""
    database.sessions.delete_many({"sweep": True})
    before = servers.cpu_ms()
    client = subprocess.Popen([BIN, "--store", uri, "run", "sweeper", "--", "sleep", "3600"])
    began, quiet, most = time.monotonic(), 0, 0.0
    while quiet < 3:
        rate = servers.rate_while(2)
        most = max(most, rate)
        quiet = quiet + 1 if rate < most / 4 and time.monotonic() - began > 6 else 0
    took = time.monotonic() - began - 6
    tell("a sweep, once an hour", "%.0f s, %.0f ms of the primary, at most %.0f ms/s" %
         (took, servers.cpu_ms() - before - servers.idle * (took + 6), most))
    client.kill()
    client.wait()
    tell("a client that holds a lock", "%.1f ms/s" % servers.rate_while(seconds))


def serve(uri):
    service = subprocess.Popen([BIN, "--store", uri, "serve", "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    port = int(service.stdout.readline().rsplit(":", 1)[1])
    return service, port


def ask_ms(port, path):
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, path
    connection.close()
    return (time.monotonic() - began) * 1000


def follow(servers, service, port, path, seconds):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    began = time.monotonic()
    connection.request("GET", path)
    answer = connection.getresponse()
    while not answer.readline().startswith(b"data:"):
        pass
    first = time.monotonic() - began
    before = process_ms(service.pid)
    rate = servers.rate_while(seconds)
    own = (process_ms(service.pid) - before) / seconds
    tell(path, "snapshot after %.1f s; primary %.0f ms/s, service %.0f ms/s, %.0f MiB" %
         (first, rate, own, resident_mib(service.pid)))
    connection.close()


def scrape(servers, service, port, seconds):
    """As a monitor that is in a hurry."""
    def ask(times):
        for _ in range(times):
            due = time.monotonic() + 1
            ask_ms(port, "/metrics")
            time.sleep(max(0, due - time.monotonic()))
    before = process_ms(service.pid)
    rate = servers.rate_while(seconds, ask)
    tell("/metrics each second", "primary %.0f ms/s, service %.0f ms/s" %
         (rate, (process_ms(service.pid) - before) / seconds))


def watch(servers, uri, seconds):
    watcher = subprocess.Popen([BIN, "--store", uri, "--json", "watch"], stdout=subprocess.DEVNULL)
    time.sleep(5)
    before = process_ms(watcher.pid)
    rate = servers.rate_while(seconds)
    tell("watch", "primary %.0f ms/s, itself %.0f ms/s, %.0f MiB" %
         (rate, (process_ms(watcher.pid) - before) / seconds, resident_mib(watcher.pid)))
    watcher.kill()
    watcher.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--locks", type=int, default=1000000)
    parser.add_argument("--sessions", type=int, default=10000)
    parser.add_argument("--seconds", type=int, default=20)
    args = parser.parse_args()
    uri = os.environ.get("HOLDFAST_TEST_URI")
    if not uri:
        sys.exit("growth.py: HOLDFAST_TEST_URI names no set; tests/bed/with-set.py sets it")
    database = pymongo.MongoClient(uri).growth
    uri = uri.replace("/?", "/growth?")
    servers = Servers(uri)
    subprocess.run([BIN, "--store", uri, "run", pages.FREE, "--", "true"], check=True)
    holder = subprocess.Popen([BIN, "--store", uri, "run", "--ttl", "10m", pages.HELD, "--", "sleep",
                               "7200"])
    while not database.locks.find_one({"_id": pages.HELD}):
        time.sleep(0.1)
    fill(database, args.locks, args.sessions)
    time.sleep(10)
    servers.idle = servers.rate_while(args.seconds)
    tell("locks, sessions", "%d, %d" % (args.locks, args.sessions))
    for words in (["list"], ["list", "--all"], ["show", pages.name_of(1)], ["sessions"]):
        tell(" ".join(words), "%.2f s" % seconds_of(uri, *words))
    service, port = serve(uri)
    for path in QUERIES:
        tell("GET " + path, "%s ms" % pages.spread([ask_ms(port, path) for _ in range(11)]))
    scrape(servers, service, port, 3 * args.seconds)
    for path in ("/v1/events?in_use=1", "/v1/events"):
        follow(servers, service, port, path, args.seconds)
    service.kill()
    service.wait()
    watch(servers, uri, args.seconds)
    sweep(servers, uri, database, args.seconds)
    holder.kill()
    holder.wait()


if __name__ == "__main__":
    main()
