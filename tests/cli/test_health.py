#!/usr/bin/python3
"""`holdfast run --health-cmd` and `--max-hold`: a command that is stuck is stopped."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import time

import cli


class Stuck(cli.Case):
    def last(self):
        return self.json("show", "x", "--json")["last"]

    def left_for(self, reason):
        """The lock was left with that reason, and is free."""
        last = self.last()
        self.assertEqual((last["outcome"], last["reason"]), ("abandoned", reason))
        self.assertRegex(self.check(0, "show", "x").out, r"(?m)^last +abandoned .*: %s$" % reason)
        next_one = self.check(0, "-v", "run", "-n", "x", "--", "true")
        self.assertRegex(next_one.err, r'"x" was abandoned by .* \(%s\): look' % reason)

    def await_bytes(self, name, n):
        """Until a file has so many."""
        deadline = time.monotonic() + cli.PATIENCE
        while not os.path.exists(self.path(name)) or os.path.getsize(self.path(name)) < n:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def checked(self, command, *words, interval="1s"):
        """One that holds x until it is stopped, and is checked so every second."""
        return self.hold("--health-cmd", command, "--health-interval", interval, *words, "x")

    def test_without_a_success_the_command_is_stopped(self):
        begun = time.monotonic()
        holder = self.checked("exit 3")
        self.assertEqual(holder.status(), 76)
        self.assertGreaterEqual(time.monotonic() - begun, 3)
        said = holder.err.rest()
        self.assertIn("health command failed with exit status 3", said)
        self.assertIn("not fed for 3000 ms; stopping the command", said)
        self.assertFalse(cli.is_alive(holder.child))
        self.left_for("it was not fed for 3000 ms")

    def test_checks_that_succeed_and_then_do_not(self):
        open(self.path("well"), "w").close()
        holder = self.checked('echo >> "%s"; test -e "%s"' % (self.path("n"), self.path("well")),
                              interval="2s")
        self.await_bytes("n", 5)
        self.assertIsNone(holder.process.poll())
        os.remove(self.path("well"))
        self.assertEqual(holder.status(), 76)
        self.left_for("it was not fed for 6000 ms")

    def test_a_check_that_hangs_is_killed_and_has_failed(self):
        """On a slow machine one of the three may be killed before it has written its number."""
        holder = self.checked('echo $$ >> "%s"; exec sleep 1000' % self.path("pids"), interval="4s")
        self.assertEqual(holder.status(), 76)
        self.assertIn("not ended within its interval", holder.err.rest())
        with open(self.path("pids")) as pids:
            pids = [int(line) for line in pids]
        self.assertGreaterEqual(len(pids), 2)
        for pid in pids:
            self.assertTrue(cli.ended(pid))

    def test_a_check_after_one_that_was_killed_counts(self):
        """The first hangs, the others fail, which is said."""
        path = self.path("hung")
        holder = self.checked('test -e "%s" && exit 3; touch "%s"; exec sleep 1000' % (path, path),
                              interval="4s")
        self.assertEqual(holder.status(), 76)
        said = holder.err.rest()
        self.assertEqual(said.count("not ended within its interval"), 1, said)
        self.assertIn("failed with exit status 3", said)

    def test_a_check_that_a_signal_ends_is_said(self):
        holder = self.checked("kill -KILL $$")
        self.assertEqual(holder.status(), 76)
        self.assertIn("the health command was ended by signal 9", holder.err.rest())

    def test_one_that_ignores_the_end_is_killed(self):
        stubborn = self.start("--ttl", "10s", "run", "--grace", "500ms", "--max-hold", "5s", "x", "--",
                              "sh", "-c", 'trap "" TERM; echo "$$"; while :; do sleep 1; done')
        child = int(stubborn.out.line())
        self.assertEqual(stubborn.status(), 76)
        self.assertFalse(cli.is_alive(child))
        self.left_for("it was held for longer than 5000 ms")

    def test_held_for_too_long(self):
        begun = time.monotonic()
        holder = self.checked("true", "--max-hold", "4s", "--lost-code", "7", interval="10s")
        self.assertEqual(holder.status(), 7)
        self.assertGreaterEqual(time.monotonic() - begun, 4)
        self.left_for("it was held for longer than 4000 ms")

    def test_the_next_has_it_when_the_command_was_stopped(self):
        holder = self.hold("--max-hold", "8s", "x")
        waiter = self.wait("x", command=("kill", "-0", str(holder.child)))
        self.assertEqual((holder.status(), waiter.status()), (76, 1))

    def test_a_command_that_ends_by_itself_leaves_no_check_behind(self):
        holder = self.checked('echo $$ > "%s"; exec sleep 1000' % self.path("pid"))
        self.await_bytes("pid", 1)
        holder.close_input()
        self.assertEqual(holder.status(), 0)
        with open(self.path("pid")) as pid:
            self.assertTrue(cli.ended(int(pid.read())))
        self.assertEqual(self.last()["reason"], "")

    def test_a_check_dies_with_run(self):
        holder = self.checked('echo $$ > "%s"; exec sleep 1000' % self.path("pid"))
        self.await_bytes("pid", 1)
        with open(self.path("pid")) as pid:
            pid = int(pid.read())
        holder.signal(signal.SIGKILL)
        self.assertTrue(cli.ended(pid))

    def test_what_a_check_finds(self):
        holder = self.checked('cat; echo out; echo "$HOLDFAST_NAME $HOLDFAST_TOKEN" > "%s"; sleep 9'
                              % self.path("found"))
        self.assertEqual(holder.status(), 76)
        with open(self.path("found")) as found:
            self.assertRegex(found.read(), r"^x \d+$")
        self.assertNotIn("out", holder.out.rest())

    def test_while_further_locks_are_waited_for_the_first_is_fed(self):
        other = self.hold("y")
        waiter = self.start("-v", "run", "--health-cmd", "true", "--health-interval", "2s", "x", "y",
                            "--", "true")
        waiter.err.expect(r"waiting for .*\n")
        time.sleep(7)  # longer than it may go unfed
        other.close_input()
        self.assertEqual(waiter.status(), 0)
        self.assertNotIn("lost", waiter.err.rest())

    def test_a_check_that_cannot_be_started_has_failed(self):
        """In a mount namespace that nobody else sees, /bin/sh is no program."""
        unshare = ["unshare", "--mount"] + ["--map-root-user"] * (os.getuid() != 0)
        words = [cli.BIN, "run", "--health-cmd", "true", "--health-interval", "1s", "x", "--", "sleep", "600"]
        result = subprocess.run(
            [*unshare, "sh", "-c", 'mount --bind /dev/null /bin/sh && exec "$@"', "sh", *words],
            env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=cli.PATIENCE)
        self.assertEqual(result.returncode, 76, result.stderr)
        self.assertIn(b"the health command failed with exit status 127", result.stderr)

    def test_wrong_words(self):
        x = ["x", "--", "true"]
        for status, pattern, *words in (
            (64, "belongs to --health-cmd", "--health-interval", "2s", *x),
            (65, "at least 1s", "--health-cmd", "true", "--health-interval", "999ms", *x),
            (65, "no time to work", "--max-hold", "0", *x),
            (65, "is not a duration", "--max-hold", "long", *x),
        ):
            self.assertRegex(self.check(status, "run", *words).err, pattern)


if __name__ == "__main__":
    cli.main()
