# A set of two members with data and an arbiter: when one of the two is down there is still a primary, and
# yet nothing is acknowledged. SPDX-License-Identifier: Apache-2.0
import unittest

from contest import Command
from mongod import ReplicaSet


class Arbiter(unittest.TestCase):
    def doctor(self, rs, status):
        with Command("--store", rs.uri_for("app"), "doctor") as command:
            self.assertEqual(command.status(60), status, str(command))
            return "\n".join(command.lines) + command.errors

    def test_doctor_says_what_it_costs_and_what_to_do(self):
        with ReplicaSet(3, arbiters=[2], election_ms=2000) as rs:
            primary = rs.wait_primary()
            down = next(each for each in rs.members[:2] if each is not primary)
            self.assertIn("when one with data is down, no write is acknowledged", self.doctor(rs, 0))
            rs.kill(down)
            said = self.doctor(rs, 1)
            self.assertRegex(said, "DANGER +members .*with data and answering: 1, and a majority is 2")
            self.assertIn("start %s, or put a member with data in the arbiter's place" % down.host, said)

    def test_an_arbiter_is_named_where_there_is_no_primary(self):
        with ReplicaSet(2, arbiters=[1], election_ms=2000) as rs:
            rs.kill(rs.members[0])
            self.assertIn("%s is an arbiter, which has no data" % rs.members[1].host, self.doctor(rs, 69))


if __name__ == "__main__":
    unittest.main(verbosity=2)
