"""AsyncClient: waits without threads, cancelling, losses, and what a block does when its lock is lost."""
# SPDX-License-Identifier: Apache-2.0
import asyncio
import functools
import os
import threading
import time
import unittest

import holdfast
from stores import SOON, OnAStore, on_each_store, until


def in_loop(test):
    @functools.wraps(test)
    def wrapper(self):
        asyncio.run(asyncio.wait_for(self.with_client(test), 2 * SOON))
    return wrapper


def use_in_child(client, lock):
    for number, call in enumerate((lambda: client.locks().send(None), lock.check), 1):
        try:
            call()
            return number
        except holdfast.ForkedError:
            pass
    return 10 if lock.is_held else 0


class Asyncio(OnAStore):
    async def with_client(self, test):
        async with holdfast.AsyncClient(self.uri, ttl=self.ttl, app="async") as client:
            await test(self, client)

    async def queued(self, n, name="x"):
        await asyncio.get_running_loop().run_in_executor(None, self.await_queue, name, n)

    async def breaks(self, name="x"):
        await asyncio.get_running_loop().run_in_executor(
            None, functools.partial(self.two.break_lock, name, "test", force=True))

    @in_loop
    async def test_a_block_holds_the_lock(self, client):
        async with client.lock("x", why="async") as lock:
            self.assertTrue(lock.is_held and lock.token > 0 and 0 < lock.check() <= self.ttl)
            self.assert_held("x")
            self.assertEqual((await client.show("x")).holders[0].why, "async")
        self.assertFalse(lock.is_held)
        with self.assertRaises(holdfast.LostError):
            lock.check()
        self.assert_free("x")
        self.assertEqual([each.name for each in await client.locks("x")], ["x"])

    @in_loop
    async def test_an_exception_ends_it_and_is_what_comes_out(self, client):
        with self.assertRaises(ZeroDivisionError):
            async with client.lock("x"):
                1 / 0
        self.assert_free("x")

    @in_loop
    async def test_errors(self, client):
        with self.one.lock("x"):
            with self.assertRaises(holdfast.HeldError):
                await client.acquire("x", wait=0)
            with self.assertRaises(TimeoutError):
                await client.acquire("x", wait=0.1)
        with self.assertRaises(holdfast.InvalidError):
            await client.acquire("")

    @in_loop
    async def test_many_wait_without_threads(self, client):
        held = self.one.acquire("x")
        await client.show("x")
        tasks = [asyncio.ensure_future(self.turn(client)) for _ in range(60)]
        await self.queued(1)  # all of them behind one ticket
        self.assertFalse(any(task.done() for task in tasks))
        self.assertLess(threading.active_count(), 20)
        held.release()
        held.close()
        self.assertEqual(len(set(await asyncio.gather(*tasks))), len(tasks))

    async def turn(self, client):
        async with client.lock("x") as lock:
            return lock.token

    @in_loop
    async def test_a_cancelled_task_leaves_the_queue(self, client):
        with self.one.lock("x"):
            task = asyncio.ensure_future(client.acquire("x"))
            await self.queued(1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await self.queued(0)
        self.assert_free("x")

    @in_loop
    async def test_a_task_cancelled_at_its_grant_leaves_nothing(self, client):
        for i in range(20):
            held = self.one.acquire("x")
            task = asyncio.ensure_future(client.acquire("x"))
            await self.queued(1)
            held.release()
            held.close()
            if i % 2:
                await asyncio.sleep(i / 10000)
            task.cancel()
            try:
                await (await task).release()
            except asyncio.CancelledError:
                pass
            lock = await asyncio.get_running_loop().run_in_executor(None, self.two.acquire, "x")
            lock.release()
            lock.close()

    @in_loop
    async def test_it_is_held_past_its_ttl(self, client):
        async with client.lock("x") as lock:
            await asyncio.sleep(2.5 * self.ttl)
            self.assertGreater(lock.check(), 0)
            self.assert_held("x")

    @in_loop
    async def test_a_lost_lock_cancels_its_block(self, client):
        told = []
        with self.assertRaises(holdfast.LostError) as caught:
            async with client.lock("x", on_lost=told.append) as lock:
                await self.breaks()
                await asyncio.sleep(SOON)
        self.assertEqual(told, [caught.exception])
        self.assertIsInstance(caught.exception.__cause__ or caught.exception.__context__,
                              asyncio.CancelledError)
        self.assertFalse(lock.is_held)
        await self.assert_not_cancelled()

    async def assert_not_cancelled(self):
        await asyncio.sleep(0)
        if hasattr(asyncio.Task, "cancelling"):  # since Python 3.11
            self.assertEqual(asyncio.current_task().cancelling(), 0)

    @in_loop
    async def test_a_block_that_goes_on_after_a_loss_learns_of_it_at_its_end(self, client):
        with self.assertRaises(holdfast.LostError):
            async with client.lock("x"):
                await self.breaks()
                with self.assertRaises(asyncio.CancelledError):
                    await asyncio.sleep(SOON)
        await self.assert_not_cancelled()

    @in_loop
    async def test_a_task_cancelled_by_a_loss_and_from_outside_is_cancelled(self, client):
        async def work():
            async with client.lock("x") as lock:
                loop = asyncio.get_running_loop()
                loop.call_soon(lock._lose, holdfast.LostError("by the test"))
                loop.call_soon(asyncio.current_task().cancel)
                await asyncio.sleep(SOON)

        ends = asyncio.CancelledError if hasattr(asyncio.Task, "cancelling") else holdfast.LostError
        with self.assertRaises(ends):
            await asyncio.ensure_future(work())
        (await asyncio.get_running_loop().run_in_executor(None, self.two.acquire, "x")).close()

    @in_loop
    async def test_a_block_that_ends_by_itself_learns_of_the_loss(self, client):
        lock = await client.acquire("x")
        await self.breaks()
        await self.loss_of(lock)
        with self.assertRaises(holdfast.LostError):
            async with lock:
                pass
        await self.assert_not_cancelled()

    @in_loop
    async def test_a_loop_that_was_blocked_has_lost_its_locks(self, client):
        told = []
        with self.assertRaises(holdfast.LostError) as caught:
            async with client.lock("x", on_lost=told.append):
                time.sleep(1.1 * self.ttl)
        self.assertEqual(told, [caught.exception])
        await self.assert_not_cancelled()

    async def loss_of(self, lock):
        while lock.is_held:
            await asyncio.sleep(0.01)

    @in_loop
    async def test_a_task_cancelled_from_outside_stays_cancelled(self, client):
        is_in = asyncio.Event()

        async def work():
            async with client.lock("x"):
                is_in.set()
                await asyncio.sleep(SOON)

        task = asyncio.ensure_future(work())
        await is_in.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assert_free("x")

    @in_loop
    async def test_what_is_not_renewed_is_lost_in_time(self, client):
        lock = await client.acquire("x", ttl=1)
        lock._keeper.cancel()
        await self.loss_of(lock)
        self.assertEqual(lock.lease.left, 0)
        with self.assertRaises(holdfast.LostError):
            await lock.release()

    def test_a_stop_margin_leaves_time_to_stop(self):
        async def main():
            async with holdfast.AsyncClient(self.uri, ttl=10, stop_margin=5) as client:
                lock = await client.acquire("x", ttl=6)
                lock._keeper.cancel()
                await self.loss_of(lock)
                self.assertTrue(0 < lock.lease.left <= 5)
                with self.assertRaises(holdfast.LostError):
                    lock.check()
        asyncio.run(asyncio.wait_for(main(), 2 * SOON))

    @in_loop
    async def test_decorated_coroutines_hold_the_lock(self, client):
        @client.locked(lambda order: "order-%d" % order)
        async def pack(order):
            self.assert_held("order-%d" % order)
            return order
        self.assertEqual(await asyncio.gather(pack(1), pack(2)), [1, 2])
        self.assertEqual(pack.__name__, "pack")

    @in_loop
    async def test_shared_and_permits(self, client):
        async with client.lock("x", shared=True):
            self.assert_free("x", shared=True)
            self.assert_held("x")
        async with client.lock("y", permits=1, limit=2), client.lock("y", permits=1, limit=2):
            with self.assertRaises(holdfast.HeldError):
                await client.acquire("y", permits=1, limit=2, wait=0)

    @staticmethod
    async def in_thread(function):
        return await asyncio.get_running_loop().run_in_executor(None, function)

    @in_loop
    async def test_observers_see_who_leads(self, client):
        leaders = client.observe("x")
        self.assertIsNone(await leaders.__anext__())
        with self.one.election("x", value="here") as election:
            await self.in_thread(election.campaign)
            self.assertEqual((await leaders.__anext__()).value, "here")
        self.assertIsNone(await leaders.__anext__())
        await leaders.aclose()

    @in_loop
    async def test_an_observer_that_is_cancelled_leaves_no_thread(self, client):
        async def follow():
            async for _ in client.observe("x"):
                seen.set()

        seen = asyncio.Event()
        task = asyncio.create_task(follow())
        await seen.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertNotIn("holdfast-observe", [each.name for each in threading.enumerate()])

    def test_closing_ends_observers(self):
        async def main():
            client = holdfast.AsyncClient(self.uri, ttl=self.ttl)
            leaders = client.observe("x")
            self.assertIsNone(await leaders.__anext__())
            following = asyncio.ensure_future(leaders.__anext__())
            await client.close()
            with self.assertRaises(holdfast.ClosedError):
                await following
        asyncio.run(asyncio.wait_for(main(), 2 * SOON))

    @in_loop
    async def test_why_a_lock_is_waited_for(self, client):
        self.assertEqual(await self.free_why(client), [])
        with self.one.lock("x", why="work"):
            [link] = await client.why("x")
            self.assertEqual((link.name, link.depth, link.holder.why), ("x", 0, "work"))

    async def free_why(self, client):
        async with client.lock("x"):
            pass
        return await client.why("x")

    @in_loop
    async def test_a_forked_child_is_refused_and_holds_nothing(self, client):
        await client.locks()  # the pool has an idle thread, which the child does not have
        async with client.lock("x") as lock:
            pid = os.fork()
            if pid == 0:
                os._exit(use_in_child(client, lock))
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            self.assertTrue(lock.is_held)

    def test_closing_ends_waits_and_locks(self):
        async def main():
            client = holdfast.AsyncClient(self.uri)
            lock = await client.acquire("x")
            task = asyncio.ensure_future(client.acquire("x"))
            await self.queued(1)
            await client.close()
            with self.assertRaises(holdfast.ClosedError):
                await task
            self.assertFalse(lock.is_held)
            for call in (lock.check, lambda: None):
                with self.assertRaises(holdfast.LostError):
                    call()
                    await lock.release()
            with self.assertRaises(holdfast.ClosedError):
                await client.acquire("x")
        asyncio.run(asyncio.wait_for(main(), 2 * SOON))

    def test_closing_inside_a_block(self):
        async def main():
            client = holdfast.AsyncClient(self.uri)
            has_it = asyncio.Event()
            other = asyncio.ensure_future(self.hold(client, "y", has_it))
            await has_it.wait()
            with self.assertRaises(holdfast.LostError):
                async with client.lock("x"):
                    await client.close()
            with self.assertRaises(holdfast.LostError):
                await other
            with self.assertRaises(holdfast.ClosedError):
                await client.show("x")
        asyncio.run(asyncio.wait_for(main(), 2 * SOON))

    async def hold(self, client, name, has_it):
        async with client.lock(name):
            has_it.set()
            await asyncio.sleep(SOON)

    def test_a_loop_that_has_ended_leaves_nothing(self):
        client = holdfast.AsyncClient(self.uri)
        self.addCleanup(client.client.close)
        lock = self.one.acquire("x")

        async def main():
            asyncio.ensure_future(client.acquire("x"))
            await self.queued(1)

        asyncio.run(main())
        lock.close()
        until(lambda: not self.one.show("x").holders, "the lock to be free")
        self.assert_free("x")


on_each_store(globals())

if __name__ == "__main__":
    unittest.main(verbosity=2)
