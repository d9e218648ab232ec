"""Distributed locks in MongoDB or SQLite, by libholdfast.

    import holdfast

    with holdfast.Client("mongodb://a,b,c/app?replicaSet=rs0") as client:
        with client.lock("nightly-report") as lock:
            write_report(lock.token)

Times are seconds. Errors are subclasses of HoldfastError, one for each code of the library. AsyncClient
is for asyncio. The library's threads do not outlive Client.close(); at the end of Python, clients that
are still open are closed. After a fork the child must open a client of its own.
"""
# SPDX-License-Identifier: Apache-2.0
from ._async import AsyncClient, AsyncLock
from ._client import Client
from ._election import Election
from ._errors import (CancelledError, ClosedError, Code, DeadlockError, DeniedError, FencedError, ForkedError,
                      FullError, HeldError, HoldfastError, InternalError, InvalidError, KeyReusedError,
                      LimitError, LostError, NotFoundError, ReadonlyError, ShapeError, TimeoutError,
                      UnknownError, UnreachableError, UnsupportedError, UnusableError)
from ._info import (Done, Entry, Finding, Last, Leader, LockInfo, Mode, Outcome, SessionInfo, Turn,
                    TurnEnd, WaitInfo, WhyLink, WhyNext, string)
from ._lease import Lease
from ._library import lib
from ._lock import Lock
from ._waits import Cancel

__version__ = "1.0.0"


def library_version() -> str:
    """The version of the library that was loaded."""
    return string(lib.hf_version())


__all__ = [
    "AsyncClient", "AsyncLock", "Cancel", "CancelledError", "Client", "ClosedError", "Code",
    "DeadlockError", "DeniedError", "Done", "Election", "Entry", "FencedError", "Finding", "ForkedError",
    "FullError", "HeldError", "HoldfastError", "InternalError", "InvalidError", "KeyReusedError", "Last",
    "Leader", "Lease", "LimitError", "Lock", "LockInfo", "LostError", "Mode", "NotFoundError", "Outcome",
    "ReadonlyError", "SessionInfo", "ShapeError", "TimeoutError", "Turn", "TurnEnd", "UnknownError",
    "UnreachableError", "UnsupportedError", "UnusableError", "WaitInfo", "WhyLink", "WhyNext",
    "library_version",
]
