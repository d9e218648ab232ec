"""What the tests of the page share: one Chromium, and what is asked of the page in it."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import tempfile

from selenium import webdriver
from selenium.common.exceptions import (ElementNotInteractableException,
                                        StaleElementReferenceException)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

import serving

TOKENS = {role: "%s-token-%s" % (role, "x" * 10) for role in ("read", "admin")}

ANEW = [ElementNotInteractableException, StaleElementReferenceException]


class Browser:
    """One Chromium for all tests; pages are left, not closed."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        self.profile = tempfile.TemporaryDirectory(prefix="holdfast-page-")
        for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--user-data-dir=" + self.profile.name):
            options.add_argument(word)
        if os.getuid() == 0:
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.chrome.service.Service("/usr/bin/chromedriver")
        self.driver = webdriver.Chrome(options=options, service=service)

    def quit(self):
        self.driver.quit()
        self.profile.cleanup()


class Case(serving.Case):
    """A test with a store of its own, and a browser that all of its class share."""

    @classmethod
    def setUpClass(cls):
        browser = Browser()
        cls.addClassCleanup(browser.quit)
        cls.driver = browser.driver

    def setUp(self):
        super().setUp()
        self.show("light", 1000, 700)

    def tearDown(self):
        """Nothing was refused by the policy, nor went wrong in the scripts. (The browser's own first page
        may say something, too.)"""
        said = [entry["message"] for entry in self.driver.get_log("browser")
                if not re.search("^chrome://|net::ERR|status of", entry["message"])]
        self.driver.get("about:blank")
        self.assertEqual(said, [])
        super().tearDown()

    def show(self, scheme, width, height):
        self.driver.set_window_size(width, height)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def open(self, service, path="/"):
        self.driver.get(service.url + path)
        self.state("live")

    def picture(self, name):
        folder = os.environ.get("HOLDFAST_SCREENSHOTS") or self.folder
        path = os.path.join(folder, name)
        self.driver.save_screenshot(path)
        self.assertGreater(os.path.getsize(path), 5000)

    def wait_for(self, claim, what):
        """Asks again and again; an element may be made anew meanwhile."""
        wait = WebDriverWait(self.driver, serving.PATIENCE, 0.05, ANEW)
        return wait.until(lambda _: claim(), what)

    def find(self, selector, within=None):
        return (within or self.driver).find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def first(self, selector):
        """The text of the first one; where there is none yet, wait_for() asks again."""
        return self.find(selector).get_property("textContent")

    def press(self, selector):
        """With a key, as soon as it is there."""
        self.wait_for(lambda: self.find(selector).send_keys(Keys.ENTER) is None, selector)

    def lease_left(self):
        return self.wait_for(lambda: self.find(".holder progress").get_property("value"), "a lease")

    def names(self):
        return self.texts("#locks .name")

    def state(self, word):
        self.wait_for(lambda: self.find("#state").get_attribute("class") == word, "state " + word)

    def token(self, text):
        self.wait_for(lambda: self.find("#ask").get_attribute("open"), "to be asked for a token")
        self.find("#ask input[name=token]").send_keys(text, Keys.ENTER)

    def inject(self, source):
        """A script that runs before those of the page."""
        added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        self.addCleanup(self.driver.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", added)

    def note_streams(self):
        """Before the page is opened: streams() then says which events it asks for, the last at the end."""
        self.inject("const was = fetch; window.asked = [];"
                    "fetch = (url, ...rest) => { asked.push(url); return was(url, ...rest); }")

    def streams(self):
        return self.driver.execute_script("return asked.filter(url => url.startsWith('v1/events'))")

    def set_clock(self):
        """Before the page is opened: its clock stands still, until put_ahead()."""
        self.inject("window.clockMs = Date.now(); Date.now = () => clockMs;")

    def put_ahead(self, ms):
        self.driver.execute_script("clockMs += arguments[0]", ms)

    def title(self):
        return self.texts("#one h2 .name")

    def chain(self):
        return [" ".join(text.split()) for text in self.texts(".chain li")]

    def focused(self):
        return self.driver.execute_script("return document.activeElement.textContent")

    def assert_narrow(self):
        wide = self.driver.execute_script("return document.documentElement.scrollWidth")
        self.assertLessEqual(wide, 390)

    def by_keyboard_break(self, reason):
        self.press(".break")
        box = self.find("#break")
        self.assertTrue(box.get_attribute("open"))
        self.find("input[name=reason]", box).send_keys(reason, Keys.ENTER)
        self.assertTrue(box.get_attribute("open"), "it was not confirmed")
        self.find("input[name=sure]", box).send_keys(" ", Keys.ENTER)


main = serving.main
