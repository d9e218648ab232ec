#!/usr/bin/python3
"""A web API on any number of servers, whose requests read a resource, work, and write it back, one at
a time for each resource: GET /resource/ID answers how long the request waited for the lock, worked,
and took in all. The locks are those of `holdfast serve` at HOLDFAST_URL; with --store this program
starts that service itself.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8430")
TRIES = 5


class NoService(Exception):
    """It was asked TRIES times."""


def call(method, path, body=None, **headers):
    """Sends a request to the lock service. Each of ours can be repeated without harm."""
    if "HOLDFAST_BEARER" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["HOLDFAST_BEARER"]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, headers, method=method)
    for left in reversed(range(TRIES)):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            if error.code == 410 and method == "DELETE" and left < TRIES - 1:
                return None  # an earlier request, whose answer did not come, has released it
            if error.code not in (502, 503, 504) or not left:
                raise
        except OSError as error:
            if not left:
                raise NoService("no lock service answers at %s: %s" % (URL, error)) from None
        time.sleep(1)


@contextlib.contextmanager
def locked(name, why, wait_ms=30000, ttl_ms=10000):
    """Work that takes longer than a third of ttl_ms renews: call("PUT", "/v1/leases/" + id)."""
    lease = call("POST", "/v1/locks/" + name, {"wait_ms": wait_ms, "ttl_ms": ttl_ms, "why": why},
                 **{"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())})
    try:
        yield lease
    finally:
        call("DELETE", "/v1/leases/" + lease["lease"])


def started(store):
    """`holdfast serve` on a free port, for as long as this program runs; the process and its URL."""
    service = subprocess.Popen(["holdfast", "--store", store, "serve", "--listen", "127.0.0.1:0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    said = service.stdout.readline()
    if not said:
        raise SystemExit(service.wait())  # it has said why
    return service, said.split()[-1]


def visit(path):
    """Reads the resource, works for 50 ms, and writes it back: what two must not do at once."""
    visits = json.load(open(path))["visits"] if os.path.exists(path) else 0
    time.sleep(0.05)
    with open(path + ".new", "w") as out:
        json.dump({"visits": visits + 1}, out)
    os.replace(path + ".new", path)
    return visits + 1


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = re.fullmatch("/resource/([A-Za-z0-9_-]{1,100})", self.path)
        if not found:
            self.answer(404, {"detail": "GET /resource/ID"})
            return
        try:
            self.answer(200, self.work_on(found.group(1)))
        except urllib.error.HTTPError as error:
            self.answer(503, {"detail": json.loads(error.read())["detail"]})
        except NoService as error:
            self.answer(503, {"detail": str(error)})

    def work_on(self, resource):
        begun = time.monotonic()
        with locked(given.prefix + resource, "asked by " + self.client_address[0]) as lease:
            had = time.monotonic()
            visits = visit(os.path.join(given.data, resource + ".json"))
            worked = time.monotonic()
        took = {"waited_ms": had - begun, "worked_ms": worked - had,
                "total_ms": time.monotonic() - begun}
        return dict({name: round(1000 * s) for name, s in took.items()}, resource=resource,
                    visits=visits, token=lease.get("token"))  # what is written to refuses a lower token

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.log_message("%s %d %s", self.path, status, body.decode())
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--store", help="sqlite:PATH, mongodb://...: serve the locks of this store")
    parser.add_argument("--prefix", default="resource-",
                        help="what a lock's name has before the resource's ID (resource-)")
    parser.add_argument("--data", default=tempfile.gettempdir(), help="where the resources are")
    given = parser.parse_args()
    os.makedirs(given.data, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", given.port), Api)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    if given.store:
        service, URL = started(given.store)
    print("listening on port %d" % server.server_port, flush=True)
    try:
        server.serve_forever()
    finally:
        if given.store:
            service.terminate()
