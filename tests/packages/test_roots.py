"""How `tests/roots/run` ends: whether the root could not be made, or something of ours failed in it. What
makes the root is played by scripts."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["HOLDFAST_SOURCE"]
PROGRAMS = {
    "apt-get": '. /etc/os-release; echo "deb http://mirror.example/debian $VERSION_CODENAME main"',
    "arch-test": "exit 0",
    "mmdebstrap": 'printf "%s\\n" "$MADE_SAYS"; exit "$MADE_STATUS"',
}


class Run(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="holdfast-roots-")
        self.addCleanup(shutil.rmtree, self.tmp)
        for name, text in PROGRAMS.items():
            path = os.path.join(self.tmp, name)
            with open(path, "w") as out:
                out.write("#!/bin/sh\n%s\n" % text)
            os.chmod(path, 0o755)

    def run_root(self, status, *says):
        env = dict(os.environ, PATH="%s:%s" % (self.tmp, os.environ["PATH"]), TMPDIR=self.tmp,
                   MADE_SAYS="\n".join(says), MADE_STATUS=str(status))
        done = subprocess.run([os.path.join(SOURCE, "tests", "roots", "run"), "unstable"], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        return done.returncode, done.stdout, done.stderr

    def test_all_is_well(self):
        got = self.run_root(0, "== packages", "== the root is made", "== build", "7 passed, 0 failed")
        self.assertEqual(got, (0, "7 passed, 0 failed\n", ""))

    def test_a_mirror_that_is_broken(self):
        status, _, said = self.run_root(25, "E: Failed to fetch InRelease")
        self.assertEqual(status, 69)
        self.assertRegex(said, r"^E: Failed to fetch InRelease\nDebian unstable for \w+ could not be made")

    def test_a_package_that_is_missing(self):
        status, _, said = self.run_root(1, "== packages", "E: Unable to locate package libmd-dev",
                                        "FAILED: packages", "0 passed, 1 failed")
        self.assertEqual(status, 69)
        self.assertRegex(said, "libmd-dev(.|\n)*Nothing was tested in it")

    def test_a_build_that_fails_in_it(self):
        status, _, said = self.run_root(1, "== packages", "== the root is made", "error: conflicting types",
                                        "FAILED: build", "1 passed, 1 failed")
        self.assertEqual(status, 1)
        self.assertIn("conflicting types", said)
        self.assertNotIn("could not be made", said)


if __name__ == "__main__":
    unittest.main()
