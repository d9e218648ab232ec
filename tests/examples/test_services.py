"""examples/systemd, examples/compose and the unit of the Debian package, by the tools that read such files;
and whether examples/README.md has all examples."""
# SPDX-License-Identifier: Apache-2.0
import configparser
import glob
import json
import os
import pathlib
import re
import shlex
import signal
import ssl
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import bed
import yaml


class Serving(bed.Case):
    """A service that is started with a certificate and a token of the test's own."""

    def certify(self, cert, key, tokens):
        self.check(0, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                   "-nodes", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
                   "-keyout", self.path(key), "-out", self.path(cert))
        with open(self.path(tokens), "w") as out:
            out.write("read a-token-for-this-test\n")
        os.chmod(self.path(tokens), 0o600)

    def assert_serves(self, url, cert):
        """It speaks HTTPS and wants a token."""
        context = ssl.create_default_context(cafile=cert)
        request = urllib.request.Request(url + "/v1/locks")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, context=context, timeout=bed.PATIENCE)
        refused.exception.close()
        self.assertEqual(refused.exception.code, 401)
        request.add_header("Authorization", "Bearer a-token-for-this-test")
        with urllib.request.urlopen(request, context=context, timeout=bed.PATIENCE) as answer:
            self.assertEqual(answer.status, 200)


class Systemd(bed.Case):
    """The units, with the programs of the build and of the test in the place of those installed."""

    def setUp(self):
        super().setUp()
        for path in glob.glob(os.path.join(bed.EXAMPLES, "systemd", "*.*")):
            with open(path) as text, open(self.path(os.path.basename(path)), "w") as out:
                out.write(re.sub(r"/usr/local/bin/([\w-]+)", lambda m: self.stub(m[1]), text.read())
                          .replace("/usr/bin/holdfast", os.path.join(bed.BUILD, "holdfast")))

    def command(self, unit):
        parsed = configparser.ConfigParser(strict=False, interpolation=None)
        parsed.optionxform = str
        parsed.read(self.path(unit))
        return shlex.split(parsed["Service"]["ExecStart"])

    def test_systemd_has_no_complaint(self):
        units = sorted(glob.glob(self.path("*.*er*")))
        self.assertEqual([os.path.basename(unit) for unit in units],
                         ["maintenance-lock.service", "report.service", "report.timer",
                          "scheduler.service"])
        self.assertEqual(self.check(0, "systemd-analyze", "verify", "--man=no", *units), "")

    def test_the_report_is_made_once(self):
        self.assertIn("ran\n", self.check(0, *self.command("report.service")))
        self.assertNotIn("ran\n", self.check(0, *self.command("report.service")))

    def test_the_lock_is_held_by_what_the_unit_leaves(self):
        self.check(0, *self.command("maintenance-lock.service"))
        held = self.show("database")["holders"]
        self.assertTrue(held[0]["who"].startswith("maintenance@"))
        keepers = subprocess.run(["pgrep", "-f", "acquire --for 24h .*database"], check=True,
                                 stdout=subprocess.PIPE).stdout.split()
        mine = [int(pid) for pid in keepers if self.store.encode() in
                pathlib.Path("/proc/%d/environ" % int(pid)).read_bytes()]
        self.assertEqual(len(mine), 1)
        os.kill(mine[0], signal.SIGTERM)
        deadline = time.monotonic() + bed.PATIENCE
        while self.show("database")["holders"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_the_scheduler_runs_while_it_leads(self):
        self.stub("scheduler", 'echo "$HOLDFAST_NAME"; exec cat')
        leader = self.start(*self.command("scheduler.service"))
        self.assertEqual(leader.stdout.readline(), "scheduler\n")
        self.assertEqual(len(self.show("scheduler")["holders"]), 1)


class Service(Serving):
    """The unit of the Debian package, alone and with what docs/operations.md lets an administrator add."""

    def setUp(self):
        super().setUp()
        self.unit = self.read("debian", "holdfast.service")
        self.added = re.search(r"```ini\n(\[Service\]\n.*?)```", self.read("docs", "operations.md"), re.S)[1]
        with open(self.path("holdfast.service"), "w") as out:
            out.write(self.here(self.unit))

    @staticmethod
    def read(*path):
        with open(os.path.join(bed.SOURCE, *path)) as text:
            return text.read()

    @staticmethod
    def here(text):
        return text.replace("/usr/bin/holdfast", os.path.join(bed.BUILD, "holdfast"))

    @staticmethod
    def values(text, key):
        return re.findall(r"(?m)^%s=(.*)$" % key, text.replace("\\\n", ""))

    def assert_verified(self):
        self.assertEqual(self.check(0, "systemd-analyze", "verify", "--man=no",
                                    self.path("holdfast.service")), "")

    def test_systemd_has_no_complaint(self):
        self.assert_verified()

    def test_systemd_has_no_complaint_of_what_is_added(self):
        os.mkdir(self.path("holdfast.service.d"))
        with open(self.path("holdfast.service.d/override.conf"), "w") as out:
            out.write(self.here(self.added))
        self.assert_verified()

    def test_its_user_can_be_made(self):
        """systemd makes no user whose name a group has; and the groups that it names must be there."""
        groups = re.findall(r"\baddgroup .*?(\w+)$", self.read("debian", "holdfast.postinst"), re.M)
        self.assertEqual(self.values(self.unit, "DynamicUser"), ["yes"])
        (user,) = self.values(self.unit, "User") or ["holdfast"]
        self.assertNotIn(user, groups)
        self.assertEqual(self.values(self.unit, "Group"), groups)

    def test_only_its_group_can_reach_it(self):
        """The socket is in a folder that systemd makes for the group."""
        (command,) = self.values(self.unit, "ExecStart")
        (folder,) = self.values(self.unit, "RuntimeDirectory")
        self.assertIn(" --listen unix:/run/%s/" % folder, command)
        self.assertEqual(self.values(self.unit, "RuntimeDirectoryMode"), ["0750"])
        self.assertEqual(self.values(self.unit, "UMask"), ["0007"])

    def test_what_is_in_its_memory_stays_there(self):
        for key, value in (("LimitCORE", "0"), ("ProtectProc", "invisible")):
            self.assertEqual(self.values(self.unit, key), [value])

    def test_what_only_root_can_read_is_given_to_it(self):
        loaded = {each.split(":")[0] for each in self.values(self.added, "LoadCredential")}
        self.assertEqual(loaded, set(re.findall(r"%d/(\S+)", self.added)))

    def test_the_service_starts_so(self):
        """With credentials as systemd gives them, it speaks HTTPS, wants a token, and logs."""
        self.certify("cert.pem", "key.pem", "tokens")
        with open(self.path("settings"), "w") as out:
            out.write("ttl = 7s\n[stores]\nother = mongodb://me:password@a/x\n")
        os.chmod(self.path("settings"), 0o440)
        self.env["CREDENTIALS_DIRECTORY"] = self.folder
        name, value = self.values(self.added, "Environment")[0].split("=")
        self.env[name] = value.replace("%d", self.folder)
        command = self.here(self.values(self.added, "ExecStart")[-1]).replace("%d", self.folder)
        service = self.start(*command.replace("0.0.0.0:8430", "127.0.0.1:0").split(), "-v")
        self.assert_serves(service.stdout.readline().split()[-1], self.path("cert.pem"))
        self.assertEqual(json.loads(service.stderr.readline())["status"], 401)


class Compose(Serving):
    FOLDER = os.path.join(bed.EXAMPLES, "compose")

    def setUp(self):
        super().setUp()
        os.makedirs(os.path.join(bed.SOURCE, "build-packages"), exist_ok=True)  # where its image is made
        self.env.pop("DEBIAN", None)
        self.composed = self.read()
        services = self.composed["services"]
        self.mongo = {name: s for name, s in services.items() if s["command"][0] == "mongod"}
        self.holdfast = {name: s for name, s in services.items() if "build" in s}

    def read(self):
        return yaml.safe_load(self.check(0, "docker-compose", "config", cwd=self.FOLDER))

    def test_services_use_the_set(self):
        self.assertEqual((len(self.mongo), len(self.holdfast)), (3, 2))
        (name,) = {s["command"][s["command"].index("--replSet") + 1] for s in self.mongo.values()}
        store = "mongodb://%s/app?replicaSet=%s" % (",".join(sorted(self.mongo)), name)
        for service in self.holdfast.values():
            self.assertEqual(service["environment"]["HOLDFAST_STORE"], store)

    def test_services_are_reached_each_by_a_port(self):
        published = set()
        for service in self.holdfast.values():
            listen = [w for w in service["command"] if w.startswith("--listen=")][0]
            (port,) = service["ports"]
            self.assertEqual(listen, "--listen=0.0.0.0:%d" % port["target"])
            published.add(port["published"])
        self.assertEqual(len(published), 2)

    def test_services_find_their_secrets(self):
        for service in self.holdfast.values():
            given = {s["source"] for s in service["secrets"]}
            named = set(re.findall("/run/secrets/(\\w+)", " ".join(service["command"])))
            self.assertEqual(given, named)
            self.assertEqual(given, set(self.composed["secrets"]))

    def test_the_service_starts_so(self):
        """With its command as it stands, but for the folder of the secrets and a free port of this
        machine alone, it speaks HTTPS and wants a token."""
        self.certify("cert", "key", "token")
        words = [re.sub("0.0.0.0:.*", "127.0.0.1:0", word).replace("/run/secrets", self.folder)
                 for word in self.holdfast["holdfast1"]["command"]]
        url = self.start("holdfast", "-v", *words).stdout.readline().split()[-1]
        self.assert_serves(url, self.path("cert"))

    def test_image_is_made_of_the_package(self):
        build = self.holdfast["holdfast1"]["build"]
        with open(os.path.join(build["context"], build["dockerfile"])) as text:
            steps = dict(line.split(" ", 1) for line in text.read().replace("\\\n", "").split("\n")
                         if line and line[0] != "#")
        with open(os.path.join(bed.SOURCE, "debian", "control")) as control:
            packages = re.findall("^Package: (.*)$", control.read(), re.M)
        self.assertEqual([p for p in packages if steps["COPY"].startswith(p + "_*.deb ")], ["holdfast"])
        self.check(0, "sh", "-n", "-c", steps["RUN"])
        self.assertEqual(steps["ENTRYPOINT"], '["holdfast"]')
        self.assertEqual(steps["FROM"], "debian:${DEBIAN}-slim")
        self.assertEqual(steps["ARG"], "DEBIAN=" + str(build["args"]["DEBIAN"]))

    def test_image_has_the_debian_of_the_packages(self):
        self.env["DEBIAN"] = "13"
        build = self.read()["services"]["holdfast1"]["build"]
        self.assertEqual(str(build["args"]["DEBIAN"]), "13")


class Index(unittest.TestCase):
    def test_every_example_is_in_the_index(self):
        with open(os.path.join(bed.EXAMPLES, "README.md")) as text:
            linked = set(re.findall(r"\]\(([^)]*)\)", text.read()))
        there = {os.path.relpath(os.path.join(folder, name), bed.EXAMPLES)
                 for folder, _, names in os.walk(bed.EXAMPLES) for name in names
                 if not name.endswith(".pyc")}
        self.assertEqual(linked, there - {"README.md"})


unittest.main(verbosity=2)
