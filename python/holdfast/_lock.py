"""Lock: a lock that was acquired."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import warnings
from types import TracebackType
from typing import Any, Callable, Optional, Type

from . import _library
from ._errors import Code, HoldfastError, call, error_of
from ._handle import ChildHandle, ClientHandle, Single
from ._info import Last, Mode, string
from ._library import lib


class Lock(Single):
    """A lock that was acquired; Client.acquire() and its like return it.

    Leaving its `with` releases the lock. If the lock was lost before, that raises LostError: another may
    have worked at the same time. After an exception in the `with`, the lock is released in the
    background. All methods may be called from any thread.
    """

    def __init__(self, client: ClientHandle, pointer: ctypes.c_void_p, closed: Callable[[], None]) -> None:
        self._handle = ChildHandle(client, pointer, lib.hf_lock_close, "lock")
        self._closed = closed
        self._was_released = False
        self.name = string(lib.hf_lock_name(pointer))
        self.waited = lib.hf_lock_waited_ms(pointer) / 1000

    def __repr__(self) -> str:
        return "<holdfast.Lock %r%s>" % (self.name, ", closed" if self._handle.is_closed else "")

    def check(self) -> float:
        """The seconds that are left of the lease; raises LostError. Asks the clock, sends nothing."""
        left_ms = ctypes.c_int64()
        with self._handle as pointer:
            call(lib.hf_lock_check, pointer, ctypes.byref(left_ms))
        return left_ms.value / 1000

    @property
    def is_held(self) -> bool:
        """Whether the lock is held now; False once it was closed."""
        try:
            self.check()
        except HoldfastError:
            return False
        return True

    @property
    def token(self) -> int:
        """The fencing token: higher than that of every earlier grant. Give it to what you write to.
        0 with protocols that have no tokens."""
        with self._handle as pointer:
            return int(lib.hf_lock_token(pointer))

    @property
    def mode(self) -> Mode:
        with self._handle as pointer:
            return Mode(lib.hf_lock_mode(pointer))

    def fileno(self) -> int:
        """For select and loop.add_reader: readable once the lock is lost. Do not read or close it."""
        with self._handle as pointer:
            return int(lib.hf_lock_fd(pointer))

    def feed(self) -> None:
        """Begins a new interval of `feed`; raises LostError if that comes too late. Sends nothing."""
        with self._handle as pointer:
            call(lib.hf_lock_feed, pointer)

    def downgrade(self) -> None:
        """From exclusive to shared, without a gap and with the same token."""
        with self._handle as pointer:
            call(lib.hf_lock_downgrade, pointer)

    def upgrade(self) -> bool:
        """From shared to exclusive, at once or not at all. False: others share the lock or wait for it;
        it is still held, shared."""
        err = _library.Error()
        with self._handle as pointer:
            code = lib.hf_lock_upgrade(pointer, ctypes.byref(err))
        if code not in (Code.OK, Code.HELD):
            raise error_of(err)
        return bool(code == Code.OK)

    def previous(self) -> Last:
        """How the holder before this one left. May ask the database."""
        last = _library.Last()
        with self._handle as pointer:
            call(lib.hf_lock_previous, pointer, ctypes.byref(last))
            return Last.of(last)

    @property
    def has_run(self) -> bool:
        """Whether the work of this lock's period was done (`period`)."""
        with self._handle as pointer:
            return bool(lib.hf_lock_has_run(pointer))

    def set_exit_status(self, status: int) -> None:
        """What `last` and `done` say of the work. With `period` it says that the work was done."""
        with self._handle as pointer:
            lib.hf_lock_set_exit_status(pointer, status)

    @property
    def document(self) -> Optional[str]:
        """Protocol `document`: the document as it was when it was locked, as relaxed extended JSON, for
        json.loads() or bson.json_util.loads(). None with other protocols."""
        with self._handle as pointer:
            text = lib.hf_lock_document(pointer)
        return None if text is None else string(text)

    def refresh(self) -> None:
        """Renews a lock that was taken with no_refresh, and waits for the acknowledgement."""
        with self._handle as pointer:
            call(lib.hf_lock_refresh, pointer)

    def release(self) -> None:
        """Releases the lock and waits for the acknowledgement; does nothing if it was released before.

        LostError: it was lost before. UnknownError, UnreachableError: not acknowledged in time; the
        release goes on in the background, and the lock ends with the lease at the latest.
        """
        with self._handle as pointer:
            self._was_released = True
            call(lib.hf_lock_release, pointer)

    def close(self) -> None:
        """Frees the handle. A lock still held is released in the background."""
        if self._handle.close():
            self._closed()

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], _value: Optional[BaseException],
                 _traceback: Optional[TracebackType]) -> None:
        try:
            if kind is None and not self._handle.is_closed:
                self.release()
        finally:
            self.close()

    def __del__(self) -> None:
        handle: Any = getattr(self, "_handle", None)
        if handle is not None and not handle.is_closed:
            if not self._was_released:
                warnings.warn("%r was not released" % self, ResourceWarning, source=self)
            self.close()
