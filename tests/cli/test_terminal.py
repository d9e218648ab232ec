#!/usr/bin/python3
"""`holdfast run` on a terminal: the line that shows a wait, ^C and ^Z, and who has the terminal."""
# SPDX-License-Identifier: Apache-2.0
import html
import os
import re
import signal
import socket
import time
import unicodedata

import cli

# A shell with job control; each job that ends or stops is told with its status.
SHELL = ["bash", "--norc", "--noprofile", "-i"]


def draw(path, lines):
    """A terminal with these lines, as a picture for the README."""
    text = "".join('<text x="16" y="%d" xml:space="preserve">%s</text>' % (34 + 22 * i, html.escape(line))
                   for i, line in enumerate(lines))
    with open(path, "w") as out:
        out.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"><rect width="100%%" '
                  'height="100%%" rx="8" fill="#16181d"/><g font-family="monospace" font-size="14" '
                  'fill="#e6e6e6">%s</g></svg>\n'
                  % (32 + max(map(len, lines)) * 8.45, 34 + 22 * len(lines), text))


class WaitingLine(cli.TerminalCase):
    def test_it_shows_holder_since_why_place_and_time(self):
        holder = self.hold("--why", "release 2.3", "x")
        waiter = self.open([cli.BIN, "run", "x", "--", "echo", "mine"], columns=200)
        line = waiter.screen.expect(r'waiting for "x" \d+s, 1 of 1 in the queue, held by '
                                    r'[^ ]+/sh@[^ ]+:%d since \d\d:\d\d:\d\d' % holder.pid)
        self.assertTrue(line)
        waiter.screen.expect(r'waiting for "x" [1-9]s, ')  # written anew
        holder.close_input()
        self.assertEqual(waiter.status(), 0)
        waiter.screen.expect(r"\r\x1b\[Kmine\r\n")  # and cleared
        self.assertNotIn("\n", waiter.screen.text.split("mine")[0])

    def test_why_is_shown_where_there_is_room(self):
        self.hold("--owner", "alice/deploy.sh", "--why", "release 2.3", "deploy")
        waiter = self.open([cli.BIN, "run", "deploy", "--", "true"], columns=200)
        line = waiter.screen.expect(r"waiting for .* [1-9]s, .*: release 2\.3").group(0)
        if "HOLDFAST_SCREENSHOTS" in os.environ:
            shown = line[line.rindex("waiting"):].replace("@" + socket.gethostname(), "@build1")
            draw(os.path.join(os.environ["HOLDFAST_SCREENSHOTS"], "waiting.svg"),
                 ["$ holdfast run deploy -- ./deploy.sh", shown])

    def test_the_holder_is_kept_in_fifty_columns(self):
        holder = self.hold("--why", "release 2.3", "deploy")
        waiter = self.open([cli.BIN, "run", "deploy", "--", "true"], columns=50)
        waiter.screen.expect(r'waiting for "deploy" \d+s, held by \S*%d(?=\r|$)' % (holder.pid % 10000))

    def test_a_store_that_nobody_named_is_told(self):
        del self.env["HOLDFAST_STORE"]
        self.env["XDG_STATE_HOME"] = self.folder
        self.hold("x")
        waiter = self.open([cli.BIN, "run", "x", "--", "true"], columns=200)
        waiter.screen.expect(r'waiting for "x" \d+s in this user\'s own file, 1 of 1 in the queue, held by ')
        self.env["HOLDFAST_STORE"] = "private"
        waiter = self.open([cli.BIN, "run", "x", "--", "true"], columns=200)
        waiter.screen.expect(r'waiting for "x" \d+s, 2 of 2 in the queue, held by ')

    def test_it_is_cut_to_the_width(self):
        self.hold("--why", "字" * 60, "x")
        for columns in (20, 41, 80, 120):
            waiter = self.open([cli.BIN, "run", "x", "--", "true"], columns=columns)
            waiter.screen.expect("waiting")
            line = waiter.screen.expect(r"([^\r]*)\r").group(0)
            shown = "waiting" + line.rstrip("\r")
            width = sum(2 if unicodedata.east_asian_width(c) == "W" else 1 for c in shown)
            self.assertLess(width, columns, shown)
            self.assertGreaterEqual(width, min(columns - 2, 30), shown)
            waiter.signal(signal.SIGTERM)
            waiter.status()

    def test_control_characters_are_escaped(self):
        name = "a\x1b[31m\u202e\n\x07"
        self.hold("--why", "b\x1b]0;title\x07\r", name)
        waiter = self.open([cli.BIN, "run", name, "--", "true"], columns=200)
        waiter.screen.expect(r'"a\\x1b\[31m\\u{202e}\\x0a\\x07"')
        waiter.screen.expect(r": b\\x1b\]0;title\\x07\\x0d")

    def test_ctrl_c_leaves_the_queue(self):
        self.hold("x")
        waiter = self.open([cli.BIN, "run", "x", "--", "true"])
        waiter.screen.expect("waiting for")
        self.type(waiter, "\x03")
        self.assertEqual(waiter.status(), 130)
        self.assertEqual(self.json("show", "x", "--json")["queue"], [])

    def test_nothing_on_a_dumb_terminal_or_when_quiet(self):
        holder = self.hold("x")
        waiters = [self.open([cli.BIN, "run", "x", "--", "true"], TERM="dumb"),
                   self.open([cli.BIN, "-q", "run", "x", "--", "true"])]
        self.await_queue("x", 2)
        holder.close_input()
        for each in waiters:
            self.assertEqual(each.status(), 0)
            self.assertEqual(each.screen.rest(), "")

    def away(self):
        """A store that cannot be reached."""
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            return "mongodb://127.0.0.1:%d/" % door.getsockname()[1]

    def test_a_store_that_is_away_is_told_of_meanwhile(self):
        trouble = r'\r\x1b\[Kwaiting for "x" %s, trying again: [^\r]*127\.0\.0\.1'
        self.env["HOLDFAST_STORE"] = self.away()
        for words in (["run", "x", "--", "true"], ["run", "-n", "x", "--", "true"],
                      ["acquire", "-n", "x", "--for", "1h"]):
            waiter = self.open([cli.BIN, *words], columns=200)
            waiter.screen.expect(trouble % r"\d+s")
            waiter.screen.expect(trouble % r"[1-9]\d*s")  # written anew
            waiter.signal(signal.SIGTERM)

    def test_a_store_that_is_away_is_told_of_once_off_a_terminal(self):
        self.env["HOLDFAST_STORE"] = self.away()
        for words in (["run", "x", "--", "true"], ["run", "-n", "x", "--", "true"]):
            waiter = self.start(*words)
            waiter.err.expect(r'holdfast: waiting for "x" [1-9]\d*s, trying again: .*127\.0\.0\.1.*\n')
            waiter.signal(signal.SIGTERM)
            self.assertNotIn("waiting for", waiter.err.rest())
        self.assertNotIn("waiting for", self.check(69, "-q", "run", "-n", "x", "--", "true").err)

    def test_nothing_off_a_terminal(self):
        holder = self.hold("x")
        waiter = self.start("run", "x", "--", "true")
        self.await_queue("x", 1)
        holder.close_input()
        self.assertEqual(waiter.status(), 0)
        self.assertEqual(waiter.err.rest(), "")

    def test_verbose_off_a_terminal_says_one_line(self):
        holder = self.hold("x")
        waiter = self.wait("x")
        time.sleep(2.5)  # a terminal is told anew each second
        holder.close_input()
        self.assertEqual(waiter.status(), 0)
        self.assertEqual((waiter.err.text + waiter.err.rest()).count("waiting for"), 1)

    def test_verbose_on_a_terminal_has_its_line_only(self):
        self.hold("x")
        waiter = self.open([cli.BIN, "-v", "run", "x", "--", "true"])
        waiter.screen.expect('waiting for "x" [1-9]s, ')
        self.assertNotIn("holdfast: waiting", waiter.screen.text)


class Jobs(cli.TerminalCase):
    def shell(self):
        shell = self.open(SHELL)
        self.type(shell, "stty -echo\n")
        shell.screen.expect(r"\$ ")
        self.type(shell, "PS1='> '; echo be''gin\n")
        shell.screen.expect(r"begin\r\n")
        shell.screen.expect("> ")
        return shell

    def test_the_command_has_the_terminal(self):
        script = "import os; print(os.tcgetpgrp(0) == os.getpgrp() == os.getpid())"
        run = self.open([cli.BIN, "run", "x", "--", "python3", "-c", script])
        self.assertEqual(run.status(), 0)
        run.screen.expect("True")

    def test_ctrl_c_reaches_the_command(self):
        run = self.open([cli.BIN, "run", "x", "--", "sh", "-c", "echo ready; exec cat"])
        run.screen.expect("ready")
        self.type(run, "\x03")
        self.assertEqual(run.status(), 130)

    def test_the_shell_has_the_terminal_back(self):
        shell = self.shell()
        self.type(shell, "%s run x -- sh -c 'exit 4'; echo status=$?\n" % cli.BIN)
        shell.screen.expect("status=4")
        self.type(shell, "cat\nback\n")
        shell.screen.expect("back")

    def test_ctrl_z_and_fg(self):
        shell = self.shell()
        self.type(shell, "%s run x -- cat; echo status=$?\n" % cli.BIN)
        self.type(shell, "one\n")
        shell.screen.expect("one")
        self.type(shell, "\x1a")
        shell.screen.expect("Stopped")
        shell.screen.expect("> ")
        self.type(shell, "fg\n")
        self.type(shell, "two\n")
        shell.screen.expect(r"two\r\n")
        self.type(shell, "\x04")
        shell.screen.expect("> ")
        self.assertTrue(self.free("x"))

    def test_ctrl_z_while_waiting_and_fg(self):
        holder = self.hold("x")
        shell = self.shell()
        self.type(shell, "%s run x -- echo mi''ne\n" % cli.BIN)
        shell.screen.expect("waiting for")
        self.type(shell, "\x1a")
        shell.screen.expect("Stopped")
        self.type(shell, "fg\n")
        shell.screen.expect("waiting for")
        holder.close_input()
        shell.screen.expect("mine")

    def test_stopped_for_longer_than_the_lease(self):
        shell = self.shell()
        self.type(shell, "%s run --ttl 6s x -- sh -c 'echo pid=$$; exec cat'\n" % cli.BIN)
        child = int(shell.screen.expect(r"pid=(\d+)").group(1))
        self.type(shell, "\x1a")
        shell.screen.expect("Stopped")
        self.check(0, "run", "x", "--", "true")
        self.type(shell, "fg; echo status=$?\n")
        shell.screen.expect("status=76")
        self.assertTrue(cli.ended(child, 0))

    def test_in_a_pipeline_the_others_keep_the_terminal(self):
        os.mkfifo(self.path("go"))
        shell = self.shell()
        self.type(shell, "%s run x -- sh -c 'echo a; read l <%s' | "
                  "sh -c 'read a; echo $a; read l </dev/tty; echo got-$l'; echo en''d\n"
                  % (cli.BIN, self.path("go")))
        shell.screen.expect(r"a\r\n")
        self.type(shell, "word\n")
        shell.screen.expect("got-word")
        with open(self.path("go"), "w") as go:
            go.write("on\n")
        shell.screen.expect("end")

    def test_a_command_in_a_pipeline_that_asks_the_terminal(self):
        shell = self.shell()
        script = "read l </dev/tty; echo got-$l"
        self.type(shell, "echo piped | %s run x -- sh -c '%s' | cat; echo en''d\n"
                  % (cli.BIN, script))
        self.type(shell, "word\n")
        shell.screen.expect("got-word")
        shell.screen.expect("end")

    def test_in_the_background(self):
        shell = self.shell()
        self.type(shell, "set -b\n")  # tell at once what becomes of a job
        self.type(shell, "%s run x -- cat &\n" % cli.BIN)
        shell.screen.expect(r"\[1\] \d+")
        shell.screen.expect("Stopped")
        self.type(shell, "fg\nhere\n")
        shell.screen.expect("here")
        self.type(shell, "\x04")

    def test_modes_are_put_back_after_a_kill(self):
        shell = self.shell()
        self.type(shell, "%s run --ttl 6s x -- sh -c 'stty raw; echo ready; exec cat'; "
                  "stty -a; echo en''d\n" % cli.BIN)
        shell.screen.expect("ready")
        self.check(0, "break", "x", "--reason", "enough")
        modes = shell.screen.expect("(?s)lost the lock.*end").group(0)
        self.assertTrue(re.search(r"[ ;]icanon", modes), modes)


if __name__ == "__main__":
    cli.main()
