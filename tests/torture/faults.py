# What a campaign does to clients and servers: each fault a class that injects and heals.
# SPDX-License-Identifier: Apache-2.0
"""
A fault is made with a random generator, from which it takes all its choices, and a bed: the
campaign, with .rs (the replica set), .network, .clients, .mongo, .ttl. It tells the bed what the
checker has to know: bed.shock() (from now on, recovery takes its time), bed.shock_servers() (the
same, where it is a server that was harmed), bed.trouble(from, to) (while it lasts nobody need
recover), bed.dropped(from, to). What an election costs is not told: the bed watches for itself
whether there is a primary that acknowledges writes.

`is_server`: one of those at a time. `lasts`: seconds between inject() and heal().
"""
import signal

from pymongo.errors import PyMongoError

from contest import boot_ns
from gates import AT_THE_DOOR, CLIENTS
from history import AFTERWARDS
from mongod import until
from repeated import Repeated

SERVICE_BEGINS_S = 60
SERVERS_OWN_ELECTION_MS = 10000
APPS = 4  # so many names do the clients' connections have: "torture-0" to "torture-3"


class Fault:
    is_server = False
    lasts = 0.0
    subject = None  # whom it befalls: one fault at a time

    def __init__(self, chance, bed):
        self.bed = bed
        self.choose(chance)

    def __str__(self):
        shown = {key: value for key, value in vars(self).items()
                 if isinstance(value, (int, float, str, list)) and value != ""}
        return "%s %s" % (type(self).__name__, " ".join("%s=%s" % each for each in shown.items()))

    def choose(self, chance):
        pass

    def inject(self):
        pass

    def heal(self):
        pass


class Quiet(Fault):
    """Nothing happens, for long enough to see which client does not recover or is harmed."""
    is_server = True

    def choose(self, chance):
        self.lasts = self.bed.ttl + 3.0 + AFTERWARDS


# ---- Clients ----

class OnAClient(Fault):
    """Mostly while it holds; every second time for about as long as its lease."""

    def choose(self, chance):
        self.number = chance.randrange(len(self.bed.clients))
        self.when = chance.choice(["holds", "holds", "any"])
        leases = chance.choice([chance.uniform(0.05, 2.5), chance.uniform(0.9, 1.4)])
        self.lasts = round(leases * self.bed.ttl, 2)

    @property
    def client(self):
        return self.bed.clients[self.number]

    @property
    def subject(self):
        return "client %d" % self.number

    def inject(self):
        if self.when == "holds":
            self.client.await_hold()


class KillClient(OnAClient):
    def choose(self, chance):
        super().choose(chance)
        self.lasts /= 4

    def inject(self):
        super().inject()
        self.client.kill()
        self.bed.shock()

    def heal(self):
        self.client.start()


class StopClient(OnAClient):
    def inject(self):
        super().inject()
        self.client.stop()
        self.bed.shock()

    def heal(self):
        self.client.cont()
        self.bed.shock()


def ways_between(host, others, way):
    """What the host sends ("out"), what it is sent ("in"), or both."""
    out, back = [(host, each) for each in others], [(each, host) for each in others]
    return {"out": out, "in": back}.get(way, out + back)


class CutClient(OnAClient):
    """Its packets to and from all servers are dropped, or in one direction only."""

    def choose(self, chance):
        super().choose(chance)
        self.way = chance.choice(["both", "both", "in", "out"])

    def inject(self):
        super().inject()
        theirs = self.bed.servers + [each.host for each in self.bed.services]
        self.cut = ways_between(self.client.host, theirs, self.way)
        self.client.is_off()
        self.bed.network.drop(self.cut)
        self.bed.shock()

    def heal(self):
        self.bed.network.heal(self.cut)
        self.client.is_on()
        self.bed.shock()

    def __str__(self):
        return "CutClient number=%d when=%s way=%s lasts=%s" % (self.number, self.when, self.way,
                                                                self.lasts)


class RepeatBeats(OnAClient):
    """Another process beats for its sessions, as a copy of its machine does that goes on beside it. It loses
    them, and what it held stays theirs for as long as they are beaten."""
    REST_S = 0.2

    def choose(self, chance):
        super().choose(chance)
        self.number = chance.choice([n for n, each in enumerate(self.bed.clients) if each.has_sessions])
        self.lasts = round(chance.uniform(0.3, 1.5) * self.bed.ttl, 2)

    def inject(self):
        super().inject()
        self.began = boot_ns()
        self.client.is_off()
        self.ids = []
        self.beat(find=True)
        self.bed.note("%d sessions of %s are beaten by another" % (len(self.ids), self.client.who))
        self.beating = Repeated(self.beat, self.REST_S)
        self.bed.shock()

    def beat(self, find=False):
        sessions = self.bed.mongo.holdfast["holdfast.sessions"]
        try:
            if find:
                self.ids = sessions.distinct("_id", {"pid": self.client.process.pid})
            sessions.update_many({"_id": {"$in": self.ids}}, {"$inc": {"beat": 1}})
        except PyMongoError as error:
            self.bed.note("beating failed: %s" % error)

    def heal(self):
        self.beating.end()
        self.beating.join(30)
        self.client.is_on()
        self.bed.trouble(self.began, boot_ns())
        self.bed.shock()

    def __str__(self):
        return "RepeatBeats number=%d when=%s lasts=%s" % (self.number, self.when, self.lasts)


# ---- Services ----

class OnAService(Fault):
    """The other one goes on meanwhile."""

    def choose(self, chance):
        self.number = chance.randrange(len(self.bed.services))
        self.lasts = round(chance.choice([chance.uniform(0.05, 1), chance.uniform(0.9, 2)])
                           * self.bed.ttl, 2)

    @property
    def service(self):
        return self.bed.services[self.number]

    @property
    def subject(self):
        return "service %d" % self.number


class KillService(OnAService):
    def inject(self):
        self.service.kill()
        self.bed.shock()

    def heal(self):
        self.service.start()
        self.service.await_begin(SERVICE_BEGINS_S)
        self.bed.shock()


class StopService(OnAService):
    def inject(self):
        self.service.stop()
        self.bed.shock()

    def heal(self):
        self.service.cont()
        self.bed.shock()


class CutService(OnAService):
    """From the store, or from its clients; or it is heard by them and hears nothing."""

    def choose(self, chance):
        super().choose(chance)
        self.way = chance.choice(["store", "clients", "in", "out"])

    def inject(self):
        clients = [each.host for each in self.bed.clients]
        others = {"store": self.bed.servers, "clients": clients}.get(
            self.way, self.bed.servers + clients)
        self.cut = ways_between(self.service.host, others, self.way)
        self.service.is_off()
        self.bed.network.drop(self.cut)
        self.bed.shock()

    def heal(self):
        self.bed.network.heal(self.cut)
        self.service.is_on()
        self.bed.shock()

    def __str__(self):
        return "CutService number=%d way=%s lasts=%s" % (self.number, self.way, self.lasts)


# ---- Servers ----

class OnAServer(Fault):
    is_server = True

    def choose(self, chance):
        self.which = chance.randrange(2)  # of the secondaries
        self.lasts = round(chance.uniform(0.5, 8), 2)

    def primary(self):
        return self.bed.rs.wait_primary()

    def secondary(self):
        self.primary()
        those = until(self.bed.rs.secondaries, 60, "a secondary")
        return those[self.which % len(those)]

    def victim(self):
        return self.primary()


class KillPrimary(OnAServer):
    def inject(self):
        self.member = self.victim()
        self.bed.rs.kill(self.member)
        self.bed.shock_servers()

    def heal(self):
        self.member.start()
        self.bed.shock_servers()


class KillSecondary(KillPrimary):
    def victim(self):
        return self.secondary()


class StopPrimary(OnAServer):
    def inject(self):
        self.member = self.victim()
        self.bed.rs.kill(self.member, signal.SIGSTOP)
        self.bed.shock_servers()

    def heal(self):
        self.bed.rs.cont(self.member)
        self.bed.shock_servers()


class StopSecondary(StopPrimary):
    def victim(self):
        return self.secondary()


class StepDown(OnAServer):
    def inject(self):
        try:
            self.primary().admin("replSetStepDown", 5, secondaryCatchUpPeriodSecs=1, force=True)
        except PyMongoError as error:
            self.bed.note("the step-down failed: %s" % error)
        self.bed.shock_servers()

    def choose(self, chance):
        super().choose(chance)
        self.lasts = min(self.lasts, 3)


class ClockAhead(OnAServer):
    """The member whose clock is 25 s ahead becomes primary; perhaps it is that already."""

    def inject(self):
        ahead = self.bed.rs.members[self.bed.AHEAD]
        for _ in range(20):
            if self.bed.rs.primary() is ahead or self.bed.rs.step_up(ahead, wait=False):
                break
        self.bed.shock_servers()


class CutPrimary(OnAServer):
    """From the other members only, so that clients still talk to it; from everybody; or it is heard
    and hears nothing."""

    def choose(self, chance):
        super().choose(chance)
        self.lasts = round(chance.uniform(1, 10), 2)
        self.way = chance.choice(["members", "all", "deaf"])

    def inject(self):
        member = self.primary()
        host = self.bed.servers[member.number]
        others = [each for each in self.bed.servers if each is not host]
        clients = [each.host for each in self.bed.clients + self.bed.services]
        self.cut = [(other, host) for other in others]
        if self.way != "deaf":
            self.cut += [(host, other) for other in others]
        if self.way == "all":
            self.cut += [(host, each) for each in clients] + [(each, host) for each in clients]
        self.bed.network.drop(self.cut)
        self.bed.shock_servers()

    def heal(self):
        self.bed.network.heal(self.cut)
        self.bed.shock_servers()

    def __str__(self):
        return "CutPrimary way=%s lasts=%s" % (self.way, self.lasts)


class LateEnter(OnAServer):
    """The primary is stopped, without an election, for longer than a client waits for an answer:
    what is in its sockets is carried out when it goes on (R8)."""

    def choose(self, chance):
        self.lasts = round(chance.uniform(5.5, 8), 2)

    def inject(self):
        self.began = boot_ns()
        self.set_election_ms(30000)
        self.member = self.primary()
        self.bed.rs.kill(self.member, signal.SIGSTOP)

    def heal(self):
        self.bed.rs.cont(self.member)
        self.bed.rs.wait_primary()
        self.set_election_ms(self.bed.election_ms or SERVERS_OWN_ELECTION_MS)
        self.bed.trouble(self.began, boot_ns())
        self.bed.shock_servers()

    def set_election_ms(self, ms):
        def done():
            try:
                primary = self.primary()
                config = primary.admin("replSetGetConfig")["config"]
                config["version"] += 1
                config["settings"]["electionTimeoutMillis"] = ms
                primary.admin("replSetReconfig", config, maxTimeMS=5000)
                return True
            except PyMongoError:
                return False
        until(done, 60, "a new election time-out")


# ---- Gates ----

class AtAGate(OnAServer):
    """The weather at the gate of a member (gates.py), for clients or for all."""
    WEATHERS = {
        "silence": [{"way": "both"}, {"way": "in"}, {"way": "out"}],
        "swallow": [{}], "lost": [{}], "refuse": [{}],
        "delay": [{"seconds": 0.02}, {"seconds": 0.15}, {"seconds": 0.4}],
        "trickle": [{}], "garbage": [{}],
        "still": [{"seconds": 0.5, "every": 2}, {"seconds": 2, "every": 5}],
    }

    def choose(self, chance):
        super().choose(chance)
        self.role = chance.choice(["primary", "secondary"])
        self.fault = chance.choice(sorted(self.WEATHERS))
        self.details = chance.choice(self.WEATHERS[self.fault])
        for_clients = chance.random() < 0.5 and self.fault not in AT_THE_DOOR
        self.sources = [CLIENTS] if for_clients else None

    def __str__(self):
        return "AtAGate role=%s fault=%s details=%s sources=%s lasts=%s" % (
            self.role, self.fault, self.details, self.sources, self.lasts)

    def inject(self):
        member = self.primary() if self.role == "primary" else self.secondary()
        self.began = boot_ns()
        self.bed.rs.gates.set(member, self.fault, sources=self.sources, **self.details)
        self.bed.shock_servers()

    def heal(self):
        self.bed.rs.gates.heal()
        if self.role == "primary":  # as long as it is that, nobody reaches another one
            self.bed.rs.wait_primary()
            self.bed.trouble(self.began, boot_ns())
        self.bed.shock_servers()


class CutOffPrimary(OnAServer):
    """From everybody, by the gates; or its connections are reset, once."""

    def choose(self, chance):
        super().choose(chance)
        self.how = chance.choice(["off", "off", "reset"])

    def inject(self):
        gates, member = self.bed.rs.gates, self.primary()
        (gates.cut_off if self.how == "off" else gates.cut)(member)
        self.bed.shock_servers()

    def heal(self):
        self.bed.rs.gates.heal()
        self.bed.shock_servers()


# ---- Messages ----

WRITES = ["findAndModify", "insert", "update", "delete"]
READS = ["find", "aggregate", "getMore"]
KINDS = {
    "lost requests and replies": (WRITES + READS, {"closeConnection": True}),
    "writes not acknowledged": (WRITES, {"writeConcernError": {"code": 91, "errmsg": "shutdown"}}),
    "writes not acknowledged in time": (WRITES, {"writeConcernError": {
        "code": 64, "errmsg": "waiting for replication timed out"}}),
    "interrupted": (WRITES + READS, {"errorCode": 11602}),
    "no primary": (WRITES + READS, {"errorCode": 10107}),
    "slow": (WRITES + READS, {"blockConnection": True, "blockTimeMS": 700}),
    "slower than clients wait": (["findAndModify"],
                                 {"blockConnection": True, "blockTimeMS": 6500}),
}


class Messages(Fault):
    """failCommand on every member, at random, for a quarter of the clients."""
    is_server = True

    def choose(self, chance):
        self.kind = chance.choice(sorted(KINDS))
        self.app = "torture-%d" % chance.randrange(APPS)
        self.probability = round(chance.choice([0.05, 0.2, 0.6]), 2)
        self.lasts = round(chance.uniform(1, 2 * self.bed.ttl), 2)

    def inject(self):
        commands, data = KINDS[self.kind]
        self.began = boot_ns()
        for member in self.bed.rs.members:
            try:
                self.bed.rs.fail_command(commands, {"activationProbability": self.probability},
                                         member, appName=self.app, **data)
            except PyMongoError as error:  # a busy machine
                self.bed.note("%s fails no commands: %s" % (member.number, error))

    def is_healed(self):
        try:
            self.bed.rs.heal()
            return True
        except PyMongoError:
            return False

    def heal(self):
        until(self.is_healed, 60, "all members to carry out commands again")
        late = 7 if "slow" in self.kind else 0  # what it blocks goes on blocking
        self.bed.trouble(self.began, boot_ns() + late * 1_000_000_000)


# ---- Data ----

class DropLocks(Fault):
    name = "holdfast.locks"

    def inject(self):
        began = boot_ns()
        try:
            self.bed.mongo.holdfast.drop_collection(self.name)
        except PyMongoError as error:
            self.bed.note("dropping %s failed: %s" % (self.name, error))
        self.happened(began, boot_ns())

    def happened(self, began, ended):
        self.bed.dropped(began, ended)
        self.bed.shock()


class DropSessions(DropLocks):
    """Excuses no belief: a session that is missing is not dead before it was missing for its ttl.
    But a lease's renewal does not find it, and its key names a new one."""
    name = "holdfast.sessions"

    def happened(self, began, ended):
        self.bed.lost_sessions(began, ended)
        self.bed.shock()


class DropBells(DropLocks):
    """Costs notices only, so it excuses nothing but a late wake-up."""

    def inject(self):
        began = boot_ns()
        database = self.bed.mongo.holdfast
        try:
            for name in database.list_collection_names(filter={"name": {"$regex": "bells"}}):
                database.drop_collection(name)
        except PyMongoError as error:
            self.bed.note("dropping the bells failed: %s" % error)
        self.happened(began, boot_ns())

    def happened(self, began, ended):
        self.bed.shock()


class Foreign(Fault):
    """Something of another program's stands where locks are kept: nothing is granted, and what is refused is
    told as unusable, until it is gone."""
    is_server = True
    TRIES = 50  # clients make a dropped collection anew at once

    def choose(self, chance):
        self.lasts = round(chance.uniform(0.3, 1.5) * self.bed.ttl, 2)

    def inject(self):
        self.began = boot_ns()
        self.stands = any(self.tries_to_stand() for _ in range(self.TRIES))
        self.happened(self.began, boot_ns())
        if not self.stands:
            self.bed.note("clients were faster")

    def tries_to_stand(self):
        try:
            self.stand(self.bed.mongo.holdfast)
            return True
        except PyMongoError:
            return False

    def is_gone(self):
        try:
            self.leave(self.bed.mongo.holdfast)
            return True
        except PyMongoError:
            return False

    def heal(self):
        if self.stands:
            until(self.is_gone, 60, "what is foreign to go")
        self.bed.trouble(self.began, boot_ns())
        self.bed.hindered(self.began, boot_ns())
        self.bed.shock_servers()


class ForeignIndex(Foreign):
    """A unique index by which a host has one session at most."""

    def stand(self, database):
        database.drop_collection("holdfast.sessions")
        database["holdfast.sessions"].create_index("host", unique=True, name="theirs")

    def leave(self, database):
        database["holdfast.sessions"].drop_index("theirs")

    def happened(self, began, ended):
        self.bed.lost_sessions(began, ended)
        self.bed.shock_servers()


class ForeignCollection(Foreign):
    """A view where the locks were."""

    def stand(self, database):
        database.drop_collection("holdfast.locks")
        database.command("create", "holdfast.locks", viewOn="other", pipeline=[])

    def leave(self, database):
        database.drop_collection("holdfast.locks")

    def happened(self, began, ended):
        self.bed.dropped(began, ended)
        self.bed.shock_servers()


# ---- SQLite ----

class FullDisk(Fault):
    """The file system with the locks' file is filled up."""
    is_server = True

    def choose(self, chance):
        self.lasts = round(chance.uniform(0.5, 2 * self.bed.ttl), 2)

    def inject(self):
        self.began = boot_ns()
        self.bed.fill_disk()

    def heal(self):
        self.bed.empty_disk()
        self.bed.trouble(self.began, boot_ns())
        self.bed.shock_servers()


ON_CLIENTS = [KillClient, StopClient]
ON_SERVICES = [KillService, StopService]
ON_A_SET = [KillPrimary, StopPrimary, KillSecondary, StopSecondary, StepDown, ClockAhead, LateEnter,
            Messages, Messages, DropLocks, DropSessions, DropBells, ForeignIndex, ForeignCollection,
            RepeatBeats, Quiet]
AT_GATES = [AtAGate] * 6 + [CutOffPrimary] * 2
BETWEEN_HOSTS = [CutClient, CutService, CutPrimary, CutPrimary]
ON_SQLITE = [FullDisk, Quiet]
