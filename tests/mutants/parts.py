"""The parts of the suite that mistakes are shown to: each one test program's case, as small as can
be told apart; what each costs, and which mistakes it reaches.
"""
# SPDX-License-Identifier: Apache-2.0
import ast
import glob
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

ANY = ("src/",)
ON_SET = ("src/store/mongo/", "src/store/document", "src/guard/mongo")  # tested on a replica set
SHOWN_SET = ON_SET + ("src/client/",)  # protocols without a queue are there only
COMMAND = ("src/cli/",)  # documents are locked there only
SQLITE = ("src/store/sqlite/", "src/store/document")
FRONT = ("src/cli/", "src/httpd/")
DEEP = ("test_elect", "test_once", "test_run", "test_acquire", "test_signals", "test_store",
        "test_leases")  # scripts about more than the front ends
NOT_ASKED = ("test_bench", "test_man", "test_page", "test_page_one")  # what they are about is not in C
FIRST_LIMIT = 300  # seconds for a part of which nothing is known

SERVER = threading.Lock()  # its fail points are one test's at a time


class Part:
    """A command, the sources whose mistakes it is shown, and the files that make it what it is."""

    def __init__(self, name, words, files, serves=ANY, env=None):
        self.name, self.words, self.files = name, words, files
        self.serves, self.env = serves, env or {}
        self.is_mongo = self.is_alone = False
        self.cost, self.reached = None, frozenset()

    def serves_file(self, name):
        return name.startswith(self.serves)

    def limit(self):
        return FIRST_LIMIT if self.cost is None else 30 + 6 * self.cost

    def run(self, more):
        """(whether it passed, what it said)."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_MUTANT")}
        env.update(self.env)
        env.update(more)
        if not self.is_alone:
            return run(self.words, env, self.limit())
        with SERVER:
            return run(self.words, env, self.limit())


def run(words, env, limit):
    child = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        said, _ = child.communicate(timeout=limit)
        return child.returncode == 0, said.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return False, "it hangs"
    finally:
        end_group(child)


def end_group(child):
    """Ends what a part has left behind, or what hangs."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.communicate()


class Suite:
    """All parts of a build of the woven tree."""

    def __init__(self, tree):
        self.tree, self.copy = tree, tree.copy
        self.programs = os.path.join(tree.build, "tests")
        self.command = [os.path.join(tree.build, name) for name in (
            "holdfast", "holdfast-httpd.so", "holdfast-screen.so", "holdfast-mongo.so")]

    def all(self, with_mongo):
        return self._units() + self._clients() + self._fuzzers() + self._stores() + \
            self._scripts() + (self._mongo() if with_mongo else [])

    def _program(self, name):
        return os.path.join(self.programs, name)

    def _path(self, *names):
        return os.path.join(self.copy, *names)

    def _units(self):
        names = [stem(path) for path in sorted(glob.glob(self._path("tests/unit/test_*.c")))]
        return [Part(name, [self._program(name)], [self._program(name)]) for name in names]

    def _clients(self):
        found = []
        for path in sorted(glob.glob(self._path("tests/client/test_*.c"))) + \
                sorted(glob.glob(self._path("tests/faults/test_*.c"))):
            program = self._program(stem(path))
            for case in cases_of(path):
                found.append(Part("%s %s" % (stem(path), case), [program], [program],
                                  env={"HOLDFAST_TEST_FILTER": case}))
        return found

    def _fuzzers(self):
        found = []
        for path in sorted(glob.glob(self._path("tests/fuzz/corpus/*"))):
            program = self._program("fuzz_" + os.path.basename(path))
            found.append(Part("fuzz_" + os.path.basename(path), [program, path], [program]))
        return found

    def _stores(self):
        sim = self._program("sim")
        found = [Part("sim %d" % seed, [sim, "--seed", str(seed), "--most-broken", "1",
                                           "--client-seconds", str(seconds)], [sim])
                 for seed, seconds in ((1, 12000), (1001, 12000))]
        found += self._conformance("memory:", ANY)
        found += self._conformance("sqlite:", SQLITE + ("src/client/",))
        specs = sorted(glob.glob(self._path("tests/spec/*.spec")))
        for spec in specs:
            found.append(self._spec("memory:spec", spec, ANY, [self._program("spec")]))
            found.append(self._spec("sqlite", spec, SQLITE,
                                    [self._path("tests/spec/run"), self._program("spec")]))
        return found

    def _spec(self, store, spec, serves, words):
        return Part("spec %s %s" % (store, stem(spec)), words + [store, spec],
                    [self._program("spec")], serves)

    def _conformance(self, store, serves):
        program, found = self._program("conformance"), []
        for path in sorted(glob.glob(self._path("tests/conformance/*_cases.c"))):
            for case in cases_of(path):
                part = Part("conformance %s %s" % (store, case), [program, store, case],
                            [program], serves)
                part.is_mongo = store.startswith("mongodb")
                part.is_alone = part.is_mongo and uses_fail_point(path)
                found.append(part)
        return found

    def _mongo(self):
        differential = self._program("differential")
        found = [Part("differential", [differential, os.environ["HOLDFAST_TEST_URI"]],
                      [differential], ON_SET, {"HOLDFAST_TEST_STEPS": "3000"})]
        for keys in ("", ":hfProtocol=ttl",
                     ":hfProtocol=document&hfCollection=locks&hfTokenField=fence",
                     ":hfProtocol=sharding&hfPollMS=50&hfPingMS=300"):
            found += self._conformance("mongodb" + keys, SHOWN_SET)
        return found + self._documents()

    def _documents(self):
        found = [part for part in self._script("protocols", "test_document.py", COMMAND)
                 if " Command." in part.name]
        for part in found:
            part.is_mongo = True
            part.env.pop("HOLDFAST_TEST_URI", None)
        return found

    def _scripts(self):
        found = []
        for folder in ("cli", "httpd"):
            for path in sorted(glob.glob(self._path("tests", folder, "test_*.py"))):
                if stem(path) not in NOT_ASKED:
                    serves = ANY if stem(path) in DEEP else FRONT
                    found += self._script(folder, os.path.basename(path), serves)
        return found

    def _script(self, folder, name, serves):
        path = self._path("tests", folder, name)
        env = {"HOLDFAST_BIN": self.command[0], "HOLDFAST_BUILD": self.tree.build,
               "HOLDFAST_SOURCE": self.copy, "HOLDFAST_CONFIG": os.devnull,
               "PYTHONPATH": self._path("tests/bed"), "PYTHONDONTWRITEBYTECODE": "1",
               "HOLDFAST_TEST_URI": ""}  # on a file, whatever else is tested on a set
        return [Part("%s/%s %s" % (folder, stem(name), case), [sys.executable, path, case],
                     self.command + [path], serves, env) for case in methods_of(path)]


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def cases_of(path):
    with open(path) as file:
        return re.findall(r"^static void (test_\w+)\(void \*\*", file.read(), re.M)


def uses_fail_point(path):
    with open(path) as file:
        return "failCommand" in file.read()


def methods_of(path):
    with open(path) as file:
        tree = ast.parse(file.read())
    return ["%s.%s" % (group.name, each.name) for group in tree.body
            if isinstance(group, ast.ClassDef) for each in group.body
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test")]


# ---- what each part reaches ----

class Reach:
    """Runs each part once with nothing wrong, and keeps what it cost and what it reached."""

    def __init__(self, tree):
        self.tree, self.path = tree, os.path.join(tree.folder, "reach.json")
        self.known, self.hashes, self.lock = {}, {}, threading.Lock()
        if os.path.exists(self.path):
            with open(self.path) as file:
                self.known = json.load(file)

    def _key(self, part):
        whole = hashlib.sha1()
        for path in part.files:
            if path not in self.hashes:
                with open(path, "rb") as file:
                    self.hashes[path] = hashlib.sha1(file.read()).hexdigest()
            whole.update(self.hashes[path].encode())
        return whole.hexdigest()

    def is_known(self, part):
        """Takes what is known of the part, if it is as it was."""
        known = self.known.get(part.name)
        if not known or known["key"] != self._key(part):
            return False
        part.cost, part.reached = known["cost"], frozenset(known["reached"])
        return True

    def measure(self, part):
        """What is wrong with the part, or None."""
        seen = os.path.join(self.tree.folder, "seen-%d" % threading.get_ident())
        for _ in range(2):  # once more, if the machine was too slow for it
            with open(seen, "wb") as file:
                file.truncate(self.tree.numbers())
            began = time.monotonic()
            passed, said = part.run({"HOLDFAST_MUTANT_SEEN": seen})
            cost = time.monotonic() - began
            if passed:
                break
        with open(seen, "rb") as file:
            reached = [match.start() for match in re.finditer(b"\1", file.read())]
        os.unlink(seen)
        if not passed:
            return " / ".join(re.findall(r".*(?:ERROR|LINE|Error).*", said))[:300]
        part.cost = round(cost, 2)
        part.reached = frozenset(reached if has_run(said) else ())
        with self.lock:
            self.known[part.name] = {"key": self._key(part), "cost": part.cost,
                                     "reached": sorted(part.reached)}
        return None

    def keep(self):
        with open(self.path, "w") as file:
            json.dump(self.known, file)


def has_run(said):
    """A case that the store under test cannot have has run nothing."""
    return not re.search(r"\[==========\]", said) or bool(
        re.search(r"\[  PASSED  \] [1-9]", said))
