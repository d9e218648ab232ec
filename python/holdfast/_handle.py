"""C handles: each is closed once, and never while a call uses it.

A client's handle knows which threads have calls in it and in its locks. Closing it ends the waits, lets the
other calls end, and refuses new ones. `with handle as pointer:` is one call.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import atexit
import ctypes
import enum
import functools
import os
import sys
import threading
from typing import Any, Callable, Dict, List, NoReturn, Optional, Set

from ._errors import ClosedError, ForkedError, InvalidError
from ._library import lib

_changed = threading.Condition()  # guards all fields of all handles
_open: Set["ClientHandle"] = set()
_closes_in = 0  # the process that closes its clients in _close_in_child()
callback = threading.local()  # .is_inside: this thread runs a callback of the library


def _renew() -> None:
    """Another thread of the parent may have held the mutex at the fork."""
    global _changed
    _changed = threading.Condition()


os.register_at_fork(after_in_child=_renew)


class Single:
    """What copy and pickle refuse: a copy would release or close in C what the original still uses."""

    _instead = "share the object between threads; another process opens a client of its own"

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise TypeError("a holdfast.%s cannot be copied or pickled: %s" % (type(self).__name__, self._instead))


class State(enum.Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class ClientHandle(Single):
    """An hf_client. `used` is what C calls until it is closed."""

    def __init__(self, pointer: ctypes.c_void_p, used: Any) -> None:
        self.pointer = pointer
        self._used = used
        self.state = State.OPEN
        self._callers: Dict[int, int] = {}  # thread -> how many calls it has in this client
        self._closer: Optional[int] = None
        self._stops: Set[Callable[[], None]] = set()  # each ends a wait
        self._children: List[Callable[[], None]] = []  # to be closed after the client
        self._pid = os.getpid()
        with _changed:
            _open.add(self)
            _close_in_child()

    def __enter__(self) -> ctypes.c_void_p:
        with _changed:
            if self.state is not State.OPEN:
                raise ClosedError("this client was closed")
            self.begin_call()
            return self.pointer

    def __exit__(self, *_: Any) -> None:
        self.end_call()

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that opened it."""
        return self._pid != os.getpid()

    def check_process(self) -> None:
        if self.is_of_parent:
            raise ForkedError("this client belongs to process %d: a forked child must open its own" % self._pid)

    def begin_call(self) -> None:
        me = threading.get_ident()
        with _changed:
            self._callers[me] = self._callers.get(me, 0) + 1

    def end_call(self) -> None:
        me = threading.get_ident()
        with _changed:
            self._callers[me] -= 1
            if not self._callers[me]:
                del self._callers[me]
            _changed.notify_all()

    def begin_wait(self, stop: Callable[[], None]) -> None:
        """From now on, closing calls stop()."""
        with _changed:
            if self.state is not State.OPEN:
                raise ClosedError("this client was closed")
            self._stops.add(stop)

    def end_wait(self, stop: Callable[[], None]) -> None:
        with _changed:
            self._stops.discard(stop)

    def begin_close(self) -> bool:
        """Whether the caller is to close it; another thread may be doing so, or have done it, or this one,
        if a signal's handler calls this."""
        me = threading.get_ident()
        with _changed:
            if self.state is not State.OPEN:
                if self._closer != me:
                    _changed.wait_for(lambda: self.state is State.CLOSED)
                return False
            if me in self._callers:
                raise InvalidError("a signal's handler cannot close the client whose call it interrupts: let it "
                                   "raise an exception, or fire a Cancel")
            self.state, self._closer = State.CLOSING, me
            for stop in self._stops:
                stop()
            if not self.is_of_parent:  # calls of the parent do not end here
                _changed.wait_for(lambda: not self._callers)
            return True

    def close(self) -> None:
        if getattr(callback, "is_inside", False):
            raise InvalidError("a client cannot be closed from a callback")
        if not self.begin_close():
            return
        lib.hf_close(self.pointer)
        with _changed:
            self.state = State.CLOSED
            _open.discard(self)
            children, self._children = self._children, []
            _changed.notify_all()
        for close in children:
            close()

    def close_after(self, close: Callable[[], None]) -> bool:
        """False: nothing closes the client at the moment, so the caller closes the child itself."""
        with _changed:
            if self.state is State.CLOSING:
                self._children.append(close)
                return True
            return False


class ChildHandle(Single):
    """A handle that belongs to a client and may be closed after it: an hf_lock or hf_election."""

    def __init__(self, client: ClientHandle, pointer: ctypes.c_void_p, close: Any, what: str) -> None:
        self._client = client
        self._pointer: Optional[ctypes.c_void_p] = pointer
        self._close = close
        self._what = what
        self._n_calls = 0
        self._is_closed = False

    def __enter__(self) -> ctypes.c_void_p:
        with _changed:
            if self._is_closed or self._pointer is None:
                raise ClosedError("this %s was closed" % self._what)
            if self._client.state is State.CLOSING:
                raise ClosedError("the client of this %s is being closed" % self._what)
            self._client.begin_call()
            self._n_calls += 1
            return self._pointer

    def __exit__(self, *_: Any) -> None:
        with _changed:
            self._n_calls -= 1
            if self._is_closed and self._n_calls == 0:
                self._close_pointer()
            self._client.end_call()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> bool:
        """Closes it when the last call has ended; never waits. False: it was closed before."""
        with _changed:
            if self._is_closed:
                return False
            self._is_closed = True
            if self._n_calls == 0:
                self._close_pointer()
            return True

    def _close_pointer(self) -> None:
        pointer, self._pointer = self._pointer, None
        close = functools.partial(self._close, pointer)
        if not self._client.close_after(close):
            close()


def _close_all() -> None:
    """Before Python ends: threads of the library must not call into it afterwards."""
    for handle in list(_open):
        handle.close()


atexit.register(_close_all)


def _close_in_child() -> None:
    """A child of multiprocessing ends without what atexit has: its last releases would not be sent."""
    global _closes_in
    util = sys.modules.get("multiprocessing.util")
    if util and _closes_in != os.getpid():
        _closes_in = os.getpid()
        util.Finalize(None, _close_all, exitpriority=-1)  # after the children of its own have ended
