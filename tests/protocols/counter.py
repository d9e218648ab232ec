# The work that all contenders do under the lock, ours and others': a number in a file that nothing
# else protects. SPDX-License-Identifier: Apache-2.0
import os
import time


def count_up(path):
    """Returns what was read; some time passes between the reading and the writing."""
    if path == "-":  # holds until it is told to stop
        time.sleep(3600)
    with open(path) as stream:
        value = int(stream.read())
    time.sleep(0.002)
    out = os.open(path, os.O_WRONLY)
    os.write(out, b"%-20d\n" % (value + 1))
    os.close(out)
    return value
