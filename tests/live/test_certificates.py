# Certificates of members that a client cannot verify: it is told at once, as they do not change by
# themselves; and one of a member that is not needed delays nobody.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import tempfile
import unittest

from contest import Command, boot_ns, idle_seconds
from mongod import ReplicaSet, faketime_library

UNREACHABLE = 69
SOON_S = 5  # a scan, and the machine; without the verdict it is asked for 30 s


def make_certificate(folder, name):
    """For mongod (certificate and key in one file); a client trusts it."""
    path = os.path.join(folder, name)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-subj", "/CN=" + name, "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", path + ".key", "-out", path + ".crt"],
                   check=True, capture_output=True)
    with open(path, "wb") as both:
        for part in (".crt", ".key"):
            with open(path + part, "rb") as text:
                both.write(text.read())
    return path


def member_args(pem):
    return ["--tlsMode", "allowTLS", "--tlsCertificateKeyFile", pem, "--tlsCAFile", pem,
            "--tlsAllowConnectionsWithoutCertificates"]


class Certificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.pem, cls.other = (make_certificate(folder.name, name) for name in ("right", "other"))
        wrong = member_args(cls.other)
        cls.rs = ReplicaSet(member_args={0: member_args(cls.pem), 1: member_args(cls.pem), 2: wrong})
        cls.addClassCleanup(cls.rs.stop)
        cls.rs.start()

    def run_to_end(self, uri, *words, env=None):
        began = boot_ns()
        with Command("--store", uri, *words, env=env) as command:
            command.ended_with = command.status(60)
        command.took = idle_seconds(began)
        return command

    def uri(self, pem, hosts=None):
        uri = self.rs.uri_for("", "tls=true&tlsCAFile=" + pem)
        return uri.replace("127.0.0.1", hosts) if hosts else uri

    def test_one_that_does_not_verify_delays_nobody(self):
        """Member 0 is the primary; the one of another authority is not needed."""
        self.rs.step_up(self.rs.members[0])
        for words in (("run", "x", "--", "true"), ("list",)):
            command = self.run_to_end(self.uri(self.pem), *words)
            self.assertEqual(command.ended_with, 0, command)
            self.assertLess(command.took, SOON_S, command)

    def assert_told(self, uri, env=None):
        for words in (("run", "-w", "1m", "x", "--", "true"), ("run", "x", "--", "true"), ("list",), ("doctor",)):
            with self.subTest(words):
                command = self.run_to_end(uri, *words, env=env)
                self.assertEqual(command.ended_with, UNREACHABLE, command)
                self.assertRegex(command.errors, "(?i)certificate verif.*tlsCAFile")
                self.assertLess(command.took, SOON_S, command)

    def test_another_authority(self):
        with tempfile.TemporaryDirectory(prefix="holdfast-tls-") as folder:
            self.assert_told(self.uri(make_certificate(folder, "unknown")))

    def test_another_name(self):
        with tempfile.TemporaryDirectory(prefix="holdfast-tls-") as folder:
            both = os.path.join(folder, "both")
            with open(both, "wb") as out:
                for pem in (self.pem, self.other):
                    with open(pem + ".crt", "rb") as text:
                        out.write(text.read())
            self.assert_told(self.uri(both, "localhost"))

    def test_one_that_has_expired(self):
        """By the clock of the client."""
        self.assert_told(self.uri(self.pem), {"LD_PRELOAD": faketime_library(), "FAKETIME": "+30d",
                                              "DONT_FAKE_MONOTONIC": "1"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
