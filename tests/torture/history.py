# What the histories of a fault campaign say: turns, calls and breaks, the conditions under which
# they happened, and the report that is made of them. checker.py judges them.
# SPDX-License-Identifier: Apache-2.0
import collections
import dataclasses
import json

NS = 1_000_000_000
CALM = 1.0  # seconds past a deadline, with nothing wrong
# A call takes 6 s (1 to connect, 5 for an answer), and so do the beginning of a session before it,
# the give-back and its confirmation.
TROUBLED = 26.0
IN_TROUBLE = {"HF_UNREACHABLE", "HF_UNKNOWN", "HF_READONLY", "HF_FULL"}
HINDERED = {"HF_UNUSABLE", "HF_SHAPE"}  # something foreign stands where locks are kept
AFTERWARDS = 6.0  # so long a fault is felt: a call that was under way


@dataclasses.dataclass
class Write:
    counter: str
    value: int
    at: int
    code: str = "HF_UNKNOWN"  # until its outcome is known
    done: int = None


@dataclasses.dataclass
class Call:
    """One request to a service. `kind`: acquire, repeat (the same with the same key), changed
    (another body with the same key), renew, release, misnamed (the right secret, another lock's
    name)."""
    kind: str
    service: str
    sent: int
    patience_ms: int  # of the client; then it hangs up
    wait_ms: int = 0  # what it asked the service to wait
    answered: int = None  # or hung up
    status: int = 0  # 0: there was no answer
    code: str = "NO_ANSWER"
    text: str = ""
    lease: str = None
    token: int = None
    expires_in_ms: int = 0

    @property
    def acquires(self):
        return self.kind in ("acquire", "repeat", "changed")

    @property
    def has_lease(self):
        """Its answer says that the lease is there."""
        return self.status in (200, 201) and self.kind != "misnamed"

    @property
    def lease_end(self):
        """Until then the lease lives for sure: it had so much left when this was sent, or later."""
        return self.sent + self.expires_in_ms * 1_000_000 if self.has_lease else 0

    def __str__(self):
        return "%s at %s, sent %s, answered %s with %d %s" % (
            self.kind, self.service, seconds(self.sent), seconds(self.answered), self.status,
            self.code)


@dataclasses.dataclass
class Break:
    """A lock is taken from the holder with this token (0: from all holders)."""
    lock: str
    token: int
    forced: bool
    sent: int
    answered: int = None
    done: bool = False
    tokens: list = dataclasses.field(default_factory=list)  # of whom it was taken
    who: str = ""  # took it


@dataclasses.dataclass(eq=False)
class Turn:
    """One acquire and what came of it. Times that did not come are None."""
    who: str
    lock: str
    permits: int
    limit: int
    wait_ms: int
    asked: int
    refused: int = None
    code: str = None
    granted: int = None
    token: int = None
    previous: int = None
    previous_token: int = None
    since: int = None  # believed from: the first moment at which hf_lock_check() said HF_OK
    until: int = None  # ... and the last one
    released: int = None  # the release's answer came
    release_code: str = None
    is_certain: bool = True  # whether its release came before it can have run out
    readable: int = -1  # the descriptor of the lost lock: 1, 0, or -1 for not looked at
    writes: list = dataclasses.field(default_factory=list)
    lost: int = None  # when it was told so
    group: int = 0  # the first turn of those that were taken together
    longest_silence: int = 0  # between two looks whether it is believed in
    let_go: int = None  # its release, or its closing, began
    feed_ms: int = 0  # what must be fed so often
    fed: int = None  # the last time, at the latest; also that it was granted
    fed_from: int = None  # ... and at the earliest
    unfed: int = None  # the first moment at which it was believed in for too long
    has_run: bool = None  # what is to be done once: whether it was told that it is done
    is_done: bool = False  # ... and it did it, and will say so with its release
    is_lease: bool = False  # taken over HTTP
    key: str = ""
    ttl_ms: int = 0
    calls: dict = dataclasses.field(default_factory=dict)  # of a lease, by number

    @property
    def ended(self):
        return self.granted or self.refused

    @property
    def is_alone(self):
        return self.permits == self.limit

    def __str__(self):
        return "%s on %s, token %s, %d of %d, asked %s, believed %s to %s" % (
            self.who, self.lock, self.token, self.permits, self.limit, seconds(self.asked),
            seconds(self.since), seconds(self.until))


class History:
    """One client, from its start to its end. `who` names it in Conditions too."""

    def __init__(self, who, events):
        self.who = who
        self.turns, self.last, self.ttl_ms, self.close_ms = [], None, None, None
        self.by_number, self.breaks = {}, {}
        self.leaders = []  # of each observation of who leads: the tokens that it told
        for event in events:
            self.last = event["at"]
            getattr(self, "on_" + event["event"])(event)

    @classmethod
    def read(cls, who, path):
        """The last line may have been cut short by a SIGKILL; so early that there is no file."""
        try:
            with open(path) as stream:
                lines = stream.read().split("\n")
        except FileNotFoundError:
            lines = []
        return cls(who, [json.loads(line) for line in lines[:-1]])

    def on_begin(self, event):
        self.ttl_ms = event["ttl_ms"]

    def on_end(self, event):
        self.close_ms = event["close_ms"]

    def on_ask(self, event):
        turn = Turn("%s.%d/%d" % (self.who, event["thread"], event["turn"]), event["lock"],
                    event["permits"], event["limit"], event["wait_ms"], event["at"])
        turn.group = event.get("group", 0)
        if "key" in event:
            turn.is_lease, turn.key, turn.ttl_ms = True, event["key"], event["ttl_ms"]
        self.by_number[event["thread"], event["turn"]] = turn
        self.turns.append(turn)

    def turn_of(self, event):
        return self.by_number[event["thread"], event["turn"]]

    def on_refused(self, event):
        turn = self.turn_of(event)
        turn.refused, turn.code = event["at"], event["code"]

    def on_granted(self, event):
        turn = self.turn_of(event)
        turn.granted, turn.token = event["at"], event["token"]
        turn.previous, turn.previous_token = event["previous"], event["previous_token"]
        turn.feed_ms, turn.fed, turn.fed_from = event.get("feed_ms", 0), event["at"], turn.asked

    def on_believes(self, event):
        turn = self.turn_of(event)
        looked = turn.until or turn.granted or event["at"]
        turn.longest_silence = max(turn.longest_silence, event["at"] - looked)
        if event["until"]:
            turn.since = turn.since or event["until"]
            turn.until = event["until"]
            if turn.feed_ms and turn.until > turn.fed + turn.feed_ms * 1_000_000:
                turn.unfed = turn.unfed or turn.until

    on_leave = on_believes

    def on_release(self, event):
        self.on_believes(event)
        self.turn_of(event).let_go = event["at"]

    on_close = on_release

    def on_lost(self, event):
        self.on_believes(event)
        turn = self.turn_of(event)
        turn.lost, turn.readable = event["at"], event["readable"]

    def on_fed(self, event):
        if event["code"] == "HF_OK":
            turn = self.turn_of(event)
            turn.fed, turn.fed_from = event["at"], event.get("from", turn.fed)

    def on_work(self, event):
        self.turn_of(event).has_run = bool(event["has_run"])

    def on_done(self, event):
        self.turn_of(event).is_done = True

    def on_released(self, event):
        turn = self.turn_of(event)
        turn.released, turn.release_code = event["at"], event["code"]
        turn.is_certain = event.get("is_certain", True)

    def on_write(self, event):
        self.turn_of(event).writes.append(
            Write(event["counter"], event["value"], event["at"]))

    def on_written(self, event):
        write = self.turn_of(event).writes[-1]
        write.code, write.done = event["code"], event["at"]

    def on_unread(self, event):
        pass

    def on_observes(self, event):
        self.leaders.append([])

    def on_leads(self, event):
        if event["token"]:
            self.leaders[-1].append(event["token"])

    # ---- Over HTTP ----

    def on_call(self, event):
        self.turn_of(event).calls[event["n"]] = Call(
            event["kind"], "s%d" % event["service"], event["at"], event["patience_ms"],
            event.get("wait_ms", 0))

    def on_answer(self, event):
        call = self.turn_of(event).calls[event["n"]]
        call.answered, call.status, call.code = event["at"], event["status"], event["code"]
        call.lease, call.token = event.get("lease"), event.get("token")
        call.expires_in_ms, call.text = event.get("expires_in_ms", 0), event.get("text", "")

    def on_break(self, event):
        self.breaks[event["n"]] = Break(event["lock"], event["token"], event["forced"], event["at"],
                                        who=self.who)

    def on_broken(self, event):
        one = self.breaks[event["n"]]
        one.answered, one.done, one.tokens = event["at"], event["done"], event["tokens"]


@dataclasses.dataclass
class Snapshot:
    """What holds a lock, by a linearizable read that began at `at` and was answered then: for each
    ticket the first and the last token of its block. A ticket that threads of one client pass on
    has the first."""
    at: int
    lock: str
    blocks: list
    answered: int = None


@dataclasses.dataclass
class Conditions:
    """What was done to the clients, and what was found at the end."""
    ttl: float  # the longest
    until: int  # when the histories were read
    killed: dict = dataclasses.field(default_factory=dict)  # who: when
    pauses: dict = dataclasses.field(default_factory=dict)  # who: [(from, to)], also cut off
    shocks: list = dataclasses.field(default_factory=list)  # moments: a client killed, stopped
    server_shocks: list = dataclasses.field(default_factory=list)  # those of servers among them
    troubles: list = dataclasses.field(default_factory=list)  # [(from, to)]: nobody need recover
    drops: list = dataclasses.field(default_factory=list)  # [(from, to)] of dropping `locks`
    snapshots: list = dataclasses.field(default_factory=list)
    finals: dict = dataclasses.field(default_factory=dict)  # lock: its guarded counter
    plains: dict = dataclasses.field(default_factory=dict)  # lock: its unguarded counter
    lease_ttl: float = 0.0  # the longest of a lease
    forgotten: list = dataclasses.field(default_factory=list)  # [(from, to)] of dropping sessions
    hindrances: list = dataclasses.field(default_factory=list)  # [(from, to)]: see HINDERED
    held: dict = dataclasses.field(default_factory=dict)  # lock: by whom, after everybody had ended
    stalls: list = dataclasses.field(default_factory=list)  # [(from, to)]: the machine was busy
    crashed: list = dataclasses.field(default_factory=list)  # services that ended by themselves
    slack: float = 0.0  # seconds that a busy machine takes: for waits, never for safety

    def write(self, path):
        with open(path, "w") as out:
            json.dump(dataclasses.asdict(self), out)

    @classmethod
    def read(cls, path):
        with open(path) as stream:
            conditions = cls(**json.load(stream))
        conditions.snapshots = [Snapshot(**each) for each in conditions.snapshots]
        return conditions


@dataclasses.dataclass
class Report:
    complaints: list = dataclasses.field(default_factory=list)
    excused: list = dataclasses.field(default_factory=list)  # overlaps after `locks` was dropped
    figures: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def complain(self, about, text, *args):
        self.complaints.append("%s: %s" % (about, text % args if args else text))

    def kinds(self):
        return {each.split(":")[0] for each in self.complaints}

    def __str__(self):
        lines = ["%10d  %s" % (value, key) for key, value in sorted(self.figures.items())]
        lines += ["COMPLAINT " + each for each in self.complaints]
        return "\n".join(lines + ["%d complaints" % len(self.complaints)])


def seconds(ns):
    return "never" if ns is None else "%.6f" % (ns / NS)


def by_lock(turns):
    found = collections.defaultdict(list)
    for turn in turns:
        found[turn.lock].append(turn)
    return found


def client_of(turn):
    return turn.who.split(".")[0]


def client_thread(turn):
    return turn.who.split("/")[0]


def inside(spans, begin, end):
    return any(a <= end and begin <= b for a, b in spans)


def overlapping(spans, begin, end):
    return sum(max(0, min(b, end) - max(a, begin)) for a, b in spans)


def was_harmed(conditions, who, begin, end):
    """Something was done to the servers, or to those named in `who`; or the machine was busy."""
    if inside(conditions.stalls, begin, end):
        return True
    begin -= int(AFTERWARDS * NS)
    return (inside(conditions.troubles, begin, end)
            or any(inside(conditions.pauses.get(each, ()), begin, end) for each in who)
            or any(begin <= at <= end for at in conditions.server_shocks))


def says_trouble(code, conditions, begin, end):
    """Whether the code is one of those that trouble between these moments explains."""
    return code in IN_TROUBLE or (code in HINDERED and inside(conditions.hindrances, begin, end))


def is_calm(conditions, who, begin, end):
    """Nor was anything done to another client."""
    return not (was_harmed(conditions, who, begin, end)
                or any(begin - int(AFTERWARDS * NS) <= at <= end for at in conditions.shocks))
