#!/usr/bin/python3
"""What a command of `run` inherits from it on SQLite, in the hands of a user without rights."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import sys
import unittest

import cli

# Gives its rights up, tries all that can be done to what it has inherited, last what its argument names,
# and waits.
ATTACK = """
import fcntl, os, struct, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
link = "/proc/self/fd/%d".__mod__
inherited = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and os.path.lexists(link(fd))]
lock = lambda fd, kind: fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0))
attacks = {
    "write": lambda fd: os.write(fd, b"x"),
    "cut": lambda fd: os.ftruncate(fd, 0),
    "chmod": lambda fd: os.fchmod(fd, 0o666),
    "remove": lambda fd: os.unlink(os.readlink(link(fd))),
    "open to write": lambda fd: os.open(link(fd), os.O_WRONLY | os.O_NONBLOCK),
    "open to read": lambda fd: os.open(link(fd), os.O_RDONLY | os.O_NONBLOCK),
    "lock": lambda fd: lock(fd, fcntl.F_WRLCK),
    "lock to read": lambda fd: lock(fd, fcntl.F_RDLCK),
    "flock": lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "free flock": lambda fd: fcntl.flock(fd, fcntl.LOCK_UN),
    "free": lambda fd: lock(fd, fcntl.F_UNLCK),
}
done = []
for fd in inherited:
    for name in [*attacks, sys.argv[1]]:
        try:
            attacks[name](fd)
            done.append(name)
        except OSError:
            pass
print(len(inherited), *done, sep=",", flush=True)
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


@unittest.skipIf(os.getuid(), "only root can become another user")
class Inherited(cli.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)

    def attack(self, last):
        """A `run` that holds "x" while its command attacks it; .did: what it could do."""
        run = self.start("run", "--ttl", "1h", "x", "--", sys.executable, "-c", ATTACK, last)
        n, *run.did = run.out.line().split(",")
        self.assertEqual(n, "1")
        run.child = int(run.out.line())
        return run

    def test_it_changes_no_file(self):
        run = self.attack("cut")
        for what in ("write", "cut", "chmod", "remove", "open to write", "open to read", "lock"):
            self.assertNotIn(what, run.did)

    def test_it_frees_no_lock(self):
        run = self.attack("free")
        self.check(75, "run", "-n", "x", "--", "true")
        run.say("\n")
        self.assertEqual(run.status(), 0)  # it had the lock to the end
        self.assertTrue(self.free("x"))

    def test_it_keeps_no_lock_of_others(self):
        self.attack("lock to read")
        holder = self.hold("--ttl", "1h", "y")
        holder.signal(signal.SIGKILL)
        holder.status()
        self.assertTrue(cli.ended(holder.child))
        self.check(0, "run", "-n", "y", "--", "true")

    def test_its_own_is_kept_while_it_lives(self):
        """Though `run` was killed: a command that changed its user lives on."""
        run = self.attack("free")
        run.signal(signal.SIGKILL)
        run.status()
        self.check(75, "run", "-n", "x", "--", "true")
        waiter = self.wait("x")
        os.kill(run.child, signal.SIGKILL)
        self.assertEqual(waiter.status(), 0)


if __name__ == "__main__":
    cli.main()
