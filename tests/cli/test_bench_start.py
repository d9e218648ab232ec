#!/usr/bin/python3
"""`holdfast bench` becomes the program that stands beside it, or where it is installed, and tells it
what was asked for."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess

import cli

PROGRAM = """#!/bin/sh
printf '%s|' "$HOLDFAST_STORE" "$HOLDFAST_COMMAND" "$HOLDFAST_CONFIG" "$MONGOC_DISABLE_SHM" "$@"
"""


class Start(cli.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        self.command = shutil.copy(cli.BIN, self.path("bin"))

    def put_program(self, *folders, text=PROGRAM, mode=0o755):
        folder = self.path(os.path.join(*folders))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "holdfast-bench")
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)

    def bench(self, status, *words):
        result = subprocess.run([self.command, *words], env=self.env, capture_output=True, text=True,
                                timeout=cli.PATIENCE)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def check_told(self, told, *words):
        out = self.bench(0, *words).stdout.split("|")[:-1]
        self.assertEqual(out[:4], [self.store, self.command, "/dev/null", "1"])
        self.assertEqual(out[4:], told)

    def test_what_it_is_told(self):
        self.put_program("bin")
        self.check_told([], "bench")
        self.check_told(["--json"], "bench", "--json")
        self.check_told(["--only=pairs"], "bench", "--only", "pairs")
        self.check_told(["--runs=2", "--seconds=3", "--only=work", "--json"], "--json", "bench",
                        "--runs", "2", "--seconds", "3", "--only", "work")

    def test_the_last_of_several_counts(self):
        self.put_program("bin")
        self.check_told(["--runs=3", "--seconds=5"], "bench", "--runs", "1", "--seconds", "5",
                        "--runs", "2", "--runs", "3")

    def test_where_it_is_installed(self):
        self.put_program("libexec", "holdfast")
        self.check_told(["--runs=2"], "bench", "--runs", "2")
        self.put_program("bin", text="#!/bin/sh\necho beside it\n")
        self.assertEqual(self.bench(0, "bench").stdout, "beside it\n")
        self.put_program("bin", mode=0o644)
        self.check_told([], "bench")

    def test_one_that_is_not_there(self):
        for words in ([], ["--json"], ["--runs", "2", "--json"]):
            err = self.bench(127, "bench", *words).stderr
            self.assertRegex(err, "^holdfast: cannot start the benchmark .*/libexec/holdfast/"
                                  "holdfast-bench: No such file or directory\n$")


if __name__ == "__main__":
    cli.main()
