#!/usr/bin/python3
"""The page in a real browser: it shows contention as it happens, breaks a lock, comes back after its
connection was lost, and takes nothing for more than text. test_page_pictures looks at it.
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import time

from selenium.webdriver.common.keys import Keys

import browsing
from browsing import TOKENS


# Which silence of the service the page waits for, and what it does then.
QUIET = """{
    const was = setTimeout;
    window.quiet = [];
    setTimeout = (then, ms) => {
        if (ms >= 2500 && ms <= 10000)
            quiet.push({then, ms});
        return was(then, ms);
    };
}"""


# Which service it is said to be: one whose store has no queue.
NO_QUEUE = """{
    const was = fetch;
    fetch = async (path, ...more) => {
        const answer = await was(path, ...more);
        return path !== "v1/service" ? answer :
            new Response(JSON.stringify({...await answer.json(), protocol: "ttl", store: "no queue"}));
    };
}"""


class Page(browsing.Case):
    def test_contention_as_it_happens(self):
        service = self.serve()
        self.open(service)
        self.wait_for(lambda: self.texts("#none") == ["Nobody holds a lock."], "none")
        holder = self.hold("--why", "release 41", "deploy")
        self.wait_for(lambda: self.names() == ["deploy"], "the lock")
        self.assertEqual(self.texts(".holder .why"), ["release 41"])
        left = self.lease_left()
        self.wait_for(lambda: self.lease_left() < left, "the lease to shrink")
        first = self.wait("--why", "release 42", "deploy", command=("cat",))
        self.wait_for(lambda: len(self.texts(".queue li")) == 1, "the first waiter")
        self.wait("--why", "release 43", "deploy")
        self.wait_for(lambda: self.texts(".queue .why") == ["release 42", "release 43"], "both")
        self.assertRegex(self.find(".queue .since").get_attribute("title"), "^since .*[0-9]")
        holder.close_input()
        self.wait_for(lambda: self.texts(".holder .why") == ["release 42"], "the hand-over")
        self.assertEqual(self.texts(".queue .why"), ["release 43"])
        self.press("summary")
        told = " ".join(self.texts(".history li"))
        for word in ("has it: release 41", "has it: release 42", "gave it back", "waits"):
            self.assertIn(word, told)
        first.close_input()
        self.wait_for(lambda: not self.names(), "the end")
        self.find("#idle").click()
        self.wait_for(lambda: self.names() == ["deploy"], "the free one, which is asked for now")
        self.assertIn("free", self.texts("#locks .kind")[0])

    def test_how_many_wait_at_this_service(self):
        service = self.serve()
        self.assertEqual(service.acquire("deploy", ttl_ms=30000).status, 201)
        self.open(service)
        for _ in range(3):
            self.ask(service, "deploy", wait_ms=60000)
        self.wait_for(lambda: self.texts(".here") ==
                      ["3 requests wait at this service; exclusive ones share a place in the queue"],
                      "all three")

    def test_how_many_wait_where_there_is_no_queue(self):
        self.open(self.serve())
        said = self.driver.execute_async_script("""
            const done = arguments[0], lock = {name: "x", holders: [], queue: []};
            import("/card.js").then(({entries, waitingAt}) => done([0, 1, 2].map(n => [
                waitingAt({...lock, waiting_here: n}),
                entries({...lock, waiting_here: n}, []).map(row => row.textContent).join()])));""")
        self.assertEqual(said, [[0, ""], [1, "1 request waits at this service"],
                                [2, "2 requests wait at this service"]])

    def test_a_wait_over_http_has_its_callers_name(self):
        service = self.serve()
        self.assertEqual(service.acquire("deploy", ttl_ms=30000).status, 201)
        self.open(service)
        self.ask(service, "deploy", wait_ms=60000, owner="shop")
        self.wait_for(lambda: self.texts(".queue .who") == ["shop@127.0.0.1"], "its place in the queue")

    def test_longest_waits_first_and_a_prefix(self):
        service = self.serve()
        for name in ("c", "a", "job/2", "job/1"):
            self.hold(name)
        self.wait("job/1")
        self.open(service)
        self.wait_for(lambda: self.names() == ["job/1", "c", "a", "job/2"], "this order")
        self.find("body").send_keys("/")
        self.driver.switch_to.active_element.send_keys("job/")
        self.assertEqual(self.names(), ["job/1", "job/2"])
        self.driver.switch_to.active_element.send_keys("nix")
        self.assertEqual(self.texts("#none"), ["No such lock is held or waited for."])

    def test_free_ones_are_asked_for_when_they_are_shown(self):
        self.note_streams()
        service = self.serve()
        for name in ("free", "job/1", "job/2"):
            self.check(0, "run", name, "--", "true")
        self.hold("held")
        self.open(service)
        self.wait_for(lambda: self.names() == ["held"], "what is in use")
        prefix = self.find("#prefix")
        prefix.send_keys("job/")
        self.assertEqual(self.texts("#none"), ["No such lock is held or waited for."])
        self.find("#idle").click()
        self.wait_for(lambda: sorted(self.names()) == ["job/1", "job/2"], "those that begin so")
        prefix.send_keys(Keys.BACKSPACE * len("job/"))
        self.wait_for(lambda: sorted(self.names()) == ["free", "held", "job/1", "job/2"], "all")
        self.state("live")
        self.assertEqual(self.streams()[-1], "v1/events?")
        self.find("#idle").click()
        self.assertEqual(self.names(), ["held"])
        self.wait_for(lambda: self.streams()[-1] == "v1/events?in_use=1", "no free ones to be asked for")
        self.state("live")
        self.assertEqual(self.names(), ["held"])

    def test_break_takes_an_admin(self):
        tokens = self.write("tokens", "".join("%s %s\n" % pair for pair in TOKENS.items()))
        service = self.serve("--token-file", tokens)
        holder = self.hold("--ttl", "6s", "x")
        self.driver.get(service.url)
        self.wait_for(lambda: self.find("#ask").is_displayed(), "the question for a token")
        self.assertEqual(self.find("#totals").text, "")  # not "0 held": it is not known yet
        self.token(TOKENS["read"])
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        self.assertEqual(self.texts(".break"), [])
        self.find("#token").click()
        self.token(TOKENS["admin"])
        self.state("live")
        self.wait_for(lambda: self.texts(".break") == ["Break"], "the right to break")
        self.by_keyboard_break("stuck since noon")
        self.wait_for(lambda: not self.find("#break").get_attribute("open"), "the break")
        self.assertEqual(holder.status(), 76)
        self.assertRegex(holder.err.rest(), "stuck since noon")
        self.wait_for(lambda: not self.names(), "the lock to be free")

    def test_where_no_holder_can_be_asked_none_is_broken(self):
        service = self.serve("--insecure-serve-anybody")
        self.hold("x")
        self.open(service)
        self.wait_for(lambda: self.texts(".break") == ["Break"], "the right to break")
        self.inject(NO_QUEUE)
        self.driver.get("about:blank")
        self.open(service)
        self.wait_for(lambda: self.texts("#store") == ["no queue"], "the service")
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        self.assertEqual(self.texts(".break"), [])

    def test_a_token_that_is_none(self):
        tokens = self.write("tokens", "".join("%s %s\n" % pair for pair in TOKENS.items()))
        service = self.serve("--token-file", tokens)
        self.driver.get(service.url)
        self.wait_for(lambda: self.find("#ask").get_attribute("open"), "to be asked for a token")
        self.assertFalse(self.find("#ask input[name=user]").is_displayed())
        self.assertEqual(self.find("#ask .problem").text, "")
        self.token("no-token-at-all-" + "x" * 10)
        self.wait_for(lambda: self.find("#ask .problem").text, "what is wrong with it")
        self.assertEqual(self.find("#ask .problem").text, "The service does not know this access token.")
        self.assertEqual(self.find("#state").text, "an access token is needed")
        self.assertEqual(self.find("#totals").text, "")
        self.token(TOKENS["read"])
        self.state("live")
        self.assertFalse(self.find("#ask").get_attribute("open"))

    def test_a_token_is_forgotten(self):
        """With what it has shown: the browser may be another's next."""
        tokens = self.write("tokens", "".join("%s %s\n" % pair for pair in TOKENS.items()))
        service = self.serve("--token-file", tokens)
        self.hold("x")
        self.driver.get(service.url)
        self.wait_for(lambda: self.find("#ask").get_attribute("open"), "to be asked for a token")
        self.assertFalse(self.find("#ask .forget").is_displayed())
        self.token(TOKENS["read"])
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        self.find("#token").click()
        self.find("#ask .forget").click()
        self.wait_for(lambda: self.find("#ask").get_attribute("open") and not self.names(), "to be asked again")
        self.assertFalse(self.find("#ask .forget").is_displayed())
        self.assertEqual(self.driver.execute_script("return sessionStorage.length"), 0)
        self.driver.refresh()
        self.wait_for(lambda: self.find("#ask").get_attribute("open"), "to be asked still")
        self.assertEqual(self.names(), [])

    def test_a_lease_that_is_over_comes_first(self):
        service = self.serve()
        self.hold("held")
        self.hold("waited for")
        self.wait("waited for")
        self.assertEqual(service.acquire("over", ttl_ms=1000).status, 201)
        self.open(service)
        self.wait_for(lambda: self.names() == ["over", "waited for", "held"], "trouble first")
        self.assertEqual(self.texts(".lock.overdue .name"), ["over"])
        self.assertRegex(self.texts(".over .left")[0], "^over by ")
        self.assertEqual(self.find("#totals").text, "3 held, 1 waiting, 1 overdue")
        self.find("#order option[value=name]").click()
        self.assertEqual(self.names(), ["held", "over", "waited for"])
        self.find("#order option[value=held]").click()
        self.assertEqual(self.names(), ["held", "waited for", "over"])
        self.find("#order option[value=waited]").click()
        self.assertEqual(self.names(), ["waited for", "held", "over"])

    def test_a_lease_that_is_not_known(self):
        """Its session was dropped."""
        self.check(0, "acquire", "x")
        with contextlib.closing(sqlite3.connect(self.path("locks.db"))) as db, db:
            db.execute("DELETE FROM sessions")
        service = self.serve()
        self.open(service)
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        self.assertEqual(self.texts(".left"), ["not known"])
        self.assertEqual(self.find("#totals").text, "1 held, 0 waiting")
        self.driver.get("about:blank")
        self.open(service, "/#lock=x")
        self.wait_for(lambda: self.texts("#one .left") == ["not known"], "the second look")

    def test_search_looks_into_names_holders_and_reasons(self):
        service = self.serve()
        self.hold("--owner", "alice/release", "--why", "version 41", "deploy")
        self.hold("--owner", "bob/backup", "--why", "every night", "storage")
        self.wait("--owner", "carol/restore", "--why", "lost files", "storage")
        self.open(service)
        self.wait_for(lambda: self.names() == ["storage", "deploy"], "both")
        search = self.find("#search")
        for word, found in (("DEPLO", ["deploy"]), ("Alice/", ["deploy"]), ("ersion 4", ["deploy"]),
                            ("STOR", ["storage"]), ("bob", ["storage"]), ("every", ["storage"]),
                            ("carol/", ["storage"]), ("FILES", ["storage"]), ("/re", ["storage", "deploy"]),
                            ("alice/backup", []), ("41 ", [])):
            search.clear()
            search.send_keys(word)
            self.assertEqual(self.names(), found, word)

    def test_process_ids_and_tokens_are_small(self):
        service = self.serve()
        holder = self.hold("--owner", "alice", "x")
        waiter = self.wait("--owner", "bob", "x")
        self.open(service)
        self.wait_for(lambda: len(self.texts("#locks .who")) == 2, "both")
        self.assertEqual(self.texts("#locks .who small"), [":%d" % holder.pid, ":%d" % waiter.pid])
        self.assertRegex(self.texts(".holder .token")[0], r"^token \d+$")
        for selector in ("#locks .who small", "#locks .token"):
            looks = [self.find(selector).value_of_css_property(name) for name in ("font-size", "font-weight")]
            self.assertEqual(looks, ["12.75px", "400"], selector)
        self.assertEqual(self.find("#locks .who").value_of_css_property("font-size"), "15px")

    def test_comes_back(self):
        service = self.serve()
        self.hold("x")
        self.open(service)
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        service.running.signal(signal.SIGKILL)
        service.running.status()
        self.state("lost")
        self.assertEqual(self.names(), ["x"])
        self.hold("y")
        self.start("serve", "--listen", "127.0.0.1:%d" % service.port)
        self.state("live")
        self.wait_for(lambda: sorted(self.names()) == ["x", "y"], "what came meanwhile")

    def test_a_service_that_says_nothing(self):
        """Not even that it is there. How long the page waits for that is left to the test."""
        self.inject("const was = setTimeout; window.silence = [];"
                    "setTimeout = (then, ms) => ms < 20000 ? was(then, ms) : -silence.push(then);")
        service = self.serve()
        self.hold("x")
        self.open(service)
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        service.running.signal(signal.SIGSTOP)
        self.driver.execute_script("silence.at(-1)()")
        self.state("lost")
        self.assertRegex(self.find("#away-text").text,
                         r"^The service does not answer\. What is shown was so at \d.*\. Trying again\.$")
        service.running.signal(signal.SIGCONT)
        self.state("live")
        self.assertFalse(self.find("#away").is_displayed())

    def test_a_service_that_stands_still(self):
        """It is told of within seconds, and the connection serves on. The next time it takes no longer."""
        self.inject(QUIET)
        service = self.serve()
        self.hold("x")
        self.open(service)
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        service.running.signal(signal.SIGSTOP)
        began = time.monotonic()
        self.state("lost")
        self.assertLess(time.monotonic() - began, 20)
        self.assertRegex(self.find("#away-text").text, "^The service does not answer. What is shown was so at ")
        service.running.signal(signal.SIGCONT)
        self.state("live")
        self.assertFalse(self.find("#away").is_displayed())
        self.wait_for(lambda: self.driver.execute_script("return quiet.at(-1).ms") == 2500,
                      "its usual patience")

    # What is shown of the service and its store

    def test_the_names_of_service_and_store(self):
        service = self.serve()
        self.open(service)
        self.wait_for(lambda: self.texts("#store") == [self.store], "the store")
        self.assertEqual(self.texts("#service"), ["%s, 127.0.0.1:%d" % (socket.gethostname(), service.port)])
        self.assertEqual(self.driver.title, "%s \u00b7 Holdfast" % self.store)

    def test_a_store_that_is_away(self):
        folder = self.path("removed")
        os.mkdir(folder)
        self.env["HOLDFAST_STORE"] = "sqlite:%s/locks.db" % folder
        service = self.serve()
        self.hold("x")
        self.set_clock()
        self.inject(QUIET)
        self.open(service)
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        self.assertFalse(self.find("#away").is_displayed())
        shutil.rmtree(folder)
        self.state("lost")
        self.driver.execute_script("quiet.at(-1).then()")  # beats are late, too
        self.assertRegex(self.find("#away-text").text, r"^The service does not reach its store\. What is "
                         r"shown was so at \d.*\. Trying again\.$")
        self.assertRegex(self.find("#away-detail").text, "was removed")
        self.assertEqual(self.names(), ["x"])
        left = self.texts(".left")
        self.put_ahead(3600000)
        self.find("#order option[value=name]").click()  # it is drawn anew
        self.assertEqual((self.texts(".over"), self.texts(".left")), ([], left), "nobody knows that it is over")
        self.assertEqual(self.find("#totals").text, "1 held, 0 waiting")

    def test_a_store_that_says_nothing(self):
        """It is told of; no password is."""
        door = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(door.close)
        self.env["HOLDFAST_STORE"] = ("mongodb://me:secret@127.0.0.1:%d/x?serverSelectionTimeoutMS=600000"
                                      % door.getsockname()[1])
        service = self.serve()
        self.driver.get(service.url)
        self.wait_for(lambda: self.find("#away").is_displayed(), "to be told")
        self.assertEqual(self.find("#away-text").text,
                         "The service does not reach its store. Trying again.")
        self.assertTrue(self.find("#away-detail").text)
        self.assertFalse(self.find("#none").is_displayed(), "it is not known that nobody holds a lock")
        self.wait_for(lambda: self.find("#store").text, "the store's name")
        self.assertIn("me:***@127.0.0.1", self.find("#store").text)
        self.assertNotIn("secret", self.driver.page_source)

    def test_html_stays_text(self):
        evil = "<img src=x onerror=document.title='bad'><b>&amp;</b>"
        service = self.serve("--insecure-serve-anybody")
        self.hold("--why", evil, evil)
        self.wait("--why", evil, evil)
        self.open(service)
        self.wait_for(lambda: self.names() == [evil], "the lock")
        self.assertEqual(self.texts(".why"), [evil, evil])
        self.press(".break")
        self.assertEqual(self.texts("#break .name"), [evil])
        self.assertEqual(self.texts("#locks img, #locks .why b, dialog img"), [])
        self.press("#break .cancel")
        self.press("a.name")
        self.wait_for(lambda: self.chain(), "the second look")
        self.assertEqual(self.title(), [evil])
        self.assertEqual(self.texts("#one img, #one .why b, #one h2 b"), [])
        self.assertEqual(self.driver.title, "%s \u00b7 %s \u00b7 Holdfast" % (evil, self.store))

    def test_what_makes_names_look_like_others_is_shown(self):
        service = self.serve("--insecure-serve-anybody")
        evil, shown = "yolp\u202eed\u200b", "yolp\\u{202e}ed\\u{200b}"
        self.hold("--why", evil, evil)
        self.open(service)
        self.wait_for(lambda: self.names() == [shown], "the lock")
        self.assertEqual(self.texts(".why"), [shown])
        self.press(".break")
        self.assertEqual(self.texts("#break .name"), [shown])
        self.press("#break .cancel")
        self.press("a.name")
        self.wait_for(lambda: self.chain(), "the second look")
        self.assertEqual(self.title(), [shown])

    def test_needs_nothing_from_elsewhere(self):
        service = self.serve()
        self.open(service)
        loaded = self.driver.execute_script(
            "return performance.getEntriesByType('resource').map(e => e.name)")
        self.assertTrue(loaded)
        for url in loaded:
            self.assertTrue(url.startswith((service.url + "/", "data:")), url)
        policy = service.get("/").headers["Content-Security-Policy"]
        self.assertRegex(policy, "^default-src 'none'; script-src 'self';")


if __name__ == "__main__":
    browsing.main()
