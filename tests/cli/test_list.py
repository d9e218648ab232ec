#!/usr/bin/python3
"""The listings: list, show, sessions, doctor, for people and in JSON."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import time

import cli

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
MUTEX = 2 ** 30


class Json(cli.Case):
    def check_entry(self, entry, more=()):
        self.assertEqual(list(entry), ["session", "who", "why", "token", "permits", "since",
                                       "lease_left_ms", *more])
        self.assertRegex(entry["session"], "^[0-9a-f]+$")
        self.assertRegex(entry["since"], ISO)

    def test_an_empty_store(self):
        for verb in ("list", "sessions"):
            self.assertEqual(self.json(verb, "--json"), [])

    def test_a_mutex_with_holder_and_queue(self):
        holder = self.hold("--why", "first", "x")
        waiters = [self.wait("--why", "n%d" % i, "x") for i in range(2)]
        [lock] = self.json("list", "--json")
        self.assertEqual(list(lock), ["name", "limit", "token", "holders", "queue", "outside",
                                      "last"])
        self.assertEqual((lock["name"], lock["limit"]), ("x", MUTEX))
        [entry] = lock["holders"]
        self.check_entry(entry)
        self.assertEqual(entry["who"], "%s/sh@%s:%d" % (cli.USER, socket.gethostname(), holder.pid))
        self.assertEqual((entry["why"], entry["token"], entry["permits"]),
                         ("first", lock["token"], MUTEX))
        self.assertTrue(0 < entry["lease_left_ms"] <= 10000)
        for i, entry in enumerate(lock["queue"]):
            self.check_entry(entry, ["position"])
            self.assertEqual((entry["why"], entry["position"], entry["token"]),
                             ("n%d" % i, i + 1, 0))
            self.assertIn(":%d" % waiters[i].pid, entry["who"])
        self.assertEqual(lock["last"], {"outcome": "none", "who": "", "token": 0,
                                        "exit_status": None, "period": None, "period_end": None,
                                        "reason": "", "at": None, "done": None})
        self.assertEqual(self.json("show", "x", "--json")["holders"][0]["session"],
                         lock["holders"][0]["session"])

    def test_how_it_was_left(self):
        self.check(3, "run", "x", "--", "sh", "-c", "exit 3")
        lock = self.json("show", "x", "--json")
        self.assertEqual((lock["holders"], lock["queue"]), ([], []))
        last = lock["last"]
        self.assertEqual((last["outcome"], last["exit_status"], last["token"]),
                         ("released", 3, lock["token"]))
        self.assertRegex(last["who"], "^[^/]+/sh@")
        self.assertRegex(last["at"], ISO)

    def test_a_semaphore_and_readers(self):
        self.hold("--permits", "2", "--limit", "5", "pool")
        self.hold("-s", "read")
        self.hold("-s", "read")
        pool, read = self.json("list", "--json")
        self.assertEqual((pool["limit"], pool["holders"][0]["permits"]), (5, 2))
        self.assertEqual((read["limit"], [h["permits"] for h in read["holders"]]), (MUTEX, [1, 1]))

    def test_a_prefix_and_the_order_of_bytes(self):
        for name in ("b", "ä", "a/2", "a/1", "B", "a%", "a_"):
            self.check(0, "run", name, "--", "true")
        self.assertEqual([lock["name"] for lock in self.json("list", "--all", "--json")],
                         ["B", "a%", "a/1", "a/2", "a_", "b", "ä"])
        for prefix, names in (("a/", ["a/1", "a/2"]), ("a%", ["a%"]), ("a_", ["a_"]), ("zz", []),
                              ("ä", ["ä"]), ("", ["B", "a%", "a/1", "a/2", "a_", "b", "ä"])):
            self.assertEqual([lock["name"] for lock in self.json("list", "-a", "--json", prefix)],
                             names)

    def test_names(self):
        for name in ("b", "a\n", "a b"):
            self.check(0, "run", name, "--", "true")
        self.assertEqual(self.check(0, "list", "-a", "--names").out, "a\\x0a\na b\nb\n")
        self.assertEqual(self.check(0, "list", "-a", "--names", "a ").out, "a b\n")
        self.check(64, "list", "--names", "--json")

    def test_what_nobody_uses_is_left_out(self):
        self.check(0, "run", "free", "--", "true")
        self.hold("held")
        for words, names in (([], ["held"]), (["--all"], ["free", "held"]), (["f"], [])):
            self.assertEqual([lock["name"] for lock in self.json("list", "--json", *words)], names)
            self.assertEqual(self.check(0, "list", "--names", *words).out.split(), names)
            shown = self.check(0, "list", *words).out
            self.assertEqual([name for name in ("free", "held") if name in shown], names)

    def test_what_is_asked_for_by_its_whole_name(self):
        for name in ("a", "a/free", "ab"):
            self.check(0, "run", name, "--", "true")
        self.hold("a/held")
        for words, names in ((["a"], ["a", "a/held"]), (["a/free"], ["a/free"]), (["a/"], ["a/held"]),
                             (["a/held"], ["a/held"]), (["b"], []), (["%"], []),
                             (["-a", "a"], ["a", "a/free", "a/held", "ab"])):
            self.assertEqual([lock["name"] for lock in self.json("list", "--json", *words)], names)
            self.assertEqual(self.check(0, "list", "--names", *words).out.split(), names)
            shown = self.check(0, "list", *words).out.splitlines()[1:]
            self.assertEqual([line.split()[0] for line in shown], names)

    def test_very_many(self):
        """More rows than are printed at once: one head, and each lock once, in order."""
        self.check(0, "run", "a name that is longer than the others", "--", "true")
        with sqlite3.connect(self.store.removeprefix("sqlite:")) as db:
            [[record]] = db.execute("SELECT record FROM locks")
            long = b"a name that is longer than the others"
            for i in range(2500):
                name = b"n%036d" % i  # as long, so that the record is one
                db.execute("INSERT INTO locks(name, record) VALUES(?, ?)",
                           (name.decode(), record.replace(long, name)))
            db.execute("DELETE FROM locks WHERE name = ?", (long.decode(),))
        rows = self.check(0, "list", "-a").out.splitlines()
        self.assertEqual([row.split()[0] for row in rows],
                         ["NAME"] + ["n%036d" % i for i in range(2500)])
        self.assertEqual(len({row.index("- ") for row in rows[1:]}), 1)
        self.assertEqual(len(self.json("list", "-a", "--json")), 2500)
        self.assertEqual(len(self.check(0, "list").out.splitlines()), 1)

    def test_odd_text(self):
        name, why = 'q"\\\n\x01🔒', "\x1b[0m\t\u2028"
        self.hold("--why", why, name)
        [lock] = self.json("list", "--json")
        self.assertEqual((lock["name"], lock["holders"][0]["why"]), (name, why))

    def test_sessions(self):
        holder = self.hold("--ttl", "7s", "x")
        [session] = self.json("sessions", "--json")
        self.assertEqual(list(session), ["session", "app", "host", "pid", "started", "ttl_ms",
                                         "lease_left_ms", "dead"])
        self.assertEqual((session["app"], session["host"], session["pid"], session["ttl_ms"],
                          session["dead"]),
                         (cli.USER + "/sh", socket.gethostname(), holder.pid, 7000, False))
        self.assertRegex(session["started"], ISO)
        self.check(0, "run", "y", "--", "true")
        self.assertEqual(len(self.json("sessions", "--json")), 1)
        both = self.json("sessions", "--all", "--json")
        self.assertEqual(sorted(each["dead"] for each in both), [False, True])

    def test_doctor(self):
        findings = self.json("doctor", "--json")
        self.assertTrue(findings)
        for finding in findings:
            self.assertEqual(list(finding), ["topic", "text", "is_danger", "wants_care"])
            self.assertIs(finding["is_danger"], False)

    def test_what_fails_prints_no_json(self):
        result = self.check(65, "show", "never", "--json")
        self.assertEqual(result.out, "")
        self.assertRegex(result.err, "^holdfast: ")


class ForPeople(cli.Case):
    def table(self, *words):
        """The rows of a table as dicts, by where its heads stand."""
        lines = self.check(0, *words).out.splitlines()
        heads = [(m.group(), m.start()) for m in re.finditer(r"\S+(?: \S+)*", lines[0])]
        ends = [start for _, start in heads[1:]] + [None]
        return [{head: line[start:end].strip() for (head, start), end in zip(heads, ends)}
                for line in lines[1:]]

    def test_list(self):
        holder = self.hold("--why", "nightly", "long-name-of-a-lock")
        self.wait("long-name-of-a-lock")
        self.hold("-s", "r")
        self.hold("-s", "r")
        self.hold("--permits", "2", "--limit", "3", "s")
        self.check(0, "run", "z", "--", "true")
        rows = {row["NAME"]: row for row in self.table("list", "-a")}
        held = rows["long-name-of-a-lock"]
        self.assertEqual((held["USE"], held["WAITING"], held["WHY"]), ("exclusive", "1", "nightly"))
        self.assertIn(":%d" % holder.pid, held["HELD BY"])
        self.assertRegex(held["SINCE"], r"\d\d:\d\d:\d\d$")
        self.assertRegex(held["LEASE"], r"^\d+m?s$")
        self.assertEqual(rows["r"]["USE"], "shared")
        self.assertIn("and 1 more", rows["r"]["HELD BY"])
        self.assertEqual(rows["s"]["USE"], "2 of 3")
        self.assertEqual((rows["z"]["USE"], rows["z"]["HELD BY"]), ("-", "- (released)"))

    def test_columns_are_as_wide_as_what_they_show(self):
        self.check(0, "run", "字字", "--", "true")
        self.check(0, "run", "abcd\n", "--", "true")
        lines = self.check(0, "list", "-a").out.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertTrue(lines[1].startswith("abcd\\x0a  -"), lines[1])
        self.assertTrue(lines[2].startswith("字字      -"), lines[2])

    def test_show(self):
        holder = self.hold("--why", "first", "x")
        self.wait("--why", "second\x1b", "x")
        out = self.check(0, "show", "x").out
        self.assertRegex(out, r"(?m)^name +x$")
        self.assertRegex(out, r"(?m)^holder +\S+/sh@.*:%d, exclusive, since .*, lease .*, token \d+, "
                              r"session [0-9a-f]+: first$" % holder.pid)
        self.assertRegex(out, r"(?m)^waiting +1\. \S+/true@.*: second\\x1b$")

    def test_show_how_it_was_left(self):
        self.check(3, "run", "x", "--", "sh", "-c", "exit 3")
        self.assertRegex(self.check(0, "show", "x").out,
                         r"(?m)^last +released by \S+/sh@.* at .*, token \d+, exit status 3$")

    def test_sessions(self):
        holder = self.hold("x")
        [row] = self.table("sessions")
        self.assertEqual((row["PID"], row["STATE"], row["TTL"]), (str(holder.pid), "alive", "10s"))

    def test_sessions_that_have_ended(self):
        holder = self.hold("x")
        self.check(0, "run", "y", "--", "true")
        [row] = self.table("sessions")
        self.assertEqual(row["STATE"], "alive")
        rows = {row["STATE"]: row for row in self.table("sessions", "--all")}
        self.assertEqual(sorted(rows), ["alive", "ended"])
        self.assertEqual((rows["ended"]["LEASE"], rows["alive"]["PID"]), ("-", str(holder.pid)))

    def kill(self, holder):
        """It dies, and its command too, without a word to the store."""
        holder.signal(signal.SIGSTOP)
        os.killpg(holder.child, signal.SIGKILL)
        holder.signal(signal.SIGKILL)
        holder.status()

    def until(self, claim, *words):
        """The rows of the table, when they are so."""
        deadline = time.monotonic() + cli.PATIENCE
        while True:
            rows = self.table(*words)
            if claim(rows):
                return rows
            self.assertLess(time.monotonic(), deadline, rows)

    def test_a_session_that_is_overdue(self):
        self.hold("--ttl", "1s", "x").signal(signal.SIGSTOP)
        [row] = self.until(lambda rows: rows[0]["STATE"] == "overdue", "sessions")
        self.assertRegex(row["LEASE"], "^over by ")
        self.assertRegex(self.table("list")[0]["LEASE"], "^over by ")
        self.assertEqual(self.json("sessions", "--json")[0]["dead"], False)

    def test_of_several_that_hold_it_the_one_that_is_overdue(self):
        """It counts, whoever came first: the table says who it is, in words."""
        self.check(0, "--ttl", "1h", "acquire", "-s", "--owner", "alive", "x")
        self.check(0, "--ttl", "1s", "acquire", "-s", "--owner", "dead", "--why", "was here", "x")
        [row] = self.until(lambda rows: rows[0]["LEASE"].startswith("over by "), "list")
        self.assertRegex(row["HELD BY"], "^dead@.* and 1 more$")
        self.assertEqual(row["WHY"], "was here")

    def test_a_holder_whose_session_is_gone(self):
        self.hold("x")
        with contextlib.closing(sqlite3.connect(self.path("locks.db"))) as db:
            db.execute("DELETE FROM sessions")
            db.commit()
        [row] = self.table("list")
        self.assertEqual((row["USE"], row["HELD BY"]), ("exclusive", "(session gone)"))
        self.assertRegex(self.check(0, "show", "x").out, r"(?m)^holder +\(session gone\), exclusive")
        self.assertRegex(self.check(0, "break", "--force", "--reason", "r", "x").out,
                         r'^"x": taking it from \(session gone\)')

    def test_how_locks_were_left(self):
        holder = self.hold("--ttl", "6s", "x")
        self.check(0, "run", "y", "--", "true")
        self.check(0, "break", "x", "--reason", "why not")
        holder.status()
        self.assertEqual([row["HELD BY"] for row in self.table("list", "-a")],
                         ["- (abandoned)", "- (released)"])
        out = self.check(0, "show", "x").out
        self.assertRegex(out, r"(?m)^last +abandoned by \S+/sh@.*, token \d+, exit status 143"
                              r".*broken by \S+/holdfast@.*: why not$")
        self.assertNotRegex(out, "(?m)^done")

    def test_who_broke_a_lock_and_why(self):
        holder = self.hold("--ttl", "6s", "x")
        watcher = self.start("watch", "--json", "--interval", "50ms")
        self.assertEqual(json.loads(watcher.out.line())["event"], "grant")
        breaker = self.start("break", "x", "--reason", "host is gone")
        self.assertEqual((breaker.status(), holder.status()), (0, 76))
        reason = "broken by %s/holdfast@%s:%d: host is gone" % (cli.USER, socket.gethostname(), breaker.pid)
        loss = json.loads(watcher.out.line())
        self.assertEqual((loss["event"], loss["reason"]), ("loss", reason))
        self.assertEqual(self.json("show", "x", "--json")["last"]["reason"], reason)
        self.assertEqual([lock["last"]["reason"] for lock in self.json("list", "-a", "--json")], [reason])

    def test_work_that_was_done_before_the_last_holder_died(self):
        self.check(3, "run", "--once-per", "87600h", "x", "--", "sh", "-c", "exit 3")
        self.kill(self.hold("--once-per", "87600h", "--retry", "--ttl", "1s", "x"))
        self.check(0, "run", "-s", "x", "--", "true")
        done = r"(?m)^done +by \S+/sh@.* at .*, token \d+, exit status 3, period .* 00:00:00 to .*$"
        self.assertRegex(self.check(0, "show", "x").out, done)

    def test_show_shared_and_permits(self):
        self.hold("-s", "r")
        self.hold("--permits", "2", "--limit", "3", "s")
        out = self.check(0, "show", "r").out
        self.assertRegex(out, r"(?m)^limit +none: one exclusive holder, or any number of shared")
        self.assertRegex(out, r"(?m)^holder +\S+/sh@[^ ]+, shared, since ")
        self.assertNotRegex(out, "(?m)^(last|done|waiting)")
        out = self.check(0, "show", "s").out
        self.assertRegex(out, r"(?m)^limit +3 permits\ntoken +\d+\nholder +\S+/sh@[^ ]+, 2 of 3, ")

    def test_doctor(self):
        out = self.check(0, "doctor").out
        self.assertRegex(out, r"^STATE +TOPIC +FINDING\nok ")
        self.assertNotIn("DANGER", out)
        self.assertIn("ok     store ", out)
        self.assertIn(self.store, out)

    def test_the_doctor_looks_at_a_store_that_nobody_named(self):
        del self.env["HOLDFAST_STORE"]
        self.env["XDG_STATE_HOME"] = self.folder
        self.assertRegex(self.check(0, "doctor").out,
                         r"(?m)^LOOK +store +sqlite:.*/holdfast/locks\.db \(this user's own file\): no store is named")
        first = json.loads(self.check(0, "doctor", "--json").out)[0]
        self.assertEqual((first["topic"], first["wants_care"], first["is_danger"]), ("store", True, False))
        self.env["HOLDFAST_STORE"] = "private"
        self.assertRegex(self.check(0, "doctor").out, r"(?m)^ok +store .*\(this user's own file\)$")

    def test_the_doctor_finds_a_lease_that_is_over(self):
        """A lease that nobody renews; while nobody waits, it is not taken out."""
        self.check(0, "--ttl", "1s", "acquire", "over")
        self.check(0, "--ttl", "1h", "acquire", "under")
        deadline = time.monotonic() + cli.PATIENCE
        while (result := self.run_it("doctor")).returncode != 1:
            self.assertLess(time.monotonic(), deadline, result.out)
        out = result.out
        self.assertRegex(out, r"(?m)^DANGER +overdue lease +over: the lease of .+ has been over for \d+ s, ")
        self.assertNotIn("under", out)
        finding, = [each for each in json.loads(self.run_it("doctor", "--json").out)
                    if each["topic"] == "overdue lease"]
        self.assertTrue(finding["is_danger"])
        self.check(0, "run", "-w", "30s", "over", "--", "true")
        self.check(0, "doctor")

    def test_the_doctor_counts_the_leases_that_are_over(self):
        """It names a few of them, however many there are."""
        for i in range(12):
            self.check(0, "--ttl", "1s", "acquire", "over-%02d" % i)
        deadline = time.monotonic() + cli.PATIENCE
        while "7 more are held" not in (out := self.run_it("doctor").out):
            self.assertLess(time.monotonic(), deadline, out)
        self.assertEqual(out.count("overdue lease"), 6)
        self.assertRegex(out, r"(?m)^DANGER +overdue lease +over-00: the lease of ")

    def test_quiet_json_is_json_still(self):
        self.assertEqual(json.loads(self.check(0, "-q", "list", "--json").out), [])


class OnATerminal(cli.TerminalCase):
    NAME, WHY = "nightly-report/" + "of-the-shop-" * 8 + "north", "release 41 of everything " * 4

    def setUp(self):
        super().setUp()
        self.holder = self.hold("--why", self.WHY, self.NAME)
        self.hold("short")

    def lines(self, *words, columns=80, **env):
        """What is printed on a terminal of this width."""
        running = self.open([cli.BIN, "list", *words], columns=columns, **env)
        self.assertEqual(running.status(), 0)
        return running.screen.rest().replace("\r", "").splitlines()

    def test_it_fits_the_width(self):
        for columns in (72, 80, 100, 132):
            lines = self.lines(columns=columns)
            self.assertLessEqual(max(map(len, lines)), columns, lines)
            [row] = [line for line in lines if line.startswith("nig")]
            self.assertRegex(row, r"^nig\S*\u2026\S*rth +exclusive +\S+%d +\d\d:\d\d:\d\d .* "
                             r"release .*\u2026$" % (self.holder.pid % 100))
            self.assertNotIn("TOKEN", "".join(lines))

    def test_a_wide_one_has_everything(self):
        row = self.lines(columns=400)[-2]
        self.assertIn(self.NAME, row)
        self.assertIn(self.WHY.rstrip(), row)
        self.assertIn(str(self.json("list", "--json")[0]["token"]), row)

    def test_columns_say_how_wide(self):
        self.assertGreater(len(self.lines(COLUMNS="100")[-2]), 80)

    def test_in_full(self):
        piped = self.check(0, "list").out.splitlines()
        for words in (["-l"], ["--full"]):
            self.assertIn(self.NAME, self.lines(*words)[-2])
        self.assertIn("TOKEN", piped[0])
        self.assertIn(self.NAME, piped[1])

    def test_a_pipe_and_a_file_are_never_cut(self):
        env = {"COLUMNS": "40"}
        self.assertIn(self.WHY.rstrip(), self.check(0, "list", env={**self.env, **env}).out)
        path = self.path("out")
        with open(path, "w") as out:
            running = self.start("list", stdout=out, env={**self.env, **env})
            self.assertEqual(running.status(), 0)
        with open(path) as out:
            self.assertIn(self.WHY.rstrip(), out.read())

    def test_the_store_stands_above(self):
        self.assertEqual(self.lines(columns=200)[0], "store: " + self.store)
        first = self.lines(columns=30)[0]
        self.assertRegex(first, "^store: sqlite.*\u2026.*locks\\.db$")
        self.assertEqual(len(first), 30)
        self.assertEqual(self.lines("-l", columns=30)[0], "store: " + self.store)

    def test_the_store_by_its_name_and_without_a_password(self):
        with open(self.path("config"), "w") as out:
            out.write("[stores]\ndesk = %s\nprod = mongodb://me:secret@127.0.0.1:1/x\n" % self.store)
        os.chmod(self.path("config"), 0o600)
        self.env.update(HOLDFAST_CONFIG=self.path("config"), HOLDFAST_STORE="desk")
        self.assertEqual(self.lines(columns=200)[0], "store: desk (%s)" % self.store)

    def test_what_is_overdue_is_red_and_counted(self):
        self.wait("short")
        self.assertNotIn("\x1b", "\n".join(self.lines()))
        self.check(0, "--ttl", "1s", "acquire", "over")
        deadline = time.monotonic() + cli.PATIENCE
        while not any((holder["lease_left_ms"] or 0) < 0 for lock in self.json("list", "--json")
                      for holder in lock["holders"]):
            self.assertLess(time.monotonic(), deadline)
        lines = self.lines(columns=60)
        [row] = [line for line in lines if "\x1b" in line]
        self.assertRegex(row, "^\x1b\\[31mover .*over by .*\x1b\\[0m$")
        self.assertLessEqual(len(row), 60 + len("\x1b[31m\x1b[0m"))
        self.assertEqual(lines[-1], "3 held, 1 waiting, 1 overdue")
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            plain = self.lines(**env)
            self.assertNotIn("\x1b", "\n".join(plain))
            self.assertEqual(plain[-1], "3 held, 1 waiting, 1 overdue")
        piped = self.check(0, "list").out
        self.assertNotIn("\x1b", piped)
        self.assertNotIn("overdue", piped)

    def test_where_there_is_none_it_says_where(self):
        for words, said in (((), "no lock is held or waited for in %s"), (("-a",), "there is no lock in %s"),
                            (("zz",), 'no lock whose name begins with "zz" is held or waited for in %s'),
                            (("-a", "zz"), 'there is no lock whose name begins with "zz" in %s')):
            if "zz" not in words:
                self.env["HOLDFAST_STORE"] = "sqlite:" + self.path("empty.db")
            self.assertEqual(self.lines(*words, columns=200),
                             ["holdfast: " + said % self.env["HOLDFAST_STORE"]])
            self.assertEqual(self.lines("-q", *words), [])
            self.env["HOLDFAST_STORE"] = self.store
            piped = self.check(0, "list", *words, "--store", "sqlite:" + self.path("empty.db"))
            self.assertEqual((len(piped.out.splitlines()), piped.err), (1, ""))

    def test_a_narrow_one_is_cut_hard(self):
        lines = self.lines(columns=30)
        self.assertLessEqual(max(map(len, lines)), 30, lines)
        self.assertTrue(all(line.endswith("\u2026") for line in lines[1:]), lines)


if __name__ == "__main__":
    cli.main()
