"""What the tests share: stores, clients, threads that wait, and deadlines for what must happen.

A test class that derives from `OnAStore` alone is run on each kind of store: `on_each_store(globals())`.
With HOLDFAST_TEST_URI in the environment that is the replica set, otherwise memory and SQLite.
"""
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import holdfast

SOON = 60  # seconds: what should happen has happened by then, or hangs
URI = os.environ.get("HOLDFAST_TEST_URI")
KINDS = ["mongodb"] if URI else ["memory", "sqlite"]
_numbers = itertools.count(1)


def until(claim, what):
    """Waits until claim() is true; returns it."""
    deadline = time.monotonic() + SOON
    while True:
        found = claim()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain for %s" % what)
        time.sleep(0.005)


class Taker(threading.Thread):
    """Calls a function in a thread; result() gives what it returned, or raises."""

    def __init__(self, function, *args, **words):
        super().__init__(daemon=True)
        self.call = lambda: function(*args, **words)
        self.value = self.error = None
        self.start()

    def run(self):
        try:
            self.value = self.call()
        except BaseException as error:
            self.error = error

    def result(self):
        self.join(SOON)
        if self.is_alive():
            raise AssertionError("it still waits")
        if self.error:
            raise self.error
        return self.value


class OnAStore(unittest.TestCase):
    """Each test has a store of its own, with two clients: one and two."""

    kind = None  # of KINDS
    needs_processes = False  # other ones: a store in memory has none
    ttl = 6  # no shorter than what a busy machine can keep: it may stop for seconds

    def setUp(self):
        self.uri = self.new_store()
        self.one, self.two = self.client(app="one"), self.client(app="two")

    def new_store(self):
        name = "python%d_%d" % (os.getpid(), next(_numbers))
        if self.kind == "memory":
            return "memory:" + name
        if self.kind == "sqlite":
            folder = tempfile.TemporaryDirectory(prefix="holdfast-python-")
            self.addCleanup(folder.cleanup)
            return "sqlite:" + os.path.join(folder.name, "locks.db")
        base, _, options = URI.partition("?")
        return base.rstrip("/") + "/" + name + "?" + options

    def client(self, **options):
        options.setdefault("ttl", 10)
        client = holdfast.Client(self.uri, **options)
        self.addCleanup(client.close)
        return client

    def script(self, text, *args):
        """A Python program in a process of its own that has `holdfast`, `sys` and the store's URI as
        sys.argv[1]."""
        process = subprocess.Popen([sys.executable, "-c", "import holdfast, sys\n" + text, self.uri, *args],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def await_queue(self, name, n, client=None):
        """Until so many wait for the lock."""
        def is_so():
            try:
                return len((client or self.one).show(name).queue) == n
            except holdfast.NotFoundError:
                return n == 0
        until(is_so, "%d in the queue of %s" % (n, name))

    def assert_held(self, name, **words):
        with self.assertRaises(holdfast.HeldError):
            self.two.acquire(name, wait=0, **words)

    def assert_free(self, name, **words):
        self.two.acquire(name, wait=0, **words).close()


def on_each_store(names):
    """Replaces each class that derives from OnAStore alone by one per kind."""
    for name, kind_of in list(names.items()):
        if isinstance(kind_of, type) and OnAStore in kind_of.__bases__:
            del names[name]
            for kind in KINDS:
                if kind == "memory" and kind_of.needs_processes:
                    continue
                title = name + kind.capitalize()
                names[title] = type(title, (kind_of,), {"kind": kind, "__module__": kind_of.__module__})
