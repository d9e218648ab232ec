#!/usr/bin/python3
"""Settings: which of flags, environment and files counts, stores by name, what is refused and how."""
# SPDX-License-Identifier: Apache-2.0
import os
import pwd
import re
import subprocess

import cli

SECRET = "mongodb://me:hidden@a,b/app?replicaSet=rs0"
AS_POWERLESS = ["setpriv", "--bounding-set", "-all", cli.BIN]  # root reads any file otherwise


class Config(cli.Case):
    def setUp(self):
        super().setUp()
        self.file = self.path("config")
        self.env["HOLDFAST_CONFIG"] = self.file
        del self.env["HOLDFAST_STORE"]
        self.write("")

    def write(self, text, path=None, mode=0o600):
        path = path or self.file
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def settings(self, *words):
        return self.json("config", "--json", *words)["settings"]

    def said(self, key, *words):
        each = self.settings(*words)[key]
        return each["value"], each["from"]

    def refused(self, pattern, *words):
        result = self.check(65, *(words or ["list"]))
        self.assertRegex(result.err, r"^holdfast: " + pattern)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        return result.err


class Precedence(Config):
    def test_nobody_says_anything(self):
        settings = self.settings()
        self.assertEqual(list(settings), ["store", "ttl", "grace", "wait", "name-prefix", "access-log"])
        self.assertEqual({each["from"] for each in settings.values()}, {"default"})
        self.env["XDG_STATE_HOME"] = self.folder
        self.assertEqual(self.said("store")[0], "sqlite:%s/holdfast/locks.db" % self.folder)
        self.assertEqual(self.said("ttl")[0], "10s")
        self.assertFalse(os.path.exists(self.path("holdfast")))  # shown only

    def test_the_default_ttl_is_that_of_the_store(self):
        for store, ttl in (("memory:", "10s"), ("mongodb://a/b", "40s"),
                           ("mongodb://a/b?hfProtocol=sharding", "90s"), ("mongodb://a/b?nosuch", "40s")):
            self.env["HOLDFAST_STORE"] = store
            self.assertEqual(self.said("ttl"), (ttl, "default"), store)

    def test_file_then_environment_then_flag(self):
        self.write("# all\n\nttl = 7s\nstore = sqlite:/a.db\n")
        self.assertEqual(self.said("ttl"), ("7s", self.file + ":3"))
        self.assertEqual(self.said("store"), ("sqlite:/a.db", self.file + ":4"))
        self.env.update(HOLDFAST_TTL="8s", HOLDFAST_STORE="sqlite:b.db")
        self.assertEqual(self.said("ttl"), ("8s", "HOLDFAST_TTL"))
        self.assertEqual(self.said("store"), ("sqlite:b.db", "HOLDFAST_STORE"))
        for words in (["--ttl", "6s", "config", "--ttl", "9s"], ["--ttl", "9s", "config"]):
            ttl = self.json(*words, "--json")["settings"]["ttl"]
            self.assertEqual(ttl, {"value": "9s", "from": "--ttl"})
        self.assertEqual(self.said("store", "--store", "memory:"), ("memory:", "--store"))

    def test_blanks_and_comments(self):
        self.write("; all\n\t# of them\n\n\t ttl\t=\t7s \r\n  store =memory:=;#\r\n[ stores ]\r\n"
                   "a= sqlite:/b c.db\n")
        self.assertEqual(self.said("ttl"), ("7s", self.file + ":4"))
        self.assertEqual(self.said("store"), ("memory:=;#", self.file + ":5"))
        [name] = self.json("config", "--json")["stores"].items()
        self.assertEqual(name, ("a", {"value": "sqlite:/b c.db", "from": self.file + ":7"}))

    def test_whose_home_it_is(self):
        """Where the environment does not say it, the system's list of users does."""
        theirs = "sqlite:%s/.local/state/holdfast/locks.db" % pwd.getpwuid(os.getuid()).pw_dir
        self.env.pop("XDG_STATE_HOME", None)
        for home in (None, "", "here"):
            self.env.pop("HOME", None)
            self.env.update({"HOME": home} if home is not None else {})
            self.assertEqual(self.said("store")[0], theirs)
        self.env["HOME"] = "/there"
        self.assertEqual(self.said("store")[0], "sqlite:/there/.local/state/holdfast/locks.db")

    def test_an_empty_variable_says_nothing(self):
        self.write("ttl = 7s\n")
        self.env.update(HOLDFAST_TTL="", HOLDFAST_STORE="")
        self.assertEqual(self.said("ttl")[0], "7s")
        self.assertEqual(self.said("store")[1], "default")

    def under_system_file(self, system, theirs, *words):
        """Runs the words where `theirs` is the system's file, in a mount namespace that nobody else sees."""
        script = ('mount -t tmpfs none "$(dirname "$(dirname "$1")")" && mkdir "$(dirname "$1")" '
                  '&& cp -p "$2" "$1" && shift 2 && exec "$@"')
        unshare = ["unshare", "--mount"] + ["--map-root-user"] * (os.getuid() != 0)
        return subprocess.run([*unshare, "sh", "-c", script, "sh", system, theirs, *words], env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              timeout=cli.PATIENCE)

    def with_system_file(self, system, theirs, *words):
        """The lines that the command prints there, by their first words."""
        done = self.under_system_file(system, theirs, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {line.split()[0]: line for line in done.stdout.splitlines() if line}

    def find_system_file(self):
        """Its path; from now on the user's file is in a folder of the test."""
        del self.env["HOLDFAST_CONFIG"]
        self.env["XDG_CONFIG_HOME"] = self.path("home")
        return self.json("config", "--json")["files"][1]["path"]

    def test_the_users_file_counts_more_than_the_systems(self):
        system = self.find_system_file()
        mine = self.path("home/holdfast/config")
        self.write("ttl = 7s\n[stores]\na = sqlite:/mine.db\n", mine)
        theirs = self.write("ttl = 8s\ngrace = 1s\n[stores]\na = sqlite:/theirs.db\nb = memory:\n",
                            self.path("theirs"))
        rows = self.with_system_file(system, theirs, cli.BIN, "config")
        self.assertIn("7s", rows["ttl"])
        self.assertRegex(rows["grace"], "^grace +1s +%s:2$" % system)
        self.assertIn("sqlite:/mine.db", rows["a"])
        self.assertIn("memory:", rows["b"])
        self.assertRegex(rows[system], "read$")

    def test_a_system_file_that_cannot_be_read(self):
        """Which store it names for all users is not known, so none is taken: a store of this user's own
        would exclude nobody who can read it."""
        system = self.find_system_file()
        theirs = self.write("ttl = 8s\nstore = prod\n[stores]\nprod = %s\n" % SECRET, self.path("theirs"))
        self.assertIn("8s", self.with_system_file(system, theirs, cli.BIN, "config")["ttl"])
        os.chmod(theirs, 0)
        rows = self.with_system_file(system, theirs, *AS_POWERLESS, "config")
        self.assertIn("10s", rows["ttl"])
        self.assertRegex(rows["store"], "^store +none +%s, not readable$" % system)
        self.assertRegex(rows[system], "not readable$")
        for words in (["run", "x", "--", "true"], ["list"], ["doctor"], ["bench"], ["serve"]):
            done = self.under_system_file(system, theirs, *AS_POWERLESS, *words)
            self.assertEqual((done.returncode, done.stdout), (65, ""), words)
            self.assertRegex(done.stderr, "^holdfast: no store is named, and %s, which may name one, "
                             "cannot be read: Permission denied; name a store with --store or "
                             "HOLDFAST_STORE .private: .*or ask for the right to read that file\n$" % system)
        done = self.under_system_file(system, theirs, *AS_POWERLESS, "--store", "prod", "list")
        self.assertEqual(done.returncode, 65)
        self.assertIn("no file of settings names one; %s cannot be read" % system, done.stderr)

    def test_where_a_store_is_named_nobody_needs_the_system_file(self):
        system = self.find_system_file()
        theirs = self.write("store = memory:\n", self.path("theirs"), mode=0)
        self.env["XDG_STATE_HOME"] = self.folder
        for words, variable, mine in ((["--store", self.store], "", ""), ([], self.store, ""),
                                      (["--store", "private"], "", ""), ([], "private", ""),
                                      ([], "", "store = here\n[stores]\nhere = %s\n" % self.store)):
            self.env["HOLDFAST_STORE"] = variable
            self.write(mine, self.path("home/holdfast/config"))
            done = self.under_system_file(system, theirs, *AS_POWERLESS, "run", *words, "x", "--", "true")
            said = "" if "private" in (*words, variable) else (
                "holdfast: %s cannot be read: Permission denied; if it sets name-prefix, give the same "
                "one with --name-prefix, else an empty one\n" % system)
            self.assertEqual((done.returncode, done.stderr), (0, said), (words, variable, mine))
        done = self.under_system_file(system, theirs, *AS_POWERLESS, "--store", self.store,
                                      "--name-prefix", "", "list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_where_a_store_is_named_nobody_needs_the_users_file(self):
        """As where HOME is another user's, in a container."""
        mine = self.write("store = memory:\n", self.path("home/holdfast/config"), mode=0)
        self.env["HOLDFAST_CONFIG"], self.env["XDG_CONFIG_HOME"] = "", self.path("home")
        for folder in (self.folder, self.path("home"), self.path("home/holdfast")):
            os.chmod(folder, 0o755)
        as_nobody = {"preexec_fn": lambda: os.setuid(65534)} if os.getuid() == 0 else {}
        done = self.check(0, "--store", "memory:", "run", "x", "--", "true", **as_nobody)
        self.assertIn("%s cannot be read: Permission denied; if it sets name-prefix" % mine, done.err)
        self.assertIn("no store is named, and %s, which may name one, cannot be read" % mine,
                      self.check(65, "run", "x", "--", "true", **as_nobody).err)

    def test_the_group_of_the_system_file_may_read_a_password(self):
        system = self.find_system_file()
        theirs = self.write("store = %s\n" % SECRET, self.path("theirs"), mode=0o640)
        rows = self.with_system_file(system, theirs, cli.BIN, "config")
        self.assertIn("mongodb://me:***@a,b/app", rows["store"])
        os.chmod(theirs, 0o644)
        done = self.under_system_file(system, theirs, cli.BIN, "config")
        self.assertEqual(done.returncode, 65)
        self.assertIn(":1: a password stands here, and others can read the file: chmod 640 %s" % system,
                      done.stderr)

    def test_a_file_in_the_home(self):
        del self.env["HOLDFAST_CONFIG"]
        self.env.pop("XDG_CONFIG_HOME", None)
        self.env["HOME"] = self.folder
        self.write("ttl = 7s\n", self.path(".config/holdfast/config"))
        self.assertEqual(self.said("ttl"), ("7s", self.path(".config/holdfast/config:1")))


class InForce(Config):
    """What is shown is what counts."""

    def test_ttl(self):
        self.write("ttl = 7s\nstore = here\n[stores]\nhere = %s\n" % self.store)
        self.hold("x")
        [session] = self.json("sessions", "--json")
        self.assertEqual(session["ttl_ms"], 7000)

    def test_wait(self):
        self.write("wait = 0\nstore = %s\n" % self.store)
        self.hold("x")
        self.check(75, "run", "x", "--", "true")
        self.check(75, "run", "-w", "50ms", "x", "--", "true")  # a flag counts more
        self.write("wait = 50ms\nstore = %s\n" % self.store)
        self.assertIn("in time", self.check(75, "run", "x", "--", "true").err)

    def test_grace(self):
        self.write("grace = 6s\n")
        self.refused(r"%s:1: 6000ms does not fit a ttl of 10000ms" % self.file,
                     "run", "x", "--", "true")
        self.check(0, "run", "--store", self.store, "--grace", "1s", "x", "--", "true")

    def test_name_prefix(self):
        self.write("store = %s\nname-prefix = shop/\n" % self.store)
        self.hold("x")
        self.check(75, "run", "-n", "x", "--", "true")
        self.check(0, "run", "-n", "--name-prefix", "till/", "x", "--", "true")
        self.assertEqual([each["name"] for each in self.json("list", "--all", "--json")], ["x"])
        every = self.json("list", "--all", "--json", "--name-prefix", "")
        self.assertEqual([each["name"] for each in every], ["shop/x", "till/x"])
        self.assertEqual(self.json("show", "--json", "x")["name"], "x")
        lease = self.json("acquire", "--json", "y")["lease"]
        self.check(0, "release", "--name-prefix", "till/", lease)  # it has the whole name
        refused = self.check(65, "run", "x" * 510, "--", "true").err
        self.assertIn("more than 512 bytes with the prefix shop/", refused)
        self.write("store = %s\nname-prefix = %s\n" % (self.store, "x" * 257))
        self.assertIn("the name prefix", self.check(65, "run", "x", "--", "true").err)

    def test_bench_gets_the_store_by_its_uri(self):
        self.write("[stores]\nhere = %s\n" % self.store)
        self.check(0, "--store", "here", "bench", "--runs", "1", "--only", "threads")


class Names(Config):
    def setUp(self):
        super().setUp()
        self.write("[stores]\nprod = sqlite:/p.db\n test=%s\nA-1_ = memory:\n" % self.store)

    def test_by_flag_variable_and_file(self):
        self.check(0, "--store", "test", "run", "x", "--", "true")
        self.env["HOLDFAST_STORE"] = "test"
        self.assertEqual([lock["name"] for lock in self.json("list", "-a", "--json")],
                         ["x"])
        self.assertEqual(self.said("store"), (self.store, "HOLDFAST_STORE"))
        del self.env["HOLDFAST_STORE"]
        self.write("store = test\n[stores]\ntest = %s\n" % self.store)
        self.assertEqual(self.check(0, "list", "-a", "--names").out, "x\n")

    def test_one_that_there_is_not(self):
        self.refused(r'--store: there is no store "tset": there are A-1_, prod, test; or give a URI',
                     "--store", "tset", "list")
        self.env["HOLDFAST_STORE"] = "tset"
        self.refused(r'HOLDFAST_STORE: there is no store "tset"')
        self.write("")
        self.refused(r'.*no file of settings names one')

    def test_a_uri_that_is_wrong_is_named_with_its_place(self):
        for text, said in (("store = sqllite:/x.db", ':1: store "sqllite:/x.db": no such scheme'),
                           ("store = there\n[stores]\nthere = postgres://a/b",
                            ':3: store "postgres://a/b": no such scheme'),
                           ("store = mongodb://a/b?hfFoo=1", ":1: unknown key hfFoo in the URI"),
                           ('store = "memory:"', ':1: a value stands without quotes, not "memory:"')):
            self.write(text + "\n")
            self.refused(re.escape(self.file + said), "list")
        self.write("store = memory:\nname-prefix = %s\n" % ("x" * 257))
        self.assertTrue(self.check(65, "list").err.startswith("holdfast: the name prefix"))

    def test_what_is_no_name_is_taken_as_before(self):
        """A name has no colon, slash or point."""
        self.check(0, "--store", "memory:", "list")
        self.check(0, "--store", "sqlite:relative.db", "list", cwd=self.folder)
        self.assertTrue(os.path.exists(self.path("relative.db")))
        for text in ("locks.db", "./test", ""):
            self.refused('store "%s": no such scheme' % text, "--store", text, "list")

    def test_words_that_are_no_names(self):
        for word in ("private", "none"):
            self.write("[stores]\n%s = sqlite:/x.db\n" % word)
            self.refused(r".*no store can be called %s" % word)

    def test_the_file_may_say_that_there_is_no_default(self):
        self.write("store = none\n")
        self.assertRegex(self.check(65, "list").err, ":1 says that no store is the default")

    def test_the_names_alone(self):
        self.assertEqual(self.check(0, "config", "--stores").out, "A-1_\nprod\ntest\n")

    def test_a_long_uri_with_signs_of_its_own(self):
        uri = "mongodb://%s/app?x=1;#2" % ",".join("host-%03d:27017" % i for i in range(100))
        self.write("[stores]\nlong = %s\n" % uri)
        self.assertEqual(self.json("config", "--json")["stores"]["long"]["value"], uri)


class Refused(Config):
    def refuses(self, text, line, pattern):
        self.write(text)
        self.refused("%s:%d: %s" % (self.file, line, pattern))

    def test_lines(self):
        for text, line, pattern in (
                ("ttl 10s\n", 1, "this is no setting: write KEY = VALUE"),
                ("\n= 10s\n", 2, "this is no setting"),
                ("tll = 10s\n", 1, 'there is no setting "tll"; known are store, ttl, grace, wait, name-prefix,'),
                ("ttl =\n", 1, "ttl has no value"),
                ("ttl = soon\n", 1, '"soon" is not a duration'),
                ("ttl = 1ms\n", 1, "1ms is out of range"),
                ("grace = -1s\n", 1, '"-1s" is negative'),
                ("ttl = 7s\nttl = 7s\n", 2, "ttl stands here a second time, after .*config:1"),
                ("[stores\n", 1, "this is no section"),
                ("[stores]x\n", 1, "this is no section"),
                ("[]\nttl = never\n", 2, '"never" is not a duration'),
                ("[store]\na = memory:\n", 2, r"there is no section \[store\]"),
                ("[stores]\na b = memory:\n", 2, "a store's name has letters"),
                ("[stores]\na = b\n", 2, '"b" is not a URI'),
                ("[stores]\na = memory:\na = memory:\n", 3, "a stands here a second time"),
                ("[stores]\na = sqlite:x.db\n", 2, "sqlite:x.db would be another file"),
                ("access-log = x.log\n", 1, "x.log would be another file in each folder"),
                ("store = sqlite:x.db\n", 1, "sqlite:x.db would be another file")):
            with self.subTest(text=text):
                self.refuses(text, line, pattern)

    def test_a_value_of_the_environment(self):
        self.env["HOLDFAST_TTL"] = "soon"
        self.refused('HOLDFAST_TTL: "soon" is not a duration')

    def test_a_named_file_that_is_not_there(self):
        os.remove(self.file)
        self.refused("the settings in %s cannot be read: No such file" % self.file)
        self.env["HOLDFAST_CONFIG"] = self.folder
        self.refused("%s is no file of settings" % self.folder)

    def test_one_that_may_not_be_read(self):
        os.chmod(self.folder, 0o755)
        os.chmod(self.file, 0)
        as_nobody = cli.as_user(lambda: os.setuid(65534)) if os.getuid() == 0 else {}
        err = self.check(65, "config", **as_nobody).err
        self.assertIn("the settings in %s cannot be read: Permission denied" % self.file, err)

    def test_help_needs_no_file(self):
        self.write("nonsense\n")
        self.check(0, "run", "--help")
        self.check(0, "help")
        self.check(0, "--version")


class Passwords(Config):
    def test_a_file_that_others_can_read(self):
        for text in ("[stores]\nprod = %s\n" % SECRET, "store = %s\n" % SECRET,
                     "store = mongodb://a/?tlsCertificateKeyFilePassword=hidden\n"):
            for mode in (0o640, 0o604):
                self.write(text, mode=mode)
                err = self.refused(r"%s:\d: a password stands here, and others can read the file: "
                                   "chmod 600 %s" % (self.file, self.file))
                self.assertNotIn("hidden", err)
            os.chmod(self.file, 0o600)
            self.check(0, "config")

    def test_a_credential_of_a_service(self):
        """systemd gives it to one user, by an ACL that shows as a right of the group."""
        refused = "%s:1: a password stands here, and others can read" % self.file
        self.write("store = %s\n" % SECRET, mode=0o440)
        for folder in ("", self.folder[:-1]):
            self.env["CREDENTIALS_DIRECTORY"] = folder
            self.refused(refused)
        self.env["CREDENTIALS_DIRECTORY"] = self.folder
        self.check(0, "config")
        os.chmod(self.file, 0o444)
        self.refused(refused)

    def test_a_file_without_one_may_be_open(self):
        self.write("store = mongodb://me@a:27017,b:27017/app?replicaSet=rs0\n", mode=0o644)
        self.assertEqual(self.said("store")[0], "mongodb://me@a:27017,b:27017/app?replicaSet=rs0")

    def test_one_on_the_command_line_is_warned_of(self):
        warning = "a password in --store can be read by every user"
        words = ["--store", "mongodb://me:hidden@127.0.0.1:1/app?serverSelectionTimeoutMS=1",
                 "list"]
        said = self.check(69, *words).err
        self.assertIn(warning, said)
        self.assertNotIn("hidden", said)
        self.assertNotIn(warning, self.check(69, "-q", *words).err)
        self.env["HOLDFAST_STORE"] = words[1]
        self.assertNotIn(warning, self.check(69, "list").err)
        self.assertNotIn(warning, self.check(69, "--store", words[1].replace(":hidden@", "@"),
                                             "list").err)

    def test_they_are_not_shown(self):
        self.write("store = prod\n[stores]\nprod = %s&tlsCertificateKeyFilePassword=hidden&x=1\n"
                   % SECRET)
        for words in (["config"], ["config", "--json"]):
            out = self.check(0, *words).out
            self.assertNotIn("hidden", out)
            self.assertEqual(out.count("mongodb://me:***@a,b/app?replicaSet=rs0&"
                                       "tlsCertificateKeyFilePassword=***&x=1"), 2)
        self.env["HOLDFAST_STORE"] = "mongodb://u:hid/d?en@host"
        self.assertEqual(self.said("store")[0], "mongodb://u:***@host")

    def test_what_is_taken_for_a_secret(self):
        for uri, shown in (
                ("mongodb://u:p@h/", "mongodb://u:***@h/"), ("mongodb://u:@h", "mongodb://u:***@h"),
                ("mongodb+srv://u:p@h", "mongodb+srv://u:***@h"), ("mongodb://u:p@q@h", "mongodb://u:***@h"),
                ("mongodb://u@h:1/x", None), ("mongodb://h:1,i:2/x", None), ("sqlite:/a:b@c", None),
                ("mongo://u:p@h", "mongo://***@h"), ("mongodb:/u:p@h/x", "mongodb:/***@h/x"),
                ("mongodb:u:p@h", "mongodb:***@h"), ("u:p@h", "u:***@h"), ("http://u:p@h", "http://***@h"),
                ("mongodb://h/?tlsCertificateKeyFilePassword=x", "mongodb://h/?tlsCertificateKeyFilePassword=***"),
                ("mongodb://h/?a=1&PASSWORD=x&b=2", "mongodb://h/?a=1&PASSWORD=***&b=2"),
                ("mongodb://h/?password=x&password=yz", "mongodb://h/?password=***&password=***"),
                ("mongodb://h/?authMechanismProperties=T:x,y:z", "mongodb://h/?authMechanismProperties=***"),
                ("mongodb://h/?password=", "mongodb://h/?password=***"),
                ("mongodb://h/?password", None), ("mongodb://h/?passwords=x", None),
                ("mongodb://h/?a=password&b=1", None), ("mongodb://h/?word=x", None),
                ("mongodb://u:p@h/?a=1&password=x", "mongodb://u:***@h/?a=1&password=***")):
            self.assertEqual(self.said("store", "--store", uri)[0], shown or uri)

    def test_a_broken_line_does_not_show_one(self):
        for line in ("prod " + SECRET, "prod:" + SECRET, "[" + SECRET, SECRET):
            for text in (line + "\n", "[stores]\n%s\n" % line):
                self.write(text)
                self.assertNotIn("hidden", self.refused(".*config:[12]: "))


if __name__ == "__main__":
    cli.main()
