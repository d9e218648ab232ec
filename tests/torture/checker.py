#!/usr/bin/python3
# Judges the histories of a fault campaign: what clients believed, from when until when, against
# what Holdfast promises. Pure: histories and what was done to them in, complaints out.
# SPDX-License-Identifier: Apache-2.0
"""
    report = check([History.read("c0", path), ...], Conditions(ttl=3, until=boot_ns(), ...))
    report.complaints            # [] or texts; report.figures counts what was seen

or  checker.py FOLDER            # of a campaign that was kept

A history is what torturer.c and tenant.py write; history.py reads it. Times in it, and in the
conditions, are CLOCK_BOOTTIME in ns; the members of Conditions that are lengths are in seconds.
What is checked:

overlap    at no moment more permits were believed in than there are
token      no token is given twice; who asked after another was granted has a higher one; among
           those that exclude each other, the order of belief is that of the tokens
release    an acknowledged release took effect: the lock's record does not have the ticket any more,
           and the next holder is told "released"; of a turn that never began its release no
           holder is told that
deadline   nobody waits past its deadline, and a release is bounded
recovery   while somebody waits and nobody believes, a ttl and a second pass at most
counter    no guarded update is lost
end        every client that was not killed ended, and its closing was bounded
code       nobody got an answer that says that Holdfast is wrong
lost       the descriptor of a lost lock is readable
dog        who does not feed a lock in time does not believe in it any more
together   of locks that were taken together none is believed in once another is lost
once       what is to be done once is not done again when its runner has said that it is done;
           nobody is told that it is done before somebody has said so
leader     who follows who leads is never told an older leader

Whether there was a reason, in reasons.py:

taken      no lock is lost with nothing wrong: nothing was done to its client or the servers in the
           last ttl and a third, it was fed, and nobody broke it
line       a turn that waits is not passed by a later turn of another session
counter    no guarded write is refused unless another turn has had the lock since
record     a turn that believes has its ticket in the lock's record

Of leases, in leases.py:

key        a key names one lease: each repeat finds that one or is told that it has ended; it does
           not wait behind it; another body is refused, and so is the name of another lock
ended      nobody is told that a lease has ended before it has run out, was released or broken
broken     once a break is done, nobody renews the lease, nor believes in it; with nothing wrong a
           holder is told within a third of a ttl and half a second
leak       after everybody has ended, every lock is free
"""
import bisect
import collections
import os
import re
import sys

import leases
import reasons
from history import (CALM, NS, TROUBLED, Conditions, History, Report, Snapshot, by_lock,
                     client_of, client_thread, inside, is_calm, overlapping,
                     says_trouble, seconds)

CLOSING = 10.5  # what hf_close() may take: 4 s for releases, 5 s for a call under way, the rest
NONE, RELEASED, ABANDONED = 0, 1, 2  # HF_OUTCOME_...
EXPECTED = {"HF_HELD", "HF_TIMEOUT"}
RELEASE_CODES = {"HF_OK", "HF_LOST"}  # whether it was lost for nothing is looked at elsewhere


def check(histories, conditions):
    report = Report()
    turns = [turn for history in histories for turn in history.turns]
    breaks = [each for history in histories for each in history.breaks.values()]
    leases.end_belief_by_force(turns, breaks)
    for lock, those in sorted(by_lock(turns).items()):
        granted = [turn for turn in those if turn.granted]
        check_overlap(report, granted, conditions)
        check_tokens(report, granted, conditions)
        check_releases(report, those, breaks, conditions)
        check_previous(report, granted, breaks, conditions)
        check_counter(report, lock, granted, conditions)
        check_recovery(report, lock, those, conditions)
        count_plain(report, lock, granted, conditions)
        check_once(report, granted, conditions)
    check_snapshots(report, turns, conditions)
    for history in histories:
        check_deadlines(report, history, conditions)
        check_end(report, history, conditions)
        check_together(report, history)
        check_leaders(report, history)
    check_dogs(report, turns)
    check_codes(report, turns, breaks, conditions)
    leases.check(report, turns, breaks, conditions)
    reasons.check(report, turns, breaks, conditions)
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
            judge_overlap(report, began, at, holding, conditions)
            began = None
        if edge != 1:
            holding.discard(turn)
        if sum(each.permits for each in holding) > turn.limit:
            began = began or at


def judge_overlap(report, began, ended, holding, conditions):
    """Who holds when `locks` is dropped believes until it has looked again: within a ttl, and at
    most a third of one until it looks."""
    ttl = max([conditions.ttl] + [turn.ttl_ms / 1000 for turn in holding])
    names = "; ".join(sorted(map(str, holding)))
    for dropped, done in conditions.drops:
        if dropped <= began and ended <= done + (ttl * 4 / 3 + 0.5) * NS:
            report.excused.append("from %s to %s: %s" % (seconds(began), seconds(ended), names))
            return
    report.complain("overlap", "from %s for %.6f s believed at once: %s", seconds(began),
                    (ended - began) / NS, names)


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


def lost_by_an_heir(turns, before, after):
    """Another thread of its client had the lock with the same ticket, and lost it: the database knows
    the first token of that ticket only."""
    return any(client_of(turn) == client_of(before) and turn.lock == before.lock and turn.token and
               before.token < turn.token < after.token and turn.release_code != "HF_OK"
               for turn in turns)


def was_had_in_part(turns, before, at, conditions):
    """A thread that takes several locks had this one next, with the same ticket, while it waited
    for another; nothing says with which token. What it gives back may go in the background."""
    leaving = int((conditions.ttl + TROUBLED) * NS)
    return any(turn.group and turn is not before and turn.lock == before.lock
               and client_of(turn) == client_of(before) and turn.asked <= at
               and before.released <= (turn.ended or at) and at <= (turn.ended or at) + leaving
               for turn in turns)


def check_releases(report, turns, breaks, conditions):
    of_token = {turn.token: turn for turn in turns if turn.granted}
    acknowledged = {turn.token: turn for turn in turns
                    if turn.granted and turn.release_code == "HF_OK" and turn.is_certain
                    and not leases.may_be_broken(turn, breaks)}
    for turn in turns:
        before = acknowledged.get(turn.previous_token)
        if (before and turn.previous != RELEASED and not lost_by_an_heir(turns, before, turn)
                and not was_had_in_part(turns, before, turn.granted, conditions)):
            report.complain("release", "%s was acknowledged as released, %s was told that it was "
                            "abandoned", before, turn)
        check_told(report, turn, of_token.get(turn.previous_token))


def check_told(report, turn, before):
    """The turn before has a lower token, and is "released" only if its release had begun."""
    if turn.granted and turn.is_alone and turn.previous_token >= turn.token:
        report.complain("release", "%s was told of one after it, %d", turn, turn.previous_token)
    if before and turn.previous == RELEASED and (not before.let_go or before.let_go > turn.granted):
        report.complain("release", "%s was told that %s was released, whose release had not begun",
                        turn, before)


def check_previous(report, turns, breaks, conditions):
    """The turn before that is told to an exclusive holder is the last exclusive one that released
    the lock, or a later one."""
    of_token = {turn.token: turn for turn in turns}
    before = None
    for turn in sorted(turns, key=lambda turn: turn.token):
        if (before and turn.is_alone and turn.previous_token < before.token
                and not inside(conditions.drops, before.asked, turn.granted)
                and not may_be_first(turn, before, of_token)):
            report.complain("release", "%s was told of %d, and not of %s", turn,
                            turn.previous_token, before)
        if (turn.is_alone and turn.since and turn.release_code == "HF_OK" and turn.is_certain
                and (turn.has_run is None or turn.is_done)
                and not leases.may_be_broken(turn, breaks)):
            before = turn


def may_be_first(turn, before, of_token):
    """Of an abandoned ticket that threads had passed on, the first token is told."""
    first = of_token.get(turn.previous_token)
    return turn.previous not in (NONE, RELEASED, ABANDONED) or turn.previous == ABANDONED and (
        not first or client_of(first) == client_of(before))


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
            if (turn and turn.token >= first and turn.release_code == "HF_OK"
                    and turn.released < snapshot.at and client_of(turn) not in conditions.killed
                    and (turn.token == last
                         or not was_had_in_part(turns, turn, snapshot.at, conditions))):
                report.complain("release", "%s was acknowledged as released at %s, and was there "
                                "at %s", turn, seconds(turn.released), seconds(snapshot.at))


# ---- Dogs, several together, once ----

def check_dogs(report, turns):
    for turn in turns:
        report.figures["had with a dog"] += bool(turn.feed_ms)
        if turn.unfed:
            report.complain("dog", "%s was last fed at %s, for %d ms, and believed in at %s", turn,
                            seconds(turn.fed), turn.feed_ms, seconds(turn.unfed))


def check_together(report, history):
    groups = collections.defaultdict(list)
    for turn in history.turns:
        if turn.group and turn.granted:
            groups[client_thread(turn), turn.group].append(turn)
    for those in groups.values():
        report.figures["had together"] += 1
        for lost in those:
            for turn in those:
                if lost.lost and turn.until and turn.until > lost.lost:
                    report.complain("together", "%s was lost at %s, %s was believed in afterwards",
                                    lost, seconds(lost.lost), turn)


def check_leaders(report, history):
    for tokens in history.leaders:
        report.figures["leaders told"] += len(tokens)
        for before, after in zip(tokens, tokens[1:]):
            if after < before:
                report.complain("leader", "%s was told %d, and then %d", history.who, before, after)


def check_once(report, turns, conditions):
    """A runner that was killed, or that lost the lock, may have been followed by another."""
    done, maybe = None, False
    for turn in sorted(turns, key=lambda each: each.token):
        if turn.has_run is None:
            continue
        if turn.has_run:
            report.figures["done already"] += 1
            if not maybe:
                report.complain("once", "%s was told that it is done, and nobody did it", turn)
            continue
        report.figures["done once"] += 1
        if done and not inside(conditions.drops, done.asked, turn.granted):
            report.complain("once", "%s did it, and %s did it again", done, turn)
        maybe = maybe or turn.is_done
        done = turn if turn.is_done and turn.release_code == "HF_OK" else done


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

def check_deadlines(report, history, conditions):
    pauses = conditions.pauses.get(history.who, [])
    for turn in history.turns:
        check_release_time(report, turn, pauses, conditions)
        ended = turn.ended or conditions.killed.get(history.who)
        if turn.wait_ms == 0 or turn.is_lease:
            continue  # for ever: recovery and end are checked; of a lease each call
        if ended is None:
            ended = conditions.until
        calm = is_calm(conditions, [history.who], turn.asked, ended)
        allowed = (CALM if calm else TROUBLED) + conditions.slack + max(0, turn.wait_ms) / 1000
        waited = (ended - turn.asked - overlapping(pauses, turn.asked, ended)) / NS
        late = waited - max(0, turn.wait_ms) / 1000
        key = "ms past a deadline, calm" if calm else "ms past a deadline, in trouble"
        report.figures[key] = max(report.figures[key], int(late * 1000))
        if waited > allowed:
            report.complain("deadline", "%s, for %d ms, ended after %.3f s%s", turn, turn.wait_ms,
                            waited, "" if calm else ", in trouble")


def check_release_time(report, turn, pauses, conditions):
    if turn.is_lease or not turn.released:
        return  # of a lease each call
    calm = is_calm(conditions, [client_of(turn)], turn.let_go, turn.released)
    took = (turn.released - turn.let_go - overlapping(pauses, turn.let_go, turn.released)) / NS
    if took > (CALM if calm else TROUBLED) + conditions.slack:
        report.complain("deadline", "%s took %.3f s to be released%s", turn, took,
                        "" if calm else ", in trouble")
    if turn.release_code not in RELEASE_CODES and (
            calm or not says_trouble(turn.release_code, conditions, turn.let_go, turn.released)):
        report.complain("code", "%s was released with %s%s", turn, turn.release_code,
                        ", nothing being wrong" if calm else "")


def waits_of(turn, conditions):
    """(who cannot be blamed while it was stopped, from, to) of each wait of this turn."""
    if turn.is_lease:
        return leases.waits_of(turn)
    who = client_of(turn)
    return [([who], turn.asked, turn.ended or conditions.killed.get(who, conditions.until))]


def had_for_a_while(turns, conditions):
    """Who takes several may have one while it waits for the next."""
    return [(turn.asked, turn.ended or conditions.killed.get(client_of(turn), conditions.until))
            for turn in turns if turn.group]


def check_recovery(report, lock, turns, conditions):
    """A wait in which, for longer than a ttl and a second, nobody believes, nothing is wrong with
    the waiter or the servers, and nobody was harmed."""
    bound = int((max(conditions.ttl, conditions.lease_ttl) + 1 + conditions.slack) * NS)
    busy = sorted([(turn.since, turn.until) for turn in turns if turn.since]
                  + leases.occupied(turns) + had_for_a_while(turns, conditions))
    moments = sorted(conditions.shocks + [turn.granted for turn in turns if turn.granted])
    for turn in turns:
        for who, begin, end in waits_of(turn, conditions):
            if end - begin <= NS:
                continue
            pauses = [span for each in who for span in conditions.pauses.get(each, [])]
            stretch = longest_stretch(begin, end, busy + conditions.troubles + pauses, moments)
            report.figures["ms of recovery"] = max(report.figures["ms of recovery"],
                                                   stretch[0] // 1_000_000)
            if stretch[0] > bound:
                report.complain("recovery", "%s waited, and for %.3f s from %s on nobody had %s",
                                turn, stretch[0] / NS, seconds(stretch[1]), lock)


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


def was_broken_early(turn, breaks):
    """Before its holder had been told of it; or, of several that are taken together, one before the
    last was had."""
    return turn.code == "HF_LOST" and any(
        (turn.group or each.lock == turn.lock) and each.sent <= turn.refused
        and (each.answered is None or each.answered >= turn.asked) for each in breaks)


def check_codes(report, turns, breaks, conditions):
    for turn in turns:
        if turn.readable == 0:
            report.complain("lost", "%s: its descriptor did not say so", turn)
        if turn.is_lease or turn.refused is None or turn.code in EXPECTED:
            continue
        calm = is_calm(conditions, [client_of(turn)], turn.asked, turn.refused)
        has_reason = says_trouble(turn.code, conditions, turn.asked, turn.refused) or (
            turn.group and turn.code == "HF_LOST")
        if (calm or not has_reason) and not was_broken_early(turn, breaks):
            report.complain("code", "%s was refused with %s%s", turn, turn.code,
                            ", nothing being wrong" if calm else "")


def count(report, turns):
    figures = report.figures
    for turn in turns:
        figures["asked"] += 1
        figures["granted"] += turn.granted is not None
        figures["believed"] += turn.since is not None
        figures["lost"] += turn.readable >= 0 or turn.release_code == "HF_LOST"
        figures["leases granted"] += turn.is_lease and turn.granted is not None
        if turn.refused:
            figures["refused " + turn.code] += 1
        if turn.release_code:
            figures["released " + turn.release_code] += 1
    figures["excused overlaps"] = len(report.excused)


def judge(folder):
    """What a campaign left in its folder: conditions.json and one file for each history."""
    names = [name for name in sorted(os.listdir(folder)) if re.fullmatch(r"[clb]\d+-\d+", name)]
    return check([History.read(name, os.path.join(folder, name)) for name in names],
                 Conditions.read(os.path.join(folder, "conditions.json")))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "conditions.json")):
        sys.exit("checker.py FOLDER: of a campaign that was kept, with its conditions.json")
    print(judge(sys.argv[1]))
