#!/usr/bin/python3
"""The manual: every verb, option, variable, key and public call is in it; what it says there is, there
is; and its pages are well formed."""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import re
import subprocess

import cli

SOURCE = os.environ.get("HOLDFAST_SOURCE") or os.path.join(cli.HERE, "..", "..")
BUILD = os.path.dirname(os.path.abspath(cli.BIN))
MAKER = os.path.join(SOURCE, "tools", "man-pages")
HEADER = os.path.join(SOURCE, "include", "holdfast", "holdfast.h")


def read(*path):
    with open(os.path.join(SOURCE, *path)) as file:
        return file.read()


def page(name):
    return read("docs", "man", name)


def written():
    return glob.glob(os.path.join(SOURCE, "docs", "man", "*.[17]"))


def made():
    return glob.glob(os.path.join(BUILD, "man", "*.3"))


class Verbs(cli.Case):
    def complete(self, *words):
        return {line.split("\t")[0]: line.split("\t")[1]
                for line in self.check(0, "complete", *words).out.splitlines()}

    def setUp(self):
        super().setUp()
        self.verbs = self.complete("")
        del self.verbs["help"]  # it is in holdfast(1)
        self.common = set(self.complete("-"))

    @staticmethod
    def options_of(text):
        """As `.It Fl n , -no-wait` lists them."""
        return {"-" + word for line in re.findall(r"(?m)^\.It Fl (.*)", text)
                for word in re.findall(r"(?:^|, (?!Fl )|Fl )(-[\w-]+|\w)(?!\S)", line)}

    def test_every_verb_has_a_page_that_says_what_help_says(self):
        main = page("holdfast.1")
        for verb, what in self.verbs.items():
            self.assertIn("\n.It Xr holdfast-%s 1\n" % verb, main)
            self.assertIn("\n.Nd %s\n" % what, page("holdfast-%s.1" % verb))

    def test_no_page_is_of_a_verb_that_there_is_not(self):
        pages = {os.path.basename(path)[len("holdfast-"):-2] for path in written()
                 if path.endswith(".1") and "holdfast-" in os.path.basename(path)}
        self.assertEqual(pages, set(self.verbs))

    def test_every_option_is_in_its_page_and_no_other(self):
        self.assertEqual(self.options_of(page("holdfast.1")), self.common | {"-V", "--usage"})
        for verb in self.verbs:
            own = set(self.complete(verb, "-")) - self.common
            self.assertEqual(self.options_of(page("holdfast-%s.1" % verb)), own, verb)

    def test_every_setting(self):
        for variable in re.findall(r'"(HOLDFAST_\w+)"', read("src", "cli", "settings", "config.h")):
            self.assertRegex(page("holdfast.1"), r"(?m)^\.It Ev .*\b%s\b" % variable)
        for key in self.json("config", "--json")["settings"]:
            self.assertRegex(page("holdfast-config.1"), r"(?m)^\.Li (.* )?%s\b" % key)

    def test_every_key_of_a_uri(self):
        keys = set(re.findall(r'"(hf[A-Z]\w+)"', read("src", "store", "mongo", "driver", "uri.c")))
        self.assertIn("hfProtocol", keys)
        listed = re.findall(r"hf[A-Z]\w+", " ".join(re.findall(r"(?m)^\.It Li (.*)",
                                                               page("holdfast-store.7"))))
        self.assertEqual(set(listed), keys)


    def test_every_topic_of_the_doctor(self):
        sources = [read("src", *path) for path in (
            ("store", "mongo", "doctor.c"), ("store", "mongo", "doctor_members.c"),
            ("store", "mongo", "doctor_place.c"),
            ("store", "sqlite", "doctor.c"), ("store", "memory", "memory.c"),
            ("client", "api", "inspect.c"), ("client", "wait", "deadlock.c"),
            ("cli", "verbs", "cmd_doctor.c"))]
        found = re.findall(r'(?:\b(?:doctor_)?(?:tell|advise|find)\(\s*(?:to|v),(?: [^",]*,)?|\.topic =)\s*"([a-z ]+)"',
                           "\n".join(sources))
        listed = re.findall(r"(?m)^\.It Li ([a-z ]+)$", page("holdfast-doctor.1"))
        self.assertEqual(set(listed) - {"ok"}, set(found))
        self.assertGreater(len(set(found)), 15)

    def test_the_members_of_json(self):
        """What the pages list in braces, on one level, is what is printed."""
        self.hold("--ttl", "6s", "x")
        for verb, words in (("sessions", []), ("doctor", []), ("break", ["x", "--reason", "r"])):
            printed = self.json(verb, *words, "--json")
            first = printed[0] if isinstance(printed, list) else printed
            shown = re.search(r"(?s)\.Bd -literal -offset indent\n\{(.*?)\}\n\.Ed", page("holdfast-%s.1" % verb))
            members = re.sub(r"(?s): \[.*", "", shown.group(1))
            self.assertEqual(re.split(r",\s*", members), list(first))


class Calls(cli.Case):
    def test_every_public_call_has_a_page(self):
        text = re.sub(r"/\*.*?\*/|^#.*?[^\\]$", "", read("include", "holdfast", "holdfast.h"),
                      flags=re.S | re.M)
        calls = set(re.findall(r"(?m)^\w[\w *]*?\b(hf_\w+)\(", text))
        self.assertGreater(len(calls), 40)
        self.assertEqual({os.path.basename(path)[:-2] for path in made()}, calls | {"libholdfast"})

    def make(self, text):
        header = self.path("x.h")
        with open(header, "w") as file:
            file.write(text)
        return subprocess.run([MAKER, header, self.path("out"), "May 1, 2026"],
                              stderr=subprocess.PIPE, timeout=cli.PATIENCE)

    def test_one_without_a_comment_is_refused(self):
        text = read("include", "holdfast", "holdfast.h")
        self.assertEqual(self.make(text).returncode, 0)
        lone = text.replace("const char *hf_version(", "\nconst char *hf_version(", 1)
        done = self.make(lone)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"hf_version() has no comment", done.stderr)

    def test_what_a_page_has(self):
        text = read(BUILD, "man", "hf_lock_acquire.3")
        for line in (".Nd takes a lock, waiting in line for it", ".Ft hf_code",
                     '.Fa "const hf_lock_options *options"', ".Ss hf_lock_options",
                     ".Ss hf_wait_info"):
            self.assertIn("\n%s\n" % line, text)
        self.assertIn("\nErrors: HF_HELD (HF_TRY), ", text)


class Pages(cli.Case):
    def test_well_formed(self):
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *written(), *made()],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = [line for line in done.stdout.decode().splitlines() if "mandoc.db" not in line]
        self.assertEqual(said, [])

    def test_each_page_that_is_pointed_to_is_there(self):
        there = {os.path.basename(path) for path in written() + made()}
        for path in written() + made():
            with open(path) as file:
                for name, section in re.findall(r"\bXr ((?:lib)?(?:holdfast|hf_)\S*) (\d)",
                                                file.read()):
                    self.assertIn("%s.%s" % (name, section), there, path)


class Protocols(cli.Case):
    """docs/protocols.md: what each article has, and what it is here."""

    @staticmethod
    def rows(heading):
        """The cells of each row of the tables under a heading, but for what is above and in the line."""
        text = re.search(r"\n## %s\n(.*?)\n## " % re.escape(heading), read("docs", "protocols.md"), re.S)
        for table in re.findall(r"\n\|-[-|]+\n((?:\|.*\n)+)", text.group(1)):
            for line in table.splitlines():
                yield [cell.strip() for cell in line.strip("|").split(" | ")]

    def test_every_cell_says_something(self):
        for heading in ("From the articles", "For C++ users of MongoDB's lock manager"):
            rows = list(self.rows(heading))
            self.assertGreater(len(rows), 15)
            for row in rows:
                self.assertEqual(len(row), 3, row)
                self.assertTrue(all(row), row)


if __name__ == "__main__":
    cli.main()
