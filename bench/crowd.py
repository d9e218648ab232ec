#!/usr/bin/python3
# What crowds cost: each situation with N, with 10 N and so on, in turn, and what became more expensive for each of
# them: one table. tools/bench starts it, as the part `crowd`. SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import functools
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..")
BUILD = os.environ.setdefault("HOLDFAST_BUILD", os.path.join(ROOT, "build"))
os.environ.setdefault("HOLDFAST_BIN", os.path.join(BUILD, "holdfast"))
os.environ.setdefault("HOLDFAST_CONFIG", "/dev/null")
os.environ.setdefault("HOLDFAST_LIBRARY", os.path.join(BUILD, "libholdfast.so.1"))
sys.path[1:1] = [os.path.join(ROOT, "tests", "bed"), os.path.join(ROOT, "python")]

import crowd_holding as holding  # noqa: E402
import crowd_names as names  # noqa: E402
import crowd_waiting as waiting  # noqa: E402
from crowd_stores import Mongo, Sqlite  # noqa: E402

MOST_GROWTH = 1.5  # what one of ten times as many may cost more
QUICK_TTL_S, FULL_TTL_S = 5, 30  # of those that are killed

# How a figure grows: EACH is the share of one, ALL is of all together, a RESULT does not grow. What is less than
# `least` is noise.
EACH, ALL, RESULT = "each", "all", "result"
Figure = collections.namedtuple("Figure", "key text kind least", defaults=(EACH, 0))
Situation = collections.namedtuple("Situation", "name text measure figures sqlite mongodb full")

SERVERS, CLIENTS = "processor of the servers, ms", "processor of the clients, ms"
LINE = (Figure("kept", "the holder keeps it", RESULT),
        Figure("inverted", "pairs, over 0.1 s apart, inverted", RESULT),
        Figure("idle", "idle: processor of each, ms/s", least=0.05),
        Figure("idle servers", "idle: processor of the servers for each, ms/s", least=0.3))
HAND_OVER = (
    Figure("turn", "a hand-over, ms", least=1),
    Figure("turn clients", "a hand-over: processor of those that wait and of their commands, ms", least=1),
    Figure("turn servers", "a hand-over: processor of the servers, ms", least=1))
FAILED = Figure("failed", "that did not get it", RESULT)
UPKEEP = (Figure("idle", "processor of the client, ms/s", ALL, 2),
          Figure("idle servers", "processor of the servers, ms/s", ALL, 20))
CLOSING = (Figure("took", "until it is closed, s", ALL, 0.02), Figure("left", "still held then", RESULT))


def situations(full):
    """All of them, with the sizes for each store, and those that --full adds to both."""
    ttl_s = FULL_TTL_S if full else QUICK_TTL_S
    return (
        Situation("wait", "processes that wait for one lock", waiting.wait, (*LINE, *HAND_OVER, FAILED),
                  (10, 100, 1000), (10, 100), (1000,)),
        Situation("stand", "threads of 20 processes that wait for one lock, each by itself (`local_turns` -1)",
                  functools.partial(waiting.stand, by_itself=True), (*LINE, *HAND_OVER, FAILED), (200,), (200,), (2000,)),
        Situation("pass", "threads of 20 processes that wait for one lock, and pass it on",
                  functools.partial(waiting.stand, by_itself=False), (*LINE, *HAND_OVER, FAILED), (200,), (200,),
                  (2000,)),
        Situation("killed", "half of the waiting processes killed at once, ttl %d s" % ttl_s,
                  functools.partial(waiting.kill_half, ttl_s=ttl_s), (
                      Figure("still", "the longest time without a turn, s", least=ttl_s),
                      Figure("turn", "a hand-over otherwise, ms", least=1),
                      Figure("turn servers", "a hand-over: processor of the servers, ms", least=1),
                      FAILED), (20, 200), (20, 200), (1000,)),
        Situation("churn", "s in which 8 threads close new names, then somebody waits for one of the first",
                  holding.churn, (
                      Figure("granted", "until it has been granted and released, ms", least=50),
                      Figure("turns", "names closed a second", RESULT),
                      Figure("longest", "the longest acquire and close, ms", RESULT)), (1, 5), (1, 5), (60,)),
        Situation("close", "held locks of a client that is closed", holding.close, (
            *CLOSING, Figure("clients", CLIENTS, ALL, 5), Figure("servers", SERVERS, ALL, 50)),
            (300, 3000), (300, 3000), (30000,)),
        Situation("far", "held locks of a client that is closed 30 ms away", holding.close_far, CLOSING,
                  (), (300, 3000), ()),
        Situation("hold", "held locks of an idle client, ttl %d s" % holding.TTL_S, holding.hold, UPKEEP,
                  (1000, 10000), (500, 5000), (50000,)),
        Situation("share", "permits of one semaphore of an idle client, ttl %d s" % holding.TTL_S, holding.share,
                  UPKEEP, (100, 1000), (100, 1000), ()),
        Situation("read", "readers, then a writer", holding.read, (
            Figure("stood", "the writer has waited and got it", RESULT),
            Figure("granted", "from their end to its end, ms", ALL, 50)), (100, 990), (100, 990), ()),
        Situation("once", "one-off names of killed processes, an hour later", names.once, (
            Figure("gone", "until none is held any more, s", ALL, 3),
            Figure("clients", CLIENTS, ALL, 20), Figure("servers", SERVERS, ALL, 100)),
            (100, 1000), (100, 1000), (10000,)),
        Situation("brief", "one-off names of killed processes, an hour later, and only `run`s of 50 ms come", names.brief, (
            Figure("runs", "of those, until none is held any more", ALL, 300),
            Figure("gone", "s, two at a time", ALL, 10), Figure("held", "held then", RESULT),
            Figure("run", "a `run`, ms", least=1), Figure("run clean", "a `run` where nothing is to be swept, ms", RESULT),
            Figure("clients", "a `run`: processor, ms", least=1),
            Figure("clients clean", "where nothing is to be swept: processor, ms", RESULT),
            Figure("servers", "a `run`: processor of the servers, ms", least=1),
            Figure("servers clean", "where nothing is to be swept: processor of the servers, ms", RESULT),
            Figure("days runs", "three days later: `run`s until the records are gone", ALL, 300),
            Figure("days gone", "s, two at a time", ALL, 10), Figure("left", "records left, of the last `run`s", RESULT)),
            (500, 5000), (500,), (100000,)),
        Situation("note", "turns of as many locks", holding.note, (
            Figure("listed", "turns in the history", RESULT), Figure("missing", "that it says are missing", RESULT),
            Figure("unsaid", "that are missing", RESULT),
            Figure("clients", CLIENTS, ALL, 100), Figure("servers", SERVERS, ALL, 100)),
            (900, 9000), (500, 5000), ()),
        Situation("backup", "s in which 8 threads take new names beside a reader of the file", holding.back_up, (
            Figure("turns", "turns a second", RESULT), Figure("log", "MiB of the log for 1,000 turns", least=0.1),
            Figure("longest", "the longest turn, ms", RESULT)), (1, 5), (), (60,)),
        Situation("serve", "requests that wait at one service, as many leases, a tenth as many followers",
                  holding.serve, (
                      Figure("renewal", "a renewal, p99 ms", least=10), Figure("lost", "leases lost", RESULT),
                      Figure("failed", "renewals that failed", RESULT),
                      Figure("memory", "KiB for each wait", least=1),
                      Figure("clients", "processor of the service, ms/s", ALL, 10),
                      Figure("tenth", "the same with a tenth of all", RESULT)), (1000,), (), (10000,)))


# ---- Measuring

def measure(store, situation, sizes, runs):
    """{size: what came of each run}, in turn."""
    of = {n: [] for n in sizes}
    for _ in range(runs):
        for n in sizes:
            of[n].append(situation.measure(store, n))
    return of


def growth(figure, of):
    """What each of them costs against each of the next fewer, at most; None for what does not grow."""
    if figure.kind == RESULT or len(of) < 2:
        return None
    sizes = sorted(of)
    middles = [max(statistics.median(of[n]), figure.least) for n in sizes]
    pairs = zip(zip(sizes, middles), zip(sizes[1:], middles[1:]))
    return max(after / before / (many / few if figure.kind == ALL else 1)
               for (few, before), (many, after) in pairs)


# ---- The table

def number(value):
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, int) or value >= 100:
        return "{:,.0f}".format(value)
    return "%.1f" % value if value >= 10 else "%.2f" % value


def shown(values):
    texts = [number(each) for each in (statistics.median_low(values), min(values), max(values))]
    return texts[0] if len(set(texts)) == 1 else "%s (%s..%s)" % tuple(texts)


def verdict(grown):
    if grown is None:
        return ""
    return "%.2f" % grown if grown <= MOST_GROWTH else "**%.2f: worse than linear**" % grown


def row_of(store, situation, figure, of):
    """of: {n: the figure in each run}"""
    grown = growth(figure, of)
    return {"store": store.name, "situation": situation.name, "key": figure.key, "kind": figure.kind, "of": of,
            "growth": grown,
            "cells": [store.name, situation.text, figure.text,
                      ", ".join("{:,}: {}".format(n, shown(of[n])) for n in sorted(of)), verdict(grown)]}


HEADS = ["store", "N", "figure", "with N", "growth"]


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def sizes_of(store, situation, asked):
    sizes = list(situation.sqlite if isinstance(store, Sqlite) else situation.mongodb)
    sizes += [each for each in situation.full if asked.full and sizes and each not in sizes]
    if asked.sizes:
        sizes = [each for each in sizes if str(each) in asked.sizes.split(",")]
    return sizes[:1] if asked.least else sizes


def add_rows(rows, store, situation, asked):
    sizes = sizes_of(store, situation, asked)
    if not sizes:
        return
    began, runs = time.monotonic(), measure(store, situation, sizes, asked.runs)
    print("%s, %s: %.0f s" % (store.name, situation.name, time.monotonic() - began), file=sys.stderr, flush=True)
    for figure in situation.figures:
        if store.has_servers or "servers" not in figure.key:
            of = {n: [run[figure.key] for run in runs[n]] for n in sizes}
            add_row(rows, store, situation, figure, of)


def add_row(rows, store, situation, figure, of):
    """Beside what was measured before with other N."""
    key = store.name, situation.name, figure.key
    before = rows[key]["of"] if key in rows else {}
    rows[key] = row_of(store, situation, figure, {**{int(n): values for n, values in before.items()}, **of})
    print_row(rows[key]["cells"])


def measure_all(asked):
    wanted = asked.situations.split(",") if asked.situations else [each.name for each in situations(False)]
    chosen = [each for each in situations(asked.full) if each.name in wanted]
    far = [each for each in chosen if each.name == "far"]
    near = [each for each in chosen if each.name != "far"]
    rows = load(asked.out) if asked.add else {}
    for kind, make, which in (("sqlite", Sqlite, near), ("mongodb", Mongo, near),
                              ("mongodb", functools.partial(Mongo, gates=True), far)):
        if kind in asked.stores and which:
            with make() as store:
                for situation in which:
                    add_rows(rows, store, situation, asked)
                    save(asked.out, rows)


def load(path):
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        rows = json.load(file)["rows"]
    return {(row["store"], row["situation"], row["key"]): row for row in rows}


def save(path, rows):
    order = [each.name for each in situations(False)]
    of = sorted(rows.values(), key=lambda row: (row["store"] != Sqlite.name, order.index(row["situation"])))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        json.dump({"heads": HEADS, "rows": of}, out, indent=1)


def arguments():
    parser = argparse.ArgumentParser(description="What crowds cost.")
    parser.add_argument("--runs", type=int, default=1, help="how often each is measured (1)")
    parser.add_argument("--full", action="store_true", help="the large ones, too: half an hour")
    parser.add_argument("--stores", default="sqlite,mongodb", help="only these, separated by commas")
    parser.add_argument("--situations", help="only these: " + ", ".join(each.name for each in situations(False)))
    parser.add_argument("--sizes", help="only these N")
    parser.add_argument("--add", action="store_true", help="keep what was measured before of others, and of other N")
    parser.add_argument("--least", action="store_true", help="only the least N of each: whether it measures")
    parser.add_argument("--only", help="of the benchmark's other parts, as are --seconds and --clients")
    parser.add_argument("--seconds", help=argparse.SUPPRESS)
    parser.add_argument("--clients", help=argparse.SUPPRESS)
    parser.add_argument("--out", default=os.path.join(BUILD, "bench", "crowd.json"))
    return parser.parse_args()


def main():
    asked = arguments()
    print("growth: what each costs among the more / among the fewer; more than %g is marked" % MOST_GROWTH)
    print_row(HEADS)
    print_row(["---"] * len(HEADS))
    measure_all(asked)


main()
