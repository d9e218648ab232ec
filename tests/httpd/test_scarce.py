#!/usr/bin/python3
"""A service that cannot have the threads or file descriptors that it wants says so and ends, or
serves."""
# SPDX-License-Identifier: Apache-2.0
import os
import resource
import signal
import time

import serving

# A user who runs nothing else: the limit is for all threads and processes of a user.
STRANGER = 20000 + os.getpid() % 40000


class Scarce(serving.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)

    def begins(self, limit):
        """Whether a service begins under the limit; one that does not has said why."""
        running = self.start("serve", "--listen", "127.0.0.1:0", preexec_fn=limit)
        deadline = time.monotonic() + serving.PATIENCE
        while "\n" not in running.out.text and running.out.more(deadline):
            pass
        has_begun = running.out.text.startswith("listening on ")
        if has_begun:
            running.signal(signal.SIGTERM)
        status, said = running.status(), running.err.rest()
        self.assertIn(status, (0,) if has_begun else (69, 70), said)
        warned = r"(holdfast: --max-connections is .*\n)?"
        self.assertRegex(said, "^%s$" % (warned if has_begun else warned + r"holdfast: .*\n"))
        return has_begun

    def sweep(self, least, most, limit):
        """Where it begins with so many, it begins with more, too."""
        has_begun = [self.begins(lambda n=n: limit(n)) for n in range(least, most)]
        self.assertEqual(has_begun, sorted(has_begun))
        self.assertEqual((has_begun[0], has_begun[-1]), (False, True))

    def test_descriptors(self):
        self.sweep(4, 40, lambda n: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))

    def test_a_limit_that_is_enough_stays(self):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        many = 900 if limit[1] == resource.RLIM_INFINITY else min(900, limit[1])
        running = self.start("serve", "--listen", "127.0.0.1:0", "--max-connections", "10",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                   (many, limit[1])))
        running.out.expect("listening on .*\n")
        self.assertEqual(resource.prlimit(running.pid, resource.RLIMIT_NOFILE)[0], many)

    def test_threads(self):
        if os.getuid() != 0:
            return  # only root can become another user

        def limit(n):
            resource.setrlimit(resource.RLIMIT_NPROC, (n, n))
            os.setuid(STRANGER)
        self.sweep(1, 30, limit)


if __name__ == "__main__":
    serving.main()
