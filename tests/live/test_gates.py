# The gates do what gates.py says: in front of a server that sends back what it is sent.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import socket
import threading
import time
import types
import unittest

from gates import CLIENTS, Gates
from mongod import free_ports

DEADLINE_S = 100
SHORT_S = 0.2  # in which nothing comes: what is wrong may pass unseen, what is right never fails


class Server:
    """Sends back what it is sent, on each connection."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection, contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                self.heard.set()
                connection.sendall(data)


class Test(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.listener.close)
        self.gates = Gates(free_ports(1), [("127.0.0.1", self.server.port)])
        self.addCleanup(self.gates.end)
        self.member = types.SimpleNamespace(number=0)

    def connect(self, timeout=DEADLINE_S):
        connection = socket.create_connection(("127.0.0.1", self.gates.ports[0]), timeout)
        self.addCleanup(connection.close)
        return connection

    def open(self):
        connection = self.connect()
        self.assert_passes(connection)
        return connection

    def set(self, fault, **details):
        self.gates.set(self.member, fault, **details)

    def assert_passes(self, connection, text=b"well"):
        connection.sendall(text)
        self.assert_comes(connection, text)

    def assert_comes(self, connection, text):
        connection.settimeout(DEADLINE_S)
        got = b""
        while len(got) < len(text):
            part = connection.recv(len(text) - len(got))
            self.assertTrue(part, "it was closed")
            got += part
        self.assertEqual(got, text)

    def assert_silent(self, connection):
        connection.settimeout(SHORT_S)
        with self.assertRaises(TimeoutError):
            connection.recv(1)

    def test_much_passes(self):
        self.assert_passes(self.open(), b"x" * 50_000)

    def test_the_end_passes(self):
        connection = self.open()
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(connection.recv(1), b"")

    def test_silence(self):
        old = self.open()
        self.set("silence")
        new = self.connect()
        for each in (old, new):
            each.sendall(b"late")
            self.assert_silent(each)
        self.gates.heal()
        for each in (old, new):
            self.assert_comes(each, b"late")

    def test_silence_one_way(self):
        for way, hears in (("in", False), ("out", True)):
            with self.subTest(way):
                connection = self.open()
                self.server.heard.clear()
                self.set("silence", way=way)
                connection.sendall(b"late")
                if hears:
                    self.assertTrue(self.server.heard.wait(DEADLINE_S))
                self.assert_silent(connection)
                self.assertEqual(self.server.heard.is_set(), hears)
                self.gates.heal()
                self.assert_comes(connection, b"late")

    def test_swallow_and_lost(self):
        for fault, connects in (("swallow", True), ("lost", False)):
            with self.subTest(fault):
                old = self.open()
                self.set(fault)
                if connects:
                    new = self.connect()
                    new.sendall(b"late")
                    self.assert_silent(new)
                else:
                    with self.assertRaises(TimeoutError):
                        self.connect(SHORT_S)
                old.sendall(b"late")
                self.assert_silent(old)
                self.gates.heal()
                self.assert_comes(old, b"late")
                self.assert_passes(self.open())

    def test_delay(self):
        connection = self.open()
        self.set("delay", seconds=0.2)
        began = time.monotonic()
        self.assert_passes(connection)
        self.assertGreater(time.monotonic() - began, 0.39)
        began = time.monotonic()
        self.open()  # TCP's own round trip, too
        self.assertGreater(time.monotonic() - began, 0.79)

    def test_trickle(self):
        connection = self.open()
        self.set("trickle")
        began = time.monotonic()
        self.assert_passes(connection, b"abc")
        self.assertGreater(time.monotonic() - began, 2)

    def test_garbage(self):
        connection = self.open()
        self.set("garbage")
        connection.sendall(b"well")
        connection.settimeout(DEADLINE_S)
        self.assertNotIn(b"well", connection.recv(1000))

    def test_refuse(self):
        connection = self.open()
        self.set("refuse")
        with self.assertRaises(ConnectionResetError):
            connection.recv(1)
        with self.assertRaises(ConnectionRefusedError):
            self.connect()
        self.gates.heal()
        self.open()

    def test_cut(self):
        connection = self.open()
        self.gates.cut(self.member, sources=[CLIENTS])
        with self.assertRaises(ConnectionResetError):
            connection.recv(1)
        self.open()

    def test_still(self):
        connection = self.open()
        self.set("still", seconds=0.5, every=60)
        began = time.monotonic()
        self.assert_passes(connection)
        self.assertGreater(time.monotonic() - began, 0.4)
        self.assert_passes(connection)

    def test_others_are_not_concerned(self):
        self.set("silence", sources=[0])
        self.assert_passes(self.open())

    def test_what_concerns_all(self):
        with self.assertRaises(ValueError):
            self.set("lost", sources=[CLIENTS])

    def test_a_server_that_is_gone(self):
        self.server.listener.shutdown(socket.SHUT_RDWR)
        self.server.listener.close()
        with self.assertRaises(ConnectionResetError):
            self.connect().recv(1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
