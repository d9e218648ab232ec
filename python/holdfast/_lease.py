"""Lease: a lock that an id holds, not a process."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from types import TracebackType
from typing import Optional, Type

from . import _library
from ._errors import call
from ._handle import ClientHandle, Single
from ._info import Last, string
from ._library import lib
from ._values import text


def renew(client: ClientHandle, lease_id: str) -> _library.Lease:
    """What C says of a lease after a renewal."""
    answer = _library.Lease()
    with client as pointer:
        call(lib.hf_lease_renew, pointer, text(lease_id, "lease"), answer)
    return answer


def release(client: ClientHandle, lease_id: str) -> None:
    with client as pointer:
        call(lib.hf_lease_release, pointer, text(lease_id, "lease"))


class Lease(Single):
    """An ID lease. Anyone who knows its id can renew or release it, from any host.

    Unless it is renewed, the lock is free after ttl seconds. Leaving its `with` releases it. The methods
    may be called from any thread.
    """

    _instead = "pass its id on, which renew_lease() and release_lease() of any client take"

    def __init__(self, client: ClientHandle, c: _library.Lease) -> None:
        self._client = client
        self.id: str = string(c.id)
        self.token: int = c.token
        self.ttl: float = c.ttl_ms / 1000
        self.waited: float = c.waited_ms / 1000
        self.was_there: bool = c.was_there
        self.previous = Last.of(c.previous)
        self._ends_at_ns: int = c.ends_at_ns
        self._was_released = False

    @property
    def left(self) -> float:
        """The seconds that are left, 0 when it is over. Asks the clock, sends nothing: whether somebody
        broke or released the lease, only renew() says."""
        return max(0.0, (self._ends_at_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9)

    def renew(self) -> float:
        """Renews the lease for its ttl, and returns the seconds that are left.

        LostError: it has run out and another has taken the lock, or it was released or broken: stop working.
        UnreachableError and its like: not renewed; `left` of the last renewal counts.
        """
        answer = renew(self._client, self.id)
        self._ends_at_ns = max(self._ends_at_ns, answer.ends_at_ns)
        return self.left

    def release(self) -> None:
        """Releases the lease and waits for the acknowledgement; does nothing if this was done before."""
        if not self._was_released:
            release(self._client, self.id)
            self._was_released = True

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], _value: Optional[BaseException],
                 _traceback: Optional[TracebackType]) -> None:
        try:
            self.release()
        except Exception:
            if kind is None:
                raise
