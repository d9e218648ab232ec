#!/usr/bin/python3
"""The page on a busy day: what is in trouble stands out, nothing is cut off, on a screen and on a phone,
in the light and in the dark. HOLDFAST_SCREENSHOTS=docs makes the pictures of the README and of
docs/http.md anew.
"""
# SPDX-License-Identifier: Apache-2.0
import re
import signal

import browsing
import scene
from browsing import TOKENS

SCREENS = {"": ("light", 1000, 1100), "-dark": ("dark", 1000, 1100), "-phone": ("dark", 390, 1300)}
NOW = 15  # the minute that the pictures show
PLAYERS = {"alice/release@build1", "bob/release@build2", "carol/release@build2", "carol/migrate@db2",
           "dave/restore@db1", "erin/read@app1", "erin/read@app2", "frank/encode@media1", "cron/report@app1",
           "warehouse@10.0.0.8", "shop@10.0.0.7"}

# What sticks out of its place, and what has more text than place.
CUT_OFF = """
    const width = document.documentElement.clientWidth;
    return [...document.querySelectorAll("header *, main *")].filter(e => {
        const box = e.getBoundingClientRect();
        return box.width && !e.closest("select") &&
            (box.left < 0 || box.right > width || e.scrollWidth > Math.ceil(box.width) + 1);
    }).map(e => `${e.outerHTML.slice(0, 80)} in ${width}`)"""


class Long(scene.Case):
    def waited_ms(self):
        """As it is shown, in whole seconds."""
        minutes, seconds = re.fullmatch(r"(?:(\d+)m)?(\d+)s", self.first(".queue .since")).groups()
        return 1000 * (60 * int(minutes or 0) + int(seconds))

    def put_to(self, ms):
        """Then the wait is as long as that, by whole seconds."""
        ms = ms // 1000 * 1000
        self.put_ahead(ms - self.waited_ms())
        self.wait_for(lambda: self.waited_ms() == ms, "the clock")

    def hand_over(self, service, waited_min):
        """Somebody waits for so long, and gets the lock; then somebody else waits."""
        holder = self.hold("--owner", "alice@build1", "x")
        self.wait_for(lambda: self.names() == ["x"], "the lock")
        with self.at(1, service):
            self.wait("--owner", "bob@build2", "x", command=("cat",))
        self.wait_for(lambda: self.texts(".queue li"), "the wait")
        with self.at(1 + waited_min, service):
            holder.close_input()
            holder.status()
        self.wait_for(lambda: self.first(".holder .who").startswith("bob"), "the hand-over")
        with self.at(5, service):
            self.wait("--owner", "carol@build2", "x")
        self.wait_for(lambda: self.texts(".queue li"), "the next wait")

    def check_long(self, waited_min, expected_ms):
        """A wait is long from then on."""
        self.set_clock()
        service = self.serve()
        self.open(service)
        self.hand_over(service, waited_min)
        usual_ms = int(self.find(".queue .since").get_attribute("data-usual"))
        long_ms = expected_ms(usual_ms)
        self.put_ahead(6 * scene.MINUTE_MS)
        self.wait_for(lambda: self.waited_ms(), "the clock")
        self.assertGreater(usual_ms, 0)
        self.put_to(long_ms - 2000)
        self.assertEqual(self.texts(".queue .long"), [])
        self.put_to(long_ms + 1000)
        self.wait_for(lambda: self.texts(".queue .long"), "to see that this is long")

    def test_where_one_waits_for_a_moment(self):
        self.check_long(0.05, lambda usual_ms: max(scene.MINUTE_MS, 3 * usual_ms))

    def test_where_one_waits_for_minutes(self):
        self.check_long(2, lambda usual_ms: 3 * usual_ms)

    def test_a_hold_that_is_longer_than_the_turns_before(self):
        with self.at(-20):
            before = self.hold("--owner", "alice@build1", "x")
        with self.at(-18):
            before.close_input()
            before.status()
        with self.at(-1):
            self.hold("--owner", "bob@build2", "x")
        self.set_clock()
        self.open(self.serve(), "/#lock=x")
        self.wait_for(lambda: self.texts(".turns li"), "the turn before")
        self.assertEqual(self.texts(".long"), [])
        self.put_ahead(10 * scene.MINUTE_MS)
        self.wait_for(lambda: self.texts(".holder .long"), "to see that this is long")

    def test_the_first_wait_is_not_known_to_be_long(self):
        self.hold("--owner", "alice@build1", "x")
        self.set_clock()
        self.wait("--owner", "bob@build2", "x")
        self.open(self.serve())
        self.put_ahead(1010 * scene.MINUTE_MS)
        self.wait_for(lambda: self.first(".queue .since").startswith("16h"), "the clock")
        self.assertEqual(self.texts(".long"), [])


class BusyDay(scene.Case):
    def start_holding(self, owner, why, name, status=0):
        """One that ends with that status when its input ends."""
        holder = self.start("run", "--owner", owner, "--why", why, name, "--",
                            "sh", "-c", "echo; read line; exit %d" % status)
        holder.out.line()
        return holder

    def turn(self, owner, why, name, minutes, status=0):
        with self.at(minutes[0]):
            holder = self.start_holding(owner, why, name, status)
        with self.at(minutes[1]):
            holder.close_input()
            self.assertEqual(holder.status(), status)

    def wait_as(self, owner, why, *names):
        waiter = self.start("-v", "run", "--owner", owner, "--why", why, *names, "--", "cat")
        waiter.err.expect(r"waiting for .*\n")
        return waiter

    def begin_turns(self, other):
        """Of the lock "deploy": each way to end one. Returns who holds it then."""
        self.turn("alice/release@build1", "release 37", "deploy", (-190, -183))
        self.turn("bob/release@build2", "release 38", "deploy", (-131, -126), status=1)
        with self.at(-100):
            stuck = self.hold("--owner", "carol/release@build2", "--ttl", "1s", "--why", "release 39",
                              "deploy")
        with self.at(-78):
            reason = "/v1/locks/deploy?reason=stuck+in+its+tests"
            self.assertEqual(other.call("DELETE", reason, TOKENS["admin"]).status, 200)
            stuck.status()
        with self.at(-70):
            killed = self.start_holding("alice/release@build1", "release 39", "deploy")
        with self.at(-66):
            killed.signal(signal.SIGKILL)
            killed.status()
            retried = self.start_holding("alice/release@build1", "release 39", "deploy")
        with self.at(-59):
            retried.close_input()
            retried.status()
        with self.at(-20):
            return self.start_holding("bob/release@build2", "release 40", "deploy")

    def begin_others(self, service):
        with self.at(-192):
            self.start_holding("dave/restore@db1", "restore of the 21st", "storage")
            self.hold("-s", "--owner", "erin/read@app1", "catalogue")
            self.hold("-s", "--owner", "erin/read@app2", "catalogue")
        with self.at(-52):
            self.wait_as("carol/migrate@db2", "an index for orders", "schema", "storage")
            self.hold("--permits", "2", "--limit", "3", "--owner", "frank/encode@media1",
                      "--why", "episode 7", "encoder")
        with self.at(-31):
            self.hold("--owner", "cron/report@app1", "--why", "night of the 21st",
                      "nightly-report/" + "long-name-" * 12)
        with self.at(-12):
            for name, why in (("import", "orders from the west"), ("stock", "counting")):
                self.assertEqual(service.acquire(name, ttl_ms=1800000, why=why,
                                                 owner="warehouse@10.0.0.8").status, 201)
        self.let_run_out("import", 7)
        with self.at(-2):
            for _ in range(3):
                self.ask(service, "stock", wait_ms=3600000, why="order 1043", owner="shop@10.0.0.7")
            self.await_queue("stock", 1)

    def await_waiters(self, n):
        self.wait_for(lambda: len(self.texts("[data-name=deploy] .queue li")) == n, "who waits")

    def hand_over(self, service, other, holder):
        """While the page looks on: it learns how long one waits for "deploy"."""
        with self.at(1, service):
            self.wait_as("alice/release@build1", "release 41", "deploy", "schema")
        self.await_waiters(1)
        with self.at(2, service):
            holder.close_input()
            holder.status()
            self.await_queue("schema", 1)
        self.await_waiters(0)
        with self.at(4, service):
            self.wait_as("bob/release@build2", "release 42", "deploy")
        with self.at(6, service):
            self.wait_as("carol/release@build2", "release 43", "deploy")
        with self.at(14, service):
            self.ask(other, "deploy", TOKENS["admin"], wait_ms=3600000, why="hotfix", owner="shop@10.0.0.7")
            self.await_queue("deploy", 3)
        self.await_waiters(3)

    def see_it(self):
        """Opens the page, and its clock goes on to the minute of the pictures."""
        tokens = self.write("tokens", "admin %s operations\n" % TOKENS["admin"])
        service = self.serve("--ttl", "30m", "--insecure-serve-anybody")
        other = self.serve("--ttl", "30m", "--token-file", tokens)
        holder = self.begin_turns(other)
        self.begin_others(service)
        self.set_clock()
        self.open(service)
        self.wait_for(lambda: len(self.names()) == 8, "all locks")
        self.hand_over(service, other, holder)
        self.put_ahead(NOW * scene.MINUTE_MS)
        self.wait_for(lambda: self.first("[data-name=import] .left").startswith("over by 22m"), "the clock")
        self.wait_for(lambda: self.find("#totals").text == "8 held, 6 waiting, 1 overdue",
                      "leases to be renewed")
        self.driver.execute_script("""
            document.querySelector("#store").textContent = "mongodb://db1,db2,db3/shop?replicaSet=rs0";
            document.querySelector("#service").textContent = "app1, locks.shop.example:8430";""")

    def take_pictures(self, name):
        for screen, (scheme, width, most) in SCREENS.items():
            self.show(scheme, width, 700)
            height = self.driver.execute_script("return document.documentElement.scrollHeight")
            self.show(scheme, width, min(height, most))
            self.assertEqual(self.driver.execute_script(CUT_OFF), [])
            self.picture(name + screen + ".png")

    def assert_nobodys_name(self):
        """Nobody who runs this is shown, whatever their name and their host's; only who plays here."""
        shown = set(re.findall(r"[^\s@]+@[^\s:]+", self.find("body").text))
        self.assertEqual(shown - PLAYERS, set())
        self.assertIn("bob/release@build2", shown)

    def test_all_locks(self):
        self.see_it()
        self.wait_for(lambda: self.names()[:5] == ["import", "storage", "stock", "schema", "deploy"],
                      "trouble first")
        long = self.texts("[data-name=deploy] .queue li:has(.long) .why")
        self.assertEqual(long[:2], ["release 42", "release 43"])
        self.assert_nobodys_name()
        self.press("[data-name=deploy] summary")
        self.driver.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
        self.take_pictures("page")

    def test_one_lock(self):
        self.see_it()
        self.driver.execute_script("location.hash = 'lock=deploy'")
        self.wait_for(lambda: len(self.chain()) == 3, "the chain to the root")
        self.wait_for(lambda: len(self.texts(".turns li")) == 6, "its turns")
        self.assert_nobodys_name()
        self.take_pictures("page-one")


if __name__ == "__main__":
    browsing.main()
