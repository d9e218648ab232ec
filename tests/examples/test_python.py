"""examples/python/holdfast.py: its structs are those of the header, and a lock in a `with` is held
from there to its end, or says that it was not."""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import select
import signal
import sys
import threading
import unittest

import bed

os.environ.setdefault("HOLDFAST_LIBRARY", os.path.join(bed.BUILD, "libholdfast.so.0"))
sys.path.insert(0, os.path.join(bed.EXAMPLES, "python"))
import holdfast  # noqa: E402

STRUCTS = {"hf_error": holdfast.ErrorStruct, "hf_options": holdfast.OptionsStruct,
           "hf_lock_options": holdfast.LockOptionsStruct}
CODES = {"HF_HELD": holdfast.HELD, "HF_TIMEOUT": holdfast.TIMEOUT, "HF_LOST": holdfast.LOST,
         "HF_TRY": holdfast.TRY, "HF_SHARED": holdfast.SHARED}


class Layout(bed.Case):
    def described(self, c_expressions):
        """What a C program says that these are, in the order of them."""
        source = self.path("layout.c")
        with open(source, "w") as out:
            out.write("#include <holdfast/holdfast.h>\n#include <stdio.h>\nint main(void)\n{\n")
            out.writelines('    printf("%%lld\\n", (long long)(%s));\n' % e for e in c_expressions)
            out.write("    return 0;\n}\n")
        return [int(n) for n in self.check(0, self.build("cc", source)).split()]

    def test_structs_are_those_of_the_header(self):
        for name, struct in STRUCTS.items():
            members = [field[0] for field in struct._fields_]
            wanted = self.described(["sizeof(%s)" % name] + [
                "%s(%s)" % (of, m) for m in members
                for of, m in (("offsetof", "%s, %s" % (name, m)), ("sizeof", "((%s *)0)->%s" % (name, m)))])
            got = [ctypes.sizeof(struct)]
            for member in members:
                field = getattr(struct, member)
                got += [field.offset, field.size]
            self.assertEqual(got, wanted, name)

    def test_numbers_are_those_of_the_header(self):
        self.assertEqual(list(CODES.values()), self.described(CODES))


class Held(bed.Case):
    def setUp(self):
        super().setUp()
        self.client = self.opened()
        self.other = self.opened()

    def opened(self):
        client = holdfast.Client(self.store, ttl=3)
        self.addCleanup(client.close)
        return client

    def assert_held(self, is_held):
        if is_held:
            with self.assertRaises(holdfast.Held) as caught:
                self.other.lock("x", wait=0)
            self.assertEqual((caught.exception.code, caught.exception.is_retryable), ("HF_HELD", True))
        else:
            self.other.lock("x", wait=0).close()

    def test_from_with_to_its_end(self):
        with self.client.lock("x", why="test") as lock:
            self.assertGreater(lock.token, 0)
            self.assertTrue(0 < lock.check() <= 3)
            self.assert_held(True)
            self.assertEqual(self.show("x")["holders"][0]["why"], "test")
        self.assert_held(False)

    def test_an_exception_ends_it_too(self):
        with self.assertRaises(ZeroDivisionError):
            with self.client.lock("x"):
                1 / 0
        self.other.lock("x", wait=bed.PATIENCE).close()

    def test_tokens_rise(self):
        with self.client.lock("x") as first:
            pass
        with self.other.lock("x") as second:
            self.assertGreater(second.token, first.token)

    def test_not_had_in_time(self):
        with self.client.lock("x"):
            with self.assertRaises(holdfast.Held) as caught:
                self.other.lock("x", wait=0.05)
            self.assertEqual(caught.exception.code, "HF_TIMEOUT")

    def test_shared_and_permits(self):
        with self.client.lock("x", shared=True), self.other.lock("x", shared=True, wait=0):
            self.assert_held(True)
        with self.client.lock("y", permits=1, limit=2), self.other.lock("y", permits=1, limit=2, wait=0):
            with self.assertRaises(holdfast.Held):
                self.other.lock("y", permits=1, limit=2, wait=0)

    def test_other_errors(self):
        for call in (lambda: self.client.lock(""), lambda: holdfast.Client("nothing:")):
            with self.assertRaises(holdfast.Error) as caught:
                call()
            self.assertEqual((type(caught.exception), caught.exception.code),
                             (holdfast.Error, "HF_INVALID"))

    def test_lost(self):
        """The callback is called, the descriptor is readable, and the end of the `with` says so."""
        told, calls = threading.Event(), []

        def on_lost(error, left):
            calls.append((type(error), left >= 0))
            told.set()

        with self.assertRaises(holdfast.Lost):
            with self.client.lock("x", on_lost=on_lost) as lock:
                self.assertFalse(select.select([lock], [], [], 0)[0])
                self.check(0, "holdfast", "break", "--force", "--reason", "test", "x")
                self.assertTrue(select.select([lock], [], [], bed.PATIENCE)[0])
                self.assertTrue(told.wait(bed.PATIENCE))
                with self.assertRaises(holdfast.Lost):
                    lock.check()
        self.assertEqual(calls, [(holdfast.Lost, True)])

    def test_ctrl_c_ends_a_wait(self):
        with self.client.lock("x"):
            self.env["PYTHONPATH"] = os.path.join(bed.EXAMPLES, "python")
            waiter = self.start(sys.executable, "-c", """
import holdfast, sys
client = holdfast.Client(sys.argv[1])
print("waits", flush=True)
try:
    client.lock("x")
except KeyboardInterrupt:
    client.close()
    sys.exit("interrupted")
""", self.store)
            waiter.stdout.readline()
            self.await_queue("x", 1)
            waiter.send_signal(signal.SIGINT)
            self.assertEqual(waiter.communicate(timeout=bed.PATIENCE)[1], "interrupted\n")


unittest.main(verbosity=2)
