# The checker's rules for leases, on histories written by hand: what it must complain of, and what
# it must not.
# SPDX-License-Identifier: Apache-2.0
import unittest

from checker import History
from test_checker import RW, Checks, Client, ns

TTL = 3
REFUSALS = {409: "HF_HELD", 410: "HF_LOST", 422: "PROBLEM_KEY", 500: "HF_INTERNAL",
            503: "HF_UNREACHABLE", 0: "NO_ANSWER"}


class Tenant(Client):
    """Writes a history as tenant.py does."""

    def __init__(self, who="l0-1"):
        super().__init__(who)
        self.calls = 0

    def want(self, at=1, key="k", lock="rw", permits=RW, limit=RW):
        self.turn += 1
        return self.say("ask", at, lock=lock, permits=permits, limit=limit, wait_ms=0, key=key,
                        ttl_ms=TTL * 1000)

    def call(self, kind, at, status, took=0.01, service=0, wait_ms=0, lease="id", token=10,
             expires_in=TTL, patience=25, code=None):
        self.calls += 1
        self.say("call", at, n=self.calls, kind=kind, service=service, wait_ms=wait_ms,
                 patience_ms=patience * 1000)
        said = ({"lease": lease, "token": token, "expires_in_ms": int(expires_in * 1000)}
                if status in (200, 201) else {})
        return self.say("answer", at + took, n=self.calls, status=status, **said,
                        code=code or REFUSALS.get(status, "HF_OK"))

    def have(self, at=1, token=10, **asked):
        """Asked for at this time, and had at once."""
        self.want(at, **asked).call("acquire", at, 201, token=token)
        return self.grant(at + 0.01, token).believe(at + 0.02)

    def give_back(self, at, until=None):
        self.say("release", at, until=ns(until or at)).call("release", at, 204)
        return self.say("released", at + 0.02, code="HF_OK", is_certain=True)

    def end(self, at=50):
        return self.say("end", at, close_ms=0)


class Breaker(Client):
    def __init__(self):
        super().__init__("b0-1")

    def take(self, sent, answered, token=10, done=True, forced=False, lock="rw"):
        self.say("break", sent, n=1, lock=lock, token=token, forced=forced)
        self.say("broken", answered, n=1, done=done, tokens=[token])
        return self.end()


class Belief(Checks):
    def test_a_lease_beside_a_holder(self):
        lease = Tenant().have(1).believe(3).give_back(3).end()
        self.assert_bad("overlap", lease, Client("c1-1").hold(2, 2.5, 20).end())
        self.assert_good(lease, Client("c1-1").hold(3.1, 3.5, 20).end())

    def test_permits_of_leases_add_up_with_those_of_holders(self):
        lease = Tenant().have(1, permits=2, limit=3).believe(3).give_back(3).end()
        self.assert_good(lease, Client("c1-1").hold(2, 2.5, 20, permits=1, limit=3).end())
        self.assert_bad("overlap", lease,
                        Client("c1-1").hold(2, 2.5, 20, permits=2, limit=3).end())

    def test_a_token_that_fell(self):
        self.assert_bad("token", Tenant().have(1, token=30).give_back(1.5).end(),
                        Tenant("l1-1").have(2, token=20).give_back(3).end())

    def test_a_break_by_force_excuses_who_had_it(self):
        lease = Tenant().have(1).believe(3).say("leave", 3.1, until=ns(3)).end()
        other = Client("c1-1").hold(2, 2.5, 20).end()
        self.assert_good(lease, other, Breaker().take(1.5, 1.6, forced=True))
        self.assert_bad("overlap", lease, other, Breaker().take(2.2, 2.3, forced=True))
        self.assert_bad("overlap", lease, other,
                        Breaker().take(1.5, 1.6, token=11, forced=True))


class Releases(Checks):
    def after(self, lease, previous=2):
        other = Client("c1-1").ask(3).grant(4, 20, previous, 10).believe(4).release(5.1, 5).end()
        return lease.end(), other

    def test_told_abandoned(self):
        self.assert_bad("release", *self.after(Tenant().have(1).give_back(2)))
        self.assert_good(*self.after(Tenant().have(1).give_back(2), previous=1))

    def test_it_may_have_run_out_before(self):
        lease = Tenant().have(1).say("release", 3, until=ns(2)).call("release", 3, 204)
        self.assert_good(*self.after(lease.say("released", 3.1, code="HF_OK", is_certain=False)))

    def test_it_may_have_been_broken(self):
        lease = Tenant().have(1).give_back(2)
        self.assert_good(*self.after(lease), Breaker().take(1.5, 2.1))


class Keys(Checks):
    def test_a_repeat_finds_it(self):
        self.assert_good(Tenant().have(1).call("repeat", 1.5, 201, service=1).give_back(2).end())

    def test_another_lease(self):
        for what in ({"token": 11}, {"lease": "other"}):
            self.assert_bad("key", Tenant().have(1).call("repeat", 1.5, 201, **what)
                            .give_back(2).end())

    def test_a_renewal_with_another_token(self):
        self.assert_bad("key", Tenant().have(1).call("renew", 1.5, 200, token=11).end())
        self.assert_good(Tenant().have(1).call("renew", 1.5, 200).end())

    def test_another_lease_after_its_documents_were_dropped(self):
        lease = Tenant().have(1).call("repeat", 1.5, 201, token=11).end()
        self.assert_good(lease, drops=[(1.2, 1.3)])
        self.assert_good(lease, forgotten=[(ns(1.2), ns(1.3))])
        self.assert_bad("key", lease, drops=[(2.2, 2.3)])

    def test_there_again_after_its_release(self):
        for kind, status in (("repeat", 201), ("renew", 200)):
            self.assert_bad("key", Tenant().have(1).give_back(2).call(kind, 2.5, status).end())
        self.assert_good(Tenant().have(1).give_back(2).call("repeat", 2.5, 410).end())

    def test_a_repeat_that_was_under_way_at_the_release(self):
        self.assert_good(Tenant().have(1).call("repeat", 1.99, 201, took=0.1).give_back(2).end())

    def test_another_body_finds_a_key_that_was_forgotten(self):
        lease = Tenant().have(1).give_back(2).call("changed", 2.5, 201).end()
        self.assert_good(lease, drops=[(2.2, 2.3)])
        self.assert_bad("key", lease, drops=[(0.2, 0.3)])

    def test_another_body_was_first_with_a_key_that_was_forgotten(self):
        lease = (Tenant().have(1).give_back(2).call("changed", 2.4, 410, took=0.3)
                 .call("repeat", 2.5, 422).end())
        self.assert_good(lease, drops=[(2.2, 2.3)])
        self.assert_bad("code", lease, drops=[(0.2, 0.3)])
        alone = Tenant().have(1).give_back(2).call("repeat", 2.5, 422).end()
        self.assert_bad("code", alone, drops=[(2.2, 2.3)])

    def test_another_body(self):
        self.assert_bad("key", Tenant().have(1).call("changed", 1.5, 201).end())
        self.assert_good(Tenant().have(1).call("changed", 1.5, 422).end())

    def test_another_locks_name(self):
        self.assert_bad("key", Tenant().have(1).call("misnamed", 1.5, 200).end())
        for status in (204, 410):
            self.assert_good(Tenant().have(1).call("misnamed", 1.5, status).end())

    def test_held_by_itself(self):
        self.assert_bad("key", Tenant().have(1).call("repeat", 1.5, 409).end())
        self.assert_bad("key", Tenant().have(1).call("changed", 1.5, 409).end())
        self.assert_good(Tenant().have(1).call("repeat", 1.5, 409).end(), Breaker().take(1.2, 3))

    def test_a_lease_that_has_run_out_may_be_another_ones(self):
        self.assert_good(Tenant().have(1).call("repeat", 4.1, 409).end())

    def test_it_waited_behind_its_own_lease(self):
        def waits(sent, **told):
            kind = {"took": 1.5, "wait_ms": 1500, "code": "HF_TIMEOUT", **told}
            return Tenant().have(1).call("repeat", sent, 409, **kind).end()
        self.assert_bad("key", waits(0.99))
        self.assert_good(waits(0.99), troubles=[(0.9, 1.1)])
        self.assert_good(waits(0.01, took=1.5))  # its deadline came as the lease was granted

    def test_a_try_at_the_same_moment(self):
        self.assert_good(Tenant().have(1).call("repeat", 1.0, 409).end())


class Ended(Checks):
    def test_told_so_though_it_lives(self):
        for kind in ("renew", "repeat", "release"):
            self.assert_bad("ended", Tenant().have(1).call(kind, 2, 410).end())

    def test_it_had_run_out(self):
        self.assert_good(Tenant().have(1).call("renew", 3.995, 410).end())

    def test_it_was_renewed_meanwhile(self):
        lease = Tenant().have(1).call("renew", 2, 200).call("renew", 4.5, 410).end()
        self.assert_bad("ended", lease)

    def test_it_was_released(self):
        self.assert_good(Tenant().have(1).give_back(2).call("renew", 2.1, 410)
                         .call("release", 2.2, 410).end())

    def test_another_locks_name_releases_nothing(self):
        self.assert_bad("ended", Tenant().have(1).call("misnamed", 1.5, 204)
                        .call("renew", 2, 410).end())

    def test_it_was_broken(self):
        lease = Tenant().have(1).call("renew", 2, 410).end()
        self.assert_good(lease, Breaker().take(1.5, 3))
        self.assert_bad("ended", lease, Breaker().take(1.5, 3, lock="other"))
        self.assert_bad("ended", lease, Breaker().take(1.5, 3, token=9))
        self.assert_good(lease, Breaker().take(1.5, 3, token=0))

    def test_its_documents_were_dropped(self):
        lease = Tenant().have(1).call("renew", 2, 410).end()
        self.assert_good(lease, forgotten=[(ns(1.5), ns(1.6))])


    def test_it_was_broken_before_its_tenant_said_its_token(self):
        lease = Tenant().want(1).call("acquire", 1, 201).call("repeat", 2, 410)
        self.assert_good(lease, Breaker().take(1.5, 3), killed={"l0-1": 2.5})
        self.assert_bad("ended", lease, killed={"l0-1": 2.5})


class Broken(Checks):
    def test_renewed_afterwards(self):
        for kind, status in (("renew", 200), ("repeat", 201)):
            lease = Tenant().have(1).call(kind, 3, status).end()
            for forced in (False, True):
                self.assert_bad("broken", lease, Breaker().take(1.5, 2.5, forced=forced))
                self.assert_good(lease, Breaker().take(1.5, 3.1, forced=forced))
                self.assert_good(lease, Breaker().take(1.5, 2.5, forced=forced, done=False))
                self.assert_good(lease, Breaker().take(1.5, 2.5, forced=forced, token=11))

    def test_believed_in_afterwards(self):
        lease = Tenant().have(1).believe(2.6).say("leave", 2.7, until=ns(2.6)).end()
        self.assert_bad("broken", lease, Breaker().take(1.5, 2.5))
        self.assert_good(lease, Breaker().take(1.5, 2.5, forced=True))
        self.assert_good(lease, Breaker().take(1.5, 2.5), drops=[(1.2, 1.3)])

    def test_a_holder_is_told_with_its_next_beat(self):
        def broken(sent=1.5, **how):
            return [Client("c0-1").hold(1, 3.1, 10).end(), Breaker().take(sent, 3.2, **how)]
        self.assert_bad("broken", *broken())
        self.assert_good(*broken(sent=1.61))
        self.assert_good(*broken(done=False))
        self.assert_good(*broken(), pauses={"c0-1": [(1.1, 1.2)]})
        self.assert_good(*broken(), pauses={"s1": [(1.1, 1.2)]})
        self.assert_good(*broken(), pauses={"b0-1": [(1.1, 1.2)]})
        self.assert_bad("broken", *broken(), pauses={"c1-1": [(1.1, 1.2)]})
        self.assert_good(*broken(), troubles=[(1.1, 1.2)])
        lease = Tenant().have(1).believe(3.1).say("leave", 3.15, until=ns(3.1)).end()
        self.assert_good(lease, Breaker().take(1.5, 3.2))  # nobody tells it

    def test_a_holder_believes_afterwards(self):
        self.assert_bad("broken", Client("c0-1").hold(1, 3, 10).end(), Breaker().take(1.5, 2.5))
        self.assert_good(Client("c0-1").hold(1, 2, 10).end(), Breaker().take(1.5, 2.5))


class Calls(Checks):
    def refused(self, status, **told):
        return Tenant().want(1).call("acquire", 1, status, **told).say(
            "refused", 2, code="any").end()

    def test_an_internal_error_is_never_right(self):
        self.assert_bad("code", self.refused(500), troubles=[(0.9, 1.1)])

    def test_in_trouble_only(self):
        for told in ({"status": 0}, {"status": 503, "code": "HF_CLOSED"}):
            self.assert_good(self.refused(**told), troubles=[(0.9, 1.1)])
            self.assert_good(self.refused(**told), pauses={"s0": [(0.9, 1.1)]})
            self.assert_bad("code", self.refused(**told), pauses={"s1": [(0.9, 1.1)]})
            self.assert_bad("code", self.refused(**told))

    def test_a_broken_connection_is_counted(self):
        report = self.assert_good(self.refused(503))
        self.assertEqual(report.figures["calls that met a broken connection"], 1)

    def test_who_hangs_up_gets_no_answer(self):
        self.assert_good(self.refused(0, took=0.3, patience=0.3))

    def test_late(self):
        self.assert_bad("deadline", self.refused(409, took=2.1, wait_ms=1000, code="HF_TIMEOUT"))
        self.assert_good(self.refused(409, took=1.9, wait_ms=1000, code="HF_TIMEOUT"))
        self.assert_good(self.refused(409, took=5, wait_ms=1000, code="HF_TIMEOUT"),
                         pauses={"s0": [(1.5, 5.9)]})

    def test_a_first_call_is_told_that_its_lease_has_ended(self):
        self.assert_good(self.refused(410))
        keyless = Tenant().want(1, key="").call("acquire", 1, 410).say("refused", 2, code="HF_LOST")
        self.assert_bad("code", keyless.end())
        self.assert_good(keyless, troubles=[(0.9, 1.1)])
        self.assert_good(keyless, Breaker().take(1.0, 1.1))
        self.assert_bad("code", keyless, Breaker().take(1.0, 1.1, lock="x"))
        self.assert_bad("code", keyless, Breaker().take(0.1, 0.2))


class Recovery(Checks):
    def waiter(self, granted):
        return (Client("c1-1").ask(1.5).grant(granted, 20).believe(granted)
                .release(granted + 0.2, granted + 0.1).end())

    def test_a_lease_stands_until_it_has_run_out(self):
        lease = Tenant().have(1).say("leave", 1.1, until=ns(1.1)).end()
        self.assert_good(lease, self.waiter(7.9), lease_ttl=TTL)
        self.assert_bad("recovery", lease, self.waiter(8.2), lease_ttl=TTL)

    def test_a_release_ends_it(self):
        self.assert_bad("recovery", Tenant().have(1).give_back(1.2).end(), self.waiter(7),
                        lease_ttl=TTL)

    def test_a_lease_that_nobody_heard_of(self):
        lease = Tenant().want(1).call("acquire", 1, 0, patience=0.01).say("refused", 2, code="any")
        self.assert_good(lease.end(), self.waiter(9.9))
        self.assert_bad("recovery", lease, self.waiter(10.2))

    def test_who_waits_over_http(self):
        lease = Tenant().want(1).call("acquire", 1, 201, took=6, wait_ms=8000)
        lease.grant(7, 10).believe(7.1).give_back(7.2).end()
        self.assert_bad("recovery", lease)
        self.assert_good(lease, pauses={"s0": [(2, 5)]})


class Afterwards(Checks):
    def test_a_ticket_that_nobody_knows(self):
        self.assert_bad("leak", Tenant().end(), held={"rw": "not free in time"})

    def test_a_service_that_crashed(self):
        self.assert_bad("end", Tenant().end(), crashed=["s0 was ended by signal 11"])

    def test_a_tenant_that_does_not_end(self):
        self.assert_bad("end", Tenant().have(1).give_back(2))

    def test_figures(self):
        report = self.assert_good(Tenant().have(1).give_back(2).end(),
                                  Breaker().take(0.2, 0.3, token=9))
        self.assertEqual((report.figures["leases granted"], report.figures["breaks done"]), (1, 1))


class Reading(unittest.TestCase):
    def test_calls_that_overlap_turns(self):
        """A call of a turn that is over may be answered in the next one."""
        tenant = Tenant().have(1).say("call", 1.5, n=9, kind="repeat", service=1, wait_ms=0,
                                      patience_ms=25000).give_back(2).have(3, token=20)
        late = dict(event="answer", at=ns(4), thread=0, turn=1, n=9, status=410, code="HF_LOST")
        turns = History(tenant.who, tenant.events + [late]).turns
        self.assertEqual([turns[0].calls[9].status, len(turns[1].calls)], [410, 1])


if __name__ == "__main__":
    unittest.main(verbosity=1)
