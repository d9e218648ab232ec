"""examples/http: the web API says how long each of its requests waited, and none is lost; the shell
script runs its command under the lock."""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import http.server
import json
import os
import threading
import time
import unittest
import urllib.error
import urllib.request

import bed


class Http(bed.Case):
    """On a file, or on the replica set of HOLDFAST_TEST_URI."""

    def setUp(self):
        super().setUp()
        if "HOLDFAST_TEST_URI" in os.environ:
            base, _, options = os.environ["HOLDFAST_TEST_URI"].partition("?")
            self.store = "%s/%s?%s" % (base.rstrip("/"), self.id().rsplit(".", 1)[-1], options)
            self.env["HOLDFAST_STORE"] = self.store
        service = self.start("holdfast", "serve", "--listen", "127.0.0.1:0")
        self.env["HOLDFAST_URL"] = self.said(service, "listening on ")

    @staticmethod
    def said(process, beginning):
        line = process.stdout.readline()
        assert line.startswith(beginning), line
        return line[len(beginning):].strip()

    def report(self, *command):
        return self.check(0, os.path.join(bed.EXAMPLES, "http", "report.sh"), *command)

    def api(self, *words):
        """The URL of one more server of the web API."""
        program = os.path.join(bed.EXAMPLES, "http", "web_api.py")
        api = self.start("/usr/bin/python3", program, "0", "--data", self.folder, *words)
        self.addCleanup(self.end, api)
        return "http://127.0.0.1:%s" % self.said(api, "listening on port ")

    @staticmethod
    def end(api):
        """With SIGTERM it ends its service, too."""
        api.terminate()
        assert api.wait(bed.PATIENCE) == 0

    @staticmethod
    def ask(url):
        with urllib.request.urlopen(url, timeout=bed.PATIENCE) as answer:
            return json.loads(answer.read())

    def ask_all(self, urls):
        with concurrent.futures.ThreadPoolExecutor(len(urls)) as pool:
            return list(pool.map(self.ask, urls))

    def await_waits(self, n):
        """Until so many requests wait at the service."""
        deadline = time.monotonic() + bed.PATIENCE
        url = self.env["HOLDFAST_URL"].rstrip("/") + "/metrics"
        while True:
            with urllib.request.urlopen(url, timeout=bed.PATIENCE) as metrics:
                if "\nholdfast_waits_open %d\n" % n in metrics.read().decode():
                    return
            self.assertLess(time.monotonic(), deadline, "%d never wait" % n)

    def test_the_web_api_says_how_long_it_waited(self):
        url = self.api() + "/resource/report"
        holder = self.hold("resource-report")
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            asked = [pool.submit(self.ask, url) for _ in range(6)]
            self.await_waits(6)
            holder.stdin.close()
            answers = [each.result() for each in asked]
        self.assertEqual(len({each["token"] for each in answers}), 6)
        last = max(answers, key=lambda each: each["token"])
        # five worked before it, 50 ms each
        self.assertGreaterEqual(last["waited_ms"], 5 * 50)
        for each in answers:
            self.assertGreaterEqual(each["worked_ms"], 50)
            self.assertGreaterEqual(each["total_ms"], each["waited_ms"] + each["worked_ms"] - 2)
        self.assertEqual(self.show("resource-report")["last"]["outcome"], "released")

    def visit(self, store):
        """60 visits at three servers, each with a service of its own, on one store."""
        apis = [self.api("--store", store, "--prefix", "shop/") for _ in range(3)]
        resources = ("a", "b", "c", "d")
        answers = self.ask_all(["%s/resource/%s" % (apis[i % 3], resources[i // 3 % 4])
                                for i in range(60)])
        for each in resources:
            visits = [answer["visits"] for answer in answers if answer["resource"] == each]
            self.assertEqual(sorted(visits), list(range(1, 16)))

    def test_no_visit_is_lost_on_several_servers(self):
        self.visit(self.store)
        for each in ("a", "b", "c", "d"):
            self.assertEqual(self.show("shop/" + each)["holders"], [])

    if "HOLDFAST_TEST_URI" in os.environ:
        def test_no_visit_is_lost_on_the_articles_collection(self):
            self.visit(self.store + "&hfProtocol=ttl&hfShape=expire-at")

    def test_what_is_no_resource(self):
        url = self.api()
        for path in ("/", "/report", "/resource/", "/resource/a/b", "/resource/..%2Fx"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask(url + path)
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()

    def test_the_script_holds_while_its_command_runs(self):
        self.report("true")
        said = self.report("holdfast", "show", "report", "--json")
        self.assertRegex(said, r"^waited \d+ ms, token \d+\n")
        [holder] = json.loads(said.partition("\n")[2])["holders"]
        self.assertEqual(holder["why"], "report.sh")
        self.assertRegex(said, "token %d\n" % holder["token"])
        self.assertEqual(self.show("report")["holders"], [])

    def test_the_script_that_is_killed_while_it_waits_leaves_the_queue(self):
        holder = self.hold("report")
        script = self.start(os.path.join(bed.EXAMPLES, "http", "report.sh"), "true")
        self.await_waits(1)
        script.terminate()
        self.assertEqual(script.wait(bed.PATIENCE), 143)
        self.await_waits(0)
        holder.stdin.close()
        self.assertEqual(holder.wait(bed.PATIENCE), 0)
        self.assertEqual(self.show("report")["holders"], [])

    def test_the_web_api_without_a_service(self):
        self.env["HOLDFAST_URL"] = "http://127.0.0.1:1"
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask(self.api() + "/resource/report")
        self.assertEqual(refused.exception.code, 503)
        self.assertIn("no lock service answers at http://127.0.0.1:1",
                      json.loads(refused.exception.read())["detail"])
        refused.exception.close()

    def test_the_web_api_repeats_a_release(self):
        """One that got no answer was done, and without a queue nothing remembers that."""
        statuses = [201, 503, 410]

        class Service(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.dumps({"lease": "x", "token": 7, "waited_ms": 0, "detail": "no"}).encode()
                self.send_response(statuses.pop(0))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_DELETE = do_POST

            def log_message(self, *words):
                pass

        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(service.server_close)
        self.addCleanup(service.shutdown)
        self.env["HOLDFAST_URL"] = "http://127.0.0.1:%d" % service.server_port
        self.assertEqual(self.ask(self.api() + "/resource/report")["visits"], 1)
        self.assertEqual(statuses, [])

    def test_the_web_api_with_a_store_that_cannot_be(self):
        program = os.path.join(bed.EXAMPLES, "http", "web_api.py")
        said = self.check(65, "/usr/bin/python3", program, "0", "--store", "wrong")
        self.assertNotIn("Traceback", said)


if __name__ == "__main__":
    unittest.main()
