"""What happens when a close, a cancel or a signal comes at the worst moment: each moment is made."""
# SPDX-License-Identifier: Apache-2.0
import asyncio
import signal
import threading
import unittest
from unittest import mock

import holdfast
from holdfast import _async, _handle, _waits
from stores import SOON, Taker, until


class Call(threading.Thread):
    """A call that runs in a handle until it is told to end."""

    def __init__(self, handle):
        super().__init__(daemon=True)
        self.handle, self.has_begun, self.ends = handle, threading.Event(), threading.Event()
        self.start()
        self.has_begun.wait(SOON)

    def run(self):
        with self.handle:
            self.has_begun.set()
            self.ends.wait(SOON)

    def end(self):
        self.ends.set()
        self.join(SOON)


class Handles(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(_handle, "lib")
        self.lib = patch.start()
        self.addCleanup(patch.stop)
        self.client = _handle.ClientHandle("client", None)
        self.close_child = mock.Mock()
        self.child = _handle.ChildHandle(self.client, "lock", self.close_child, "lock")
        self.addCleanup(self.client.close)

    def closing(self):
        closer = Taker(self.client.close)
        until(lambda: self.client.state is _handle.State.CLOSING, "the beginning of the close")
        return closer

    def assert_closes_after(self, call):
        closer = self.closing()
        for handle in (self.client, self.child):
            with self.assertRaises(holdfast.ClosedError):
                handle.__enter__()
        self.lib.hf_close.assert_not_called()
        call.end()
        closer.result()
        self.lib.hf_close.assert_called_once_with("client")

    def test_a_client_is_closed_when_its_calls_have_ended(self):
        self.assert_closes_after(Call(self.client))

    def test_and_those_of_its_locks(self):
        self.assert_closes_after(Call(self.child))
        with self.child as pointer:  # afterwards the library says what is wrong with it
            self.assertEqual(pointer, "lock")

    def test_a_lock_is_closed_when_its_calls_have_ended(self):
        calls = [Call(self.child), Call(self.child)]
        self.child.close()
        calls[0].end()
        self.close_child.assert_not_called()
        calls[1].end()
        self.child.close()
        self.close_child.assert_called_once_with("lock")

    def test_a_lock_closed_while_its_client_closes_is_closed_after_it(self):
        call = Call(self.client)
        closer = self.closing()
        self.child.close()
        self.lib.hf_close.side_effect = lambda _: self.close_child.assert_not_called()
        call.end()
        closer.result()
        self.close_child.assert_called_once_with("lock")

    def test_closing_stops_waits(self):
        call, stop = Call(self.client), mock.Mock()
        self.client.begin_wait(stop)
        closer = self.closing()
        stop.assert_called_once_with()
        call.end()
        closer.result()
        with self.assertRaises(holdfast.ClosedError):
            self.client.begin_wait(stop)


class Waits(unittest.TestCase):
    def setUp(self):
        client = holdfast.Client("memory:")
        self.addCleanup(client.close)
        self.handle = client.handle

    def test_what_came_although_the_wait_was_to_end_is_given_back(self):
        undo = mock.Mock()
        with self.assertRaises(KeyError):
            with _waits.waiting(self.handle) as wait:
                wait.fail(KeyError())
                wait.undo = undo
        undo.assert_called_once_with()

    def test_an_interrupt_goes_before_the_librarys_error(self):
        for error in (holdfast.CancelledError("x"), holdfast.HeldError("x")):
            undo = mock.Mock()
            with self.assertRaises(KeyboardInterrupt):
                with _waits.waiting(self.handle) as wait:
                    signal.raise_signal(signal.SIGINT)
                    wait.undo = undo
                    raise error
            undo.assert_not_called()

    def test_handlers_of_signals_are_as_before(self):
        before = [signal.getsignal(number) for number in signal.valid_signals()]
        with _waits.waiting(self.handle):
            self.assertNotEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertEqual([signal.getsignal(number) for number in signal.valid_signals()], before)

    def handle_usr1(self, handler):
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, lambda *_: handler()))

    def test_a_handler_cannot_close_the_client_whose_call_it_interrupts(self):
        self.handle_usr1(self.handle.close)
        with self.assertRaises(holdfast.InvalidError):
            with _waits.waiting(self.handle), self.handle:
                signal.raise_signal(signal.SIGUSR1)
        with self.assertRaises(holdfast.InvalidError):
            with self.handle:
                signal.raise_signal(signal.SIGUSR1)
        self.assertIs(self.handle.state, _handle.State.OPEN)

    def test_a_handler_that_closes_the_client_that_is_being_closed_does_not_wait(self):
        call, main = Call(self.handle), threading.get_ident()
        self.handle_usr1(lambda: (self.handle.close(), call.ends.set()))

        def interrupt():
            until(lambda: self.handle.state is _handle.State.CLOSING, "the close")
            signal.pthread_kill(main, signal.SIGUSR1)

        sender = Taker(interrupt)
        self.handle.close()
        sender.result()
        self.assertIs(self.handle.state, _handle.State.CLOSED)

    def test_a_handler_set_by_a_handler_stays(self):
        def first(*_):
            signal.signal(signal.SIGUSR1, second)

        def second(*_):
            pass

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, first))
        with _waits.waiting(self.handle):
            signal.raise_signal(signal.SIGUSR1)
        self.assertIs(signal.getsignal(signal.SIGUSR1), second)

    def test_a_cancel_that_was_fired_ends_later_waits(self):
        cancel, stop = holdfast.Cancel(), mock.Mock()
        cancel.fire()
        cancel.add(stop)
        stop.assert_called_once_with()


class Leases(unittest.IsolatedAsyncioTestCase):
    """A lease comes: it is given back exactly once unless the task has it."""

    def setUp(self):
        patch = mock.patch.object(_async, "lib")
        self.lib = patch.start()
        self.addCleanup(patch.stop)

    async def asyncSetUp(self):
        self.give_back = mock.Mock()
        self.lease = mock.Mock(spec=holdfast.Lease)
        self.wait = _async._Wait(mock.Mock(), self.give_back)

    async def done(self, answer=None):
        await asyncio.get_running_loop().run_in_executor(None, self.wait.done, answer or self.lease)

    def assert_given_back(self, by_library, by_loop):
        self.assertEqual((self.lease.release.call_count, self.give_back.call_count), (by_library, by_loop))

    async def test_the_task_has_it(self):
        await self.done()
        self.assertIs(await self.wait.future, self.lease)
        self.assert_given_back(0, 0)

    async def test_the_task_has_the_error(self):
        await self.done(holdfast.HeldError("x"))
        with self.assertRaises(holdfast.HeldError):
            await self.wait.future

    async def test_it_comes_after_the_task_gave_up(self):
        self.wait.future.cancel()
        self.wait.give_up()
        self.lib.hf_lease_cancel.assert_called_once()
        await self.done()
        await asyncio.sleep(0)
        self.assert_given_back(1, 0)

    async def test_it_comes_after_the_cancel_and_before_the_task_gave_up(self):
        self.wait.future.cancel()
        await self.done()
        await asyncio.sleep(0)
        self.wait.give_up()
        self.lib.hf_lease_cancel.assert_not_called()  # the library has forgotten the wait
        self.assert_given_back(0, 1)

    async def test_it_comes_before_the_cancel(self):
        await self.done()
        await asyncio.sleep(0)
        self.wait.give_up()
        self.assert_given_back(0, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
