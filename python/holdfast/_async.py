"""AsyncClient: locks for asyncio, where no wait occupies a thread.

A lock of AsyncClient is an ID lease. The library waits for it without a thread (hf_lease_begin()) and
calls back into the event loop. A task of the loop renews it every quarter of its ttl, in a few threads that
all locks of the client share.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, Set, Type, TypeVar, Union, cast

from . import _library
from ._client import Client, name_for
from ._election import Observation, Seen
from ._errors import ClosedError, HoldfastError, LostError, call, error_of
from ._handle import ClientHandle, Single, callback
from ._info import Leader, LockInfo, Turn, WhyLink
from ._lease import Lease
from ._library import LEASE_FN, lib
from ._options import lease_options
from ._values import Seconds, milliseconds, text

THREADS = 4  # for renewals, releases and listings
OFTEN = 4  # renewals in a ttl: one of 40 s then outlives an outage of 25 s, whenever that begins
RETRY = 0.2  # seconds between a renewal that failed and the next

Function = TypeVar("Function", bound=Callable[..., Any])
Answer = Union[Lease, HoldfastError]
GiveBack = Callable[[Lease], None]


class _Wait:
    """A wait for a lease, between a task of the loop and a thread of the library. A lease that comes when
    the task no longer waits is given back by whoever sees that."""

    def __init__(self, client: ClientHandle, give_back: GiveBack) -> None:
        self.client = client
        self.future: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self._give_back = give_back  # from the loop
        self._mutex = threading.Lock()  # guards the next two
        self._is_given_up = False
        self._has_ended = False
        self._pointer = ctypes.c_void_p()

    def begin(self, name: Optional[bytes], options: _library.LeaseOptions) -> None:
        number = next(_numbers)
        _waits[number] = self
        try:
            with self.client as client:
                call(lib.hf_lease_begin, client, name, options, _c_done, number,
                     ctypes.byref(self._pointer))
        except BaseException:
            _waits.pop(number, None)
            raise

    def done(self, answer: Answer) -> None:
        """In a thread of the library."""
        if not self._deliver(answer) and isinstance(answer, Lease):
            with contextlib.suppress(HoldfastError):
                answer.release()
        with self._mutex:
            self._has_ended = True

    def _deliver(self, answer: Answer) -> bool:
        with self._mutex:
            if self._is_given_up:
                return False
            try:
                self.future.get_loop().call_soon_threadsafe(self._resolve, answer)
            except RuntimeError:  # the loop is closed
                return False
            return True

    def _resolve(self, answer: Answer) -> None:
        if not self.future.done():
            if isinstance(answer, Lease):
                self.future.set_result(answer)
            else:
                self.future.set_exception(answer)
        elif isinstance(answer, Lease):  # the task was cancelled
            self._give_back(answer)

    def give_up(self) -> None:
        """The task was cancelled while it waited."""
        with self._mutex:
            self._is_given_up = True
            if not self._has_ended:
                lib.hf_lease_cancel(self._pointer)
        if self.future.done() and not self.future.cancelled() and not self.future.exception():
            self._give_back(self.future.result())


_numbers = itertools.count(1)
_waits: Dict[int, _Wait] = {}  # what C knows of a wait is its number


def _done(number: int, lease: Any, err: Any) -> None:
    wait = _waits.pop(number)
    callback.is_inside = True
    try:
        wait.done(Lease(wait.client, lease.contents) if lease else error_of(err.contents))
    finally:
        callback.is_inside = False


_c_done = LEASE_FN(_done)


class AsyncLock(Single):
    """A lock of an AsyncClient. Its methods belong to the loop's thread.

    `async with lock:` holds the lock in the block. When it is lost, the block's task is cancelled, and
    LostError comes out of the block.
    """

    def __init__(self, client: AsyncClient, name: str, lease: Lease,
                 on_lost: Optional[Callable[[HoldfastError], Any]]) -> None:
        self.name = name
        self.lease = lease
        self._client = client
        self._on_lost = on_lost
        self._lost: Optional[LostError] = None
        self._has_left = False
        self._task: Optional[asyncio.Task[Any]] = None  # inside `async with`
        self._was_cancelled = False
        self._n_cancels = 0
        self._loop = asyncio.get_running_loop()
        self._keeper = self._loop.create_task(self._keep())
        self._end = self._loop.call_later(self._left(), self._look_at_the_end)

    def _left(self) -> float:
        return max(0.0, self.lease.left - self._client.stop_margin)

    def __repr__(self) -> str:
        return "<holdfast.AsyncLock %r>" % self.name

    @property
    def token(self) -> int:
        """The fencing token: higher than that of every earlier grant."""
        return self.lease.token

    @property
    def waited(self) -> float:
        return self.lease.waited

    def check(self) -> float:
        """The seconds that are left until the lock is lost unless it is renewed; raises LostError. Asks the
        clock, sends nothing."""
        self._client.client.handle.check_process()
        if self._lost:
            raise self._lost
        if not self.is_held:
            raise LostError('"%s" is not held' % self.name)
        return self._left()

    @property
    def is_held(self) -> bool:
        is_ours = not self._client.client.handle.is_of_parent
        return is_ours and not self._lost and not self._has_left and self._left() > 0

    async def release(self) -> None:
        """Releases the lock and waits for the acknowledgement; raises LostError if it was lost before."""
        if self._has_left:
            return
        if self._left() <= 0:
            self._look_at_the_end()  # a loop that was blocked has not done it
        self._leave()
        if self._lost:
            self._client.give_back(self.lease)
            raise self._lost
        await asyncio.shield(self._client.in_background(self.lease.release))

    async def _keep(self) -> None:
        pause = self.lease.ttl / OFTEN
        while True:
            await asyncio.sleep(pause)
            try:
                await self._client.in_background(self.lease.renew)
                pause = self.lease.ttl / OFTEN
            except LostError as error:
                self._lose(error)
                return
            except ClosedError:
                self.client_closes()
                return
            except HoldfastError:
                pause = RETRY

    def _look_at_the_end(self) -> None:
        """By the clock that counts a suspended host's time too, which the loop's does not."""
        left = self._left()
        if left > 0:
            self._end = self._loop.call_later(left, self._look_at_the_end)
        else:
            self._lose(LostError('"%s" was not renewed within its lease' % self.name))

    def _lose(self, error: LostError) -> None:
        if self._lost or self._has_left:
            return
        self._lost = error
        self._stop()
        if self._task and self._task is not asyncio.current_task():  # which is in close()
            self._was_cancelled = self._task.cancel()
        if self._on_lost:
            self._on_lost(error)

    def _stop(self) -> None:
        self._end.cancel()
        self._keeper.cancel()
        self._client.forget(self)

    def _leave(self) -> None:
        self._has_left = True
        self._stop()

    def client_closes(self) -> None:
        """The lease stays in the store until its ttl is over, and may be followed by another holder."""
        self._lose(LostError('the client of "%s" was closed' % self.name))

    async def __aenter__(self) -> AsyncLock:
        self._task = asyncio.current_task()
        self._n_cancels = self._cancels()
        return self

    def _cancels(self) -> int:
        """How often the task was asked to end; Python does not count before 3.11."""
        return cast(int, cast(Any, self._task).cancelling()) if hasattr(self._task, "cancelling") else 0

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        _traceback: Optional[TracebackType]) -> None:
        is_cancelled_by_others = self._end_cancel()
        self._task = None
        try:
            await self.release()
        except HoldfastError as error:
            is_ours = kind is asyncio.CancelledError and self._was_cancelled and not is_cancelled_by_others
            if kind is None or is_ours:
                raise error from value

    def _end_cancel(self) -> bool:
        """Takes back the cancel of _lose(), and says whether others cancelled the task, too."""
        if not self._was_cancelled or not hasattr(self._task, "uncancel"):
            return False
        return bool(cast(Any, self._task).uncancel() > self._n_cancels)


class AsyncClient(Single):
    """A store for asyncio, with the options of Client.

    All methods belong to the loop's thread.
    """

    def __init__(self, uri: str, **options: Any) -> None:
        self.client = Client(uri, **options)
        self.stop_margin = milliseconds(options.get("stop_margin"), "stop_margin") / 1000
        self._handle = self.client.handle
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast")
        self._is_closed = False
        self._work: Set[asyncio.Future[Any]] = set()
        self._locks: Set[AsyncLock] = set()

    def in_background(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Runs a short call in one of the client's threads; close() waits for it."""
        if self._is_closed:
            raise ClosedError("this client was closed")
        self._handle.check_process()  # a child's pool believes that it has the parent's threads
        future = asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        self._work.add(future)
        future.add_done_callback(self._end_work)
        return future

    def give_back(self, lease: Lease) -> None:
        """Releases it in the background, while the client is open."""
        if not self._is_closed:
            self.in_background(lease.release)

    def _end_work(self, future: asyncio.Future[Any]) -> None:
        self._work.discard(future)
        if not future.cancelled():
            future.exception()  # nobody may be there to ask for it

    def forget(self, lock: AsyncLock) -> None:
        self._locks.discard(lock)

    async def acquire(self, name: str, *, on_lost: Optional[Callable[[HoldfastError], Any]] = None,
                      ttl: Optional[Seconds] = None, owner: Optional[str] = None,
                      key: Optional[str] = None, wait: Optional[Seconds] = None, shared: bool = False,
                      permits: Optional[int] = None, limit: Optional[int] = None,
                      why: Optional[str] = None, host: Optional[str] = None,
                      set_limit: bool = False) -> AsyncLock:
        """Waits in line for a lock, without a thread. Cancelling the task ends the wait.

        on_lost: called with the error, in the loop, when the lock is lost. ttl: the lock's lease, in
        seconds; default: the client's. owner: shown as the holder, with the host. Options that
        Client.lease() has, too, mean the same; so do the errors.
        """
        options = lease_options(ttl, owner, key, wait, shared, permits, limit, why, host, set_limit)
        waiting = _Wait(self._handle, self.give_back)
        waiting.begin(text(name, "name"), options)
        try:
            lease = await waiting.future
        except asyncio.CancelledError:
            waiting.give_up()
            raise
        lock = AsyncLock(self, name, lease, on_lost)
        self._locks.add(lock)
        return lock

    @contextlib.asynccontextmanager
    async def lock(self, name: str, **words: Any) -> AsyncIterator[AsyncLock]:
        """`async with client.lock("x") as lock:` holds the lock in the block; options as in acquire().

        When the lock is lost, the block's task is cancelled, and LostError comes out of the block.
        """
        async with await self.acquire(name, **words) as lock:
            yield lock

    def locked(self, name: Union[str, Callable[..., str]], **words: Any) -> Callable[[Function], Function]:
        """A decorator for coroutine functions: each call holds the lock. `name` may be a function that
        makes the name of the call's arguments. Options as in acquire()."""
        def decorate(function: Function) -> Function:
            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                async with self.lock(name_for(name, args, kwargs), **words):
                    return await function(*args, **kwargs)
            return cast(Function, wrapper)
        return decorate

    async def show(self, name: str) -> LockInfo:
        """One lock; NotFoundError if there is no record of it."""
        return cast(LockInfo, await self.in_background(self.client.show, name))

    async def locks(self, prefix: Optional[str] = None) -> List[LockInfo]:
        """The locks whose names begin with prefix."""
        return cast(List[LockInfo], await self.in_background(self.client.locks, prefix))

    async def why(self, name: str) -> List[WhyLink]:
        """Why a lock is waited for; see Client.why()."""
        return cast(List[WhyLink], await self.in_background(self.client.why, name))

    async def history(self, name: Optional[str] = None, *, since: Optional[float] = None,
                      limit: Optional[int] = None) -> List[Turn]:
        """The turns of a lock that have ended, the newest first; see Client.history()."""
        return cast(List[Turn], await self.in_background(
            functools.partial(self.client.history, name, since=since, limit=limit)))

    async def observe(self, name: str) -> AsyncIterator[Optional[Leader]]:
        """Yields the leader of an election, None while nobody leads: at once, and after each change, for
        ever. A thread of its own looks; it ends with the iterator (aclose(), or cancelling the task).

        A change is seen within about half a second. Errors: UnreachableError after `patience`; ClosedError.
        """
        loop = asyncio.get_running_loop()
        seen: asyncio.Queue[Seen] = asyncio.Queue()

        def put(item: Seen) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(seen.put_nowait, item)

        observation = Observation(self._handle, name, put)
        try:
            while True:
                yield observation.leader(await seen.get())
        finally:
            await asyncio.shield(loop.run_in_executor(None, observation.end))

    async def close(self) -> None:
        """Ends waits (ClosedError), and loses the locks that are still held; release them before.

        Takes as long as Client.close().
        """
        for lock in list(self._locks):
            lock.client_closes()
        while self._work:
            await asyncio.wait(set(self._work))
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self.client.close)
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, _kind: Optional[Type[BaseException]], _value: Optional[BaseException],
                        _traceback: Optional[TracebackType]) -> None:
        await self.close()
