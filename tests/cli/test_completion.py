#!/usr/bin/python3
"""Completion: what the command offers, and that bash, zsh and fish show it."""
# SPDX-License-Identifier: Apache-2.0
import os
import pty
import re
import socket
import subprocess

import cli
from idle import boot_ns, idle_seconds

FOLDER = os.path.join(os.path.abspath(cli.HERE), "..", "..", "completion")
BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"


class Completion(cli.TerminalCase):
    def setUp(self):
        super().setUp()
        self.env["PATH"] = os.path.dirname(os.path.abspath(cli.BIN)) + ":" + self.env["PATH"]
        self.env["HOME"] = self.folder
        self.env["HOLDFAST_CONFIG"] = self.path("config")
        with open(self.env["HOLDFAST_CONFIG"], "w") as file:
            file.write("[stores]\nprod = mongodb://127.0.0.1:1/x\nhere = %s\n" % self.store)
        for name in ("nightly", "two words", "a:b=c", "odd\n"):
            self.check(0, "run", name, "--", "true")

    def shell(self, *words):
        done = subprocess.run(words, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=cli.PATIENCE)
        return done.stdout.decode(), done.stderr.decode()


class Offers(Completion):
    def offers(self, *words):
        result = self.check(0, "complete", *words)
        self.assertEqual(result.err, "")
        return [line.split("\t")[0] for line in result.out.splitlines()]

    def test_every_verb_that_help_lists(self):
        listed = re.findall(r"(?m)^  ([a-z-]+) ", self.check(0, "help").out.split("Commands:")[1])
        self.assertEqual(self.offers(""), listed)
        self.assertEqual(self.offers("help", ""), listed)
        self.assertEqual(self.offers("--ttl", "5s", "-q", "ru"), ["run"])

    def test_every_option_that_help_lists(self):
        for verb in self.offers(""):
            if verb == "help":
                continue
            text = self.check(0, verb, "--help").out
            listed = set(re.findall(r"(?m)^ +(?:-[\w?], )?(--[a-z-]+)", text))
            listed -= {"--usage"}
            self.assertEqual({o for o in self.offers(verb, "-") if o[1] == "-"}, listed, verb)

    def test_letters(self):
        self.assertEqual(self.offers("run", "-n"), ["-n"])
        self.assertEqual(self.offers("run", "-qw", ""), [])
        self.assertEqual(self.offers("run", "-qn", "ni"), ["nightly"])

    def test_processes_where_locks_of_processes_are_unlocked(self):
        """Those of a store with protocol `sharding` are offered in tests/protocols."""
        self.hold("x")
        self.assertEqual(self.offers("unlock-all", ""), [])
        self.assertEqual(self.offers("unlock-all", "--lock-session", "5" * 24, "ni"), ["nightly"])

    def test_a_name_stands_for_itself_only(self):
        for word in ("--wai", "--waits", "-wait", "--wait=5s", "--no-wait", "--json", "--new", "--w"):
            self.assertEqual(self.offers("run", word, "ni"), ["nightly"], word)
        for word in ("--wait", "-w"):
            self.assertEqual(self.offers("run", word, "ni"), [], word)

    def test_who_holds_a_lock(self):
        self.hold("nightly")
        out = self.check(0, "complete", "show", "").out
        self.assertRegex(out, r"(?m)^nightly\t\S+/sh@\S+$")
        self.assertRegex(out, r"(?m)^two words\tfree$")

    def test_no_more_than_a_thousand_locks(self):
        names = ["many/%04d" % i for i in range(1001)]
        for begin in range(0, len(names), 100):
            self.check(0, "run", *names[begin:begin + 100], "--", "true")
        self.assertEqual(self.offers("show", "many/"), names[:1000])

    def test_stores(self):
        self.assertEqual(self.offers("--store", "p"), ["prod", "private"])
        self.assertEqual(self.offers("run", "--store=h"), ["--store=here"])
        self.assertEqual(self.offers("run", "--store", "mem"), ["memory:"])

    def test_locks_of_the_store_that_is_said(self):
        self.assertEqual(self.offers("show", ""), ["a:b=c", "nightly", "two words"])
        self.assertEqual(self.offers("run", "-w", "5s", "nightly", "t"), ["two words"])
        other = "sqlite:" + self.path("other.db")
        self.check(0, "--store", other, "run", "else", "--", "true")
        for words in (["--store", other], ["--store=" + other]):
            self.assertEqual(self.offers(*words, "show", ""), ["else"])
            self.assertEqual(self.offers("show", *words, ""), ["else"])

    def test_after_an_option_its_argument(self):
        for words in (["--tls-key", ""], ["--tls-key="]):
            self.assertEqual(self.check(0, "complete", "serve", *words).out, "\tfiles\n")
        self.assertEqual(self.offers("run", "-w", ""), [])
        for word in ("--wait=", "--no-wait=", "--no-such-option="):
            self.assertEqual(self.offers("run", word), [])
        self.assertEqual(self.offers("run", "-w5s", "ni"), ["nightly"])

    def test_the_command_is_not_ours(self):
        for words in (["--", ""], ["--", "tar", "-"], ["-n", "--", "x"]):
            self.assertEqual(self.check(0, "complete", "run", "x", *words).out, "\tcommand\n")

    def test_what_has_no_names_offers_none(self):
        self.assertEqual(self.offers("sessions", ""), [])

    def test_a_server_that_says_nothing(self):
        door = socket.socket()
        self.addCleanup(door.close)
        door.bind(("127.0.0.1", 0))
        door.listen()
        begun = boot_ns()
        uri = "mongodb://127.0.0.1:%d/" % door.getsockname()[1]
        self.assertEqual(self.offers("--store", uri, "show", ""), [])
        self.assertLess(idle_seconds(begun), 5)

    def test_a_default_store_is_not_made(self):
        del self.env["HOLDFAST_STORE"]
        self.env["XDG_STATE_HOME"] = self.folder
        self.assertEqual(self.offers("show", ""), [])
        self.assertFalse(os.path.exists(self.path("holdfast")))

    def test_where_there_is_no_default_store_none_is_asked(self):
        self.env.update(XDG_STATE_HOME=self.folder, HOLDFAST_STORE="private")
        self.check(0, "run", "x", "--", "true")
        self.env["HOLDFAST_STORE"] = "none"
        result = self.run_it("complete", "show", "")
        self.assertEqual((result.out, result.err), ("", ""))

    def test_a_broken_file_of_settings(self):
        with open(self.env["HOLDFAST_CONFIG"], "w") as file:
            file.write("nonsense\n")
        result = self.run_it("complete", "show", "")
        self.assertEqual((result.out, result.err), ("", ""))


class Bash(Completion):
    def reply(self, *words):
        """What bash would offer for these words, as readline splits them."""
        script = (". %s; . %s/holdfast.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
                  "COMP_LINE=$LINE; COMP_POINT=${#LINE}; _holdfast; printf '%%s\\n' "
                  "\"${COMPREPLY[@]}\"" % (BASH_COMPLETION, FOLDER))
        self.env["LINE"] = " ".join(words).replace(" : ", ":").replace(" = ", "=")
        out, _ = self.shell("bash", "--norc", "-c", script, "bash", *words)
        return out.splitlines()

    def test_words(self):
        self.assertEqual(self.reply("holdfast", "sess"), ["sessions"])
        self.assertEqual(self.reply("holdfast", "show", "n"), ["nightly"])
        self.assertEqual(self.reply("holdfast", "show", "t"), [r"two\ words"])
        self.assertEqual(self.reply("holdfast", "show", r"two\ w"), [r"two\ words"])
        self.assertEqual(self.reply("holdfast", "show", "a", ":", "b"), ["b=c"])
        self.assertEqual(self.reply("holdfast", "--store", "=", "pro"), ["prod"])
        self.assertEqual(self.reply("holdfast", "--store", "sqlite", ":"), [""])
        self.assertIn("sessions", self.reply("holdfast", "run", "x", "--", "holdfast", "s"))

    def test_at_a_prompt(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave,
                                 stderr=slave, env=dict(self.env, TERM="dumb", PS1="> "),
                                 start_new_session=True)
        os.close(slave)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        screen = cli.Stream(master)
        os.write(master, (". %s; . %s/holdfast.bash; echo rea''dy\n" % (BASH_COMPLETION, FOLDER))
                 .encode())
        screen.expect("ready")
        os.write(master, b"holdfast sh\tni\t--nam\x08\x08\x08\x08\x08; echo en''d\n")
        screen.expect("holdfast show nightly ")
        screen.expect(r"name +nightly")
        screen.expect("end")
        os.write(master, b"holdfast --store sql\t\tnowhere help; echo en''d\n")
        screen.expect("holdfast --store sqlite:nowhere help")
        screen.expect("end")


class Zsh(Completion):
    STAND_INS = """
_describe() { print -rl -- "${(@P)2}" }
_files() { print files }
_normal() { print -r "command ${words[CURRENT]}" }
compset() { IPREFIX=${PREFIX%%=*}=; PREFIX=${PREFIX#*=} }
words=("$@"); CURRENT=$#; PREFIX=$words[-1]; IPREFIX=
"""

    def reply(self, *words):
        out, err = self.shell("zsh", "-f", "-c", self.STAND_INS + ". %s/_holdfast" % FOLDER, "zsh",
                              *words)
        self.assertEqual(err, "")
        return [line for line in out.splitlines() if line]

    def test_syntax(self):
        self.assertEqual(self.shell("zsh", "-n", FOLDER + "/_holdfast"), ("", ""))

    def test_words(self):
        self.assertEqual(self.reply("holdfast", "sess"),
                         ["sessions:list the processes that hold or wait"])
        self.assertEqual(self.reply("holdfast", "show", "a"), [r"a\:b=c:free"])
        self.assertEqual(self.reply("holdfast", "show", r"two\ w"), ["two words:free"])
        self.assertEqual(self.reply("holdfast", "--store=pro"), ["prod:"])
        self.assertEqual(self.reply("holdfast", "serve", "--tls-key", ""), ["files"])
        self.assertEqual(self.reply("holdfast", "run", "x", "--", "ls", "-l"), ["command -l"])

    def prompt(self):
        """zsh with its own completion, and a key that prints the line and empties it."""
        shell = self.open(["zsh", "-f", "-i"], columns=200)
        self.type(shell, """PS1=; cd %s; fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D
            say() { zle -I; print -r -- "<$BUFFER>"; BUFFER= }; zle -N say; bindkey '^]' say
            print rea''dy\n""" % (self.folder, FOLDER))
        shell.screen.expect("ready")
        return shell

    def completed(self, shell, line):
        self.type(shell, line + "\t\x1d")
        return shell.screen.expect("<(.*)>").group(1)

    def test_at_a_prompt(self):
        shell = self.prompt()
        for line, becomes in (("sess", "sessions "), ("show n", "show nightly "),
                              ("show t", r"show two\ words "), (r"show two\ w", r"show two\ words "),
                              ("show a", "show a:b=c "), ("--store=pro", "--store=prod "),
                              ("--store pro", "--store prod "), ("serve --tls-key con", "serve --tls-key config "),
                              ("serve --tls-key=con", "serve --tls-key=config "),
                              ("run x -- holdfast sess", "run x -- holdfast sessions ")):
            self.assertEqual(self.completed(shell, "holdfast " + line), "holdfast " + becomes)


class Fish(Completion):
    def reply(self, line):
        self.env["LINE"] = line
        out, err = self.shell("fish", "--no-config", "-c",
                              "source %s/holdfast.fish; complete -C $LINE" % FOLDER)
        self.assertEqual(err, "")
        return [each.split("\t")[0] for each in out.splitlines()]

    def test_syntax(self):
        self.assertEqual(self.shell("fish", "-n", FOLDER + "/holdfast.fish"), ("", ""))

    def test_words(self):
        self.assertEqual(self.reply("holdfast sess"), ["sessions"])
        self.assertEqual(self.reply("holdfast show n"), ["nightly"])
        self.assertEqual(self.reply(r"holdfast show two\ w"), ["two words"])
        self.assertEqual(self.reply("holdfast --store=pro"), ["--store=prod"])
        self.assertEqual(self.reply("holdfast serve --tls-key con"), ["config"])
        self.assertEqual(self.reply("holdfast serve --tls-key=con"), ["--tls-key=config"])
        self.assertEqual(self.reply("holdfast run x -- holdfast sess"), ["sessions"])


if __name__ == "__main__":
    cli.main()
