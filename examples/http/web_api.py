#!/usr/bin/python3
"""web_api.py PORT: a web API that updates one report, however many requests and copies of it run:
GET /report answers how long it took to get the lock, and with which token the report was written.
The locks are those of `holdfast serve` at HOLDFAST_URL.
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import http.server
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8430")
TRIES = 5


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
            if error.code not in (502, 503, 504) or not left:
                raise
        except OSError:
            if not left:
                raise
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


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            with locked("report", "asked by " + self.client_address[0]) as lease:
                time.sleep(0.05)  # the report is updated; what is written to refuses a lower token
            self.answer(200, {"waited_ms": lease["waited_ms"], "token": lease["token"]})
        except urllib.error.HTTPError as error:
            self.answer(503, {"detail": json.loads(error.read())["detail"]})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Api)
    print("listening on port %d" % server.server_port, flush=True)
    server.serve_forever()
