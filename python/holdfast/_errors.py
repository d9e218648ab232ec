"""One exception for each code of the library, and calls that raise them."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import builtins
import ctypes
import enum
from typing import Any

from ._library import Error, lib


class Code(enum.IntEnum):
    """The codes of holdfast.h, without the prefix HF_."""
    OK = 0
    HELD = 1
    TIMEOUT = 2
    LOST = 3
    DEADLOCK = 4
    CANCELLED = 5
    UNKNOWN = 6
    UNREACHABLE = 7
    DENIED = 8
    READONLY = 9
    FULL = 10
    UNUSABLE = 11
    SHAPE = 12
    LIMIT = 13
    INVALID = 14
    UNSUPPORTED = 15
    NOT_FOUND = 16
    FENCED = 17
    FORKED = 18
    CLOSED = 19
    INTERNAL = 20
    KEY_REUSED = 21

    @property
    def http(self) -> int:
        """The HTTP status that fits."""
        return int(lib.hf_code_http(self))

    @property
    def exit_status(self) -> int:
        """The exit status that fits a command."""
        return int(lib.hf_code_exit(self))

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later; for LOST, acquiring anew."""
        return bool(lib.hf_code_retryable(self))


class HoldfastError(Exception):
    """A call of Holdfast failed.

    code: which error it is. text: what was wrong with what, and what to do. retryable: whether the
    same call may succeed later with nothing changed; of a LostError, whether acquiring anew may.
    """
    code = Code.INTERNAL

    def __init__(self, text: str, code: Code | None = None, retryable: bool | None = None) -> None:
        super().__init__(text)
        self.text = text
        if code is not None:
            self.code = code
        self.retryable = self.code.retryable if retryable is None else retryable


class HeldError(HoldfastError):
    """Another has the lock, and the call was not to wait."""
    code = Code.HELD


class TimeoutError(HoldfastError, builtins.TimeoutError):
    """The lock was not free in time."""
    code = Code.TIMEOUT


class LostError(HoldfastError):
    """The lock is no longer held: stop working."""
    code = Code.LOST


class DeadlockError(HoldfastError):
    """Sessions wait for each other; the text has the whole cycle."""
    code = Code.DEADLOCK


class CancelledError(HoldfastError):
    """The wait was cancelled."""
    code = Code.CANCELLED


class UnknownError(HoldfastError):
    """The request was sent, but no answer came."""
    code = Code.UNKNOWN


class UnreachableError(HoldfastError):
    """The store cannot be reached."""
    code = Code.UNREACHABLE


class DeniedError(HoldfastError):
    """The store refused access."""
    code = Code.DENIED


class ReadonlyError(HoldfastError):
    """The store is read-only."""
    code = Code.READONLY


class FullError(HoldfastError):
    """The store is full."""
    code = Code.FULL


class UnusableError(HoldfastError):
    """The store cannot be used."""
    code = Code.UNUSABLE


class ShapeError(HoldfastError):
    """A foreign document is in the lock's place."""
    code = Code.SHAPE


class LimitError(HoldfastError):
    """The lock is in use with another limit."""
    code = Code.LIMIT


class InvalidError(HoldfastError, ValueError):
    """A name, option or other value that cannot be."""
    code = Code.INVALID


class UnsupportedError(HoldfastError):
    """This store or protocol does not have what was asked for."""
    code = Code.UNSUPPORTED


class NotFoundError(HoldfastError):
    """There is no such lock, holder or document."""
    code = Code.NOT_FOUND


class FencedError(HoldfastError):
    """A higher fencing token was here."""
    code = Code.FENCED


class ForkedError(HoldfastError):
    """A forked child used its parent's client."""
    code = Code.FORKED


class ClosedError(HoldfastError):
    """The client, lock or election was closed."""
    code = Code.CLOSED


class InternalError(HoldfastError):
    """A bug, or a limit of this process; the text says which."""
    code = Code.INTERNAL


class KeyReusedError(HoldfastError):
    """The key was used for another request."""
    code = Code.KEY_REUSED


CLASSES = {kind.code: kind for kind in HoldfastError.__subclasses__()}


def error_of(err: Error) -> HoldfastError:
    """The exception for an hf_error."""
    text = err.text.decode("utf-8", "replace")
    try:
        code = Code(err.code)
    except ValueError:  # of a later library
        return HoldfastError(text, retryable=err.retryable)
    return CLASSES[code](text, code, err.retryable)


def call(function: Any, *arguments: Any) -> None:
    """Calls with an hf_error as the last argument, and raises it."""
    err = Error()
    if function(*arguments, ctypes.byref(err)):
        raise error_of(err)


def made(function: Any, *arguments: Any) -> ctypes.c_void_p:
    """The handle that a call made; raises its error."""
    handle = ctypes.c_void_p()
    call(function, *arguments, ctypes.byref(handle))
    return handle
