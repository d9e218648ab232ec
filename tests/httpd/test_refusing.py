#!/usr/bin/python3
"""Who is let in, and what is refused: tokens, TLS, hosts, bad requests, limits, slow clients; and
how the service ends."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import http.client
import json
import os
import pwd
import re
import resource
import select
import shutil
import socket
import ssl
import subprocess
import sys
import time
import unittest
import warnings

import serving

READ, USE, ADMIN = ("%s-token-%s" % (role, "x" * 10) for role in ("read", "use", "admin"))


class Tokens(serving.Case):
    def setUp(self):
        super().setUp()
        self.file = self.write("tokens", "# who may what\n\nread %s\nuse\t%s web shop\nadmin %s alice\n"
                               % (READ, USE, ADMIN))

    def test_each_role(self):
        service = self.serve("--token-file", self.file)
        for token in (None, "", READ[:-1], READ + "x", "x" * 5000, "%s " % READ[:-1]):
            answer = service.get("/v1/locks", token)
            self.check_problem(answer, 401, "PROBLEM_UNAUTHORIZED", "to read")
            self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
        for token in (READ, USE, ADMIN):
            self.assertEqual(service.get("/v1/locks", token).status, 200)
        path = "/v1/locks/x?reason=why"
        for token in (READ, USE):
            self.check_problem(service.call("DELETE", path, token), 403, "PROBLEM_FORBIDDEN")
        self.check_problem(service.call("DELETE", path, ADMIN), 404, "HF_NOT_FOUND")
        for path in ("/healthz", "/readyz", "/openapi.json"):
            self.assertEqual(service.get(path).status, 200)
        self.check_problem(service.get("/metrics"), 401, "PROBLEM_UNAUTHORIZED")

    def test_a_change_counts_after_a_restart(self):
        service = self.serve("--token-file", self.file)
        self.write("tokens", "read %s\n" % ADMIN)
        self.assertEqual([service.get("/v1/locks", token).status for token in (READ, ADMIN)], [200, 200])
        service.running.signal(15)
        self.assertEqual(service.running.status(), 0)
        service = self.serve("--token-file", self.file)
        self.assertEqual([service.get("/v1/locks", token).status for token in (READ, ADMIN)], [401, 200])
        self.check_problem(service.call("DELETE", "/v1/locks/x?reason=why", ADMIN), 403, "PROBLEM_FORBIDDEN")

    def test_other_schemes(self):
        service = self.serve("--token-file", self.file)
        for scheme, status in (("bearer ", 200), ("Basic ", 401), ("", 401), ("Bearer", 401),
                               ("Digest ", 401), ("Bearers ", 401)):
            answer = service.call("GET", "/v1/locks", headers={"Authorization": scheme + READ})
            self.assertEqual(answer.status, status, scheme)

    def test_who_breaks_is_told(self):
        service = self.serve("--token-file", self.file)
        holder = self.hold("--ttl", "6s", "x")
        self.assertEqual(service.call("DELETE", "/v1/locks/x?reason=why", ADMIN).status, 200)
        self.assertEqual(holder.status(), 76)
        self.assertRegex(holder.err.rest(), "broken by alice: why")

    def refused(self, text, said, mode=0o600):
        path = self.write("bad", text, mode)
        result = self.check(65, "serve", "--listen", "127.0.0.1:0", "--token-file", path)
        self.assertRegex(result.err, said)

    def test_bad_files(self):
        self.refused("", "no access token in it")
        self.refused("read %s\nwrite %s\n" % (READ, USE), "line 2 does not begin with read")
        self.refused("read short\n", "line 1 has no access token of 16")
        self.refused("read\n", "line 1 has no access token")
        self.refused("use %s\n\nadmin %s\n" % (USE, USE),
                     "line 3 has an access token that an earlier line has")
        self.refused("read %s\n" % ("x" * 257), "line 1 has no access token")
        for mode in (0o604, 0o620, 0o602):
            self.refused("read %s\n" % READ, "others can read or change it", mode)
        result = self.check(65, "serve", "--token-file", self.path("nix"))
        self.assertRegex(result.err, "No such file")

    def test_files_that_are_none(self):
        """A FIFO that nobody writes to would be waited for."""
        os.mkfifo(self.path("fifo"), 0o600)
        for words in (["--token-file", "fifo"], ["--tls-cert", "fifo", "--tls-key", "fifo"],
                      ["--tls-cert", "tokens", "--tls-key", "fifo"], ["--token-file", "."]):
            given = [self.path(word) if word[0] != "-" else word for word in words]
            result = self.check(65, "serve", "--listen", "127.0.0.1:0", *given)
            self.assertRegex(result.err, "this is no regular file")

    def test_a_link_is_followed(self):
        """As those that certbot makes, and those of mounted secrets."""
        os.symlink("tokens", self.path("link"))
        service = self.serve("--token-file", self.path("link"))
        self.assertEqual(service.get("/v1/locks", READ).status, 200)


class Listening(serving.Case):
    def test_not_beyond_this_machine_without_tokens(self):
        for host in ("0.0.0.0", "[::]"):
            result = self.run_it("serve", "--listen", host + ":0")
            self.assertEqual(result.returncode, 65, result.err)
            self.assertRegex(result.err, "can be reached from other machines.*--token-file")

    def test_beyond_it_where_that_is_said(self):
        file = self.write("tokens", "read %s\n" % READ)
        for words in (["--insecure-serve-anybody"], ["--token-file", file]):
            service = serving.Service(self.start("serve", "--listen", "0.0.0.0:0", *words))
            self.assertEqual(service.get("/v1/locks", READ).status, 200)

    def test_other_addresses(self):
        for host in ("[::1]", "localhost", "127.0.0.2"):
            service = serving.Service(self.start("serve", "--listen", host + ":0"))
            self.assertEqual(service.get("/v1/locks").status, 200)

    def test_what_is_no_address(self):
        for text in ("", "127.0.0.1", "127.0.0.1:", ":8430", "[::1:0", "127.0.0.1:99999x", "[::1]x:0"):
            result = self.run_it("serve", "--listen", text)
            self.assertEqual((result.returncode, text), (65, text))
            self.assertRegex(result.err, "is no address to listen on")

    def test_one_that_is_taken(self):
        port = self.serve().port
        result = self.run_it("serve", "--listen", "127.0.0.1:%d" % port)
        self.assertEqual(result.returncode, 69)
        self.assertRegex(result.err, "cannot listen on 127.0.0.1, port [0-9]+: Address already in use; --listen")

    def test_names_of_others_are_refused(self):
        """A page in a browser here that has made its own name mean this machine."""
        service = self.serve()
        for host, status in (("evil.example", 421), ("127.0.0.1.evil.example:80", 421),
                             ("localhost.evil.example", 421), ("localhosts", 421),
                             ("evil.localhost", 421), ("LocalHost", 200),
                             ("localhost:1", 200), ("127.9.9.9", 200), ("[::1]:5", 200), ("[", 400),
                             ("localhost:", 200), ("localhost:x", 400), ("localhost:65536", 400), (":1", 400)):
            answer = service.call("GET", "/v1/locks", headers={"Host": host})
            self.assertEqual(answer.status, status, host)
        none = 'holdfast_http_requests_total{method="",path="",status="421"}'
        self.assertEqual(service.metric(none), 5)  # of no call in particular


@contextlib.contextmanager
def acting_as(name, group=None):
    """What happens in it happens as this user, who is in that group, too."""
    user, groups = pwd.getpwnam(name), os.getgroups()
    os.setgroups([user.pw_gid] + ([group] if group else []))
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@unittest.skipUnless(os.getuid() == 0, "other users are needed")
class OtherUsers(serving.Case):
    """Accounts of this machine that are not the service's."""

    GROUP = 60311

    def setUp(self):
        super().setUp()
        os.chown(self.folder, 0, self.GROUP)
        os.chmod(self.folder, 0o2775)

    def serve_locally(self, *words):
        old = os.umask(0o007)
        try:
            return serving.LocalService(self.start("serve", "--listen", "unix:" + self.path("socket"), *words))
        finally:
            os.umask(old)

    def test_a_group_shares_a_unix_socket(self):
        """Each of it is known by name; to all others it is closed."""
        service = self.serve_locally("--access-log", self.path("log"))
        with acting_as("nobody"), self.assertRaises(PermissionError):
            service.get("/healthz")
        with acting_as("daemon", self.GROUP):
            service.acquire("y", key="k", ttl_ms=600000)
            lease = service.acquire("x", ttl_ms=5000).json["lease"]
        with acting_as("bin", self.GROUP):
            self.check_problem(service.acquire("y", key="k"), 409, "HF_HELD")  # another's key
            [holder] = service.get("/v1/locks/x").json["holders"]
            self.assertEqual(holder["who"], "daemon@" + socket.gethostname())
            answer = service.call("DELETE", "/v1/locks/x?reason=why")
            self.assertEqual(answer.status, 200, answer.text)
        self.check_problem(service.call("PUT", "/v1/leases/" + lease), 410, "HF_LOST")
        self.assertEqual(service.get("/v1/locks/x").json["last"]["reason"], "broken by bin: why")
        service.running.err.expect('holdfast: bin@%s broke "x": why\n' % re.escape(socket.gethostname()))
        with open(self.path("log")) as log:
            self.assertIn("bin", [json.loads(line)["caller"] for line in log])

    def test_a_port_is_anybodys_so_nobody_breaks_there(self):
        service = self.serve()
        self.hold("x")
        with acting_as("nobody"):
            self.check_problem(service.call("DELETE", "/v1/locks/x?reason=why"), 403, "PROBLEM_FORBIDDEN",
                               "no access tokens")
            lease = service.acquire("mine").json["lease"]
            self.assertEqual(service.call("DELETE", "/v1/leases/" + lease).status, 204)
        self.assertEqual(len(service.get("/v1/locks/x").json["holders"]), 1)

    def test_with_access_tokens_they_decide(self):
        file = self.write("tokens", "read %s\n" % READ)
        service = self.serve_locally("--token-file", file)
        with acting_as("daemon", self.GROUP):
            self.check_problem(service.get("/v1/locks"), 401, "PROBLEM_UNAUTHORIZED")
            self.assertEqual(service.get("/v1/locks", READ).status, 200)

    def test_another_users_file_gives_no_rights(self):
        """A member of the group has put it in the place of root's."""
        file = self.write("theirs", "admin %s mallory\n" % ADMIN)
        os.chown(file, pwd.getpwnam("daemon").pw_uid, 0)
        result = self.check(65, "serve", "--listen", "nowhere", "--token-file", file)
        self.assertRegex(result.err, "theirs: user [0-9]+ can change it")

    def test_a_socket_is_never_for_all(self):
        old = os.umask(0)
        try:
            service = serving.LocalService(self.start("serve", "--listen", "unix:" + self.path("socket")))
        finally:
            os.umask(old)
        self.assertEqual(os.stat(service.path).st_mode & 0o777, 0o660)


class UnixSockets(serving.Case):
    def serve_at(self, path):
        return serving.LocalService(self.start("serve", "--listen", "unix:" + path))

    def test_one_that_was_left_is_replaced(self):
        first = self.serve_at(self.path("socket"))
        result = self.run_it("serve", "--listen", "unix:" + first.path)
        self.assertEqual(result.returncode, 69)
        self.assertRegex(result.err, "cannot listen on unix:.*socket: Address already in use")
        self.assertEqual(first.get("/healthz").status, 200)
        first.running.signal(9)
        first.running.status()
        second = self.serve_at(first.path)
        self.assertEqual(second.get("/healthz").status, 200)
        second.running.signal(15)
        self.assertEqual(second.running.status(), 0)
        self.assertFalse(os.path.lexists(second.path))

    def test_one_of_another_service_stays(self):
        """It was started where somebody had removed the first one's socket."""
        first = self.serve_at(self.path("socket"))
        os.unlink(first.path)
        second = self.serve_at(first.path)
        first.running.signal(15)
        self.assertEqual(first.running.status(), 0)
        self.assertTrue(os.path.lexists(second.path))
        self.assertEqual(second.get("/healthz").status, 200)

    def test_what_is_no_socket_stays(self):
        os.symlink(self.path("target"), self.path("link"))
        for path in (self.write("file", "text"), self.path("link")):
            result = self.run_it("serve", "--listen", "unix:" + path)
            self.assertEqual(result.returncode, 69, result.err)
            self.assertTrue(os.path.lexists(path))
        self.assertFalse(os.path.lexists(self.path("target")))
        for path, said in (("", "1 to 107 bytes"), ("/" + "x" * 107, "1 to 107 bytes"),
                           ("/nix/nix", "No such file")):
            self.assertRegex(self.run_it("serve", "--listen", "unix:" + path).err, said)

    def test_names_of_others_are_refused(self):
        """ssh can carry a browser's requests to it."""
        service = self.serve_at(self.path("socket"))
        self.check_problem(service.call("GET", "/v1/locks", headers={"Host": "evil.example"}), 421,
                           "PROBLEM_HOST")


class Tls(serving.Case):
    def make(self, name):
        cert, key = self.path(name + ".crt"), self.path(name + ".key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                        "-out", cert], check=True, capture_output=True)
        return cert, key

    def test_served(self):
        cert, key = self.make("ours")
        service = self.serve("--tls-cert", cert, "--tls-key", key, cert=cert)
        self.assertRegex(service.url, "^https://")
        self.assertEqual(service.get("/v1/locks").status, 200)
        with self.assertRaises(ssl.SSLError):
            plain = serving.Service.__new__(serving.Service)
            plain.cert, plain.host, plain.port = self.make("other")[0], service.host, service.port
            plain.get("/v1/locks")

    def test_old_versions_are_not(self):
        cert, key = self.make("ours")
        service = self.serve("--tls-cert", cert, "--tls-key", key, cert=cert)
        context = ssl.create_default_context(cafile=cert)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection((service.host, service.port)) as plain:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain, server_hostname=service.host)

    def test_ciphers_without_forward_secrecy_are_not(self):
        """Nor those with CBC. With an RSA key, for which there are both."""
        cert, key = self.path("rsa.crt"), self.path("rsa.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=ours", "-keyout", key, "-out", cert], check=True, capture_output=True)
        service = self.serve("--tls-cert", cert, "--tls-key", key, cert=cert)
        self.assertTrue(self.shakes_hands(service, "ECDHE+AESGCM"))
        for ciphers in ("AES128-GCM-SHA256", "AES256-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA384"):
            self.assertFalse(self.shakes_hands(service, ciphers), ciphers)

    @staticmethod
    def shakes_hands(service, ciphers):
        context = ssl.create_default_context(cafile=service.cert)
        context.check_hostname = False
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers + ":@SECLEVEL=0")
        with socket.create_connection((service.host, service.port)) as plain:
            try:
                context.wrap_socket(plain).close()
            except (ssl.SSLError, ConnectionError):
                return False
        return True

    def test_bad_files(self):
        cert, key = self.make("ours")
        bad = self.write("bad.pem", "no key\n")
        for words, status, said in (
                (["--tls-cert", cert], 64, "both"),
                (["--tls-cert", cert, "--tls-key", bad], 65, "cannot be used"),
                (["--tls-cert", cert, "--tls-key", self.write("seen", "", 0o644)], 65, "others can"),
                (["--tls-cert", self.path("nix"), "--tls-key", key], 65, "No such file"),
                (["--tls-cert", self.write("short", "x"), "--tls-key", key], 65, "cannot be used"),
                (["--tls-cert", self.write("long", "x" * 65535), "--tls-key", key], 65, "cannot be used"),
                (["--tls-cert", self.write("longer", "x" * 65536), "--tls-key", key], 65, "is no cert"),
                (["--tls-cert", self.write("empty", ""), "--tls-key", key], 65, "is no certificate")):
            result = self.run_it("serve", "--listen", "127.0.0.1:0", *words)
            self.assertEqual(result.returncode, status, result.err)
            self.assertRegex(result.err, said)


class BadRequests(serving.Case):
    def test_paths_and_methods(self):
        service = self.serve()
        for path in ("/v1", "/v1/leases/", "/nix", "/v1/locksx", "//v1/locks", "/v1/sessions/x"):
            self.check_problem(service.get(path), 404, "PROBLEM_NO_SUCH_PATH")
        answer = service.call("POST", "/v1/sessions", body="{}")
        self.check_problem(answer, 405, "PROBLEM_METHOD")
        self.assertEqual(answer.headers["Allow"], "GET")

    def test_what_is_refused_first_is_said(self):
        service = self.serve()
        answer = service.call("POST", "/v1/locks/x?nothing=1", body="{}",
                              headers={"Content-Type": "text/plain"})
        self.check_problem(answer, 415, "PROBLEM_NOT_JSON")

    def test_names_and_parameters(self):
        service = self.serve("--insecure-serve-anybody")
        for path in ("/v1/locks/", "/v1/history/?name=", "/v1/locks/x?name=y", "/v1/locks/?name=%ff",
                     "/v1/locks/%", "/v1/locks/%0", "/v1/locks/%zz", "/v1/locks/a%00b", "/v1/locks/%ff",
                     "/v1/locks/" + "x" * 513, "/v1/locks?prefix=%e4", "/v1/locks?prefix=%",
                     "/v1/locks?limit=0", "/v1/locks?limit=1001", "/v1/locks?limit=1x",
                     "/v1/locks?limit=", "/v1/locks?Prefix=x", "/v1/sessions?all=2",
                     "/v1/locks?in_use=yes"):
            self.check_problem(service.get(path), 400, "HF_INVALID")
        path = "/v1/locks/x?if_token=99999999999999999999&reason=x"
        self.check_problem(service.call("DELETE", path), 400, "HF_INVALID", "if_token")

    def raw(self, service, text, size=65536):
        """All that is answered, until the end of the connection."""
        answer = []
        with socket.create_connection((service.host, service.port), serving.PATIENCE) as plain:
            with contextlib.suppress(ConnectionResetError):
                plain.sendall(text)
                answer.extend(iter(lambda: plain.recv(size), b""))
        return b"".join(answer)

    def test_what_is_no_http(self):
        service = self.serve("--timeout", "500ms")
        for text in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                     b"GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     b"Content-Length: -1\r\n\r\n"):
            self.assertNotIn(b" 200 ", self.raw(service, text))
        self.assertEqual(service.get("/healthz").status, 200)

    def test_a_body_has_one_end(self):
        service = self.serve()
        head = b"POST /v1/locks/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for length in (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                       b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}"):
            answer = self.raw(service, head + length)
            said, _, body = answer.partition(b"\r\n\r\n")
            self.assertRegex(said, b"^HTTP/1.1 400 (.|\r\n)*\r\nConnection: close(\r|$)")
            if b"application/problem+json" in said:  # else the library has refused it before us
                self.assertIn(b"how long the body is", body)
        self.assertRegex(self.raw(service, head.replace(b"Host: localhost\r\n", b"") +
                                  b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"), b"^HTTP/1.1 400 ")
        self.assertEqual(service.get("/v1/locks").json["locks"], [])

    def test_fields_have_one_meaning(self):
        """A proxy before it could see another caller, host or field."""
        service = self.serve("--token-file", self.write("tokens", "read %s\n" % READ))
        head = b"GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        caller = b"Authorization: Bearer %s\r\n" % READ.encode()
        self.assertRegex(self.raw(service, head + caller + b"\r\n"), b"^HTTP/1.1 200 ")
        for fields in (caller * 2, caller.replace(b":", b" :"), caller.replace(b":", b"\t:"),
                       caller + b"Host: other\r\n", caller + b"X\x01: y\r\n", caller + b"X: \x1b[m\r\n",
                       caller + b"X\x7f: y\r\n", caller + b"X\r\n"):
            self.assertRegex(self.raw(service, head + fields + b"\r\n"), b"^HTTP/1.1 400 ", fields)

    def test_heads_are_bounded(self):
        service = self.serve()
        answer = self.raw(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" +
                          b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(1000)) + b"\r\n")
        self.assertNotIn(b" 200 ", answer)
        self.assertEqual(service.get("/healthz").status, 200)

    def test_a_lock_is_never_taken_without_an_answer(self):
        """The answer's head needs room beside the request's, which the library has read."""
        service = self.serve()
        head = (b"POST /v1/locks/%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Content-Type: application/json\r\nContent-Length: 2\r\n%s\r\n\r\n{}")
        statuses = {}
        for n, more in enumerate([b"X: " + b"y" * size for size in range(15600, 16800, 50)] +
                                 [b"\r\n".join([b"X: y"] * fields) for fields in (50, 90, 110, 200)]):
            answer = self.raw(service, head % (n, more))
            statuses[n] = answer[9:12]
            if answer[9:12] == b"431" and b"application/problem+json" in answer:
                self.assertIn(b"PROBLEM_HEAD", answer)
        held = {int(lock["name"]) for lock in service.get("/v1/locks?in_use=1").json["locks"]}
        self.assertEqual(held, {n for n, status in statuses.items() if status == b"201"})
        self.assertEqual(set(statuses.values()), {b"201", b"431"})

    def test_bodies_are_bounded(self):
        service = self.serve()
        for body in (b"x" * 16385, iter([b"x" * 10000] * 3)):  # with its length, and in pieces
            answer = service.call("GET", "/healthz", body=body)
            self.check_problem(answer, 413, "PROBLEM_TOO_LARGE")
        self.assertEqual(service.call("GET", "/healthz", body=b"x" * 16384).status, 200)

    def test_nothing_is_changed_where_that_is_said(self):
        service = self.serve("--read-only")
        self.hold("x")
        self.check_problem(service.call("DELETE", "/v1/locks/x?reason=why"), 403, "PROBLEM_FORBIDDEN",
                           "--read-only")
        self.assertEqual(len(service.get("/v1/locks/x").json["holders"]), 1)


class Limits(serving.Case):
    def ended(self, plain):
        """The service has closed this connection."""
        plain.settimeout(serving.PATIENCE)
        try:
            return plain.recv(65536) == b""
        except ConnectionResetError:
            return True

    def connect(self, service):
        plain = socket.create_connection((service.host, service.port), serving.PATIENCE)
        self.addCleanup(plain.close)
        return plain

    def test_who_sends_nothing_is_cut_off(self):
        service = self.serve("--timeout", "300ms")
        self.assertTrue(self.ended(self.connect(service)))

    def test_each_is_cut_off_whoever_came_and_left_before(self):
        service = self.serve("--timeout", "10s")
        older = self.connect(service)
        self.until(lambda: service.metric("holdfast_http_connections") == 2, "one")
        newer = self.connect(service)
        self.until(lambda: service.metric("holdfast_http_connections") == 3, "both")
        older.close()
        self.until(lambda: service.metric("holdfast_http_connections") == 2, "its end")
        self.assertTrue(self.ended(newer))

    def test_who_asks_again_in_time_is_served(self):
        """A client may be cut off a quarter of its time late, not early."""
        plain = self.connect(self.serve("--timeout", "12s"))
        for pause in (0, 4):
            time.sleep(pause)
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertRegex(plain.recv(65536), b"^HTTP/1.1 200 ")

    def test_who_sends_slowly_is_cut_off(self):
        """However often a byte comes."""
        service = self.serve("--timeout", "500ms")
        plain = self.connect(service)
        plain.settimeout(0.02)
        head = b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 5000
        for i in range(len(head)):
            try:
                plain.sendall(head[i:i + 1])
                if plain.recv(1) == b"":
                    return
            except socket.timeout:
                continue
            except ConnectionError:
                return
        self.fail("it was borne with")

    def test_who_reads_slowly_is_cut_off(self):
        """Answers that nobody reads fill the buffers, then the connection ends."""
        service = self.serve("--timeout", "500ms")
        plain = socket.socket()
        self.addCleanup(plain.close)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect((service.host, service.port))
        plain.settimeout(0.2)
        ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
        try:
            for _ in range(1000):
                try:
                    plain.send(ask)
                except socket.timeout:
                    pass  # it reads no more of us either
        except ConnectionError:
            return
        self.fail("it was borne with")

    def test_who_waits_for_us_is_not(self):
        """A request that takes longer than a client may."""
        service = self.serve("--insecure-serve-anybody", "--timeout", "3s")  # our own request may be slow, too
        holder = self.hold("--ttl", "8s", "x")
        holder.signal(19)  # SIGSTOP: it is waited for until its lease has ended
        self.assertEqual(service.call("DELETE", "/v1/locks/x?reason=stuck").status, 200)

    def test_idle_connections_make_room(self):
        """First those that send no whole head, the longest first; then those that are kept alive."""
        service = self.serve("--max-connections", "3")
        kept = service.connect()
        self.addCleanup(kept.close)
        kept.request("GET", "/healthz")
        self.assertEqual(kept.getresponse().read(), b"alive\n")
        slow = [self.connect(service) for _ in range(2)]
        for plain in slow:
            plain.sendall(b"GET /healthz HTTP/1.1\r\n")
        others = []
        for longest in (*slow, kept.sock):
            others.append(self.connect(service))
            others[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b"alive", others[-1].recv(65536))
            self.assertTrue(self.ended(longest))
        self.assertGreaterEqual(service.metric("holdfast_http_connections_cut_total"), 3)

    def test_the_first_byte_has_two_seconds(self):
        service = self.serve("--timeout", "30s")
        begun = self.connect(service)
        begun.sendall(b"GET /healthz HTTP/1.1\r\n")
        start = time.monotonic()
        self.assertTrue(self.ended(self.connect(service)))
        self.assertTrue(1.9 < time.monotonic() - start < 20)
        begun.sendall(b"Host: localhost\r\n\r\n")
        self.assertIn(b"alive", begun.recv(65536))

    def test_more_than_files_may_be_open_at_first(self):
        words = "ulimit -Sn 64; exec \"$@\""
        running = self.start_with(["sh", "-c", words, "sh", serving.cli.BIN, "serve", "--listen",
                                   "127.0.0.1:0"])
        service = serving.Service(running)
        kept = [self.connect(service) for _ in range(100)]
        for plain in kept:
            plain.sendall(b"GET")  # else they are cut off before long
        self.assertEqual(service.get("/readyz").status, 200)
        self.assertGreater(service.metric("holdfast_http_connections"), len(kept) - 1)

    def start_with(self, words):
        process = subprocess.Popen(words, env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running = serving.cli.Running(process)
        self.addCleanup(self.stop, running)
        return running


class Silence(serving.Case):
    """Who opens many connections and keeps the service waiting delays nobody's renewal for long."""

    TTL_S = 10
    N = 60
    RENEWALS = 20

    def keep_silent(self, service, how):
        """Another user of this machine, as far as we may become one."""
        other = {"user": "nobody", "extra_groups": []} if os.getuid() == 0 else {}
        with open(os.path.join(serving.HERE, "silence.py")) as script:
            process = subprocess.Popen([sys.executable, "-", how, str(self.N), str(service.port)], stdin=script,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, **other)
        running = serving.cli.Running(process)
        self.addCleanup(self.stop, running)
        running.out.expect("all are open\n")
        return running

    def renew(self, service, lease):
        """How long it took. Each has a connection of its own."""
        start = time.monotonic()
        try:
            answer = service.call("PUT", "/v1/leases/" + lease)
        except OSError as error:
            self.fail("cut off after %.3f s: %s" % (time.monotonic() - start, error))
        self.assertEqual(answer.status, 200, answer.text)
        return time.monotonic() - start

    def check_renewals(self, how):
        service = self.serve("--max-connections", "20")
        lease = service.acquire("x", ttl_ms=self.TTL_S * 1000).json["lease"]
        silent = self.keep_silent(service, how)
        for _ in range(self.RENEWALS):
            self.assertLess(self.renew(service, lease), self.TTL_S / 2)
        self.assertGreater(service.metric("holdfast_http_connections_cut_total"), self.N / 2)
        self.assertIsNone(silent.process.poll())

    def test_who_sends_nothing(self):
        self.check_renewals("silent")

    def test_who_sends_half_a_head(self):
        self.check_renewals("half")

    def test_who_sends_no_body(self):
        self.check_renewals("body")

    def test_who_keeps_its_connections(self):
        self.check_renewals("kept")

    def test_who_reads_no_answers(self):
        self.check_renewals("deaf")


class Crowds(serving.Case):
    """However many wait or follow, renewals, releases, reads and /healthz find a place."""

    def ask_from(self, service, host, method, path, body=None):
        connection = http.client.HTTPConnection(service.host, service.port, serving.PATIENCE, (host, 0))
        self.addCleanup(connection.close)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection

    def wait_from(self, service, host):
        return self.ask_from(service, host, "POST", "/v1/locks/x", json.dumps({"wait_ms": 600000}))

    def refused(self, connection, status, code, said):
        answer = serving.Answer(connection.getresponse())
        self.check_problem(answer, status, code, said)
        self.assertEqual((answer.headers["Connection"], answer.headers["Retry-After"]), ("close", "5"))
        serving.check_described("POST", "/v1/locks/x", answer)

    def check_served(self, service, lease):
        self.assertEqual(service.get("/healthz").status, 200)
        self.assertEqual(service.get("/v1/locks/x").json["waiting_here"], 12)
        self.assertEqual(service.call("PUT", "/v1/leases/" + lease).status, 200)

    def test_two_clients_that_wait(self):
        service = self.serve("--max-connections", "16", "--max-waits", "8")
        lease = service.acquire("x", ttl_ms=600000).json["lease"]
        waiting = [self.wait_from(service, "127.0.0.1") for _ in range(8)]
        self.until(lambda: service.metric("holdfast_waits_open") == 8, "the first")
        self.refused(self.wait_from(service, "127.0.0.1"), 429, "PROBLEM_TOO_MANY", "8 requests of yours")
        waiting += [self.wait_from(service, "127.0.0.2") for _ in range(4)]
        self.until(lambda: service.metric("holdfast_waits_open") == 12, "the second")
        self.refused(self.wait_from(service, "127.0.0.2"), 503, "PROBLEM_FULL", "12 requests")
        idle = [socket.create_connection((service.host, service.port)) for _ in range(30)]
        self.check_served(service, lease)
        for n, limit in ((1, "client"), (1, "all")):
            line = 'holdfast_http_refused_total{request="wait",limit="%s"}' % limit
            self.assertEqual(service.metric(line), n)
        self.assertEqual(service.call("DELETE", "/v1/leases/" + lease).status, 204)
        self.assertTrue(select.select([one.sock for one in waiting], [], [], serving.PATIENCE)[0])
        for plain in idle:
            plain.close()

    def test_those_who_follow(self):
        service = self.serve("--max-connections", "24", "--max-followers", "2")
        following = [self.ask_from(service, "127.0.0.1", "GET", "/v1/events") for _ in range(2)]
        self.assertEqual([one.getresponse().status for one in following], [200, 200])
        self.refused(self.ask_from(service, "127.0.0.1", "GET", "/v1/events"), 429, "PROBLEM_TOO_MANY",
                     "2 event streams of yours")
        other = self.ask_from(service, "127.0.0.2", "GET", "/v1/events")
        self.assertEqual(other.getresponse().status, 200)
        self.refused(self.ask_from(service, "127.0.0.2", "GET", "/v1/events"), 503, "PROBLEM_FULL",
                     "3 clients follow")
        self.assertEqual(service.metric("holdfast_followers_open"), 3)
        self.assertEqual(service.get("/v1/locks").status, 200)

    def test_where_few_files_may_be_open(self):
        """Of 64 descriptors, half are for connections, and three quarters of these for waits."""
        running = self.start("serve", "--listen", "127.0.0.1:0", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (64, 64)))
        service = serving.Service(running)
        running.err.expect("--max-connections is 2000, but 32 are served: .* 64 files")
        lease = service.acquire("x", ttl_ms=600000).json["lease"]
        for _ in range(24):
            self.wait_from(service, "127.0.0.1")
        self.until(lambda: service.metric("holdfast_waits_open") == 24, "all that may")
        for _ in range(20):
            self.refused(self.wait_from(service, "127.0.0.1"), 503, "PROBLEM_FULL", "24 requests")
        self.assertEqual(service.call("PUT", "/v1/leases/" + lease).status, 200)
        self.assertEqual(service.call("DELETE", "/v1/leases/" + lease).status, 204)


class Ending(serving.Case):
    def test_by_each_signal(self):
        for number in (2, 15, 1):
            service = self.serve()
            kept = service.connect()
            kept.request("GET", "/healthz")
            kept.getresponse().read()
            service.running.signal(number)
            self.assertEqual(service.running.status(), 0)
            kept.close()
            with self.assertRaises(ConnectionError):
                service.get("/healthz")

    def test_without_its_module(self):
        """Told, not crashed; other verbs do without."""
        command = shutil.copy(serving.cli.BIN, self.folder)
        result = subprocess.run([command, "serve"], env=self.env, capture_output=True, text=True)
        self.assertEqual(result.returncode, 69)
        self.assertRegex(result.stderr, "holdfast-httpd.so: No such file.*part for HTTP is missing")
        needed = subprocess.run(["ldd", command], stdout=subprocess.PIPE, check=True).stdout
        self.assertNotIn(b"microhttpd", needed)


if __name__ == "__main__":
    serving.main()
