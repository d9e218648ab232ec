# Clients that are far from their store, or whose network stands still at times, hold a lock for as long as they
# like. HOLDFAST_TEST_HOLD_SECONDS says for how long, if not for a little longer than a lease.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.environ["HOLDFAST_SOURCE"], "python"))
os.environ.setdefault("HOLDFAST_LIBRARY", os.path.join(os.environ["HOLDFAST_BUILD"], "libholdfast.so"))
import holdfast  # noqa: E402

from bystanders import HOLDS
from contest import Command, boot_ns
from mongod import ReplicaSet, until

HOLD_S = float(os.environ.get("HOLDFAST_TEST_HOLD_SECONDS", 40))
BEGINS_S = 30
SHORT_HOLD_S = 6
MANY = 1000  # one by one, it takes 30 s to release them from afar


def make_certificate(folder):
    """For mongod (certificate and key in one file); a client trusts it."""
    path = os.path.join(folder, "mongod.pem")
    cert, key = path + ".crt", path + ".key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    with open(path, "w") as both:
        for part in (cert, key):
            with open(part) as text:
                both.write(text.read())
    return path


class Far(unittest.TestCase):
    def store(self, options="", args=()):
        """A member of its own behind a gate, and how to reach it."""
        rs = ReplicaSet(members=1, gates=True, args=args)
        self.addCleanup(rs.stop)
        rs.start()
        return rs, rs.uri_for("", options)

    def far(self, seconds, options="", args=()):
        rs, uri = self.store(options, args)
        rs.gates.set(rs.members[0], "delay", seconds=seconds, sources=["clients"])
        return rs, uri

    def far_with_tls(self, seconds):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-tls-")
        self.addCleanup(folder.cleanup)
        pem = make_certificate(folder.name)
        return self.far(seconds, "tls=true&tlsCAFile=" + pem, [
            "--tlsMode", "allowTLS", "--tlsCertificateKeyFile", pem, "--tlsCAFile", pem,
            "--tlsAllowConnectionsWithoutCertificates"])

    def still(self):
        rs, uri = self.store()
        rs.gates.set(rs.members[0], "still", seconds=3, every=30, sources=["clients"])
        return rs, uri

    def start(self, uri, *words, lock="x"):
        command = Command("--store", uri, *words, "run", lock, "--", "bash", "-c", HOLDS)
        self.addCleanup(command.kill)
        return command

    def hold(self, uri, *words):
        command = self.start(uri, *words)
        until(lambda: command.lines or command.process.poll() is not None, BEGINS_S, "the lock")
        return command

    def test_a_short_lease_is_held(self):
        """With a ttl of 3 s, 400 ms away. One of three is enough: a busy machine loses such a lease by itself."""
        _, uri = self.far(0.2)
        commands = [self.start(uri, "--ttl", "3s", lock="x%d" % n) for n in range(3)]
        until(lambda: all(each.lines or each.process.poll() is not None for each in commands), BEGINS_S, "the locks")
        began = boot_ns()
        until(lambda: boot_ns() - began > SHORT_HOLD_S * 1e9, SHORT_HOLD_S + BEGINS_S, "the end of the time")
        self.assertIn(None, [each.process.poll() for each in commands], "\n".join(map(str, commands)))

    def test_closing_frees_all_that_is_held(self):
        """30 ms away. What is not released while the client is being closed stays until the lease is over."""
        rs, uri = self.store()
        client = holdfast.Client(uri)
        with ThreadPoolExecutor(8) as threads:
            locks = list(threads.map(lambda n: client.acquire("held-%d" % n), range(MANY)))
        rs.gates.set(rs.members[0], "delay", seconds=0.015, sources=["clients"])
        client.close()
        for lock in locks:
            lock.close()
        rs.gates.heal()
        held = {"holders.0": {"$exists": True}}
        self.assertEqual(rs.client().get_default_database("holdfast").holdfast.locks.count_documents(held), 0)

    def test_a_doctor_is_told_which_ttl_is_safe(self):
        """500 ms away, with TLS: a connection takes four round trips."""
        _, uri = self.far_with_tls(0.25)
        with Command("--store", uri, "doctor") as doctor:
            self.assertEqual(doctor.status(60), 0, doctor)
            self.assertRegex("\n".join(doctor.lines), r"ok +latency .* a ttl of \d+ s or longer is safe", doctor)

    def test_they_hold_for_as_long_as_they_like(self):
        """300 ms away with the default ttl; 500 ms with TLS; and 3 s of silence every 30 s. Beside each other."""
        stores = {
            "300 ms away": (self.far(0.15), ()),
            "300 ms away, with TLS": (self.far_with_tls(0.15), ()),
            "500 ms away, with TLS": (self.far_with_tls(0.25), ("--ttl", "30s")),
            "stands still": (self.still(), ("--ttl", "30s")),
        }
        held = {what: self.hold(uri, *words) for what, ((_, uri), words) in stores.items()}
        began = boot_ns()
        until(lambda: boot_ns() - began > HOLD_S * 1e9, HOLD_S + BEGINS_S, "the end of the time")
        for what, command in held.items():
            with self.subTest(what):
                self.assertIsNone(command.process.poll(), command)
                command.send("end")
                self.assertEqual(command.status(60), 0, command)


if __name__ == "__main__":
    unittest.main(verbosity=2)
