#!/usr/bin/python3
# A fault campaign: clients that contend for locks, with sessions of their own and as tenants of two
# services, on a replica set of three or on one SQLite file, while faults come in random order from
# a seed; then the checker. `make torture` starts it.
# SPDX-License-Identifier: Apache-2.0
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "bed"), os.path.join(HERE, "..", "live")]
BUILD = os.environ.setdefault("HOLDFAST_BUILD", os.path.join(HERE, "..", "..", "build"))
os.environ.setdefault("HOLDFAST_BIN", os.path.join(BUILD, "holdfast"))

import bson
import pymongo
from pymongo.errors import PyMongoError

import faults
import network
import serving
from checker import NS, Conditions, Snapshot, judge, overlapping
from contest import boot_ns
from history import AFTERWARDS
from mongod import ReplicaSet, until
from repeated import Repeated

# pymongo's threads print a traceback whenever a member that we stopped does not answer them.
for each in [module for name, module in sys.modules.items() if name.startswith("pymongo.")]:
    if hasattr(each, "_handle_exception"):  # in another module with each version
        each._handle_exception = lambda: None

LOCKS = ["rw-0", "rw-1", "sem-0"]
COUNTED = ["rw-0", "rw-1"]
LEADER = "leader-0"  # as turn.h has it
WORK_MS = 5000  # so often there is something new to be done once
LEASED = ["lease-0"]  # which only tenants take
SERVICES = 2
TENANTS = 2
SUPERVISE_S = 0.2
SERVICE_BEGINS_S = 60
SERVICE_ENDS_S = 30
PROBE_S = 0.05
OUTAGE_S = 1.0  # so long without an acknowledged write: there was no primary
STALL_S = 0.25  # what takes so long for no reason may do so for clients, too
SNAPSHOT_S = 0.3
LONG_HOLD = 8  # so many times "believes" in a row, 20 ms apart: longer than all short turns
ENDING_S = 45  # for clients that were told to end


class Client(serving.Pausable):
    """One torturer and its successors: each SIGKILL begins a new one, with a history of its own."""
    KIND = "c"
    has_sessions = True

    def __init__(self, bed, number, words=()):
        self.bed, self.number, self.words = bed, number, list(words)
        self.life, self.process, self.off_since = 0, None, None
        self.host = bed.network.host() if bed.network else None

    @property
    def who(self):
        return "%s%d-%d" % (self.KIND, self.number, self.life)

    @property
    def seed(self):
        return self.bed.seed * 1000 + self.number * 100 + self.life

    def path(self, name):
        return os.path.join(self.bed.folder, name)

    def start(self):
        self.life += 1
        command = ["setpriv", "--pdeathsig", "KILL", "--"]
        command += self.host.prefix if self.host else []
        command += self.command()
        with open(self.path("%s%d.log" % (self.KIND, self.number)), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)

    def command(self):
        return [os.path.join(BUILD, "torturer"), "--id=" + self.who,
                "--store=" + self.bed.store_uri(self), "--data=" + self.bed.data_uri(),
                "--history=" + self.path(self.who), "--until=" + self.bed.end_file,
                "--ttl=%d" % (self.bed.ttl * 1000), "--patience=5000", "--threads=2",
                "--seed=%d" % self.seed, "--locks=" + ",".join(LOCKS)] + self.words

    def kill(self):
        self.is_on()
        self.bed.killed[self.who] = boot_ns()
        self.process.kill()
        self.process.wait()

    def is_holding(self):
        """Its history says that one of its threads has believed for a while, and so will for some
        more: short turns are over by the time that one has seen them."""
        with contextlib.suppress(FileNotFoundError), open(self.path(self.who), "rb") as stream:
            stream.seek(max(0, os.path.getsize(stream.name) - 4000))
            last = {}
            for line in stream.read().split(b"\n")[1:-1]:
                event = json.loads(line)
                last.setdefault(event.get("thread"), []).append(event["event"])
            return any(events[-LONG_HOLD:] == ["believes"] * LONG_HOLD for events in last.values())
        return False

    def await_hold(self):
        deadline = time.monotonic() + self.bed.ttl
        while not self.is_holding() and time.monotonic() < deadline:
            time.sleep(0.002)

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Tenants(Client):
    """A process that takes leases at the services."""
    KIND = "l"
    has_sessions = False

    def command(self):
        return serving.tenant_command(self.bed, self, LOCKS + LEASED, self.words)


class Breaker(Tenants):
    """A process that takes locks from their holders."""
    KIND = "b"

    def __init__(self, bed, number):
        super().__init__(bed, number, ["--break"])


class Bed:
    """What every campaign has: clients, a clock of what was done, and the verdict."""
    network = None
    servers = ()

    def __init__(self, asked):
        self.seed, self.ttl, self.chance = asked.seed, asked.ttl, random.Random(asked.seed)
        self.slack, self.quiet, self.is_short = asked.slack, asked.quiet, asked.shortest
        self.began = time.monotonic()
        self.killed, self.pauses = {}, {}
        self.shocks, self.server_shocks, self.troubles = [], [], []
        self.drops, self.forgotten, self.stalls, self.hindrances = [], [], [], []
        self.crashed, self.held = [], {}
        self.snapshots, self.active, self.done = [], [], []
        self.stall = 0.0
        self.folder = tempfile.mkdtemp(prefix="holdfast-torture-")
        self.end_file = os.path.join(self.folder, "end")
        self.stack = contextlib.ExitStack()
        self.clients, self.services = [], []

    def __enter__(self):
        try:
            self.set_up()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        for each in self.clients + self.services:
            each.end()
        self.stack.close()

    def clean(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, *words):
        """A client that is not started yet."""
        self.clients.append(Client(self, len(self.clients), words))
        return self.clients[-1]

    def add_tenants(self):
        """Services, and who takes leases there, not started yet."""
        self.services += [serving.Service(self, n) for n in range(SERVICES)]
        for kind in [Tenants] * TENANTS + [Breaker]:
            self.clients.append(kind(self, len(self.clients)))

    def lease_ttls_ms(self):
        """The shortest and the longest."""
        return 2000, int(self.ttl * 1000 + 1000)

    # ---- What faults and clients tell ----

    def note(self, text):
        if not self.quiet:
            print("%7.2f  %s" % (time.monotonic() - self.began, text), flush=True)

    def shock(self):
        self.shocks.append(boot_ns())

    def shock_servers(self):
        self.shock()
        self.server_shocks.append(self.shocks[-1])

    def trouble(self, began, ended):
        self.troubles.append((began, ended))

    def dropped(self, began, ended):
        self.drops.append((began, ended))

    def hindered(self, began, ended):
        self.hindrances.append((began, ended))

    def lost_sessions(self, began, ended):
        self.forgotten.append((began, ended))

    def feel_machine(self):
        """How long this machine lets a thread wait that should run."""
        began = boot_ns()
        time.sleep(0.02)
        self.felt(began, boot_ns())
        self.stall = max(self.stall, (boot_ns() - began) / NS - 0.02)

    def felt(self, began, ended):
        """What takes milliseconds on an idle machine."""
        if ended - began > STALL_S * NS:
            self.stalls.append((began, ended))

    # ---- The course of a campaign ----

    def run(self, clients, seconds, kinds, fixed=()):
        self.watchers = [Repeated(call, pause) for call, pause in self.watches()]
        for _ in range(clients):
            self.add("--work=%d" % WORK_MS)
        self.add_tenants()
        self.serve()
        for client in self.clients:
            client.start()
        time.sleep(1)
        begin = time.monotonic()
        upcoming = [kind(self.chance, self) for kind in fixed]
        while upcoming or time.monotonic() - begin < seconds:
            self.torment(upcoming.pop(0) if upcoming
                         else self.chance.choice(kinds)(self.chance, self))
        self.heal_until(float("inf"))
        self.recover()
        self.finish()

    def serve(self):
        for service in self.services:
            service.start()
            self.watchers.append(Repeated(service.supervise, SUPERVISE_S))
        for service in self.services:
            if not service.await_begin(SERVICE_BEGINS_S):
                raise TimeoutError("%s does not begin: see its log in %s"
                                   % (service.who, self.folder))

    def torment(self, fault):
        """Client faults may overlap each other and a server fault."""
        if self.is_short and not isinstance(fault, faults.Quiet):
            fault.lasts = min(fault.lasts, self.ttl * 1.25)
        overlaps = not fault.is_server and self.chance.random() < 0.6
        gap = self.chance.uniform(0, 1.0)
        if fault.is_server:
            self.heal_where(lambda each: each.is_server)
        if fault.subject:
            self.heal_where(lambda each: each.subject == fault.subject)
        self.note("%s" % fault)
        self.done.append(type(fault).__name__)
        fault.inject()
        fault.due = time.monotonic() + fault.lasts
        self.active.append(fault)
        self.heal_until(time.monotonic() + gap if overlaps else fault.due + gap)

    def heal_until(self, moment):
        """Heals what is due until then; what lasts longer goes on."""
        while True:
            due = min((each.due for each in self.active), default=float("inf"))
            if due > moment or due == float("inf"):
                break
            time.sleep(max(0, due - time.monotonic()))
            self.heal_where(lambda each: each.due <= time.monotonic())
        if moment < float("inf"):
            time.sleep(max(0, moment - time.monotonic()))

    def heal_where(self, claim):
        for fault in [each for each in self.active if claim(each)]:
            self.active.remove(fault)
            fault.heal()

    def recover(self):
        """With everything healed, long enough to see who does not."""
        self.note("all is healed")
        time.sleep(self.ttl + 3 + AFTERWARDS)

    def finish(self):
        open(self.end_file, "w").close()
        deadline = time.monotonic() + ENDING_S
        for client in [each for each in self.clients if each.process]:
            try:
                status = client.process.wait(max(0.1, deadline - time.monotonic()))
                if status:
                    self.note("%s ended with status %d" % (client.who, status))
            except subprocess.TimeoutExpired:
                self.note("%s does not end: pid %d" % (client.who, client.process.pid))
        self.look_for_leaks()
        for watcher in self.watchers:
            watcher.end()
            watcher.join(30)

    def look_for_leaks(self):
        """While the services live: a ticket of theirs that nobody knows stays as long as they."""
        if self.services:
            seconds = self.lease_ttls_ms()[1] / 1000 + self.ttl + 2 + self.slack
            self.held = serving.take_all(self, LOCKS + LEASED + [LEADER], seconds)
        for service in self.services:
            service.finish(SERVICE_ENDS_S)

    def report(self):
        until_now = boot_ns()
        conditions = Conditions(
            ttl=self.ttl, until=until_now, killed=self.killed, pauses=self.pauses,
            shocks=sorted(self.shocks), server_shocks=sorted(self.server_shocks),
            troubles=sorted(self.troubles + self.outages()),
            drops=self.drops, forgotten=self.forgotten, hindrances=self.hindrances, held=self.held, crashed=self.crashed,
            stalls=self.stalls,
            lease_ttl=self.lease_ttls_ms()[1] / 1000 if self.services else 0,
            snapshots=self.snapshots + self.last_snapshots(),
            finals=self.counters(""), plains=self.counters(" plain"),
            slack=self.slack + min(5, self.stall))
        conditions.write(os.path.join(self.folder, "conditions.json"))
        report = judge(self.folder)
        report.figures["faults"] = len(self.done)
        report.figures["ms without a primary"] = overlapping(
            self.outages(), 0, until_now) // 1_000_000
        report.figures["services started again by themselves"] = sum(
            each.restarts for each in self.services)
        report.figures["ms of stall"] = int(self.stall * 1000)
        return report

    def outages(self):
        return []


def block_of(holder):
    return holder["token"], holder["token"] + max(1, holder.get("block", 1)) - 1


def start_set(places, election_ms, gates=False):
    rs = ReplicaSet(election_ms=election_ms, skew={SetBed.AHEAD: 25}, places=places, gates=gates)
    return rs.start()


class SetBed(Bed):
    """Three members and each client on hosts of their own, where the machine permits that; or all here, and
    the members behind gates."""
    AHEAD = 2

    def __init__(self, asked, rs=None):
        super().__init__(asked)
        self.rs, self.probes = rs, []
        self.election_ms, self.has_gates = asked.election_ms or None, asked.gates

    def set_up(self):
        if not self.rs:
            if os.environ.get(network.ENTERED) and not self.has_gates:
                self.network = self.stack.enter_context(network.Network())
                self.servers = [self.network.host() for _ in range(3)]
            self.rs = start_set(self.servers, self.election_ms, self.has_gates)
            self.stack.callback(self.rs.stop)
        self.mongo = self.stack.enter_context(self.rs.client())
        self.prober = self.stack.enter_context(self.rs.client(
            retryWrites=False, retryReads=False, w="majority", serverSelectionTimeoutMS=1000,
            connectTimeoutMS=500, socketTimeoutMS=1500, heartbeatFrequencyMS=500))
        data = self.mongo.holdfast.get_collection(
            "torture", write_concern=pymongo.WriteConcern("majority"))
        for name in COUNTED:
            for suffix in ("", " plain"):
                until(lambda: self.begins(data, name + suffix), 60, "a counter")

    @staticmethod
    def begins(data, name):
        try:
            return data.replace_one({"_id": name}, {"value": bson.Int64(0)}, upsert=True)
        except PyMongoError:  # an election is under way
            return None

    def store_uri(self, client):
        name = "torture-%d" % (client.number % faults.APPS) if client else "torture"
        return self.rs.uri_for("", "appName=" + name)

    def data_uri(self):
        return self.rs.uri_for("holdfast", "appName=torture-data")

    def watches(self):
        return [(self.probe, PROBE_S), (self.take_snapshot, SNAPSHOT_S), (self.feel_machine, 0.05)]

    def probe(self):
        began = boot_ns()
        try:
            self.prober.holdfast_bed.probe.update_one({"_id": 0}, {"$inc": {"n": 1}}, upsert=True)
        except PyMongoError:
            self.stalls.append((began, boot_ns()))
            return
        self.probes.append((began, boot_ns()))
        self.felt(*self.probes[-1])

    def outages(self):
        """From the last write that was acknowledged to the first one again."""
        return [(a[0], b[1]) for a, b in zip(self.probes, self.probes[1:])
                if b[1] - a[1] > OUTAGE_S * NS]

    def take_snapshot(self):
        """Linearizable: what it shows was so at a moment after its beginning."""
        names = LOCKS + LEASED
        began, lock = boot_ns(), names[len(self.snapshots) % len(names)]
        try:
            found = self.prober.holdfast.command(
                "find", "holdfast.locks", filter={"_id": lock}, limit=1, maxTimeMS=1000,
                readConcern={"level": "linearizable"})["cursor"]["firstBatch"]
        except PyMongoError:
            return
        holders = found[0]["holders"] if found else []
        self.snapshots.append(Snapshot(began, lock, [block_of(each) for each in holders],
                                       boot_ns()))

    def last_snapshots(self):
        began = boot_ns()
        return [Snapshot(began, each["_id"], [block_of(holder) for holder in each["holders"]])
                for each in self.mongo.holdfast.holdfast.locks.find()]

    def counters(self, suffix):
        data = self.mongo.holdfast.get_collection(
            "torture", read_concern=pymongo.read_concern.ReadConcern("majority"))
        return {name: data.find_one({"_id": name + suffix})["value"] for name in COUNTED}

    def recover(self):
        for member in self.rs.members:
            if not member.running():
                member.start()
        self.rs.wait_primary()
        self.rs.wait_secondaries()
        super().recover()


class FileBed(Bed):
    """One SQLite file, on a small file system of its own where mounting is permitted."""
    SIZE = "16m"

    def set_up(self):
        self.place = os.path.join(self.folder, "disk")
        os.mkdir(self.place)
        self.locks = os.path.join(self.place, "locks.db")
        if os.environ.get(network.ENTERED):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + self.SIZE, "torture",
                            self.place], check=True)
            self.stack.callback(subprocess.call, ["umount", "-l", self.place])
        self.data_path = os.path.join(self.folder, "data.db")
        with contextlib.closing(sqlite3.connect(self.data_path)) as db:
            db.executescript(
                "PRAGMA journal_mode = WAL;"
                "CREATE TABLE counter (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL);"
                "CREATE TABLE holdfast_fence"
                " (resource TEXT PRIMARY KEY NOT NULL, token INTEGER NOT NULL);")
            for name in COUNTED:
                for suffix in ("", " plain"):
                    db.execute("INSERT INTO counter VALUES (?, 0)", (name + suffix,))
            db.commit()

    def store_uri(self, client):
        return "sqlite:" + self.locks

    def data_uri(self):
        return "sqlite:" + self.data_path

    def watches(self):
        return [(self.take_snapshot, SNAPSHOT_S), (self.feel_machine, 0.05)]

    def take_snapshot(self):
        with contextlib.suppress(sqlite3.Error):  # the disk is full
            self.snapshots += self.look()

    def look(self):
        """The records as they are in the file: tokens that are kept for a line are not listed."""
        began = boot_ns()
        with contextlib.closing(sqlite3.connect(self.locks, timeout=1)) as db:
            found = {name: bson.decode(record)["holders"] for name, record in
                     db.execute("SELECT name, record FROM locks")}
        return [Snapshot(began, lock, [block_of(each) for each in found.get(lock, [])], boot_ns())
                for lock in {*found, *LOCKS, *LEASED}]

    def fill_disk(self):
        """The log is cut off in between: else SQLite writes where it was, and needs no room."""
        for _ in range(3):
            self.fill_up()
            with contextlib.closing(sqlite3.connect(self.locks, timeout=1)) as db, \
                    contextlib.suppress(sqlite3.Error):
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.fill_up()

    def fill_up(self):
        with contextlib.suppress(OSError), open(os.path.join(self.place, "filler"), "ab") as out:
            while True:
                out.write(b"x" * 4096)
                out.flush()

    def empty_disk(self):
        os.unlink(os.path.join(self.place, "filler"))

    def last_snapshots(self):
        return self.look()

    def counters(self, suffix):
        with contextlib.closing(sqlite3.connect(self.data_path)) as db:
            values = dict(db.execute("SELECT name, value FROM counter"))
        return {name: values[name + suffix] for name in COUNTED}


def kinds_for(asked):
    """The faults for a store that this machine permits."""
    can_divide = bool(os.environ.get(network.ENTERED))
    if asked.store == "sqlite":
        return (faults.ON_CLIENTS * 4 + faults.ON_SERVICES * 2
                + (faults.ON_SQLITE if can_divide else [faults.Quiet]))
    between = faults.AT_GATES if asked.gates else faults.BETWEEN_HOSTS if can_divide else []
    return faults.ON_CLIENTS * 2 + faults.ON_SERVICES + faults.ON_A_SET + between


def arguments(words=None):
    parser = argparse.ArgumentParser(description="Locks under random faults.")
    parser.add_argument("--store", choices=["set", "sqlite", "both"], default="set")
    parser.add_argument("--seconds", type=float, default=600, help="how long faults come (600)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--clients", type=int, default=8, help="how many processes (8)")
    parser.add_argument("--ttl", type=float, default=3.0, metavar="SECONDS", help="leases (3)")
    parser.add_argument("--slack", type=float, default=0.5, metavar="SECONDS",
                        help="for waits on a busy machine, never for safety (0.5)")
    parser.add_argument("--election-ms", type=int, default=2000, metavar="MS",
                        help="the set's election time-out (2000); 0: the servers' own")
    parser.add_argument("--gates", action="store_true",
                        help="weather at gates in front of the members, in place of partitions")
    parser.add_argument("--shortest", action="store_true", help="no fault lasts long")
    parser.add_argument("--keep", action="store_true", help="keep histories and logs")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args(words)


def run(asked, fixed=(), kinds=None):
    """One campaign; returns its report. What is to be judged again is kept."""
    print("%s, %g s, seed %d" % (asked.store, asked.seconds, asked.seed), flush=True)
    with (FileBed if asked.store == "sqlite" else SetBed)(asked) as bed:
        bed.run(asked.clients, asked.seconds, kinds or kinds_for(asked), fixed)
        report = bed.report()
    keep = asked.keep or report.complaints
    if keep:
        print("histories: %s" % bed.folder)
    else:
        bed.clean()
    print(report, flush=True)
    return report


def main():
    if not network.enter():
        print("LEFT OUT: partitions and full disks: no namespaces here (be root, or allow users"
              " namespaces)")
    asked = arguments()
    stores = ["sqlite", "set"] if asked.store == "both" else [asked.store]
    complaints, seconds = [], asked.seconds
    for asked.store in stores:
        asked.seconds = seconds / 10 if (asked.store, len(stores)) == ("sqlite", 2) else seconds
        complaints += run(asked).complaints
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
