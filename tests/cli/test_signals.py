#!/usr/bin/python3
"""`holdfast run`: signals, process groups, orphans, and locks that are lost."""
# SPDX-License-Identifier: Apache-2.0
import fcntl
import json
import os
import signal
import subprocess

import cli
from idle import boot_ns, idle_seconds

# Ends with what `trap` says and passes the signal's name on; says "ready" when it listens. What it
# starts with & ignores some signals, so it ends that itself.
TRAP = 'trap "echo got-%s; kill \\$!; exit 9" %s; echo ready; while :; do sleep 600 & wait $!; done'
# Holds a kernel lock on the file for as long as it, or its child, lives, and does not heed SIGTERM.
STUBBORN = 'trap "" TERM; exec 9>"$1"; flock 9; echo $$; sleep 600 & echo $!; wait; sleep 600'


class PassedOn(cli.Case):
    def test_to_the_command(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "ALRM"):
            run = self.start("run", "x", "--", "sh", "-c", TRAP % (name, name))
            run.out.expect("ready\n")
            run.signal(getattr(signal, "SIG" + name))
            run.out.expect("got-%s\n" % name)
            self.assertEqual(run.status(), 9)

    def test_to_its_group(self):
        run = self.start("run", "x", "--", "sh", "-c", "sleep 600 & echo $!; wait")
        grandchild = int(run.out.line())
        run.signal(signal.SIGTERM)
        self.assertEqual(run.status(), 128 + signal.SIGTERM)
        self.assertTrue(cli.ended(grandchild))
        self.assertEqual(self.json("show", "x", "--json")["last"]["outcome"], "released")

    def test_one_that_is_ignored_stays_so(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        run = self.start("run", "x", "--", "cat", preexec_fn=ignore)
        run.say("a\n")
        run.out.expect("a\n")
        run.signal(signal.SIGHUP)
        run.say("b\n")
        run.out.expect("b\n")
        run.close_input()
        self.assertEqual(run.status(), 0)

    def test_a_stop_by_signal_and_going_on(self):
        run = self.hold("x")
        os.kill(run.child, signal.SIGSTOP)
        run.err.expect(r'the command was stopped \(SIGSTOP\) and keeps "x" until it ends: '
                       r"kill -CONT %d resumes it\n" % run.child)
        run.signal(signal.SIGCONT)
        run.say("on\n")
        run.out.expect("on\n")
        run.close_input()
        self.assertEqual(run.status(), 0)


    def test_a_stop_where_no_shell_could_continue_it(self):
        run = self.start("run", "x", "--", "sh", "-c", 'echo "$$"; exec cat', preexec_fn=os.setsid)
        child = int(run.out.line())
        os.kill(child, signal.SIGTSTP)
        run.err.expect(r"the command was stopped \(SIGTSTP\) and keeps .*\n")
        self.assertEqual(self.status_letter(child), "T")
        os.kill(child, signal.SIGCONT)
        run.close_input()
        self.assertEqual(run.status(), 0)

    def status_letter(self, pid):
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]


# Five orphans end, and then the zombies are counted until there are none.
ORPHANS = """
for i in 1 2 3 4 5; do (sh -c "exit 3" &); done
sleep 0.3
for i in $(seq 100); do grep -qs "^State:.Z" /proc/[0-9]*/status || exit 7; sleep 0.1; done
exit 9"""


class FirstProcess(cli.Case):
    """As the entry point of a container: process 1 of its own process namespace."""

    def setUp(self):
        super().setUp()
        self.apart = ["unshare", "--pid", "--fork", "--mount-proc"]
        if os.getuid() != 0:
            self.apart.append("--map-root-user")
        if subprocess.run([*self.apart, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no right to make a namespace")

    def begin(self, *words):
        running = cli.Running(subprocess.Popen([*self.apart, cli.BIN, *words], env=self.env,
                                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                               stderr=subprocess.PIPE))
        self.addCleanup(self.stop, running)
        return running

    @staticmethod
    def first_of(running):
        with open("/proc/%d/task/%d/children" % ((running.process.pid,) * 2)) as children:
            return int(children.read().split()[0])

    def test_orphans_are_waited_for(self):
        for verb in ("run", "elect"):
            self.assertEqual(self.begin(verb, "x", "--", "sh", "-c", ORPHANS).status(), 7, verb)

    def test_signals_are_passed_on(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1"):
            run = self.begin("run", "x", "--", "sh", "-c", TRAP % (name, name))
            run.out.expect("ready\n")
            os.kill(self.first_of(run), getattr(signal, "SIG" + name))
            run.out.expect("got-%s\n" % name)
            self.assertEqual(run.status(), 9)

    def test_one_that_waits_is_ended(self):
        self.hold("x")
        run = self.begin("-v", "run", "x", "--", "true")
        run.err.expect("waiting for .*\n")
        os.kill(self.first_of(run), signal.SIGTERM)
        self.assertEqual(run.status(), 128 + signal.SIGTERM)

    def test_it_ends_as_its_child_does(self):
        self.assertEqual(self.begin("run", "x", "--", "sh", "-c", "exit 5").status(), 5)
        self.assertEqual(self.begin("nonsense").status(), 64)


class WhileWaiting(cli.Case):
    def test_a_signal_ends_it(self):
        self.hold("x")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            waiter = self.wait("x")
            self.assertEqual(len(self.json("show", "x", "--json")["queue"]), 1)
            waiter.signal(number)
            self.assertEqual(waiter.status(), 128 + number)
            self.assertEqual(self.json("show", "x", "--json")["queue"], [])

    def test_one_that_is_ignored_does_not(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.hold("x")
        waiter = self.start("-v", "run", "x", "--", "true", preexec_fn=ignore)
        waiter.err.expect("waiting for")
        waiter.signal(signal.SIGHUP)
        waiter.signal(signal.SIGTERM)
        self.assertEqual(waiter.status(), 128 + signal.SIGTERM)

    def test_it_keeps_nothing_of_several(self):
        self.hold("b")
        waiter = self.wait("a", "b")
        self.assertFalse(self.free("a"))
        waiter.signal(signal.SIGINT)
        self.assertEqual(waiter.status(), 130)
        self.assertTrue(self.free("a"))

    def test_a_killed_waiter_is_passed_over(self):
        holder = self.hold("--ttl", "60s", "x")
        first, second = self.wait("--ttl", "60s", "x"), self.wait("--ttl", "60s", "x")
        first.signal(signal.SIGKILL)
        first.status()
        holder.close_input()
        self.assertEqual(second.status(), 0)


class Orphans(cli.Case):
    def test_sigkill_of_run_ends_the_command(self):
        holder = self.hold("--ttl", "1h", "x")
        waiter = self.wait("--ttl", "1h", "x")
        holder.signal(signal.SIGKILL)
        self.assertTrue(cli.ended(holder.child))
        self.assertEqual(waiter.status(), 0)  # long before the lease has ended
        self.assertRegex(waiter.err.rest(), '"x" was abandoned by [^ ]+/sh@')

    def test_the_next_one_who_comes_has_it_at_once(self):
        holder = self.hold("--ttl", "1h", "x")
        holder.signal(signal.SIGKILL)
        self.assertTrue(cli.ended(holder.child))
        holder.status()
        self.check(0, "run", "-n", "x", "--", "true")

    def test_the_lease_rules_while_a_process_of_the_command_lives(self):
        run = self.start("run", "--ttl", "1h", "x", "--", "sh", "-c", "sleep 600 & echo $!; wait")
        left = int(run.out.line())
        run.signal(signal.SIGKILL)
        run.status()
        self.check(75, "run", "-n", "x", "--", "true")
        os.kill(left, signal.SIGKILL)
        self.assertTrue(cli.ended(left))
        self.check(0, "run", "-n", "x", "--", "true")


class Lost(cli.Case):
    def stubborn(self, *words):
        """A command that works (holds the file locked) until it and its child are killed."""
        self.work = self.path("work")
        run = self.start("run", *words, "--", "sh", "-c", STUBBORN, "sh", self.work)
        run.workers = [int(run.out.line()), int(run.out.line())]
        return run

    def check_nobody_works(self):
        with open(self.work) as work:
            fcntl.flock(work, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_paused_for_longer_than_the_lease(self):
        holder = self.hold("--ttl", "6s", "x")
        token = self.json("show", "x", "--json")["token"]
        holder.signal(signal.SIGSTOP)
        result = self.check(0, "run", "x", "--", "sh", "-c", 'echo "$HOLDFAST_TOKEN"')
        self.assertGreater(int(result.out), token)
        self.assertTrue(cli.is_alive(holder.child))
        holder.signal(signal.SIGCONT)
        self.assertEqual(holder.status(), 76)
        self.assertTrue(cli.ended(holder.child, 0))
        holder.err.expect(r'holdfast: lost the lock "x": \S.*; stopping the command\n')

    def test_paused_and_ended_meanwhile(self):
        holder = self.hold("--ttl", "6s", "x")
        holder.signal(signal.SIGSTOP)
        self.check(0, "run", "x", "--", "true")
        holder.close_input()
        self.assertTrue(cli.ended(holder.child))
        holder.signal(signal.SIGCONT)
        self.assertEqual(holder.status(), 76)
        holder.err.expect("ended by itself")

    def test_break_stops_the_command_with_sigterm(self):
        run = self.start("run", "x", "--ttl", "12s", "--", "sh", "-c", TRAP % ("TERM", "TERM"))
        run.out.expect("ready\n")
        self.check(0, "break", "x", "--reason", "enough of it")
        run.out.expect("got-TERM\n")
        self.assertEqual(run.status(), 76)
        run.err.expect('lost the lock "x": .*enough of it')
        last = self.json("show", "--json", "x")["last"]
        self.assertEqual(last["outcome"], "abandoned", "its work was cut short")

    def test_break_stops_the_command_before_the_next_has_the_lock(self):
        holder = self.stubborn("--ttl", "9s", "x")
        waiter = self.wait("x", command=("flock", "-n", self.work, "true"))
        self.check(0, "break", "x", "--reason", "enough")
        self.assertEqual(waiter.status(), 0)
        self.assertEqual(holder.status(), 76)
        for pid in holder.workers:
            self.assertTrue(cli.ended(pid, 0))

    def test_the_whole_group_is_killed(self):
        holder = self.stubborn("--ttl", "6s", "--grace", "0.1", "x")
        self.check(0, "break", "x", "--reason", "enough")
        self.assertEqual(holder.status(), 76)
        self.check_nobody_works()

    def test_a_child_that_outlives_the_command_has_the_grace_too(self):
        script = ("sh -c \"trap 'sleep 0.3; echo cleaned; exit' TERM; echo ready; "
                  "while :; do sleep 600 & wait; done\" & wait")
        run = self.start("run", "--ttl", "12s", "x", "--", "sh", "-c", script)
        run.out.expect("ready\n")
        self.check(0, "break", "x", "--reason", "enough")
        self.assertEqual(run.status(), 76)
        run.out.expect("cleaned\n")

    def test_a_child_that_does_not_heed_sigterm_is_killed_after_the_command(self):
        script = 'sh -c \'trap "" TERM; echo $$; while :; do sleep 600 & wait; done\' & wait'
        run = self.start("run", "--ttl", "6s", "x", "--", "sh", "-c", script)
        child = int(run.out.line())
        self.check(0, "break", "x", "--reason", "enough")
        self.assertEqual(run.status(), 76)
        self.assertTrue(cli.ended(child))

    def test_own_code(self):
        holder = self.hold("--ttl", "6s", "--lost-code", "5", "x")
        self.check(0, "break", "x", "--reason", "enough")
        self.assertEqual(holder.status(), 5)

    def test_one_of_several(self):
        holder = self.hold("--ttl", "6s", "a", "b")
        self.check(0, "break", "b", "--reason", "enough")
        self.assertEqual(holder.status(), 76)
        holder.err.expect('lost the lock "b"')
        self.assertTrue(self.free("a"))

    def test_a_stopped_command_is_killed_too(self):
        holder = self.hold("--ttl", "6s", "x")
        os.kill(holder.child, signal.SIGSTOP)
        self.check(0, "break", "x", "--reason", "enough")
        self.assertEqual(holder.status(), 76)

    def test_a_stopped_command_hears_sigterm(self):
        run = self.start("run", "--ttl", "12s", "x", "--", "sh", "-c", TRAP % ("TERM", "TERM"))
        run.out.expect("ready\n")
        os.kill(int(self.children(run)[0]), signal.SIGSTOP)
        self.check(0, "break", "x", "--reason", "enough")
        run.out.expect("got-TERM\n")
        self.assertEqual(run.status(), 76)

    @staticmethod
    def children(run):
        with open("/proc/%d/task/%d/children" % (run.pid, run.pid)) as children:
            return children.read().split()

    def test_force_is_at_once(self):
        holder = self.hold("--ttl", "1h", "x")
        begun = boot_ns()
        result = self.check(0, "break", "x", "--force", "--reason", "enough")
        self.assertLess(idle_seconds(begun), cli.PATIENCE / 2)
        self.assertIn("for up to a ttl the old holder may still believe", result.err)
        self.assertTrue(self.free("x"))
        holder.close_input()


class BreakMany(cli.Case):
    def hold_on(self, host, *words):
        unshare = ["unshare", "--uts"] + ["--map-root-user"] * (os.getuid() != 0)
        words = ["sh", "-c", 'hostname "$1" && shift && exec "$@"', "sh", host, cli.BIN, "run", "--ttl", "3s", *words,
                 "--", "sh", "-c", "echo; exec cat"]
        holder = cli.Running(subprocess.Popen([*unshare, *words], env=self.env, stdin=subprocess.PIPE,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        self.addCleanup(self.stop, holder)
        holder.out.line()
        return holder

    def test_all_of_a_host(self):
        """Of those who share a lock, only those of that host."""
        gone = [self.hold_on("web3", "a"), self.hold_on("web3", "-s", "b")]
        stays = [self.hold_on("web33", "-s", "b"), self.hold("c")]
        shown = self.check(0, "break", "--host", "web3")
        self.assertRegex(shown.out, r"(?m)\ALOCK +HOLDER .*\na +\S+@web3:.*\nb +\S+@web3:.*\n\Z")
        self.assertIn("nothing was taken: add --yes", shown.err)
        self.assertEqual([each.process.poll() for each in gone], [None, None])
        self.check(0, "break", "--host", "web3", "--yes", "--reason", "is gone")
        self.assertEqual([each.status() for each in gone], [76, 76])
        self.assertEqual([each.process.poll() for each in stays], [None, None])
        self.assertIn("no holder is of that choice", self.check(65, "break", "--host", "web3").err)

    def test_all_of_a_session_and_of_a_prefix(self):
        """More than are waited for at a time, and than a session can be asked for."""
        names = ["job-%02d" % n for n in range(40)]
        first = self.hold("--ttl", "3s", "other", *names)
        second = self.hold("--ttl", "3s", "job-of-another")
        [session] = {lock["holders"][0]["session"] for lock in self.json("list", "--json")
                     if lock["name"] in names}
        which = ["break", "--session", session, "--prefix", "job-", "--json"]
        self.assertEqual([(each["name"], each["done"]) for each in self.json(*which)],
                         [(name, False) for name in names])
        taken = self.json(*which, "--yes", "--reason", "r")
        self.assertEqual([(each["name"], each["done"]) for each in taken], [(name, True) for name in names])
        self.assertEqual({each["asked"][0]["session"] for each in taken}, {session})
        self.assertEqual(first.status(), 76)
        self.assertIsNone(second.process.poll())

    def test_what_cannot_be_chosen(self):
        for words, said in ((["--prefix", ""], "It is empty"), (["--host", "h", "x"], "exclude a name"),
                            (["--host", "h", "--yes"], "why"), (["--yes", "--reason", "r", "x"], "--yes is for")):
            self.assertRegex(self.run_it("break", *words).err, said)


class Break(cli.Case):
    def test_only_that_token(self):
        holder = self.hold("--ttl", "6s", "x")
        token = self.json("show", "x", "--json")["token"]
        self.check(65, "break", "x", "--if-token", str(token + 1), "--reason", "r")
        result = self.check(0, "break", "x", "--if-token", str(token), "--reason", "r")
        self.assertIn(str(token), result.out)
        self.assertEqual(holder.status(), 76)

    def test_quiet(self):
        holder = self.hold("x")
        self.assertEqual(self.check(0, "-q", "break", "x", "--reason", "r").out, "")
        self.assertEqual(holder.status(), 76)

    def test_of_those_who_share_it_one(self):
        holders = [self.hold("--ttl", ttl, "-s", "x") for ttl in ("6s", "1h")]
        tokens = {":%d" % h.pid: 0 for h in holders}
        for entry in self.json("show", "x", "--json")["holders"]:
            tokens[":" + entry["who"].rpartition(":")[2]] = entry["token"]
        asked, other = (":%d" % holder.pid for holder in holders)
        out = self.check(0, "break", "x", "--if-token", str(tokens[asked]), "--reason", "r").out
        self.assertRegex(out, r'^"x": asking \S+/sh@\S+%s, token %d, to leave; waiting for it\n"x": done\n$'
                         % (asked, tokens[asked]))
        self.assertNotIn(other, out)
        self.assertEqual(holders[0].status(), 76)
        holders[1].close_input()
        self.assertEqual(holders[1].status(), 0)

    def test_by_force(self):
        self.hold("--ttl", "1h", "x")
        result = self.check(0, "break", "x", "--force", "--reason", "r")
        self.assertRegex(result.out, r'^"x": taking it from \S+/sh@\S+, token \d+, at once\n"x": done\n$')
        self.hold("--ttl", "1h", "x")
        done = self.check(0, "break", "x", "--force", "--reason", "r", "--json")
        self.assertTrue(json.loads(done.out)["forced"])
        self.assertIn("only the fencing token protects", done.err)

    def test_nobody_holds_it(self):
        self.check(0, "run", "x", "--", "true")
        self.assertIn("x", self.check(65, "break", "x", "--reason", "r").err)

    def test_interrupted_it_stays_in_force(self):
        holder = self.hold("--ttl", "6s", "x")
        holder.signal(signal.SIGSTOP)
        breaker = self.start("break", "x", "--reason", "r")
        breaker.out.expect("asking .*\n")
        breaker.signal(signal.SIGINT)
        self.assertEqual(breaker.status(), 130)
        breaker.err.expect("still asked to leave")
        holder.signal(signal.SIGCONT)
        self.assertEqual(holder.status(), 76)

    def test_in_json(self):
        holder = self.hold("--ttl", "6s", "x")
        result = self.check(0, "break", "x", "--reason", "r", "--json")
        self.assertEqual(result.err, "")
        done = json.loads(result.out)
        self.assertEqual((done["name"], done["forced"], len(done["asked"])), ("x", False, 1))
        holder.status()


if __name__ == "__main__":
    cli.main()
