"""The installed tree, moved away from where it was installed, serves C by pkg-config (shared and
static) and C++ by the CMake package; its headers stand alone, and the one for C++ keeps its word."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pty
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ["HOLDFAST_BUILD"]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
CPP = ("c++", "c++", "c++17")
# libmongoc would warn where a process of the same id was killed and has left its counters.
QUIET = {"MONGOC_DISABLE_SHM": "1"}
LANGUAGES = {".h": [("cc", "c", "c11"), CPP], ".hpp": [CPP]}  # compiler, language, standard


def run(*command, **env):
    """What a command printed; one that fails fails the test, with all it said."""
    done = subprocess.run(command, env=dict(os.environ, **QUIET, **env), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        raise AssertionError("%s: status %d\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.mkdtemp(prefix="holdfast-install-")
        cls.addClassCleanup(shutil.rmtree, cls.tmp)
        dest = os.path.join(cls.tmp, "dest")
        run("cmake", "--install", BUILD, "--prefix", "/opt/first", DESTDIR=dest)
        cls.root = os.path.join(cls.tmp, "moved here")
        os.rename(os.path.join(dest, "opt", "first"), cls.root)
        pc = next(os.path.join(folder, name) for folder, _, names in os.walk(cls.root)
                  for name in names if name == "holdfast.pc")
        cls.pkg_dir = os.path.dirname(pc)
        cls.lib = os.path.dirname(cls.pkg_dir)

    def out(self, name):
        return os.path.join(self.tmp, name)

    def pkg_config(self, *asked):
        """Its words; pkg-config writes a space in a path as `\\ `, as a shell wants it."""
        import shlex
        return shlex.split(run("pkg-config", *asked, PKG_CONFIG_PATH=self.pkg_dir))

    def assert_used(self, program, **env):
        version = self.pkg_config("--modversion", "holdfast")[0]
        self.assertEqual(run(program, **env), "holdfast %s: held and released\n" % version)

    def test_the_suite_is_named_where_it_is_installed(self):
        named = run("pkg-config", "--variable=conformance", "holdfast", PKG_CONFIG_PATH=self.pkg_dir).strip()
        there = [name for _, _, names in os.walk(self.root) for name in names if name == "holdfast-conformance"]
        self.assertEqual(bool(named), bool(there), named)

    def test_c_by_pkg_config(self):
        program = self.out("shared")
        run("cc", "-std=c11", *STRICT, os.path.join(HERE, "use.c"), "-o", program,
            *self.pkg_config("--cflags", "--libs", "holdfast"))
        self.assertIn("libholdfast.so.1 =>", run("ldd", program, LD_LIBRARY_PATH=self.lib))
        self.assert_used(program, LD_LIBRARY_PATH=self.lib)

    def test_c_static_by_pkg_config(self):
        program = self.out("static")
        flags = self.pkg_config("--cflags", "holdfast")
        needed = self.pkg_config("--print-requires-private", "holdfast")
        private = self.pkg_config("--libs", *needed)
        run("cc", "-std=c11", *STRICT, os.path.join(HERE, "use.c"), "-o", program, *flags,
            os.path.join(self.lib, "libholdfast.a"), *private, "-pthread")
        self.assertNotIn("libholdfast", run("ldd", program))
        self.assert_used(program)

    def build_guarded(self, source, guard):
        program = self.out("guarded-" + guard)
        run("cc", "-std=gnu11", *STRICT, source, "-o", program,
            *self.pkg_config("--cflags", "--libs", "holdfast-guard-" + guard))
        return program

    def test_guard_of_mongo(self):
        """Program and library have one driver: the guard uses the program's collection."""
        program = self.build_guarded(os.path.join(HERE, "guard_mongo.c"), "mongo")
        said = run(program, LD_LIBRARY_PATH=self.lib)
        self.assertRegex(said, 'HF_UNREACHABLE: guarded update of collection "reports": ')

    def test_guard_of_sqlite(self):
        source = os.path.join(HERE, "..", "..", "examples", "c", "counter.c")
        program = self.build_guarded(source, "sqlite")
        run(program, "sqlite:" + self.out("locks.db"), self.out("counted.db"),
            LD_LIBRARY_PATH=self.lib)

    def test_cpp_by_cmake_package(self):
        folder = self.out("cmake")
        run("cmake", "-S", os.path.join(HERE, "package"), "-B", folder, "-G", "Ninja",
            "-DCMAKE_PREFIX_PATH=" + self.root)
        run("cmake", "--build", folder)
        self.assertIn(self.lib, run("ldd", os.path.join(folder, "use")))
        self.assert_used(os.path.join(folder, "use"))

    def test_header_alone(self):
        headers = os.path.join(self.root, "include", "holdfast")
        for name in sorted(os.listdir(headers)):
            for compiler, language, standard in LANGUAGES[os.path.splitext(name)[1]]:
                with self.subTest(header=name, language=standard):
                    source = self.out("alone." + language)
                    with open(source, "w") as out:
                        out.write("#include <holdfast/%s>\n#include <holdfast/%s>\n" % (name, name))
                    run(compiler, "-std=" + standard, *STRICT, "-fsyntax-only", source,
                        "-I", os.path.join(self.root, "include"))

    def test_wrapper_for_cpp(self):
        for compiler, *sanitize in ["g++", "-fsanitize=address,undefined"], ["clang++"]:
            with self.subTest(compiler):
                program = self.out("wrapper-" + compiler)
                run(compiler, "-std=c++17", *STRICT, "-Wconversion", "-Wshadow", "-g",
                    *sanitize, os.path.join(HERE, "wrapper.cpp"), "-o", program,
                    *self.pkg_config("--cflags", "--libs", "holdfast"))
                self.assertIn("all as holdfast.hpp says\n", run(program, LD_LIBRARY_PATH=self.lib))

    def test_nothing_names_the_old_place(self):
        for folder, _, names in os.walk(self.pkg_dir):
            for name in names:
                with open(os.path.join(folder, name)) as text:
                    self.assertNotIn("/opt/first", text.read(), name)

    def test_command_runs(self):
        command = os.path.join(self.root, "bin", "holdfast")
        self.assertIn(self.pkg_config("--modversion", "holdfast")[0], run(command, "--version"))

    def test_command_reads_the_settings_of_the_host(self):
        """One file for all installations: two that read different ones would not exclude each other."""
        command = os.path.join(self.root, "bin", "holdfast")
        files = json.loads(run(command, "--json", "config", HOLDFAST_CONFIG=""))["files"]
        self.assertEqual(files[-1]["path"], "/etc/holdfast/config")

    def test_command_finds_its_module(self):
        """The key is refused by the module, which the command has loaded from the moved tree."""
        command = os.path.join(self.root, "bin", "holdfast")
        done = subprocess.run([command, "--store", "mongodb://127.0.0.1:1/x?hfNoSuchKey=1", "list"],
                              stderr=subprocess.PIPE, universal_newlines=True)
        self.assertIn("hfNoSuchKey", done.stderr)
        self.assertEqual(done.returncode, 65)

    def test_command_finds_its_screen(self):
        """Loaded from the moved tree, it refuses the terminal that nobody knows."""
        command = os.path.join(self.root, "bin", "holdfast")
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        done = subprocess.run([command, "--store", "memory:", "watch"], stdin=slave, stdout=slave,
                              stderr=subprocess.PIPE, env=dict(os.environ, TERM="no-such"),
                              universal_newlines=True)
        os.close(slave)
        self.assertIn("cannot draw on this terminal", done.stderr)
        self.assertNotIn("missing", done.stderr)

    def test_completion_is_where_shells_look(self):
        for path in ("bash-completion/completions/holdfast", "zsh/site-functions/_holdfast",
                     "fish/vendor_completions.d/holdfast.fish"):
            self.assertTrue(os.path.isfile(os.path.join(self.root, "share", path)), path)

    def test_manual_is_where_man_looks(self):
        for path in ("man1/holdfast.1", "man1/holdfast-run.1", "man3/libholdfast.3",
                     "man3/hf_lock_acquire.3", "man7/holdfast-store.7"):
            self.assertTrue(os.path.isfile(os.path.join(self.root, "share", "man", path)), path)

    def test_pages_have_what_they_link_to(self):
        run(os.path.join(HERE, "links.py"), os.path.join(self.root, "share", "doc", "holdfast"))

    def test_bench_runs(self):
        command = os.path.join(self.root, "bin", "holdfast")
        out = run(command, "--store", "sqlite:" + self.out("bench.db"), "bench", "--runs", "1",
                  "--only", "threads")
        self.assertIn("hand-overs/s of one lock among 16 threads", out)


unittest.main()
