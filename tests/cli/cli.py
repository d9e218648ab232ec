"""What the command's tests share: a store of its own for each test, and commands that run
meanwhile, of which one waits for what they say or do, always with a deadline.
"""
# SPDX-License-Identifier: Apache-2.0
import fcntl
import functools
import json
import os
import pty
import pwd
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bed"))
import unignored  # noqa: E402,F401

BIN = os.environ.get("HOLDFAST_BIN") or os.path.join(HERE, "..", "..", "build", "holdfast")
USER = pwd.getpwuid(os.getuid()).pw_name
PATIENCE = 120  # seconds, for what should come at once: only what hangs takes longer


@functools.lru_cache(maxsize=None)
def _command():
    """A descriptor of the command, above all limits that tests set."""
    with open(BIN, "rb") as file:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 100)


def as_user(become):
    """Runs the command as the user that become() makes of the child, who may not enter the build folder."""
    return {"preexec_fn": become, "executable": "/proc/self/fd/%d" % _command(), "pass_fds": [_command()]}


class Stream:
    """The reading end of a pipe or a terminal, read with a deadline."""

    def __init__(self, fd):
        self.fd = fd
        self.text = ""  # all that has come
        self.at = 0  # up to where it was expected already
        self.ended = False
        os.set_blocking(fd, False)

    def more(self, deadline):
        """Reads once; false at the end, or at the deadline."""
        left = deadline - time.monotonic()
        if self.ended or left <= 0 or not select.select([self.fd], [], [], left)[0]:
            return False
        try:
            piece = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        except OSError:  # a terminal that nobody has open any more
            piece = b""
        self.ended = not piece
        self.text += piece.decode("utf-8", "replace")
        return not self.ended

    def expect(self, pattern, patience=PATIENCE):
        """The match of the pattern in what comes next."""
        deadline = time.monotonic() + patience
        while True:
            found = re.compile(pattern).search(self.text, self.at)
            if found:
                self.at = found.end()
                return found
            if not self.more(deadline):
                raise AssertionError("%r has not come; there is %r" % (pattern, self.text[self.at:]))

    def line(self):
        return self.expect(r"([^\n]*)\n").group(1)

    def rest(self):
        deadline = time.monotonic() + PATIENCE
        while self.more(deadline):
            pass
        return self.text[self.at:]


class Running:
    """A command that was started."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.out = Stream(process.stdout.fileno()) if process.stdout else None
        self.err = Stream(process.stderr.fileno()) if process.stderr else None

    def signal(self, number):
        self.process.send_signal(number)

    def say(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def close_input(self):
        self.process.stdin.close()

    def status(self, patience=PATIENCE):
        return self.process.wait(patience)

    def done(self):
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe and not pipe.closed:
                pipe.close()


def ended(pid, patience=PATIENCE):
    """Waits until a process has ended; it need not be a child of this one."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], patience)[0])
    finally:
        os.close(fd)


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def processor_time(pid):
    """How many seconds of the processor's a process has had; 0 when it has ended."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            words = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Case(unittest.TestCase):
    """A test with a store of its own."""

    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="holdfast-cli-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.store = "sqlite:" + self.path("locks.db")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")
                    or k.startswith("HOLDFAST_MUTANT")}
        self.env.pop("COLUMNS", None)  # would count for more than a terminal's own width
        self.env["HOLDFAST_STORE"] = self.store
        self.env["HOLDFAST_CONFIG"] = os.devnull
        self.env["TZ"] = "UTC"

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_it(self, *words, **more):
        """Runs the command to its end."""
        more.setdefault("env", self.env)
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("timeout", PATIENCE)
        result = subprocess.run([BIN, *words], capture_output=True, **more)
        result.out = result.stdout.decode("utf-8", "replace")
        result.err = result.stderr.decode("utf-8", "replace")
        return result

    def check(self, status, *words, **more):
        """Runs the command, which must exit so; returns the result."""
        result = self.run_it(*words, **more)
        self.assertEqual(result.returncode, status, (words, result.out, result.err))
        return result

    def json(self, *words):
        return json.loads(self.check(0, *words).out)

    def start(self, *words, **more):
        """Starts the command, and ends it after the test if need be."""
        more.setdefault("env", self.env)
        for stream in ("stdin", "stdout", "stderr"):
            more.setdefault(stream, subprocess.PIPE)
        running = Running(subprocess.Popen([BIN, *words], **more))
        self.addCleanup(self.stop, running)
        return running

    @staticmethod
    def stop(running):
        if running.process.poll() is None:
            running.signal(signal.SIGKILL)
            running.process.wait()
        running.done()

    def hold(self, *words):
        """`run` with these words, whose command holds until its input ends; returns when it has
        begun, with the command's process id in .child."""
        holder = self.start("run", *words, "--", "sh", "-c", 'echo "$$"; exec cat')
        holder.child = int(holder.out.line())
        return holder

    def wait(self, *words, command=("true",)):
        """`run -v` with these words; returns when it waits in the queue."""
        waiter = self.start("-v", "run", *words, "--", *command)
        waiter.err.expect(r"waiting for .*\n")
        return waiter

    def await_queue(self, name, length):
        """Asks the store again and again, until so many wait."""
        deadline = time.monotonic() + PATIENCE
        while len(self.json("show", name, "--json")["queue"]) != length:
            self.assertLess(time.monotonic(), deadline, "the queue is never %d long" % length)

    def free(self, name):
        """The lock can be had at once."""
        return self.run_it("run", "-n", name, "--", "true").returncode == 0


class TerminalCase(Case):
    """A test whose commands have a terminal each."""

    def open(self, words, columns=80, lines=24, **more):
        """Starts the words on a terminal of their own; returns what runs, .screen being it."""
        master, slave = pty.openpty()
        self.resize(slave, columns, lines)

        def become_leader():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        env = dict(self.env, TERM="xterm", PS1="$ ", HISTFILE="")
        env.update(more)
        process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=env,
                                   preexec_fn=become_leader)
        os.close(slave)
        running = Running(process)
        running.screen = Stream(master)
        self.addCleanup(os.close, master)
        self.addCleanup(self.stop, running)
        return running

    @staticmethod
    def resize(terminal, columns, lines):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @staticmethod
    def type(running, text):
        os.write(running.screen.fd, text.encode())


def main():
    unittest.main(verbosity=2)
