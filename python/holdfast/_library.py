"""The C library: its structs, constants and functions as holdfast.h declares them.

Loads libholdfast.so.1, or the file that the environment variable HOLDFAST_LIBRARY names. The other
modules of the package call the library only through `lib`. tests/test_layout.py compares the structs
with the header.
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_int, c_int32, c_int64,
                    c_size_t, c_uint64, c_void_p)

SONAME = "libholdfast.so.1"
WAIT_DEFAULT = 0
WAIT_FOREVER = 2 ** 63 - 1
TRY = -1
EXCLUSIVE, SHARED = 0, 1
LOG_DEBUG, LOG_INFO, LOG_WARNING = 0, 1, 2
OUTCOME_NONE, OUTCOME_RELEASED, OUTCOME_ABANDONED = 0, 1, 2
WHY_ROOT, WHY_FOLLOWS, WHY_CYCLE, WHY_TOLD, WHY_CUT, WHY_UNKNOWN = 0, 1, 2, 3, 4, 5
TURN_RELEASED, TURN_LOST, TURN_BROKEN, TURN_ABANDONED, TURN_MISSING = 0, 1, 2, 3, 4
LIMIT_RW = 1 << 30
LEASE_ID_SIZE = 1572


class Error(Structure):
    _fields_ = [("code", c_int), ("retryable", c_bool), ("text", c_char * 512)]


LOG_FN = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("ttl_ms", c_int64), ("stop_margin_ms", c_int64),
                ("patience_ms", c_int64), ("clock_trust_ms", c_int64), ("local_turns", c_int32),
                ("deadlock_ms", c_int64), ("app", c_char_p), ("log", LOG_FN), ("log_ctx", c_void_p),
                ("env", c_void_p), ("name_prefix", c_char_p), ("call_patience_ms", c_int64),
                ("guardian", c_char_p)]


class WaitInfo(Structure):
    _fields_ = [("name", c_char_p), ("waited_ms", c_int64), ("position", c_size_t),
                ("queued", c_size_t), ("n_holders", c_size_t), ("holder", c_char_p),
                ("why", c_char_p), ("held_since_ms", c_int64), ("trouble", c_char_p)]


WAIT_FN = CFUNCTYPE(None, c_void_p, POINTER(WaitInfo))
LOST_FN = CFUNCTYPE(None, c_void_p, c_void_p, POINTER(Error), c_int64)


class LockOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("mode", c_int), ("permits", c_int32), ("limit", c_int32),
                ("sets_limit", c_bool), ("wait_ms", c_int64), ("why", c_char_p), ("actor", c_char_p), ("cancel", c_void_p),
                ("on_wait", WAIT_FN), ("wait_ctx", c_void_p), ("on_lost", LOST_FN),
                ("lost_ctx", c_void_p), ("linger_ms", c_int64), ("no_refresh", c_bool),
                ("feed_ms", c_int64), ("max_hold_ms", c_int64), ("period_ms", c_int64),
                ("lock_session", c_char_p), ("reserved", c_int64 * 8)]


class Done(Structure):
    _fields_ = [("who", c_char_p), ("token", c_int64), ("exit_status", c_int), ("at_ms", c_int64),
                ("period_start_ms", c_int64), ("period_end_ms", c_int64)]


class Last(Structure):
    _fields_ = [("outcome", c_int), ("who", c_char_p), ("token", c_int64),
                ("has_exit_status", c_bool), ("exit_status", c_int), ("at_ms", c_int64),
                ("period_start_ms", c_int64), ("period_end_ms", c_int64), ("reason", c_char_p),
                ("done", Done)]


class LeaseOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("lock", LockOptions), ("ttl_ms", c_int64),
                ("owner", c_char_p), ("key", c_char_p), ("host", c_char_p)]


class Lease(Structure):
    _fields_ = [("id", c_char * LEASE_ID_SIZE), ("token", c_int64), ("ttl_ms", c_int64),
                ("left_ms", c_int64), ("ends_at_ns", c_int64), ("waited_ms", c_int64),
                ("was_there", c_bool), ("previous", Last), ("previous_who", c_char * 257),
                ("previous_reason", c_char * 257), ("previous_done_who", c_char * 257)]


LEASE_FN = CFUNCTYPE(None, c_void_p, POINTER(Lease), POINTER(Error))


class EntryInfo(Structure):
    _fields_ = [("session", c_char_p), ("who", c_char_p), ("actor", c_char_p), ("why", c_char_p),
                ("token", c_int64), ("permits", c_int32), ("since_ms", c_int64),
                ("granted_ms", c_int64), ("lease_left_ms", c_int64), ("position", c_size_t)]


class LockInfo(Structure):
    _fields_ = [("name", c_char_p), ("limit", c_int32), ("token", c_int64), ("n_holders", c_size_t),
                ("holders", POINTER(EntryInfo)), ("n_queue", c_size_t),
                ("queue", POINTER(EntryInfo)), ("last", Last), ("n_outside", c_size_t)]


class WhyLink(Structure):
    _fields_ = [("name", c_char_p), ("depth", c_size_t), ("holder", POINTER(EntryInfo)),
                ("waits_for", c_char_p), ("next", c_int)]


class SessionInfo(Structure):
    _fields_ = [("session", c_char_p), ("app", c_char_p), ("host", c_char_p), ("pid", c_int64),
                ("started_ms", c_int64), ("ttl_ms", c_int64), ("lease_left_ms", c_int64),
                ("dead", c_bool)]


class ListOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("prefix", c_char_p), ("after", c_char_p),
                ("in_use", c_bool), ("limit", c_size_t), ("lock_session", c_char_p),
                ("asks_once", c_bool)]


class Turn(Structure):
    _fields_ = [("name", c_char_p), ("session", c_char_p), ("who", c_char_p), ("actor", c_char_p),
                ("why", c_char_p), ("token", c_int64), ("permits", c_int32), ("limit", c_int32),
                ("granted_ms", c_int64), ("ended_ms", c_int64), ("end", c_int), ("reason", c_char_p),
                ("has_exit_status", c_bool), ("exit_status", c_int), ("more", c_int64)]


class HistoryOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("since_ms", c_int64), ("limit", c_size_t),
                ("tells_missing", c_bool)]


class BreakOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("reason", c_char_p), ("by", c_char_p),
                ("if_token", c_int64), ("force", c_bool), ("cancel", c_void_p)]


class Finding(Structure):
    _fields_ = [("topic", c_char_p), ("text", c_char_p), ("is_danger", c_bool), ("wants_care", c_bool)]


class ElectionOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("value", c_char_p), ("on_lost", LOST_FN),
                ("lost_ctx", c_void_p)]


class CampaignOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("wait_ms", c_int64), ("cancel", c_void_p),
                ("on_wait", WAIT_FN), ("wait_ctx", c_void_p)]


class Leader(Structure):
    _fields_ = [("session", c_char_p), ("who", c_char_p), ("value", c_char_p), ("token", c_int64),
                ("since_ms", c_int64)]


LOCK_INFO_FN = CFUNCTYPE(c_bool, c_void_p, POINTER(LockInfo))
WHY_FN = CFUNCTYPE(c_bool, c_void_p, POINTER(WhyLink))
TURN_FN = CFUNCTYPE(c_bool, c_void_p, POINTER(Turn))
SESSION_INFO_FN = CFUNCTYPE(c_bool, c_void_p, POINTER(SessionInfo))
FINDING_FN = CFUNCTYPE(c_bool, c_void_p, POINTER(Finding))
LEADER_FN = CFUNCTYPE(c_bool, c_void_p, POINTER(Leader))

_OUT, _ERR, _MS = POINTER(c_void_p), POINTER(Error), POINTER(c_int64)

# name: result, arguments
FUNCTIONS = {
    "hf_version": (c_char_p,),
    "hf_code_exit": (c_int, c_int),
    "hf_code_http": (c_int, c_int),
    "hf_code_name": (c_char_p, c_int),
    "hf_code_retryable": (c_bool, c_int),
    "hf_code_text": (c_char_p, c_int),
    "hf_default_ttl_ms": (c_int64, c_char_p),
    "hf_open": (c_int, c_char_p, POINTER(Options), _OUT, _ERR),
    "hf_close": (None, c_void_p),
    "hf_client_held": (c_size_t, c_void_p, c_char_p, c_size_t),
    "hf_client_keep_fd": (c_int, c_void_p),
    "hf_client_protocol": (c_char_p, c_void_p),
    "hf_round_trips": (c_uint64, c_void_p),
    "hf_lock_acquire": (c_int, c_void_p, c_char_p, POINTER(LockOptions), _OUT, _ERR),
    "hf_lock_acquire_all": (c_int, c_void_p, POINTER(c_char_p), c_size_t, POINTER(LockOptions), _OUT,
                            _ERR),
    "hf_lock_check": (c_int, c_void_p, _MS, _ERR),
    "hf_lock_feed": (c_int, c_void_p, _ERR),
    "hf_lock_release": (c_int, c_void_p, _ERR),
    "hf_lock_close": (None, c_void_p),
    "hf_lock_mode": (c_int, c_void_p),
    "hf_lock_downgrade": (c_int, c_void_p, _ERR),
    "hf_lock_upgrade": (c_int, c_void_p, _ERR),
    "hf_lock_fd": (c_int, c_void_p),
    "hf_lock_token": (c_int64, c_void_p),
    "hf_lock_name": (c_char_p, c_void_p),
    "hf_lock_waited_ms": (c_int64, c_void_p),
    "hf_lock_set_exit_status": (None, c_void_p, c_int),
    "hf_lock_previous": (c_int, c_void_p, POINTER(Last), _ERR),
    "hf_lock_has_run": (c_bool, c_void_p),
    "hf_lock_document": (c_char_p, c_void_p),
    "hf_lock_refresh": (c_int, c_void_p, _ERR),
    "hf_lease_acquire": (c_int, c_void_p, c_char_p, POINTER(LeaseOptions), POINTER(Lease), _ERR),
    "hf_lease_begin": (c_int, c_void_p, c_char_p, POINTER(LeaseOptions), LEASE_FN, c_void_p, _OUT, _ERR),
    "hf_lease_cancel": (None, c_void_p),
    "hf_lease_renew": (c_int, c_void_p, c_char_p, POINTER(Lease), _ERR),
    "hf_lease_release": (c_int, c_void_p, c_char_p, _ERR),
    "hf_document_acquire": (c_int, c_void_p, c_char_p, POINTER(LockOptions), _OUT, _ERR),
    "hf_document_claim": (c_int, c_void_p, c_char_p, c_char_p, POINTER(LockOptions), _OUT, _ERR),
    "hf_cancel_new": (c_int, _OUT, _ERR),
    "hf_cancel_fire": (None, c_void_p),
    "hf_cancel_free": (None, c_void_p),
    "hf_list_locks": (c_int, c_void_p, POINTER(ListOptions), LOCK_INFO_FN, c_void_p, _ERR),
    "hf_show": (c_int, c_void_p, c_char_p, LOCK_INFO_FN, c_void_p, _ERR),
    "hf_why": (c_int, c_void_p, c_char_p, WHY_FN, c_void_p, _ERR),
    "hf_history": (c_int, c_void_p, c_char_p, POINTER(HistoryOptions), TURN_FN, c_void_p, _ERR),
    "hf_sessions": (c_int, c_void_p, SESSION_INFO_FN, c_void_p, _ERR),
    "hf_break": (c_int, c_void_p, c_char_p, POINTER(BreakOptions), _ERR),
    "hf_unlock_all": (c_int, c_void_p, c_char_p, POINTER(c_int64), _ERR),
    "hf_unlock_session": (c_int, c_void_p, c_char_p, c_char_p, POINTER(c_int64), _ERR),
    "hf_doctor": (c_int, c_void_p, FINDING_FN, c_void_p, _ERR),
    "hf_election_open": (c_int, c_void_p, c_char_p, POINTER(ElectionOptions), _OUT, _ERR),
    "hf_election_campaign": (c_int, c_void_p, POINTER(CampaignOptions), _ERR),
    "hf_election_is_leader": (c_bool, c_void_p, _MS, _ERR),
    "hf_election_token": (c_int64, c_void_p),
    "hf_election_resign": (c_int, c_void_p, _ERR),
    "hf_election_close": (None, c_void_p),
    "hf_election_observe": (c_int, c_void_p, c_char_p, LEADER_FN, c_void_p, c_void_p, _ERR),
}


def _load() -> ctypes.CDLL:
    name = os.environ.get("HOLDFAST_LIBRARY") or SONAME
    try:
        loaded = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError("holdfast: cannot load %s (%s). Install the package libholdfast1, or name the "
                          "file in HOLDFAST_LIBRARY." % (name, error)) from error
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


lib = _load()
