# TCP proxies in front of the members of a replica set, one each. A test switches what they do with what
# passes: hold it back, delay it, lose it. (proxy.py changes replies instead.)
# SPDX-License-Identifier: Apache-2.0
"""
    with ReplicaSet(gates=True) as rs:         # `hello` lists the gates' addresses
        rs.gates.set(member, "silence")        # for clients and for other members
        rs.gates.set(member, "delay", seconds=0.3, sources=["clients"])
        rs.gates.cut_off(member)               # nobody hears it, and it hears nobody
        rs.gates.heal()

| fault | what happens at the gate |
|---|---|
| pass | all passes at once |
| silence | connections are accepted and stay, and nothing passes. `way`: "in" (to the member), "out", "both" |
| swallow | nobody accepts: the kernel does, as long as its backlog has room. What is connected is silent |
| lost | the backlog is full, too: to connect takes for ever, as with a host that has no power |
| delay | what passes is late by `seconds`, each way; a new connection, by a round trip more, for TCP's own |
| trickle | one byte passes each second, each way |
| garbage | clients are answered with bytes that are no message |
| refuse | connections are refused; what is connected is cut |
| still | nothing passes for `seconds` every `every` seconds, from now on |

`sources` says for whom: "clients", and the numbers of members; all, if it is not given. A connection is a
member's if its first message says so ("internalClient"); which one's, the kernel knows. With TLS between
members, each connection counts as a client's. Nobody can be told apart before the first message, so
`swallow`, `lost` and `refuse` are for all. What was held back passes later, as TCP would have it.
"""
import asyncio
import collections
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

CLIENTS = "clients"
AT_THE_DOOR = ("swallow", "lost", "refuse")
HELD_MOST = 1 << 20  # bytes of one direction that wait here; more wait in the sockets
GARBAGE = b"\x15\x03\x01\x00HTTP/1.1 400 Bad Request\r\n\r\n" * 4
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close sends RST


class Gates:
    """Its process ends with `end()`, or with this program. Calls return when they have taken effect."""

    def __init__(self, ports, targets):
        """ports: of the gates; targets: (address, port) of each member."""
        self.ports = ports
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, os.path.abspath(__file__)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        self._ask(ports=ports, targets=targets)

    def set(self, member, fault, sources=None, **details):
        if sources is not None and fault in AT_THE_DOOR:
            raise ValueError("%s is for all" % fault)
        self._ask(gate=member.number, sources=sources or self._everybody(),
                  weather=dict(details, fault=fault))

    def _everybody(self):
        return [CLIENTS] + list(range(len(self.ports)))

    def cut_off(self, member):
        """From clients and from the other members, in both directions."""
        self.set(member, "silence")
        for other in range(len(self.ports)):
            if other != member.number:
                self._ask(gate=other, sources=[member.number], weather={"fault": "silence"})

    def cut(self, member, sources=None):
        """Resets the connections to that member, and what was held back is lost; new ones pass."""
        self._ask(gate=member.number, cut=sources or self._everybody())

    def heal(self):
        for number in range(len(self.ports)):
            self._ask(gate=number, heal=True)

    def know(self, member):
        """Which process that member is, from now on."""
        self._ask(gate=member.number, pid=member.pid)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def _ask(self, **command):
        with self.lock:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        if answer != "done\n":
            raise RuntimeError("the gates do not answer %s: %r" % (command, answer))


# ---- The process ----

class Weather:
    """When what came to an end of a connection may go on to the other."""

    def __init__(self, fault="pass", way="both", seconds=0.0, every=0.0):
        self.fault, self.way, self.seconds, self.every = fault, way, seconds, every
        self.began = time.monotonic()

    def due(self, end, came):
        """None: not before the weather changes."""
        if self.fault in ("silence", "swallow", "lost"):
            return None if self.way in ("both", end.way) else came
        if self.fault == "delay":
            return max(came, end.connection.opened + 2 * self.seconds) + self.seconds
        if self.fault == "trickle":
            return max(came, end.sent + 1)
        if self.fault == "still":
            phase = (time.monotonic() - self.began) % self.every
            return time.monotonic() + self.seconds - phase if phase < self.seconds else came
        return came

    def most(self):
        """How many bytes may go at once."""
        return 1 if self.fault == "trickle" else HELD_MOST


class End(asyncio.Protocol):
    """One end of a connection: what comes from it waits here, and goes to the other end."""

    def __init__(self, connection, way):
        self.connection, self.way = connection, way
        self.other = self.transport = self.timer = None
        self.held = collections.deque()  # (when it came, bytes; b"": the end)
        self.size, self.sent = 0, 0.0
        self.is_full = self.is_over = False

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.other.pump()

    def data_received(self, data):
        self.connection.recognize(self, data)
        if self.connection.weather().fault == "garbage":
            if self.way == "in":
                self.transport.write(GARBAGE)
            return
        self.hold(data)

    def hold(self, data):
        self.held.append((time.monotonic(), data))
        self.size += len(data)
        if self.size > HELD_MOST and not self.is_over:
            self.transport.pause_reading()
        self.pump()

    def eof_received(self):
        self.finish()
        return True

    def connection_lost(self, error):
        self.finish()
        self.connection.lost()

    def finish(self):
        if not self.is_over:
            self.is_over = True
            self.hold(b"")

    def pause_writing(self):
        self.is_full = True

    def resume_writing(self):
        self.is_full = False
        self.other.pump()

    def is_open(self):
        return self.transport is not None and not self.transport.is_closing()

    def pump(self):
        """Lets go what may."""
        if self.timer:
            self.timer.cancel()
            self.timer = None
        while self.held and self.other.is_open() and not self.other.is_full:
            weather = self.connection.weather()
            due = weather.due(self, self.held[0][0])
            if due is None:
                return
            if due > time.monotonic():
                self.timer = asyncio.get_running_loop().call_at(due, self.pump)
                return
            self.send(weather.most())

    def send(self, most):
        came, data = self.held.popleft()
        self.sent = time.monotonic()
        if not data:
            self.other.transport.close()
            return
        self.other.transport.write(data[:most])
        if data[most:]:
            self.held.appendleft((came, data[most:]))
        self.size -= len(data[:most])
        if self.size <= HELD_MOST and not self.is_over:
            self.transport.resume_reading()


class Connection:
    """From a client or a member to the gate's member."""

    def __init__(self, gate, accepted):
        self.gate, self.opened = gate, time.monotonic()
        self.port = accepted.getpeername()[1]
        self.source = None  # not known before its first message; until then, it counts as a client's
        self.near, self.far = End(self, "in"), End(self, "out")
        self.near.other, self.far.other = self.far, self.near
        self.accepted = accepted

    async def open(self):
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.near, self.accepted)
        try:
            await loop.create_connection(lambda: self.far, *self.gate.target)
        except OSError:
            self.reset()

    def recognize(self, end, data):
        if self.source is None and end is self.near:
            self.source = self.gate.source_of(self.port) if b"internalClient" in data else CLIENTS

    def known_source(self):
        return CLIENTS if self.source is None else self.source

    def weather(self):
        return self.gate.weather[self.known_source()]

    def pump(self):
        self.near.pump()
        self.far.pump()

    def lost(self):
        if not self.open_ends():
            self.gate.connections.discard(self)

    def open_ends(self):
        return [end.transport for end in (self.near, self.far) if end.is_open()]

    def reset(self):
        for each in self.open_ends():
            each.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            each.abort()
        self.gate.connections.discard(self)


class Gate:
    """The listener in front of one member."""

    def __init__(self, number, port, target, pids):
        self.number, self.port, self.target, self.pids = number, port, target, pids
        self.connections = set()
        self.weather = collections.defaultdict(Weather)  # of each source
        self.listener, self.fillers = None, []
        self.open_door()

    def open_door(self):
        if not self.listener:
            self.listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
            self.listener.setblocking(False)
        self.listener.listen(1024)
        for each in self.fillers:
            each.close()
        self.fillers = []
        asyncio.get_running_loop().add_reader(self.listener, self.accept)

    def close_door(self):
        """The kernel accepts, and we do not."""
        if self.listener:
            asyncio.get_running_loop().remove_reader(self.listener)

    def fill_door(self):
        """Until the kernel does not accept, either."""
        self.listener.listen(0)
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self.fillers.append(filler)

    def accept(self):
        try:
            accepted, _ = self.listener.accept()
            connection = Connection(self, accepted)
        except OSError:
            return  # it has hung up already
        accepted.setblocking(False)
        self.connections.add(connection)
        asyncio.get_running_loop().create_task(connection.open())

    def source_of(self, port):
        """Which member's connection that is; a client's, if none of them has it."""
        inode = inode_of(port)
        for number, pid in self.pids.items():
            if has_socket(pid, inode):
                return number
        return CLIENTS

    def set(self, sources, weather):
        for source in sources:
            self.weather[source] = Weather(**weather)
        fault = weather["fault"]
        if fault == "refuse":
            self.close_door()
            self.shut()
        elif fault in AT_THE_DOOR:
            self.close_door()
            if fault == "lost":
                self.fill_door()
        else:
            self.open_door()
        for each in list(self.connections):
            each.pump()

    def shut(self):
        if self.listener:
            self.listener.close()
            self.listener = None
        for each in list(self.connections):
            each.reset()

    def cut(self, sources):
        for each in list(self.connections):
            if each.known_source() in sources:
                each.reset()

    def heal(self):
        self.weather.clear()
        self.set([], {"fault": "pass"})


def inode_of(port):
    """Of the socket whose own port that is."""
    with open("/proc/net/tcp") as table:
        for line in table:
            words = line.split()
            if words[1].endswith(":%04X" % port) and words[9] != "0":
                return words[9]
    return None


def has_socket(pid, inode):
    folder = "/proc/%d/fd" % pid
    try:
        return any(os.readlink(os.path.join(folder, fd)) == "socket:[%s]" % inode
                   for fd in os.listdir(folder))
    except OSError:  # it has ended, or closed one meanwhile
        return False


def obey(gates, pids, command):
    """One command of class Gates."""
    if "ports" in command:
        for number, (port, target) in enumerate(zip(command["ports"], command["targets"])):
            gates.append(Gate(number, port, target, pids))
        return
    gate = gates[command["gate"]]
    if "pid" in command:
        pids[gate.number] = command["pid"]
    elif "weather" in command:
        gate.set(command["sources"], command["weather"])
    elif "cut" in command:
        gate.cut(command["cut"])
    else:
        gate.heal()


async def serve():
    """Obeys what standard input says, until that ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    gates, pids = [], {}
    async for line in reader:
        obey(gates, pids, json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
