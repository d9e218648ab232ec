# Three etcd nodes on this machine, to compare with; only where Debian's etcd-server and etcd-client are
# installed. Like the servers of mongod.py they end with this process.
# SPDX-License-Identifier: Apache-2.0
import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile

from contest import Program
from mongod import free_ports, until

NODES = 3


def is_installed():
    return bool(shutil.which("etcd") and shutil.which("etcdctl"))


class Control(Program):
    """etcdctl, which finds its endpoints in the environment."""

    def __init__(self, *words):
        super().__init__("etcdctl", *words)


class Node:
    def __init__(self, name, folder, client, peer):
        self.name, self.folder = name, os.path.join(folder, name)
        self.client, self.peer = ("http://127.0.0.1:%d" % port for port in (client, peer))
        self.process = None

    def start(self, cluster):
        with open(self.folder + ".log", "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", "etcd", "--name", self.name,
                 "--data-dir", self.folder, "--listen-client-urls", self.client,
                 "--advertise-client-urls", self.client, "--listen-peer-urls", self.peer,
                 "--initial-advertise-peer-urls", self.peer, "--initial-cluster", cluster],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()


class Etcd:
    """Leaving `with` ends all nodes."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="holdfast-etcd-")
        ports = free_ports(2 * NODES)
        self.nodes = [Node("n%d" % i, self.folder, *ports[2 * i:2 * i + 2]) for i in range(NODES)]
        self.cluster = ",".join("%s=%s" % (node.name, node.peer) for node in self.nodes)
        atexit.register(self.stop)

    def __enter__(self):
        os.environ["ETCDCTL_API"] = "3"
        os.environ["ETCDCTL_ENDPOINTS"] = ",".join(node.client for node in self.nodes)
        for node in self.nodes:
            node.start(self.cluster)
        self.wait_whole()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for node in self.nodes:
            node.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)

    def status(self):
        """What each node that answers says of itself, and of the leader."""
        asked = subprocess.run(["etcdctl", "endpoint", "status", "-w", "json", "--command-timeout=2s"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(asked.stdout or "[]") or []

    def leader(self):
        for each in self.status():
            header = each["Status"]["header"]
            if header["member_id"] == each["Status"].get("leader"):
                return next(node for node in self.nodes if node.client == each["Endpoint"])
        return None

    def wait_leader(self):
        return until(self.leader, 60, "a leader")

    def follower(self):
        leader = self.wait_leader()
        return next(node for node in self.nodes if node is not leader)

    def wait_whole(self):
        until(lambda: len(self.status()) == NODES and self.leader(), 60, "all nodes")

    def hand_over(self):
        """The leader lets another one lead."""
        ids = {each["Endpoint"]: each["Status"]["header"]["member_id"] for each in self.status()}
        leader, follower = self.wait_leader(), self.follower()
        subprocess.run(["etcdctl", "move-leader", "%x" % ids[follower.client]], check=True,
                       stdout=subprocess.DEVNULL, env=dict(os.environ, ETCDCTL_ENDPOINTS=leader.client))

    def kill(self, node, number=signal.SIGKILL):
        node.process.send_signal(number)

    def make_whole(self):
        """What was frozen goes on, and what has ended begins again."""
        for node in self.nodes:
            node.process.send_signal(signal.SIGCONT)
            if node.process.poll() is not None:
                node.start(self.cluster)
        self.wait_whole()
