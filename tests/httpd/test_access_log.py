#!/usr/bin/python3
"""The access log: what a line says, what it never says, and that nobody waits for its reader."""
# SPDX-License-Identifier: Apache-2.0
import fcntl
import http.client
import json
import os
import re
import stat
import urllib.parse

import serving

USER, READER = "use-token-aaaaaaaaaa", "read-token-aaaaaaaaa"
TOKENS = "use %s shop\nread %s\n" % (USER, READER)
JSON = {"Content-Type": "application/json"}


class AccessLog(serving.Case):
    def logged(self, n):
        """The lines of the file, when there are so many."""
        def lines():
            with open(self.path("log")) as file:
                found = file.read().splitlines()
            return found if len(found) >= n else None
        return [json.loads(line) for line in self.until(lines, "%d lines" % n)]

    def test_what_a_line_says(self):
        service = self.serve("--access-log", self.path("log"), "--token-file", self.write("tokens", TOKENS))
        answers = [service.acquire("a/b", USER, ttl_ms=60000), service.get("/v1/locks", READER),
                   service.get("/healthz"), service.get("/v1/locks/a%2Fb")]
        lines = self.logged(4)
        for line, answer in zip(lines, answers):
            self.assertEqual(list(line), ["at", "method", "path", "status", "ms", "caller", "bytes"])
            self.assertRegex(line["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual((line["status"], line["bytes"]), (answer.status, len(answer.text.encode())))
            self.assertGreaterEqual(line["ms"], 0)
        self.assertEqual([(line["method"], line["path"], line["caller"]) for line in lines],
                         [("POST", "/v1/locks/a/b", "shop"), ("GET", "/v1/locks", "127.0.0.1"),
                          ("GET", "/healthz", "127.0.0.1"), ("GET", "/v1/locks/a/b", "127.0.0.1")])
        self.assertEqual([line["status"] for line in lines], [201, 200, 200, 401])
        self.assertEqual(stat.S_IMODE(os.stat(self.path("log")).st_mode) & 0o137, 0)

    def test_no_secret_is_in_it(self):
        service = self.serve("--access-log", self.path("log"), "--token-file", self.write("tokens", TOKENS))
        lease = service.acquire("x", USER, ttl_ms=60000).json["lease"]
        secret = lease.partition("-")[0]
        for method, path in (("PUT", "/v1/leases/" + lease), ("PUT", "/v1/lease/" + lease),
                             ("GET", "/v1/locks/" + lease), ("BREW", "/v1/leases/" + lease),
                             ("GET", "/v1/locks?prefix=" + secret), ("GET", "/v1/locks?token=" + USER),
                             ("GET", "/" + USER), ("DELETE", "/v1/leases/" + lease)):
            service.call(method, path, USER)
        lines = self.logged(9)
        self.assertEqual([line["path"] for line in lines],
                         ["/v1/locks/x", "/v1/leases/{lease}", "?", "/v1/locks/{name}", "?", "/v1/locks",
                          "/v1/locks", "?", "/v1/leases/{lease}"])
        self.assertEqual({line["caller"] for line in lines}, {"shop"})
        with open(self.path("log")) as file:
            text = file.read()
        for each in (secret, USER, READER):
            self.assertNotIn(each, text)

    def test_names_change_no_terminal(self):
        service = self.serve("--access-log", self.path("log"))
        name = "a\u202eb\x7f"
        service.get("/v1/locks/" + urllib.parse.quote(name))
        [line] = self.logged(1)
        self.assertEqual(line["path"], "/v1/locks/" + name)
        with open(self.path("log")) as file:
            self.assertIn(r'"/v1/locks/a\u202eb\u007f"', file.read())

    def test_who_hangs_up_while_waiting(self):
        service = self.serve("--access-log", self.path("log"))
        self.hold("x")
        connection = service.connect()
        connection.request("POST", "/v1/locks/x", '{"wait_ms": 600000}', JSON)
        self.until(lambda: service.metric("holdfast_waits_open") > 0, "a waiter")
        connection.close()
        lines = self.until(lambda: [each for each in self.logged(1) if each["method"] == "POST"], "its line")
        self.assertEqual([each["status"] for each in lines], [499])

    def test_waits_and_streams_are_logged_when_they_end(self):
        service = self.serve("--access-log", self.path("log"))
        self.hold("x")
        events = serving.Events(service)
        events.until("snapshot")
        self.assertEqual(service.acquire("x", wait_ms=200).status, 409)
        [refused] = self.logged(1)
        self.assertEqual((refused["path"], refused["status"]), ("/v1/locks/x", 409))
        self.assertGreaterEqual(refused["ms"], 200)
        events.connection.close()
        events.response.close()
        self.hold("y")  # there is something to be sent
        [_, stream] = self.logged(2)
        self.assertEqual((stream["path"], stream["status"]), ("/v1/events", 200))
        self.assertGreater(stream["bytes"], 100)

    def test_the_head_has_no_body(self):
        service = self.serve("--access-log", self.path("log"))
        connection = service.connect()
        self.addCleanup(connection.close)
        connection.request("HEAD", "/v1/locks")
        self.assertEqual(connection.getresponse().status, 200)
        [line] = self.logged(1)
        self.assertEqual((line["method"], line["bytes"]), ("HEAD", 0))

    def test_it_is_appended_to(self):
        with open(self.path("log"), "w") as file:
            file.write("{}\n")
        service = self.serve("--access-log", self.path("log"))
        service.get("/healthz")
        self.assertEqual(self.logged(2)[0], {})
        os.truncate(self.path("log"), 0)
        service.get("/v1/locks")
        self.assertEqual([line["path"] for line in self.logged(1)], ["/v1/locks"])

    def test_what_cannot_be_opened(self):
        result = self.check(65, "serve", "--listen", "127.0.0.1:0", "--access-log", self.path("none/log"))
        self.assertRegex(result.err, "^holdfast: --access-log: .*none/log: No such file or directory")

    def test_what_others_put_in_its_place(self):
        """A member of a group that shares the folder; a FIFO that nobody reads does not stop it."""
        os.mkdir(self.path("shared"))
        theirs = self.write("theirs", "")
        os.symlink(self.path("made"), self.path("shared/dangling"))
        os.symlink(theirs, self.path("shared/link"))
        os.link(theirs, self.path("shared/hard"))
        os.mkfifo(self.path("shared/fifo"))
        reader = os.open(self.path("shared/fifo"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        for name, said in (("dangling", "a symbolic link"), ("link", "a symbolic link"),
                           ("hard", "one name only"), ("fifo", "no regular file")):
            result = self.check(65, "serve", "--listen", "nowhere", "--access-log",
                                self.path("shared/" + name))
            self.assertRegex(result.err, "--access-log: .*: this is .*" + said)
        self.assertFalse(os.path.exists(self.path("made")))
        self.assertEqual(self.serve("--access-log", os.devnull).get("/healthz").status, 200)

    def test_the_setting(self):
        self.env["HOLDFAST_CONFIG"] = self.write("config", "access-log = %s\n" % self.path("log"))
        self.serve().get("/healthz")
        self.assertEqual(len(self.logged(1)), 1)
        self.env["HOLDFAST_ACCESS_LOG"] = "none"
        service = self.serve()
        service.get("/healthz")
        self.assertEqual(len(self.logged(1)), 1)

    def test_off_by_default(self):
        running = self.start("serve", "--listen", "127.0.0.1:0")
        serving.Service(running).get("/healthz")
        running.signal(15)
        self.assertEqual((running.status(), running.err.rest()), (0, ""))

    def test_nobody_waits_for_who_reads_it(self):
        running = self.start("serve", "--listen", "127.0.0.1:0", "--access-log", "-")
        fcntl.fcntl(running.process.stderr.fileno(), fcntl.F_SETPIPE_SZ, 8192)
        service = serving.Service(running)
        connection = http.client.HTTPConnection(service.host, service.port, timeout=serving.PATIENCE)
        self.addCleanup(connection.close)
        for _ in range(200):  # more than the pipe takes
            connection.request("GET", "/healthz")
            self.assertEqual(connection.getresponse().read(), b"alive\n")
        read = [json.loads(running.err.line()) for _ in range(10)]
        self.assertEqual({line["path"] for line in read}, {"/healthz"})
        self.until(lambda: self.asks_until_dropped(connection, running), "the count of what was dropped")

    @staticmethod
    def asks_until_dropped(connection, running):
        connection.request("GET", "/v1/locks")
        connection.getresponse().read()
        line = running.err.line()
        return re.search(r'"dropped":\d+', line)


if __name__ == "__main__":
    serving.main()
