"""Writes a copy of the tree in which every mistake is there, switched off, and builds it."""
# SPDX-License-Identifier: Apache-2.0
import glob
import hashlib
import json
import os
import pickle
import shutil
import subprocess

import mistakes
import named
from syntax import Source

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDERS = ("src/core", "src/client", "src/store", "src/guard", "src/httpd", "src/cli",
           "src/election")
COPIED = ("CMakeLists.txt", "CMakePresets.json", "src", "include", "tests", "bench", "docs",
          "completion", "tools", "examples", "debian", "CHANGELOG.md", "README.md",
          "holdfast.pc.in", "holdfast-guard.pc.in", "LICENSE")
PER_FILE = 4096  # numbers; so a change in one file leaves the others as they were built
FORMS = ("value", "truth", "statement", "code", "before")  # from the inside to the outside


def sources():
    """The sources that mistakes are made in, as paths in the tree."""
    names = []
    for folder in FOLDERS:
        for place, _, files in os.walk(os.path.join(ROOT, folder)):
            names += [os.path.relpath(os.path.join(place, f), ROOT) for f in files
                      if f.endswith(".c")]
    return sorted(names)


def common_files():
    """What decides, beside a source, what is found in it: headers, and the programs here."""
    patterns = ("src/**/*.h", "include/holdfast/*.h", "tests/mutants/mistakes.py",
                "tests/mutants/syntax.py")
    return sorted(path for pattern in patterns
                  for path in glob.glob(os.path.join(ROOT, pattern), recursive=True))


def commands(build):
    """source -> how clang is told to parse it."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        words = entry["command"].split()
        flags = [w for w in words if w.startswith(("-I", "-D", "-std", "-U"))]
        flags += ["-isystem" + words[i + 1] for i, w in enumerate(words) if w == "-isystem"]
        flags = [flag.replace('\\"', '"') for flag in flags]
        found.setdefault(entry["file"], ["clang"] + flags + [entry["file"]])
    return found


class Tree:
    """The copy: build-mutants/tree (or build-planted/tree), its build beside it, and what can be
    mistaken in it.
    """

    def __init__(self, folder):
        self.folder = folder
        self.copy, self.build = os.path.join(folder, "tree"), os.path.join(folder, "build")
        self.mistakes = []
        self.common = b"".join(read(path) for path in common_files())

    def prepare(self, only_named=False):
        """Copies, finds all mistakes and weaves them in."""
        os.makedirs(self.folder, exist_ok=True)
        self._copy_all()
        self._configure()
        self._find_all(only_named)
        by_file = self._by_file()
        for name in sources():
            text = read(os.path.join(ROOT, name))
            if name in by_file:
                text = (b'#include "mutant.h"\n#line 1 "%s"\n' % name.encode()
                        + weave(text, by_file[name]))
            write(os.path.join(self.copy, name), text)

    def make(self, targets=("all",)):
        subprocess.run(["cmake", "--build", self.build, "-j", "2", "--target", *targets],
                       check=True, stdout=subprocess.DEVNULL)

    def _copy_all(self):
        woven, header = set(sources()), os.path.join("include", "mutant.h")
        for top in COPIED:
            names = files_under(top)
            for name in set(files_under(top, self.copy)) - set(names) - {header}:
                os.unlink(os.path.join(self.copy, name))
            for name in names:
                if name not in woven:
                    copy(os.path.join(ROOT, name), os.path.join(self.copy, name))
        copy(os.path.join(HERE, "mutant.h"), os.path.join(self.copy, header))

    def _configure(self):
        for name in sources():  # cmake lists them; what they hold comes later
            path = os.path.join(self.copy, name)
            if not os.path.exists(path):
                write(path, b"")
        subprocess.run(["cmake", "-S", self.copy, "-B", self.build, "-G", "Ninja",
                        "-DCMAKE_BUILD_TYPE=None",
                        "-DCMAKE_C_FLAGS=-O1 -g1 -w -ftrivial-auto-var-init=pattern",
                        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], check=True,
                       stdout=subprocess.DEVNULL)

    def _find_all(self, only_named):
        how = commands(self.build)
        by_hand = named.load()
        for number, name in enumerate(sources()):
            source = Source(os.path.join(ROOT, name), name)
            chosen = named.in_source(by_hand, source)
            found = [] if only_named else [
                m for m in self._find(source, how[os.path.join(self.copy, name)])
                if not any(m.crosses(c) for c in chosen)]
            assert len(found) + len(chosen) <= PER_FILE, name
            for i, each in enumerate(found + chosen):
                each.number = number * PER_FILE + i
            self.mistakes += found + chosen
        named.check_all_found(by_hand)
        named.share_numbers(self.mistakes)

    def _find(self, source, command):
        """What can be mistaken there; as it was found before, if nothing has changed. The command
        is that of the copy.
        """
        kept = os.path.join(self.folder, "found", source.name.replace("/", "-"))
        key = hashlib.sha1(self.common + source.bytes).digest()
        if os.path.exists(kept):
            with open(kept, "rb") as file:
                known, found = pickle.load(file)
            if known == key:
                return found
        source.parse(command[:-1] + [os.path.join(ROOT, source.name)])
        found = mistakes.Finder(source).found
        write(kept, pickle.dumps((key, found)))
        return found

    def _by_file(self):
        files = {}
        for each in self.mistakes:
            files.setdefault(each.file, []).append(each)
        return files

    def numbers(self):
        return (len(sources()) + 1) * PER_FILE


# ---- weaving ----

def switched(mistake, text):
    number, other = mistake.number, mistake.becomes
    if mistake.form == "before":
        return other + "\n" + text
    if mistake.form == "truth":
        return "(mutant(%d) ? %s : !!(%s))" % (number, other, text)
    if mistake.form == "statement":
        return "mutant(%d) ? (void)0 : (void)(%s)" % (number, text)
    if mistake.form == "code":
        return "if (mutant(%d)) { %s } else { %s }" % (number, other, text)
    return "(mutant(%d) ? (%s) : (%s))" % (number, other, text)


def weave(text, found):
    """The text with a switch around each place; a place inside of another is switched in it."""
    ordered = sorted(found, key=lambda m: (m.begin, -m.end, -FORMS.index(m.form)))
    return _woven(text, 0, len(text), ordered).encode()


def _woven(text, begin, end, ordered):
    """[begin, end) with those of `ordered` that it begins with; takes them out of it."""
    parts, at = [], begin
    while ordered and ordered[0].begin < end:
        mistake = ordered.pop(0)
        parts.append(text[at:mistake.begin].decode())
        parts.append(switched(mistake, _woven(text, mistake.begin, mistake.end, ordered)))
        at = mistake.end
    parts.append(text[at:end].decode())
    return "".join(parts)


# ---- files ----

def files_under(top, root=ROOT):
    whole = os.path.join(root, top)
    if os.path.isfile(whole):
        return [top]
    return [os.path.relpath(os.path.join(place, f), root)
            for place, _, files in os.walk(whole) if "__pycache__" not in place for f in files]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, content):
    """Leaves a file alone that has that content, so that it is not built anew."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path) and read(path) == content:
        return
    with open(path, "wb") as file:
        file.write(content)


def copy(source, target):
    write(target, read(source))
    shutil.copymode(source, target)
