# The checker on histories written by hand: what it must complain of, and what it must not.
# SPDX-License-Identifier: Apache-2.0
import os
import tempfile
import unittest

from checker import NS, Conditions, History, Snapshot, check

RW = 1 << 30


def ns(seconds):
    return int(seconds * NS)


class Client:
    """Writes a history as torturer.c does; times in seconds."""

    def __init__(self, who):
        self.who, self.events, self.turn = who, [], 0
        self.say("begin", 0, ttl_ms=3000)

    def say(self, event, at, **fields):
        self.events.append(dict(fields, event=event, at=ns(at), thread=0, turn=self.turn))
        return self

    def ask(self, at, wait_ms=0, permits=RW, limit=RW, lock="rw"):
        self.turn += 1
        return self.say("ask", at, lock=lock, permits=permits, limit=limit, wait_ms=wait_ms)

    def grant(self, at, token, previous=-1, previous_token=0):
        """By itself it does not know who had it before."""
        return self.say("granted", at, token=token, previous=previous,
                        previous_token=previous_token)

    def believe(self, *times):
        for at in times:
            self.say("believes", at, until=ns(at))
        return self

    def release(self, at, until, code="HF_OK"):
        return self.say("release", until, until=ns(until)).say("released", at, code=code)

    def hold(self, begin, end, token, **kind):
        """A turn from `begin` to `end` in which nothing happens."""
        self.ask(begin - 0.01, **kind).grant(begin, token).believe(begin)
        return self.release(end + 0.01, end)

    def write(self, at, value, code="HF_OK", counter="guarded"):
        self.say("write", at, counter=counter, value=value)
        return self.say("written", at, counter=counter, code=code) if code else self

    def end(self, at=50, close_ms=5):
        return self.say("end", at, close_ms=close_ms)

    def history(self):
        return History(self.who, self.events)


class Checks(unittest.TestCase):
    def judge(self, *clients, **conditions):
        for name in ("shocks",):
            conditions[name] = [ns(each) for each in conditions.get(name, [])]
        for name in ("troubles", "drops", "hindrances"):
            conditions[name] = [(ns(a), ns(b)) for a, b in conditions.get(name, [])]
        conditions["pauses"] = {who: [(ns(a), ns(b)) for a, b in spans]
                                for who, spans in conditions.get("pauses", {}).items()}
        conditions["killed"] = {who: ns(at) for who, at in conditions.get("killed", {}).items()}
        return check([each.history() for each in clients],
                     Conditions(**dict({"ttl": 3, "until": ns(60)}, **conditions)))

    def assert_good(self, *clients, **conditions):
        report = self.judge(*clients, **conditions)
        self.assertEqual(report.complaints, [])
        return report

    def assert_bad(self, kind, *clients, **conditions):
        report = self.judge(*clients, **conditions)
        self.assertEqual(report.kinds(), {kind}, report.complaints)
        return report


class Overlap(Checks):
    def two(self, second_from, **kind):
        return (Client("a").hold(1, 2, 10).end(),
                Client("b").hold(second_from, 3, 20, **kind).end())

    def test_one_after_the_other(self):
        self.assert_good(*self.two(2.02))

    def test_two_at_once(self):
        self.assert_bad("overlap", *self.two(1.99))

    def test_by_a_microsecond(self):
        self.assert_bad("overlap", *self.two(1.999999))

    def test_a_reader_beside_a_writer(self):
        self.assert_bad("overlap", *self.two(1.5, permits=1))

    def test_one_inside_the_other(self):
        self.assert_bad("overlap", Client("a").hold(1, 5, 10).end(),
                        Client("b").hold(2, 3, 20).end())

    def test_believed_for_one_look_only(self):
        b = Client("b").ask(1).grant(1.5, 20).believe(1.5).say("lost", 1.6, until=ns(1.5),
                                                               readable=1)
        self.assert_bad("overlap", Client("a").hold(1, 5, 10).end(), b.end(), troubles=[(1, 2)])

    def test_readers_share(self):
        self.assert_good(Client("a").hold(1, 3, 10, permits=1).end(),
                         Client("b").hold(2, 4, 20, permits=1).end())

    def test_permits_up_to_the_limit(self):
        kind = {"limit": 3}
        a = Client("a").hold(1, 3, 10, permits=1, **kind).end()
        b = Client("b").hold(2, 4, 20, permits=2, **kind).end()
        self.assert_good(a, b)
        self.assert_bad("overlap", a, b, Client("c").hold(2.5, 5, 30, permits=1, **kind).end())

    def test_a_grant_that_was_never_believed_excludes_nobody(self):
        a = Client("a").ask(1).grant(1.1, 10).say("lost", 5, until=0, readable=1)
        self.assert_good(a.end(), Client("b").hold(4.5, 6, 20).end())

    def test_belief_goes_over_a_pause(self):
        """Believed at 1 and at 5: so believed at 3."""
        a = Client("a").ask(0.9).grant(1, 10).believe(1, 5).release(5.1, 5).end()
        self.assert_bad("overlap", a, Client("b").hold(3, 3.1, 20).end(),
                        pauses={"a": [(1.1, 4.9)]})

    def test_who_was_killed_believed_until_its_last_word(self):
        a = Client("a").ask(0.9).grant(1, 10).believe(1, 2)
        self.assert_good(a, Client("b").hold(2.5, 3, 20).end(), killed={"a": 2.1}, shocks=[2.1])
        self.assert_bad("overlap", a, Client("b").hold(1.5, 3, 20).end(), killed={"a": 2.1})

    def test_a_drop_excuses_for_a_ttl(self):
        clients = (Client("a").hold(1, 4, 10).end(), Client("b").hold(2, 5, 20).end())
        self.assertEqual(len(self.assert_good(*clients, drops=[(1.5, 1.6)]).excused), 1)

    def test_a_drop_does_not_excuse_for_longer(self):
        clients = (Client("a").hold(1, 7, 10).end(), Client("b").hold(2, 8, 20).end())
        self.assert_bad("overlap", *clients, drops=[(1.5, 1.6)])

    def test_a_drop_does_not_excuse_what_was_before(self):
        clients = (Client("a").hold(1, 4, 10).end(), Client("b").hold(2, 5, 20).end())
        self.assert_bad("overlap", *clients, drops=[(2.5, 2.6)])


class Tokens(Checks):
    def test_given_twice(self):
        self.assert_bad("token", Client("a").hold(1, 2, 10).end(), Client("b").hold(3, 4, 10).end())

    def test_fell(self):
        self.assert_bad("token", Client("a").hold(1, 2, 10).end(), Client("b").hold(3, 4, 9).end())

    def test_fell_among_readers(self):
        self.assert_bad("token", Client("a").hold(1, 2, 10, permits=1).end(),
                        Client("b").hold(3, 4, 9, permits=1).end())

    def test_fell_after_a_drop(self):
        self.assert_bad("token", Client("a").hold(1, 2, 10).end(),
                        Client("b").hold(3, 4, 9).end(), drops=[(2.2, 2.3)])

    def test_fell_though_never_believed(self):
        a = Client("a").ask(1).grant(1.1, 10).say("lost", 1.2, until=0, readable=1)
        self.assert_bad("token", a.end(), Client("b").hold(3, 4, 9).end(), troubles=[(1, 2)])

    def test_believed_out_of_order_by_two_that_waited(self):
        a = Client("a").ask(0.5).grant(1, 20).believe(1).release(2.01, 2).end()
        b = Client("b").ask(0.6).grant(3, 10).believe(3).release(4.01, 4).end()
        self.assert_bad("token", a, b)

    def test_a_reader_in_front_of_a_writer_with_a_lower_token(self):
        a = Client("a").ask(0.5, permits=1).grant(1, 20).believe(1).release(2.01, 2).end()
        b = Client("b").ask(0.6).grant(3, 10).believe(3).release(4.01, 4).end()
        self.assert_bad("token", a, b)

    def test_readers_may_hear_of_their_grants_in_any_order(self):
        a = Client("a").ask(0.5, permits=1).grant(1, 20).believe(1).release(2.01, 2).end()
        b = Client("b").ask(0.6, permits=1).grant(1.1, 10).believe(1.1).release(4.01, 4).end()
        self.assert_good(a, b)

    def test_locks_have_tokens_of_their_own(self):
        self.assert_good(Client("a").hold(1, 2, 10, lock="x").end(),
                         Client("b").hold(3, 4, 9, lock="y").end())


class Releases(Checks):
    def after(self, previous, code="HF_OK"):
        a = Client("a").ask(0.9).grant(1, 10).believe(1).release(2.1, 2, code).end()
        b = Client("b").ask(1.5).grant(2.2, 20, previous, 10).believe(2.2).release(3.1, 3).end()
        return a, b

    def test_told_released(self):
        self.assert_good(*self.after(previous=1))

    def test_told_abandoned(self):
        self.assert_bad("release", *self.after(previous=2))

    def test_told_abandoned_by_a_thread_that_had_it_next(self):
        a = Client("a").ask(0.9).grant(1, 10).believe(1).release(2.1, 2).end()
        heir = Client("a").ask(1).grant(2.1, 11).believe(2.1).release(3.1, 3, "HF_UNKNOWN").end()
        b = Client("b").ask(1.5).grant(5, 20, 2, 10).believe(5).release(6.1, 6).end()
        self.assert_good(a, heir, b, troubles=[(2, 3)])

    def test_not_acknowledged(self):
        self.assert_good(*self.after(previous=2, code="HF_UNKNOWN"), troubles=[(2, 3)])

    def test_told_released_though_nobody_did(self):
        b = Client("b").hold(3, 4, 20)
        for event in b.events:
            if event["event"] == "granted":
                event["previous"], event["previous_token"] = 1, 10
        killed = Client("a").ask(0.9).grant(1, 10).believe(1)
        self.assert_bad("release", killed, b.end(), killed={"a": 1.1})
        killed.say("close", 1.05, until=ns(1))
        self.assert_good(killed, b, killed={"a": 1.1})
        late = Client("a").ask(0.9).grant(1, 10).believe(1).release(3.1, 3.05).end()
        late.events[-3]["until"] = ns(1)
        self.assert_bad("release", late, b)

    def test_told_of_one_too_early(self):
        """8 came before 10, which was released."""
        for previous, told in ((1, 8), (0, 0)):
            a, b = self.after(previous)
            b.events[2]["previous_token"] = told
            self.assert_bad("release", a, b)
            self.assert_good(a, b, drops=[(1.5, 1.6)])
            broken = Client("d").say("break", 1.5, n=1, lock="rw", token=10, forced=False)
            self.assert_good(a, b, broken.end())
            self.assert_good(self.after(previous, "HF_UNKNOWN")[0], b, troubles=[(2, 3)])
        a, b = self.after(previous=2)
        b.events[2]["previous_token"] = 8
        self.assert_good(a, b)  # the first of those with which threads passed it on
        shared = Client("b").ask(1.5, permits=1).grant(2.2, 20, 1, 8).believe(2.2)
        self.assert_good(a, shared.release(3.1, 3).end())  # perhaps another had it at the same time

    def test_told_of_a_crash_before_that(self):
        def crashed(who, token=8):
            return Client(who).ask(0.1).grant(0.2, token).believe(0.2)
        a, b = self.after(previous=2)
        b.events[2]["previous_token"] = 8
        self.assert_bad("release", crashed("c"), a, b, killed={"c": 0.3})
        self.assert_good(crashed("c", 7), a, b, killed={"c": 0.3})
        killed = crashed("a")  # 10 came behind 8 in the line of one client, which was killed later
        killed.events += a.events[1:6]
        for event in killed.events[4:]:
            event["turn"] = 2
        self.assert_good(killed, b, killed={"a": 2.15})

    def test_told_of_one_that_came_later(self):
        def told(token, permits=RW, previous=1):
            a = Client("a").ask(0.9, permits=permits).grant(1, 10, previous, token).believe(1)
            return a.release(2.1, 2).end()
        self.assert_bad("release", told(10, previous=2))
        self.assert_bad("release", told(11))
        self.assert_good(told(9))
        self.assert_good(told(11, permits=1))  # another held beside it

    def test_still_there(self):
        self.assert_bad("release", *self.after(previous=1),
                        snapshots=[Snapshot(ns(2.15), "rw", [[10, 10]])])

    def test_there_before(self):
        self.assert_good(*self.after(previous=1), snapshots=[Snapshot(ns(2.05), "rw", [[10, 10]])])

    def test_another_locks_token(self):
        self.assert_good(*self.after(previous=1),
                         snapshots=[Snapshot(ns(2.15), "other", [[10, 10]])])

    def passed(self, end):
        """A client whose second turn had the first one's ticket: 10 is in the record for both."""
        return Client("a").hold(1, 2, 10).hold(2.02, end, 11).end()

    def test_a_ticket_that_was_passed_on(self):
        self.assert_good(self.passed(4), snapshots=[Snapshot(ns(3), "rw", [[10, 73]])])

    def test_a_ticket_that_was_passed_on_is_still_there(self):
        self.assert_bad("release", self.passed(4), snapshots=[Snapshot(ns(4.1), "rw", [[10, 73]])])

    def test_a_ticket_without_a_block_is_passed_to_nobody(self):
        self.assert_bad("release", self.passed(4), snapshots=[Snapshot(ns(3), "rw", [[10, 10]])])

    def in_part(self, asked, refused, lock="rw", who="a", block=73, group=3):
        """10 was released at 2; another turn asked for several locks, and got none in the end."""
        a = Client("a").hold(1, 2, 10)
        other = a if who == "a" else Client(who)
        other.turn = 3
        other.say("ask", asked, lock=lock, permits=RW, limit=RW, wait_ms=9000, group=group)
        other.say("refused", refused, code="HF_TIMEOUT")
        looked = {"snapshots": [Snapshot(ns(3), "rw", [[10, block]])]}
        return [a.end()] + ([] if other is a else [other.end()]), looked

    def test_it_was_had_next_by_one_who_takes_several(self):
        for asked, refused in ((1.5, 4), (1.5, 2.5)):
            those, looked = self.in_part(asked, refused)
            self.assert_good(*those, **looked)
        for wrong in ({"asked": 3.1}, {"refused": 1.9}, {"lock": "x"}, {"who": "b"}, {"block": 10},
                      {"group": 0}):
            those, looked = self.in_part(**{"asked": 1.5, "refused": 4, **wrong})
            self.assert_bad("release", *those, **looked)
        those, looked = self.in_part(1.5, 2.5)
        looked["snapshots"][0].at = ns(40)
        self.assert_bad("release", *those, **looked)

    def test_told_abandoned_by_one_who_takes_several(self):
        a, b = self.after(previous=2)
        self.assert_bad("release", a, b)
        a.turn = 2
        a.say("ask", 1.5, lock="rw", permits=RW, limit=RW, wait_ms=900, group=2)
        self.assert_good(a.say("refused", 2.15, code="HF_TIMEOUT"), b)

    def test_a_client_that_was_killed_may_have_passed_it_on(self):
        self.assert_good(Client("a").hold(1, 2, 10), killed={"a": 2.1},
                         snapshots=[Snapshot(ns(3), "rw", [[10, 73]])])


class Deadlines(Checks):
    def refused(self, at, wait_ms=1000, code="HF_TIMEOUT"):
        return Client("a").ask(10, wait_ms=wait_ms).say("refused", at, code=code).end()

    def test_in_time(self):
        self.assert_good(self.refused(11.5))
        self.assert_good(self.refused(10.5, wait_ms=-1, code="HF_HELD"))

    def test_late(self):
        self.assert_bad("deadline", self.refused(12.5))
        self.assert_bad("deadline", self.refused(11.5, wait_ms=-1, code="HF_HELD"))

    def test_granted_late(self):
        a = Client("a").ask(10, wait_ms=1000).grant(12.5, 10).believe(12.5).release(13, 12.9)
        self.assert_bad("deadline", a.end())

    def test_late_when_another_was_killed(self):
        self.assert_good(self.refused(12.5), shocks=[9], killed={"b": 9})

    def test_late_on_a_busy_machine(self):
        self.assert_good(self.refused(12.5), stalls=[(ns(11), ns(11.3))])
        self.assert_bad("deadline", self.refused(12.5), stalls=[(ns(9), ns(9.9))])
        self.assertIn("deadline", self.judge(self.refused(38), stalls=[(ns(11), ns(12))]).kinds())

    def test_a_release_that_takes_long(self):
        def released(at):
            return Client("a").ask(9.9).grant(10, 10).believe(10).release(at, 10).end()
        self.assert_good(released(10.9))
        self.assert_bad("deadline", released(11.1))
        self.assert_good(released(35.9), troubles=[(10, 11)])
        self.assert_bad("deadline", released(36.1), troubles=[(10, 11)])
        self.assert_good(released(40), pauses={"a": [(10.5, 39.5)]})

    def test_late_in_trouble(self):
        self.assert_good(self.refused(31), troubles=[(9, 32)])
        self.assert_bad("deadline", self.refused(38), troubles=[(9, 39)])

    def test_trouble_that_was_over_long_ago_is_no_excuse(self):
        self.assert_bad("deadline", self.refused(12.5), troubles=[(1, 3)])

    def test_a_pause_does_not_count(self):
        self.assert_good(self.refused(42), pauses={"a": [(10.5, 41)]})

    def test_never_came_back(self):
        report = self.judge(Client("a").ask(10, wait_ms=1000))
        self.assertEqual(report.kinds(), {"deadline", "recovery", "end"})

    def test_killed_while_it_waited(self):
        self.assert_good(Client("a").ask(10, wait_ms=9000), killed={"a": 11})

    def test_killed_after_it_should_have_come_back(self):
        self.assert_bad("deadline", Client("a").ask(10, wait_ms=1000), killed={"a": 13})


class Recovery(Checks):
    def waits(self, granted):
        """`a` is killed at 2, a ttl of 3 s runs, b waits for it."""
        a = Client("a").ask(0.9).grant(1, 10).believe(1, 2)
        b = Client("b").ask(1.5).grant(granted, 20).believe(granted).release(granted + 1,
                                                                            granted + 0.9)
        return a, b.end()

    def test_in_time(self):
        self.assert_good(*self.waits(5.9), killed={"a": 2}, shocks=[2])

    def test_late(self):
        self.assert_bad("recovery", *self.waits(6.2), killed={"a": 2}, shocks=[2])

    def test_late_but_somebody_else_was_killed(self):
        self.assert_good(*self.waits(6.2), killed={"a": 2, "c": 3}, shocks=[2, 3])

    def test_no_primary(self):
        self.assert_good(*self.waits(12), killed={"a": 2}, shocks=[2], troubles=[(2, 8.1)])
        self.assert_bad("recovery", *self.waits(13), killed={"a": 2}, shocks=[2],
                        troubles=[(2, 8.1)])

    def test_the_waiter_was_paused(self):
        self.assert_good(*self.waits(9), killed={"a": 2}, shocks=[2], pauses={"b": [(3, 8)]})

    def test_a_long_holder_is_no_failure(self):
        a = Client("a").ask(0.9).grant(1, 10).believe(1, 10).release(10.1, 10).end()
        b = Client("b").ask(1.5).grant(10.2, 20).believe(10.2).release(11, 10.9).end()
        self.assert_good(a, b)

    def test_a_release_that_wakes_nobody(self):
        a = Client("a").hold(1, 2, 10).end()
        b = Client("b").ask(1.5).grant(7, 20).believe(7).release(8, 7.9).end()
        self.assert_bad("recovery", a, b)

    def test_who_takes_several_may_have_it_for_a_while(self):
        a = Client("a")
        a.turn = 1
        a.say("ask", 1, lock="rw", permits=RW, limit=RW, wait_ms=8000, group=1)
        a.say("refused", 6.5, code="HF_HELD").end()
        b = Client("b").ask(1.5).grant(7, 20).believe(7).release(8, 7.9).end()
        self.assert_good(a, b)

    def test_busy_machines_are_slower(self):
        self.assert_good(*self.waits(6.9), killed={"a": 2}, shocks=[2], slack=1)


class Counters(Checks):
    def writes(self, *writes, **conditions):
        """Each (token, value, code) by a client of its own, one after the other."""
        clients = []
        for n, (token, value, code) in enumerate(writes):
            client = Client("c%d" % n).ask(n + 1).grant(n + 1.1, token).believe(n + 1.1)
            clients.append(client.write(n + 1.2, value, code).release(n + 1.4, n + 1.3).end())
        return clients

    def test_all_there(self):
        report = self.assert_good(*self.writes((1, 1, "HF_OK"), (2, 2, "HF_OK")),
                                  finals={"rw": 2})
        self.assertEqual(report.figures["guarded updates"], 2)

    def test_the_same_value_twice(self):
        self.assert_bad("counter", *self.writes((1, 1, "HF_OK"), (2, 1, "HF_OK")))

    def test_an_update_is_gone(self):
        self.assert_bad("counter", *self.writes((1, 1, "HF_OK"), (2, 2, "HF_OK")),
                        finals={"rw": 1})

    def test_an_update_too_many(self):
        self.assert_bad("counter", *self.writes((1, 1, "HF_OK")), finals={"rw": 2})

    def test_refused_writes_do_not_count(self):
        a = Client("a").ask(0.5).grant(0.6, 1).believe(0.6).write(5, 1, "HF_FENCED").end()
        report = self.assert_good(a, *self.writes((2, 1, "HF_OK")), finals={"rw": 1})
        self.assertEqual(report.figures["guarded writes refused"], 1)

    def test_unknown_writes_may_count(self):
        for final in (1, 2):
            self.assert_good(*self.writes((1, 1, "HF_OK"), (2, 2, "HF_UNKNOWN")),
                             finals={"rw": final})

    def test_without_an_outcome(self):
        self.assert_good(*self.writes((1, 1, "HF_OK"), (2, 2, None)), finals={"rw": 2})

    def test_an_unknown_write_over_an_acknowledged_one(self):
        self.assert_bad("counter", *self.writes((1, 1, "HF_OK"), (2, 1, "HF_UNKNOWN")))

    def test_unguarded_ones_are_counted(self):
        a = Client("a").ask(1).grant(1.1, 1).believe(1.1).write(1.2, 1, counter="plain")
        b = Client("b").ask(2).grant(2.1, 2).believe(2.1).write(2.2, 1, counter="plain")
        report = self.assert_good(a.release(1.5, 1.4).end(), b.release(2.5, 2.4).end(),
                                  plains={"rw": 1})
        self.assertEqual(report.figures["unguarded updates"], 2)
        self.assertEqual(report.figures["unguarded updates lost"], 1)


class Dogs(Checks):
    def judged(self, *steps):
        """Had at 1, to be fed each 0.3 s."""
        a = Client("a").ask(0.9).say("granted", 1, token=10, previous=0, previous_token=0,
                                     feed_ms=300)
        for at, what in steps:
            a.believe(at) if what == "believes" else a.say("fed", at, code=what)
        return a.release(2.1, steps[-1][0]).end()

    def test_believed_in_for_too_long(self):
        self.assert_good(self.judged((1.1, "believes"), (1.29, "believes")))
        self.assert_bad("dog", self.judged((1.1, "believes"), (1.31, "believes")))

    def test_fed(self):
        self.assert_good(self.judged((1.1, "believes"), (1.2, "HF_OK"), (1.49, "believes")))
        self.assert_bad("dog", self.judged((1.1, "believes"), (1.2, "HF_LOST"), (1.49, "believes")))

    def test_fed_too_late(self):
        self.assert_bad("dog", self.judged((1.1, "believes"), (1.4, "believes"), (1.5, "HF_OK"),
                                           (1.6, "believes")))


class Together(Checks):
    def two(self, until):
        """x is lost at 2, y believed in until then."""
        a = Client("a")
        for token, lock in ((10, "x"), (20, "y")):
            a.turn = token
            a.say("ask", 1, lock=lock, permits=RW, limit=RW, wait_ms=0, group=10)
        for a.turn in (10, 20):
            a.grant(1.1, a.turn).believe(1.2)
        a.turn = 10
        a.say("lost", 2, until=ns(1.9), readable=1)
        a.turn = 20
        return a.release(2.5, until).end()

    def test_lost_together(self):
        self.assert_good(self.two(1.99))

    def test_believed_in_when_the_other_was_lost(self):
        self.assert_bad("together", self.two(2.01))


class Once(Checks):
    def turns(self, *those):
        """Each (whether it was told that it is done, what came of its release), and whether it was
        stopped before it had done it."""
        clients = []
        for n, (has_run, code, *is_stopped) in enumerate(those, 1):
            a = Client("c%d" % n).ask(n).grant(n + 0.1, n).believe(n + 0.1)
            a.say("work", n + 0.2, has_run=has_run)
            if not has_run and not is_stopped:
                a.say("done", n + 0.2)
            clients.append(a.release(n + 0.4, n + 0.3, code).end())
        return clients

    def test_one_does_it(self):
        report = self.assert_good(*self.turns((0, "HF_OK"), (1, "HF_OK"), (1, "HF_OK")))
        self.assertEqual((report.figures["done once"], report.figures["done already"]), (1, 2))

    def test_done_again(self):
        self.assert_bad("once", *self.turns((0, "HF_OK"), (1, "HF_OK"), (0, "HF_OK")))
        self.assert_good(*self.turns((0, "HF_OK"), (0, "HF_OK")), drops=[(1.5, 1.6)])
        self.assert_bad("once", *self.turns((0, "HF_OK"), (0, "HF_OK")), drops=[(0.5, 0.6)])

    def test_its_runner_lost_it(self):
        for code in ("HF_LOST", "HF_UNKNOWN"):
            self.assert_good(*self.turns((0, code), (0, "HF_OK")), troubles=[(1, 2)])

    def test_not_done_after_all(self):
        self.assert_good(*self.turns((0, "HF_OK", True), (0, "HF_OK")))

    def test_one_that_skips_it_is_not_told_of(self):
        those = self.turns((0, "HF_OK"), (1, "HF_OK"), (1, "HF_OK"))
        those[2].events[2].update(previous=1, previous_token=1)
        self.assert_good(*those)

    def test_done_by_nobody(self):
        self.assert_bad("once", *self.turns((1, "HF_OK"), (0, "HF_OK")))
        self.assert_good(*self.turns((0, "HF_UNKNOWN"), (1, "HF_OK")), troubles=[(1, 2)])
        self.assert_bad("once", *self.turns((0, "HF_UNKNOWN", True), (1, "HF_OK")),
                        troubles=[(1, 2)])


class Leaders(Checks):
    def told(self, *tokens):
        a = Client("a").say("observes", 1)
        for n, token in enumerate(tokens):
            a.say("leads" if token else "observes", 2 + n, token=token)
        return a.end()

    def test_each_is_newer(self):
        report = self.assert_good(self.told(1, 2, 2, 3))
        self.assertEqual(report.figures["leaders told"], 4)

    def test_an_older_one(self):
        self.assert_bad("leader", self.told(1, 3, 2))

    def test_who_begins_anew_knows_of_none(self):
        self.assert_good(self.told(3, None, 2))


class Ends(Checks):
    def test_did_not_end(self):
        self.assert_bad("end", Client("a").hold(1, 2, 10))

    def test_killed(self):
        self.assert_good(Client("a").hold(1, 2, 10), killed={"a": 3})

    def test_slow_to_close(self):
        self.assert_bad("end", Client("a").hold(1, 2, 10).end(close_ms=11000))

    def test_codes(self):
        def refused(code):
            return Client("a").ask(10, wait_ms=5000).say("refused", 11, code=code).end()
        self.assert_good(refused("HF_UNREACHABLE"), troubles=[(9, 10.5)])
        self.assert_bad("code", refused("HF_UNREACHABLE"))
        self.assert_bad("code", refused("HF_INTERNAL"), troubles=[(9, 10.5)])
        self.assert_bad("code", refused("HF_SHAPE"))
        foreign = {"troubles": [(9, 10.5)], "hindrances": [(9, 10.5)]}
        self.assert_good(refused("HF_SHAPE"), **foreign)
        self.assert_good(refused("HF_UNUSABLE"), **foreign)
        self.assert_bad("code", refused("HF_UNUSABLE"), troubles=[(9, 10.5)], hindrances=[(1, 2)])

    def test_several_may_be_lost_before_all_are_had(self):
        def refused(group):
            a = Client("a").say("ask", 10, lock="rw", permits=RW, limit=RW, wait_ms=5000,
                                group=group)
            return a.say("refused", 11, code="HF_LOST").end()
        broken = Client("b").say("break", 9, n=1, lock="other", token=1, forced=False)
        self.assert_good(refused(1), troubles=[(9, 10.5)])
        self.assert_good(refused(1), broken.end())
        self.assert_bad("code", refused(1))
        self.assert_bad("code", refused(0), broken, troubles=[(9, 10.5)])

    def test_codes_of_releases(self):
        def released(code):
            return Client("a").ask(9.9).grant(10, 10).believe(10).release(10.2, 10.1, code).end()
        self.assert_good(released("HF_UNKNOWN"), troubles=[(9, 10)])
        self.assert_bad("code", released("HF_UNKNOWN"))
        self.assert_bad("code", released("HF_INTERNAL"), troubles=[(9, 10)])

    def test_it_may_be_broken_before_it_is_had(self):
        lost = Client("a").ask(10, wait_ms=5000).say("refused", 11, code="HF_LOST").end()
        def broken(**where):
            return Client("b").say("break", 10.5, n=1, token=1, forced=False, **where).end()
        self.assert_good(lost, broken(lock="rw"))
        self.assert_bad("code", lost, broken(lock="x"))
        self.assert_bad("code", lost)

    def test_a_silent_descriptor(self):
        a = Client("a").ask(1).grant(1.1, 10).believe(1.1).say("lost", 2, until=ns(1.5), readable=0)
        self.assert_bad("lost", a.end())


class Reading(unittest.TestCase):
    def test_a_last_line_that_was_cut_short(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            with open(path, "w") as out:
                out.write('{"event":"begin","at":1,"ttl_ms":3000}\n{"event":"ask","at":2,"thr')
            self.assertEqual(History.read("a", path).last, 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
