"""For tests of `tools/check-abi`: a clone of the tree in which another version is released."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["HOLDFAST_SOURCE"]
BUILD = os.environ["HOLDFAST_BUILD"]


def run(*command, cwd=None):
    """The status of a command, and all that it said."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True)
    return done.returncode, done.stdout


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="holdfast-abi-")
        self.addCleanup(shutil.rmtree, self.tmp)

    def must(self, *command, cwd=None):
        status, said = run(*command, cwd=cwd)
        self.assertEqual(status, 0, (command, said))
        return said


class Release(Case):
    def setUp(self):
        super().setUp()
        self.tree = os.path.join(self.tmp, "tree")
        self.must("git", "clone", "-q", SOURCE, self.tree)
        for tool in ("check-abi", "abi-compare", "abi-may-change"):
            shutil.copy(os.path.join(SOURCE, "tools", tool), os.path.join(self.tree, "tools", tool))

    def release(self):
        path = os.path.join(self.tree, "CHANGELOG.md")
        with open(path) as changes:
            text = changes.read()
        with open(path, "w") as changes:
            changes.write("# Changes\n\n## 0.9.9 (2026-01-02)\n- All.\n" + text)

    def commit(self):
        self.must("git", "-c", "user.name=t", "-c", "user.email=t@holdfast.invalid", "commit", "-qam",
                  "release", cwd=self.tree)
        return self.must("git", "rev-parse", "HEAD", cwd=self.tree).strip()

    def check(self):
        return run(os.path.join(self.tree, "tools", "check-abi"), BUILD)
