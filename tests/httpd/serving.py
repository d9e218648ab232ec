"""What the tests of `holdfast serve` share: a service with a store of its own for each test, on the
replica set of HOLDFAST_TEST_URI where that is set; and calls whose every answer is held against
openapi.json.
"""
# SPDX-License-Identifier: Apache-2.0
import http.client
import json
import os
import re
import socket
import ssl
import sys
import time
import urllib.parse

import jsonschema

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
import cli  # noqa: E402

with open(os.path.join(HERE, "..", "..", "src", "httpd", "openapi.json")) as file:
    OPENAPI = json.load(file)

PATIENCE = cli.PATIENCE
main = cli.main

# What a protocol can do, for the tests that want it. history: how the last lease ended, also for a
# key. ttl: a lease lasts as long as was asked. why, who: the lock says them. names: any can be locked.
PROTOCOL = os.environ.get("HOLDFAST_TEST_PROTOCOL", "queue")
CAN = {"queue": {"queue", "share", "tokens", "history", "ttl", "why", "who", "names"},
       "ttl": {"ttl", "why", "who", "names"}, "document": {"tokens"},
       "sharding": {"why", "who", "names"}}[PROTOCOL]


def needs(*abilities):
    """A test that is none where the protocol cannot do that."""
    return lambda test: test if set(abilities) <= CAN else None


def operation_of(method, path):
    """The description of a call; None where there is none such."""
    for template, item in OPENAPI["paths"].items():
        pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in item:
            return item[method.lower()]
    return None


def path_of(template):
    return re.sub(r"\{\w+\}", "x", template)


def check_schema(schema, value):
    resolver = jsonschema.RefResolver.from_schema(OPENAPI)
    jsonschema.Draft202012Validator(schema, resolver=resolver).validate(value)


def check_described(method, path, answer):
    """The answer is one that openapi.json has for this call."""
    operation = operation_of(method, path)
    described = (operation["responses"].get(str(answer.status)) or operation["responses"]["default"]
                 if operation else {"$ref": "#/components/responses/Problem"})
    if "$ref" in described:
        described = OPENAPI["components"]["responses"][described["$ref"].rpartition("/")[2]]
    kind = answer.headers["Content-Type"]
    if "content" not in described:
        assert (kind, answer.text) == (None, ""), (method, path, answer.text)
        return
    assert kind in described["content"], (method, path, answer.status, kind)
    value = answer.json if kind.endswith("json") else answer.text
    check_schema(described["content"][kind]["schema"], value)
    if kind == "application/problem+json":
        assert value["status"] == answer.status, value


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)


class Events:
    """A connection that follows /v1/events; each event is held against the description."""

    def __init__(self, service, query="", token=None, last_id=None):
        self.connection = service.connect()
        headers = {"Authorization": "Bearer " + token} if token else {}
        if last_id:
            headers["Last-Event-ID"] = last_id
        self.connection.request("GET", "/v1/events" + query, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        content = operation_of("GET", "/v1/events")["responses"]["200"]["content"]
        self.schemas = content["text/event-stream"]["x-events"]
        self.last_id = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def block(self):
        """The fields of what comes next; None at the end."""
        fields = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            if line == "\n":
                return fields
            key, _, value = line.rstrip("\n").partition(": ")
            fields[key] = value

    def next(self):
        """The next event's name and data; None at the end."""
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, "no event comes"
            fields = self.block()
            if fields is None:
                return None
            if "event" in fields:
                self.last_id = fields["id"]
                data = json.loads(fields["data"])
                check_schema(self.schemas[fields["event"]], data)
                return fields["event"], data

    def until(self, kind, name=None, is_away=False):
        """The data of the next such event, whatever comes before it. On a busy machine the store is soon
        called away; the snapshot that comes then counts only where that is what a test is about."""
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, "%s does not come" % kind
            event = self.next()
            assert event, "the stream has ended before %s" % kind
            is_early = kind == "snapshot" and event[1].get("reachable") is False and not is_away
            if event[0] == kind and name in (None, event[1].get("name")) and not is_early:
                return event[1]

    def news(self, name, n):
        """The next n events of this lock, but for what it is like."""
        found = []
        deadline = time.monotonic() + PATIENCE
        while len(found) < n:
            assert time.monotonic() < deadline, "only %s of %s" % (found, name)
            kind, data = self.next()
            if data.get("name") == name and kind != "lock":
                found.append((kind, data))
        return found


class Service:
    """A service that runs."""

    def __init__(self, running, cert=None):
        self.running, self.cert = running, cert
        self.url = running.out.expect(r"listening on (\S+)\n").group(1)
        self.host = urllib.parse.urlsplit(self.url).hostname
        self.port = urllib.parse.urlsplit(self.url).port

    def connect(self):
        if not self.cert:
            return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        context = ssl.create_default_context(cafile=self.cert)
        return http.client.HTTPSConnection(self.host, self.port, timeout=PATIENCE, context=context)

    def call(self, method, path, token=None, body=None, headers=None):
        """Sends a request, and checks its answer against the description."""
        connection = self.connect()
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = "Bearer " + token
        try:
            connection.request(method, path, body, headers)
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        check_described(method, path.partition("?")[0], answer)
        return answer

    def get(self, path, token=None):
        return self.call("GET", path, token)

    def acquire(self, name, token=None, key=None, **asked):
        """Checks what is asked for against the description, too."""
        check_schema({"$ref": "#/components/schemas/Acquire"}, asked)
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        return self.call("POST", "/v1/locks/" + name, token, json.dumps(asked), headers)

    def metric(self, line, token=None):
        """The value of a line of /metrics."""
        found = re.search("^" + re.escape(line) + r" (\S+)$", self.get("/metrics", token).text, re.M)
        return float(found.group(1)) if found else 0.0


OPTIONS = {"queue": "", "ttl": "&hfProtocol=ttl", "sharding": "&hfProtocol=sharding",
           "document": "&hfProtocol=document&hfCollection=work&hfTokenField=token"}


DOCUMENTS = ["a/b", "a b%?", "\u00e4", "<i>&amp;", ".", "..", "other", *("job/%d" % i for i in range(5)),
             "job/free", "job/held", "a/1", "a/2", "b/1", "b/2"]


def make_documents(uri):
    """For the names that the tests lock."""
    import pymongo
    with pymongo.MongoClient(uri, w="majority") as client:
        client.get_default_database().work.insert_many(
            {"_id": name} for name in [*"uvwxyz", "\u00fc/b c", *DOCUMENTS])


class LocalConnection(http.client.HTTPConnection):
    """By a Unix socket, as the user who connects."""

    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class LocalService(Service):
    """A service that listens on a Unix socket."""

    def __init__(self, running):
        self.running = running
        self.path = running.out.expect(r"listening on unix:(\S+)\n").group(1)

    def connect(self):
        return LocalConnection(self.path)


class Case(cli.Case):
    def setUp(self):
        super().setUp()
        uri = os.environ.get("HOLDFAST_TEST_URI")
        if uri:
            database = "httpd%d_%s" % (os.getpid(), "-".join(self.id().split(".")[-2:])[-45:])
            uri = uri.replace("/?", "/%s?" % database)
            self.store = self.env["HOLDFAST_STORE"] = uri + OPTIONS[PROTOCOL]
            if PROTOCOL == "document":
                make_documents(uri)

    def serve(self, *words, cert=None):
        return Service(self.start("-v", "serve", "--listen", "127.0.0.1:0", *words), cert)

    def ask(self, service, name, token=None, **asked):
        """Sends a request for a lock, and does not wait for the answer."""
        connection = service.connect()
        self.addCleanup(connection.close)
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = "Bearer " + token
        connection.request("POST", "/v1/locks/" + name, json.dumps(asked), headers)
        return connection

    def check_problem(self, answer, status, code, said="."):
        self.assertEqual((answer.status, answer.json["code"]), (status, code), answer.text)
        self.assertRegex(answer.json["detail"], said)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w") as out:
            out.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def until(self, claim, what):
        """Asks again and again, until claim() is true; returns what it gave."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = claim()
            if found:
                return found
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)
