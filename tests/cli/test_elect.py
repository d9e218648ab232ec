#!/usr/bin/python3
"""`holdfast elect`: one command runs at a time, and starts elsewhere when its leader ends; who leads
is printed."""
# SPDX-License-Identifier: Apache-2.0
import json
import signal
import subprocess

import cli

# Says who it is and with which token it leads, and goes on until its input ends.
WORK = 'echo "$$ $HOLDFAST_NAME $HOLDFAST_TOKEN"; exec cat'
# The same, until somebody kills it; passes on that a SIGHUP has come.
STUBBORN = ('trap "echo again" HUP; trap "echo no" TERM; echo "$$ $HOLDFAST_NAME $HOLDFAST_TOKEN"; '
            'while :; do sleep 600 & wait $!; done')


class Elections(cli.Case):
    def stand(self, *words, command=WORK):
        return self.start("-v", "elect", *words, "x", "--", "sh", "-c", command)

    def leads(self, candidate):
        """Waits until the candidate's command has begun."""
        pid, name, token = candidate.out.line().split()
        self.assertEqual(name, "x")
        candidate.child, candidate.token = int(pid), int(token)

    def lead(self, *words, command=WORK):
        leader = self.stand(*words, command=command)
        self.leads(leader)
        return leader

    def stand_by(self, *words):
        """A candidate that waits in the queue."""
        candidate = self.stand(*words)
        candidate.err.expect("waiting for .*\n")
        return candidate

    def check_works(self, candidate, text):
        candidate.say(text + "\n")
        candidate.out.expect(text + "\n")


class Leading(Elections):
    def test_it_exits_with_the_commands_status(self):
        for status in (0, 3, 255):
            self.check(status, "elect", "x", "--", "sh", "-c", "exit %d" % status)
            self.assertEqual(self.json("show", "x", "--json")["last"]["exit_status"], status)
            self.assertTrue(self.free("x"))
        self.check(128 + signal.SIGKILL, "elect", "x", "--", "sh", "-c", "kill -KILL $$")
        self.check(127, "elect", "x", "--", "no-such-command")
        self.assertTrue(self.free("x"))

    def test_an_election_is_a_lock(self):
        self.lead("--why", "in Oslo")
        self.assertEqual(self.json("show", "x", "--json")["holders"][0]["why"], "in Oslo")
        self.check(75, "run", "-n", "x", "--", "true")

    def test_the_next_leads_when_the_command_has_ended(self):
        leader = self.lead()
        candidate = self.stand_by()
        leader.close_input()
        self.assertEqual(leader.status(), 0)
        self.leads(candidate)
        self.assertGreater(candidate.token, leader.token)

    def test_the_next_leads_when_the_leader_is_killed(self):
        leader = self.lead("--ttl", "1h")
        candidate = self.stand_by("--ttl", "1h")
        leader.signal(signal.SIGKILL)
        self.leads(candidate)  # long before the lease has ended
        self.assertTrue(cli.ended(leader.child, 0))
        self.assertGreater(candidate.token, leader.token)
        candidate.err.expect('"x" was abandoned by [^ ]+/sh@')

    def test_a_leader_that_was_paused_stands_by_and_leads_again(self):
        leader = self.lead("--ttl", "3s")
        candidate = self.stand_by("--ttl", "1h")
        leader.signal(signal.SIGSTOP)
        self.leads(candidate)
        first = leader.child
        leader.signal(signal.SIGCONT)
        leader.err.expect(r'lost the lock "x": \S.*; stopping the command\n')
        leader.err.expect('campaigning for "x" again\n')
        leader.err.expect("waiting for .*\n")
        self.assertTrue(cli.ended(first, 0))
        self.check_works(candidate, "still")
        candidate.close_input()
        self.assertEqual(candidate.status(), 0)
        self.leads(leader)
        self.assertGreater(leader.token, candidate.token)
        self.check_works(leader, "again")

    def test_who_was_broken_campaigns_again(self):
        leader = self.lead("--ttl", "6s")
        token, first = leader.token, leader.child
        self.check(0, "break", "--reason", "why not", "x")
        self.leads(leader)
        self.assertGreater(leader.token, token)
        self.assertTrue(cli.ended(first, 0))


class Signals(Elections):
    def test_a_leader_that_is_stuck_is_stopped_and_campaigns_again(self):
        leader = self.lead("--max-hold", "1s")
        first = int(leader.token)
        self.leads(leader)
        self.assertGreater(int(leader.token), first)
        self.assertIn("longer than", self.json("show", "x", "--json")["last"]["reason"])

    def test_one_that_asks_to_end_goes_to_the_command(self):
        leader = self.lead()
        leader.signal(signal.SIGTERM)
        self.assertEqual(leader.status(), 128 + signal.SIGTERM)
        self.assertEqual(self.json("show", "x", "--json")["last"]["outcome"], "released")

    def test_one_ends_standing_by(self):
        self.lead()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            candidate = self.stand_by()
            candidate.signal(number)
            self.assertEqual(candidate.status(), 128 + number)
            self.assertEqual(self.json("show", "x", "--json")["queue"], [])

    def test_after_a_loss_it_goes_on_unless_it_was_asked_to_end(self):
        leader = self.lead("--ttl", "6s", command=STUBBORN)
        leader.signal(signal.SIGHUP)
        leader.out.expect("again\n")
        self.check(0, "break", "--reason", "once", "x")
        leader.out.expect("no\n")
        self.leads(leader)
        leader.signal(signal.SIGTERM)
        leader.out.expect("no\n")
        self.check(0, "break", "--reason", "twice", "x")
        self.assertEqual(leader.status(), 76)


class StoreAway(Elections):
    def test_it_goes_on_until_a_signal_comes(self):
        away = "mongodb://127.0.0.1:1/app?serverSelectionTimeoutMS=100&replicaSet=rs0"
        candidate = self.stand("--store", away)
        for _ in range(2):
            candidate.err.expect('campaigning for "x" again\n')
        candidate.signal(signal.SIGTERM)
        self.assertEqual(candidate.status(), 128 + signal.SIGTERM)

    def test_who_follows_gives_up(self):
        away = "mongodb://127.0.0.1:1/app?serverSelectionTimeoutMS=100&replicaSet=rs0"
        self.check(69, "--store", away, "elect", "--print", "x")


class Following(Elections):
    def follow(self, *words):
        return self.start("elect", "--print", *words, "x")

    def test_each_new_leader_is_a_line(self):
        follower = self.follow()
        self.assertEqual(follower.out.line(), "nobody")
        leader = self.lead("--ttl", "1h", "--why", "in\tOslo")
        self.assertRegex(follower.out.line(),
                         r"^\S+/sh@\S+:%d since \d\d:\d\d:\d\d, token %d: in\\x09Oslo$"
                         % (leader.pid, leader.token))
        candidate = self.stand_by("--ttl", "1h")
        leader.signal(signal.SIGKILL)
        self.leads(candidate)
        self.assertRegex(follower.out.line(), r"^\S+/sh@\S+:%d since \S+, token %d$"
                         % (candidate.pid, candidate.token))
        candidate.close_input()
        self.assertEqual(follower.out.line(), "nobody")
        follower.signal(signal.SIGTERM)
        self.assertEqual(follower.status(), -signal.SIGTERM)
        self.assertEqual(follower.out.rest(), "")

    def test_in_json(self):
        follower = self.follow("--json")
        self.assertEqual(json.loads(follower.out.line()), {"name": "x", "leader": None})
        leader = self.lead("--why", "in Oslo")
        line = json.loads(follower.out.line())
        self.assertEqual((line["name"], line["leader"]["why"], line["leader"]["token"]),
                         ("x", "in Oslo", leader.token))
        self.assertTrue(line["leader"]["who"].endswith(":%d" % leader.pid))
        self.assertRegex(line["leader"]["since"], r"^\d{4}-\d\d-\d\dT[0-9:.]+Z$")
        self.assertRegex(line["leader"]["session"], "^[0-9a-f]{24}$")

    def test_a_leader_that_died_is_nobody_when_its_lease_is_over(self):
        leader = self.lead("--ttl", "6s")
        follower = self.follow()
        self.assertNotEqual(follower.out.line(), "nobody")
        leader.signal(signal.SIGKILL)
        self.assertEqual(follower.out.line(), "nobody")

    def test_it_needs_no_session(self):
        follower = self.follow()
        follower.out.line()
        self.assertEqual(self.json("sessions", "--json"), [])

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([cli.BIN, "elect", "--print", "x"], env=self.env, stdout=full,
                                    stderr=subprocess.PIPE, timeout=cli.PATIENCE)
        self.assertEqual(result.returncode, 74)


if __name__ == "__main__":
    cli.main()
