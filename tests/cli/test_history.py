#!/usr/bin/python3
"""The verb history: who had a lock lately, for people and in JSON."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3

import cli


class History(cli.Case):
    def turns(self, *words):
        return self.json("history", *words, "--json")["turns"]

    def test_the_shortest_turns_are_in_it(self):
        for status in 0, 3:
            self.check(status, "run", "--why", "job %d" % status, "x", "--", "sh", "-c", "exit %d" % status)
        self.check(0, "run", "y", "--", "true")
        failed, done = self.turns("x")
        self.assertEqual([turn["why"] for turn in (failed, done)], ["job 3", "job 0"])
        self.assertEqual((failed["end"], failed["exit_status"], done["exit_status"]), ("released", 3, 0))
        self.assertGreater(failed["token"], done["token"])
        self.assertLessEqual(failed["granted"], failed["ended"])
        self.assertEqual(list(failed), ["name", "session", "who", "actor", "why", "token", "permits", "limit",
                                        "granted", "ended", "end", "reason", "exit_status", "more"])
        self.assertEqual([turn["name"] for turn in self.turns()], ["y", "x", "x"])
        self.assertEqual([turn["name"] for turn in self.turns("-n", "1")], ["y"])

    def test_for_people(self):
        self.check(3, "run", "--why", "nightly", "x", "--", "sh", "-c", "exit 3")
        holder = self.hold("--why", "now", "x")
        head, now, before = self.check(0, "history", "x").out.splitlines()
        self.assertEqual(head.split(), ["WHEN", "HELD", "FOR", "HOLDER", "TOKEN", "HOW", "IT", "ENDED", "WHY"])
        self.assertRegex(now, r"^\d\d:\d\d:\d\d +\w+ +\S+:%d +\d+ +held now +now$" % holder.pid)
        self.assertRegex(before, r"^\d\d:\d\d:\d\d +\w+ +\S+ +\d+ +released, exit status 3 +nightly$")
        head, one = self.check(0, "history").out.splitlines()
        self.assertIn("NAME", head)
        self.assertRegex(one, r"^\S+ +\w+ +x ")

    def test_a_lease_that_a_script_had(self):
        """acquire and release are two processes."""
        had = self.json("acquire", "--why", "nightly", "--owner", "alice", "x", "--json")
        self.check(0, "release", had["lease"])
        [turn] = self.turns("x")
        self.assertEqual((turn["end"], turn["why"], turn["token"]), ("released", "nightly", had["token"]))
        self.assertRegex(turn["who"], "^alice@")

    def test_a_holder_that_died(self):
        holder = self.hold("--why", "half done", "x")
        os.kill(holder.child, signal.SIGSTOP)  # it cannot say how it ended
        holder.signal(signal.SIGKILL)
        holder.status()
        with contextlib.suppress(ProcessLookupError):  # it goes with its parent
            os.kill(holder.child, signal.SIGKILL)
        self.check(0, "run", "x", "--", "true")
        after, dead = self.turns("x")
        self.assertEqual((after["end"], dead["end"], dead["why"]), ("released", "abandoned", "half done"))
        self.assertIn(":%d" % holder.pid, dead["who"])

    def test_a_holder_whose_lease_is_over(self):
        """Nobody has taken the lock over; the holder may have learned that it lost it."""
        self.check(0, "acquire", "--ttl", "1s", "x")
        row = "held now"
        while "held now" in row:
            _, row = self.check(0, "history", "x").out.splitlines()
        self.assertRegex(row, " lease over by [0-9]+m?s$")

    def test_a_break(self):
        holder = self.hold("x")
        self.check(0, "break", "--reason", "too long", "x")
        holder.status()
        [turn] = self.turns("x")
        self.assertEqual(turn["end"], "broken")
        self.assertRegex(turn["reason"], "^broken by .*: too long$")
        self.assertIn("broken by", self.check(0, "history", "x", "-l").out)
        self.assertNotIn("broken: broken", self.check(0, "history", "x", "-l").out)

    def test_a_break_of_several_that_do_not_leave(self):
        leases = [self.json("acquire", "-s", "x", "--json") for _ in range(3)]
        self.check(0, "break", "--force", "--reason", "all gone", "x")
        turns = self.turns("x")
        self.assertEqual({turn["token"] for turn in turns}, {lease["token"] for lease in leases})
        self.assertEqual({turn["end"] for turn in turns}, {"broken"})

    def test_the_owner_of_a_lease_stands_there_once(self):
        """It is the holder's name and the name of the part of the program, too."""
        taken = json.loads(self.check(0, "acquire", "--json", "--owner", "shop", "x").out)
        owner = "shop@" + socket.gethostname()
        self.assertIn("held by %s for " % owner, self.check(0, "why", "x").out)
        self.assertIn("%s, exclusive" % owner, self.check(0, "show", "x").out)
        self.assertRegex(self.check(0, "history", "x").out, " %s .* held now" % re.escape(owner))
        self.check(0, "release", taken["lease"])
        self.assertRegex(self.check(0, "history", "x").out, " %s .* released" % re.escape(owner))

    def test_since(self):
        self.check(0, "run", "x", "--", "true")
        self.assertEqual(len(self.turns("x", "--since", "1h")), 1)

    def test_a_lock_that_nobody_had(self):
        self.assertEqual(self.json("history", "x", "--json"), {"holders": [], "turns": [], "missing": []})
        self.assertEqual(len(self.check(0, "history", "x").out.splitlines()), 1)

    def test_what_cannot_be(self):
        for words in (["-n", "0"], ["-n", "10001"], ["--since", "yesterday"]):
            self.assertNotEqual(self.check(65, "history", "x", *words).err, "")

    def test_an_older_program_does_not_mind_the_table(self):
        """It is no part of the schema: neither is its version raised, nor are the tables refused."""
        self.check(0, "run", "x", "--", "true")
        path = self.path("locks.db")
        with contextlib.closing(sqlite3.connect(path)) as db:
            self.assertEqual(db.execute("PRAGMA user_version").fetchone(), (2,))
            self.assertEqual(db.execute("SELECT count(*) FROM history").fetchone(), (1,))
            db.execute("DROP TABLE history")
            db.commit()
        self.assertEqual(self.turns("x"), [])
        self.check(0, "run", "x", "--", "true")
        self.assertEqual(len(self.turns("x")), 1)


if __name__ == "__main__":
    cli.main()
