# Hosts on this machine: network namespaces on one bridge, between which packets can be dropped.
# SPDX-License-Identifier: Apache-2.0
"""
    enter()                             # first thing in the program: it starts anew, by itself
    with Network() as network:
        a, b = network.host(), network.host()
        subprocess.Popen(a.prefix + ["ping", b.address])
        network.drop([(a, b)])          # b does not hear a any more; a hears b
        network.heal()

The program is itself in a network namespace of its own, so nothing is seen outside, no name can
clash, and the kernel takes everything away with the last process. It needs root, or a kernel that
gives users namespaces of their own. Packets are dropped without a word, as by a switch that died:
the sender is told a hardware address that nobody has.
"""
import os
import subprocess
import sys
import time

ENTERED = "HOLDFAST_TORTURE_NETWORK"
NOBODY = "02:00:00:00:00:99"


def enter():
    """Starts this program anew in namespaces of its own for the network and for mounts; returns
    whether it is in them. False: this machine does not permit that."""
    if os.environ.get(ENTERED):
        ip("link set lo up")
        return True
    for words in (["unshare", "-n", "-m", "--"], ["unshare", "-U", "-r", "-n", "-m", "--"]):
        if subprocess.call(words + ["ip", "link", "set", "lo", "up"],
                           stderr=subprocess.DEVNULL) == 0:
            os.environ[ENTERED] = "1"
            os.execvp(words[0], words + [sys.executable] + sys.argv)
    return False


def ip(words, prefix=()):
    subprocess.run(list(prefix) + ["ip"] + words.split(), check=True)


class Host:
    """A namespace with an address; `prefix` are words to start a program in it."""

    def __init__(self, number):
        self.number = number
        self.address = "10.99.0.%d" % number
        self.keeper = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "-n", "--", "sleep", "infinity"],
            stdin=subprocess.DEVNULL)
        self.prefix = ["nsenter", "-t", str(self.keeper.pid), "-n", "--"]

    def is_apart(self):
        try:
            return (os.readlink("/proc/%d/ns/net" % self.keeper.pid)
                    != os.readlink("/proc/self/ns/net"))
        except FileNotFoundError:
            return False

    def plug_in(self):
        deadline = time.monotonic() + 10
        while not self.is_apart():
            if time.monotonic() > deadline:
                raise TimeoutError("no network namespace")
            time.sleep(0.01)
        ip("link add v%d type veth peer name eth0 netns %d" % (self.number, self.keeper.pid))
        ip("link set v%d master bridge0 up" % self.number)
        ip("addr add %s/24 dev eth0" % self.address, self.prefix)
        ip("link set eth0 up", self.prefix)
        ip("link set lo up", self.prefix)

    def batch(self, lines):
        subprocess.run(self.prefix + ["ip", "-force", "-batch", "-"], input="\n".join(lines) + "\n",
                       universal_newlines=True, stderr=subprocess.DEVNULL)


class Here(Host):
    """The program itself, on the bridge."""

    def __init__(self, number):
        self.number = number
        self.address = "10.99.0.%d" % number
        self.prefix = []
        ip("link add bridge0 type bridge")
        ip("addr add %s/24 dev bridge0" % self.address)
        ip("link set bridge0 up")


class Network:
    def __init__(self):
        self.here = Here(254)
        self.hosts = []
        self.dropped = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.keeper.kill()
            host.keeper.wait()

    def host(self):
        self.hosts.append(Host(len(self.hosts) + 1))
        self.hosts[-1].plug_in()
        return self.hosts[-1]

    def drop(self, ways):
        """Drops what goes from the first to the second of each pair."""
        self._tell(ways, "neigh replace %s lladdr " + NOBODY + " nud permanent dev %s")
        self.dropped |= set(ways)

    def cut(self, some, others):
        """Drops what goes between those, in both directions."""
        self.drop([(a, b) for a in some for b in others] + [(b, a) for a in some for b in others])

    def heal(self, ways=None):
        """Lets everything pass again, or these ways."""
        ways = set(self.dropped if ways is None else ways) & self.dropped
        self._tell(ways, "neigh del %s dev %s")
        self.dropped -= ways

    @staticmethod
    def _tell(ways, line):
        for host in {a for a, _ in ways}:
            device = "bridge0" if isinstance(host, Here) else "eth0"
            host.batch([line % (b.address, device) for a, b in ways if a is host])
