#!/usr/bin/python3
"""`holdfast run --once-per`: of all that start a command in a period, one runs it."""
# SPDX-License-Identifier: Apache-2.0
import calendar
import os
import signal
import time

import cli

TEN_YEARS = "87600h"  # none ends before 2029


class Once(cli.Case):
    def once(self, *words, per=TEN_YEARS):
        """The words of a run that leaves a line in the file `ran`."""
        return ["run", "--once-per", per, *words, "job", "--", "sh", "-c",
                'echo run >> "$0"', self.path("ran")]

    def times(self):
        if not os.path.exists(self.path("ran")):
            return 0
        with open(self.path("ran")) as ran:
            return len(ran.readlines())

    def fail_it(self, status):
        self.check(status, "run", "--once-per", TEN_YEARS, "job", "--", "sh", "-c",
                   "exit %d" % status)

    def last(self):
        return self.json("show", "job", "--json")["last"]

    def test_of_all_that_start_it_one_runs(self):
        started = [self.start(*self.once()) for _ in range(8)]
        said = []
        for each in started:
            self.assertEqual(each.status(), 0)
            said.append(each.err.rest())
        self.assertEqual(self.times(), 1)
        self.assertEqual(sorted(bool(text) for text in said), [False] + 7 * [True])
        for text in filter(None, said):
            self.assertRegex(text, r'^holdfast: "job" has run in this period: by \S+/sh@.*:\d+, until '
                                   r"\d\d:\d\d:\d\d, with exit status 0\n$")

    def test_who_skips_leaves_the_record_as_it_is(self):
        self.check(0, *self.once())
        last = self.last()
        self.check(0, *self.once())
        self.assertEqual(self.last(), last)
        self.assertEqual((last["outcome"], last["exit_status"]), ("released", 0))
        self.assertRegex(last["period"], r"^20\d\d-\d\d-\d\dT00:00:00.000Z$")
        self.assertLess(last["period"], last["at"])
        self.assertLess(last["at"], last["period_end"])
        self.assertRegex(self.check(0, "show", "job").out,
                         r"(?m)^last .*, exit status 0, period 20.* 00:00:00 to 20.* 00:00:00$")

    def test_a_code_that_shows_the_difference(self):
        self.check(0, *self.once("--skip-code", "9"))
        self.check(9, *self.once("--skip-code", "9"))
        self.assertEqual(self.check(9, "-q", *self.once("--skip-code", "9")).err, "")
        self.assertEqual(self.times(), 1)

    def test_one_that_failed_is_repeated_only_when_asked(self):
        self.fail_it(3)
        self.assertIn("with exit status 3", self.check(0, *self.once()).err)
        self.assertEqual(self.times(), 0)
        self.check(0, *self.once("--retry"))
        self.check(0, *self.once("--retry"))
        self.assertEqual(self.times(), 1)

    def test_one_that_died_is_taken_over(self):
        holder = self.hold("--once-per", TEN_YEARS, "job")
        waiter = self.start("-v", *self.once())
        waiter.err.expect(r"waiting for .*\n")
        holder.signal(signal.SIGKILL)
        self.assertEqual(waiter.status(), 0)
        self.assertIn("was abandoned by", waiter.err.rest())
        self.assertEqual(self.times(), 1)
        self.check(0, *self.once())
        self.assertEqual(self.times(), 1)

    def test_one_that_was_broken_is_taken_over(self):
        holder = self.hold("--once-per", TEN_YEARS, "job")
        self.check(0, "break", "job", "--reason", "stuck")
        self.assertEqual(holder.status(), 76)
        self.check(0, *self.once())
        self.assertEqual(self.times(), 1)

    def test_who_waits_finds_it_done(self):
        holder = self.hold("--once-per", TEN_YEARS, "job")
        waiter = self.start("-v", *self.once("--skip-code", "9"))
        waiter.err.expect(r"waiting for .*\n")
        holder.close_input()
        self.assertEqual((holder.status(), waiter.status()), (0, 9))
        self.assertEqual(self.times(), 0)

    def test_who_may_not_wait(self):
        self.hold("--once-per", TEN_YEARS, "job")
        self.check(75, *self.once("-n"))

    def test_in_the_next_period_it_runs_again(self):
        self.check(0, *self.once(per="1s"))
        deadline = time.monotonic() + cli.PATIENCE
        while self.times() < 2:
            self.assertLess(time.monotonic(), deadline)
            self.check(0, *self.once(per="1s"))

    def test_a_command_that_cannot_be_started_has_not_run(self):
        self.check(127, "run", "--once-per", TEN_YEARS, "job", "--", "no-such-command")
        self.assertEqual(self.last()["outcome"], "none")
        self.check(0, *self.once("--skip-code", "9"))
        self.assertEqual(self.times(), 1)

    def test_words_for_lengths(self):
        for word, hours in (("hourly", 1), ("daily", 24), ("90m", 1.5)):
            self.check(0, "run", "--once-per", word, word, "--", "true")
            last = self.json("show", word, "--json")["last"]
            start, end = (self.seconds_of(last[key]) for key in ("period", "period_end"))
            self.assertEqual((end - start, start % (end - start)), (hours * 3600, 0))

    @staticmethod
    def seconds_of(text):
        return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S.000Z"))

    def test_wrong_words(self):
        x = ["x", "--", "true"]
        for status, pattern, *words in (
            (64, "belong to --once-per", "--retry", *x),
            (64, "belong to --once-per", "--skip-code", "1", *x),
            (64, "takes one name", "--once-per", "daily", "y", *x),
            (64, "by one", "--once-per", "daily", "-s", *x),
            (64, "by one", "--once-per", "daily", "--permits", "1", "--limit", "2", *x),
            (64, "takes one name", "--once-per", "daily", "--document", "c", "--", "true"),
            (65, '"weekly" is no period: write hourly, daily, ', "--once-per", "weekly", *x),
            (65, '"1w" is not a duration', "--once-per", "1w", *x),
            (65, '"" is no period', "--once-per", "", *x),
            (65, "at least 1s", "--once-per", "999ms", *x),
            (65, "at least 1s", "--once-per", "0", *x),
            (65, "at most 87600 h", "--once-per", "87601h", *x),
            (65, "out of range: 0 to 255", "--once-per", "1h", "--skip-code", "256", *x),
        ):
            self.assertRegex(self.check(status, "run", *words).err, pattern)


if __name__ == "__main__":
    cli.main()
