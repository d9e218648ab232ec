# When a holder was last heard of: for tests of how long it is waited for once it is killed.
# SPDX-License-Identifier: Apache-2.0
from idle import boot_ns
from mongod import until


def before_a_beat(look):
    """Waits for a beat (a ping, with protocol `sharding`), and returns a time of boot_ns() before it; look()
    gives what changes with each. Who was not killed before it was seen has beaten at that time or later."""
    first, times = look(), []

    def is_there():
        times.append(boot_ns())  # the beat that this look sees first came after the look before
        return look() != first
    until(is_there, 60, "a beat")
    return times[-2:][0]
