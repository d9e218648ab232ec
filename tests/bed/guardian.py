# Finds the guardians of processes: small processes that give locks back when theirs is killed.
# SPDX-License-Identifier: Apache-2.0
"""
    pid = guardian_of(run.pid)          # None: it has none
    kill_host(run)                      # as if its host had lost its power: its guardian first
"""
import atexit
import contextlib
import glob
import os
import re
import select
import signal

from mongod import until


MARK = {"TEST_PROCESS": str(os.getpid())}  # in the environment of what the tests start


def _read(path):
    try:
        with open(path, errors="replace") as stream:
            return stream.read()
    except OSError:  # it has ended meanwhile
        return ""


def guardians():
    """{guardian's pid: the pid that it watches, -1 once that has ended}"""
    found = {}
    for comm in glob.glob("/proc/[0-9]*/comm"):
        if _read(comm) != "hf-guardian\n":
            continue
        folder = os.path.dirname(comm)
        watched = [re.search(r"^Pid:\t(-?\d+)", _read(info), re.M)
                   for info in glob.glob(folder + "/fdinfo/*")]
        found[int(os.path.basename(folder))] = next((int(each.group(1)) for each in watched if each), None)
    return found


@atexit.register
def _end_ours():
    """Those that have something to send to a store that is gone would go on for an hour."""
    mark = "\0%s=%s\0" % next(iter(MARK.items()))
    for guardian in guardians():
        if mark in "\0" + _read("/proc/%d/environ" % guardian):
            with contextlib.suppress(ProcessLookupError):
                os.kill(guardian, signal.SIGKILL)


def guardian_of(pid):
    return next((guardian for guardian, of in guardians().items() if of == pid), None)


def wait_guardian_of(pid):
    return until(lambda: guardian_of(pid), 20, "the guardian of %d" % pid)


def wait_gone(pid, timeout=60):
    """Until that process has ended, which need not be a child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        until(lambda: select.select([fd], [], [], 0.1)[0], timeout, "the end of process %d" % pid)
    finally:
        os.close(fd)


def kill_host(program):
    """The program is killed, and its guardian, if it has one, cannot help."""
    guardian = guardian_of(program.pid)
    if guardian:
        os.kill(guardian, signal.SIGKILL)
        wait_gone(guardian)
    os.kill(program.pid, signal.SIGKILL)
