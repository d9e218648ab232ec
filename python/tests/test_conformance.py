"""The cases of tests/conformance that concern a program, by the package: same names, same promises."""
# SPDX-License-Identifier: Apache-2.0
import copy
import gc
import os
import pickle
import select
import signal
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings

import holdfast
from holdfast import Mode, Outcome, WhyNext
from stores import SOON, OnAStore, Taker, on_each_store, until

TEN_YEARS = 87600 * 3600


class Clients(OnAStore):
    def test_exclusive_excludes(self):
        with self.one.lock("x") as lock:
            self.assertTrue(lock.is_held)
            self.assert_held("x")
            self.assert_held("x", shared=True)
        self.assert_free("x")

    def test_shared_shares_and_excludes_writers(self):
        with self.one.lock("x", shared=True) as lock, self.two.lock("x", shared=True, wait=0):
            self.assertIs(lock.mode, Mode.SHARED)
            self.assert_held("x")

    def test_k_of_n_permits(self):
        with self.one.lock("x", permits=2, limit=3), self.two.lock("x", permits=1, limit=3, wait=0):
            self.assert_held("x", permits=1, limit=3)

    def test_permits_that_cannot_be(self):
        for permits, limit in ((1, None), (None, 1), (2, 1), (-1, 1), (2 ** 40, 2 ** 40)):
            with self.assertRaises(holdfast.InvalidError, msg=(permits, limit)):
                self.one.acquire("x", permits=permits, limit=limit)

    def test_limits_that_disagree_are_both_named(self):
        with self.one.lock("x", permits=1, limit=3):
            with self.assertRaises(holdfast.LimitError) as caught:
                self.two.acquire("x", permits=1, limit=4)
            self.two.acquire("x", permits=1, limit=4, set_limit=True).close()
            self.assert_held("x", permits=4, limit=4)
            self.assertRegex(caught.exception.text, "3.*4|4.*3")

    def test_names_that_can_be(self):
        for name in ("a", "n" * 512, "$where", "a b/c.d", "\u00e9\U0001f512"):
            with self.one.lock(name) as lock:
                self.assertEqual(lock.name, name)
                self.assertEqual(self.two.show(name).name, name)

    def test_names_that_cannot_be(self):
        for name in ("", "n" * 513, "a\0b", "\ud800", None, b"bytes", 5):
            with self.assertRaises(holdfast.InvalidError, msg=repr(name)):
                self.one.acquire(name)

    def test_texts_have_their_bounds(self):
        self.one.acquire("x", why="w" * 256, actor="a" * 64).close()
        for words in ({"why": "w" * 257}, {"actor": "a" * 65}, {"why": "a\0b"}):
            with self.assertRaises(holdfast.InvalidError):
                self.one.acquire("x", **words)

    def test_uris_and_options_that_cannot_be(self):
        for uri in ("", "nothing:", "sqlite:", "a\0b", None):
            with self.assertRaises(holdfast.InvalidError, msg=uri):
                holdfast.Client(uri)
        for words in ({"ttl": 0.5}, {"ttl": 3601}, {"ttl": -1}, {"ttl": 0}, {"ttl": "10"}, {"stop_margin": 21},
                      {"deadlock": 0.001}, {"patience": float("nan")}):
            with self.assertRaises(holdfast.InvalidError, msg=words):
                holdfast.Client(self.uri, **words)

    def test_a_negative_wait_is_refused(self):
        for wait in (-1, -0.001, float("nan"), "1"):
            with self.assertRaises(holdfast.InvalidError):
                self.one.acquire("x", wait=wait)

    def test_an_option_that_is_none_is_named(self):
        with self.assertRaises(TypeError):
            self.one.acquire("x", wiat=1)

    def test_a_lock_is_held_past_its_ttl(self):
        with self.client(ttl=self.ttl).lock("x") as lock:
            end = time.monotonic() + 2.5 * self.ttl
            while time.monotonic() < end:
                self.assertTrue(0 < lock.check() <= self.ttl)
                self.assertFalse(select.select([lock], [], [], 0.02)[0])

    def test_release_twice_and_check_after_it(self):
        lock = self.one.acquire("x")
        lock.check()
        lock.release()
        with self.assertRaises(holdfast.LostError):
            lock.check()
        lock.release()
        lock.close()
        lock.close()
        with self.assertRaises(holdfast.ClosedError):
            lock.release()
        self.assertFalse(lock.is_held)

    def test_tokens_rise(self):
        token = 0
        for i in range(50):
            with (self.one if i % 3 else self.two).lock("x") as lock:
                self.assertTrue(token < lock.token < 2 ** 53)
                token = lock.token

    def test_close_is_ordered_before_the_next_acquire(self):
        token = 0
        for _ in range(30):
            lock = self.one.acquire("x", wait=0)
            self.assertGreater(lock.token, token)
            token = lock.token
            lock.close()
        self.two.acquire("x").close()

    def test_the_previous_outcome_is_told(self):
        with self.one.lock("x") as lock:
            self.assertIs(lock.previous().outcome, Outcome.NONE)
            lock.set_exit_status(3)
            token = lock.token
        with self.two.lock("x") as lock:
            last = lock.previous()
            self.assertEqual((last.outcome, last.exit_status, last.token), (Outcome.RELEASED, 3, token))
            self.assertTrue(last.who.startswith("one@"))
            self.assertEqual((last.done.exit_status, last.done.token), (3, token))

    def test_one_session_holds_many(self):
        locks = [self.one.acquire("x%d" % i) for i in range(50)]
        self.assertTrue(all(lock.is_held for lock in locks))
        self.assertEqual(len(self.two.locks("x", in_use=True)), 50)
        for lock in locks:
            lock.close()

    def test_locks_outlive_their_client_as_lost(self):
        client = self.client()
        lock = client.acquire("x")
        client.close()
        client.close()
        with self.assertRaises(holdfast.LostError):
            lock.check()
        lock.close()
        with self.assertRaises(holdfast.ClosedError):
            client.acquire("x")

    def test_show_tells_who_and_why(self):
        with self.one.lock("x", why="nightly", actor="me"):
            info = self.two.show("x")
            holder, = info.holders
            self.assertEqual((holder.why, holder.actor, holder.position), ("nightly", "me", 0))
            self.assertEqual(holder.who.split(":")[-1], str(os.getpid()))
            self.assertEqual((info.queue, info.limit), ((), None))
            self.assertAlmostEqual(holder.since, time.time(), delta=SOON)

    def test_show_of_what_is_not_there(self):
        with self.assertRaises(holdfast.NotFoundError):
            self.one.show("x")

    def test_list_by_prefix_and_in_order(self):
        for name in ("b", "a2", "a1", "a3", "\u00e9"):
            self.one.acquire(name).close()
        self.assertEqual([lock.name for lock in self.two.locks("a")], ["a1", "a2", "a3"])
        self.assertEqual([lock.name for lock in self.two.locks(after="a1", limit=2)], ["a2", "a3"])
        self.assertEqual([lock.name for lock in self.two.locks()][-1], "\u00e9")
        with self.assertRaises(holdfast.InvalidError):
            self.two.locks(limit=-1)

    def test_sessions_are_listed(self):
        with self.client(app="three", ttl=12).lock("x"):
            session, = (each for each in self.two.sessions() if each.app == "three")
            self.assertEqual((session.pid, session.ttl, session.dead), (os.getpid(), 12.0, False))

    def test_the_doctor(self):
        findings = self.one.doctor()
        self.assertIn("reach", [each.topic for each in findings])
        self.assertEqual([each for each in findings if each.is_danger], [])

    def test_nothing_that_holds_is_copied(self):
        """The end of a copy would release the original."""
        election = self.one.election("leader")
        self.addCleanup(election.close)
        with self.one.lock("x") as lock, self.one.lease("y", ttl=30) as lease:
            for each in (self.one, lock, lease, election):
                for copied in (copy.copy, copy.deepcopy, pickle.dumps, lambda it: copy.deepcopy([it])):
                    with self.assertRaisesRegex(TypeError, type(each).__name__ + " cannot be copied or pickled"):
                        copied(each)
            gc.collect()
            self.assertTrue(lock.is_held)
            self.assert_held("x")

    def test_a_forked_child_is_refused_and_harms_nothing(self):
        lock = self.one.acquire("x")
        pid = os.fork()
        if pid == 0:
            os._exit(use_in_child(self.one, lock))
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertTrue(lock.is_held)
        self.assert_held("x")
        lock.close()


def use_in_child(client, lock):
    calls = (lambda: client.acquire("y"), lock.check, lock.release, client.locks)
    for number, call in enumerate(calls, 1):
        try:
            call()
            return number
        except holdfast.ForkedError:
            pass
        except BaseException:
            return 10 + number
    lock.close()
    client.close()
    return 0


class Changes(OnAStore):
    def test_a_downgrade_lets_others_share(self):
        with self.one.lock("x") as lock:
            token = lock.token
            lock.downgrade()
            self.assertEqual((lock.mode, lock.token), (Mode.SHARED, token))
            self.assert_free("x", shared=True)
            self.assert_held("x")

    def test_a_downgrade_lets_in_who_waits_to_share(self):
        with self.one.lock("x") as lock:
            reader = Taker(self.two.acquire, "x", shared=True)
            self.await_queue("x", 1)
            lock.downgrade()
            reader.result().close()

    def test_an_upgrade_excludes(self):
        with self.one.lock("x", shared=True) as lock:
            token = lock.token
            self.assertTrue(lock.upgrade())
            self.assertIs(lock.mode, Mode.EXCLUSIVE)
            self.assertGreater(lock.token, token)
            self.assert_held("x", shared=True)

    def test_an_upgrade_fails_at_once_beside_others(self):
        with self.one.lock("x", shared=True) as lock, self.two.lock("x", shared=True):
            self.assertFalse(lock.upgrade())
            self.assertTrue(lock.is_held)

    def test_what_is_not_held_is_not_changed(self):
        lock = self.one.acquire("x")
        lock.release()
        for change in (lock.downgrade, lock.upgrade):
            with self.assertRaises(holdfast.LostError):
                change()
        lock.close()


class Waits(OnAStore):
    def test_a_time_out_leaves_nothing_behind(self):
        with self.one.lock("x"):
            began = time.monotonic()
            with self.assertRaises(TimeoutError) as caught:
                self.two.acquire("x", wait=0.2)
            self.assertIsInstance(caught.exception, holdfast.TimeoutError)
            self.assertGreaterEqual(time.monotonic() - began, 0.2)
            self.await_queue("x", 0)
        self.assert_free("x")

    def test_first_come_first_served(self):
        a, b = self.client(local_turns=-1), self.client(local_turns=-1)
        token = 0
        with self.one.lock("x") as lock:
            takers = []
            for i in range(6):
                takers.append(Taker((a if i % 3 else b).acquire, "x"))
                self.await_queue("x", i + 1)
            token = lock.token
        for taker in takers:
            with taker.result() as lock:
                self.assertGreater(lock.token, token)
                token = lock.token

    def test_a_waiting_writer_stops_new_readers(self):
        with self.one.lock("x", shared=True):
            writer = Taker(self.two.acquire, "x")
            self.await_queue("x", 1)
            with self.assertRaises(holdfast.HeldError):
                self.one.acquire("x", shared=True, wait=0)
        writer.result().close()

    def test_a_lock_that_lingers_is_recalled(self):
        for i in range(100):
            with self.one.lock("x", linger=60) as lock:
                lock.set_exit_status(i)
                token = lock.token
        with self.two.lock("x") as lock:
            self.assertEqual((lock.previous().token, lock.previous().exit_status), (token, 99))

    def test_history_has_the_shortest_turns(self):
        with holdfast.Client(self.uri, app="brief") as brief:
            with brief.lock("x", why="in a moment") as lock:
                token = lock.token
        [turn] = self.one.history("x", limit=1)
        self.assertEqual((turn.name, turn.why, turn.token, turn.limit, turn.end, turn.exit_status, turn.more),
                         ("x", "in a moment", token, None, holdfast.TurnEnd.RELEASED, None, 0))
        self.assertIn("brief@", turn.who)
        self.assertLessEqual(turn.granted, turn.ended + 1)
        self.assertEqual(self.one.history("x", since=turn.ended + 3600), [])
        for limit in (10001, -1):
            with self.assertRaises(holdfast.InvalidError, msg=limit):
                self.one.history("x", limit=limit)

    def test_cancel_ends_a_wait(self):
        cancel = holdfast.Cancel()
        with self.one.lock("x"):
            taker = Taker(self.two.acquire, "x", cancel=cancel)
            self.await_queue("x", 1)
            cancel.fire()
            with self.assertRaises(holdfast.CancelledError):
                taker.result()
            self.await_queue("x", 0)
            with self.assertRaises(holdfast.CancelledError):
                self.two.acquire("x", cancel=cancel)

    def test_who_waits_is_told_for_whom(self):
        told = []
        with self.one.lock("x", why="nightly"):
            with self.assertRaises(TimeoutError):
                self.two.acquire("x", wait=5, on_wait=told.append)
        info = told[-1]
        self.assertEqual((info.name, info.position, info.queued, info.n_holders, info.why),
                         ("x", 1, 1, 1, "nightly"))
        self.assertTrue(info.holder.startswith("one@"))
        self.assertGreater(info.held_since, 1.6e9)

    def test_what_on_wait_raises_ends_the_wait(self):
        def refuse(_):
            raise KeyError("on_wait")
        with self.one.lock("x"):
            with self.assertRaises(KeyError):
                self.two.acquire("x", on_wait=refuse)
            self.await_queue("x", 0)

    def test_a_time_out_that_races_with_the_grant(self):
        for i in range(15):
            lock = self.one.acquire("x")
            taker = Taker(self.two.acquire, "x", wait=0.01 + i / 1000)
            time.sleep(0.01)
            lock.release()
            lock.close()
            try:
                taker.result().close()
            except TimeoutError:
                pass
            self.one.acquire("x", wait=SOON).close()

    def test_eight_threads_over_a_counter(self):
        counter = [0]

        def count(client):
            for _ in range(20):
                with client.lock("x"):
                    value = counter[0]
                    time.sleep(0)
                    counter[0] = value + 1

        takers = [Taker(count, (self.one, self.two)[i % 2]) for i in range(8)]
        for taker in takers:
            taker.result()
        self.assertEqual(counter[0], 160)

    def test_close_ends_waits_in_bounded_time(self):
        client = self.client(local_turns=-1)
        with self.one.lock("x"):
            takers = [Taker(client.acquire, "x") for _ in range(3)]
            leader = Taker(client.election("x").campaign)
            self.await_queue("x", 4)
            client.close()
            for taker in takers + [leader]:
                with self.assertRaises(holdfast.ClosedError):
                    taker.result()

    def test_clients_and_locks_are_closed_beside_calls(self):
        def use(client, lock):  # never with a freed handle
            while True:
                for call in (lock.check, lambda: client.acquire("y").close(), lambda: client.show("x"),
                             lambda: lock.token, client.sessions):
                    try:
                        call()
                    except (holdfast.ClosedError, holdfast.LostError):
                        if has_begun.is_set():
                            return

        for i in range(10):
            has_begun = threading.Event()
            client = self.client()
            lock = client.acquire("x", wait=SOON)
            takers = [Taker(use, client, lock) for _ in range(6)]
            until(lambda: self.two.locks("y"), "the first call")
            has_begun.set()
            for close in (client.close, lock.close) if i % 2 else (lock.close, client.close):
                close()
            for taker in takers:
                taker.result()

    def test_close_of_the_holder_hands_over(self):
        client = self.client()
        lock = client.acquire("x")
        taker = Taker(self.two.acquire, "x")
        self.await_queue("x", 1)
        client.close()
        taker.result().close()
        lock.close()

    def test_candidates_lead_one_after_the_other(self):
        first, second = self.one.election("x", "here"), self.two.election("x", "there")
        leaders = self.one.observe("x")
        self.assertIsNone(next(leaders))
        with self.assertRaises(holdfast.LostError):
            first.check()
        first.campaign(wait=0)
        self.assertTrue(first.is_leader and first.check() > 0)
        leader = next(leaders)
        self.assertEqual((leader.value, leader.token), ("here", first.token))
        with self.assertRaises(holdfast.HeldError):
            second.campaign(wait=0)
        first.resign()
        second.campaign()
        self.assertFalse(first.is_leader)
        self.assertGreater(second.token, first.token)
        while leader is None or leader.value != "there":  # nobody may lead in between
            leader = next(leaders)
        second.close()
        self.assertFalse(second.is_leader)
        self.assertIsNone(next(leaders))
        leaders.close()
        first.close()


class Together(OnAStore):
    def test_all_are_had_in_the_order_of_the_names(self):
        locks = self.one.acquire_all(["b", "a", "c"])
        self.assertEqual([lock.name for lock in locks], ["b", "a", "c"])
        for lock in locks:
            self.assert_held(lock.name)
            lock.release()
            lock.close()

    def test_a_name_is_taken_once(self):
        for names in ([], ["a", "a"]):
            with self.assertRaises(holdfast.InvalidError):
                self.one.acquire_all(names)

    def test_all_or_none(self):
        with self.one.lock("b"):
            with self.assertRaises(holdfast.HeldError):
                self.two.acquire_all(["a", "b", "c"], wait=0)
            self.one.acquire("a", wait=SOON).close()

    def test_what_was_taken_together_is_lost_together(self):
        told, calls = threading.Event(), []

        def on_lost(error, left):
            calls.append((type(error), left >= 0))
            told.set()

        locks = self.one.acquire_all(["a", "b"], on_lost=on_lost)
        self.two.break_lock("b", "test", force=True)
        self.assertTrue(told.wait(SOON))
        until(lambda: not any(lock.is_held for lock in locks), "the loss of both")
        self.assertEqual(calls, [(holdfast.LostError, True)])
        for lock in locks:
            lock.close()


class Periods(OnAStore):
    def test_once_per_period(self):
        with self.one.lock("x", period=TEN_YEARS) as lock:
            self.assertFalse(lock.has_run)
            lock.set_exit_status(3)
        for _ in range(2):  # a run that skips does not overwrite one that worked
            with self.two.lock("x", period=TEN_YEARS) as lock:
                self.assertTrue(lock.has_run)
                done = lock.previous().done
                self.assertTrue(done.who.startswith("one@"))
                self.assertEqual((done.exit_status, done.period_end - done.period_start), (3, TEN_YEARS))

    def test_who_has_not_worked_leaves_the_work_to_others(self):
        self.one.acquire("x", period=TEN_YEARS).close()
        with self.two.lock("x", period=TEN_YEARS) as lock:
            self.assertFalse(lock.has_run)

    def test_what_was_broken_is_not_done(self):
        lost = self.one.acquire("x", period=TEN_YEARS)
        self.two.break_lock("x", "stuck", force=True)
        with self.two.lock("x", period=TEN_YEARS) as lock:
            self.assertIs(lock.previous().outcome, Outcome.ABANDONED)
            self.assertFalse(lock.has_run)
        lost.close()

    def test_periods_that_cannot_be(self):
        for words in ({"period": 0.999}, {"period": TEN_YEARS + 1}, {"period": -1},
                      {"period": 1, "shared": True}, {"period": 1, "permits": 1, "limit": 1}):
            with self.assertRaises(holdfast.InvalidError, msg=words):
                self.one.acquire("x", **words)

    def decorated(self, client, calls, **words):
        @client.once_per(TEN_YEARS, "x", **words)
        def job(result):
            """Documented."""
            calls.append(result)
            if result == "fails":
                raise KeyError(result)
            return result
        return job

    def test_once_per_calls_the_function_once(self):
        calls = []
        self.assertEqual(self.decorated(self.one, calls)("works"), "works")
        again = self.decorated(self.two, calls)
        self.assertIsNone(again("again"))
        self.assertEqual((calls, again.__name__, again.__doc__), (["works"], "job", "Documented."))

    def test_once_per_repeats_what_failed_only_with_retry(self):
        calls = []
        with self.assertRaises(KeyError):
            self.decorated(self.one, calls)("fails")
        self.assertIsNone(self.decorated(self.one, calls)("no"))
        self.assertEqual(self.decorated(self.two, calls, retry=True)("works"), "works")
        self.assertIsNone(self.decorated(self.one, calls, retry=True)("no"))
        self.assertEqual(calls, ["fails", "works"])


class Watchdogs(OnAStore):
    def test_who_does_not_feed_loses_the_lock_only(self):
        told = threading.Event()
        lock = self.one.acquire("x", feed=0.5, on_lost=lambda *_: told.set())
        with self.one.lock("y") as other:
            self.assertTrue(told.wait(SOON))
            with self.assertRaises(holdfast.LostError):
                lock.feed()
            lock.close()
            with self.two.lock("x") as after:
                self.assertIn("fed", after.previous().reason)
            self.assertTrue(other.is_held)

    def test_who_holds_for_too_long_loses_the_lock(self):
        with self.assertRaises(holdfast.LostError):
            with self.one.lock("x", max_hold=0.3) as lock:
                self.assertTrue(select.select([lock], [], [], SOON)[0])

    def test_who_feeds_keeps_the_lock(self):
        with self.one.lock("x", feed=6) as lock:
            end = time.monotonic() + 7
            while time.monotonic() < end:
                lock.feed()
                time.sleep(0.05)


class Leases(OnAStore):
    def test_any_client_renews_and_releases(self):
        lease = self.one.lease("x", ttl=30, owner="me", why="because", host="10.0.0.7")
        self.assertTrue(0 < lease.left <= 30 and lease.token > 0)
        holder, = self.two.show("x").holders
        self.assertEqual((holder.who, holder.why), ("me@10.0.0.7", "because"))
        self.assertGreater(self.two.renew_lease(lease.id), 0)
        self.assertGreater(lease.renew(), 0)
        self.assert_held("x")
        self.two.release_lease(lease.id)
        lease.release()
        with self.assertRaises(holdfast.LostError):
            lease.renew()
        self.assert_free("x")

    def test_with_releases_it(self):
        with self.one.lease("x"):
            self.assert_held("x")
        self.assert_free("x")

    def test_unless_renewed_it_ends(self):
        lease = self.one.lease("x", ttl=1)
        self.two.acquire("x", wait=SOON).close()
        self.assertEqual(lease.left, 0)
        with self.assertRaises(holdfast.LostError):
            lease.renew()

    def test_the_same_key_finds_it(self):
        first = self.one.lease("x", key="k")
        again = self.two.lease("x", key="k")
        self.assertEqual((again.id, first.was_there, again.was_there), (first.id, False, True))
        with self.assertRaises(holdfast.KeyReusedError):
            self.two.lease("x", key="k", ttl=77)
        first.release()

    def test_what_is_broken_is_not_renewed(self):
        lease = self.one.lease("x")
        self.two.break_lock("x", "test", force=True)
        with self.assertRaises(holdfast.LostError):
            lease.renew()

    def test_what_is_no_lease(self):
        for lease_id in ("", "x", "0" * 32, "g" * 32 + "-x", "a\0b"):
            with self.assertRaises(holdfast.InvalidError, msg=lease_id):
                self.one.renew_lease(lease_id)

    def test_it_waits_in_line_and_is_cancelled(self):
        cancel = holdfast.Cancel()
        with self.one.lock("x"):
            taker = Taker(self.two.lease, "x", cancel=cancel)
            self.await_queue("x", 1)
            cancel.fire()
            with self.assertRaises(holdfast.CancelledError):
                taker.result()


class Losses(OnAStore):
    def test_a_broken_holder_is_told_and_the_lock_is_free(self):
        told, calls = threading.Event(), []

        def on_lost(error, left):
            calls.append((type(error), error.text, left >= 0))
            told.set()

        with self.assertRaises(holdfast.LostError):
            with self.one.lock("x", on_lost=on_lost) as lock:
                self.two.break_lock("x", "for the test", by="tester", force=True)
                self.assertTrue(select.select([lock], [], [], SOON)[0])
                self.assertTrue(told.wait(SOON))
                self.assertFalse(lock.is_held)
                self.assert_free("x")
        self.assertEqual(len(calls), 1)
        self.assertIn("for the test", calls[0][1])

    def test_an_exception_ends_the_lock_and_is_what_comes_out(self):
        with self.assertRaises(ZeroDivisionError):
            with self.one.lock("x"):
                self.two.break_lock("x", "test", force=True)
                1 / 0
        with self.assertRaises(ZeroDivisionError):
            with self.one.lock("x"):
                1 / 0
        self.two.acquire("x", wait=SOON).close()

    def test_on_lost_may_close_the_lock_but_not_the_client(self):
        refused, has_closed = [], threading.Event()

        def on_lost(*_):
            lock.close()
            try:
                self.one.close()
            except holdfast.InvalidError as error:
                refused.append(error)
            has_closed.set()

        lock = self.one.acquire("x", on_lost=on_lost)
        self.two.break_lock("x", "test", force=True)
        self.assertTrue(has_closed.wait(SOON))
        self.assertEqual(len(refused), 1)
        with self.assertRaises(holdfast.ClosedError):
            lock.check()

    def test_break_if_token(self):
        with self.one.lock("x") as lock:
            with self.assertRaises(holdfast.NotFoundError):
                self.two.break_lock("x", "test", if_token=lock.token + 1, force=True)
            self.assertTrue(lock.is_held)

    def test_breaks_that_cannot_be(self):
        for call in (lambda: self.two.break_lock("x", ""), lambda: self.two.break_lock("x", "r" * 257)):
            with self.assertRaises(holdfast.InvalidError):
                call()
        with self.assertRaises(holdfast.NotFoundError):
            self.two.break_lock("x", "nobody has it", force=True)

    def test_what_is_forgotten_is_released_with_a_warning(self):
        with self.assertWarns(ResourceWarning):
            self.one.acquire("x")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.two.acquire("x", wait=SOON).release()
        self.assertEqual(seen, [])
        self.one.acquire("x", wait=SOON).close()

    def test_a_lock_that_is_closed_twice_keeps_the_others_watched(self):
        lost = threading.Event()
        first, second = self.one.acquire_all(["x", "y"], on_lost=lambda *_: lost.set())
        first.close()
        first.close()
        self.two.break_lock("y", "test", force=True)
        self.assertTrue(lost.wait(SOON))
        second.close()


class Deadlocks(OnAStore):
    def test_two_that_wait_for_each_other(self):
        clients = [self.client(deadlock=0.1), self.client(deadlock=0.1)]
        both_hold = threading.Barrier(2)
        found = []

        def cross(client, first, second):
            with client.lock(first):
                both_hold.wait(SOON)
                try:
                    with client.lock(second):
                        pass
                except holdfast.DeadlockError as error:
                    found.append(error.text)

        takers = [Taker(cross, clients[0], "a", "b"), Taker(cross, clients[1], "b", "a")]
        for taker in takers:
            taker.result()
        text, = found
        self.assertIn("a", text)
        self.assertIn("held by", text)


    def test_what_the_parent_holds(self):
        with self.one.lock("x"):
            with unittest.mock.patch.dict(os.environ, HOLDFAST_HELD=self.one.held()):
                child = self.client(deadlock=0.1)
            with self.assertRaisesRegex(holdfast.DeadlockError, "held by what started it"):
                child.acquire("x", wait=SOON)


class Why(OnAStore):
    def test_the_chain_to_the_root(self):
        waits, holds = self.client(app="waits", deadlock=0.1), self.client(app="holds")

        def take_both():
            with waits.lock("x", why="migration"), waits.lock("y"):
                pass

        with holds.lock("y", why="restore"):
            taker = Taker(take_both)
            self.await_queue("y", 1)
            first, second = until(lambda: self.chain("x", 2), "the report of the wait")
        taker.result()
        self.assertEqual((first.name, first.depth, first.waits_for, first.next),
                         ("x", 0, "y", WhyNext.FOLLOWS))
        self.assertEqual((second.name, second.depth, second.waits_for, second.next),
                         ("y", 1, None, WhyNext.ROOT))
        self.assertEqual([(link.holder.who.split("@")[0], link.holder.why) for link in (first, second)],
                         [("waits", "migration"), ("holds", "restore")])

    def chain(self, name, n):
        links = self.two.why(name)
        return links if len(links) == n else None

    def test_a_free_lock(self):
        with self.assertRaises(holdfast.NotFoundError):
            self.two.why("x")
        self.one.acquire("x").close()
        until(lambda: self.two.why("x") == [], "the release")


class Decorators(OnAStore):
    def test_locked_holds_the_lock_during_each_call(self):
        @self.one.locked("x", why="decorated")
        def work(value, *, factor=1):
            self.assert_held("x")
            return value * factor
        self.assertEqual([work(2), work(3, factor=2), work.__name__], [2, 6, "work"])
        self.assert_free("x")

    def test_a_name_is_made_of_the_arguments(self):
        @self.one.locked(lambda order, **_: "order-%d" % order)
        def pack(order, **_):
            self.assert_held("order-%d" % order)
            self.assert_free("order-%d" % (order + 1))
        pack(5, fast=True)

    def test_lock_is_a_decorator_too(self):
        @self.one.lock("x")
        def work():
            self.assert_held("x")
        work()
        work()


class Signals(OnAStore):
    needs_processes = True

    def test_a_signal_whose_handler_raises_ends_a_wait(self):
        with self.one.lock("x"):
            for number, ends in ((signal.SIGINT, "KeyboardInterrupt()"), (signal.SIGTERM, "SystemExit(3)")):
                waiter = self.script("""
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
with holdfast.Client(sys.argv[1]) as client:
    try:
        client.acquire("x")
    except BaseException as error:
        print(repr(error))
""")
                self.await_queue("x", 1)
                waiter.send_signal(number)
                self.assertEqual(waiter.communicate(timeout=SOON)[0], ends + "\n")
                self.await_queue("x", 0)

    def test_it_ends_a_break_that_waits(self):
        lock = self.client(ttl=45).acquire("x")  # it is not released, so the break waits for so long
        breaker = self.script("""
with holdfast.Client(sys.argv[1]) as client:
    try:
        client.break_lock("x", "test")
    except BaseException as error:
        print(repr(error))
""")
        until(lambda: not lock.is_held, "the loss, as the break asks for the lock")
        breaker.send_signal(signal.SIGINT)
        self.assertEqual(breaker.communicate(timeout=SOON)[0], "KeyboardInterrupt()\n")
        self.assert_held("x")
        lock.close()

    def test_a_signal_whose_handler_returns_ends_no_wait(self):
        lock = self.one.acquire("x")
        waiter = self.script("""
import signal
signal.signal(signal.SIGUSR1, lambda *_: print("signal", flush=True))
with holdfast.Client(sys.argv[1]) as client:
    with client.lock("x"):
        print("held")
""")
        self.await_queue("x", 1)
        waiter.send_signal(signal.SIGUSR1)
        self.assertEqual(waiter.stdout.readline(), "signal\n")
        self.await_queue("x", 1)
        lock.release()
        self.assertEqual(waiter.communicate(timeout=SOON)[0], "held\n")
        lock.close()


class Processes(OnAStore):
    needs_processes = True

    COUNT = """
path, turns = sys.argv[2], int(sys.argv[3])
with holdfast.Client(sys.argv[1]) as client:
    for _ in range(turns):
        with client.lock("x"):
            with open(path) as stream:
                value = int(stream.read())
            with open(path, "w") as out:
                out.write(str(value + 1))
"""

    def test_four_processes_over_a_counter(self):
        with tempfile.NamedTemporaryFile("w+") as counter:
            counter.write("0")
            counter.flush()
            processes = [self.script(self.COUNT, counter.name, "20") for _ in range(4)]
            self.assertEqual([each.wait(SOON) for each in processes], [0] * 4)
            counter.seek(0)
            self.assertEqual(counter.read(), "80")

    def test_a_killed_holders_lock_is_had_within_its_ttl_and_a_second(self):
        holder = self.script("""
client = holdfast.Client(sys.argv[1], ttl=%d)
lock = client.acquire("x")
print("holds", flush=True)
sys.stdin.read()
""" % self.ttl)
        holder.stdout.readline()
        self.assert_held("x")
        holder.kill()
        holder.wait()
        with self.two.lock("x", wait=SOON) as lock:
            self.assertIs(lock.previous().outcome, Outcome.ABANDONED)

    def test_a_program_that_closes_nothing_ends_and_releases(self):
        holder = self.script("""
client = holdfast.Client(sys.argv[1])
lock = client.acquire("x", on_lost=print)
""")
        self.assertEqual(holder.communicate(timeout=SOON)[0], "")
        self.assertEqual(holder.returncode, 0)
        self.assert_free("x")


on_each_store(globals())

if __name__ == "__main__":
    unittest.main(verbosity=2)
