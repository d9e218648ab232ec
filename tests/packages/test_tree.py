"""`tools/tree`: a commit of the work tree, also where a file was only touched, or git knows no user."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["HOLDFAST_SOURCE"]
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example")


class Tree(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="holdfast-tree-")
        self.addCleanup(shutil.rmtree, self.tmp)
        self.env = dict(os.environ, HOME=self.tmp, GIT_CONFIG_NOSYSTEM="1", XDG_CONFIG_HOME=self.tmp)
        os.mkdir(self.path("tools"))
        shutil.copy(os.path.join(SOURCE, "tools", "tree"), self.path("tools"))
        self.write("file", "one\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git(*AUTHOR, "commit", "-q", "-m", "all")

    def path(self, name):
        return os.path.join(self.tmp, name)

    def write(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)

    def run_it(self, *command):
        done = subprocess.run(command, cwd=self.tmp, env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout.strip()

    def git(self, *words):
        return self.run_it("git", *words)

    def tree(self):
        return self.run_it("tools/tree")

    def test_nothing_has_changed(self):
        self.assertEqual(self.tree(), "HEAD")

    def test_a_file_was_only_touched(self):
        os.utime(self.path("file"), (1, 1))
        self.assertEqual(self.tree(), "HEAD")

    def test_a_file_has_changed(self):
        self.write("file", "two\n")
        self.write("new", "never added\n")
        commit = self.tree()
        self.assertEqual(self.git("show", commit + ":file"), "two")
        self.assertNotIn("new", self.git("ls-tree", "--name-only", commit).split())
        self.assertEqual(self.git("show", "HEAD:file"), "one")


if __name__ == "__main__":
    unittest.main()
