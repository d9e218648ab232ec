# The checker's rules for what befalls clients, on histories written by hand: what it must complain
# of, and what it must not.
# SPDX-License-Identifier: Apache-2.0
import unittest

from checker import Snapshot
from test_checker import RW, Checks, Client, ns
from test_checker_leases import Breaker, Tenant


class Taken(Checks):
    """A lock that was had at 10, for sure until 12.99, and lost at 13."""

    def loser(self, fed=(), **said):
        a = Client("a").ask(9.9).say("granted", 10, token=10, previous=0, previous_token=0, **said)
        for n in range(150):
            a.believe(10 + n / 50)
            if n / 50 in fed:
                a.say("fed", 10.001 + n / 50, **{"from": ns(10 + n / 50)}, code="HF_OK")
        return a.say("lost", 13, until=ns(12.99), readable=1).end()

    def test_for_nothing(self):
        self.assert_bad("taken", self.loser())

    def test_its_servers_were_in_trouble(self):
        self.assert_good(self.loser(), troubles=[(10, 11)])
        self.assert_good(self.loser(), server_shocks=[ns(10)])
        self.assert_bad("taken", self.loser(), troubles=[(1, 2.9)])

    def test_it_was_stopped_itself(self):
        self.assert_good(self.loser(), pauses={"a": [(11, 12)]})
        self.assert_bad("taken", self.loser(), pauses={"b": [(11, 12)]})
        self.assert_bad("taken", self.loser(), killed={"b": 11}, shocks=[11])

    def test_its_documents_were_dropped(self):
        self.assert_good(self.loser(), drops=[(11, 11.1)])
        self.assert_good(self.loser(), forgotten=[(ns(11), ns(11.1))])
        self.assert_bad("taken", self.loser(), drops=[(8, 8.1)])
        self.assert_bad("taken", self.loser(), drops=[(13.1, 13.2)])

    def test_it_was_broken(self):
        self.assert_good(self.loser(), Breaker().take(12.5, 13.1))
        self.assert_bad("taken", self.loser(), Breaker().take(12.5, 13.1, lock="other"))

    def test_the_first_token_of_its_ticket_was_broken(self):
        a = Client("a").ask(9.9).grant(10, 70000).believe(10)
        a.release(10.1, 10.05, "HF_LOST").end()
        self.assert_good(a, Breaker().take(10, 10.1, token=69999))
        self.assert_bad("taken", a, Breaker().take(10, 10.1, token=70001))
        self.assert_bad("taken", a, Breaker().take(10, 10.1, token=70000 - 65536))

    def test_it_was_not_fed(self):
        self.assert_good(self.loser((1, 2), feed_ms=1000))
        self.assert_bad("taken", self.loser((1, 2), feed_ms=1001))

    def test_nothing_ran(self):
        self.assert_good(self.loser(), stalls=[(ns(11), ns(12))])
        slow = Client("a").ask(9.9).grant(10, 10).believe(10, 10.1, 10.7)
        quick = Client("a").ask(9.9).grant(10, 10).believe(10, 10.1, 10.5)
        self.assert_good(slow.say("lost", 10.71, until=ns(10.7), readable=1).end())
        self.assert_bad("taken", quick.say("lost", 10.51, until=ns(10.5), readable=1).end())

    def test_gone_at_its_release(self):
        a = Client("a").ask(9.9).grant(10, 10).believe(10).release(10.1, 10.05, "HF_LOST").end()
        self.assert_bad("taken", a)
        self.assert_good(a, drops=[(9.95, 10)])

    def test_with_another_that_was_broken(self):
        def two(first, second):
            a = Client("a")
            for n, lock in ((1, "x"), (2, "y")):
                a.turn = n
                a.say("ask", 9.9, lock=lock, permits=RW, limit=RW, wait_ms=0, group=1)
                a.grant(10, n * 10).believe(10.1)
            for a.turn, is_lost in ((1, first), (2, second)):
                if is_lost:
                    a.say("lost", 10.2, until=ns(10.1), readable=1)
                else:
                    a.release(10.3, 10.1)
            return a.end()
        broken = Breaker().take(10.1, 10.15, lock="x")
        self.assert_good(two(True, True), broken)
        self.assert_bad("taken", two(True, True))


class Line(Checks):
    """`a` waits from 10 on behind h, who releases at 16; b comes at 13.5."""

    def held(self):
        return Client("h").hold(9, 16, 10).end()

    def three(self, first="a", second="b", **kind):
        one = Client("a").ask(10, wait_ms=9000, **kind)
        two = Client("b").ask(13.5, wait_ms=9000)
        for n, name in enumerate((first, second)):
            who = {"a": one, "b": two}[name]
            who.grant(16.1 + n, 20 + n).believe(16.1 + n).release(16.6 + n, 16.5 + n)
        return self.held(), one.end(), two.end()

    def test_in_order(self):
        report = self.assert_good(*self.three())
        self.assertEqual(report.figures["came after who waits"], 1)
        report = self.assert_good(*self.three(), troubles=[(9, 9.5)])
        self.assertEqual(report.figures["came after who waits"], 0)

    def test_passed(self):
        self.assert_bad("line", *self.three("b", "a"))
        self.assert_bad("line", *self.three("b", "a", permits=1))

    def test_passed_and_then_too_late(self):
        a = Client("a").ask(10, wait_ms=7000).say("refused", 17.01, code="HF_TIMEOUT").end()
        def later(asked):
            return Client("b").ask(asked, wait_ms=9000).grant(16.1, 20).believe(16.1).release(
                18, 17.9).end()
        self.assert_bad("line", self.held(), a, later(13.5))
        self.assert_good(self.held(), a, later(11.5))  # may have been quicker to enter
        timely = Client("a").ask(10, wait_ms=6000).say("refused", 16, code="HF_TIMEOUT").end()
        self.assert_good(self.held(), timely, later(13.5))

    def test_in_trouble(self):
        those = self.three("b", "a")
        self.assert_good(*those, troubles=[(9, 9.5)])
        self.assert_good(*those, pauses={"a": [(11, 12)]})
        self.assert_good(*those, drops=[(11, 11.1)])
        self.assert_good(*those, troubles=[(14.5, 15)])
        self.assert_bad("line", *those, troubles=[(18, 19)])
        self.assert_bad("line", *those, pauses={"h": [(11, 12)]})
        self.assert_bad("line", *those, killed={"c": 11}, shocks=[11])

    def test_behind_a_thread_of_its_own(self):
        a = Client("a").ask(9.5, wait_ms=9000).ask(10, wait_ms=9000)
        a.turn = 1
        a.say("refused", 12, code="HF_TIMEOUT")
        a.turn = 2
        a.grant(17.1, 21).believe(17.1).release(17.6, 17.5)
        self.assert_good(self.held(), a.end(), self.three("b", "a")[2])

    def test_beside_threads_of_its_own(self):
        """Of which one was over long before, and one came later."""
        a = Client("a").hold(5, 6, 9).ask(10, wait_ms=9000)
        a.ask(13.5, wait_ms=900).say("refused", 14.4, code="HF_TIMEOUT")
        a.turn = 2
        a.grant(17.1, 21).believe(17.1).release(17.6, 17.5)
        self.assert_bad("line", self.held(), a.end(), self.three("b", "a")[2])

    def test_who_takes_several_may_have_given_it_back(self):
        held, one, two = self.three("b", "a")
        for event in one.events:
            if event["event"] == "ask":
                event["group"] = 1
        self.assert_good(held, one, two)

    def test_another_thread_of_its_client_comes_later(self):
        a = Client("a").ask(10, wait_ms=9000)
        a.ask(13.5, wait_ms=9000).grant(16.1, 20).believe(16.1).release(16.6, 16.5)
        a.turn = 1
        a.grant(17, 21).believe(17).release(17.6, 17.5)
        self.assert_good(self.held(), a.end())

    def test_who_waits_over_http(self):
        def waits(key):
            a = Tenant().want(10, key=key).call("acquire", 10, 201, took=8, wait_ms=9000, token=21)
            for event in a.events:
                if event["event"] == "ask":
                    event["wait_ms"] = 9000
            return a.grant(18.01, 21).believe(18.1).give_back(18.2).end()
        b = Client("b").ask(13.5, wait_ms=9000).grant(16.1, 20).believe(16.1).release(17, 16.9)
        self.assert_bad("line", self.held(), waits(""), b.end())
        self.assert_good(self.held(), waits(""), b, pauses={"s0": [(9, 9.1)]})
        self.assert_good(self.held(), waits("k"), b)


class Fenced(Checks):
    def writer(self, code="HF_FENCED"):
        return Client("a").ask(1).grant(1.1, 10).believe(1.1).write(3, 1, code).end()

    def test_by_one_who_had_it_later(self):
        self.assert_good(self.writer(), Client("b").hold(2, 2.5, 20).end())

    def test_by_nobody(self):
        self.assert_bad("counter", self.writer())
        self.assert_bad("counter", self.writer(), Client("b").hold(3.1, 3.5, 20).end())
        self.assert_bad("counter", self.writer(), Client("b").hold(2, 2.5, 20, lock="x").end())
        self.assert_bad("counter", self.writer(), Client("b").hold(0.5, 0.9, 9).end())
        refused = Client("b").ask(2).say("refused", 2.5, code="HF_HELD").end()
        self.assert_bad("counter", self.writer(), refused)

    def test_by_one_who_was_killed_before_it_said_so(self):
        self.assert_good(self.writer(), Client("b").ask(2), killed={"b": 2.5})


class Records(Checks):
    def look(self, *blocks, at=2, answered=2.1, lock="rw"):
        return [Snapshot(ns(at), lock, [list(each) for each in blocks], ns(answered))]

    def test_who_believes_is_there(self):
        a = Client("a").hold(1, 3, 10).end()
        report = self.assert_good(a, snapshots=self.look((10, 10)))
        self.assertEqual(report.figures["believed while the record was looked at"], 1)
        self.assert_bad("record", a, snapshots=self.look())
        self.assert_bad("record", a, snapshots=self.look((11, 11)))

    def test_by_a_ticket_that_threads_pass_on(self):
        a = Client("a").hold(1, 3, 12).end()
        self.assert_good(a, snapshots=self.look((10, 73)))
        self.assert_bad("record", a, snapshots=self.look((10, 11)))

    def test_another_locks_record(self):
        self.assert_good(Client("a").hold(1, 3, 10).end(), snapshots=self.look(lock="other"))

    def test_who_had_it_for_a_part_of_the_look(self):
        for begin, end in ((2.01, 3), (1, 2.09)):
            self.assert_good(Client("a").hold(begin, end, 10).end(), snapshots=self.look())

    def test_a_drop(self):
        a = Client("a").hold(1, 3, 10).end()
        self.assert_good(a, snapshots=self.look(), drops=[(1.5, 1.6)])
        self.assert_bad("record", Client("a").hold(1, 7, 10).end(), drops=[(1.5, 1.6)],
                        snapshots=self.look(at=6, answered=6.1))

    def test_a_lease_that_was_broken_by_force(self):
        lease = Tenant().have(1).believe(3).say("leave", 3.1, until=ns(3)).end()
        self.assert_bad("record", lease, snapshots=self.look())
        self.assert_good(lease, Breaker().take(1.5, 1.6, forced=True), snapshots=self.look())


if __name__ == "__main__":
    unittest.main(verbosity=1)
