#!/usr/bin/python3
"""What waits for something takes no time of the processor meanwhile."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import time

import cli

MOST = 0.15  # seconds of the processor's; what asks again and again takes all that it can get


class Idle(cli.Case):
    def check_idle(self, *pids):
        time.sleep(0.5)  # what it does to begin with
        before = [cli.processor_time(pid) for pid in pids]
        time.sleep(4)
        for pid, had in zip(pids, before):
            self.assertLess(cli.processor_time(pid) - had, MOST)

    def test_run(self):
        holder = self.hold("x")
        checked = self.hold("--health-cmd", "true", "--health-interval", "2s", "y")
        self.check_idle(holder.pid, checked.pid, self.wait("x").pid)

    def test_elect(self):
        leader = self.start("elect", "x", "--", "cat")
        self.await_holder("x")
        candidate = self.start("elect", "x", "--", "cat")
        follower = self.start("elect", "--print", "x")
        follower.out.line()
        self.await_queue("x", 1)
        self.check_idle(leader.pid, candidate.pid, follower.pid)

    def await_holder(self, name):
        deadline = time.monotonic() + cli.PATIENCE
        while not self.json("list", "--json", name):
            self.assertLess(time.monotonic(), deadline)

    def test_keepers(self):
        one = self.json("--json", "acquire", "--for", "1h", "x")
        other = self.json("--json", "acquire", "--while-pid", str(os.getpid()), "y")
        for each in (one, other):
            self.addCleanup(os.kill, each["keeper"], signal.SIGTERM)
        self.check_idle(one["keeper"], other["keeper"])

    def test_watch(self):
        self.hold("x")
        watcher = self.start("watch", "--json")
        watcher.out.line()
        self.check_idle(watcher.pid)

    def test_serve(self):
        service = self.start("serve", "--listen", "127.0.0.1:0")
        service.out.expect("listening on ")
        self.check_idle(service.pid)


if __name__ == "__main__":
    cli.main()
