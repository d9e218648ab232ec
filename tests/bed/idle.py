# A clock that slows down with the machine, for checks that something was not waited for: what takes
# a second by it would take an idle machine about that, however busy this one is. What must have
# happened before a lease is over is checked by the real clock.
# SPDX-License-Identifier: Apache-2.0
"""
    began = boot_ns()
    ...
    self.assertLess(idle_seconds(began), 3)

It counts how often a thread has slept for a millisecond.
"""
import array
import bisect
import threading
import time

MS = 0.001


def boot_ns():
    """The clock of the leases, and of all that a worker says."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


_ticks = array.array("q", [boot_ns()])


def _tick():
    while True:
        time.sleep(MS)
        _ticks.append(boot_ns())


threading.Thread(target=_tick, daemon=True).start()


def idle_seconds(since, until=None):
    """Between two times of boot_ns(); until now, unless that is given."""
    end = len(_ticks) if until is None else bisect.bisect_right(_ticks, until)
    return max(0, end - bisect.bisect_right(_ticks, since, 0, end)) * MS
