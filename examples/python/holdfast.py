"""Locks from Python, by libholdfast and ctypes: one file, to be copied into a program.

    import holdfast

    with holdfast.Client("mongodb://a,b,c/app?replicaSet=rs0") as client:
        with client.lock("nightly-report", why="release 41") as lock:
            write_report(lock.token)     # what is written to must refuse a lower token

What is not here is in holdfast.h: its functions can be declared and called in the same way. The
library is libholdfast.so.0, or what HOLDFAST_LIBRARY names.
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import ctypes
import itertools
import os
import signal
import threading

HELD, TIMEOUT, LOST = 1, 2, 3
TRY, SHARED = -1, 1


class ErrorStruct(ctypes.Structure):
    """hf_error"""
    _fields_ = [("code", ctypes.c_int), ("retryable", ctypes.c_bool), ("text", ctypes.c_char * 512)]


LOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ErrorStruct),
                           ctypes.c_int64)
WAIT_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class OptionsStruct(ctypes.Structure):
    """hf_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("ttl_ms", ctypes.c_int64),
                ("stop_margin_ms", ctypes.c_int64), ("patience_ms", ctypes.c_int64),
                ("clock_trust_ms", ctypes.c_int64), ("local_turns", ctypes.c_int32),
                ("deadlock_ms", ctypes.c_int64), ("app", ctypes.c_char_p),
                ("log", ctypes.c_void_p), ("log_ctx", ctypes.c_void_p), ("env", ctypes.c_void_p)]


class LockOptionsStruct(ctypes.Structure):
    """hf_lock_options"""
    _fields_ = [("struct_size", ctypes.c_size_t), ("mode", ctypes.c_int),
                ("permits", ctypes.c_int32), ("limit", ctypes.c_int32), ("wait_ms", ctypes.c_int64),
                ("why", ctypes.c_char_p), ("actor", ctypes.c_char_p), ("cancel", ctypes.c_void_p),
                ("on_wait", WAIT_FN), ("wait_ctx", ctypes.c_void_p), ("on_lost", LOST_FN),
                ("lost_ctx", ctypes.c_void_p), ("linger_ms", ctypes.c_int64),
                ("no_refresh", ctypes.c_bool), ("feed_ms", ctypes.c_int64),
                ("max_hold_ms", ctypes.c_int64), ("period_ms", ctypes.c_int64)]


class Error(Exception):
    """What a call of the library came to: `code` as in holdfast.h ("HF_UNREACHABLE"), the text
    that names the thing and the remedy, and whether the same call may succeed later."""

    def __init__(self, err):
        super().__init__(err.text.decode("utf-8", "replace"))
        self.code = _lib.hf_code_name(err.code).decode()
        self.is_retryable = err.retryable


class Held(Error):
    """Another has the lock, and did not give it up in time."""


class Lost(Error):
    """The lock is not held any more."""


def _declare(lib, name, result, *arguments):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


def _load():
    lib = ctypes.CDLL(os.environ.get("HOLDFAST_LIBRARY", "libholdfast.so.0"))
    code, handle, text = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
    out, err = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ErrorStruct)
    _declare(lib, "hf_code_name", text, code)
    _declare(lib, "hf_open", code, text, ctypes.POINTER(OptionsStruct), out, err)
    _declare(lib, "hf_close", None, handle)
    _declare(lib, "hf_lock_acquire", code, handle, text, ctypes.POINTER(LockOptionsStruct), out, err)
    _declare(lib, "hf_lock_check", code, handle, ctypes.POINTER(ctypes.c_int64), err)
    _declare(lib, "hf_lock_release", code, handle, err)
    _declare(lib, "hf_lock_close", None, handle)
    _declare(lib, "hf_lock_fd", ctypes.c_int, handle)
    _declare(lib, "hf_lock_token", ctypes.c_int64, handle)
    _declare(lib, "hf_cancel_new", code, out, err)
    _declare(lib, "hf_cancel_fire", None, handle)
    _declare(lib, "hf_cancel_free", None, handle)
    return lib


_lib = _load()


def _call(function, *arguments):
    """Calls with an hf_error as the last argument, and raises it."""
    err = ErrorStruct()
    if function(*arguments, ctypes.byref(err)):
        raise {HELD: Held, TIMEOUT: Held, LOST: Lost}.get(err.code, Error)(err)


def _made(function, *arguments):
    """The handle that a call has made."""
    handle = ctypes.c_void_p()
    _call(function, *arguments, ctypes.byref(handle))
    return handle


@contextlib.contextmanager
def _interrupts():
    """A cancel that Ctrl-C fires, within a second (Client._on_wait), for Python cannot do more
    while C waits; KeyboardInterrupt comes afterwards."""
    cancel, fired = _made(_lib.hf_cancel_new), []

    def fire(*_):
        fired.append(True)
        _lib.hf_cancel_fire(cancel)

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, fire) if is_main else None
    try:
        yield cancel
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
        _lib.hf_cancel_free(cancel)
        if fired:
            raise KeyboardInterrupt


class Lock:
    """A lock that is held; made by Client.lock(). At the end of its `with` it is released, and
    Lost is raised if it was not held up to there: then another may have been at work, too."""

    def __init__(self, handle, forget):
        self._handle = handle
        self._forget = forget
        self.token = _lib.hf_lock_token(handle)

    def check(self):
        """Seconds that are left of the lease; raises Lost. Asks the clock, sends nothing."""
        left_ms = ctypes.c_int64()
        _call(_lib.hf_lock_check, self._handle, ctypes.byref(left_ms))
        return left_ms.value / 1000

    def fileno(self):
        """For select and its like: readable once the lock is lost."""
        return _lib.hf_lock_fd(self._handle)

    def release(self):
        """Waits until the store has acknowledged it."""
        _call(_lib.hf_lock_release, self._handle)

    def close(self):
        """Releases in the background what is still held. The lock cannot be used any more."""
        _lib.hf_lock_close(self._handle)
        self._handle = None
        self._forget()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.release()
        finally:
            self.close()


class Client:
    """A store that was opened: "sqlite:PATH", "mongodb://...". ttl: the lease, in seconds."""

    def __init__(self, store, ttl=10, app=None):
        options = OptionsStruct(struct_size=ctypes.sizeof(OptionsStruct), ttl_ms=int(ttl * 1000),
                                app=app.encode() if app else None)
        self._handle = _made(_lib.hf_open, store.encode(), ctypes.byref(options))
        self._numbers = itertools.count(1)
        self._to_tell = {}  # lock's number: whom to tell that it was lost
        # C keeps pointers to these two, so they live as long as the client.
        self._on_lost = LOST_FN(self._tell)
        self._on_wait = WAIT_FN(lambda *_: None)  # lets Python look for signals, once a second

    def _tell(self, number, _lock, err, left_ms):
        told = self._to_tell.get(number)
        if told:
            told(Lost(err.contents), left_ms / 1000)

    def lock(self, name, wait=None, shared=False, permits=0, limit=0, why=None, on_lost=None):
        """Waits in line for a lock: for `wait` seconds (None: for ever, 0: takes it now or not at
        all), and raises Held. on_lost(error, seconds_left) is called in a thread of the library's
        when the lock is lost, and must not raise."""
        number = next(self._numbers)
        self._to_tell[number] = on_lost
        options = LockOptionsStruct(
            struct_size=ctypes.sizeof(LockOptionsStruct), mode=SHARED if shared else 0,
            permits=permits, limit=limit, why=why.encode() if why else None,
            wait_ms=0 if wait is None else max(int(wait * 1000), 1) if wait > 0 else TRY,
            on_wait=self._on_wait, lost_ctx=number)
        if on_lost:
            options.on_lost = self._on_lost
        handle = ctypes.c_void_p()
        try:
            with _interrupts() as options.cancel:
                _call(_lib.hf_lock_acquire, self._handle, name.encode(), ctypes.byref(options),
                      ctypes.byref(handle))
        except BaseException:
            _lib.hf_lock_close(handle)  # which is NULL, but after a Ctrl-C that came too late
            del self._to_tell[number]
            raise
        return Lock(handle, lambda: self._to_tell.pop(number, None))

    def close(self):
        """Gives up everything; takes at most about ten seconds."""
        _lib.hf_close(self._handle)
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
