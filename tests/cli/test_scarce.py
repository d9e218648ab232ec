#!/usr/bin/python3
"""A command that cannot have a thread, a process or a file descriptor that it needs says so, and
runs nothing."""
# SPDX-License-Identifier: Apache-2.0
import os
import resource

import cli

# A user who runs nothing else: the limit is for all threads and processes of a user.
STRANGER = 20000 + os.getpid() % 40000


class Scarce(cli.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)

    def refused(self, said, limit, *words):
        result = self.check(70, *words, **cli.as_user(limit))
        self.assertEqual(result.err.count("\n"), 1, result.err)
        self.assertRegex(result.err, "^holdfast: .*" + said)
        self.assertFalse(os.path.exists(self.path("ran")))

    @staticmethod
    def alone():
        """No thread or process but the first."""
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.setuid(STRANGER)

    def test_a_thread(self):
        if os.getuid() == 0:  # only root can become another user
            self.refused("cannot start a thread: Resource temporarily unavailable", self.alone,
                         "run", "x", "--", "touch", self.path("ran"))

    def test_a_keeper(self):
        if os.getuid() == 0:
            self.refused("cannot start a keeper: Resource temporarily unavailable", self.alone,
                         "acquire", "--for", "1h", "x")

    def test_a_pipe_to_the_keeper(self):
        self.refused("cannot start a keeper: Too many open files", lambda: self.files(4),
                     "acquire", "--for", "1h", "x")

    def test_descriptors_of_a_wait(self):
        """With some few the store can be opened, and nothing waits for the lock."""
        said = ""
        for n in range(4, 20):
            result = self.run_it("run", "x", "--", "touch", self.path("ran"),
                                 preexec_fn=lambda n=n: self.files(n))
            if result.returncode not in (69, 70):
                break
            said += result.err
        self.assertRegex(said, "holdfast: no file descriptor is left for a cancel: Too many open files")
        self.assertRegex(said, "holdfast: eventfd: Too many open files")

    @staticmethod
    def files(n):
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


if __name__ == "__main__":
    cli.main()
