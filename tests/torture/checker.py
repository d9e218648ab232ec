# Judges the histories of a fault campaign: what clients believed, from when until when, against
# what Holdfast promises. Pure: histories and what was done to them in, complaints out.
# SPDX-License-Identifier: Apache-2.0
"""
    report = check([History.read("c0", path), ...], Conditions(ttl=3, until=boot_ns(), ...))
    report.complaints            # [] or texts; report.figures counts what was seen

or  checker.py FOLDER            # of a campaign that was kept

A history is what torturer.c writes. Times in it, and in the conditions, are CLOCK_BOOTTIME in ns;
the members of Conditions that are lengths are in seconds. What is checked:

overlap    at no moment more permits were believed in than there are
token      no token is given twice; who asked after another was granted has a higher one; among
           those that exclude each other, the order of belief is that of the tokens
release    an acknowledged release took effect: the lock's record does not have the ticket any more,
           and the next holder is told "released"
deadline   nobody waits past its deadline
recovery   while somebody waits and nobody believes, a ttl and a second pass at most
counter    no guarded update is lost
end        every client that was not killed ended, and its closing was bounded
code       nobody got an answer that says that Holdfast is wrong
lost       the descriptor of a lost lock is readable
"""
import bisect
import collections
import dataclasses
import json
import os
import re
import sys

NS = 1_000_000_000
CALM = 1.0  # seconds past a deadline, with nothing wrong
# A call takes 6 s (1 to connect, 5 for an answer), and so do the give-back and its confirmation.
TROUBLED = 20.0
CLOSING = 10.5  # what hf_close() may take: 4 s for releases, 5 s for a call under way, the rest
AFTERWARDS = 6.0  # so long a fault is felt: a call that was under way
RELEASED = 1  # HF_OUTCOME_RELEASED
EXPECTED = {"HF_HELD", "HF_TIMEOUT"}
IN_TROUBLE = {"HF_UNREACHABLE", "HF_UNKNOWN", "HF_READONLY", "HF_FULL"}


@dataclasses.dataclass
class Write:
    counter: str
    value: int
    at: int
    code: str = "HF_UNKNOWN"  # until its outcome is known


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
    readable: int = -1  # the descriptor of the lost lock: 1, 0, or -1 for not looked at
    writes: list = dataclasses.field(default_factory=list)

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
        self.current = {}
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
        self.current[event["thread"]] = turn
        self.turns.append(turn)

    def on_refused(self, event):
        turn = self.current[event["thread"]]
        turn.refused, turn.code = event["at"], event["code"]

    def on_granted(self, event):
        turn = self.current[event["thread"]]
        turn.granted, turn.token = event["at"], event["token"]
        turn.previous, turn.previous_token = event["previous"], event["previous_token"]

    def on_believes(self, event):
        turn = self.current[event["thread"]]
        if event["until"]:
            turn.since = turn.since or event["until"]
            turn.until = event["until"]

    on_release = on_close = on_believes

    def on_lost(self, event):
        self.on_believes(event)
        self.current[event["thread"]].readable = event["readable"]

    def on_released(self, event):
        turn = self.current[event["thread"]]
        turn.released, turn.release_code = event["at"], event["code"]

    def on_write(self, event):
        self.current[event["thread"]].writes.append(
            Write(event["counter"], event["value"], event["at"]))

    def on_written(self, event):
        self.current[event["thread"]].writes[-1].code = event["code"]

    def on_unread(self, event):
        pass


@dataclasses.dataclass
class Snapshot:
    """What holds a lock, by a linearizable read that began at `at`: for each ticket the first and
    the last token of its block. A ticket that threads of one client pass on has the first."""
    at: int
    lock: str
    blocks: list


@dataclasses.dataclass
class Conditions:
    """What was done to the clients, and what was found at the end."""
    ttl: float  # the longest
    until: int  # when the histories were read
    killed: dict = dataclasses.field(default_factory=dict)  # who: when
    pauses: dict = dataclasses.field(default_factory=dict)  # who: [(from, to)], also cut off
    shocks: list = dataclasses.field(default_factory=list)  # moments: a client killed, stopped
    troubles: list = dataclasses.field(default_factory=list)  # [(from, to)]: nobody need recover
    drops: list = dataclasses.field(default_factory=list)  # [(from, to)] of dropping `locks`
    snapshots: list = dataclasses.field(default_factory=list)
    finals: dict = dataclasses.field(default_factory=dict)  # lock: its guarded counter
    plains: dict = dataclasses.field(default_factory=dict)  # lock: its unguarded counter
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


def check(histories, conditions):
    report = Report()
    turns = [turn for history in histories for turn in history.turns]
    for lock, those in sorted(by_lock(turns).items()):
        granted = [turn for turn in those if turn.granted]
        check_overlap(report, granted, conditions)
        check_tokens(report, granted, conditions)
        check_releases(report, granted)
        check_counter(report, lock, granted, conditions)
        check_recovery(report, lock, those, conditions)
        count_plain(report, lock, granted, conditions)
    check_snapshots(report, turns, conditions)
    for history in histories:
        check_deadlines(report, history, conditions)
        check_end(report, history, conditions)
    check_codes(report, turns, conditions)
    count(report, turns)
    return report


# ---- Safety ----

def check_overlap(report, turns, conditions):
    edges = []
    for turn in turns:
        if turn.since is not None:
            edges.append((turn.since, 1, turn))
            edges.append((turn.until, 2 if turn.until == turn.since else 0, turn))
    holding, began = set(), None
    for at, edge, turn in sorted(edges, key=lambda each: each[:2]):
        if edge == 1:
            holding.add(turn)
        if began and edge != 1:
            judge_overlap(report, began, at, sorted(map(str, holding)), conditions)
            began = None
        if edge != 1:
            holding.discard(turn)
        if sum(each.permits for each in holding) > turn.limit:
            began = began or at


def judge_overlap(report, began, ended, holding, conditions):
    """Who holds when `locks` is dropped believes until it has looked again: within a ttl, and at
    most a third of one until it looks."""
    for dropped, done in conditions.drops:
        if dropped <= began and ended <= done + (conditions.ttl * 4 / 3 + 0.5) * NS:
            report.excused.append("from %s to %s: %s" % (seconds(began), seconds(ended), holding))
            return
    report.complain("overlap", "from %s for %.6f s believed at once: %s", seconds(began),
                    (ended - began) / NS, "; ".join(holding))


def check_tokens(report, turns, conditions):
    for token, n in collections.Counter(turn.token for turn in turns).items():
        if n > 1:
            report.complain("token", "%d was given %d times: %s", token, n,
                            "; ".join(str(each) for each in turns if each.token == token))
    check_tokens_by_time(report, turns)
    check_tokens_by_belief(report, turns, conditions)


def check_tokens_by_time(report, turns):
    ordered = sorted(turns, key=lambda turn: turn.granted)
    times = [turn.granted for turn in ordered]
    highest = running_best(ordered, lambda a, b: a.token > b.token)
    for turn in turns:
        earlier = bisect.bisect_left(times, turn.asked)
        if earlier and highest[earlier - 1].token >= turn.token:
            report.complain("token", "fell: %s asked after %s was granted", turn,
                            highest[earlier - 1])


def check_tokens_by_belief(report, turns, conditions):
    """Those who exclude each other believe in the order of their tokens."""
    ordered = sorted((turn for turn in turns if turn.since), key=lambda turn: turn.since)
    highest = running_best(ordered, lambda a, b: a.token > b.token)
    lowest = running_best(ordered[::-1], lambda a, b: a.token < b.token)[::-1]
    for i, turn in enumerate(ordered):
        if not turn.is_alone:
            continue
        if i and highest[i - 1].token > turn.token:
            judge_order(report, highest[i - 1], turn, conditions)
        if i + 1 < len(ordered) and lowest[i + 1].token < turn.token:
            judge_order(report, turn, lowest[i + 1], conditions)


def judge_order(report, first, second, conditions):
    begin = min(first.asked, second.asked)
    if not any(drop <= second.since and begin <= done for drop, done in conditions.drops):
        report.complain("token", "out of order: %s came before %s", first, second)


def running_best(turns, is_better):
    best = []
    for turn in turns:
        best.append(turn if not best or is_better(turn, best[-1]) else best[-1])
    return best


def client_of(turn):
    return turn.who.split(".")[0]


def lost_by_an_heir(turns, before, after):
    """Another thread of its client had the lock with the same ticket, and lost it: the database knows
    the first token of that ticket only."""
    return any(client_of(turn) == client_of(before) and turn.lock == before.lock and turn.token and
               before.token < turn.token < after.token and turn.release_code != "HF_OK"
               for turn in turns)


def check_releases(report, turns):
    acknowledged = {turn.token: turn for turn in turns if turn.release_code == "HF_OK"}
    for turn in turns:
        before = acknowledged.get(turn.previous_token)
        if before and turn.previous != RELEASED and not lost_by_an_heir(turns, before, turn):
            report.complain("release", "%s was acknowledged as released, %s was told that it was "
                            "abandoned", before, turn)


def check_snapshots(report, turns, conditions):
    """Who was killed may have passed its ticket on, and not lived to say so."""
    report.figures["snapshots"] = len(conditions.snapshots)
    granted = {lock: sorted((turn for turn in those if turn.token), key=lambda turn: turn.token)
               for lock, those in by_lock(turns).items()}
    tokens = {lock: [turn.token for turn in those] for lock, those in granted.items()}
    for snapshot in conditions.snapshots:
        for first, last in snapshot.blocks:
            at = bisect.bisect(tokens.get(snapshot.lock, []), last) - 1
            turn = granted[snapshot.lock][at] if at >= 0 else None
            if (turn and turn.token >= first and turn.release_code == "HF_OK" and turn.released < snapshot.at
                    and client_of(turn) not in conditions.killed):
                report.complain("release", "%s was acknowledged as released at %s, and was there "
                                "at %s", turn, seconds(turn.released), seconds(snapshot.at))


# ---- The counters ----

def check_counter(report, lock, turns, conditions):
    """In the order of tokens, what was acknowledged rises; all of it is in the counter's value."""
    best, done, unknown = None, 0, 0
    for turn in sorted(turns, key=lambda each: each.token):
        for write in turn.writes:
            if write.counter != "guarded":
                continue
            if best and write.value <= best[0] and write.code in ("HF_OK", "HF_UNKNOWN"):
                report.complain("counter", "%s wrote %d (%s), after %s wrote %d", turn,
                                write.value, write.code, best[1], best[0])
            done += write.code == "HF_OK"
            unknown += write.code == "HF_UNKNOWN"
            report.figures["guarded writes refused"] += write.code == "HF_FENCED"
            if write.code == "HF_OK":
                best = (write.value, turn)
    report.figures["guarded updates"] += done
    final = conditions.finals.get(lock)
    if final is not None and not done <= final <= done + unknown:
        report.complain("counter", "%s is %d after %d acknowledged updates and %d unknown ones",
                        lock, final, done, unknown)


def count_plain(report, lock, turns, conditions):
    """What only the lock protects: a paused holder may write late. Counted, not complained of."""
    codes = collections.Counter(write.code for turn in turns for write in turn.writes
                                if write.counter == "plain")
    report.figures["unguarded updates"] += codes["HF_OK"]
    final = conditions.plains.get(lock)
    if final is not None:
        report.figures["unguarded updates lost"] += max(0, codes["HF_OK"] - final)


# ---- Liveness ----

def inside(spans, begin, end):
    return any(a <= end and begin <= b for a, b in spans)


def overlapping(spans, begin, end):
    return sum(max(0, min(b, end) - max(a, begin)) for a, b in spans)


def is_calm(conditions, who, begin, end):
    begin -= int(AFTERWARDS * NS)
    return not (inside(conditions.troubles, begin, end)
                or inside(conditions.pauses.get(who, ()), begin, end)
                or any(begin <= at <= end for at in conditions.shocks))


def check_deadlines(report, history, conditions):
    pauses = conditions.pauses.get(history.who, [])
    for turn in history.turns:
        ended = turn.ended or conditions.killed.get(history.who)
        if turn.wait_ms == 0:
            continue  # for ever: recovery and end are checked
        if ended is None:
            ended = conditions.until
        calm = is_calm(conditions, history.who, turn.asked, ended)
        allowed = (CALM if calm else TROUBLED) + conditions.slack + max(0, turn.wait_ms) / 1000
        waited = (ended - turn.asked - overlapping(pauses, turn.asked, ended)) / NS
        late = waited - max(0, turn.wait_ms) / 1000
        key = "ms past a deadline, calm" if calm else "ms past a deadline, in trouble"
        report.figures[key] = max(report.figures[key], int(late * 1000))
        if waited > allowed:
            report.complain("deadline", "%s, for %d ms, ended after %.3f s%s", turn, turn.wait_ms,
                            waited, "" if calm else ", in trouble")


def check_recovery(report, lock, turns, conditions):
    """A wait in which, for longer than a ttl and a second, nobody believes, nothing is wrong with
    the waiter or the servers, and nobody was harmed."""
    bound = int((conditions.ttl + 1 + conditions.slack) * NS)
    busy = sorted((turn.since, turn.until) for turn in turns if turn.since)
    moments = sorted(conditions.shocks + [turn.granted for turn in turns if turn.granted])
    for turn in turns:
        who = client_of(turn)
        ended = turn.ended or conditions.killed.get(who, conditions.until)
        if ended - turn.asked <= NS:
            continue
        stretch = longest_stretch(
            turn.asked, ended, busy + conditions.troubles + conditions.pauses.get(who, []), moments)
        report.figures["ms of recovery"] = max(report.figures["ms of recovery"],
                                               stretch[0] // 1_000_000)
        if stretch[0] > bound:
            report.complain("recovery", "%s waited, and for %.3f s from %s on nobody had %s", turn,
                            stretch[0] / NS, seconds(stretch[1]), lock)


def longest_stretch(begin, end, spans, moments):
    """(length, begin) of the longest piece of begin..end without any of those."""
    best, at = (0, begin), begin
    cuts = [(a, b) for a, b in spans if a <= end and b >= begin]
    cuts += [(each, each) for each in moments if begin <= each <= end]
    for a, b in sorted(cuts) + [(end, end)]:
        best = max(best, (a - at, at))
        at = max(at, b)
    return best


def check_end(report, history, conditions):
    if history.who in conditions.killed:
        return
    if history.close_ms is None:
        report.complain("end", "%s did not end; its last event came at %s", history.who,
                        seconds(history.last))
    elif history.close_ms > (CLOSING + conditions.slack) * 1000:
        report.complain("end", "%s took %d ms to close", history.who, history.close_ms)


def check_codes(report, turns, conditions):
    for turn in turns:
        if turn.readable == 0:
            report.complain("lost", "%s: its descriptor did not say so", turn)
        if turn.refused is None or turn.code in EXPECTED:
            continue
        who = client_of(turn)
        calm = is_calm(conditions, who, turn.asked, turn.refused)
        if calm or turn.code not in IN_TROUBLE:
            report.complain("code", "%s was refused with %s%s", turn, turn.code,
                            ", nothing being wrong" if calm else "")


def count(report, turns):
    figures = report.figures
    for turn in turns:
        figures["asked"] += 1
        figures["granted"] += turn.granted is not None
        figures["believed"] += turn.since is not None
        figures["lost"] += turn.readable >= 0 or turn.release_code == "HF_LOST"
        if turn.refused:
            figures["refused " + turn.code] += 1
        if turn.release_code:
            figures["released " + turn.release_code] += 1
    figures["excused overlaps"] = len(report.excused)


def judge(folder):
    """What a campaign left in its folder: conditions.json and one file for each history."""
    names = [name for name in sorted(os.listdir(folder)) if re.fullmatch(r"c\d+-\d+", name)]
    return check([History.read(name, os.path.join(folder, name)) for name in names],
                 Conditions.read(os.path.join(folder, "conditions.json")))


if __name__ == "__main__":
    print(judge(sys.argv[1]))
