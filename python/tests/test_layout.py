"""The package's structs, numbers, codes and versions are those of holdfast.h."""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import re
import subprocess
import tempfile
import unittest

import holdfast
from holdfast import _library

SOURCE = os.environ["HOLDFAST_SOURCE"]
INCLUDE = os.path.join(SOURCE, "include")
STRUCTS = {
    "hf_error": _library.Error, "hf_options": _library.Options, "hf_wait_info": _library.WaitInfo,
    "hf_lock_options": _library.LockOptions, "hf_done": _library.Done, "hf_last": _library.Last,
    "hf_lease_options": _library.LeaseOptions, "hf_lease": _library.Lease,
    "hf_entry_info": _library.EntryInfo, "hf_lock_info": _library.LockInfo,
    "hf_why_link": _library.WhyLink, "hf_session_info": _library.SessionInfo,
    "hf_list_options": _library.ListOptions, "hf_turn": _library.Turn,
    "hf_history_options": _library.HistoryOptions,
    "hf_break_options": _library.BreakOptions, "hf_finding": _library.Finding,
    "hf_election_options": _library.ElectionOptions, "hf_campaign_options": _library.CampaignOptions,
    "hf_leader": _library.Leader,
}
NUMBERS = {
    "HF_WAIT_DEFAULT": _library.WAIT_DEFAULT, "HF_WAIT_FOREVER": _library.WAIT_FOREVER,
    "HF_TRY": _library.TRY, "HF_EXCLUSIVE": _library.EXCLUSIVE, "HF_SHARED": _library.SHARED,
    "HF_LOG_DEBUG": _library.LOG_DEBUG, "HF_LOG_INFO": _library.LOG_INFO,
    "HF_LOG_WARNING": _library.LOG_WARNING, "HF_OUTCOME_NONE": _library.OUTCOME_NONE,
    "HF_OUTCOME_RELEASED": _library.OUTCOME_RELEASED,
    "HF_OUTCOME_ABANDONED": _library.OUTCOME_ABANDONED, "HF_LIMIT_RW": _library.LIMIT_RW,
    "HF_WHY_ROOT": _library.WHY_ROOT, "HF_WHY_FOLLOWS": _library.WHY_FOLLOWS,
    "HF_WHY_CYCLE": _library.WHY_CYCLE, "HF_WHY_TOLD": _library.WHY_TOLD,
    "HF_WHY_CUT": _library.WHY_CUT, "HF_WHY_UNKNOWN": _library.WHY_UNKNOWN,
    "HF_TURN_RELEASED": _library.TURN_RELEASED, "HF_TURN_LOST": _library.TURN_LOST,
    "HF_TURN_BROKEN": _library.TURN_BROKEN, "HF_TURN_ABANDONED": _library.TURN_ABANDONED,
    "HF_TURN_MISSING": _library.TURN_MISSING,
    "HF_LEASE_ID_SIZE": _library.LEASE_ID_SIZE,
}
NOT_FOR_PYTHON = {"hf_list", "hf_election_lock", "hf_guard_mongo", "hf_guard_sqlite",
                  "hf_guardian"}


def header():
    with open(os.path.join(INCLUDE, "holdfast", "holdfast.h"), encoding="utf-8") as stream:
        return stream.read()


def described(expressions):
    """What a C program says that these are, in the order of them."""
    with tempfile.TemporaryDirectory(prefix="holdfast-layout-") as folder:
        source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w") as out:
            out.write("#include <holdfast/holdfast.h>\n#include <stdio.h>\nint main(void)\n{\n")
            out.writelines('    printf("%%lld\\n", (long long)(%s));\n' % each for each in expressions)
            out.write("    return 0;\n}\n")
        subprocess.run(["cc", "-I", INCLUDE, source, "-o", program], check=True)
        return [int(line) for line in subprocess.check_output([program]).split()]


def members_of(name):
    """The members of a struct, as the header has them."""
    found = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (name, name), header(), re.S)
    body = re.sub(r"/\*.*?\*/", "", found.group(1), flags=re.S)
    declarators = [part for line in body.split(";") for part in line.split(",") if part.strip()]
    return [re.search(r"(\w+)\s*(\[[^]]*\])?\s*$", part).group(1) for part in declarators]


class Layout(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        expressions, wanted = [], []
        for name, struct in STRUCTS.items():
            members = [field[0] for field in struct._fields_]
            self.assertEqual(members, members_of(name), name)
            expressions.append("sizeof(%s)" % name)
            wanted.append(ctypes.sizeof(struct))
            for member in members:
                field = getattr(struct, member)
                expressions += ["offsetof(%s, %s)" % (name, member), "sizeof(((%s *)0)->%s)" % (name, member)]
                wanted += [field.offset, field.size]
        self.assertEqual(list(zip(expressions, wanted)), list(zip(expressions, described(expressions))))

    def test_no_struct_is_missing(self):
        there = set(re.findall(r"^\} (hf_\w+);", header(), re.M))
        self.assertEqual(there - {"hf_code", "hf_log_level", "hf_mode", "hf_outcome", "hf_why_next",
                                  "hf_turn_end"},
                         set(STRUCTS))

    def test_no_function_is_missing(self):
        there = set(re.findall(r"^\w[\w ]*[ *](hf_\w+)\(", header(), re.M))
        self.assertEqual(there, set(_library.FUNCTIONS) | NOT_FOR_PYTHON)

    def test_numbers_are_those_of_the_header(self):
        self.assertEqual(list(NUMBERS.values()), described(NUMBERS))

    def test_there_is_an_exception_for_each_code(self):
        table = re.findall(r"X\(HF_(\w+), (\d+), \"[^\"]*\", (\d+), (\d+), (true|false)\)", header())
        self.assertEqual([(name, int(number)) for name, number, *_ in table],
                         [(code.name, code.value) for code in holdfast.Code])
        for name, number, http, exit_status, retryable in table:
            code = holdfast.Code(int(number))
            self.assertEqual((code.http, code.exit_status, code.retryable),
                             (int(http), int(exit_status), retryable == "true"))
            if code:
                kind = getattr(holdfast, name.title().replace("_", "") + "Error")
                self.assertEqual((kind.code, kind("x").retryable), (code, code.retryable))

    def test_versions_agree(self):
        with open(os.path.join(SOURCE, "python", "pyproject.toml"), encoding="utf-8") as stream:
            packaged = re.search(r'^version = "(.*)"$', stream.read(), re.M).group(1)
        self.assertEqual({holdfast.__version__, packaged}, {holdfast.library_version()})


if __name__ == "__main__":
    unittest.main(verbosity=2)
