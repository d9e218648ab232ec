#!/usr/bin/python3
"""Plants each bug of planted.toml in turn, and runs the part of the suite that must catch it.
"""
# SPDX-License-Identifier: Apache-2.0
#
#     planted.py [BUG...]
#
# All bugs are in one build of a copy of the tree (in HOLDFAST_BUILD, or build-planted), each
# switched on by its number in HOLDFAST_MUTANT. Caught means: an assertion failed. A program that
# crashed, was not there, ran no test or ran out of time has caught nothing. Each part must also
# pass with nothing planted. Prints a table, and exits 1 when something is not as it must be.
#
# A part is a test program and a word of the test's name; a conformance part names the store, too.
import concurrent.futures
import contextlib
import os
import re
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tests/mutants"), os.path.join(ROOT, "tests/bed")]

import named  # noqa: E402
import weave  # noqa: E402
from mongod import ReplicaSet  # noqa: E402

TREE = weave.Tree(os.path.abspath(os.environ.get("HOLDFAST_BUILD",
                                                 os.path.join(ROOT, "build-planted"))))
SECONDS = 900  # for one part: only what hangs takes longer
# Of the simulator. It stops at the first bug, which most often comes within a twentieth of that. When
# the simulator changes, its worlds are others, and the bug must come in those, too.
CLIENT_SECONDS = 400000
UNPLANTED_SECONDS = 40000  # with no bug it runs to the end, as in `make check`, for longer
AT_ONCE = 3  # most parts wait for a lease to end, and want no processor

SERVER = threading.Lock()  # its fail points are one test's at a time


def uses_server(part):
    return " mongodb" in part or part == "differential"


def target_of(part):
    """What has to be built for it."""
    program = part.split()[0]
    return "holdfast_command" if "/" in program else program


def command_of(part, is_planted):
    """The command, and what it finds in its environment."""
    program, *words = part.split()
    if "/" in program:
        return ([sys.executable, os.path.join(ROOT, "tests", program + ".py"), *words],
                {"HOLDFAST_BIN": os.path.join(TREE.build, "holdfast"), "HOLDFAST_BUILD": TREE.build,
                 "HOLDFAST_SOURCE": ROOT, "HOLDFAST_CONFIG": os.devnull,
                 "PYTHONPATH": os.path.join(ROOT, "tests/bed"), "PYTHONDONTWRITEBYTECODE": "1"})
    path = os.path.join(TREE.build, "tests", program)
    if program == "conformance":
        return [path, *words], {}
    if program == "sim":
        seconds = CLIENT_SECONDS if is_planted else UNPLANTED_SECONDS
        return [path, *words, "--most-broken", "1", "--client-seconds", str(seconds)], {}
    if program == "orders":
        return [path, "6000", *words], {}
    if program == "differential":
        return [path, os.environ["HOLDFAST_TEST_URI"]], {"HOLDFAST_TEST_STEPS": "3000"}
    return [path], {"HOLDFAST_TEST_FILTER": words[0]}


def passed(text):
    """How many tests passed, by what cmocka, unittest, the differential or the simulator say."""
    counts = [int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", text)]
    counts += [int(n) for n in re.findall(r"^Ran (\d+) tests? ", text, re.M)]
    others = re.findall(r"^  equal, in |; 0 worlds broke a rule|scenes, 0 failures$", text, re.M)
    return sum(counts) + len(others)


def has_failed_assertion(text):
    return bool(re.search(r"^\[  FAILED  \] |^FAIL: |^  NOT EQUAL|^BROKEN: ", text, re.M))


def run(part, number):
    """What went wrong, or None; and the seconds it took."""
    words, more = command_of(part, number is not None)
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_MUTANT")}
    env.update(more)
    if number is not None:
        env["HOLDFAST_MUTANT"] = str(number)
    with SERVER if uses_server(part) else contextlib.nullcontext():
        return run_with(words, env, number is not None)


def run_with(words, env, is_planted):
    began = time.monotonic()
    try:
        result = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, timeout=SECONDS,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error), time.monotonic() - began
    seconds = time.monotonic() - began
    text = result.stdout.decode("utf-8", "replace")
    return judge(is_planted, result.returncode, text), seconds


def judge(is_planted, status, text):
    if status < 0:
        return "it crashed (signal %d):\n%s" % (-status, text[-2000:])
    if not is_planted:
        is_right = status == 0 and passed(text) > 0
        return None if is_right else "fails with nothing planted (%d):\n%s" % (status, text[-3000:])
    if status == 0:
        return "was not noticed"
    return None if has_failed_assertion(text) else "failed, but by no assertion:\n" + text[-2000:]


def run_all(tasks, numbers):
    """(bug, part) -> (what went wrong, seconds), printed as they end."""
    results = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, part, numbers.get(bug)): (bug, part) for bug, part in tasks}
        for done in concurrent.futures.as_completed(running):
            bug, part = running[done]
            problem, seconds = results[bug, part] = done.result()
            show(bug or "(none)", numbers.get(bug, ""), part, "%5.1f" % seconds
                 + (" | " + problem if problem else ""))
    return results


def show(bug, number, part, rest):
    print("%-26s | %6s | %-72s | %s" % (bug, number, part, rest), flush=True)


def prepare(wanted, caught_by):
    """Builds what catches them; bug -> its number."""
    TREE.prepare(only_named=True)
    TREE.make(sorted({target_of(part) for bug in wanted for part in caught_by[bug]}))
    return {each.id: each.number for each in TREE.mistakes}


def main():
    caught_by = named.bugs(named.load())
    wanted = sys.argv[1:] or list(caught_by)
    for bug in wanted:
        if bug not in caught_by:
            raise named.NotFound("no bug is called " + bug)
    numbers = prepare(wanted, caught_by)
    tasks = [(bug, part) for bug in wanted for part in caught_by[bug]]
    tasks += [(None, part) for part in dict.fromkeys(part for _, part in tasks)]
    show("bug", "number", "caught by", "seconds")
    if any(uses_server(part) for _, part in tasks) and "HOLDFAST_TEST_URI" not in os.environ:
        with ReplicaSet() as rs:
            os.environ["HOLDFAST_TEST_URI"] = rs.uri
            results = run_all(tasks, numbers)
    else:
        results = run_all(tasks, numbers)
    for (bug, part), (problem, _) in results.items():
        if problem:
            print("WRONG: %s, %s: %s" % (bug or "nothing planted", part, problem.split("\n")[0]))
    caught = sum(1 for bug in wanted if not any(results[bug, p][0] for p in caught_by[bug]))
    print("%d of %d planted bugs caught" % (caught, len(wanted)))
    return 1 if any(problem for problem, _ in results.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except named.NotFound as error:
        sys.exit("planted: %s" % error)
