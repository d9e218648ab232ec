"""Elections: candidates, and who leads."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import queue
import threading
from types import TracebackType
from typing import Any, Callable, Iterator, List, Optional, Type, Union

from . import _library
from ._errors import CancelledError, ClosedError, HoldfastError, call, error_of, made
from ._handle import ChildHandle, ClientHandle, Single, State
from ._info import Leader
from ._library import lib
from ._lost import LossWarning, OnLost
from ._values import Seconds, text, wait_ms
from ._waits import Cancel, OnWait, Wait, waiting


class Election(Single):
    """A candidate; Client.election() makes it. Leaving its `with` resigns.

    Leadership is the lock of the election's name, so what holds for locks holds for it.
    """

    def __init__(self, client: ClientHandle, name: str, value: Optional[str] = None,
                 on_lost: Optional[OnLost] = None) -> None:
        options = _library.ElectionOptions(struct_size=ctypes.sizeof(_library.ElectionOptions),
                                           value=text(value, "value"))
        self.name = name
        self._client = client
        self._warning = LossWarning(on_lost, options)
        try:
            with client as pointer:
                opened = made(lib.hf_election_open, pointer, text(name, "name"), options)
        except BaseException:
            self._warning.forget()
            raise
        self._handle = ChildHandle(client, opened, lib.hf_election_close, "election")

    def campaign(self, wait: Optional[Seconds] = None, *, cancel: Optional[Cancel] = None,
                 on_wait: Optional[OnWait] = None) -> None:
        """Waits in line until this candidate leads; None: for ever.

        Call it again after leadership was lost or resigned. One thread at a time. Errors: those of
        Client.acquire().
        """
        options = _library.CampaignOptions(struct_size=ctypes.sizeof(_library.CampaignOptions),
                                           wait_ms=wait_ms(wait))
        with waiting(self._client, on_wait, cancel) as one, self._handle as pointer:
            options.cancel, options.on_wait = one.cancel, one.on_wait
            call(lib.hf_election_campaign, pointer, options)
            one.undo = self._resign

    def _resign(self) -> None:
        with self._handle as pointer:
            lib.hf_election_resign(pointer, _library.Error())

    def check(self) -> float:
        """The seconds for which it leads at least; raises LostError. Asks the clock, sends nothing."""
        left_ms, err = ctypes.c_int64(), _library.Error()
        with self._handle as pointer:
            leads = lib.hf_election_is_leader(pointer, ctypes.byref(left_ms), ctypes.byref(err))
        if not leads:
            raise error_of(err)
        return left_ms.value / 1000

    @property
    def is_leader(self) -> bool:
        """Whether it leads now; False once it was closed. Asks the clock, sends nothing."""
        try:
            self.check()
        except HoldfastError:
            return False
        return True

    @property
    def token(self) -> int:
        """The fencing token of the last term that was won; 0 before the first."""
        with self._handle as pointer:
            return int(lib.hf_election_token(pointer))

    def resign(self) -> None:
        """Gives leadership up and waits for the acknowledgement. Errors: those of Lock.release()."""
        with self._handle as pointer:
            call(lib.hf_election_resign, pointer)

    def close(self) -> None:
        """Frees the handle; leadership is given up in the background."""
        self._handle.close()
        self._warning.forget()

    def __enter__(self) -> Election:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], _value: Optional[BaseException],
                 _traceback: Optional[TracebackType]) -> None:
        try:
            if kind is None and not self._handle.is_closed:
                self.resign()
        finally:
            self.close()

    def __del__(self) -> None:
        handle: Any = getattr(self, "_handle", None)
        if handle is not None:
            self.close()


Seen = Union[Leader, BaseException, None]


class Observation:
    """A thread that looks who leads. It puts each leader, None while nobody leads, and in the end the error,
    by the function `put`."""

    def __init__(self, client: ClientHandle, name: str, put: Callable[[Seen], Any]) -> None:
        self._client = client
        self._name = text(name, "name")
        self._put = put
        self._wait = Wait(None)
        client.begin_wait(self._wait.stop)
        self._looker = threading.Thread(target=self._look, daemon=True, name="holdfast-observe")
        self._looker.start()

    def _look(self) -> None:
        raised: List[BaseException] = []

        def each(_ctx: Any, leader: Any) -> bool:
            try:
                self._put(Leader.of(leader.contents) if leader else None)
            except BaseException as error:
                raised.append(error)
            return not raised

        try:
            with self._client as pointer:
                call(lib.hf_election_observe, pointer, self._name, _library.LEADER_FN(each), None,
                     self._wait.cancel)
        except BaseException as error:
            raised.append(error)
        self._put(raised[0] if raised else ClosedError("the observation has ended"))

    def leader(self, seen: Seen) -> Optional[Leader]:
        """What was put; raises it if it is the error."""
        if isinstance(seen, CancelledError) and self._client.state is not State.OPEN:
            raise ClosedError("this client was closed")
        if isinstance(seen, BaseException):
            raise seen
        return seen

    def end(self) -> None:
        """Waits until the thread has ended, which takes no longer than one look."""
        self._wait.stop()
        self._looker.join()
        self._client.end_wait(self._wait.stop)
        lib.hf_cancel_free(self._wait.cancel)


def observe(client: ClientHandle, name: str) -> Iterator[Optional[Leader]]:
    """See Client.observe()."""
    seen: queue.SimpleQueue[Seen] = queue.SimpleQueue()
    observation = Observation(client, name, seen.put)
    try:
        while True:
            yield observation.leader(seen.get())
    finally:
        observation.end()
