# What the live tests share: programs whose output is an event to wait for, contenders over a
# counter, and the proof that what they say of their turns is right.
# SPDX-License-Identifier: Apache-2.0
"""
    with Worker(uri, "--name=x", "--script") as w:   # live_worker: the library
        w.send("acquire")
        w.wait("acquired", 10)
    with Command("--store", uri, "run", "x", "--", "true") as run:   # holdfast
        self.assertEqual(run.status(10), 0)

Programs end with this process: start them from the main thread (see mongod.py).
"""
import bisect
import collections
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

import guardian
import unignored  # noqa: F401
from idle import boot_ns, idle_seconds  # noqa: F401
from limits import BUSY

COMMAND = os.environ["HOLDFAST_BIN"]
# Seconds of a contest at full speed, which fills the machine; `make check-long` has longer ones.
CONTEST_SECONDS = int(os.environ.get("HOLDFAST_TEST_CONTEST_SECONDS", 4))
WORKER = os.path.join(os.environ["HOLDFAST_BUILD"], "live_worker")


def seconds_since(ns):
    return (boot_ns() - ns) / 1e9


class Program:
    """A process whose lines on stdout and stderr are events. Leaving `with` kills it."""

    def __init__(self, *words, env=None):
        self.words = words
        self.changed = threading.Condition()
        self.out, self.err = [], []
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--"] + list(words), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env=dict(os.environ, **guardian.MARK, **(env or {})))
        self.readers = [threading.Thread(target=self._read, args=each, daemon=True)
                        for each in ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self.changed:
                lines.append((boot_ns(), line.decode("utf-8", "replace").rstrip("\n")))
                self.changed.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def pid(self):
        return self.process.pid

    @property
    def lines(self):
        with self.changed:
            return [text for _, text in self.out]

    @property
    def errors(self):
        with self.changed:
            return "\n".join(text for _, text in self.err)

    def __str__(self):
        return "%s: status %s, last said %s, stderr %s" % (
            " ".join(self.words[:8]), self.process.poll(), self.lines[-3:], self.errors[-1500:])

    def until(self, claim, timeout, what):
        """Waits until claim() is true, asked whenever a line has come; returns what it gave."""
        timeout *= BUSY
        with self.changed:
            if not self.changed.wait_for(claim, timeout):
                raise TimeoutError("waited %g s for %s of %s" % (timeout, what, self))
            return claim()

    def line(self, beginning, timeout):
        """Waits for a line on stdout that begins so; returns (time it came, line)."""
        return self.until(lambda: next((each for each in self.out
                                        if each[1].startswith(beginning)), None),
                          timeout, "the line %r" % beginning)

    def events(self, kind=None):
        """The lines on stdout of a program that prints events in JSON."""
        with self.changed:
            found = [json.loads(text) for _, text in self.out]
        return [each for each in found if kind in (None, each["event"])]

    def count(self, beginning):
        with self.changed:
            return sum(text.startswith(beginning) for _, text in self.out)

    def said(self, text, timeout):
        """Waits until stderr has that text."""
        return self.until(lambda: any(text in line for _, line in self.err), timeout,
                          "%r on stderr" % text)

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, number):
        self.process.send_signal(number)

    def status(self, timeout):
        """Waits for the end; the exit status, negative for a signal."""
        timeout *= BUSY
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError("waited %g s for the end of %s" % (timeout, self))
        for reader in self.readers:
            reader.join(2 * BUSY)  # a grandchild may have the pipe still
        return status

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)  # its session's group: a shell's children, too
        self.process.wait()
        for reader in self.readers:
            reader.join(2)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass


class Command(Program):
    """The command `holdfast`, with what is left of the environment's own settings taken out."""
    program = COMMAND

    def __init__(self, *words, env=None):
        super().__init__(self.program, *words, env=dict({"HOLDFAST_STORE": ""}, **(env or {})))


class Worker(Program):
    """live_worker."""
    program = WORKER

    def __init__(self, store, *words):
        super().__init__(self.program, "--store=" + store, *words)

    def wait(self, kinds, timeout, nth=1):
        """Waits for the nth event of a kind, or of several: "acquired refused"."""
        beginnings = tuple('{"event":"%s"' % kind for kind in kinds.split())

        def found():
            events = [text for _, text in self.out if text.startswith(beginnings)]
            return events[nth - 1] if len(events) >= nth else None
        return json.loads(self.until(found, timeout, "event %d, %s," % (nth, kinds)))

    def ask(self, line, kinds, timeout=10):
        """Sends a line of the script and waits for its answer."""
        nth = sum(len(self.events(kind)) for kind in kinds.split()) + 1
        self.send(line)
        return self.wait(kinds, timeout, nth)


class Contest:
    """Contenders over one counter in a file that only the lock protects."""

    def __init__(self, store, name):
        self.store, self.name = store, name
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-contest-")
        self.counter = os.path.join(self.folder.name, "counter")
        self.end = os.path.join(self.folder.name, "end")
        with open(self.counter, "w") as out:
            out.write("%-20d\n" % 0)
        self.workers, self.loops = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.workers + self.loops:
            each.kill()
        self.folder.cleanup()

    def add(self, *words, worker=Worker):
        number = len(self.workers)
        self.workers.append(worker(self.store, "--name=" + self.name, "--id=w%d" % number,
                                   "--counter=" + self.counter, *words))
        return self.workers[-1]

    def add_endless(self, *words, **more):
        """Takes turns until finish()."""
        return self.add("--until=" + self.end, *words, **more)

    def add_command(self, *words):
        """A shell loop of `holdfast run`, each of which counts up by one, until finish()."""
        loop = 'end=$1; shift; while [ ! -e "$end" ]; do "$@"; echo "status $?"; done'
        count = ('read v <"$0"; printf "%-20d\\n" $((v + 1)) 1<>"$0"; '
                 'echo "token $HOLDFAST_TOKEN"')
        self.loops.append(Program("bash", "-c", loop, "loop", self.end, COMMAND,
                                  "--store", self.store, "run", *words, self.name, "--",
                                  "bash", "-c", count, self.counter))
        return self.loops[-1]

    def turns(self):
        return [turn for worker in self.workers for turn in worker.events("turn")]

    def await_turns(self, count, timeout):
        """Waits until everybody has had so many more turns: nobody hangs."""
        beginnings = {worker: '{"event":"turn"' for worker in self.workers}
        beginnings.update({loop: "status" for loop in self.loops})
        had = {each: each.count(beginnings[each]) for each in beginnings}
        deadline = time.monotonic() + timeout
        for each, beginning in beginnings.items():
            each.until(lambda: each.count(beginning) >= had[each] + count,
                       max(0, deadline - time.monotonic()), "%d more turns" % count)

    def finish(self, timeout):
        """Tells all to end, and waits until they have, each by itself."""
        open(self.end, "w").close()
        deadline = time.monotonic() + timeout
        for each in self.workers + self.loops:
            status = each.status(max(1, deadline - time.monotonic()))
            if status != 0:
                raise AssertionError("ended with %d: %s" % (status, each))

    def value(self):
        with open(self.counter) as stream:
            return int(stream.read())


def written_twice(turns):
    """The turns that read a value that another one read, too, before either of them wrote."""
    written = [turn for turn in turns if turn["wrote"]]
    counts = collections.Counter(turn["value"] for turn in written)
    return sorted((turn for turn in written if counts[turn["value"]] > 1),
                  key=lambda turn: (turn["value"], turn["from"]))


def check_counter(test, contest):
    """Every write of the counter is there, and none was made twice from the same value."""
    turns = contest.turns()
    tokens = [line for loop in contest.loops for line in loop.lines if line.startswith("token")]
    test.assertEqual(written_twice(turns), [])
    test.assertEqual(contest.value(), sum(turn["wrote"] for turn in turns) + len(tokens),
                     "an update was lost")
    test.assertFalse([turn for turn in turns if turn["torn"]], "a reader saw a write")


def check_exclusion(test, turns):
    """At no moment more permits were believed in than there are."""
    edges = []
    for turn in turns:
        edges.append((turn["from"], 1, turn))
        edges.append((turn["until"], 0, turn))
    used, holding = 0, []
    for at, is_grant, turn in sorted(edges, key=lambda edge: edge[:2]):
        used += turn["permits"] if is_grant else -turn["permits"]
        if is_grant:
            holding.append(turn)
            test.assertLessEqual(used, turn["limit"], "believed at once, at %d: %s" % (at, holding))
        elif turn in holding:
            holding.remove(turn)


def check_tokens(test, turns):
    """No token was given twice, and a request made after another's grant got a higher one."""
    tokens = [turn["token"] for turn in turns]
    test.assertEqual(len(tokens), len(set(tokens)), "a token was given twice")
    granted = sorted((turn["from"], turn["token"]) for turn in turns)
    times = [at for at, _ in granted]
    highest, most = [], 0
    for _, token in granted:
        most = max(most, token)
        highest.append(most)
    for turn in turns:
        earlier = bisect.bisect_left(times, turn["asked"])
        if earlier:
            test.assertGreater(turn["token"], highest[earlier - 1], "a token fell: %s" % turn)
    if all(turn["permits"] == turn["limit"] for turn in turns):
        test.assertEqual([token for _, token in granted], sorted(tokens), "not in grant order")


def check_failures(test, contest, allowed=()):
    """No call failed that could have been tried again, and no turn ended in an unknown way."""
    failed = [each for worker in contest.workers for each in worker.events("failed")]
    test.assertEqual(failed, [])
    ends = collections.Counter(turn["outcome"] for turn in contest.turns())
    odd = {outcome: n for outcome, n in ends.items() if outcome != "released"}
    test.assertLessEqual(set(odd), set(allowed), [turn for turn in contest.turns()
                                                  if turn["outcome"] in odd][:3])
    for loop in contest.loops:
        ends = collections.Counter(line for line in loop.lines if line.startswith("status"))
        test.assertEqual(set(ends), {"status 0"}, str(loop))


def check_all(test, contest, allowed=()):
    check_counter(test, contest)
    check_exclusion(test, contest.turns())
    check_tokens(test, contest.turns())
    check_failures(test, contest, allowed)
