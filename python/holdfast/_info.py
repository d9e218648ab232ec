"""What the library says about locks, holders, sessions and leaders, as immutable objects.

Times are seconds: a point in time is Unix time, by the store's clock. None: not known.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional, Tuple

from . import _library


class Mode(enum.IntEnum):
    """How a lock is held."""
    EXCLUSIVE = _library.EXCLUSIVE
    SHARED = _library.SHARED


class Outcome(enum.IntEnum):
    """How a holder left. ABANDONED: it died or lost the lock; check what it left half done."""
    NONE = _library.OUTCOME_NONE
    RELEASED = _library.OUTCOME_RELEASED
    ABANDONED = _library.OUTCOME_ABANDONED


def string(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def moment(ms: int) -> Optional[float]:
    return ms / 1000 if ms else None


@dataclass(frozen=True)
class WaitInfo:
    """What a wait is waiting for. position 1 is next, 0 is in no queue, as it is full or the
    protocol has none.

    A thread behind another one of its client is told its place behind that thread, as position and as queued,
    and a holder, without why and held_since.
    """
    name: str
    waited: float
    position: int
    queued: int
    n_holders: int
    holder: str
    why: str
    held_since: Optional[float]
    trouble: str

    @classmethod
    def of(cls, c: _library.WaitInfo) -> WaitInfo:
        return cls(string(c.name), c.waited_ms / 1000, c.position, c.queued, c.n_holders,
                   string(c.holder), string(c.why), moment(c.held_since_ms), string(c.trouble))


@dataclass(frozen=True)
class Done:
    """The last work that was finished with an exit status."""
    who: str
    token: int
    exit_status: int
    at: Optional[float]
    period_start: Optional[float]
    period_end: Optional[float]

    @classmethod
    def of(cls, c: _library.Done) -> Optional[Done]:
        if c.who is None:
            return None
        return cls(string(c.who), c.token, c.exit_status, moment(c.at_ms), moment(c.period_start_ms),
                   moment(c.period_end_ms))


@dataclass(frozen=True)
class Last:
    """How the last holder left. exit_status is None if it set none."""
    outcome: Outcome
    who: str
    token: int
    exit_status: Optional[int]
    at: Optional[float]
    period_start: Optional[float]
    period_end: Optional[float]
    reason: str
    done: Optional[Done]

    @classmethod
    def of(cls, c: _library.Last) -> Last:
        return cls(Outcome(c.outcome), string(c.who), c.token,
                   c.exit_status if c.has_exit_status else None, moment(c.at_ms),
                   moment(c.period_start_ms), moment(c.period_end_ms), string(c.reason),
                   Done.of(c.done))


@dataclass(frozen=True)
class Entry:
    """A holder or waiter. lease_left is negative if the lease is overdue; position 0 is a holder."""
    session: str
    who: str
    actor: str
    why: str
    token: int
    permits: int
    since: Optional[float]
    granted: Optional[float]
    lease_left: Optional[float]
    position: int

    @classmethod
    def of(cls, c: _library.EntryInfo) -> Entry:
        return cls(string(c.session), string(c.who), string(c.actor), string(c.why), c.token, c.permits,
                   moment(c.since_ms), moment(c.granted_ms), moment(c.lease_left_ms), c.position)


@dataclass(frozen=True)
class LockInfo:
    """A lock's record. limit is None for a mutex or read-write lock. outside: how many more wait, behind
    the queue, at most: some may have given up."""
    name: str
    limit: Optional[int]
    token: int
    holders: Tuple[Entry, ...]
    queue: Tuple[Entry, ...]
    last: Last
    outside: int

    @classmethod
    def of(cls, c: _library.LockInfo) -> LockInfo:
        return cls(string(c.name), None if c.limit == _library.LIMIT_RW else c.limit, c.token,
                   tuple(Entry.of(c.holders[i]) for i in range(c.n_holders)),
                   tuple(Entry.of(c.queue[i]) for i in range(c.n_queue)), Last.of(c.last),
                   c.n_outside)


class WhyNext(enum.IntEnum):
    """What comes after a WhyLink.

    ROOT: the holder waits for nothing, as far as is known. FOLLOWS: the holders of waits_for. CYCLE:
    waits_for is further up. TOLD: its holders came before. CUT: it was not read. UNKNOWN: whether the
    holder waits was not read.
    """
    ROOT = _library.WHY_ROOT
    FOLLOWS = _library.WHY_FOLLOWS
    CYCLE = _library.WHY_CYCLE
    TOLD = _library.WHY_TOLD
    CUT = _library.WHY_CUT
    UNKNOWN = _library.WHY_UNKNOWN


@dataclass(frozen=True)
class WhyLink:
    """A holder in the chain of Client.why(). waits_for: the lock it waits for; None: none is known."""
    name: str
    depth: int
    holder: Entry
    waits_for: Optional[str]
    next: WhyNext

    @classmethod
    def of(cls, c: _library.WhyLink) -> WhyLink:
        return cls(string(c.name), c.depth, Entry.of(c.holder.contents),
                   None if c.waits_for is None else string(c.waits_for), WhyNext(c.next))


class TurnEnd(enum.IntEnum):
    """How a turn ended. ABANDONED: its holder died, or its lease ran out, and the next one took it over.
    MISSING: no turn; `more` turns of any locks, which ended from `granted` to `ended`, could not be noted."""
    RELEASED = _library.TURN_RELEASED
    LOST = _library.TURN_LOST
    BROKEN = _library.TURN_BROKEN
    ABANDONED = _library.TURN_ABANDONED
    MISSING = _library.TURN_MISSING


@dataclass(frozen=True)
class Turn:
    """A turn that has ended: somebody had the lock from `granted` to `ended`. token 0: none, or not known.

    limit is None for a mutex or read-write lock, reason why it did not end by a release. more: so many turns
    of the same client came just before it, and are not told one by one.
    """
    name: str
    session: str
    who: str
    actor: str
    why: str
    token: int
    permits: int
    limit: Optional[int]
    granted: Optional[float]
    ended: float
    end: TurnEnd
    reason: str
    exit_status: Optional[int]
    more: int

    @classmethod
    def of(cls, c: _library.Turn) -> Turn:
        return cls(string(c.name), string(c.session), string(c.who), string(c.actor), string(c.why),
                   c.token, c.permits, None if c.limit == _library.LIMIT_RW else c.limit,
                   moment(c.granted_ms), c.ended_ms / 1000, TurnEnd(c.end), string(c.reason),
                   c.exit_status if c.has_exit_status else None, c.more)


@dataclass(frozen=True)
class SessionInfo:
    """A client's session."""
    session: str
    app: str
    host: str
    pid: int
    started: Optional[float]
    ttl: float
    lease_left: float
    dead: bool

    @classmethod
    def of(cls, c: _library.SessionInfo) -> SessionInfo:
        return cls(string(c.session), string(c.app), string(c.host), c.pid, moment(c.started_ms),
                   c.ttl_ms / 1000, c.lease_left_ms / 1000, c.dead)


@dataclass(frozen=True)
class Finding:
    """What the doctor found. is_danger: it endangers safety. wants_care: someone should look."""
    topic: str
    text: str
    is_danger: bool
    wants_care: bool

    @classmethod
    def of(cls, c: _library.Finding) -> Finding:
        return cls(string(c.topic), string(c.text), c.is_danger, c.wants_care)


@dataclass(frozen=True)
class Leader:
    """Who leads an election."""
    session: str
    who: str
    value: str
    token: int
    since: Optional[float]

    @classmethod
    def of(cls, c: _library.Leader) -> Leader:
        return cls(string(c.session), string(c.who), string(c.value), c.token, moment(c.since_ms))
