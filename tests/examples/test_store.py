"""examples/store: a store outside the library passes the suite, and serves a program's locks."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import bed

SUITE = os.path.join(bed.BUILD, "tests", "conformance")
STORE = os.path.join(bed.EXAMPLES, "store", "lmdb_store.c")
INCLUDE = "-I" + os.path.join(bed.SOURCE, "include")


class Store(bed.Case):
    def build_plugin(self):
        plugin = self.path("lmdb_store.so")
        self.check(0, "cc", *bed.STRICT, "-shared", "-fPIC", INCLUDE, STORE, "-o", plugin, "-llmdb")
        return plugin

    def test_passes_the_suite(self):
        """But for what it says it cannot do."""
        done = subprocess.run([SUITE, "--load", self.build_plugin(), "--names-up-to", "511",
                               "lmdb:" + self.path("locks")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        said = done.stdout
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("not for this store, which has not notices", said)
        self.assertNotIn("not for this store, which has not other processes", said)
        self.assertRegex(said, "(?m)^lmdb:.*: 0 failed$")

    def test_serves_processes(self):
        program = self.build("cc", "store/tickets.c", STORE, "-llmdb", "-I",
                             os.path.join(bed.EXAMPLES, "store"))
        selling = [self.start(program, self.path("locks"), self.path("tickets")) for _ in range(4)]
        sold = [int(n) for process in selling for n in process.communicate()[0].split()]
        self.assertEqual(sorted(sold), list(range(1, 41)))

    def test_a_scheme_that_nobody_has_registered(self):
        self.assertIn("no such scheme", self.check(65, "holdfast", "--store", "lmdb:x", "list"))

    def test_what_is_no_plugin(self):
        for path in (self.path("none.so"), os.path.join(bed.BUILD, "libholdfast.so")):
            said = subprocess.run([SUITE, "--load", path, "lmdb:x"], stderr=subprocess.PIPE,
                                  universal_newlines=True, check=False)
            self.assertEqual(said.returncode, 64)
            self.assertIn(path, said.stderr)


unittest.main(verbosity=2)
