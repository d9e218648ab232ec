#!/usr/bin/python3
"""The second look at one lock, and the page with ten thousand of them, in a real browser."""
# SPDX-License-Identifier: Apache-2.0
import signal
import socket
import sqlite3
import time

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import browsing
from browsing import TOKENS


class One(browsing.Case):
    def test_a_second_look_at_one_lock(self):
        service = self.serve()
        self.hold("--why", "restore", "storage")
        self.open(service)
        waiter = self.wait("--ttl", "6s", "--why", "migration", "deploy", "storage")
        self.wait_for(lambda: sorted(self.names()) == ["deploy", "storage"], "both")
        self.press("[data-name=deploy] a.name")
        self.wait_for(lambda: self.title() == ["deploy"], "the second look")
        self.assertEqual(self.focused(), "deploy")
        self.assertFalse(self.find("#list").is_displayed() or self.find("#search").is_displayed())
        self.wait_for(lambda: len(self.chain()) == 2, "the chain to the root")
        first, second = self.chain()
        self.assertRegex(first, r"^deploy is held by \S+:%d for \w+ migration$" % waiter.pid)
        self.assertRegex(second, r"^which waits for storage, held by \S+ for \w+ restore \u2190 the root")
        self.assertRegex(self.texts(".seen li")[0], "has it: migration")
        self.press(".chain li:nth-child(2) a")
        self.wait_for(lambda: self.title() == ["storage"], "the root")
        self.assertEqual(self.texts("#one .queue .why"), ["migration"])
        ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.wait_for(lambda: self.find("#list").is_displayed(), "the list")
        self.assertEqual(self.focused(), "storage")
        self.driver.back()
        self.wait_for(lambda: self.title() == ["storage"], "the lock once more")

    def test_a_link_to_one_lock(self):
        service = self.serve()
        name = "a/b #%&<i>\u00fc"
        self.check(3, "run", name, "--", "sh", "-c", "exit 3")
        self.hold("other")
        self.open(service)
        self.wait_for(lambda: self.names() == ["other"], "what is in use")
        link = self.driver.execute_script("return '/#lock=' + encodeURIComponent(arguments[0])", name)
        self.driver.get("about:blank")
        self.open(service, link)
        self.wait_for(lambda: self.title() == [name], "the lock")
        self.wait_for(lambda: self.texts(".last li"), "how it was left")
        self.assertRegex(self.texts(".last li")[0], "gave it back, exit status 3$")
        self.assertEqual(self.texts("#one .kind"), [" free"])
        holder = self.hold("--why", "release 41", name)
        self.wait_for(lambda: self.texts("#one .holder .why") == ["release 41"], "its holder")
        self.wait_for(lambda: len(self.chain()) == 1, "why it is not free")
        holder.close_input()
        self.wait_for(lambda: len(self.texts(".seen li")) == 2, "what was seen of it")
        self.wait_for(lambda: self.texts("#one .kind") == [" free"], "that it is free")
        self.assertEqual(self.texts(".chain, #one .holder"), [])
        self.press(".back")
        self.wait_for(lambda: self.names() == ["other"], "the list, which is asked for now")

    def test_names_that_browsers_take_out_of_a_path(self):
        service = self.serve("--insecure-serve-anybody")
        for name in (".", ".."):
            self.check(0, "run", name, "--", "true")
            holder = self.hold("--ttl", "6s", "--why", "release 41", name)
            self.open(service, "/#lock=" + name)
            self.wait_for(lambda: self.title() == [name], "the lock")
            self.wait_for(lambda: len(self.chain()) == 1, "why it is not free")
            self.assertIn("%s is held by " % name, self.chain()[0])
            self.wait_for(lambda: len(self.texts(".turns li")) == 1, "its turn")
            self.by_keyboard_break("too long")
            self.wait_for(lambda: self.texts("#one .kind") == [" free"], "that it is free")
            self.assertEqual(holder.status(), 76)
            self.driver.get("about:blank")

    def test_the_turns_that_have_ended(self):
        service = self.serve()
        self.check(3, "run", "--why", "backup", "x", "--", "sh", "-c", "exit 3")
        self.check(0, "run", "--why", "<i>long</i>", "x", "--", "sleep", "0.3")
        self.open(service, "/#lock=x")
        self.wait_for(lambda: len(self.texts(".turns li")) == 2, "both turns")
        last, first = self.texts(".turns li")
        self.assertRegex(last, r" for \d+\w+ .*<i>long</i> \u00b7 gave it back, exit status 0$")
        self.assertRegex(first, r"backup \u00b7 gave it back, exit status 3$")
        long, short = (self.driver.execute_script(
            "return document.querySelectorAll('.turns .bar')[arguments[0]].offsetWidth", i) for i in (0, 1))
        self.assertGreater(long, short)
        self.assertEqual(self.texts(".turns .failed"), [first])
        self.check(0, "acquire", "--ttl", "1s", "--owner", "shop", "x")
        self.check(0, "break", "--reason", "nobody renews it", "x")
        self.wait_for(lambda: len(self.texts(".turns li")) == 3, "that of an owner")
        self.assertEqual(self.texts(".turns .who")[0], "shop@" + socket.gethostname())
        self.hold("x")
        self.check(0, "break", "--reason", "too long", "x")
        self.wait_for(lambda: len(self.texts(".turns .loss")) == 2, "the one that was broken")
        self.assertRegex(self.texts(".turns .loss")[0], "was made to leave.*: broken by .*: too long$")

    def test_the_turns_stay_when_the_service_has_gone(self):
        service = self.serve()
        self.check(0, "run", "x", "--", "true")
        self.hold("x")
        self.open(service, "/#lock=x")
        self.wait_for(lambda: len(self.texts(".turns li")) == 1, "the turn")
        self.driver.execute_script("""
            const real = fetch;
            window.failed = 0;
            window.fetch = (path, ...rest) => real(path, ...rest).catch(error => {
              window.failed += path.startsWith("v1/history/");
              throw error;
            });""")
        service.running.signal(signal.SIGKILL)
        self.wait_for(lambda: self.driver.execute_script("return failed") > 1, "looks without an answer")
        self.assertEqual(len(self.texts(".turns li")), 1)

    def test_a_link_to_none(self):
        service = self.serve()
        self.open(service, "/#lock=never")
        self.wait_for(lambda: self.texts("#one .problem"), "to be told")
        self.assertRegex(self.texts("#one .problem")[0], "^There is no record of this lock")
        self.hold("never")
        self.wait_for(lambda: self.texts("#one .holder"), "its holder")
        self.assertEqual(self.texts("#one .problem"), [])
        self.open(service, "/#lock=%zz")
        self.wait_for(lambda: self.names() == ["never"], "the list")

    def test_a_link_with_a_token_asked_for(self):
        tokens = self.write("tokens", "".join("%s %s\n" % pair for pair in TOKENS.items()))
        service = self.serve("--token-file", tokens)
        self.check(0, "run", "x", "--", "true")
        self.driver.get(service.url + "/#lock=x")
        self.token(TOKENS["read"])
        self.wait_for(lambda: self.texts(".last li"), "how it was left")
        self.assertEqual(self.texts("#one .problem"), [])

    def test_break_from_the_second_look(self):
        service = self.serve("--insecure-serve-anybody")
        holder = self.hold("--ttl", "6s", "x")
        self.open(service, "/#lock=x")
        self.by_keyboard_break("stuck since noon")
        self.wait_for(lambda: self.texts(".last .loss"), "the loss")
        self.assertRegex(self.texts(".last .loss")[0], "lost it.*stuck since noon")
        self.assertEqual(holder.status(), 76)


class VeryMany(browsing.Case):
    def fill(self, n):
        """So many locks that are held, all by one session."""
        self.hold("--ttl", "10m", "--why", "one of many", "lock%06d" % 0)
        with sqlite3.connect(self.path("locks.db")) as db:
            [[record]] = db.execute("SELECT record FROM locks")
            for i in range(1, n):
                name = "lock%06d" % i
                db.execute("INSERT INTO locks(name, record) VALUES(?, ?)",
                           (name, record.replace(b"lock%06d" % 0, name.encode())))

    def time_first_row(self):
        self.inject("new MutationObserver((_, o) => { if (document.querySelector('#locks li')) {"
                    "  window.firstRowMs = performance.now(); o.disconnect(); } })"
                    ".observe(document, {childList: true, subtree: true});")

    def time_draw(self):
        """The list, drawn anew; in ms."""
        return self.driver.execute_script(
            "const began = performance.now();"
            "document.querySelector('#order').dispatchEvent(new Event('change'));"
            "return performance.now() - began")

    def test_ten_thousand_locks(self):
        n = 10000
        self.fill(n)
        service = self.serve()
        self.time_first_row()
        self.open(service)
        self.wait_for(lambda: len(self.names()) == 100, "a hundred of them")
        self.assertEqual(self.find("#totals").text, "%d held, 0 waiting" % n)
        self.assertEqual(self.find("#more").text, "Show 100 more of %d" % (n - 100))
        first_ms = self.driver.execute_script("return window.firstRowMs")
        draws = sorted(self.time_draw() for _ in range(9))
        began = time.monotonic()
        self.wait("lock%06d" % 5000)
        waits = time.monotonic()
        self.wait_for(lambda: self.names()[0] == "lock%06d" % 5000, "the one that is waited for on top")
        print("first row after %.0f ms; drawing the list anew takes %.1f ms (%.1f..%.1f); a waiter is shown "
              "after %.0f to %.0f ms" % (first_ms, draws[4], draws[0], draws[-1], 1000 *
                                         (time.monotonic() - waits), 1000 * (time.monotonic() - began)))
        self.press("#more")
        self.assertEqual(len(self.names()), 200)
        self.assertEqual(self.focused(), "Show 100 more of %d" % (n - 200))
        self.find("#search").send_keys("9999")
        self.assertEqual(self.names(), ["lock009999"])
        self.assertFalse(self.find("#more").is_displayed())

    def test_one_of_very_many_asks_for_one(self):
        self.fill(2000)
        service = self.serve()
        self.note_streams()
        self.open(service, "/#lock=lock001999")
        self.wait_for(lambda: self.texts("#one .holder .why") == ["one of many"], "the lock")
        self.assertEqual(self.streams(), ["v1/events?prefix=lock001999&in_use=1"])


if __name__ == "__main__":
    browsing.main()
