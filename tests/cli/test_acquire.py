#!/usr/bin/python3
"""Locks that a script holds over many commands: what acquire prints, its keeper, renew, release."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

import cli
from idle import boot_ns, idle_seconds


class Acquire(cli.Case):
    def take(self, *words):
        taken = self.json("--json", "acquire", *words)
        if "keeper" in taken:
            self.addCleanup(self.end, taken["keeper"])
        return taken

    @staticmethod
    def end(keeper):
        """It is nobody's child; it has ended by now, unless a test has failed, or did not ask it to."""
        if cli.is_alive(keeper):
            os.kill(keeper, signal.SIGKILL)

    def until_free(self, name):
        deadline = time.monotonic() + cli.PATIENCE
        while not self.free(name):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def shell(self, script):
        """What a shell script prints, with the command on its path as `holdfast`."""
        env = dict(self.env, PATH=os.path.dirname(os.path.abspath(cli.BIN)) + ":/usr/bin:/bin")
        return subprocess.run(["sh", "-c", script], env=env, stdout=subprocess.PIPE, check=True,
                              stderr=subprocess.STDOUT, timeout=cli.PATIENCE).stdout.decode()

    def test_any_command_renews_and_releases(self):
        taken = self.take("a")
        self.assertFalse(self.free("a"))
        self.assertGreater(taken["expires_in_ms"], 5000)
        renewed = json.loads(self.check(0, "--json", "renew", taken["lease"]).out)
        self.assertEqual(renewed["token"], taken["token"])
        self.check(0, "release", taken["lease"])
        self.assertTrue(self.free("a"))
        self.check(0, "release", taken["lease"])
        self.check(76, "renew", taken["lease"])

    def test_what_is_told_in_json(self):
        keys = ["lease", "name", "token", "waited_ms", "expires_in_ms"]
        self.assertEqual(list(self.take("a")), keys)
        self.assertEqual(list(self.take("--for", "1h", "b")), keys + ["keeper"])

    def test_who_holds_it_and_why(self):
        self.take("--owner", "backup", "--why", "nightly", "a")
        [holder] = self.json("show", "a", "--json")["holders"]
        self.assertRegex(holder["who"], "^backup@")
        self.assertEqual(holder["why"], "nightly")
        self.take("b")
        self.assertRegex(self.json("show", "b", "--json")["holders"][0]["who"], "^[^/]+/holdfast@")

    def test_shared_and_permits(self):
        for _ in range(2):
            self.take("-s", "a")
            self.take("--permits", "1", "--limit", "2", "b")
        self.check(75, "acquire", "-n", "a")
        self.check(75, "acquire", "-n", "--permits", "1", "--limit", "2", "b")

    def test_a_limit_is_set_anew(self):
        self.take("--permits", "1", "--limit", "1", "a")
        refused = self.check(65, "acquire", "-w", "9s", "--permits", "1", "--limit", "2", "a")
        self.assertIn("--set-limit", refused.err)
        self.check(0, "run", "-n", "--permits", "1", "--limit", "2", "--set-limit", "a", "--", "true")
        self.assertEqual(self.json("show", "a", "--json")["limit"], 2)

    def test_verbose_tells_of_the_wait(self):
        lease = self.take("a")["lease"]
        for words in ([], ["--for", "1h"]):
            waiter = self.start("-v", "acquire", *words, "a")
            waiter.err.expect('waiting for "a"')
            waiter.signal(signal.SIGTERM)
            waiter.status()
        self.check(0, "release", lease)

    def test_verbose_tells_that_it_is_had(self):
        self.assertRegex(self.check(0, "-v", "acquire", "a").err, r'have "a" after \d+ms, token \d+\n')
        self.check(-signal.SIGKILL, "run", "b", "--", "sh", "-c", "kill -9 $PPID")
        err = self.check(0, "-v", "acquire", "--for", "1h", "b").err
        self.assertRegex(err, 'have "b" after (.|\n)*"b" was abandoned by [^,]*/sh@')

    def test_a_shell_takes_what_is_printed(self):
        out = self.shell("""eval "$(holdfast acquire --while-pid $$ "it's here")"
            echo "$HOLDFAST_NAME, token $HOLDFAST_TOKEN"
            holdfast run -n "it's here" -- true 2>/dev/null; echo held $?
            holdfast renew; echo renewed $?
            holdfast release; echo released $?
            holdfast run -n "it's here" -- true; echo free $?""")
        self.assertRegex(out, "^it's here, token [0-9]+\\nheld 75\\nrenewed 0\\nreleased 0\\nfree 0\\n$")

    def test_a_shell_does_not_go_on_with_what_was_not_had(self):
        self.take("--for", "1h", "a")
        for words in ("-n a", "-n -E 3 a", "-n -E 0 a", "--store sqlite:/nonexistent/x a", "",
                      "--for never a"):
            out = self.shell("""HOLDFAST_LEASE=old
                eval "$(holdfast acquire --while-pid $$ %s 2>/dev/null)" ||
                echo "not had: $?, lease ${HOLDFAST_LEASE-none}" """ % words)
            self.assertRegex(out, "^not had: (75|3|69|64|65), lease none\n$", words)
        self.assertEqual(self.check(75, "--json", "acquire", "-n", "a").out, "")
        for words in (["-E", "0", "--json", "q"], ["--json", "--for", "5x", "q"], ["--json", "q", "r"]):
            result = self.run_it("acquire", *words)
            self.assertIn(result.returncode, (64, 65))
            self.assertEqual(result.out, "")
        self.assertIn("(exit 65)", self.check(65, "acquire", "-E", "0", "q").out)

    def test_the_keeper_renews_and_releases_with_the_process(self):
        other = subprocess.Popen(["sleep", "60"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        names = ["a%d" % i for i in range(10)]  # a keeper that its parent takes along is rare
        for name in names:
            self.take("--ttl", "6s", "--while-pid", str(other.pid), name)
        time.sleep(7)
        for name in names:
            self.assertFalse(self.free(name))
        other.kill()
        began = boot_ns()
        for name in names:
            self.until_free(name)
        self.assertLess(idle_seconds(began), 3.9)  # not by its lease's end

    def test_the_keeper_releases_in_a_store_whose_path_begins_in_its_folder(self):
        self.env["HOLDFAST_STORE"] = "sqlite:locks.db"
        out = self.shell("cd %s && holdfast --json acquire --ttl 1h --for 1s a" % self.folder)
        self.addCleanup(self.end, json.loads(out)["keeper"])
        self.env["HOLDFAST_STORE"] = self.store
        self.assertFalse(self.free("a"))
        self.until_free("a")

    def test_the_keeper_releases_when_the_time_is_over(self):
        began = boot_ns()
        self.take("--for", "1500ms", "a")
        self.until_free("a")
        self.assertGreaterEqual((boot_ns() - began) / 1e9, 1.5)

    def test_a_keeper_that_is_asked_to_end_releases(self):
        for _ in range(8):  # also if it has just begun; it renews after 20 minutes
            keeper = self.take("--ttl", "1h", "--for", "1h", "a")["keeper"]
            began = boot_ns()
            os.kill(keeper, signal.SIGTERM)
            self.until_free("a")
            self.assertLess(idle_seconds(began), 30)

    def test_a_keeper_ends_after_a_release(self):
        taken = self.take("--ttl", "1s", "--for", "1h", "a")
        self.check(0, "release", taken["lease"])
        deadline = time.monotonic() + cli.PATIENCE
        while os.path.exists("/proc/%d" % taken["keeper"]):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_a_keeper_ends_when_it_finds_the_lease_lost(self):
        began = boot_ns()
        taken = self.take("--ttl", "18s", "--for", "1h", "a")
        self.check(0, "release", taken["lease"])
        self.assertTrue(cli.ended(taken["keeper"]))
        self.assertLess(idle_seconds(began), 17)  # at its renewal, not by the lease's end

    def test_a_keeper_that_cannot_renew_tries_again_until_the_lease_is_over(self):
        taken = self.take("--ttl", "9s", "--for", "1h", "a")
        with contextlib.closing(sqlite3.connect(self.path("locks.db"))) as db:
            db.execute("ALTER TABLE sessions RENAME TO gone")
        took, deadline = 0, time.monotonic() + cli.PATIENCE
        while cli.is_alive(taken["keeper"]):
            self.assertLess(time.monotonic(), deadline)
            took = cli.processor_time(taken["keeper"]) or took
            time.sleep(0.02)
        self.assertLess(took, 0.2)  # seconds of the processor's: a dozen tries

    def test_without_a_keeper_it_ends_with_its_ttl(self):
        self.take("--ttl", "1s", "a")
        self.check(0, "run", "a", "--", "true")

    def test_nobody_reads_what_is_printed(self):
        for words in ([], ["--for", "1h"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([cli.BIN, "acquire", *words, "a"], env=self.env,
                                        stdout=full, stderr=subprocess.PIPE, timeout=cli.PATIENCE)
            self.assertEqual(result.returncode, 74)
            self.assertIn(b"holdfast: cannot write to standard output", result.stderr)
            self.assertIn(b"the lock is released", result.stderr)
            self.assertTrue(self.free("a"))

    def test_interrupted_it_leaves_nothing(self):
        for words in ([], ["--for", "1h"]):
            lease = self.take("a")["lease"]
            waiting = subprocess.Popen([cli.BIN, "acquire", *words, "a"], env=self.env,
                                       start_new_session=True, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + cli.PATIENCE
            while not json.loads(self.check(0, "--json", "show", "a").out)["queue"]:
                self.assertLess(time.monotonic(), deadline)
            os.killpg(waiting.pid, signal.SIGINT)
            waiting.wait(timeout=cli.PATIENCE)
            while json.loads(self.check(0, "--json", "show", "a").out)["queue"]:
                self.assertLess(time.monotonic(), deadline)
            self.check(0, "release", lease)
            self.until_free("a")

    def test_each_signal_ends_the_wait(self):
        self.take("a")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            for words in ([], ["--for", "1h"]):
                waiter = self.start("-v", "acquire", *words, "a")
                waiter.err.expect("waiting for .*\n")
                waiter.signal(number)
                self.assertEqual(waiter.status(), 128 + number)
                self.assertNotIn("holdfast: ", waiter.err.rest())
                self.assertIn("(exit %d)" % (128 + number), waiter.out.rest())

    def test_a_signal_that_was_ignored_at_the_start_ends_no_wait(self):
        self.take("a")
        ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        waiter = self.start("-v", "acquire", "a", preexec_fn=ignore)
        waiter.err.expect("waiting for .*\n")
        with open("/proc/%d/status" % waiter.pid, encoding="ascii") as status:
            ignored = int(re.search(r"(?m)^SigIgn:\s*(\w+)$", status.read())[1], 16)
        self.assertTrue(ignored & 1 << signal.SIGHUP - 1)
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.status(), 128 + signal.SIGTERM)

    def test_what_is_refused(self):
        self.take("a")
        self.assertRegex(self.check(75, "acquire", "-n", "a").err, "^holdfast: .*a")
        self.check(3, "acquire", "-n", "-E", "3", "a")
        self.check(75, "acquire", "-w", "100ms", "--for", "1h", "a")
        self.assertEqual(self.check(75, "-q", "acquire", "-n", "a").err, "")
        self.assertIn("1 to 255", self.check(65, "-q", "acquire", "-E", "0", "b").err)
        self.check(64, "acquire")
        self.check(64, "acquire", "a", "b")
        self.check(65, "acquire", "--while-pid", "999999999", "a")
        self.check(65, "acquire", "--for", "0", "a")
        self.check(65, "release", "no-lease")
        self.check(64, "release")


if __name__ == "__main__":
    cli.main()
