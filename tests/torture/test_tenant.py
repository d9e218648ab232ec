# What a tenant of the fault campaign believes of the answers that it gets.
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

from tenant import Answer, Turn, boot_ns


def answer(status=201, token=5, left_ms=60_000):
    return Answer(boot_ns(), status, json.dumps(
        {"lease": "l", "token": token, "expires_in_ms": left_ms} if status < 400 else {}))


class Learns(unittest.TestCase):
    def believes_after(self, *answers):
        turn = Turn(None, 1)
        turn.say = lambda *_, **__: None
        for each in answers:
            turn.learn(each, False)
        return turn.believes()

    def test_what_it_has_been_granted(self):
        self.assertTrue(self.believes_after(answer()))
        self.assertTrue(self.believes_after(answer(), answer(200)))
        self.assertFalse(self.believes_after(answer(503)))
        self.assertFalse(self.believes_after(answer(left_ms=0)))

    def test_that_it_is_lost(self):
        self.assertFalse(self.believes_after(answer(), answer(410)))

    def test_that_it_was_taken_anew_under_another_token(self):
        self.assertFalse(self.believes_after(answer(), answer(200, token=6)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
