"""examples/prometheus: each metric that alerts and dashboard ask for is one that a service has."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import time
import unittest
import urllib.request

import yaml

import bed

FOLDER = os.path.join(bed.EXAMPLES, "prometheus")
LABELS = re.compile(r'(\w+)\{(\w+)="([^"]*)"\}')


def load(name):
    with open(os.path.join(FOLDER, name)) as stream:
        return json.load(stream) if name.endswith(".json") else yaml.safe_load(stream)


def expressions():
    """Where each is, and its text."""
    for group in load("holdfast.rules.yml")["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in load("dashboard.json")["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


class Prometheus(bed.Case):
    def metrics(self):
        """What a service says once it has looked at its store, and after one request of each kind."""
        service = self.start("holdfast", "serve", "--listen", "127.0.0.1:0")
        self.addCleanup(service.wait)
        self.addCleanup(service.terminate)
        url = re.search(r"http://\S+", service.stdout.readline()).group().rstrip("/")
        deadline = time.monotonic() + bed.PATIENCE
        while True:
            with urllib.request.urlopen(url + "/metrics") as answer:
                text = answer.read().decode()
            if "holdfast_locks_held" in text:
                return text
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def test_each_metric_is_there(self):
        text = self.metrics()
        for where, expression in expressions():
            for name in re.findall(r"holdfast_\w+", expression):
                self.assertRegex(text, r"(?m)^%s[ {]" % name, where)
            for name, label, value in LABELS.findall(expression):
                if name.startswith("holdfast_"):
                    self.assertRegex(text, r'(?m)^%s\{[^}]*%s="%s"' % (name, label, value), where)

    def test_each_gauge_of_locks_is_asked_for(self):
        asked = " ".join(expression for _, expression in expressions())
        gauges = re.findall(r"# TYPE (holdfast_(?:locks|oldest|longest|look|store_up)\w*) gauge",
                            self.metrics())
        for name in gauges:
            if name != "holdfast_look_age_seconds":
                self.assertIn(name, asked)

    def test_rules_are_loaded_by_what_the_configuration_names(self):
        self.assertEqual(load("prometheus.yml")["rule_files"], ["holdfast.rules.yml"])
        panels = load("dashboard.json")["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))


if __name__ == "__main__":
    unittest.main(verbosity=2)
