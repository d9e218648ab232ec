#!/usr/bin/python3
"""Taking, renewing and releasing locks over HTTP, at one replica or several; also run on a set, with
each protocol."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import socket
import threading
import time
import urllib.parse

import serving
from serving import CAN, needs
from idle import boot_ns, idle_seconds

TTL = 10000


class Leases(serving.Case):
    def lease(self, service, name, **asked):
        answer = service.acquire(name, **asked)
        self.assertEqual(answer.status, 201, answer.text)
        return answer.json

    def renew(self, service, lease):
        return service.call("PUT", "/v1/leases/" + urllib.parse.quote(lease["lease"]))

    def release(self, service, lease):
        return service.call("DELETE", "/v1/leases/" + urllib.parse.quote(lease["lease"]))

    def answer(self, connection):
        return serving.Answer(connection.getresponse())

    def waiting(self, service, n):
        self.until(lambda: service.metric("holdfast_waits_open") == n, "%d to wait" % n)

    def queued(self, service, name, n):
        self.until(lambda: len(service.get("/v1/locks/" + name).json["queue"]) == n,
                   "%d in the queue" % n)

    def is_free(self, service, name):
        answer = service.get("/v1/locks/" + name)
        return answer.status == 404 or not (answer.json["holders"] + answer.json["queue"])

    # The cases

    def check_holder(self, holder, lease):
        self.assertEqual(holder["why"], "release 41" if "why" in CAN else "")
        self.assertEqual(holder["token"], lease["token"] if "tokens" in CAN else 0)
        if "who" in CAN:
            self.assertRegex(holder["who"], "shop@")

    def test_had_renewed_and_released(self):
        service = self.serve()
        name = "\u00fc/b c"
        path = urllib.parse.quote(name)
        lease = self.lease(service, path, why="release 41", owner="shop", ttl_ms=TTL)
        self.assertEqual("token" in lease, "tokens" in CAN)
        self.assertTrue(0 < lease["expires_in_ms"] <= lease["ttl_ms"])
        self.assertEqual(lease["previous"]["outcome"], "none")
        if "ttl" in CAN:
            self.assertEqual(lease["ttl_ms"], TTL)
        [holder] = service.get("/v1/locks/" + path).json["holders"]
        self.check_holder(holder, lease)
        self.assertNotIn(lease["lease"][:32], service.get("/v1/locks").text +
                         service.get("/v1/sessions?all=1").text)
        time.sleep(0.3)  # so that a renewal can be told
        began = boot_ns()
        renewed = self.renew(service, lease)
        took_ms = (boot_ns() - began) / 1e6
        self.assertEqual((renewed.status, renewed.json.get("token")), (200, lease.get("token")))
        self.assertGreater(renewed.json["expires_in_ms"] + took_ms, lease["ttl_ms"] * 0.99 - 100)
        self.assertEqual(self.release(service, lease).status, 204)
        self.assertEqual(self.release(service, lease).status, 204 if "history" in CAN else 410)
        self.assertTrue(self.is_free(service, path))
        answer = self.renew(service, lease)
        self.check_problem(answer, 410, "HF_LOST")
        self.assertFalse(answer.json["retryable"])
        self.assertEqual(service.metric("holdfast_hold_seconds_count{}"), 1)
        self.assertGreater(service.metric("holdfast_hold_seconds_sum{}"), 0.3)
        self.assertEqual(service.metric("holdfast_renew_margin_seconds_count{}"), 1)
        again = self.lease(service, path)
        if "tokens" in CAN:
            self.assertGreater(again["token"], lease["token"])
        self.assertEqual(again["previous"]["outcome"], "released" if "history" in CAN else "none")

    @needs("queue", "share")
    def test_repeats_that_wait_at_two_replicas_have_one_lease(self):
        services = self.serve(), self.serve()
        for mode in ("exclusive", "shared"):
            held = self.lease(services[0], mode)
            answers = []
            callers = [threading.Thread(target=lambda service=service: answers.append(
                service.acquire(mode, key="order", wait_ms=60000, mode=mode)))
                for service in services]
            for caller in callers:
                caller.start()
            self.queued(services[0], mode, 2)
            self.release(services[1], held)
            for caller in callers:
                caller.join()
            self.assertEqual([a.status for a in answers], [201, 201], [a.text for a in answers])
            first, second = (a.json for a in answers)
            self.assertEqual((first["lease"], first["token"]), (second["lease"], second["token"]))
            self.until(lambda: len(services[0].get("/v1/locks/" + mode).json["holders"]) == 1,
                       "one holder")
            self.assertEqual(self.release(services[1], second).status, 204)
            self.until(lambda: self.is_free(services[0], mode), "it to be free")
            self.check_problem(services[1].acquire(mode, key="order", mode=mode), 410, "HF_LOST")

    @needs("share")
    def test_a_key_is_for_one_request(self):
        service = self.serve()
        made = {"ttl_ms": 60000, "why": "w", "mode": "shared", "owner": "shop"}
        answer = service.acquire("x", key="order", **made)
        self.assertEqual(answer.status, 201, answer.text)
        repeated = service.acquire("x", key="order", mode="shared")  # what is left out is not compared
        self.assertEqual((repeated.status, repeated.json["lease"]), (201, answer.json["lease"]))
        for other in ({"ttl_ms": 61000}, {"why": "v"}, {"mode": "exclusive"}, {"owner": "bakery"}):
            answer = service.acquire("x", key="order", **{**made, **other})
            self.check_problem(answer, 422, "HF_KEY_REUSED", "another key")

    def test_an_id_with_another_name_ends_nothing(self):
        service = self.serve()
        lease = self.lease(service, "x")
        other = {"lease": lease["lease"] + "y"}
        self.check_problem(self.renew(service, other), 410, "HF_LOST")
        self.assertEqual(self.release(service, other).status, 204 if "history" in CAN else 410)
        self.assertEqual(self.renew(service, lease).status, 200)

    def test_not_free(self):
        service = self.serve()
        lease = self.lease(service, "x", owner="shop", why="release 41")
        for wait_ms, code in ((0, "HF_HELD"), (100, "HF_TIMEOUT")):
            answer = service.acquire("x", wait_ms=wait_ms)
            self.check_problem(answer, 409, code)
            [holder] = answer.json["holders"]
            self.check_holder(holder, lease)
            self.assertTrue(answer.json["retryable"])
        self.assertEqual(service.get("/v1/locks/x").json["queue"], [])
        self.assertEqual(service.metric('holdfast_wait_seconds_count{outcome="refused"}'), 2)
        self.assertEqual(service.metric('holdfast_wait_seconds_count{outcome="granted"}'), 1)

    def test_not_free_while_another_one_waits(self):
        """Those behind it have not seen the holder themselves."""
        service = self.serve()
        lease = self.lease(service, "x", owner="shop")
        waiting = threading.Thread(target=service.acquire, args=("x",), kwargs={"wait_ms": 60000})
        waiting.start()
        while not service.get("/v1/locks/x").json["waiting_here"]:
            time.sleep(0.01)
        for wait_ms in 0, 100:
            answer = service.acquire("x", wait_ms=wait_ms)
            self.assertIn("held by " + answer.json["holders"][0]["who"], answer.json["detail"])
        self.release(service, lease)
        waiting.join()

    @needs("ttl")
    def test_one_that_runs_out(self):
        service = self.serve()
        began = boot_ns()
        lease = self.lease(service, "x", ttl_ms=1000)
        next_one = self.lease(service, "x", wait_ms=20000)
        self.assertEqual(next_one["previous"]["outcome"],
                         "abandoned" if "history" in CAN else "none")
        self.assertGreaterEqual((boot_ns() - began) / 1e9, 1)
        self.check_problem(self.renew(service, lease), 410, "HF_LOST")

    @needs("queue")
    def test_those_in_line_watch_each_lease_from_its_beginning(self):
        service = self.serve()
        lease = self.lease(service, "x", ttl_ms=30000)
        waiters = [self.ask(service, "x", wait_ms=60000, ttl_ms=3000) for _ in range(2)]
        self.waiting(service, 2)
        self.assertEqual(self.release(service, lease).status, 204)
        self.waiting(service, 1)
        began = boot_ns()
        answers = [self.answer(waiter) for waiter in waiters]
        self.assertEqual([each.status for each in answers], [201, 201])
        self.assertLess(idle_seconds(began), 5.5)  # not 3 s each, one after the other

    @needs("queue")
    def test_in_turn_with_the_command(self):
        service = self.serve()
        holder = self.hold("x")
        first = self.ask(service, "x", wait_ms=20000)
        self.queued(service, "x", 1)
        command = self.wait("x")
        self.queued(service, "x", 2)
        holder.close_input()
        lease = self.answer(first)
        self.assertEqual(lease.status, 201, lease.text)
        self.assertEqual(self.release(service, lease.json).status, 204)
        self.assertEqual(command.status(), 0)

    @needs("share")
    def test_shared_and_semaphores(self):
        service = self.serve()
        for _ in range(2):
            self.lease(service, "read", mode="shared")
        self.assertEqual(service.acquire("read").status, 409)
        self.lease(service, "pool", permits=2, limit=3)
        self.assertEqual(service.acquire("pool", permits=2, limit=3).status, 409)
        self.lease(service, "pool", permits=1, limit=3)

    @needs("share")
    def test_a_limit_is_set_anew(self):
        service = self.serve()
        self.lease(service, "pool", permits=1, limit=1)
        self.check_problem(service.acquire("pool", set_limit=True), 400, "HF_INVALID", "limit of a semaphore")
        self.lease(service, "pool", permits=1, limit=2, set_limit=True)
        self.assertEqual(service.get("/v1/locks/pool").json["limit"], 2)

    if "share" not in CAN:
        def test_what_the_protocol_lacks_is_refused(self):
            service = self.serve()
            for asked in ({"mode": "shared"}, {"permits": 1, "limit": 2}):
                self.check_problem(service.acquire("x", **asked), 501, "HF_UNSUPPORTED",
                                   "hfProtocol=queue")

    def test_a_repeat_finds_what_the_first_made(self):
        services = [self.serve() for _ in range(2)]
        first = services[0].acquire("x", key="7f3a", ttl_ms=TTL).json
        for service in services + [self.serve()]:
            again = service.acquire("x", key="7f3a", ttl_ms=TTL)
            self.assertEqual((again.status, again.json["lease"], again.json.get("token")),
                             (201, first["lease"], first.get("token")))
        self.assertEqual(services[1].acquire("x", key="other").status, 409)
        self.assertEqual(services[1].acquire("y", key="7f3a").json["lease"][:32] == first["lease"][:32],
                         False)
        self.assertEqual(self.release(services[1], first).status, 204)
        if "history" in CAN:
            self.check_problem(services[0].acquire("x", key="7f3a"), 410, "HF_LOST")

    def test_a_key_is_the_callers_own(self):
        tokens = ["use-token-" + x * 10 for x in "ab"]
        file = self.write("tokens", "".join("use %s\n" % token for token in tokens))
        service = self.serve("--token-file", file)
        lease = service.acquire("x", tokens[0], "7f3a").json
        self.assertEqual(service.acquire("x", tokens[1], "7f3a").status, 409)
        self.assertEqual(service.acquire("x", tokens[0], "7f3a").json["lease"], lease["lease"])

    def test_a_crash_of_the_service_loses_nothing(self):
        first = self.serve()
        lease = self.lease(first, "x", ttl_ms=10000)
        first.running.signal(signal.SIGKILL)
        first.running.status()
        other = self.serve()
        self.assertEqual(self.renew(other, lease).json.get("token"), lease.get("token"))
        self.assertEqual(self.release(other, lease).status, 204)
        self.assertTrue(self.is_free(other, "x"))

    def test_who_hangs_up_leaves_the_queue(self):
        service = self.serve()
        lease = self.lease(service, "x", ttl_ms=30000)
        waiters = [self.ask(service, "x", wait_ms=60000) for _ in range(3)]
        self.waiting(service, 3)
        here = [each.get("/v1/locks/x").json["waiting_here"] for each in (service, self.serve())]
        self.assertEqual(here, [3, 0])
        waiters[0].close()
        waiters[1].sock.shutdown(socket.SHUT_RDWR)
        self.waiting(service, 1)
        self.assertEqual(self.release(service, lease).status, 204)
        kept = self.answer(waiters[2])
        self.assertEqual(kept.status, 201)
        self.waiting(service, 0)
        self.assertEqual(self.release(service, kept.json).status, 204)
        self.assertTrue(self.is_free(service, "x"))

    def test_the_end_of_the_service_answers_those_who_wait(self):
        service = self.serve()
        self.lease(service, "x", ttl_ms=30000)
        waiters = [self.ask(service, "x", wait_ms=60000) for _ in range(5)]
        self.waiting(service, 5)
        service.running.signal(signal.SIGTERM)
        for waiter in waiters:
            answer = self.answer(waiter)
            self.check_problem(answer, 503, "HF_CLOSED")
        self.assertEqual(service.running.status(), 0)
        self.assertEqual(self.serve().get("/v1/locks/x").json["queue"], [])

    @needs("share")
    def test_a_thousand_wait_without_a_thousand_threads(self):
        count = int(os.environ.get("HOLDFAST_TEST_WAITERS", "200"))
        service = self.serve()
        lease = self.lease(service, "x", ttl_ms=60000)
        waiters = [self.ask(service, "x", wait_ms=60000, mode="shared") for _ in range(count)]
        self.waiting(service, count)
        threads = len(os.listdir("/proc/%d/task" % service.running.pid))
        self.assertLess(threads, 60)
        self.assertEqual(self.release(service, lease).status, 204)
        for waiter in waiters:
            self.assertEqual(self.answer(waiter).status, 201)

    def test_so_many_of_one_client(self):
        service = self.serve("--max-waits", "2")
        self.lease(service, "x", ttl_ms=30000)
        for _ in range(2):
            self.ask(service, "x", wait_ms=60000)
        self.waiting(service, 2)
        answer = service.acquire("x", wait_ms=60000)
        self.check_problem(answer, 429, "PROBLEM_TOO_MANY", "2 requests")
        self.assertEqual((answer.json["retryable"], answer.headers["Retry-After"]), (True, "5"))
        self.check_problem(service.acquire("x"), 409, "HF_HELD")  # which does not wait

    def test_a_complaint_names_the_field(self):
        service = self.serve()
        kind = {"Content-Type": "application/json"}
        for body, said in (('{"wait_ms": "5"}', "^wait_ms is to be a whole number"),
                           ('{"why": 5}', "^why is to be a string"), ("[]", "no object"),
                           ('{"wait": 5}', "^there is no wait; there are mode, permits"),
                           ('{"set_limit": 1}', "^set_limit is to be true or false"),
                           ('{"ttl_ms": 0}', "ttl_ms is from 1000"),
                           ('{"permits": 9999999999999, "limit": 2}', "permits")):
            self.check_problem(service.call("POST", "/v1/locks/x", body=body, headers=kind), 400,
                               "HF_INVALID", said)

    @needs("who")
    def test_the_tokens_name_is_the_owner(self):
        token = "use-token-aaaaaaaaaa"
        service = self.serve("--token-file", self.write("tokens", "use %s shop\n" % token))
        service.acquire("x", token)
        service.acquire("y", token, owner="till")
        who = [service.get("/v1/locks/" + x, token).json["holders"][0]["who"] for x in "xy"]
        self.assertRegex(" ".join(who), r"\bshop@127\.0\.0\.1\b.* \S*\btill@127\.0\.0\.1\b")

    @needs("who")
    def test_the_clients_address_is_shown_and_not_the_services_host(self):
        service = self.serve()
        service.acquire("x")
        self.assertRegex(service.get("/v1/locks/x").json["holders"][0]["who"],
                         r"\bholdfast@127\.0\.0\.1\b")

    @needs("queue")
    def test_the_place_in_the_queue_has_the_callers_name(self):
        token = "use-token-aaaaaaaaaa"
        with_tokens = self.serve("--token-file", self.write("tokens", "use %s shop\n" % token))
        without = self.serve()
        for name, service, who in (("x", with_tokens, "shop"), ("y", without, r".*\bholdfast")):
            self.assertEqual(service.acquire(name, token, ttl_ms=30000).status, 201)
            self.ask(service, name, token, wait_ms=60000)
            [place] = self.until(lambda: without.get("/v1/locks/" + name).json["queue"], "its place")
            self.assertRegex(place["who"], r"^%s@127\.0\.0\.1$" % who)
            self.assertRegex(self.check(0, "show", name).out, r"waiting +1\. %s@127\.0\.0\.1, " % who)

    def test_what_is_asked_for_is_checked(self):
        service = self.serve()
        kind = {"Content-Type": "application/json"}
        for body in ("nonsense", "[]", '{"nix": 1}', '{"mode": "both"}', '{"wait_ms": -1}',
                     '{"wait_ms": 86400001}', '{"permits": 1}', '{"limit": 2}', '{"ttl_ms": 999}',
                     '{"permits": 3, "limit": 2}', '{"why": "%s"}' % ("x" * 257), '{"ttl_ms": "5"}',
                     '{"owner": "%s"}' % ("x" * 257), '{"why": "a\\u0000b"}', "[" * 10000):
            self.check_problem(service.call("POST", "/v1/locks/x", None, body, kind), 400,
                               "HF_INVALID")
        for key in ("", "x" * 257):
            answer = service.call("POST", "/v1/locks/x", None, "{}", dict(kind, **{"Idempotency-Key": key}))
            self.check_problem(answer, 400, "HF_INVALID", "1 to 256")
        for headers in ({}, {"Content-Type": "text/plain"}):
            self.check_problem(service.call("POST", "/v1/locks/x", None, "{}", headers), 415,
                               "PROBLEM_NOT_JSON")
        for method in ("PUT", "DELETE"):
            self.check_problem(service.call(method, "/v1/leases/nonsense"), 400, "HF_INVALID")
            unknown = "0" * 32 + "-x"
            self.assertIn(service.call(method, "/v1/leases/" + unknown).status, (410, 204))
        self.assertEqual(service.get("/v1/locks").json["locks"], [])

    def test_many_callers_lose_no_update(self):
        """Two replicas, eight callers, one counter that only the lock protects."""
        services, counter, failures = [self.serve() for _ in range(2)], [0], []

        def work(number):
            try:
                for _ in range(5):
                    lease = self.lease(services[number % 2], "x", wait_ms=30000)
                    seen = counter[0]
                    time.sleep(0.001)
                    counter[0] = seen + 1
                    self.assertEqual(self.release(services[(number + 1) % 2], lease).status, 204)
            except BaseException as failure:
                failures.append(failure)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(counter, [40])


if __name__ == "__main__":
    serving.main()
