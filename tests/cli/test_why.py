#!/usr/bin/python3
"""The verb why: the chain from a lock to its root, for people and in JSON."""
# SPDX-License-Identifier: Apache-2.0
import time
import unicodedata

import cli


class Why(cli.Case):
    def hold_and_wait(self, holds, waits_for, *words):
        """One process that holds a lock and waits for a second one, which another holds."""
        return self.wait("--ttl", "6s", *words, holds, waits_for)

    def until_reported(self, name, *what):
        """Sessions report a wait when it has lasted for a while; returns the links, when they are so."""
        deadline = time.monotonic() + cli.PATIENCE
        while True:
            links = self.json("why", name, "--json")["links"]
            if [link["next"] for link in links] == list(what):
                return links
            self.assertLess(time.monotonic(), deadline, links)
            time.sleep(0.05)

    def test_the_holder_and_what_it_waits_for(self):
        root = self.hold("--why", "restore", "y")
        waiter = self.hold_and_wait("x", "y", "--why", "migration")
        first, second = self.until_reported("x", "follows", "root")
        self.assertEqual((first["name"], first["depth"], first["waits_for"], first["next"]),
                         ("x", 0, "y", "follows"))
        self.assertEqual((second["name"], second["depth"], second["waits_for"], second["next"]),
                         ("y", 1, None, "root"))
        self.assertIn(":%d" % waiter.pid, first["holder"]["who"])
        self.assertIn(":%d" % root.pid, second["holder"]["who"])
        self.assertEqual([link["holder"]["why"] for link in (first, second)],
                         ["migration", "restore"])
        self.assertEqual(list(first), ["name", "depth", "holder", "actor", "waits_for", "next"])
        self.check_text(waiter, root)

    def check_text(self, waiter, root):
        out = self.check(0, "why", "x").out
        words = " ".join(out.split())
        self.assertRegex(words, r"^x is held by \S+:%d for \w+ \(migration\) which waits for y, "
                         r"held by \S+:%d for \w+ \(restore\) <- the root$" % (waiter.pid, root.pid))
        self.assertEqual(out.splitlines()[0][0], "x")
        self.assertIn("\n  which waits for y,", out)

    def test_a_run_whose_command_waits(self):
        root = self.hold("y")
        inner = (cli.BIN, "-v", "run", "--ttl", "6s", "y", "--", "true")
        outer = self.wait("--ttl", "6s", "x", command=inner)
        first, second = self.until_reported("x", "follows", "root")
        self.assertEqual((first["waits_for"], second["name"]), ("y", "y"))
        self.assertIn(":%d" % outer.pid, first["holder"]["who"])
        self.assertIn(":%d" % root.pid, second["holder"]["who"])

    def test_what_came_before_is_not_repeated(self):
        root = self.hold("y")
        first, second = (self.hold_and_wait("x", "y", "-s") for _ in range(2))
        self.until_reported("x", "follows", "root", "told")
        words = " ".join(self.check(0, "why", "x").out.split())
        self.assertRegex(words, r"^x is held by \S+:%d for \w+ which waits for y, held by \S+:%d for "
                         r"\w+ <- the root x is held by \S+:%d for \w+ which waits for y, as above$"
                         % (first.pid, root.pid, second.pid))

    def test_one_that_waits_for_nothing(self):
        self.hold("x")
        self.assertRegex(self.check(0, "why", "x").out, r"^x is held by \S+ for \w+\s+<- the root\n$")

    def test_several_holders(self):
        holders = [self.hold("-s", "x") for _ in range(2)]
        lines = self.check(0, "why", "x").out.splitlines()
        for holder in holders:
            self.assertEqual(len([line for line in lines if ":%d " % holder.pid in line]), 1, lines)

    def test_eighty_columns_are_enough(self):
        self.hold("--why", " ".join(["r\u00e9ason"] * 8), "y" * 60)
        out = self.check(0, "why", "y" * 60).out
        self.assertGreater(len(out.splitlines()), 1)
        for line in out.splitlines():
            self.assertLessEqual(len(unicodedata.normalize("NFC", line)), 80, line)
            self.assertRegex(line, "^(yyy|    )")

    def test_a_free_lock(self):
        self.check(0, "run", "x\n", "--", "true")
        self.assertEqual(self.check(0, "why", "x\n").out, "x\\x0a is free\n")
        self.assertEqual(self.json("why", "x\n", "--json"), {"name": "x\n", "links": []})

    def test_what_cannot_be(self):
        self.assertIn("no lock nix", self.check(65, "why", "nix").err)
        self.assertEqual(self.check(65, "why", "nix", "--json").out, "")
        self.assertIn("which lock?", self.check(64, "why").err)
        self.check(64, "why", "a", "b")

    def test_a_prefix(self):
        self.env["HOLDFAST_NAME_PREFIX"] = "team/"
        self.hold("x")
        self.assertRegex(self.check(0, "why", "x").out, "^x is held by ")


if __name__ == "__main__":
    cli.main()
