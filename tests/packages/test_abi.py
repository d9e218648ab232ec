"""What `tools/check-abi` lets pass and what it does not: small libraries made of altered headers."""
# SPDX-License-Identifier: Apache-2.0
import os
import unittest

from released import SOURCE, Case, Release, run

HEADER = os.path.join(SOURCE, "include", "holdfast", "holdfast.h")
FUNCTIONS = r"""
#include <holdfast/holdfast.h>
hf_code hf_open(const char *uri, const hf_options *options, hf_client **out, hf_error *err)
{ (void)uri, (void)options, (void)out, (void)err; return HF_OK; }
hf_code hf_lock_previous(hf_lock *lock, hf_last *out, hf_error *err)
{ (void)lock, (void)out, (void)err; return HF_OK; }
hf_code hf_lease_acquire(hf_client *client, const char *name, const hf_lease_options *options,
                         hf_lease *out, hf_error *err)
{ (void)client, (void)name, (void)options, (void)out, (void)err; return HF_OK; }
"""


class Compared(Case):
    def library(self, name, was="", becomes="", functions=FUNCTIONS, soname="libholdfast.so.1"):
        """A library whose header has something else in one place, and that header's folder."""
        include = os.path.join(self.tmp, name)
        os.makedirs(os.path.join(include, "holdfast"))
        with open(HEADER) as header:
            text = header.read()
        self.assertIn(was, text)
        with open(os.path.join(include, "holdfast", "holdfast.h"), "w") as out:
            out.write(text.replace(was, becomes, 1))
        source = os.path.join(include, "library.c")
        with open(source, "w") as out:
            out.write(functions)
        self.must("cc", "-g", "-shared", "-fPIC", "-I", include, source, "-o", source + ".so",
                  "-Wl,-soname," + soname)
        return source + ".so", include

    def compare(self, **new):
        return run(os.path.join(SOURCE, "tools", "abi-compare"), *self.library("old"),
                   *self.library("new", **new))

    def assert_breaks(self, **new):
        status, said = self.compare(**new)
        self.assertNotEqual(status, 0, said)

    def assert_passes(self, **new):
        status, said = self.compare(**new)
        self.assertEqual(status, 0, said)
        self.assertIn("ABI: ", said)

    def test_the_same(self):
        self.assert_passes()

    def test_a_new_function(self):
        self.assert_passes(functions=FUNCTIONS + "int hf_more(void);\nint hf_more(void) { return 1; }\n")

    def test_options_that_grow_at_the_end(self):
        self.assert_passes(was="} hf_options;", becomes="    int64_t more_ms;\n} hf_options;")

    def test_a_member_in_a_reserved_place(self):
        self.assert_passes(was="    int64_t reserved[8];",
                           becomes="    int64_t more_ms;\n    int64_t reserved[7];")

    def test_a_code_that_is_added(self):
        self.assert_passes(was='internal error", 500, 70, false)',
                           becomes='internal error", 500, 70, false) X(HF_MORE, 21, "", 500, 70, false)')

    def test_another_soname(self):
        self.assert_passes(was="text[512]", becomes="text[256]", soname="libholdfast.so.2")

    def test_a_function_that_is_gone(self):
        self.assert_breaks(functions=FUNCTIONS.replace("hf_lock_previous", "hf_lock_before"))

    def test_options_with_a_member_between(self):
        self.assert_breaks(was="    int64_t stop_margin_ms;", becomes="    int64_t more_ms;\n    int64_t stop_margin_ms;")

    def test_a_struct_of_the_caller_that_grows(self):
        self.assert_breaks(was="} hf_last;", becomes="    int more;\n} hf_last;")

    def test_a_struct_that_shrinks(self):
        self.assert_breaks(was="text[512]", becomes="text[256]")

    def test_a_code_with_another_number(self):
        self.assert_breaks(was="X(HF_HELD, 1,", becomes="X(HF_HELD, 100,")


class Released(Release):
    def test_no_release(self):
        path = os.path.join(self.tree, "CHANGELOG.md")
        with open(path, "w") as changes:
            changes.write("# Changes\n\n## 1.0.0 (unreleased)\n")
        self.assertEqual(self.check(), (0, "ABI: not compared: CHANGELOG.md has no release yet\n"))

    def test_a_release_that_is_not_in_the_clone(self):
        self.release()
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("no tag v0.9.9 here", said)


unittest.main(verbosity=2)
