"""The option structs of the library, made of keyword arguments."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Optional

from . import _library
from ._values import Seconds, milliseconds, number, text, wait_ms

if TYPE_CHECKING:
    from typing import TypedDict

    from ._lost import OnLost
    from ._waits import Cancel, OnWait

    class LockWords(TypedDict, total=False):
        """The keyword arguments of Client.acquire()."""
        wait: Optional[Seconds]
        shared: bool
        permits: Optional[int]
        limit: Optional[int]
        why: Optional[str]
        actor: Optional[str]
        cancel: Optional[Cancel]
        on_wait: Optional[OnWait]
        on_lost: Optional[OnLost]
        linger: Optional[Seconds]
        no_refresh: bool
        feed: Optional[Seconds]
        max_hold: Optional[Seconds]
        period: Optional[Seconds]
        lock_session: Optional[str]
        set_limit: bool


def lock_options(wait: Optional[Seconds] = None, shared: bool = False, permits: Optional[int] = None,
                 limit: Optional[int] = None, why: Optional[str] = None, actor: Optional[str] = None,
                 linger: Optional[Seconds] = None, no_refresh: bool = False,
                 feed: Optional[Seconds] = None, max_hold: Optional[Seconds] = None,
                 period: Optional[Seconds] = None,
                 lock_session: Optional[str] = None, set_limit: bool = False) -> _library.LockOptions:
    """Those of an acquire, but for the callbacks and the cancel."""
    return _library.LockOptions(
        struct_size=ctypes.sizeof(_library.LockOptions),
        mode=_library.SHARED if shared else _library.EXCLUSIVE, permits=number(permits, "permits"),
        limit=number(limit, "limit"), wait_ms=wait_ms(wait), why=text(why, "why"),
        actor=text(actor, "actor"), linger_ms=milliseconds(linger, "linger"), no_refresh=no_refresh,
        feed_ms=milliseconds(feed, "feed"), max_hold_ms=milliseconds(max_hold, "max_hold"),
        period_ms=milliseconds(period, "period"), lock_session=text(lock_session, "lock_session"),
        sets_limit=set_limit)


def lease_options(ttl: Optional[Seconds] = None, owner: Optional[str] = None, key: Optional[str] = None,
                  wait: Optional[Seconds] = None, shared: bool = False, permits: Optional[int] = None,
                  limit: Optional[int] = None, why: Optional[str] = None,
                  host: Optional[str] = None, set_limit: bool = False) -> _library.LeaseOptions:
    lock = lock_options(wait=wait, shared=shared, permits=permits, limit=limit, why=why, set_limit=set_limit)
    return _library.LeaseOptions(
        struct_size=ctypes.sizeof(_library.LeaseOptions), lock=lock, ttl_ms=milliseconds(ttl, "ttl"),
        owner=text(owner, "owner"), key=text(key, "key"), host=text(host, "host"))
