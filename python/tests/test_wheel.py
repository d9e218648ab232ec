"""A wheel is built offline, and what it installs works and has its type hints."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

PYTHON = os.path.join(os.environ["HOLDFAST_SOURCE"], "python")


def run(*command, **words):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **words)
    if done.returncode != 0:
        raise AssertionError("%s: status %d\n%s" % (command, done.returncode, done.stdout))
    return done.stdout


class Wheel(unittest.TestCase):
    def test_it_is_built_and_works(self):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-wheel-")
        self.addCleanup(folder.cleanup)
        source, target = os.path.join(folder.name, "python"), os.path.join(folder.name, "installed")
        shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "tests"))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder.name, source)
        wheel, = (name for name in os.listdir(folder.name) if name.endswith(".whl"))
        self.assertEqual(wheel, "holdfast-1.0.0-py3-none-any.whl")
        with zipfile.ZipFile(os.path.join(folder.name, wheel)) as archive:
            packed = sorted(name for name in archive.namelist() if name.startswith("holdfast/"))
        here = sorted("holdfast/" + name for name in os.listdir(os.path.join(PYTHON, "holdfast"))
                      if name != "__pycache__")
        self.assertEqual(packed, here)
        run(*pip, "install", "--no-deps", "--no-index", "--target", target,
            os.path.join(folder.name, wheel))
        said = run(sys.executable, "-c", """
import holdfast
with holdfast.Client("memory:") as client, client.lock("x") as lock:
    print(holdfast.__file__, lock.is_held)
""", env=dict(os.environ, PYTHONPATH=target), cwd=folder.name)
        # libmongoc may have complained before: a killed process of the same number left its counters
        self.assertEqual(said.splitlines()[-1],
                         "%s True" % os.path.join(target, "holdfast", "__init__.py"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
