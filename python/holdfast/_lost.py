"""on_lost: from a thread of the library to the caller's function.

C keeps a pointer to one function that lives as long as the process; the number that it passes says whom
to tell.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Optional, Union

from ._errors import HoldfastError, error_of
from ._handle import callback
from ._library import LOST_FN, ElectionOptions, LockOptions

OnLost = Callable[[HoldfastError, float], Any]

_numbers = itertools.count(1)
_told: Dict[int, OnLost] = {}


def _tell(number: int, _lock: int, err: Any, left_ms: int) -> None:
    told = _told.get(number)
    if told is None:
        return
    callback.is_inside = True
    try:
        told(error_of(err.contents), left_ms / 1000)
    finally:
        callback.is_inside = False


_c_tell = LOST_FN(_tell)


class LossWarning:
    """Whom to tell. forget() ends it."""

    def __init__(self, on_lost: Optional[OnLost], options: Union[LockOptions, ElectionOptions]) -> None:
        self._number = next(_numbers)
        if on_lost:
            _told[self._number] = on_lost
            options.on_lost = _c_tell
            options.lost_ctx = self._number

    def forget(self) -> None:
        _told.pop(self._number, None)
