"""What the tests of the examples share: a folder and a store of their own, the build's command in
front of the PATH, and programs that are built against the build's library as a user would."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ["HOLDFAST_BUILD"]
SOURCE = os.environ["HOLDFAST_SOURCE"]
EXAMPLES = os.path.join(SOURCE, "examples")
PATIENCE = 120  # seconds, for what should come at once: only what hangs takes longer
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Case(unittest.TestCase):
    """A test with a store of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="holdfast-examples-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = "sqlite:" + self.path("locks.db")
        self.bin = self.path("bin")
        os.mkdir(self.bin)
        self.env = dict(os.environ, HOLDFAST_STORE=self.store, LD_LIBRARY_PATH=BUILD,
                        PATH=self.bin + ":" + BUILD + ":" + os.environ["PATH"],
                        MONGOC_DISABLE_SHM="1")  # what killed processes left is no matter here

    def path(self, name):
        return os.path.join(self.folder, name)

    def stub(self, name, text="echo ran"):
        """A command that the example starts."""
        path = os.path.join(self.bin, name)
        with open(path, "w") as out:
            out.write("#!/bin/sh\n%s\n" % text)
        os.chmod(path, 0o755)
        return path

    def build(self, compiler, source, *libraries):
        program = self.path("program")
        self.check(0, compiler, *STRICT, os.path.join(EXAMPLES, source), "-o", program,
                   "-I", os.path.join(SOURCE, "include"), "-L", BUILD, "-lholdfast", *libraries)
        return program

    def show(self, name):
        return json.loads(self.check(0, "holdfast", "show", name, "--json"))

    def await_queue(self, name, length):
        """Asks the store again and again, until so many wait."""
        deadline = time.monotonic() + PATIENCE
        while len(self.show(name)["queue"]) != length:
            self.assertLess(time.monotonic(), deadline, "the queue is never %d long" % length)

    def hold(self, name):
        """A process that has the lock until its input ends."""
        holder = self.start("holdfast", "run", name, "--", "sh", "-c", "echo held; exec cat")
        self.assertEqual(holder.stdout.readline(), "held\n")
        return holder

    def start(self, *words, **more):
        """Starts a command, and ends it after the test if need be."""
        process = subprocess.Popen(words, env=self.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   universal_newlines=True, **more)
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in process.stdin, process.stdout, process.stderr:
            if not pipe.closed:
                pipe.close()

    def check(self, status, *words, **more):
        """Runs a command, which must exit so; what it printed."""
        more.setdefault("env", self.env)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, timeout=PATIENCE,
                              **more)
        self.assertEqual(done.returncode, status, (words, done.stdout))
        return done.stdout
