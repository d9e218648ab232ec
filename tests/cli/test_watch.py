#!/usr/bin/python3
"""`holdfast watch`: what its screen shows, which keys it heeds, and which events it tells."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import time

import pyte

import cli


class Screen(cli.TerminalCase):
    def watch(self, *words, columns=80, lines=24, **env):
        running = self.open([cli.BIN, "watch", "--interval", "50ms", *words], columns=columns,
                            lines=lines, **env)
        self.look = running
        self.shown = pyte.Screen(columns, lines)
        self.feed = pyte.Stream(self.shown)
        self.fed = 0
        return running

    def until(self, claim):
        """Waits until the lines of the screen are as the claim has them; returns them."""
        deadline = time.monotonic() + cli.PATIENCE
        while True:
            text = self.look.screen.text
            self.feed.feed(text[self.fed:])
            self.fed = len(text)
            if claim(self.shown.display):
                return self.shown.display
            if not self.look.screen.more(deadline):
                raise AssertionError("never so:\n" + "\n".join(self.shown.display))

    def shows(self, *texts):
        return self.until(lambda lines: all(any(t in line for line in lines) for t in texts))

    def names(self, lines):
        """The locks in the order of the body's lines."""
        return [line.split()[0] for line in lines[3:-1] if line.strip()]

    def shows_names(self, *names):
        return self.until(lambda lines: self.names(lines) == list(names))

    def key(self, text):
        self.type(self.look, text)

    def quit(self):
        self.key("q")
        self.assertEqual(self.look.status(), 0)

    def assert_is(self, shown, whole):
        """It is that name; a long one is cut in its middle."""
        head, cut, tail = shown.partition("…")
        self.assertTrue(head and whole.startswith(head) and whole.endswith(tail), (shown, whole))
        self.assertEqual(bool(cut), shown != whole)


class WhatItShows(Screen):
    def test_holders_and_waiters(self):
        holder = self.hold("--why", "nightly run", "x")
        self.wait("--why", "me too", "x")
        self.watch()
        lines = self.shows("holdfast watch", "1 held, 1 waiting", "waits, 1.", "q quit")
        self.assertRegex(lines[2], r"^LOCK +STATE +FOR +LEASE +WHO +WHY")
        held, waits = lines[3], lines[4]
        lock = self.json("show", "x", "--json")
        for line, pattern, whole in (
                (held, r"^x +exclusive +\w+ +\w+ +([^ ]+) +nightly run", lock["holders"][0]["who"]),
                (waits, r"^x +waits, 1\. +\w+ +\w+ +([^ ]+) +me too", lock["queue"][0]["who"])):
            self.assertRegex(whole, "/(sh|true)@")
            self.assertRegex(line, pattern)
            self.assert_is(re.search(pattern, line).group(1), whole)
        self.assertTrue(all(len(line.rstrip()) < 80 for line in lines))
        holder.close_input()
        self.shows_names()  # both have it and go
        self.quit()

    def test_shared_and_permits(self):
        self.hold("-s", "r")
        self.hold("--permits", "2", "--limit", "3", "s")
        self.watch()
        self.shows("shared", "2 of 3")

    def test_prefix(self):
        self.hold("a/1", "a/2", "b")
        self.watch("a/")
        self.shows_names("a/1", "a/2")

    def test_the_terminal_is_as_it_was(self):
        self.watch()
        self.shows("q quit")
        self.quit()
        self.assertIn("\x1b[?1049l", self.look.screen.rest() + self.look.screen.text)

    def test_control_characters_are_escaped(self):
        self.hold("--why", "b\x1b]0;t\x07", "a\x1b[31m")
        self.watch(columns=120)
        self.shows(r"a\x1b[31m", r"b\x1b]0;t\x07")

    def test_wide_characters_are_cut_at_the_column(self):
        self.hold("--why", "end", "字" * 30)
        self.watch()
        line = self.shows("exclusive")[3].replace("\0", "")
        self.assertRegex(line, "^字 ?字 ?字")
        self.assertRegex(line, r"exclusive +\w+ ")

    def test_without_colour(self):
        self.hold("x")
        self.wait("x")
        for env in ({"TERM": "vt100"}, {"NO_COLOR": "1"}):
            self.watch(**env)
            self.shows("waits, 1.")
            self.assertNotIn("\x1b[33", self.look.screen.text)
            self.quit()
        self.watch()
        self.shows("waits, 1.")
        self.assertIn("\x1b[33", self.look.screen.text)

    def test_other_sizes(self):
        for i in range(8):
            self.hold("lock-%d" % i)
        self.watch(columns=40, lines=8)
        lines = self.until(lambda lines: len(self.names(lines)) == 4)
        self.assertTrue(all(len(line) <= 40 for line in lines))
        self.shown.resize(12, 100)
        self.resize(self.look.screen.fd, 100, 12)
        self.until(lambda lines: len(self.names(lines)) == 8 and "WHY" in lines[2] and
                   "q quit" in lines[11])
        self.resize(self.look.screen.fd, 10, 2)  # nothing fits; it goes on all the same
        self.quit()


class Keys(Screen):
    def setUp(self):
        super().setUp()
        self.hold("--why", "first", "b")
        self.hold("--why", "second", "a")
        self.hold("c")
        self.wait("c")

    def test_the_longest_are_on_top_and_sort(self):
        self.watch()
        self.shows_names("b", "a", "c", "c")
        self.key("s")
        self.shows_names("a", "b", "c", "c")
        self.key("s")
        self.shows("by waiting")
        self.shows_names("c", "c", "a", "b")
        self.key("s")
        self.shows("by age")
        self.quit()

    def test_filter(self):
        self.watch()
        self.shows_names("b", "a", "c", "c")
        self.key("/SECq")
        self.shows("filter: SECq_")
        self.shows_names()
        self.key("\x7f")
        self.shows_names("a")
        self.key("\n")
        self.shows("filter: SEC ")
        for keys in ("/\x1b", "/SEC\n", "\x1b"):
            self.key(keys)
            self.shows_names(*("a" if "\n" in keys else "bacc"))
        self.quit()

    def test_pause(self):
        self.watch()
        self.shows_names("b", "a", "c", "c")
        self.key("p")
        self.shows("PAUSED")
        self.look.screen.more(time.monotonic() + 0.2)  # a look that was under way
        self.hold("d")
        self.key("s")
        self.shows_names("a", "b", "c", "c")
        deadline = time.monotonic() + 0.3  # six looks, if it looked
        while self.look.screen.more(deadline):
            pass
        self.shows_names("a", "b", "c", "c")
        self.key("p")
        self.shows_names("a", "b", "c", "c", "d")
        self.quit()

    def test_scroll(self):
        self.watch(lines=6)
        self.shows_names("b", "a")
        self.key("\x1bOB")
        self.shows_names("a", "c")
        self.key("\x1bOF")
        self.shows_names("c", "c")
        self.key("\x1b[5~")
        self.shows_names("b", "a")
        self.quit()

    def test_scroll_each_way(self):
        self.watch(lines=6)
        self.shows_names("b", "a")
        for key, names in (("\x1bOB", "ac"), ("\x1bOA", "ba"), ("\x1bOA", "ba"), ("\x1b[6~", "cc"),
                           ("\x1bOA", "ac"), ("\x1bOB", "cc"), ("\x1bOH", "ba"), ("\x1bOF", "cc"),
                           ("\x1b[5~", "ba")):
            self.key(key)
            self.shows_names(*names)
        self.quit()

    def test_keys_of_a_filter(self):
        self.watch()
        self.shows_names("b", "a", "c", "c")
        self.key("/fir\u00e4\x7f")
        self.shows("filter: fir_", "type what to look for")
        self.shows_names("b")
        self.key("s\x7f\r")
        self.shows("filter: fir ", "q quit")
        self.key("/\x7f\x7f\x7f\x7f~")
        self.shows("filter: ~_")
        self.shows_names()
        self.key("\x7f")
        self.shows_names("b", "a", "c", "c")
        self.key("\x1b")
        self.until(lambda lines: "filter" not in lines[1])
        self.key(" ")
        self.shows("PAUSED")
        self.key(" ")
        self.until(lambda lines: "PAUSED" not in lines[0])
        self.quit()

    def ended_by(self, number):
        """It has ended by that signal, and the terminal is as it was."""
        self.assertEqual(self.look.status(), -number)
        self.assertIn("\x1b[?1049l", self.look.screen.rest() + self.look.screen.text)

    def test_ctrl_c(self):
        self.watch()
        self.shows("q quit")
        self.key("\x03")
        self.ended_by(signal.SIGINT)

    def test_signals(self):
        for number in signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP:
            self.watch("--interval", "1h")
            self.shows("q quit")
            self.look.signal(number)
            self.ended_by(number)

    def test_a_look_that_comes_to_nothing_is_said(self):
        self.watch()
        self.shows_names("b", "a", "c", "c")
        with contextlib.closing(sqlite3.connect(self.path("locks.db"))) as db:
            [table] = [name for name, sql in db.execute("SELECT name, sql FROM sqlite_master "
                                                        "WHERE type = 'table'") if "record" in sql]
            db.execute("ALTER TABLE %s RENAME TO gone" % table)
        self.until(lambda lines: "locks.db: " in lines[1])
        self.assertEqual(self.names(self.shown.display), ["b", "a", "c", "c"])
        self.quit()


class Usage(cli.TerminalCase):
    def test_off_a_terminal(self):
        self.assertIn("--json", self.check(64, "watch").err)
        running = self.open([cli.BIN, "watch"], TERM="")
        self.assertEqual(running.status(), 64)

    def test_a_terminal_that_nobody_knows(self):
        running = self.open([cli.BIN, "watch"], TERM="no-such-terminal")
        self.assertEqual(running.status(), 70)
        running.screen.expect("give --json")

    def test_without_its_module(self):
        running = self.open([shutil.copy(cli.BIN, self.folder), "watch"])
        running.screen.expect(r"holdfast: .*holdfast-screen\.so.*; or give --json")
        self.assertEqual(running.status(), 70)

    def test_interval(self):
        self.check(65, "watch", "--json", "--interval", "1ms")
        self.check(64, "watch", "--json", "a", "b")

    def test_a_store_that_is_not_there(self):
        self.check(69, "--store", "sqlite:" + self.path("none/x.db"), "watch", "--json")


class Events(cli.Case):
    def watch(self, *words):
        watcher = self.start("watch", "--json", "--interval", "50ms", *words)
        self.next = lambda: json.loads(watcher.out.line())
        return watcher

    def expect(self, event, **more):
        got = self.next()
        self.assertEqual(got["event"], event, got)
        for key, value in more.items():
            self.assertEqual(got[key], value, got)
        return got

    def test_the_life_of_a_lock(self):
        first = self.hold("--why", "first", "x")
        self.watch("x")
        self.hold("y")  # is not asked for
        held = self.expect("grant", name="x", why="first", was_there=True)
        self.assertEqual(list(held), ["at", "event", "name", "who", "session", "why", "token",
                                      "permits", "for_ms", "exit_status", "reason", "was_there"])
        second = self.start("run", "x", "--", "sh", "-c", "cat; exit 3")
        waits = self.expect("wait", token=0, was_there=False)
        self.assertIn(":%d" % second.pid, waits["who"])
        first.close_input()
        released = self.expect("release", exit_status=0, session=held["session"])
        self.assertGreater(released["for_ms"], 0)
        granted = self.expect("grant", session=waits["session"])
        self.assertGreater(granted["token"], held["token"])
        self.assertGreater(granted["for_ms"], 0)
        second.close_input()
        self.expect("release", exit_status=3, token=granted["token"])

    def test_gave_up(self):
        self.hold("x")
        self.watch()
        self.expect("grant")
        waiter = self.wait("x")
        session = self.expect("wait")["session"]
        waiter.signal(signal.SIGTERM)
        self.expect("gave_up", session=session)

    def test_who_stands_behind_one_that_still_waits_gave_up(self):
        holder = self.hold("-s", "x")
        other = self.hold("-s", "x")
        self.wait("x")
        self.await_queue("x", 1)
        behind = self.wait("x")
        self.await_queue("x", 2)
        watcher = self.watch()
        for event in ("grant", "grant", "wait", "wait"):
            self.expect(event)
        watcher.signal(signal.SIGSTOP)
        behind.signal(signal.SIGTERM)
        behind.status()
        holder.close_input()
        holder.status()
        watcher.signal(signal.SIGCONT)
        self.assertEqual({self.next()["event"] for _ in range(2)}, {"release", "gave_up"})
        other.close_input()

    def test_a_hold_between_two_looks(self):
        holder = self.hold("x")
        waiter = self.wait("x", command=("sh", "-c", "exit 5"))
        watcher = self.watch()
        self.expect("grant")
        session = self.expect("wait")["session"]
        watcher.signal(signal.SIGSTOP)
        holder.close_input()
        waiter.status()
        watcher.signal(signal.SIGCONT)
        self.expect("release")
        granted = self.expect("grant", session=session)
        self.expect("release", session=session, exit_status=5, at=granted["at"], for_ms=0)

    def test_several_holds_between_two_looks(self):
        """Of those before the last one nobody can tell."""
        holder = self.hold("x")
        waiters = []
        for i in range(2):
            waiters.append(self.wait("x"))
            self.await_queue("x", i + 1)
        watcher = self.watch()
        for event in ("grant", "wait", "wait"):
            self.expect(event)
        watcher.signal(signal.SIGSTOP)
        holder.close_input()
        for each in waiters:
            each.status()
        watcher.signal(signal.SIGCONT)
        self.assertEqual([self.next()["event"] for _ in range(4)],
                         ["release", "left", "grant", "release"])

    def test_loss(self):
        holder = self.hold("--ttl", "6s", "x")
        self.watch()
        token = self.expect("grant")["token"]
        holder.signal(signal.SIGKILL)  # before its command, at whose end it would release
        with contextlib.suppress(ProcessLookupError):  # its input may have ended it already
            os.killpg(holder.child, signal.SIGKILL)
        self.hold("x")
        found = self.next()
        if found["event"] == "wait":  # for a moment, until it sees that the holder has died
            found = self.next()
        self.assertEqual((found["event"], found["token"]), ("loss", token))
        self.expect("grant")

    def test_a_store_that_becomes_unusable_ends_it(self):
        watcher = self.watch()
        self.hold("x")
        self.expect("grant")
        with contextlib.closing(sqlite3.connect(self.path("locks.db"))) as db:
            db.execute("ALTER TABLE locks RENAME TO gone")
        self.assertNotEqual(watcher.status(), 0)
        self.assertRegex(watcher.err.rest(), r"^holdfast: .*locks\.db.*\n$")

    def test_it_ends_when_nobody_reads(self):
        watcher = self.watch()
        watcher.process.stdout.close()
        self.hold("x")
        self.assertNotEqual(watcher.status(), 0)


if __name__ == "__main__":
    cli.main()
