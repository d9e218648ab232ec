"""Python's values as the library takes them; what cannot be one raises InvalidError."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import json
import math
from typing import Any, Mapping, Optional, Union

from ._errors import InvalidError
from ._library import TRY, WAIT_DEFAULT, WAIT_FOREVER

Seconds = Union[float, datetime.timedelta]
Json = Union[str, Mapping[str, Any]]

NEVER = -1
_LONGEST = 10 ** 12  # seconds; what the library allows is less


def text(value: Optional[str], what: str) -> Optional[bytes]:
    """UTF-8 without NUL bytes; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidError("%s: expected a str, got %r" % (what, value))
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidError("%s: not UTF-8: %s" % (what, error)) from None
    if b"\0" in encoded:
        raise InvalidError("%s: contains a NUL character" % what)
    return encoded


def json_text(value: Optional[Json], what: str) -> Optional[bytes]:
    """JSON text, or what json.dumps() makes of a mapping."""
    if value is None or isinstance(value, str):
        return text(value, what)
    try:
        return text(json.dumps(value), what)
    except (TypeError, ValueError) as error:
        raise InvalidError("%s: %s; give it as extended JSON text" % (what, error)) from None


def number(value: Optional[int], what: str, bits: int = 32) -> int:
    """An integer that fits; None is 0."""
    if value is None:
        return 0
    if not isinstance(value, int) or not -2 ** (bits - 1) <= value < 2 ** (bits - 1):
        raise InvalidError("%s: %r is not an integer of %d bits" % (what, value, bits))
    return value


def count(value: Optional[int], what: str) -> int:
    """How many at most; None is 0: the default."""
    most = number(value, what)
    if most < 0:
        raise InvalidError("%s: %r is less than 0" % (what, value))
    return most


def _seconds(value: Seconds, what: str) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if not isinstance(value, (int, float)) or math.isnan(value):
        raise InvalidError("%s: %r is not a number of seconds" % (what, value))
    return value


def milliseconds(value: Optional[Seconds], what: str) -> int:
    """None is 0: the default. A time that is not above 0 raises."""
    if value is None:
        return 0
    seconds = _seconds(value, what)
    if not 0 < seconds < _LONGEST:
        raise InvalidError("%s: %r is not a positive number of seconds" % (what, value))
    return max(1, round(seconds * 1000))


def milliseconds_or_never(value: Optional[Seconds], what: str) -> int:
    """The same; math.inf is never."""
    return NEVER if value == math.inf else milliseconds(value, what)


def wait_ms(value: Optional[Seconds]) -> int:
    """None: what the protocol says; 0: not at all; math.inf: for ever."""
    if value is None:
        return WAIT_DEFAULT
    seconds = _seconds(value, "wait")
    if seconds == math.inf:
        return WAIT_FOREVER
    return TRY if seconds == 0 else milliseconds(value, "wait")
