#!/usr/bin/python3
"""What the service says of locks and sessions, breaking, health, metrics; also run on a set, with each
protocol."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import socket
import time
import urllib.parse

import serving
from serving import CAN, PROTOCOL, needs

NAMES = ["a/b", "a b%?", "\u00e4", "<i>&amp;", ".."]


class Locks(serving.Case):
    def test_none(self):
        service = self.serve()
        self.assertEqual(service.get("/v1/locks").json, {"locks": [], "next": None})
        self.assertEqual(service.get("/v1/sessions").json, {"sessions": [], "next": None})

    def test_as_the_command_lists_them(self):
        service = self.serve()
        self.hold("--why", "first", "x")
        reasons = ["first" if "why" in CAN else ""]
        if "queue" in CAN:
            self.wait("--why", "second", "x")
            reasons.append("second")

        def without_time(locks):
            return [dict(lock, holders=[dict(e, lease_left_ms=0) for e in lock["holders"]],
                         queue=[dict(e, lease_left_ms=0) for e in lock["queue"]]) for lock in locks]
        listed = [dict(lock, waiting_here=0) for lock in without_time(self.json("list", "--json"))]
        self.assertEqual(without_time(service.get("/v1/locks").json["locks"]), listed)
        self.assertEqual(without_time([service.get("/v1/locks/x").json]), listed)
        self.assertEqual([e["why"] for e in listed[0]["holders"] + listed[0]["queue"]], reasons)

    def test_every_name_has_a_path(self):
        service = self.serve()
        for name in NAMES:
            self.check(0, "run", name, "--", "true")
            for safe in ("/", ""):
                path = "/v1/locks/" + urllib.parse.quote(name, safe=safe)
                self.assertEqual(service.get(path).json["name"], name)

    def test_a_name_that_clients_take_out_of_a_path(self):
        service = self.serve("--insecure-serve-anybody")
        for name in (".", ".."):
            behind = "/?name=" + name
            lease = service.call("POST", "/v1/locks" + behind, body="{}",
                                 headers={"Content-Type": "application/json"})
            self.assertEqual(lease.status, 201, lease.text)
            self.assertEqual(service.get("/v1/locks" + behind).json["name"], name)
            self.assertEqual([link["name"] for link in service.get("/v1/why" + behind).json["links"]], [name])
            service.call("DELETE", "/v1/leases/" + urllib.parse.quote(lease.json["lease"]))
            [turn] = self.until(lambda: service.get("/v1/history" + behind).json["turns"], "its turn")
            self.assertEqual(turn["name"], name)
        if "queue" in CAN:
            self.hold("--ttl", "6s", "..")
            answer = service.call("DELETE", "/v1/locks/?name=..&reason=stuck")
            self.assertEqual((answer.status, answer.json["name"]), (200, ".."))

    def test_one_that_is_not_there(self):
        self.check_problem(self.serve().get("/v1/locks/nix"), 404, "HF_NOT_FOUND", "nix")

    def test_in_parts(self):
        service = self.serve()
        names = ["job/%d" % i for i in range(5)]
        for name in names + ["other"]:
            self.check(0, "run", name, "--", "true")
        got, cursor = [], ""
        while cursor is not None:
            part = service.get("/v1/locks?prefix=job%2F&limit=2&cursor=" + cursor).json
            got.append([lock["name"] for lock in part["locks"]])
            cursor = part["next"]
        self.assertEqual(got, [names[:2], names[2:4], names[4:]])
        self.assertEqual(len(service.get("/v1/locks").json["locks"]), 6)
        self.hold("other")
        used = service.get("/v1/locks?in_use=1").json["locks"]
        self.assertEqual([lock["name"] for lock in used], ["other"])


class Why(serving.Case):
    @needs("queue")
    def test_the_chain_to_the_root(self):
        service = self.serve()
        self.hold("--why", "restore", "y")
        self.wait("--ttl", "6s", "--why", "migration", "a/x", "y")
        links = self.until(lambda: self.links_of(service, "a/x", 2), "the report of the wait")
        self.assertEqual([(e["name"], e["depth"], e["waits_for"], e["next"]) for e in links],
                         [("a/x", 0, "y", "follows"), ("y", 1, None, "root")])
        self.assertEqual([e["holder"]["why"] for e in links], ["migration", "restore"])

        def without_time(why):
            return [dict(e, holder=dict(e["holder"], lease_left_ms=0)) for e in why["links"]]
        self.assertEqual(without_time(service.get("/v1/why/a%2Fx").json),
                         without_time(self.json("why", "--json", "a/x")))

    @staticmethod
    def links_of(service, name, n):
        links = service.get("/v1/why/%s" % name).json["links"]
        return links if len(links) == n else None

    def test_free_or_not_there(self):
        service = self.serve()
        self.check_problem(service.get("/v1/why/nix"), 404, "HF_NOT_FOUND", "nix")
        holder = self.hold("x")
        [link] = service.get("/v1/why/x").json["links"]
        self.assertIn(link["next"], ("root", "unknown"))
        holder.close_input()
        self.assertEqual(holder.status(), 0)
        if "queue" in CAN:  # where there is a record of it, whoever holds it
            self.assertEqual(service.get("/v1/why/x").json, {"name": "x", "links": []})

    def test_for_who_may_read(self):
        token = "read-token-aaaaaaaaaa"
        service = self.serve("--token-file", self.write("tokens", "read %s\n" % token))
        self.assertEqual(service.get("/v1/why/nix").status, 401)
        self.assertEqual(service.get("/v1/why/nix", token).status, 404)


class History(serving.Case):
    @needs("names", "why")
    def test_as_the_command_shows_it(self):
        service = self.serve()
        self.check(3, "run", "--why", "nightly", "a/x", "--", "sh", "-c", "exit 3")
        self.check(0, "run", "y", "--", "true")
        turns = service.get("/v1/history/a%2Fx").json["turns"]
        self.assertEqual(turns, self.json("history", "a/x", "--json")["turns"])
        self.assertEqual([(turn["why"], turn["end"], turn["exit_status"]) for turn in turns],
                         [("nightly", "released", 3)])
        self.assertEqual([turn["name"] for turn in service.get("/v1/history").json["turns"]], ["y", "a/x"])
        self.assertEqual([turn["name"] for turn in service.get("/v1/history?limit=1").json["turns"]], ["y"])
        later = "/v1/history?since_ms=%d" % (1000 * (time.time() + 3600))
        self.assertEqual(service.get(later).json, {"turns": [], "missing": []})
        self.assertEqual(service.get("/v1/history/nobody").json, {"turns": [], "missing": []})

    def test_a_lease_of_the_service(self):
        service = self.serve()
        lease = service.acquire("x", why="release 41", owner="shop").json
        service.call("DELETE", "/v1/leases/" + urllib.parse.quote(lease["lease"]))
        [turn] = self.until(lambda: service.get("/v1/history/x").json["turns"], "its turn")
        self.assertEqual((turn["token"], turn["end"]), (lease.get("token", 0), "released"))
        if "why" in CAN:
            self.assertEqual(turn["why"], "release 41")
        self.assertRegex(turn["who"], "^shop@")

    def test_what_cannot_be(self):
        service = self.serve()
        for path in "/v1/history?limit=0", "/v1/history?limit=1001", "/v1/history/x?since_ms=yesterday":
            self.check_problem(service.get(path), 400, "HF_INVALID", "is no number from")

    def test_for_who_may_read(self):
        token = "read-token-aaaaaaaaaa"
        service = self.serve("--token-file", self.write("tokens", "read %s\n" % token))
        self.assertEqual(service.get("/v1/history").status, 401)
        self.assertEqual(service.get("/v1/history/x", token).status, 200)


class Sessions(serving.Case):
    @needs("who")
    def test_who_is_there(self):
        service = self.serve()
        holders = [self.hold(name) for name in "xyz"]
        ended = self.hold("w")
        ended.close_input()
        self.assertEqual(ended.status(), 0)
        # an end waits for no majority, and a listing shows what a majority has
        self.until(lambda: {s["pid"] for s in service.get("/v1/sessions").json["sessions"]} ==
                   {h.pid for h in holders}, "that the holders are there, and nobody else")
        if "queue" in CAN:
            every = service.get("/v1/sessions?all=1").json["sessions"]
            self.assertEqual([s["dead"] for s in every if s["pid"] == ended.pid], [True])
        first = service.get("/v1/sessions?limit=2").json
        rest = service.get("/v1/sessions?limit=2&cursor=" + first["next"]).json
        self.assertEqual(first["sessions"][:2] + rest["sessions"],
                         sorted(first["sessions"] + rest["sessions"], key=lambda s: s["session"]))
        self.assertEqual((len(first["sessions"]), len(rest["sessions"]), rest["next"]), (2, 1, None))


class Break(serving.Case):
    if "queue" not in CAN:
        def test_a_holder_that_cannot_be_asked_is_left_alone(self):
            service = self.serve("--insecure-serve-anybody")
            self.hold("x")
            answer = service.call("DELETE", "/v1/locks/x?reason=stuck")
            self.check_problem(answer, 501, "HF_UNSUPPORTED", "cannot ask a holder to leave")
            self.assertEqual(len(service.get("/v1/locks/x").json["holders"]), 1)

    @needs("queue")
    def test_taken_and_the_holder_told(self):
        service = self.serve("--insecure-serve-anybody")
        holder = self.hold("--ttl", "6s", "x")
        token = service.get("/v1/locks/x").json["token"]
        answer = service.call("DELETE", "/v1/locks/x?if_token=%d&reason=host+is%%20gone" % token)
        self.assertEqual((answer.status, answer.json["name"]), (200, "x"))
        self.assertEqual([e["token"] for e in answer.json["asked"]], [token])
        self.assertEqual(holder.status(), 76)
        self.assertRegex(holder.err.rest(), "host is gone")
        self.assertEqual(service.get("/v1/locks/x").json["holders"], [])

    def test_not_with_another_token(self):
        service = self.serve("--insecure-serve-anybody")
        self.hold("x")
        answer = service.call("DELETE", "/v1/locks/x?if_token=7&reason=why")
        self.check_problem(answer, 404, "HF_NOT_FOUND")
        service.running.err.expect(r'holdfast: 127\.0\.0\.1 could not break "x": .* \(reason: why\)\n')
        self.assertEqual(len(service.get("/v1/locks/x").json["holders"]), 1)

    def test_not_where_there_is_no_lock(self):
        service = self.serve("--insecure-serve-anybody")
        answer = service.call("DELETE", "/v1/locks/nix?reason=why")
        self.check_problem(answer, 404, "HF_NOT_FOUND", "nix")
        service.running.err.expect(r'holdfast: 127\.0\.0\.1 could not break "nix": .*nix.* \(reason: why\)\n')

    def test_not_without_a_reason(self):
        service = self.serve("--insecure-serve-anybody")
        for query in ("", "?reason=", "?if_token=5"):
            self.check_problem(service.call("DELETE", "/v1/locks/x" + query), 400, "HF_INVALID",
                               "say why")

    @needs("queue")
    def test_reading_goes_on_beside_many_breaks(self):
        """Breaks that wait for a holder who does not answer keep no reader out."""
        service = self.serve("--insecure-serve-anybody")
        holder = self.hold("x")
        holder.signal(19)  # SIGSTOP
        waiting = []
        for _ in range(12):
            connection = service.connect()
            self.addCleanup(connection.close)
            connection.request("DELETE", "/v1/locks/x?reason=stuck")
            waiting.append(connection)
        self.until(lambda: service.metric("holdfast_http_requests_open") > 12, "12 breaks")
        self.assertEqual(len(service.get("/v1/locks").json["locks"]), 1)
        service.running.signal(15)
        for connection in waiting:
            answer = serving.Answer(connection.getresponse())
            self.assertIn(answer.status, (499, 503), answer.text)
        self.assertEqual(service.running.status(), 0)


class Health(serving.Case):
    def test_alive_and_ready(self):
        service = self.serve()
        for path in ("/healthz", "/readyz"):
            self.assertEqual(service.get(path).status, 200)

    def test_not_ready_without_a_store(self):
        self.env["HOLDFAST_STORE"] = "mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=100"
        service = self.serve()
        self.assertEqual(service.get("/healthz").status, 200)
        answer = service.get("/readyz")
        self.check_problem(answer, 503, "HF_UNREACHABLE")
        self.assertTrue(answer.json["retryable"])
        self.assertEqual(answer.headers["Retry-After"], "1")
        self.assertEqual(service.metric('holdfast_errors_total{code="HF_UNREACHABLE"}'), 1)

    def test_every_call_says_that_the_store_is_away(self):
        self.env["HOLDFAST_STORE"] = "mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=100"
        service = self.serve("--insecure-serve-anybody")
        lease = "/v1/leases/%s-x" % ("0" * 32)
        for method, path in (("GET", "/v1/locks"), ("GET", "/v1/locks/x"),
                             ("GET", "/v1/why/x"), ("GET", "/v1/history"), ("GET", "/v1/history/x"),
                             ("GET", "/v1/sessions"), ("POST", "/v1/locks/x"),
                             ("PUT", lease), ("DELETE", lease),
                             ("DELETE", "/v1/locks/x?reason=why"), ("GET", "/readyz")):
            answer = service.call(method, path, None, "{}" if method == "POST" else None,
                                  {"Content-Type": "application/json"})
            self.check_problem(answer, 503, "HF_UNREACHABLE", "127.0.0.1:1")
            self.assertEqual((answer.json["retryable"], answer.headers["Retry-After"]), (True, "1"))
        self.assertEqual(service.metric('holdfast_errors_total{code="HF_UNREACHABLE"}'), 11)

    def test_not_ready_when_the_file_was_removed(self):
        folder = self.path("removed")
        os.mkdir(folder)
        self.env["HOLDFAST_STORE"] = "sqlite:%s/locks.db" % folder
        service = self.serve()
        self.assertEqual(service.get("/readyz").status, 200)
        shutil.rmtree(folder)
        self.check_problem(service.get("/readyz"), 502, "HF_UNUSABLE", "was removed")
        self.check_problem(service.get("/v1/locks"), 502, "HF_UNUSABLE", "was removed")

    def test_why_it_is_not_ready_is_said_to_whom_shows_a_token(self):
        self.env["HOLDFAST_STORE"] = "mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=100"
        token = "read-token-aaaaaaaaaa"
        service = self.serve("--token-file", self.write("tokens", "read %s\n" % token))
        self.check_problem(service.get("/readyz", token), 503, "HF_UNREACHABLE", "127.0.0.1:1")
        self.check_problem(service.get("/readyz"), 503, "HF_UNREACHABLE", "^(?!.*127)")

    def test_what_is_counted(self):
        service = self.serve()
        for _ in range(3):
            service.get("/v1/locks")
        service.get("/v1/locks/nix")
        path = 'method="GET",path="/v1/locks"'
        self.assertEqual(service.metric('holdfast_http_requests_total{%s,status="200"}' % path), 3)
        self.assertEqual(service.metric("holdfast_http_request_seconds_count{%s}" % path), 3)
        self.assertEqual(
            service.metric('holdfast_http_request_seconds_bucket{%s,le="+Inf"}' % path), 3)
        self.assertGreater(service.metric("holdfast_http_request_seconds_sum{%s}" % path), 0)
        self.assertEqual(service.metric('holdfast_errors_total{code="HF_NOT_FOUND"}'), 1)

    def test_all_locks_are_counted(self):
        service = self.serve()
        self.assertEqual(service.metric("holdfast_locks_held"), 0)  # which begins the counting
        self.hold("x")
        self.start("run", "-w", "10m", "x", "--", "true")
        self.assertEqual(service.acquire("y", ttl_ms=1000).status, 201)
        self.await_metrics(service, held=2, waiting=int("queue" in CAN), overdue=int("ttl" in CAN))
        self.assertEqual(service.metric("holdfast_store_up"), 1)
        self.assertGreater(service.metric("holdfast_oldest_hold_seconds"), 0)
        if "queue" in CAN:
            self.assertGreater(service.metric("holdfast_longest_wait_seconds"), 0)

    def await_metrics(self, service, **expected):
        """The counts come with a look, of which there is one each 10 s."""
        deadline = time.monotonic() + serving.PATIENCE
        seen = {}
        while seen != expected:
            self.assertLess(time.monotonic(), deadline, seen)
            time.sleep(0.2)
            seen = {name: service.metric("holdfast_locks_" + name) for name in expected}

    def test_round_trips_are_those_of_a_network(self):
        service = self.serve()
        before = service.metric("holdfast_store_round_trips_total")
        for _ in range(3):
            service.get("/v1/locks/x")
        self.assertRegex(service.get("/metrics").text, "\nholdfast_store_round_trips_total [0-9]+\n")
        made = service.metric("holdfast_store_round_trips_total") - before
        if self.store.startswith("mongodb"):
            self.assertGreaterEqual(made, 3)
        else:
            self.assertEqual(made, 0)


class WhichService(serving.Case):
    def test_its_host_and_its_store(self):
        service = self.serve()
        told = service.get("/v1/service").json
        self.assertEqual((told["store"], told["host"], told["url"], told["protocol"]),
                         (self.store, socket.gethostname(), service.url, PROTOCOL))

    def test_a_store_by_its_name_and_no_password(self):
        uri = "mongodb://me:secret@127.0.0.1:1/x?serverSelectionTimeoutMS=100"
        self.env["HOLDFAST_CONFIG"] = self.write("config", "[stores]\nprod = %s\n" % uri)
        self.env["HOLDFAST_STORE"] = "prod"
        self.assertEqual(self.serve().get("/v1/service").json["store"],
                         "prod (%s)" % uri.replace("secret", "***"))

    def test_this_users_own_file(self):
        del self.env["HOLDFAST_STORE"]
        self.env["XDG_STATE_HOME"] = self.folder
        self.assertEqual(self.serve().get("/v1/service").json["store"],
                         "sqlite:%s/holdfast/locks.db (this user's own file)" % self.folder)

    def test_for_who_may_read(self):
        token = "read-token-aaaaaaaaaa"
        service = self.serve("--token-file", self.write("tokens", "read %s\n" % token))
        self.assertEqual(service.get("/v1/service").status, 401)
        self.assertEqual(service.get("/v1/service", token).json["store"], self.store)


class Heads(serving.Case):
    def test_who_asks_for_the_head_gets_no_body(self):
        service = self.serve()
        for path in ("/healthz", "/v1/locks", "/openapi.json", "/"):
            whole = service.get(path)
            connection = service.connect()
            self.addCleanup(connection.close)
            connection.request("HEAD", path)
            head = serving.Answer(connection.getresponse())
            self.assertEqual((head.status, head.text), (200, ""))
            for name in ("Content-Type", "Content-Length"):
                self.assertEqual(head.headers[name], whole.headers[name])

    def test_what_every_answer_has(self):
        service = self.serve()
        for path in ("/healthz", "/v1/locks", "/openapi.json", "/", "/nix"):
            headers = service.get(path).headers
            self.assertEqual((headers["X-Content-Type-Options"], headers["Cache-Control"]),
                             ("nosniff", "no-store"))
            self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
        for path in ("/openapi.json", "/", "/page.css"):
            headers = service.get(path).headers
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")

    def test_what_is_logged(self):
        running = self.start("-v", "-v", "serve", "--listen", "127.0.0.1:0")
        service = serving.Service(running)
        service.get("/v1/locks/nix")
        running.err.expect(r"holdfast: GET /v1/locks/{name}: 404, \d+\.\d ms\n")
        service.get("/nix")
        running.err.expect(r"holdfast: \? \?: 404, \d+\.\d ms\n")
        running.signal(15)
        running.err.expect("holdfast: signal 15: answering the open requests, then ending\n")


class Description(serving.Case):
    def test_as_it_is_in_the_tree(self):
        self.assertEqual(self.serve().get("/openapi.json").json, serving.OPENAPI)

    def test_has_just_the_calls_that_there_are(self):
        service = self.serve()
        for path, item in serving.OPENAPI["paths"].items():
            allowed = service.call("BREW", serving.path_of(path)).headers["Allow"]
            self.assertEqual(set(allowed.lower().split(", ")),
                             set(item) & {"get", "put", "post", "delete"})
        counted = service.get("/metrics").text
        for path in serving.re.findall(r'requests?_seconds_count{method="\w+",path="([^"]+)"', counted):
            self.assertIn(path, serving.OPENAPI["paths"])

    @staticmethod
    def resolved(parameter):
        name = parameter.get("$ref", "").rpartition("/")[2]
        return serving.OPENAPI["components"]["parameters"][name] if name else parameter

    def test_parameters_are_those_described(self):
        service = self.serve("--insecure-serve-anybody")
        for path, item in serving.OPENAPI["paths"].items():
            for method in set(item) & {"get", "post", "put", "delete"}:
                answer = service.call(method.upper(), serving.path_of(path) + "?nix=1",
                                      headers={"Content-Type": "application/json"})
                listed = item.get("parameters", []) + item[method].get("parameters", [])
                known = [p["name"] for p in map(self.resolved, listed) if p["in"] == "query"]
                self.check_problem(answer, 400, "HF_INVALID", "no parameter nix")
                told = answer.json["detail"].partition("there are: ")[2]
                self.assertEqual(set(told.split()), set(known) or {"none"}, (path, method))


if __name__ == "__main__":
    serving.main()
