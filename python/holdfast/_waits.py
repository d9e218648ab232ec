"""Waits in C that Python can end: signals, exceptions of on_wait, and Client.close().

C waits with Python's interpreter lock released, and calls on_wait about once a second in the waiting
thread. There Python runs the handlers of signals that have come. An exception that a handler or on_wait
raises ends the wait, and is raised again when the call has returned.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import signal
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

from ._errors import CancelledError, ClosedError, HoldfastError, made
from ._handle import ClientHandle, State, callback
from ._info import WaitInfo
from ._library import WAIT_FN, lib

OnWait = Callable[[WaitInfo], Any]
_idle = WAIT_FN(lambda *_: None)  # lets Python look for signals


class Cancel:
    """Ends waits: fire() it from any thread. It stays fired."""

    def __init__(self) -> None:
        self.is_fired = False
        self._stops: Set[Callable[[], None]] = set()
        self._mutex = threading.RLock()  # fire() may come from a signal's handler

    def fire(self) -> None:
        with self._mutex:
            self.is_fired = True
            for stop in list(self._stops):
                stop()

    def add(self, stop: Callable[[], None]) -> None:
        """Calls stop() when fired, or now if it was. Waits do this."""
        with self._mutex:
            self._stops.add(stop)
            if self.is_fired:
                stop()

    def remove(self, stop: Callable[[], None]) -> None:
        """Afterwards stop() is not called."""
        with self._mutex:
            self._stops.discard(stop)


class Wait:
    """One wait of one thread: what to give to C, and what ended it."""

    def __init__(self, on_wait: Optional[OnWait]) -> None:
        self.cancel = made(lib.hf_cancel_new)
        self.on_wait = WAIT_FN(self._tell) if on_wait else _idle
        self._told = on_wait
        self.raised: Optional[BaseException] = None
        self.undo: Optional[Callable[[], None]] = None  # gives back what the call got

    def stop(self) -> None:
        lib.hf_cancel_fire(self.cancel)

    def fail(self, error: BaseException) -> None:
        """The wait ends, and raises this; the first one counts."""
        self.raised = self.raised or error
        self.stop()

    def _tell(self, _ctx: Any, info: Any) -> None:
        callback.is_inside = True
        try:
            if self._told:
                self._told(WaitInfo.of(info.contents))
        except BaseException as error:
            self.fail(error)
        finally:
            callback.is_inside = False


@contextlib.contextmanager
def _signals(wait: Wait) -> Iterator[None]:
    """What a signal's handler raises meanwhile ends the wait. Only the main thread runs handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: Dict[int, Any] = {}

    def caught(number: int, frame: Any) -> None:
        try:
            handlers[number](number, frame)
        except BaseException as error:
            wait.fail(error)

    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
            signal.signal(number, caught)
    try:
        yield
    finally:
        for changed, handler in handlers.items():
            if signal.getsignal(changed) is caught:
                signal.signal(changed, handler)


def in_thread(function: Callable[..., Any], *arguments: Any) -> None:
    """Calls what never calls back, in another thread, so that the main one can run signals' handlers."""
    if threading.current_thread() is not threading.main_thread():
        function(*arguments)
        return
    raised: List[BaseException] = []

    def run() -> None:
        try:
            function(*arguments)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for error in raised:
        raise error


def _end(wait: Wait, client: ClientHandle, error: Optional[HoldfastError]) -> None:
    """Raises what is to be raised after the call."""
    if wait.raised:
        if error is None and wait.undo:
            wait.undo()
        raise wait.raised from None
    if isinstance(error, CancelledError) and client.state is not State.OPEN:
        raise ClosedError("this client was closed") from None
    if error:
        raise error


@contextlib.contextmanager
def waiting(client: ClientHandle, on_wait: Optional[OnWait] = None,
            cancel: Optional[Cancel] = None) -> Iterator[Wait]:
    """The body calls C once, with this wait's cancel and on_wait, and sets `undo` if it got something."""
    wait, failed = Wait(on_wait), None
    stop = wait.stop
    try:
        client.begin_wait(stop)
        if cancel:
            cancel.add(stop)
        with _signals(wait):
            try:
                yield wait
            except HoldfastError as error:
                failed = error
    finally:
        if cancel:
            cancel.remove(stop)
        client.end_wait(stop)
        lib.hf_cancel_free(wait.cancel)
    _end(wait, client, failed)
