"""examples/http: the web API says how long each of its requests waited, and none is lost; the shell
script runs its command under the lock."""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import json
import os
import unittest
import urllib.request

import bed


class Http(bed.Case):
    def setUp(self):
        super().setUp()
        service = self.start("holdfast", "serve", "--listen", "127.0.0.1:0")
        self.env["HOLDFAST_URL"] = self.said(service, "listening on ")

    @staticmethod
    def said(process, beginning):
        line = process.stdout.readline()
        assert line.startswith(beginning), line
        return line[len(beginning):].strip()

    def report(self, *command):
        return self.check(0, os.path.join(bed.EXAMPLES, "http", "report.sh"), *command)

    def test_the_web_api_says_how_long_it_waited(self):
        api = self.start("/usr/bin/python3", os.path.join(bed.EXAMPLES, "http", "web_api.py"), "0")
        url = "http://127.0.0.1:%s/report" % self.said(api, "listening on port ")

        def ask(_):
            with urllib.request.urlopen(url, timeout=bed.PATIENCE) as answer:
                return json.loads(answer.read())
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(ask, range(6)))
        self.assertEqual(len({each["token"] for each in answers}), 6)
        last = max(answers, key=lambda each: each["token"])
        # five worked before it, 50 ms each; the first may have begun before the last one asked
        self.assertGreaterEqual(last["waited_ms"], 4 * 50)
        self.assertEqual(self.show("report")["last"]["outcome"], "released")

    def test_the_script_holds_while_its_command_runs(self):
        self.report("true")
        said = self.report("holdfast", "show", "report", "--json")
        self.assertRegex(said, r"^waited \d+ ms, token \d+\n")
        [holder] = json.loads(said.partition("\n")[2])["holders"]
        self.assertEqual(holder["why"], "report.sh")
        self.assertRegex(said, "token %d\n" % holder["token"])
        self.assertEqual(self.show("report")["holders"], [])


if __name__ == "__main__":
    unittest.main()
