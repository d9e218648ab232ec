# Judges what the services of a fault campaign answered about leases, call by call. Its rules stand
# at the top of checker.py, which calls it.
# SPDX-License-Identifier: Apache-2.0
from history import (CALM, HINDERED, IN_TROUBLE, NS, TROUBLED, client_of, inside, is_calm, overlapping,
                     seconds, was_harmed)

NOTICED = 1.0  # so long a call may go on waiting after its own lease was granted elsewhere
BLOCK = 65536  # so many tokens a ticket may have
TOLD = 0.5  # for a break and a beat; and the next beat comes within a third of a ttl
GONE = 2.0  # so long after it hung up a client's request may still be granted
EXPECTED = {
    "acquire": {"HF_OK", "HF_HELD", "HF_TIMEOUT"},
    "repeat": {"HF_OK", "HF_HELD", "HF_TIMEOUT", "HF_LOST"},
    "renew": {"HF_OK", "HF_LOST"},
    "release": {"HF_OK", "HF_LOST"},
}
REFUSED = {"changed": {422, 410}, "misnamed": {400, 404, 410, 204}}
PASSING = {"HF_CLOSED", "NO_ANSWER"}


def check(report, turns, breaks, conditions):
    for turn in turns:
        if turn.is_lease:
            check_calls(report, turn, breaks, conditions)
            check_key(report, turn, breaks, conditions)
            check_ended(report, turn, breaks, conditions)
    check_broken(report, turns, breaks, conditions)
    for lock, whose in sorted(conditions.held.items()):
        report.complain("leak", "%s is not free after everybody has ended: %s", lock, whose)
    for text in conditions.crashed:
        report.complain("end", text)
    report.figures["breaks done"] += sum(each.done for each in breaks)


# ---- What the other rules want to know ----

def calls_of(turn):
    return turn.calls.values()


def may_be_broken(turn, breaks):
    """Also where the break got no answer."""
    return any(each.lock == turn.lock and may_name(each, turn)
               and each.sent <= (turn.released or each.sent)
               and (each.answered is None or each.answered >= turn.asked) for each in breaks)


def may_name(one, turn):
    """The turn may not have got its token; of a ticket that threads pass on the break names the
    first token only."""
    if not one.token or turn.token is None:
        return True
    return (one.token == turn.token if turn.is_lease
            else one.token <= turn.token < one.token + BLOCK)


def end_belief_by_force(turns, breaks):
    """Two may believe for a ttl then: whose lease was taken by force is not counted any more."""
    for one in breaks:
        for turn in turns:
            if one.forced and (turn.lock, turn.token) == (one.lock, one.token) and turn.since:
                turn.until = min(turn.until, one.sent)
                turn.since = turn.since if turn.since <= turn.until else None


def waits_of(turn):
    return [([client_of(turn), each.service], each.sent, each.answered) for each in calls_of(turn)
            if each.acquires and each.wait_ms and each.status]


def occupied(turns):
    """When leases stand though nobody believes in them: nobody may have heard of them."""
    spans = []
    for turn in turns:
        released = min((each.answered for each in calls_of(turn)
                        if each.kind == "release" and each.status == 204), default=float("inf"))
        for each in calls_of(turn):
            if each.has_lease and each.answered < released:
                spans.append((each.answered, min(
                    released, each.answered + each.expires_in_ms * 1_000_000)))
            elif each.acquires and (not each.status or each.status >= 500):
                hung_up = each.answered or each.sent + each.patience_ms * 1_000_000
                spans.append((each.sent, hung_up + turn.ttl_ms * 1_000_000 + int(GONE * NS)))
    return spans


# ---- Each call ----

def check_calls(report, turn, breaks, conditions):
    for call in calls_of(turn):
        report.figures["calls " + call.kind] += 1
        if call.answered is None:
            continue  # its client was killed, or ended
        calm = is_calm(conditions, [client_of(turn), call.service], call.sent, call.answered)
        report.figures["calls without an answer"] += not call.status
        report.figures["calls that met a broken connection"] += call.code in IN_TROUBLE and calm
        check_wait(report, turn, call, calm, conditions)
        if not is_expected(turn, call, breaks, calm, conditions) and not was_taken_over(
                turn, call, conditions):
            report.complain("code", "%s: %s%s: %s", turn, call, ", nothing being wrong"
                            if calm else "", call.text)


def stopped(turn, call, conditions):
    return sum(overlapping(conditions.pauses.get(who, []), call.sent, call.answered)
               for who in (client_of(turn), call.service))


def has_hung_up(call):
    return not call.status and call.answered - call.sent >= (call.patience_ms - 10) * 1_000_000


def check_wait(report, turn, call, calm, conditions):
    took = (call.answered - call.sent - stopped(turn, call, conditions)) / NS
    allowed = call.wait_ms / 1000 + (CALM if calm else TROUBLED) + conditions.slack
    if took > allowed:
        report.complain("deadline", "%s: %s, for %d ms, took %.3f s%s", turn, call, call.wait_ms,
                        took, "" if calm else ", in trouble")


def was_taken_over(turn, call, conditions):
    """Once its session was dropped the key is new: another body may have been the first to use it."""
    bodies = [each for each in calls_of(turn) if each.kind == "changed"
              and (each.answered is None or each.answered >= call.sent)]
    return call.status == 422 and bool(bodies) and (
        was_forgotten(turn, conditions, call.answered))


def is_expected(turn, call, breaks, calm, conditions):
    if call.code in HINDERED:
        return inside(conditions.hindrances, call.sent, call.answered)
    if call.status == 500:
        return False
    if call.kind in REFUSED and (call.status in REFUSED[call.kind] or call.status in (200, 201)):
        return True  # a success is the key's matter
    if call.kind == "acquire" and call.code == "HF_LOST":
        # Its repeat was first; or what it had was lost at once, or broken before it was told of it.
        return bool(turn.key) or not calm or may_be_broken(turn, breaks)
    if call.kind in EXPECTED and call.code in EXPECTED[call.kind]:
        return True
    if call.kind == "changed" and call.status == 409:
        return True  # so is that
    if call.code in IN_TROUBLE:
        return True  # a service's connection may have broken long ago, and it leaves repeats to us
    return has_hung_up(call) or call.code in PASSING and not calm


# ---- The key ----

def was_forgotten(turn, conditions, until):
    return inside(conditions.drops + conditions.forgotten, turn.asked, until)


def check_key(report, turn, breaks, conditions):
    finds = sorted((each for each in calls_of(turn) if each.has_lease), key=lambda c: c.answered)
    for call in calls_of(turn):
        if call.kind == "misnamed" and call.status in (200, 201):
            report.complain("key", "%s: another lock's name is no lease: %s", turn, call)
        if call.kind == "changed" and call.has_lease and not was_forgotten(
                turn, conditions, call.answered):
            report.complain("key", "%s: another body found the lease: %s", turn, call)
    for call in finds[1:]:
        first = finds[0]
        if (call.lease, call.token) != (first.lease, first.token) and not was_forgotten(
                turn, conditions, call.answered):
            report.complain("key", "%s is two leases: %s, token %s; %s, token %s", turn, first,
                            first.token, call, call.token)
    check_after_release(report, turn, finds, conditions)
    if not may_be_broken(turn, breaks):
        check_own_lease(report, turn, finds, conditions)


def check_after_release(report, turn, finds, conditions):
    for release in calls_of(turn):
        if release.kind != "release" or release.status != 204:
            continue
        for call in finds:
            if call.sent > release.answered and not was_forgotten(turn, conditions, call.answered):
                report.complain("key", "%s was released, and there again: %s; %s", turn, release,
                                call)
        return  # one complaint for all of its releases


def check_own_lease(report, turn, finds, conditions):
    """Who has the key has the lock: it is told so, and not that the lock is held."""
    for call in calls_of(turn):
        if not call.acquires or call.code not in ("HF_HELD", "HF_TIMEOUT"):
            continue
        calm = is_calm(conditions, [client_of(turn), call.service], call.sent, call.answered)
        waits_until = call.sent + call.wait_ms * 1_000_000
        for find in finds:
            is_behind = call.sent >= find.answered or (
                calm and waits_until >= find.answered + (NOTICED + conditions.slack) * NS)
            if (is_behind and call.answered < find.lease_end
                    and not was_given_up(turn, call, conditions)):
                report.complain("key", "%s was held by itself: %s; %s", turn, find, call)
                break


# ---- Its end ----

def was_given_up(turn, call, conditions):
    """Released, or begun to be, when this was answered; or its documents were dropped."""
    return was_forgotten(turn, conditions, call.answered) or any(
        each.kind == "release" and each is not call and each.sent <= call.answered
        for each in calls_of(turn))


def check_ended(report, turn, breaks, conditions):
    for call in calls_of(turn):
        if call.kind == "misnamed" or call.status != 410:
            continue
        lives = [each for each in calls_of(turn) if each.has_lease
                 and each.answered <= call.sent and each.lease_end > call.answered]
        if (lives and not was_given_up(turn, call, conditions)
                and not may_be_broken(turn, breaks)):
            report.complain("ended", "%s lives until %s by %s; told that it is over: %s, %s", turn,
                            seconds(lives[0].lease_end), lives[0], call, call.text)


def check_broken(report, turns, breaks, conditions):
    for one in breaks:
        for turn in turns:
            if not one.done or turn.lock != one.lock or turn.token not in one.tokens or (
                    was_forgotten(turn, conditions, one.answered)):
                continue
            if not one.forced and turn.until and turn.until > one.answered:
                report.complain("broken", "%s: broken at %s, and believed in until %s", turn,
                                seconds(one.answered), seconds(turn.until))
            if not turn.is_lease:
                check_told(report, turn, one, conditions)
            for call in calls_of(turn):
                if call.has_lease and call.sent > one.answered:
                    report.complain("broken", "%s: broken at %s, and there again: %s", turn,
                                    seconds(one.answered), call)


def check_told(report, turn, one, conditions):
    """With its next beat, long before its lease is over."""
    if not turn.until or turn.until < one.sent:
        return
    services = [who for who in conditions.pauses if who.startswith("s")]
    if was_harmed(conditions, [client_of(turn), one.who] + services, one.sent, turn.until):
        return
    told = (turn.until - one.sent) / NS
    report.figures["ms until a break was told"] = max(
        report.figures["ms until a break was told"], int(told * 1000))
    if told > conditions.ttl / 3 + TOLD + conditions.slack:
        report.complain("broken", "%s: broken from %s on, and told after %.3f s", turn,
                        seconds(one.sent), told)
