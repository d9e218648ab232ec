#!/usr/bin/python3
"""1,000 clients wait for one lock while others acquire and release at 200 requests a second: prints
how long those took, how the service's memory went, and whether each who waits was served once in
the end. Not a test: load.py [--store URI] [--seconds N] [--waiters N] [--rate N]"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import http.client
import json
import os
import selectors
import socket
import statistics
import subprocess
import tempfile
import threading
import time

BIN = os.environ.get("HOLDFAST_BIN", "build/holdfast")
CROWD = "crowd"


def post(name, **body):
    text = json.dumps(body)
    return ("POST /v1/locks/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: %d\r\n\r\n%s" % (name, len(text), text)).encode()


class Service:
    def __init__(self, store):
        self.process = subprocess.Popen([BIN, "--store", store, "serve", "--listen", "127.0.0.1:0",
                                         "--max-waits", "100000"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def call(self, connection, method, path, body=None):
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def memory_kib(self):
        with open("/proc/%d/status" % self.process.pid) as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def keep(service, lease, ended):
    connection = service.connect()
    while not ended.wait(3):
        assert service.call(connection, "PUT", "/v1/leases/" + lease)[0] == 200


def begin_crowd(service, count):
    crowd = []
    for _ in range(count):
        waiter = socket.create_connection(("127.0.0.1", service.port))
        waiter.sendall(post(CROWD, wait_ms=3600000, ttl_ms=10000))
        crowd.append(waiter)
    return crowd


def work(service, number, every, until, took, failed):
    """Acquires and releases, each request at its time."""
    connection, due, turn = service.connect(), time.monotonic(), 0
    while due < until:
        time.sleep(max(0, due - time.monotonic()))
        began = time.monotonic()
        status, answer = service.call(connection, "POST", "/v1/locks/load-%d-%d" % (number, turn % 10), "{}")
        took.append(time.monotonic() - began)
        time.sleep(max(0, due + every - time.monotonic()))
        began = time.monotonic()
        if status != 201 or service.call(connection, "DELETE", "/v1/leases/" + answer["lease"])[0] != 204:
            failed.append(status)
        took.append(time.monotonic() - began)
        due, turn = due + 2 * every, turn + 1


def drain(service, crowd):
    """Each who gets the lock releases it; returns how many did."""
    ready, served, connection = selectors.DefaultSelector(), 0, service.connect()
    for waiter in crowd:
        ready.register(waiter, selectors.EVENT_READ)
    while served < len(crowd):
        events = ready.select(30)
        if not events:
            break
        for key, _ in events:
            head, _, body = key.fileobj.recv(65536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 201"), head
            assert service.call(connection, "DELETE", "/v1/leases/" + json.loads(body)["lease"])[0] == 204
            ready.unregister(key.fileobj)
            served += 1
    return served


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--store")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--waiters", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Service(given.store or "sqlite:" + os.path.join(folder, "locks.db")))


def measure(given, service):
    ended, took, failed, memory, workers = threading.Event(), [], [], [], 8
    _, first = service.call(service.connect(), "POST", "/v1/locks/" + CROWD, "{}")
    keeper = threading.Thread(target=keep, args=(service, first["lease"], ended))
    keeper.start()
    crowd = begin_crowd(service, given.waiters)
    until = time.monotonic() + given.seconds
    threads = [threading.Thread(target=work, args=(service, n, workers / given.rate, until, took, failed))
               for n in range(workers)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        memory.append(service.memory_kib())
        time.sleep(1)
    for thread in threads:
        thread.join()
    ended.set()
    keeper.join()
    service.call(service.connect(), "DELETE", "/v1/leases/" + first["lease"])
    began = time.monotonic()
    served = drain(service, crowd)
    seconds = time.monotonic() - began
    service.process.terminate()
    cuts = statistics.quantiles(took, n=1000)
    print("%d requests, %.0f a second, %d failed: median %.1f ms, p99 %.1f, p99.9 %.1f, most %.1f"
          % (len(took), len(took) / given.seconds, len(failed), cuts[499] * 1e3, cuts[989] * 1e3,
             cuts[998] * 1e3, max(took) * 1e3))
    print("memory with %d who wait: %.1f MiB after a tenth of the time, %.1f at the end, at most %.1f"
          % (given.waiters, memory[len(memory) // 10] / 1024, memory[-1] / 1024, max(memory) / 1024))
    print("%d of %d who waited were served, in %.1f s" % (served, len(crowd), seconds))


if __name__ == "__main__":
    main()
