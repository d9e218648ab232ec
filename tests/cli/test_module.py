#!/usr/bin/python3
"""The command's part for MongoDB, a file of its own: loaded when it is wanted, from its own place,
and no other."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import time

import cli

MODULE = "holdfast-mongo.so"
WANTED = "mongodb://127.0.0.1:1/x?hfNoSuchKey=1"  # only the module knows that there is no such key
REFUSED = "hfNoSuchKey"


class Module(cli.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.bin = self.path("bin")
        os.mkdir(self.bin)
        self.command = shutil.copy(cli.BIN, self.bin)

    def give(self, *folders):
        """Puts the module into a folder; returns its path."""
        folder = self.path(os.path.join(*folders))
        os.makedirs(folder, exist_ok=True)
        return shutil.copy(os.path.join(os.path.dirname(cli.BIN), MODULE), folder)

    def said(self, *words, command=None, **more):
        more.setdefault("env", self.env)
        result = subprocess.run([command or self.command, *words], stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=cli.PATIENCE, **more)
        return result.returncode, result.stderr.decode()

    def wants(self, **more):
        return self.said("--store", WANTED, "list", **more)

    def check_refused(self, status, pattern, **more):
        got, err = self.wants(**more)
        self.assertEqual(got, status, err)
        self.assertRegex(err, pattern)

    def compile(self, version, folder):
        """A module of another make."""
        os.makedirs(folder, exist_ok=True)
        source = self.path("other.c")
        with open(source, "w") as file:
            file.write('const struct { const char *version; void *open; } holdfast_module = {"%s", 0};'
                       % version)
        out = os.path.join(folder, MODULE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", out, source], check=True)
        return out

    def test_beside_the_command(self):
        self.give("bin")
        self.check_refused(65, REFUSED)

    def test_where_it_is_installed(self):
        self.give("lib", "holdfast")
        self.check_refused(65, REFUSED)

    def test_by_a_link_to_the_command(self):
        self.give("bin")
        link = self.path("link")
        os.symlink(self.command, link)
        self.check_refused(65, REFUSED, command=link)

    def test_missing(self):
        self.check_refused(69, "lib/holdfast/%s: No such file.*install it" % MODULE)

    def test_sqlite_does_without(self):
        self.assertEqual(self.said("run", "x", "--", "true"), (0, ""))
        needed = subprocess.run(["ldd", self.command], stdout=subprocess.PIPE, check=True).stdout
        for library in (b"libmongoc", b"curses"):
            self.assertNotIn(library, needed)

    def test_no_other_place(self):
        """Neither the working directory nor the linker's paths are asked."""
        elsewhere = self.path("elsewhere")
        self.compile("0", elsewhere)
        env = dict(self.env, LD_LIBRARY_PATH=elsewhere, PATH=elsewhere)
        self.check_refused(69, "No such file", env=env, cwd=elsewhere)

    def test_of_another_version(self):
        self.compile("0.0.9", self.bin)
        self.check_refused(69, r"is of holdfast 0\.0\.9, the command of .*: install both")

    def test_no_module_at_all(self):
        with open(os.path.join(self.bin, MODULE), "w") as file:
            file.write("no module\n")
        self.check_refused(69, "cannot be loaded")

    def test_one_that_others_may_write(self):
        os.chmod(self.give("bin"), 0o757)
        os.chmod(self.command, 0o755)
        self.check_refused(69, "is not loaded, because users")

    def test_one_of_another_user(self):
        module = self.give("bin")
        if os.getuid() != 0:
            return  # only root can give a file away
        os.chown(module, 65534, 65534)
        self.check_refused(69, "is not loaded, because users")
        os.chown(self.command, 65534, 65534)
        self.check_refused(65, REFUSED)

    def test_nothing_is_left_in_shared_memory(self):
        """libmongoc, when it sets itself up, makes a file there that a killed process leaves."""
        self.give("bin")
        env = {k: v for k, v in self.env.items() if k != "MONGOC_DISABLE_SHM"}
        waiter = subprocess.Popen([self.command, "--store", "mongodb://127.0.0.1:1/x", "run", "x",
                                   "--", "true"], env=env, stderr=subprocess.DEVNULL)
        self.addCleanup(waiter.wait)
        self.addCleanup(waiter.kill)
        deadline = time.monotonic() + cli.PATIENCE
        while not self.has_loaded(waiter.pid):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertNotIn("/dev/shm/mongoc", self.maps_of(waiter.pid))

    @staticmethod
    def maps_of(pid):
        """What it has mapped: a file of its name may have been left by another with its pid."""
        with open("/proc/%d/maps" % pid, encoding="utf-8") as maps:
            return maps.read()

    @staticmethod
    def has_loaded(pid):
        """Its threads are started after that."""
        return len(os.listdir("/proc/%d/task" % pid)) > 1


cli.main()
