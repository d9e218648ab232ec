# A real replica set (or standalone server) on this machine, for the live tests and with-set.py.
# SPDX-License-Identifier: Apache-2.0
"""
    with ReplicaSet(election_ms=2000) as rs:
        run(["holdfast", "--store", rs.uri, ...])
        old = rs.wait_primary()
        rs.kill(old)                     # SIGKILL; rs.kill(m, signal.SIGSTOP) and rs.cont(m)
        new = rs.wait_primary(other_than=old)
        rs.restart(old)

Servers listen on 127.0.0.1, keep their files in one temporary folder, and end with this process,
however it ends: they are killed by pid at exit, and the kernel kills them if we are killed. For
that, start sets from the main thread (the death signal follows the thread that forks).
"""
import atexit
import datetime
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import bson
import pymongo
from pymongo.errors import PyMongoError

from gates import Gates
from limits import BUSY

BED = os.path.dirname(os.path.abspath(__file__))
FAKETIME = "faketime/libfaketimeMT.so.1"
# A server that has no secondaries acknowledges a write when its journal is next written: each 100 ms, else.
JOURNAL_OF_ONE = ["--journalCommitInterval", "2"]


def open_files():
    """How many a server may open: it keeps a few for each collection, and a login's limit is 1024."""
    most, allowed = 64000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return most if allowed == resource.RLIM_INFINITY else min(most, allowed)


class Member:
    """One mongod. `skew` is its clock's offset in seconds; None: a real clock that stays real.
    `place`: where it runs, if not here: its `address`, and `prefix`, words to start it with."""

    gates = None  # see gates.py
    gate_port = None

    def __init__(self, number, folder, port, args, skew, place=None):
        self.number = number
        self.folder = os.path.join(folder, "m%d" % number)
        self.port = port
        self.args = args
        self.skew = skew
        self.address = place.address if place else "127.0.0.1"
        self.prefix = place.prefix if place else []
        self.process = None
        os.mkdir(self.folder)

    @property
    def host(self):
        """As the set's configuration and URIs name it."""
        return "127.0.0.1:%d" % self.gate_port if self.gate_port else "%s:%d" % (self.address, self.port)

    @property
    def pid(self):
        return self.process.pid

    @property
    def log(self):
        return os.path.join(self.folder, "log")

    def running(self):
        return self.process is not None and self.process.poll() is None

    def set_skew(self, seconds):
        """Moves the clock, within a second or so, of a member that was made with a skew."""
        self.skew = seconds
        path = os.path.join(self.folder, "faketime")
        with open(path + ".new", "w") as out:
            out.write("%+g\n" % seconds)
        os.replace(path + ".new", path)

    def move_clock(self, seconds):
        """Until it shows."""
        at = self.wait_hello()["localTime"] + datetime.timedelta(seconds=seconds)
        self.set_skew(self.skew + seconds)
        until(lambda: self.wait_hello()["localTime"] > at, 30, "the new time")

    def start(self, waits=True):
        """waits: until it answers."""
        env = dict(os.environ)
        if self.skew is not None:
            self.set_skew(self.skew)
            env.update(
                LD_PRELOAD=faketime_library(),
                FAKETIME_TIMESTAMP_FILE=os.path.join(self.folder, "faketime"),
                FAKETIME_CACHE_DURATION="1",
                FAKETIME_DONT_FAKE_MONOTONIC="1",
                FAKETIME_FORCE_MONOTONIC_FIX="0",  # with it an idle server spins
            )
        command = ["prlimit", "--nofile=%d:" % open_files(), "--"]
        command += ["setpriv", "--pdeathsig", "KILL", "--"] + self.prefix
        command += [mongod_path(), "--bind_ip", self.address]
        command += ["--port", str(self.port), "--dbpath", self.folder, "--logpath", self.log]
        command += ["--logappend", "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"]
        command += ["--setParameter", "enableTestCommands=1"]
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false"] + self.args
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        if self.gates:
            self.gates.know(self)
            self.gates.set(self, "pass")
        if waits:
            until(self.answers, 30, "mongod on %s to answer" % self.host)

    def answers(self):
        if not self.running():
            with open(self.log, errors="replace") as log:
                tail = "".join(log.readlines()[-5:])
            raise RuntimeError("mongod on %s ended at once:\n%s" % (self.host, tail))
        return self.hello() is not None

    def client(self, timeout_ms=5000):
        """A direct connection to this member only; the caller closes it (or uses `with`)."""
        return pymongo.MongoClient(self.address, self.port, directConnection=True,
                                   serverSelectionTimeoutMS=timeout_ms)

    def admin(self, command, value=1, **fields):
        with self.client() as client:
            return client.admin.command(command, value, **fields)

    def hello(self):
        """The member's answer to `hello`, or None if it does not answer within a second."""
        try:
            with pymongo.MongoClient(self.address, self.port, directConnection=True,
                                     serverSelectionTimeoutMS=1000, connectTimeoutMS=1000,
                                     socketTimeoutMS=1000) as client:
                return client.admin.command("hello")
        except PyMongoError:
            return None

    def wait_hello(self):
        return until(self.hello, 30, "an answer of %s" % self.host)

    def election(self):
        """Which election made it primary; None, if it is none."""
        return self.wait_hello().get("electionId")

    def end(self):
        if self.process is not None:
            if self.running():
                self.process.kill()
            self.process.wait()


class ReplicaSet:
    """
    members      how many servers (one that is no replica set with standalone=True)
    args         more arguments for every mongod; member_args: {number: [more]} for one of them
    skew         {number: seconds}: those members' clocks are that far ahead (0: can be moved later)
    election_ms  the set's electionTimeoutMillis; None: the server's default of 10 s
    places       where each member runs, if not here (see Member)
    gates        whether there is a proxy in front of each member, whose address is known in its place
    name, role   the set's name; "configsvr" or "shardsvr" for a part of a cluster (see cluster.py)
    arbiters     the numbers of members that only vote
    """

    def __init__(self, members=3, standalone=False, args=(), member_args=None, skew=None,
                 election_ms=None, places=None, name="rs0", role=None, gates=False, arbiters=()):
        members = 1 if standalone else members
        self.standalone = standalone
        self.name = name
        self.role = role
        self.arbiters = set(arbiters)
        self.election_ms = election_ms
        self.folder = tempfile.mkdtemp(prefix="holdfast-set-")
        atexit.register(self.stop)
        base = [] if standalone else ["--replSet", name, "--oplogSize", "64"]
        base += ["--" + role] if role else []
        self.members = [
            Member(i, self.folder, port, base + list(args) + (member_args or {}).get(i, []),
                   (skew or {}).get(i), places[i] if places else None)
            for i, port in enumerate(free_ports(members))
        ]
        self.gates = self._open_gates() if gates else None

    def _open_gates(self):
        ports = free_ports(len(self.members))
        gates = Gates(ports, [(member.address, member.port) for member in self.members])
        for member, member.gate_port in zip(self.members, ports):
            member.gates = gates
        return gates

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    @property
    def uri(self):
        return self.uri_for("")

    def uri_for(self, database, options=""):
        """The URI with a database in it, and more options: "w=majority&hfCollection=x"."""
        hosts = ",".join(m.host for m in self.members)
        wanted = [] if self.standalone else ["replicaSet=" + self.name]
        wanted += [options] if options else []
        return "mongodb://%s/%s%s" % (hosts, database, "?" + "&".join(wanted) if wanted else "")

    def start(self):
        for member in self.members:
            member.args += JOURNAL_OF_ONE if len(self.members) == 1 else []
            member.start()
        if not self.standalone:
            self._initiate()
        return self

    def _initiate(self):
        config = {"_id": self.name, "members": [
            dict({"_id": m.number, "host": m.host}, **{"arbiterOnly": True} if m.number in self.arbiters else {})
            for m in self.members]}
        if self.role == "configsvr":
            config["configsvr"] = True
        if self.election_ms is not None:
            config["settings"] = {"electionTimeoutMillis": self.election_ms}
        self.members[0].admin("replSetInitiate", config)
        until(lambda: self.step_up(self.members[0], wait=False), 60, "the first election")
        self.wait_primary()
        self.wait_secondaries()
        if self.role == "configsvr":  # has the databases config, admin and local only
            return
        with self.client() as client:
            client.get_database("holdfast_bed", write_concern=pymongo.WriteConcern("majority")
                                ).drop_collection("ready")

    def client(self, **options):
        return pymongo.MongoClient(self.uri, **options)

    def primary(self):
        """The member that says it is primary (the latest elected, if two do), or None: also where the
        machine is too slow for an answer within a second. See wait_primary()."""
        found = []
        for member in self.members:
            hello = member.hello() if member.running() else None
            if hello and hello.get("isWritablePrimary"):
                found.append((hello.get("electionId", bson.ObjectId(b"\0" * 12)), member.number))
        return self.members[max(found)[1]] if found else None

    def secondaries(self):
        return [m for m in self.members if m.running() and (m.hello() or {}).get("secondary")]

    def wait_secondary(self, number=0):
        """One of those that are not primary, when all are there."""
        self.wait_secondaries()
        primary = self.wait_primary()
        return [each for each in self.members if each is not primary][number]

    def wait_primary(self, timeout=60, other_than=None):
        def found():
            primary = self.primary()
            return primary if primary is not other_than else None
        return until(found, timeout, "a primary")

    def wait_secondaries(self, timeout=60):
        """Until every running member that has data is primary or secondary."""
        wanted = sum(m.running() and m.number not in self.arbiters for m in self.members) - 1
        return until(lambda: len(self.secondaries()) >= wanted, timeout, "the secondaries")

    def kill(self, member, sig=signal.SIGKILL):
        """Sends a signal. SIGKILL waits for the end; after SIGSTOP comes cont()."""
        member.process.send_signal(sig)
        if sig == signal.SIGKILL:
            member.process.wait()
            if self.gates:
                self.gates.set(member, "refuse")

    def cont(self, member):
        member.process.send_signal(signal.SIGCONT)

    def restart(self, member):
        """Ends the member, if it runs, and starts it again on its port and data."""
        member.end()
        member.start()

    def make_whole(self):
        """The gates let pass, what was stopped goes on, and what has ended is started again."""
        if self.gates:
            self.gates.heal()
        for member in self.members:
            if member.running():
                self.cont(member)
            else:
                member.start()
        self.wait_primary()
        self.wait_secondaries()

    def step_down(self, seconds=10):
        """The primary gives up its place; returns the next primary. On a slow machine that may be the
        same one, elected anew when its seconds are over."""
        old = self.wait_primary()
        before = old.election()
        old.admin("replSetStepDown", seconds, force=True)

        def found():
            primary = self.primary()
            return primary if primary and primary.election() not in (None, before) else None
        return until(found, 60, "another election")

    def step_up(self, member, wait=True):
        """Asks a member to become primary, e.g. one with a skewed clock. Returns it, or None."""
        try:
            member.admin("replSetStepUp")
        except PyMongoError:
            if wait:
                raise
            return None
        return until(lambda: member if self.primary() is member else None, 30, "the new primary") \
            if wait else member

    def fail_command(self, commands, mode=None, member=None, **data):
        """Makes the next such command fail, on the primary or a given member. `mode`:
        {"times": N} (default 1), "alwaysOn", {"skip": N}. `data` is failCommand's: errorCode=91,
        closeConnection=True, writeConcernError={"code": 91, "errmsg": "..."}, blockConnection=True
        with blockTimeMS=500, appName="...", errorLabels=[...]."""
        commands = [commands] if isinstance(commands, str) else list(commands)
        (member or self.wait_primary()).admin("configureFailPoint", "failCommand",
                                              mode=mode or {"times": 1},
                                              data=dict(data, failCommands=commands))

    def heal(self, member=None):
        """Turns failCommand off, everywhere or on one member."""
        for each in [member] if member else [m for m in self.members if m.running()]:
            each.admin("configureFailPoint", "failCommand", mode="off")

    def stop(self):
        for member in self.members:
            member.end()
        if self.gates:
            self.gates.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)


def until(claim, timeout, what):
    """Waits for a claim to give something true, and returns that."""
    timeout *= BUSY
    deadline = time.monotonic() + timeout
    while True:
        result = claim()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError("waited %g s for %s" % (timeout, what))
        time.sleep(0.05)


def free_ports(count):
    """Below the ephemeral range, so that no outgoing connection takes a stopped member's port."""
    ports, taken = [], []
    while len(ports) < count:
        probe = socket.socket()
        taken.append(probe)
        try:
            probe.bind(("127.0.0.1", random.randrange(20000, 32000)))
            ports.append(probe.getsockname()[1])
        except OSError:
            pass
    for probe in taken:
        probe.close()
    return ports


def mongod_path():
    if "HOLDFAST_MONGOD" not in os.environ:
        found = subprocess.run([os.path.join(BED, "get-mongod")], check=True,
                               stdout=subprocess.PIPE, universal_newlines=True)
        os.environ["HOLDFAST_MONGOD"] = found.stdout.strip()
    return os.environ["HOLDFAST_MONGOD"]


def faketime_library():
    folders = subprocess.run(["dpkg", "-L", "libfaketime"], check=True, stdout=subprocess.PIPE,
                             universal_newlines=True).stdout.split("\n")
    return next(path for path in folders if path.endswith(FAKETIME))
