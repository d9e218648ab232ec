#!/usr/bin/python3
"""Not a test: which share of the turns Holdfast has beside as many programs of the articles, which poll,
without hfFair and with it.

    tests/bed/with-set.py -- tests/protocols/shares.py [--each 3] [--seconds 12] [--runs 3] [KIND...]
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
os.environ.setdefault("HOLDFAST_BUILD", os.path.join(ROOT, "build"))
os.environ.setdefault("HOLDFAST_BIN", os.path.join(os.environ["HOLDFAST_BUILD"], "holdfast"))
sys.path.insert(0, os.path.join(HERE, "..", "bed"))
from contest import Contest  # noqa: E402

# What the other program is, how often it polls, and the keys of the store.
KINDS = {
    "expire-at": ("spin.py", 100, "hfProtocol=ttl&hfShape=expire-at"),
    "updated": ("insert.py", 10, "hfProtocol=ttl"),
    "document": ("document_article.py", 20, "hfProtocol=document&hfCollection=locks"),
    "sharding": ("manager.py", 100, "hfProtocol=sharding"),
}


def others(script, uri, database, contest, seconds):
    """The words of the other program, which ends by itself or when the file is there."""
    words = [sys.executable, os.path.join(HERE, script), uri, database, "locks", "x"]
    if script == "document_article.py":
        return words + [str(seconds), contest.counter, "30"]
    return words + [contest.counter, contest.end]


def make_document(uri, database):
    import pymongo
    with pymongo.MongoClient(uri) as client:
        client[database].locks.insert_one({"_id": "x"})


def contend(kind, is_fair, given):
    """The turns of ours and of all."""
    script, poll_ms, keys = KINDS[kind]
    uri = os.environ["HOLDFAST_TEST_URI"]
    database = "shares_%d_%d" % (os.getpid(), time.monotonic_ns())
    if kind == "document":
        make_document(uri, database)
    store = "%s&%s&hfPollMS=%d%s" % (uri.replace("/?", "/%s?" % database), keys, poll_ms,
                                     "&hfFair=1" if is_fair else "")
    with Contest(store, "x") as contest:
        begun = [subprocess.Popen(others(script, uri, database, contest, given.seconds),
                                  stdout=subprocess.DEVNULL) for _ in range(given.each)]
        for _ in range(given.each):
            contest.add_endless("--ttl=10000")
        time.sleep(given.seconds)
        contest.finish(60)
        for each in begun:
            each.wait(60)
        return sum(turn["wrote"] for turn in contest.turns()), contest.value()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=3, help="processes of each side")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND")
    given = parser.parse_args()
    for kind in given.kinds:
        for is_fair in (False, True):
            runs = [contend(kind, is_fair, given) for _ in range(given.runs)]
            shares = sorted(100 * ours / total for ours, total in runs)
            print("%-10s %-9s ours %2.0f to %2.0f %% of %s turns" % (
                kind, "hfFair=1" if is_fair else "", shares[0], shares[-1],
                ", ".join(str(total) for _, total in runs)), flush=True)


if __name__ == "__main__":
    main()
