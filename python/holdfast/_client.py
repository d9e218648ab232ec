"""Client: a store that was opened, and everything that is done with it."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import logging
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Type,
                    TypeVar, Union, cast)

from . import _lease, _library
from ._election import Election, observe
from ._errors import call, made
from ._handle import ClientHandle, Single
from ._info import Finding, Leader, LockInfo, SessionInfo, Turn, WhyLink, string
from ._lease import Lease
from ._library import LOG_FN, lib
from ._lock import Lock
from ._lost import LossWarning, OnLost
from ._options import lease_options, lock_options
from ._values import Json, Seconds, count, json_text, milliseconds, milliseconds_or_never, number, text
from ._waits import Cancel, OnWait, in_thread, waiting

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import LockWords

Log = Callable[[int, str], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_LEVELS = {_library.LOG_DEBUG: logging.DEBUG, _library.LOG_INFO: logging.INFO,
           _library.LOG_WARNING: logging.WARNING}


def _c_log(log: Optional[Log]) -> Any:
    if log is None:
        return cast(Any, LOG_FN)()
    told = log
    return LOG_FN(lambda _ctx, level, line: told(_LEVELS.get(level, logging.WARNING), string(line)))


def name_for(name: Union[str, Callable[..., str]], args: Any, words: Any) -> str:
    return name if isinstance(name, str) else name(*args, **words)


def _path(guardian: Union[str, bool, None]) -> Optional[str]:
    """Of the command that becomes the guardian."""
    return guardian if isinstance(guardian, str) else "holdfast" if guardian else None


class Client(Single):
    """A store that was opened: "sqlite:PATH", "memory:NAME", "mongodb://...".

    Options, None for the default; all times are in seconds:
      ttl            the lease: 1 to 3600; default 40 with MongoDB (with protocol `sharding` 90), else 10
      stop_margin    the loss warning comes this long before the lease ends; default: with the end
      patience       how long an unreachable store is retried; default the URI's serverSelectionTimeoutMS, or
                     30, and 4 for requests that may not wait and for renew_lease(). A try under way is not
                     cut short; on SQLite it waits up to 5 s for a file that another program keeps locked,
                     and calls that only read try once
      call_patience  the patience of requests that may not wait, renew_lease(), release_lease() and calls that
                     only read; default: patience as above
      clock_trust    after which time a request that may not wait takes the lock of a dead session of this
                     host; default 300; math.inf: never
      local_turns    how many more threads of this client in a row get a lock, once it has heard that another
                     session waits for it; default 8; negative: each thread waits by itself
      deadlock       after which time a wait looks for a deadlock; default 1; math.inf: never
      app            this program's name in listings
      name_prefix    put before every name in the store, and taken off in listings; default: the URI's
      guardian       on MongoDB: a small process gives the locks back within a second when this one is
                     killed. The path of the command `holdfast`, or True: the one on PATH; default: none
      log            called with a level of `logging` and a text, from any thread of the library; it must
                     not call Holdfast

    Nothing is sent until the first call that needs the database. All methods may be called from any
    thread. A forked child cannot use its parent's client (ForkedError): it opens its own. The client is
    closed at the end of its `with`, by close(), or when Python ends.
    """

    def __init__(self, uri: str, *, ttl: Optional[Seconds] = None, stop_margin: Optional[Seconds] = None,
                 patience: Optional[Seconds] = None, call_patience: Optional[Seconds] = None,
                 clock_trust: Optional[Seconds] = None, local_turns: Optional[int] = None,
                 deadlock: Optional[Seconds] = None, app: Optional[str] = None, log: Optional[Log] = None,
                 name_prefix: Optional[str] = None,
                 guardian: Union[str, bool, None] = None) -> None:
        c_log = _c_log(log)
        options = _library.Options(
            struct_size=ctypes.sizeof(_library.Options), ttl_ms=milliseconds(ttl, "ttl"),
            stop_margin_ms=milliseconds(stop_margin, "stop_margin"),
            patience_ms=milliseconds(patience, "patience"),
            call_patience_ms=milliseconds(call_patience, "call_patience"),
            clock_trust_ms=milliseconds_or_never(clock_trust, "clock_trust"),
            local_turns=number(local_turns, "local_turns"),
            deadlock_ms=milliseconds_or_never(deadlock, "deadlock"), app=text(app, "app"), log=c_log,
            name_prefix=text(name_prefix, "name_prefix"), guardian=text(_path(guardian), "guardian"))
        self.handle = ClientHandle(made(lib.hf_open, text(uri, "uri"), options), c_log)

    # ---- Locks ----

    def acquire(self, name: str, **words: Unpack[LockWords]) -> Lock:
        """Takes a lock, waiting in line for it.

        Options; all times are in seconds:
          wait           None: for ever, unless the protocol has a limit of its own; 0: now or not at all
                         (HeldError); otherwise TimeoutError after so long
          shared         with others that share it
          permits, limit a semaphore: so many permits of so many
          set_limit      True: the limit holds from now on, also where the semaphore is in use with another
                         one; those that hold go on, and the next is granted when the permits fit
          why            the reason, shown to waiters
          actor          the holder's name inside this process
          cancel         a Cancel that ends the wait (CancelledError)
          on_wait        called with a WaitInfo in this thread when the wait begins and about once a
                         second, but not while a server does not answer (some seconds); what it raises
                         ends the wait
          on_lost        called with the error and the seconds that are left for stopping, from a thread of
                         the library, when the lock is lost; it must not close the client
          linger         once released, the lock stays with this client for so long unless another waits for it
          no_refresh     protocol `document`: only Lock.refresh() renews it
          feed           the lock is lost unless Lock.feed() is called within each so many seconds
          max_hold       the lock is lost so long after the grant
          period         for work done once per period, of this length; see once_per()
          lock_session   protocol `sharding`: the lock session id, 24 lower-case hexadecimal digits; what
                         it holds already is taken over at once

        Errors: HeldError, TimeoutError, DeadlockError, CancelledError, LimitError, InvalidError,
        ShapeError, UnsupportedError (an option that this store or protocol has not), NotFoundError
        (protocol `document`), UnreachableError and its like, ForkedError, ClosedError. After any error
        nothing stays in the queue. In the main thread Ctrl-C, or another signal whose handler raises, ends the wait
        within about a second, or, while a server does not answer, some seconds.
        """
        return self._acquire(lib.hf_lock_acquire, [text(name, "name")], dict(words))

    def _acquire(self, function: Any, arguments: List[Any], words: Dict[str, Any]) -> Lock:
        callbacks = _take_callbacks(words)
        options = lock_options(**words)
        pointer = ctypes.c_void_p()
        warning = LossWarning(callbacks.on_lost, options)
        try:
            with waiting(self.handle, callbacks.on_wait, callbacks.cancel) as wait, self.handle as client:
                options.cancel, options.on_wait = wait.cancel, wait.on_wait
                call(function, client, *arguments, options, ctypes.byref(pointer))
                wait.undo = functools.partial(lib.hf_lock_close, pointer)
        except BaseException:
            warning.forget()
            raise
        return Lock(self.handle, pointer, warning.forget)

    def acquire_all(self, names: Sequence[str], **words: Unpack[LockWords]) -> List[Lock]:
        """Takes several locks, all or none, in the order of the names; options as in acquire().

        Callers that take several never deadlock with each other. When one is lost, all are, and on_lost is
        called once, with the one that was lost first.
        """
        pointers = (ctypes.c_void_p * len(names))()
        c_names = (ctypes.c_char_p * len(names))(*(text(name, "name") for name in names))
        callbacks = _take_callbacks(cast(Dict[str, Any], words))
        options = lock_options(**cast(Dict[str, Any], words))
        warning = LossWarning(callbacks.on_lost, options)
        try:
            with waiting(self.handle, callbacks.on_wait, callbacks.cancel) as wait, self.handle as client:
                options.cancel, options.on_wait = wait.cancel, wait.on_wait
                call(lib.hf_lock_acquire_all, client, c_names, len(names), options, pointers)
                wait.undo = functools.partial(_close_all, pointers)
        except BaseException:
            warning.forget()
            raise
        open_locks = itertools.count(1)

        def closed() -> None:
            if next(open_locks) == len(names):
                warning.forget()

        return [Lock(self.handle, ctypes.c_void_p(pointer), closed) for pointer in pointers]

    @contextlib.contextmanager
    def lock(self, name: str, **words: Unpack[LockWords]) -> Iterator[Lock]:
        """`with client.lock("x") as lock:` holds the lock in the block; options as in acquire().

        LostError at the end: the lock was lost meanwhile.
        """
        with self.acquire(name, **words) as lock:
            yield lock

    def locked(self, name: Union[str, Callable[..., str]],
               **words: Unpack[LockWords]) -> Callable[[Function], Function]:
        """A decorator: each call of the function holds the lock. `name` may be a function that makes the
        name of the call's arguments. Options as in acquire()."""
        def decorate(function: Function) -> Function:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self.acquire(name_for(name, args, kwargs), **words):
                    return function(*args, **kwargs)
            return cast(Function, wrapper)
        return decorate

    def once_per(self, every: Seconds, name: str, *, retry: bool = False,
                 **words: Unpack[LockWords]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator for work that is done once per period, by whichever host comes first.

        Periods of `every` seconds are counted from 1970, in UTC, by the store's clock; all callers must
        give the same length. Where the work was done already, the function is not called and the result is
        None. An exception is recorded as exit status 1 (SystemExit and KeyboardInterrupt are not: they
        give the work back), a return as 0; with `retry` work that failed is
        done again. A call waits while another does the work. Options as in acquire().
        """
        options: LockWords = {**words, "period": every}  # type: ignore[misc]

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self.acquire(name, **options) as lock:
                    return None if _was_done(lock, retry) else _work(lock, function, args, kwargs)
            return wrapper
        return decorate

    # ---- Documents ----

    def acquire_document(self, document_id: str, **words: Unpack[LockWords]) -> Lock:
        """Protocol `document`: takes the lock of the document with this _id. Options as in acquire().

        Text that is extended JSON of an ObjectId, a number, an object, a quoted string, true, false or null
        means that value; other text is the string itself. NotFoundError: there is no such document.
        """
        return self._acquire(lib.hf_document_acquire, [text(document_id, "document_id")], dict(words))

    def claim(self, filter: Optional[Json] = None, sort: Optional[Json] = None,
              **words: Unpack[LockWords]) -> Lock:
        """Protocol `document`: takes the first document that matches and is free, waiting for one.

        filter and sort: extended JSON, or mappings that json.dumps() can write. Lock.name is the _id, and
        Lock.document the document. Options as in acquire(); NotFoundError with wait=0: there is none.
        """
        arguments = [json_text(filter, "filter"), json_text(sort, "sort")]
        return self._acquire(lib.hf_document_claim, arguments, dict(words))

    # ---- Leases ----

    def lease(self, name: str, *, ttl: Optional[Seconds] = None, owner: Optional[str] = None,
              key: Optional[str] = None, wait: Optional[Seconds] = None, shared: bool = False,
              permits: Optional[int] = None, limit: Optional[int] = None, why: Optional[str] = None,
              host: Optional[str] = None, cancel: Optional[Cancel] = None,
              on_wait: Optional[OnWait] = None, set_limit: bool = False) -> Lease:
        """Takes an ID lease: a lock that is held by an id, not by this process.

        ttl: without a renewal the lock is free after so many seconds; default: the client's. owner: shown
        as the holder, with the host, which is this one by default. key: the same key and name make the same id, so a repeated call finds its lease;
        keep it as secret as the id. The others mean what they mean in acquire().

        Errors: those of acquire(), LostError (the lease of this key has ended), KeyReusedError,
        UnknownError (a repeat with the same key finds out).
        """
        options = lease_options(ttl, owner, key, wait, shared, permits, limit, why, host, set_limit)
        answer = _library.Lease()
        with waiting(self.handle, on_wait, cancel) as wanted, self.handle as client:
            options.lock.cancel, options.lock.on_wait = wanted.cancel, wanted.on_wait
            call(lib.hf_lease_acquire, client, text(name, "name"), options, answer)
            wanted.undo = functools.partial(self._give_back, answer.id)
        return Lease(self.handle, answer)

    def _give_back(self, lease_id: bytes) -> None:
        err = _library.Error()
        with self.handle as client:
            lib.hf_lease_release(client, lease_id, err)

    def renew_lease(self, lease_id: str) -> float:
        """Renews the lease of an id; the seconds that are left. Errors: see Lease.renew()."""
        return float(_lease.renew(self.handle, lease_id).left_ms / 1000)

    def release_lease(self, lease_id: str) -> None:
        """Releases the lease of an id, and waits for the acknowledgement. May be repeated; with a protocol
        without a queue, a repeat raises LostError. With a queue, a release that raises UnreachableError or
        UnknownError is sent again, until the store answers or the client is closed."""
        _lease.release(self.handle, lease_id)

    # ---- Elections ----

    def election(self, name: str, value: Optional[str] = None, on_lost: Optional[OnLost] = None) -> Election:
        """A candidate for leadership; sends nothing. value: what observers see, such as an address."""
        return Election(self.handle, name, value, on_lost)

    def observe(self, name: str) -> Iterator[Optional[Leader]]:
        """Yields the leader, None while nobody leads: at once, and after each change, for ever.

        A change is seen within about half a second. A thread of its own looks; it ends with the iterator.
        Errors: UnreachableError after `patience`; ClosedError.
        """
        return observe(self.handle, name)

    # ---- Who holds what ----

    def locks(self, prefix: Optional[str] = None, *, after: Optional[str] = None, in_use: bool = False,
              limit: Optional[int] = None, lock_session: Optional[str] = None) -> List[LockInfo]:
        """The locks in the byte order of their names: those that begin with prefix, come after that name,
        are in use, were last taken with that lock session id; at most so many."""
        options = _library.ListOptions(
            struct_size=ctypes.sizeof(_library.ListOptions), prefix=text(prefix, "prefix"),
            after=text(after, "after"), in_use=in_use, limit=count(limit, "limit"),
            lock_session=text(lock_session, "lock_session"))
        return self._collect(_library.LOCK_INFO_FN, LockInfo.of, lib.hf_list_locks, options)

    def show(self, name: str) -> LockInfo:
        """One lock; NotFoundError if there is no record of it."""
        return cast(LockInfo, self._collect(_library.LOCK_INFO_FN, LockInfo.of, lib.hf_show,
                                            text(name, "name"))[0])

    def why(self, name: str) -> List[WhyLink]:
        """Why a lock is waited for: its holders, and right after each those of the lock that it waits for,
        one deeper, and so on to the roots. Empty if it is free. NotFoundError if there is no record of it.

        A wait is seen once it has lasted `deadlock`, and its session has sent its next heartbeat.
        """
        return self._collect(_library.WHY_FN, WhyLink.of, lib.hf_why, text(name, "name"))

    def history(self, name: Optional[str] = None, *, since: Optional[float] = None,
                limit: Optional[int] = None, missing: bool = False) -> List[Turn]:
        """The turns of a lock that have ended, the newest first; name None: of all locks.

        since: Unix time in seconds; only turns that ended then or later. limit: at most so many; 1000 if it is
        not said, and no more than 10000. A client writes what it notes within 5 s, and when it is closed. missing:
        also say how many turns could not be noted, and when (TurnEnd.MISSING).
        UnsupportedError: this store keeps no history.
        """
        options = _library.HistoryOptions(
            struct_size=ctypes.sizeof(_library.HistoryOptions),
            since_ms=milliseconds(since or None, "since"), limit=count(limit, "limit"),
            tells_missing=bool(missing))
        return self._collect(_library.TURN_FN, Turn.of, lib.hf_history, text(name, "name"), options)

    def sessions(self) -> List[SessionInfo]:
        """All sessions: that hold or wait, or have done so and still stand, or ended within a day (SQLite:
        about an hour)."""
        return self._collect(_library.SESSION_INFO_FN, SessionInfo.of, lib.hf_sessions)

    def doctor(self) -> List[Finding]:
        """Checks what this client depends on."""
        return self._collect(_library.FINDING_FN, Finding.of, lib.hf_doctor)

    def _collect(self, kind: Any, convert: Callable[[Any], Any], function: Any,
                 *arguments: Any) -> List[Any]:
        """What the library passes to its callback, converted."""
        found: List[Any] = []
        raised: List[BaseException] = []

        def each(_ctx: Any, info: Any) -> bool:
            try:
                found.append(convert(info.contents))
            except BaseException as error:
                raised.append(error)
            return not raised

        with self.handle as client:
            call(function, client, *arguments, kind(each), None)
        if raised:
            raise raised[0]
        return found

    def break_lock(self, name: str, reason: str, *, by: Optional[str] = None,
                   if_token: Optional[int] = None, force: bool = False,
                   cancel: Optional[Cancel] = None) -> None:
        """Takes a lock from its holders: asks them, and waits until they have left or cannot believe.

        if_token: only the holder with this token. force: at once; two sessions may then believe for up to
        a ttl. NotFoundError: nobody holds the lock, or not with that token.
        """
        options = _library.BreakOptions(
            struct_size=ctypes.sizeof(_library.BreakOptions), reason=text(reason, "reason"),
            by=text(by, "by"), if_token=number(if_token, "if_token", 64), force=force)
        with waiting(self.handle, None, cancel) as wait, self.handle as client:
            options.cancel = wait.cancel
            in_thread(call, lib.hf_break, client, text(name, "name"), options)

    def unlock_all(self, process: str) -> int:
        """Unlocks all locks of a process that is gone (protocol sharding); returns how many."""
        unlocked = ctypes.c_int64()
        with self.handle as client:
            call(lib.hf_unlock_all, client, text(process, "process"), unlocked)
        return unlocked.value

    def unlock_session(self, lock_session: str, name: Optional[str] = None) -> int:
        """Unlocks what was taken with a lock session id (protocol sharding): that name, or all; returns how
        many. Whoever holds them must be gone."""
        unlocked = ctypes.c_int64()
        with self.handle as client:
            call(lib.hf_unlock_session, client, text(lock_session, "lock_session"), text(name, "name"),
                 unlocked)
        return unlocked.value

    # ---- The client ----

    @property
    def protocol(self) -> str:
        """The protocol of the store: "queue", "ttl", "document" or "sharding"."""
        with self.handle as client:
            return string(lib.hf_client_protocol(client))

    @property
    def round_trips(self) -> int:
        """How many requests this client has sent over the network."""
        with self.handle as client:
            return int(lib.hf_round_trips(client))

    def held(self) -> str:
        """What this client holds, for the environment of a process that this one starts and waits for:
        as HOLDFAST_HELD there, it lets deadlocks through processes be found."""
        with self.handle as client:
            size = lib.hf_client_held(client, None, 0) + 1
            while True:
                held = ctypes.create_string_buffer(size)
                length = int(lib.hf_client_held(client, held, size))
                if length < size:
                    return held.value.decode()
                size = length + 1

    def keep_fd(self) -> int:
        """A new descriptor that stands for this client's session in an embedded store, or for its guardian,
        for a child process to inherit: others then see a crash when the child has ended, too, or when the
        lease is over. -1 if there is none. The caller closes it."""
        with self.handle as client:
            return int(lib.hf_client_keep_fd(client))

    def close(self) -> None:
        """Gives up everything. Waits of other threads raise ClosedError.

        First it lets calls of other threads end, which takes `patience` at most; then up to about ten
        seconds, even with the database gone. Locks are lost afterwards, without a call of on_lost.
        InvalidError: called from a callback, or from a signal's handler that interrupts a call of this
        client.
        """
        self.handle.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, _kind: Optional[Type[BaseException]], _value: Optional[BaseException],
                 _traceback: Optional[TracebackType]) -> None:
        self.close()


class _Callbacks(NamedTuple):
    cancel: Optional[Cancel]
    on_wait: Optional[OnWait]
    on_lost: Optional[OnLost]


def _take_callbacks(words: Dict[str, Any]) -> _Callbacks:
    """Takes them out of an acquire's options."""
    return _Callbacks(*(words.pop(name, None) for name in _Callbacks._fields))


def _close_all(pointers: Any) -> None:
    for pointer in pointers:
        lib.hf_lock_close(pointer)


def _was_done(lock: Lock, retry: bool) -> bool:
    if not lock.has_run:
        return False
    done = lock.previous().done
    return not (retry and done and done.exit_status)


def _work(lock: Lock, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        result = function(*args, **kwargs)
    except Exception:
        lock.set_exit_status(1)
        raise
    lock.set_exit_status(0)
    return result
