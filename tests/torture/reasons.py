# Judges whether what befell a client of a fault campaign had a reason: that it lost a lock, that
# another was granted one before it, that a write of it was refused. Its rules stand at the top of
# checker.py, which calls it.
# SPDX-License-Identifier: Apache-2.0
import bisect
import collections

import leases
from history import NS, by_lock, client_of, client_thread, inside, seconds, was_harmed

LOOKED = 4 / 3  # ttls: a holder notices within that time that its record is gone
SLOW = 1 / 6  # of a ttl: a client that looked so late may have sent its beats late, too
LINE = 0.5  # of a ttl: where a recall is lost, a line of threads goes on for a third of one
ENTERED_S = 1.0  # an enter takes no longer with nothing wrong


def check(report, turns, breaks, conditions):
    check_losses(report, turns, breaks, conditions)
    for lock, those in sorted(by_lock(turns).items()):
        check_line(report, those, conditions)
        check_fenced(report, those)
    check_records(report, turns, conditions)


# ---- Lost ----

def check_losses(report, turns, breaks, conditions):
    """Locks that were taken together are lost together: the reason may be another's."""
    groups = collections.defaultdict(list)
    for turn in turns:
        groups[client_thread(turn), turn.group or turn.who].append(turn)
    for those in groups.values():
        for turn in those:
            at = lost_at(turn)
            if at and not has_reason(those, turn, at, breaks, conditions):
                report.complain("taken", "%s lost it at %s, nothing being wrong", turn, seconds(at))


def lost_at(turn):
    if turn.is_lease:
        return None  # see leases.check_ended()
    return turn.lost or (turn.released if turn.release_code == "HF_LOST" else None)


def has_reason(group, turn, at, breaks, conditions):
    begin = at - int(LOOKED * conditions.ttl * NS)
    return (inside(conditions.drops + conditions.forgotten, begin, at)
            or was_harmed(conditions, [client_of(turn)], begin, at)
            or turn.longest_silence > SLOW * conditions.ttl * NS
            or any(leases.may_be_broken(each, breaks) or was_hungry(each, at) for each in group))


def was_hungry(turn, at):
    return bool(turn.feed_ms) and at >= turn.fed_from + turn.feed_ms * 1_000_000


# ---- In line ----

def check_line(report, turns, conditions):
    """A turn that waits is not passed by a later turn of another session."""
    later = sorted((turn for turn in turns if turn.granted), key=lambda turn: turn.asked)
    times = [turn.asked for turn in later]
    margin = int((ENTERED_S + conditions.slack + LINE * conditions.ttl) * NS)
    for turn in turns:
        if not has_waited(turn, margin) or not is_first_of_its_own(turn, turns):
            continue
        until = bisect.bisect_right(times, turn.ended)
        those = [each for each in later[bisect.bisect_left(times, turn.asked + margin):until]
                 if client_of(each) != client_of(turn)
                 and is_undisturbed([turn, each], turn.asked, each.asked, conditions)]
        report.figures["came after who waits"] += len(those)
        for other in those:
            if has_passed(other, turn) and is_undisturbed([turn, other], turn.asked, other.granted,
                                                          conditions):
                report.complain("line", "%s has it, and came after %s", other, turn)
                break


def has_waited(turn, margin):
    """In one place of the line: a turn that takes several locks may have given this one back
    meanwhile, and a lease with a key may be asked for anew."""
    return (turn.wait_ms >= 0 and (turn.granted or turn.code == "HF_TIMEOUT") and not turn.group
            and not turn.key and turn.ended > turn.asked + margin)


def is_first_of_its_own(turn, turns):
    """Threads of one client that want the same lock stand in a line of their own."""
    return not any(each is not turn and client_of(each) == client_of(turn)
                   and each.asked <= turn.asked + ENTERED_S * NS
                   and over_at(each) >= turn.asked - ENTERED_S * NS for each in turns)


def over_at(turn):
    return turn.refused or turn.released or turn.let_go or float("inf")


def has_passed(other, turn):
    return other.token < turn.token if turn.granted else other.granted < turn.refused


def is_undisturbed(turns, begin, end, conditions):
    who = [client_of(turn) for turn in turns]
    who += [call.service for turn in turns for call in turn.calls.values()]
    since = begin - int(LOOKED * conditions.ttl * NS)
    return not (inside(conditions.drops + conditions.forgotten, since, end)
                or was_harmed(conditions, who, begin, end))


# ---- Fenced ----

def check_fenced(report, turns):
    """The guard refuses a token below one that it has seen: so another turn has had the lock."""
    for turn in turns:
        for write in turn.writes:
            if write.code == "HF_FENCED" and not any(
                    each.asked < write.done and not each.refused
                    and (each.token is None or each.token > turn.token) for each in turns):
                report.complain("counter", "%s was fenced off at %s, and is the last", turn,
                                seconds(write.done))


# ---- In the record ----

def check_records(report, turns, conditions):
    """A turn that believes before and after a look at the record has its ticket in it."""
    looks = {lock: sorted(those, key=lambda snapshot: snapshot.at) for lock, those in
             by_lock(each for each in conditions.snapshots if each.answered).items()}
    times = {lock: [each.at for each in those] for lock, those in looks.items()}
    for turn in turns:
        if not turn.since or turn.lock not in looks:
            continue
        first = bisect.bisect_left(times[turn.lock], turn.since)
        last = bisect.bisect_right(times[turn.lock], turn.until)
        for snapshot in looks[turn.lock][first:last]:
            judge_record(report, turn, snapshot, conditions)


def judge_record(report, turn, snapshot, conditions):
    """A holder whose record is dropped believes until it has looked for its ticket."""
    since = snapshot.at - int(LOOKED * conditions.ttl * NS)
    if turn.until < snapshot.answered or inside(conditions.drops, since, snapshot.answered):
        return
    report.figures["believed while the record was looked at"] += 1
    if not any(first <= turn.token <= last for first, last in snapshot.blocks):
        report.complain("record", "%s is not in the record at %s", turn, seconds(snapshot.at))
