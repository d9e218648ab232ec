#!/usr/bin/python3
"""`holdfast run`: exit statuses, what the command gets, several names, modes."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time

import cli


class Status(cli.Case):
    def test_it_is_the_commands_own(self):
        for status in (0, 1, 3, 75, 255):
            self.check(status, "run", "x", "--", "sh", "-c", "exit %d" % status)

    def test_a_signal_is_128_and_its_number(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.check(128 + number, "run", "x", "--", "sh", "-c", "kill -%d $$" % number)

    def test_no_such_command(self):
        result = self.check(127, "run", "x", "--", "no-such-command")
        self.assertIn('cannot run "no-such-command"', result.err)
        self.assertTrue(self.free("x"))

    def test_not_executable(self):
        result = self.check(126, "run", "x", "--", "/etc/passwd")
        self.assertIn("Permission denied", result.err)
        self.assertTrue(self.free("x"))

    def test_held_by_another(self):
        self.hold("x")
        for words in (["-n"], ["-w", "0"], ["-w", "200ms"]):
            result = self.check(75, "run", *words, "x", "--", "touch", self.path("ran"))
            self.assertRegex(result.err, r"^holdfast: .*x")
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_quiet_says_nothing_when_held(self):
        self.hold("x")
        self.assertEqual(self.check(75, "-q", "run", "-n", "x", "--", "true").err, "")

    def test_nobody_can_be_told_that_it_is_held(self):
        self.hold("x")
        with open("/dev/full", "w") as full:
            result = subprocess.run([cli.BIN, "run", "-n", "x", "--", "true"], env=self.env,
                                    stderr=full, timeout=cli.PATIENCE)
        self.assertEqual(result.returncode, 75)
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([cli.BIN, "run", "-n", "x", "--", "true"], env=self.env,
                                stderr=writer, timeout=cli.PATIENCE)
        os.close(writer)
        self.assertEqual(result.returncode, 75)

    def test_own_code_when_held(self):
        self.hold("x")
        self.check(9, "run", "-n", "-E", "9", "x", "--", "true")
        self.check(0, "run", "-w", "0.1", "-E", "0", "x", "--", "false")

    def test_a_wait_lasts_as_long_as_it_was_given(self):
        self.hold("x")
        begun = time.monotonic()
        self.check(75, "run", "-w", "700ms", "x", "--", "true")
        self.assertGreaterEqual(time.monotonic() - begun, 0.7)

    def test_the_status_is_kept_with_the_lock(self):
        self.check(7, "run", "x", "--", "sh", "-c", "exit 7")
        last = self.json("show", "x", "--json")["last"]
        self.assertEqual((last["outcome"], last["exit_status"]), ("released", 7))


class Usage(cli.Case):
    def refused(self, status, pattern, *words):
        result = self.check(status, *words)
        self.assertRegex(result.err, pattern, words)
        self.assertEqual(result.out, "")
        self.assertFalse(os.path.exists(self.path("locks.db")) and status == 64)

    def test_wrong_words(self):
        """A line says what is wrong, and a sentence where help is, which argp breaks at 79 columns."""
        for pattern, *words in (
            ("which lock", "run", "--", "true"),
            ("which command", "run", "x"),
            ("which command", "run", "x", "--"),
            ("which command", "run", "x", "ls", "-l"),
            ("which command", "run", "--document", "c", "ls", "--color"),
            ("unrecognized option '--bogus'", "run", "--bogus", "x", "--", "true"),
            ("unrecognized option '--bogus'", "--bogus", "run", "x", "--", "true"),
            ("requires an argument", "run", "-w"),
            ("exclude each other", "run", "-n", "-w", "1", "x", "--", "true"),
            ("exclude each other", "run", "-s", "-x", "x", "--", "true"),
            ("belong together", "run", "--permits", "1", "x", "--", "true"),
            ("belong together", "run", "--limit", "1", "x", "--", "true"),
            ("--set-limit goes with", "run", "--set-limit", "x", "--", "true"),
            ("neither shared", "run", "-s", "--permits", "1", "--limit", "2", "x", "--", "true"),
            ("which election", "elect", "--", "true"),
            ("which election", "elect", "--print"),
            ("which command", "elect", "x"),
            ("which command", "elect", "x", "--"),
            ("which command.*or --print", "elect", "x", "serve", "--port", "80"),
            ("only one name", "elect", "x", "y", "--", "true"),
            ("only one name", "elect", "--print", "x", "y"),
            ("no command", "elect", "--print", "x", "--", "true"),
            ("no --why", "elect", "--print", "--why", "w", "x"),
            ("--owner or --grace", "elect", "--print", "--grace", "1s", "x"),
            ("no --max-hold", "elect", "--print", "--max-hold", "1s", "x"),
            ("no --health-cmd", "elect", "--print", "--health-cmd", "true", "x"),
            ("unrecognized option '--each'", "elect", "--each", "x", "--", "true"),
            ("only one name", "show", "a", "b"),
            ("which lock", "show"),
            ("--reason", "break", "x"),
            ("which lock", "break", "--reason", "r"),
            ("belong to --document", "run", "--id", "1", "x", "--", "true"),
            ("belong to --document", "run", "--filter", "{}", "x", "--", "true"),
            ("belong to --document", "run", "--sort", "{}", "x", "--", "true"),
            ("belong to --document", "run", "--each", "x", "--", "true"),
            ("instead of names", "run", "--document", "c", "x", "--", "true"),
            ("one at a time", "run", "--document", "c", "-s", "--", "true"),
            ("one at a time", "run", "--document", "c", "--permits", "1", "--limit", "2", "--", "true"),
            ("no --filter", "run", "--document", "c", "--id", "1", "--filter", "{}", "--", "true"),
            ("no --filter", "run", "--document", "c", "--id", "1", "--sort", "{}", "--", "true"),
            ("no --filter", "run", "--document", "c", "--id", "1", "--each", "--", "true"),
            ("exclude each other", "config", "--stores", "--json"),
        ):
            self.refused(64, r"\Aholdfast.*: .*%s.*\nTry `holdfast.* --help' or `holdfast.* --usage' for more"
                         r"\sinformation\.\n\Z" % pattern, *words)

    def test_no_words(self):
        self.refused(64, r"\AUsage: holdfast")

    def test_a_command_that_there_is_not(self):
        """One that differs in two letters at most may be meant, or one that begins so. It is said in a line."""
        for word, meant in (("lst", "list"), ("docter", "doctor"), ("wetsh", "watch"), ("ru", "run"),
                            ("bnh", "bench"), ("sessionsxx", "sessions"), ("erelease", "release"),
                            ("wxatych", "watch"), ("comp", None), ("wetsx", None), ("r", None),
                            ("sessionsxxx", None), ("rrrelease", "release"), ("rrrrelease", None),
                            ("frobnicate", None), ("quarrel", None), ("exec", "run"),
                            ("lock", "acquire"), ("unlock", "release"), ("ls", "list"),
                            ("status", "list"), ("ps", "sessions")):
            said = 'do you mean "%s"' % meant if meant else '; "holdfast help" lists'
            self.refused(64, r'\Aholdfast: .*no command "%s".*%s.*\n\Z' % (word, said), word)

    def test_help_and_version_in_other_words(self):
        usage = self.check(0, "--help").out
        for words in (["-h"], ["help"], ["help", "--help"], ["help", "-h"]):
            self.assertEqual(self.check(0, *words).out, usage)
        self.assertEqual(self.check(0, "run", "-h").out, self.check(0, "run", "--help").out)
        self.assertEqual(self.check(0, "version").out, self.check(0, "--version").out)

    def test_words_for_a_document_that_go_together(self):
        """They are read; then there is no server."""
        store = "mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=100"
        for words in (["--id", "1"], ["--filter", "{}"], ["--sort", "{}"], ["--each"], ["-n"],
                      ["--filter", "{}", "--sort", "{}", "--each"]):
            words = ["--store", store, "run", "--document", "c", *words, "--", "true"]
            self.refused(69, "^holdfast: .*127.0.0.1:1", *words)

    def test_bad_values(self):
        x = ["x", "--", "true"]
        for pattern, *words in (
            ('"5x" is not a duration', "run", "-w", "5x", *x),
            ('"" is not a duration', "run", "-w", "", *x),
            ('"s" is not a duration', "run", "-w", "s", *x),
            ('"1 s" is not a duration', "run", "-w", "1 s", *x),
            ('"1." is not a duration', "run", "-w", "1.", *x),
            ('"0x10" is not a duration', "run", "-w", "0x10", *x),
            ('"1e3" is not a duration', "run", "-w", "1e3", *x),
            ('"inf" is not a duration', "run", "-w", "inf", *x),
            (r'"\+1" is not a duration', "run", "-w", "+1", *x),
            ("is negative", "run", "-w", "-1", *x),
            ('"--" is not a duration', "run", "-w", *x[1:]),
            ("too long", "run", "-w", "9" * 30, *x),
            ("too long", "run", "-w", "9223372036854775807ms", *x),
            ("too long", "run", "-w", "876001h", *x),
            ("too long", "run", "-w", "99999999999d", *x),
            ("out of range: 1s to 1h", "--ttl", "999ms", "run", *x),
            ("out of range: 1s to 1h", "run", "--ttl", "3601", *x),
            ("out of range: 0 to 255", "run", "-E", "256", *x),
            ("out of range: 0 to 255", "run", "--lost-code", "-1", *x),
            ('"" is not a number', "run", "-E", "", *x),
            ('"7a" is not a number', "run", "-E", "7a", *x),
            ("out of range", "run", "-E", "9" * 40, *x),
            ("out of range", "run", "--permits", "0", "--limit", "2", *x),
            ("--limit: 0 is out of range: 1 to", "run", "--permits", "1", "--limit", "0", *x),
            ('" 7" is not a number', "run", "-E", " 7", *x),
            (r'"\+7" is not a number', "run", "-E", "+7", *x),
            ("out of range", "run", "--permits", "1", "--limit", "2000000000", *x),
            ("more than the limit", "run", "--permits", "3", "--limit", "2", *x),
            ("must not be empty", "run", "", "--", "true"),
            ("513 bytes, at most 512", "run", "n" * 513, "--", "true"),
            (r'"a\\xff" is not UTF-8', "run", b"a\xff", "--", "true"),
            (r'"\\xc0\\xaf" is not UTF-8', "run", b"\xc0\xaf", "--", "true"),
            (r'"\\xed\\xa0\\x80" is not UTF-8', "run", b"\xed\xa0\x80", "--", "true"),
            ("given twice", "run", "x", "y", "x", "--", "true"),
            (r"why.*at most 256", "run", "--why", "w" * 257, *x),
            ("at most 4500ms", "--ttl", "10s", "run", "--grace", "4.501s", *x),
            ("at most 4500ms", "--ttl", "10s", "elect", "--grace", "4.501s", *x),
            ("must not be empty", "elect", "", "--", "true"),
            ("513 bytes, at most 512", "elect", "--print", "n" * 513),
            (r"why.*at most 256", "elect", "--why", "w" * 257, *x),
            ("no such scheme", "--store", "ftp://x", "list"),
            ("no such scheme", "--store", "", "list"),
            ("sqlite:", "--store", "sqlite:", "list"),
            ("MongoDB URI", "--store", "mongodb://", "list"),
            ("nobody has ever taken it", "show", "never"),
            ("never", "break", "never", "--reason", "r"),
            ("--reason: say why", "break", "x", "--reason", ""),
            ("--document needs a MongoDB store", "run", "--document", "c", "--", "true"),
        ):
            self.refused(65, r"^holdfast: .*" + pattern, *words)

    def test_bad_names_of_show_and_break(self):
        for name in ("", "n" * 513, b"a\xff"):
            self.refused(65, "^holdfast: ", "show", name)
            self.refused(65, "^holdfast: ", "break", "--reason", "r", name)

    def test_names_that_are_taken(self):
        for name in ("n" * 512, "ä", "a b", "$x", "'", "%s", "\n", "\x01", "🔒"):
            self.check(0, "run", "--why", name[:256], name, "--", "true")

    def test_a_limit_that_disagrees(self):
        self.hold("--permits", "1", "--limit", "3", "x")
        for words in (["--permits", "1", "--limit", "2"], []):
            result = self.check(65, "run", *words, "x", "--", "true")
            self.assertRegex(result.err, r"limit.*3|3.*limit")

    def test_help(self):
        for words in (["--help"], ["help"]):
            self.assertRegex(self.check(0, *words).out, "(?s)Usage: holdfast .*  doctor ")
        for verb in ("run", "elect", "list", "show", "sessions", "break", "doctor"):
            for words in ([verb, "--help"], ["help", verb]):
                result = self.check(0, *words)
                self.assertIn("Usage: holdfast " + verb, result.out)
                self.assertEqual(result.err, "")
        for words in (["help", "help"], ["help", "complete"]):
            self.assertRegex(self.check(0, *words).out, "Usage: holdfast .*COMMAND")
        self.check(64, "help", "nothing")

    def test_it_has_one_name_whatever_it_is_called(self):
        for words in (["--bogus"], ["run", "--bogus"]):
            result = subprocess.run(["/some/other", *words], executable=cli.BIN, env=self.env,
                                    capture_output=True, text=True, timeout=cli.PATIENCE)
            self.assertRegex(result.stderr, "^holdfast( run)?: unrecognized option")
            self.assertNotIn("other", result.stderr)

    def test_version(self):
        for words in (["--version"], ["run", "--version"]):
            self.assertRegex(self.check(0, *words).out, r"^holdfast \d+\.\d+\.\d+\n$")

    def test_global_options_before_and_after_the_verb(self):
        del self.env["HOLDFAST_STORE"]
        self.env["HOME"] = self.path("nowhere")
        for words in (["--store", self.store, "list", "--json"],
                      ["--json", "list", "--store", self.store]):
            self.assertEqual(self.check(0, *words).out, "[]\n")
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_output_that_cannot_be_written(self):
        for words in (["list"], ["--version"], ["run", "--help"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([cli.BIN, *words], env=self.env, stdout=full,
                                        stderr=subprocess.PIPE, timeout=cli.PATIENCE)
            self.assertEqual((words, result.returncode), (words, 74))
            self.assertIn(b"cannot write", result.stderr)

    def test_nothing_is_opened_in_place_of_a_closed_stream(self):
        show = ("import os, sys; fds = range(3);"
                "own = [n for n in fds if os.path.exists(f'/proc/self/fd/{n}')];"
                "above = [os.readlink(f'/proc/{os.getppid()}/fd/{n}') for n in fds];"
                "print(own, *above, file=open(sys.argv[1], 'w'))")
        self.check(0, "run", "x", "--", sys.executable, "-c", show, self.path("seen"),
                   preexec_fn=lambda: os.closerange(0, 3))
        with open(self.path("seen"), encoding="ascii") as seen:
            self.assertEqual(seen.read(), "[] /dev/null /dev/null /dev/null\n")


LIBC_SIGNALS = 3 << 31  # 32 and 33: glibc takes these for its threads, even if they were ignored before


def masks(status):
    """The signal sets in lines of /proc/PID/status, without those that are the C library's own."""
    lines = [line.split() for line in status.splitlines()]
    return {name: int(value, 16) & ~LIBC_SIGNALS for name, value in lines}


class Command(cli.Case):
    def test_it_gets_its_words_without_a_shell(self):
        words = ["a b", "", "$HOME", "*", "-n", "--", "'"]
        result = self.check(0, "run", "x", "--", "printf", "%s|", *words)
        self.assertEqual(result.out, "".join(w + "|" for w in words))

    def test_it_has_no_grace_when_its_session_was_removed(self):
        """The lock may be another's already."""
        run = self.start("--ttl", "3s", "run", "x", "--", "sh", "-c",
                         'trap "touch %s" TERM; echo; while :; do sleep 0.1; done' % self.path("warned"))
        run.out.line()
        with sqlite3.connect(self.path("locks.db"), timeout=cli.PATIENCE) as db:
            db.execute("DELETE FROM sessions")
        self.assertEqual(run.status(), 76)
        self.assertFalse(os.path.exists(self.path("warned")))

    def test_it_gets_standard_input(self):
        self.assertEqual(self.check(0, "run", "x", "--", "cat", input=b"in\x00put\n").stdout,
                         b"in\x00put\n")

    def test_it_gets_name_and_token(self):
        self.env.update(HOLDFAST_TOKEN="old", HOLDFAST_DOCUMENT_ID="old", HOLDFAST_NAMES="kept")
        names = "$HOLDFAST_NAMES${HOLDFAST_DOCUMENT_ID-, no document}"
        self.assertEqual(self.check(0, "run", "x", "--", "sh", "-c", 'echo "%s"' % names).out,
                         "kept, no document\n")
        script = 'echo "$HOLDFAST_NAME"; echo "$HOLDFAST_TOKEN"'
        tokens = []
        for _ in range(3):
            name, token = self.check(0, "run", "ä b", "--", "sh", "-c", script).out.split("\n")[:2]
            self.assertEqual(name, "ä b")
            tokens.append(int(token))
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertLess(tokens[-1], 2 ** 53)
        self.assertEqual(self.json("show", "ä b", "--json")["token"], tokens[-1])

    def test_it_has_a_group_of_its_own(self):
        holder = self.hold("x")
        self.assertEqual(os.getpgid(holder.child), holder.child)
        self.assertNotEqual(os.getpgid(holder.pid), holder.child)

    def test_masks_and_dispositions_are_as_they_were(self):
        def ignore():
            for number in (signal.SIGUSR1, signal.SIGCHLD):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        show = ["grep", "^Sig[BI]", "/proc/self/status"]
        plain = subprocess.run(show, stdout=subprocess.PIPE, preexec_fn=ignore).stdout.decode()
        result = self.check(0, "run", "x", "--", *show, preexec_fn=ignore)
        self.assertEqual(masks(result.out), masks(plain))

    def test_descriptors_that_leak(self):
        result = self.check(0, "run", "x", "--", "ls", "-l", "/proc/self/fd")
        links = [line.split(" -> ")[1] for line in result.out.splitlines() if " -> " in line]
        extra = [link for link in links[3:] if not link.startswith("/proc/")]
        self.assertLessEqual(len(extra), 1, "more than the one that says who lives")
        self.assertNotIn("locks.db", [os.path.basename(link) for link in extra])

    def test_the_environment_is_as_it_was(self):
        env = {"B": "1", "A": "2", "PATH": os.environ["PATH"]}
        env.update((key, value) for key, value in self.env.items() if key.startswith("HOLDFAST_"))
        lines = self.check(0, "run", "x", "--", "env", env=env).out.splitlines()
        self.assertEqual(lines[5:], ["%s=%s" % pair for pair in env.items()])

    def test_who_waits_sleeps(self):
        """A wait that shows nothing wakes up for its beats, and for a look now and then; not more
        often because others wait, too."""
        self.hold("x")
        waiters = [self.start("run", "x", "--", "true") for _ in range(4)]
        self.await_queue("x", len(waiters))
        time.sleep(2)  # a sweep, which each does after a second, is over
        most = 30
        for _ in range(8):  # a busy machine wakes them for reasons of its own, now and then
            before = [self.wakes(waiter.pid) for waiter in waiters]
            time.sleep(5)
            most = max(self.wakes(w.pid) - was for w, was in zip(waiters, before))
            if most < 30:
                break
        self.assertLess(most, 30)

    @staticmethod
    def wakes(pid):
        """How often its threads have gone to sleep."""
        count = 0
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/status" % (pid, task)) as status:
                count += int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", status.read()).group(1))
        return count

    def test_what_it_left_running_goes_on(self):
        result = self.start("run", "x", "--", "sh", "-c", "sleep 600 >&- 2>&- & echo $!")
        left = int(result.out.line())
        self.addCleanup(os.kill, left, signal.SIGKILL)
        self.assertEqual(result.status(), 0)
        self.assertTrue(cli.is_alive(left))
        self.assertTrue(self.free("x"))

    def test_verbose_tells_wait_and_token(self):
        self.assertRegex(self.check(0, "-v", "run", "x", "--", "true").err,
                         r'have "x" after \d+ms, token \d+\n')

    def test_an_abandoned_lock_is_told_to_the_user_and_to_the_command(self):
        tell = ("run", "x", "--", "sh", "-c", 'echo "[$HOLDFAST_PREVIOUS $HOLDFAST_PREVIOUS_STATUS]"; exit 3')
        self.env.update(HOLDFAST_PREVIOUS="old", HOLDFAST_PREVIOUS_STATUS="7")
        self.assertEqual(self.check(3, *tell).out, "[ ]\n")
        self.assertEqual(self.check(3, *tell).out, "[released 3]\n")
        holder = self.hold("x")
        holder.signal(signal.SIGKILL)
        holder.status()
        done = self.check(3, *tell)
        self.assertEqual(done.out, "[abandoned ]\n")
        self.assertRegex(done.err, r'"x" was abandoned by \S+/sh@.*, token \d+')


class Names(cli.Case):
    def test_in_byte_order(self):
        result = self.check(0, "run", "b", "ä", "B", "a", "--", "sh", "-c", 'echo "$HOLDFAST_NAME"')
        self.assertEqual(result.out, "B\na\nb\nä\n")

    def test_all_are_held(self):
        self.hold("a", "b")
        for name in ("a", "b"):
            self.check(75, "run", "-n", name, "--", "true")

    def test_all_or_nothing(self):
        self.hold("b")
        self.check(75, "run", "-n", "a", "b", "--", "true")
        self.assertTrue(self.free("a"))
        self.check(75, "run", "-w", "300ms", "a", "b", "c", "--", "true")
        self.assertTrue(self.free("a"))
        self.assertTrue(self.free("c"))

    def test_each_wait_is_told(self):
        holders = {name: self.hold(name) for name in ("a", "b")}
        waiter = self.start("-v", "run", "a", "b", "--", "true")
        for name in ("a", "b"):
            waiter.err.expect('waiting for "%s" .*\n' % name)
            holders[name].close_input()
        waiter.err.expect('have "a" after .*\n.*have "b" after .*\n')
        self.assertEqual(waiter.status(), 0)

    def test_one_deadline_for_all(self):
        self.hold("a")
        first = self.start("run", "-w", "1s", "a", "b", "--", "true")
        self.assertEqual(first.status(), 75)

    def test_those_who_cross_do_not_hang(self):
        for _ in range(5):
            both = [self.start("run", *names, "--", "true") for names in (("a", "b"), ("b", "a"))]
            for each in both:
                self.assertEqual(each.status(), 0)


class Modes(cli.Case):
    def test_those_who_share(self):
        first = self.hold("-s", "x")
        self.hold("-s", "x")
        self.check(0, "run", "-n", "-s", "x", "--", "true")
        self.check(75, "run", "-n", "x", "--", "true")
        self.check(75, "run", "-n", "-x", "x", "--", "true")
        self.assertEqual(len(self.json("show", "x", "--json")["holders"]), 2)
        first.close_input()

    def test_a_reader_behind_a_writer_waits(self):
        reader = self.hold("-s", "x")
        writer = self.wait("-x", "x")
        self.check(75, "run", "-n", "-s", "x", "--", "true")
        reader.close_input()
        self.assertEqual(writer.status(), 0)

    def test_permits(self):
        for _ in range(3):
            last = self.hold("--permits", "1", "--limit", "3", "x")
        self.check(75, "run", "-n", "--permits", "1", "--limit", "3", "x", "--", "true")
        last.close_input()
        self.assertEqual(last.status(), 0)
        self.check(0, "run", "-n", "--permits", "1", "--limit", "3", "x", "--", "true")
        self.check(75, "run", "-n", "--permits", "2", "--limit", "3", "x", "--", "true")

    def test_in_turn(self):
        holder = self.hold("x")
        script = 'echo "$0" >> ' + self.path("order")
        waiters = [self.wait("x", command=("sh", "-c", script, str(i))) for i in range(4)]
        holder.close_input()
        for each in waiters:
            self.assertEqual(each.status(), 0)
        with open(self.path("order")) as order:
            self.assertEqual(order.read().split(), ["0", "1", "2", "3"])


class Nested(cli.Case):
    """A command that waits for the lock under which it runs."""

    WARNING = '"x" is already held where this command was started (token '

    def nest(self, status, outer, inner):
        return self.check(status, "run", *outer, "--", cli.BIN, *inner).err

    def test_it_is_told(self):
        for inner in (["run", "-w", "1s", "x", "--", "true"], ["run", "-w", "1s", "-s", "x", "--", "true"],
                      ["acquire", "-w", "1s", "x"]):
            self.assertEqual(self.nest(75, ["x"], inner).count(self.WARNING), 1)
        self.assertIn(self.WARNING, self.nest(75, ["a", "x"], ["run", "-w", "1s", "x", "--", "true"]))
        self.assertIn(self.WARNING,
                      self.nest(75, ["-s", "x"], ["run", "-w", "1s", "x", "--", "true"]))

    def test_what_does_not_wait_for_it_is_not(self):
        for status, outer, inner in ((75, ["x"], ["run", "-n", "x", "--", "true"]),
                                     (0, ["x"], ["run", "y", "--", "true"]),
                                     (0, ["-s", "x"], ["run", "-s", "x", "--", "true"]),
                                     (0, ["--permits", "1", "--limit", "2", "x"],
                                      ["run", "--permits", "1", "--limit", "2", "x", "--", "true"])):
            self.assertNotIn(self.WARNING, self.nest(status, outer, inner))

    def test_it_ends_as_a_deadlock(self):
        err = self.nest(75, ["x"], ["run", "x", "--", "true"])
        self.assertIn("deadlock", err)
        self.assertIn("held by what started it", err)
        self.nest(75, ["x"], [*("run y --".split()), cli.BIN, *("run x -- true".split())])  # through a third

    def test_two_that_cross(self):
        """Each waits for the other's lock in a command under its own; one of them is told."""
        script = 'echo here; read go; exec "$0" run "$1" -- true'
        both = [self.start("run", a, "--", "sh", "-c", script, cli.BIN, b) for a, b in ("xy", "yx")]
        for each in both:
            self.assertEqual(each.out.line(), "here")
        for each in both:
            each.say("go\n")
        self.assertEqual(sorted(each.status() for each in both), [0, 75])

    def test_the_same_name_in_another_store_is_not(self):
        other = "sqlite:" + self.path("other.db")
        self.assertNotIn(self.WARNING, self.nest(0, ["x"], ["--store", other, "run", "x", "--", "true"]))

    def test_what_is_left_over_in_the_environment_is_not(self):
        self.env.update(HOLDFAST_NAME="x", HOLDFAST_TOKEN="5")
        self.assertNotIn(self.WARNING, self.check(0, "run", "x", "--", "true").err)
        self.env.update(HOLDFAST_NAME="x\ny", HOLDFAST_TOKEN="")
        self.assertNotIn(self.WARNING, self.check(0, "run", "y", "--", "true").err)


class DefaultStore(cli.Case):
    def setUp(self):
        super().setUp()
        del self.env["HOLDFAST_STORE"]
        self.env.pop("XDG_STATE_HOME", None)
        self.env["HOME"] = self.path("home")

    def check_made(self, folder):
        for _ in range(2):  # once it is there, too
            self.check(0, "run", "x", "--", "true")
        self.assertTrue(os.path.exists(os.path.join(folder, "locks.db")))
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)

    def test_under_xdg_state_home(self):
        self.env["XDG_STATE_HOME"] = self.path("a/b")
        self.check_made(self.path("a/b/holdfast"))
        self.assertFalse(os.path.exists(self.path("home")))

    def test_under_home(self):
        self.check_made(self.path("home/.local/state/holdfast"))

    def test_a_relative_xdg_state_home_is_not_heeded(self):
        self.env["XDG_STATE_HOME"] = "here"
        self.check_made(self.path("home/.local/state/holdfast"))

    def test_an_empty_variable_names_no_store(self):
        self.env["HOLDFAST_STORE"] = ""
        self.check_made(self.path("home/.local/state/holdfast"))

    WARNING = "no store is named, so this user's own file is used"

    def test_that_it_is_used_is_said_once(self):
        for words in (["run", "x", "--", "true"], ["list"], ["doctor"]):
            said = self.check(0, *words).err
            self.assertEqual(said.count(self.WARNING), 1, said)
            self.assertIn(self.path("home/.local/state/holdfast/locks.db"), said)
            self.assertNotIn(self.WARNING, self.check(0, "-q", *words).err)

    def test_who_wants_it_is_not_warned(self):
        self.assertNotIn(self.WARNING, self.check(0, "--store", "private", "run", "x", "--",
                                                  "true").err)
        self.env["HOLDFAST_STORE"] = "private"
        self.assertNotIn(self.WARNING, self.check(0, "list").err)
        self.assertTrue(os.path.exists(self.path("home/.local/state/holdfast/locks.db")))

    def test_who_names_one_is_not_warned(self):
        self.assertNotIn(self.WARNING, self.check(0, "--store", self.store, "list").err)

    def test_there_may_be_none(self):
        self.env["HOLDFAST_STORE"] = "none"
        for words in (["run", "x", "--", "true"], ["list"], ["bench"], ["watch", "--json"]):
            self.assertIn("HOLDFAST_STORE says that no store is the default",
                          self.check(65, *words).err)
        self.assertFalse(os.path.exists(self.path("home")))
        self.assertRegex(self.check(0, "config").out, "store +none +HOLDFAST_STORE")
        self.check(0, "--store", self.store, "run", "x", "--", "true")

    def test_a_folder_that_cannot_be_made(self):
        self.env["HOME"] = "/dev/null"
        said = "cannot make the folder /dev/null/.local/state/holdfast for the default store: Not a dir"
        self.assertIn(said, self.check(69, "list").err)

    def test_a_file_in_the_place_of_the_folder(self):
        self.env["XDG_STATE_HOME"] = self.folder
        open(self.path("holdfast"), "w").close()
        self.check(69, "list")


if __name__ == "__main__":
    cli.main()
