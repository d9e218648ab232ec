# A connection to a server whose replies a test changes on their way, for what no real server sends.
# SPDX-License-Identifier: Apache-2.0
"""
    def change(name, command, reply):     # "find", the command, the server's reply, both as dict
        if name == "serverStatus":
            reply["localTime"] = "now"
    with Proxy(member.host, change) as proxy:
        run(["holdfast", "--store", proxy.uri("app", hfProtocol="sharding"), ...])
"""
import socket
import struct
import threading

import bson

OP_MSG, OP_REPLY = 2013, 1
OLD_REPLY = struct.Struct("<iqii")  # what stands before the document of the first `hello`
HEADER = struct.Struct("<iiii")  # length, request id, response to, opcode


def read_exactly(stream, size):
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def read_message(stream):
    head = read_exactly(stream, HEADER.size)
    length, number, answers, opcode = HEADER.unpack(head)
    return number, answers, opcode, read_exactly(stream, length - HEADER.size)


def body_of(rest):
    """The document of an OP_MSG; its other sections, the payloads of writes, follow it."""
    size, = struct.unpack_from("<i", rest, 5)
    return rest[:5], rest[5:5 + size], rest[5 + size:]


class Proxy:
    """Leaving `with` closes everything."""
    options = {"directConnection": "true"}  # of its URIs

    def __init__(self, host, change):
        self.target = host.split(":")
        self.change = change
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for each in [self.listener] + self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def uri(self, database="", **options):
        return "mongodb://127.0.0.1:%d/%s?%s" % (
            self.port, database, "&".join("%s=%s" % each for each in {**options, **self.options}.items()))

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection((self.target[0], int(self.target[1])))
            except OSError:
                return
            self.sockets += [client, server]
            asked = {}
            for copy, ends in ((self._ask, (client, server)), (self._answer, (server, client))):
                threading.Thread(target=self._copy, args=(copy, asked, *ends), daemon=True).start()

    def _copy(self, copy, asked, source, sink):
        try:
            while True:
                copy(asked, source, sink)
        except (EOFError, OSError):
            for each in (source, sink):
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _ask(self, asked, client, server):
        number, answers, opcode, rest = read_message(client)
        if opcode == OP_MSG:
            asked[number] = bson.decode(body_of(rest)[1])
        server.sendall(HEADER.pack(len(rest) + HEADER.size, number, answers, opcode) + rest)

    def _answer(self, asked, server, client):
        number, answers, opcode, rest = read_message(server)
        command = asked.pop(answers, None) if opcode == OP_MSG else None
        if opcode == OP_REPLY:
            reply = bson.decode(rest[OLD_REPLY.size:])
            self.change("hello", {"hello": 1}, reply)
            rest = rest[:OLD_REPLY.size] + bson.encode(reply)
        elif command:
            flags, body, more = body_of(rest)
            reply = bson.decode(body)
            self.change(next(iter(command)), command, reply)
            rest = flags + bson.encode(reply) + more
        client.sendall(HEADER.pack(len(rest) + HEADER.size, number, answers, opcode) + rest)
