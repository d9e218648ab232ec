#!/usr/bin/python3
# What a fault of a replica set's member costs those who use locks, with the settings that everything comes with:
# one table. tools/bench starts it, as the part `weather`.
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import os
import signal
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "bed"))
BUILD = os.environ.setdefault("HOLDFAST_BUILD", os.path.join(ROOT, "build"))
os.environ.setdefault("HOLDFAST_BIN", os.path.join(BUILD, "holdfast"))
os.environ.setdefault("HOLDFAST_CONFIG", "/dev/null")

import etcd  # noqa: E402
from bystanders import Bystanders, Newcomers  # noqa: E402
from contest import Command, boot_ns  # noqa: E402
from mongod import ReplicaSet, until  # noqa: E402

MS, S = 1e6, 1e9
SETTINGS = {"default (10 s)": None, "2 s": 2000}  # electionTimeoutMillis
AFTERWARDS_S = 10  # for so long it is watched after all have got through
PATIENCE_S = 90
PAUSE_S = 0.25  # between a newcomer and the next
SLOW_S = 0.1  # each way; a connection and a `hello` take 400 ms

COLUMNS = (
    ("holder", "kept"), ("waiter: through after, s", "waiter"),
    ("newcomer: median, ms", "median"), ("newcomer: longest, ms", "longest"),
    ("newcomers that failed", "failed"), ("HTTP renew: longest, ms", "renew"),
    ("HTTP renew: failures", "unrenewed"), ("pymongo, two writes: first after, s", "again"),
    ("the same: median, ms", "writes"), ("`etcdctl lock`: holder", "etcd kept"),
    ("the same: median, ms", "etcd median"), ("the same: longest, ms", "etcd longest"))


# ---- What befalls the set, and etcd beside it: None where there is no such thing

class Fault:
    """Befalls nobody. Its subclasses say what befalls a member, and a node of etcd."""
    name = "nothing"
    is_known_to_etcd = True

    def befall(self, rs):
        pass

    def befall_etcd(self, nodes):
        pass

    def heal(self, rs):
        rs.make_whole()


class SecondarySilent(Fault):
    name = "secondary silent"

    def befall(self, rs):
        rs.kill(rs.wait_secondary(), signal.SIGSTOP)

    def befall_etcd(self, nodes):
        nodes.kill(nodes.follower(), signal.SIGSTOP)


class SecondarySlow(Fault):
    name = "secondary slow"
    is_known_to_etcd = False

    def befall(self, rs):
        rs.gates.set(rs.wait_secondary(), "delay", seconds=SLOW_S, sources=["clients"])


class SecondaryTrickles(Fault):
    name = "secondary trickles"
    is_known_to_etcd = False

    def befall(self, rs):
        rs.gates.set(rs.wait_secondary(), "trickle", sources=["clients"])


class PrimaryKilled(Fault):
    name, number = "primary killed", signal.SIGKILL

    def befall(self, rs):
        rs.kill(rs.wait_primary(), self.number)

    def befall_etcd(self, nodes):
        nodes.kill(nodes.wait_leader(), self.number)


class PrimaryFrozen(PrimaryKilled):
    name, number = "primary frozen", signal.SIGSTOP


class PrimaryCutOff(Fault):
    name = "primary cut off"
    is_known_to_etcd = False

    def befall(self, rs):
        rs.gates.cut_off(rs.wait_primary())


class StepDown(Fault):
    name = "step-down"

    def befall(self, rs):
        rs.wait_primary().admin("replSetStepDown", 60)

    def befall_etcd(self, nodes):
        nodes.hand_over()


class StopInOrder(PrimaryKilled):
    name, number = "stop in order", signal.SIGTERM

    def befall(self, rs):
        self.member = rs.wait_primary()
        rs.kill(self.member, self.number)

    def heal(self, rs):
        until(lambda: not self.member.running(), 60, "the end of mongod")
        super().heal(rs)


FAULTS = (Fault, SecondarySilent, SecondarySlow, SecondaryTrickles, PrimaryKilled, PrimaryFrozen, PrimaryCutOff,
          StepDown, StopInOrder)


# ---- One run

class BesideEtcd:
    """The same with etcd, if it is installed: one holds a lock, and others come."""

    def __init__(self, nodes, fault):
        self.nodes, self.fault = nodes, fault
        self.holder = etcd.Control("lock", "held", "--", "bash", "-c", "echo holds; sleep 1000")
        self.holder.line("holds", 30)
        self.newcomers = Newcomers(etcd.Control, "lock", "new", "--", "true", pause=PAUSE_S)

    def befall(self):
        self.fault.befall_etcd(self.nodes)
        self.began = boot_ns()

    def figures(self):
        self.newcomers.finish(PATIENCE_S)
        took = durations(self.newcomers.since(self.began))
        return {"etcd kept": self.holder.process.poll() is None,
                "etcd median": statistics.median(took) / MS, "etcd longest": max(took) / MS}

    def end(self):
        self.newcomers.end()
        self.holder.kill()
        self.nodes.make_whole()


def durations(calls):
    return [ended - began for began, ended, _ in calls]


def failures(calls):
    return sum(outcome is not True for _, _, outcome in calls)


def through_after(waiter, began):
    """Seconds; False if it has given up."""
    until(lambda: "ran" in waiter.lines or waiter.process.poll() is not None, PATIENCE_S, "the waiter")
    return next(((at - began) / S for at, text in waiter.out if text == "ran"), False)


def has_kept(holder):
    """Its `run` has not ended, and releases what it holds."""
    if holder.process.poll() is None:
        holder.send("end")
    return holder.status(PATIENCE_S) == 0


def watch(those, newcomers, began):
    """Until all have got through, and for a while longer; returns the figures."""
    again = those.writer.success_after(began, PATIENCE_S)
    waited = through_after(those.waiter, began)
    through = max(again, newcomers.success_after(began, PATIENCE_S), boot_ns())
    until(lambda: boot_ns() - through > AFTERWARDS_S * S, PATIENCE_S, "the end of a run")
    newcomers.finish(PATIENCE_S)
    came, renewed = newcomers.since(began), those.lease.since(began)
    took = durations(came)
    return {"waiter": waited, "again": (again - began) / S,
            "median": statistics.median(took) / MS, "longest": max(took) / MS, "failed": failures(came),
            "renew": max(durations(renewed)) / MS, "unrenewed": failures(renewed),
            "writes": statistics.median(durations(those.writer.since(began))) / MS,
            "kept": has_kept(those.holder)}


def run_once(rs, fault, number):
    with Bystanders(rs.uri, prefix="%s-%d-" % (fault.name.replace(" ", "-"), number)) as those:
        newcomers = those.later(Newcomers(Command, "--store", rs.uri, "run", "new", "--", "true",
                                          pause=PAUSE_S))
        fault.befall(rs)
        began = boot_ns()
        those.rival.send("end")  # its lock is the waiter's
        figures = watch(those, newcomers, began)
    fault.heal(rs)
    return figures


def run_beside(rs, nodes, fault, number):
    """With the same fault of etcd, after it: they do not take each other's processors."""
    figures = run_once(rs, fault, number)
    if nodes and fault.is_known_to_etcd:
        beside = BesideEtcd(nodes, fault)
        try:
            beside.befall()
            until(lambda: boot_ns() - beside.began > AFTERWARDS_S * S, PATIENCE_S, "the end of a run")
            figures.update(beside.figures())
        finally:
            beside.end()
    return figures


# ---- The table

def shown(values):
    """Median, least and most of the runs; of yes and no, how often."""
    if not values:
        return "-"
    lost = sum(each is False for each in values)
    if lost:
        return "lost" if lost == len(values) else "lost in %d of %d" % (lost, len(values))
    if values[0] is True:
        return "kept"
    numbers = [statistics.median(values), min(values), max(values)]
    texts = ["{:,.0f}".format(each) if each >= 100 or each == int(each) else "%.1f" % each for each in numbers]
    return texts[0] if len(values) == 1 or len(set(texts)) == 1 else "%s (%s..%s)" % tuple(texts)


def row_of(setting, fault, runs):
    of = {key: [run[key] for run in runs if key in run] for _, key in COLUMNS}
    return {"election time-out": setting, "fault": fault.name, "runs": len(runs),
            "cells": [shown(of[key]) for _, key in COLUMNS], "figures": of}


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description="What a fault costs.")
    parser.add_argument("--runs", type=int, default=3, help="how often each fault comes (3)")
    parser.add_argument("--only", help="of the benchmark's other parts, as is --seconds")
    parser.add_argument("--seconds", help=argparse.SUPPRESS)
    parser.add_argument("--faults", help="only these, separated by commas")
    parser.add_argument("--out", default=os.path.join(BUILD, "bench", "weather.json"))
    return parser.parse_args()


def measure(asked, nodes):
    wanted = asked.faults.split(",") if asked.faults else [each.name for each in FAULTS]
    rows = []
    for setting, election_ms in SETTINGS.items():
        with ReplicaSet(election_ms=election_ms, gates=True) as rs:
            for kind in (each for each in FAULTS if each.name in wanted):
                fault = kind()
                runs = [run_beside(rs, nodes, fault, number) for number in range(asked.runs)]
                rows.append(row_of(setting, fault, runs))
                print_row([setting, fault.name, *rows[-1]["cells"]])
    return rows


def main():
    asked = arguments()
    print("each figure: the median of %d runs (least..most)" % asked.runs)
    heads = ["election time-out", "fault", *(head for head, _ in COLUMNS)]
    print_row(heads)
    print_row(["---"] * len(heads))
    if etcd.is_installed():
        with etcd.Etcd() as nodes:
            rows = measure(asked, nodes)
    else:
        rows = measure(asked, None)
    os.makedirs(os.path.dirname(asked.out), exist_ok=True)
    with open(asked.out, "w") as out:
        json.dump({"heads": heads, "rows": rows}, out, indent=1)


main()
