#!/usr/bin/python3
"""What is told to those who follow the events; also run on a set, with each protocol."""
# SPDX-License-Identifier: Apache-2.0
import signal
import socket
import time

import serving
from serving import CAN, cli, needs

COMMENT_S = 1  # at most one in this time


class Following(serving.Case):
    def follow(self, service, *words, **more):
        events = serving.Events(service, *words, **more)
        self.addCleanup(events.connection.close)
        return events

    def test_begins_with_all_locks(self):
        service = self.serve()
        holder = self.hold("--why", "first", "x")
        events = self.follow(service)
        self.assertEqual(events.block(), {"retry": "1000"})  # ms, until a browser connects again
        snapshot = events.until("snapshot")
        [lock] = snapshot["locks"]
        self.assertEqual((lock["name"], [e["why"] for e in lock["holders"]]),
                         ("x", ["first" if "why" in CAN else ""]))
        sessions = [holder["session"] for holder in lock["holders"]]
        self.assertEqual(list(snapshot["leases"]), [] if serving.PROTOCOL == "sharding" else sessions)
        self.assertTrue(snapshot["reachable"])
        if "who" in CAN:
            self.assertIn(":%d" % holder.pid, lock["holders"][0]["who"])

    def test_begins_with_those_in_use(self):
        service = self.serve()
        self.check(0, "run", "job/free", "--", "true")
        self.hold("job/held")
        self.hold("other")
        for query, names in (("", ["job/free", "job/held", "other"]), ("?in_use=0&prefix=job",
                             ["job/free", "job/held"]), ("?in_use=1", ["job/held", "other"]),
                             ("?in_use=1&prefix=job", ["job/held"])):
            snapshot = self.follow(service, query).until("snapshot")
            self.assertEqual(sorted(lock["name"] for lock in snapshot["locks"]), names)
        self.check_problem(service.get("/v1/events?in_use=2"), 400, "HF_INVALID")

    def test_a_free_lock_is_told_of_all_the_same(self):
        service = self.serve()
        holder = self.hold("x")
        events = self.follow(service, "?in_use=1")
        events.until("snapshot")
        holder.close_input()
        events.news("x", 1)
        self.assertEqual(events.until("lock", "x")["holders"], [])

    @needs("queue")
    def test_a_lock_from_hand_to_hand(self):
        service = self.serve()
        events = self.follow(service)
        events.until("snapshot")
        holder = self.hold("--why", "first", "x")
        [(kind, data)] = events.news("x", 1)
        self.assertEqual((kind, data["why"]), ("grant", "first"))
        self.assertEqual(events.until("lock", "x")["token"], data["token"])
        waiter = self.wait("--why", "second", "x", command=("cat",))
        [(kind, data)] = events.news("x", 1)
        self.assertEqual((kind, data["why"], data["token"]), ("wait", "second", 0))
        holder.close_input()
        release, grant = events.news("x", 2)
        self.assertEqual((release[0], release[1]["why"], release[1]["exit_status"]),
                         ("release", "first", 0))
        self.assertEqual((grant[0], grant[1]["why"]), ("grant", "second"))
        self.assertGreater(grant[1]["token"], release[1]["token"])
        waiter.close_input()
        self.assertEqual([kind for kind, _ in events.news("x", 1)], ["release"])
        self.assertEqual(service.metric('holdfast_events_total{event="grant"}'), 2)

    @needs("queue")
    def test_giving_up_and_loss(self):
        service = self.serve("--insecure-serve-anybody")
        events = self.follow(service)
        events.until("snapshot")
        self.hold("--ttl", "6s", "x")  # a busy machine loses a shorter one by itself
        waiter = self.wait("x")
        self.assertEqual([kind for kind, _ in events.news("x", 2)], ["grant", "wait"])
        waiter.signal(signal.SIGINT)
        self.assertEqual([kind for kind, _ in events.news("x", 1)], ["gave_up"])
        self.assertEqual(service.call("DELETE", "/v1/locks/x?reason=stuck").status, 200)
        [(kind, data)] = events.news("x", 1)
        self.assertEqual(kind, "loss")

    def broken(self, service, token=None):
        """Breaks the lock x by the service; returns what the loss, the lock's events and the lock itself
        say of the reason."""
        holder = self.hold("--ttl", "6s", "x")
        events = self.follow(service, token=token)
        events.until("snapshot")
        answer = service.call("DELETE", "/v1/locks/x?reason=host+is+gone", token)
        self.assertEqual(answer.status, 200, answer.text)
        loss = events.until("loss", "x")
        self.assertIn(":%d" % holder.pid, loss["who"])
        return {loss["reason"], events.until("lock", "x")["last"]["reason"],
                service.get("/v1/locks/x", token).json["last"]["reason"]}

    @needs("queue")
    def test_who_broke_a_lock_and_why(self):
        """Without access tokens, the service did."""
        service = serving.Service(
            self.start("serve", "--listen", "127.0.0.1:0", "--insecure-serve-anybody"))
        self.assertEqual(self.broken(service), {
            "broken by %s/holdfast@%s:%d: host is gone" % (cli.USER, socket.gethostname(), service.running.pid)})
        service.running.err.expect(r'holdfast: 127\.0\.0\.1 broke "x": host is gone\n')

    @needs("queue")
    def test_whose_access_token_broke_a_lock_and_why(self):
        token = "admin-token-aaaaaaaa"
        tokens = self.write("tokens", "admin %s alice\n" % token)
        service = serving.Service(self.start("serve", "--listen", "127.0.0.1:0", "--token-file", tokens))
        self.assertEqual(self.broken(service, token), {"broken by alice: host is gone"})
        service.running.err.expect(r'holdfast: alice@127\.0\.0\.1 broke "x": host is gone\n')

    def test_what_came_and_went_between_two_looks(self):
        service = self.serve()
        events = self.follow(service)
        events.until("snapshot")
        self.check(3, "run", "x", "--", "sh", "-c", "exit 3")
        while True:  # its holder may have been seen
            last = events.until("lock", "x")["last"]
            if last["outcome"] == "released":
                break
        self.assertEqual(last["exit_status"], 3)

    @needs("ttl")
    def test_leases_that_are_renewed(self):
        service = self.serve()
        self.hold("--ttl", "6s", "x")
        events = self.follow(service)
        [(session, left)] = events.until("snapshot")["leases"].items()
        for _ in range(3):
            renewed = events.until("leases")
            self.assertEqual(list(renewed), [session])
            self.assertTrue(1000 < renewed[session] <= 6000, (left, renewed))

    def test_of_some_locks_only(self):
        service = self.serve()
        self.hold("a/1")
        self.hold("b/1")
        events = self.follow(service, "?prefix=a%2F")
        snapshot = events.until("snapshot")
        self.assertEqual([lock["name"] for lock in snapshot["locks"]], ["a/1"])
        [holder] = snapshot["locks"][0]["holders"]
        self.assertLessEqual(set(snapshot["leases"]), {holder["session"]})
        self.hold("b/2")
        self.hold("a/2")
        told = []
        while told[-1:] != [("lock", "a/2")]:
            kind, data = events.next()
            told += [(kind, data["name"])] if kind != "leases" else []
        self.assertEqual(told, [("grant", "a/2"), ("lock", "a/2")])

    def test_going_on_where_it_ended(self):
        service = self.serve()
        with self.follow(service) as events:
            events.until("snapshot")
            self.hold("x")
            events.until("lock", "x")
        self.hold("y")
        self.hold("z")
        with self.follow(service, last_id=events.last_id) as again:
            found = []
            while len(found) < 2:
                kind, data = again.next()
                self.assertNotEqual(kind, "snapshot")
                found += [data["name"]] if kind == "grant" else []
        self.assertEqual(found, ["y", "z"])
        for unknown in ("nonsense", "1-1", events.last_id + "9999"):
            with self.follow(service, last_id=unknown) as anew:
                self.assertEqual([lock["name"] for lock in anew.until("snapshot")["locks"]],
                                 ["x", "y", "z"])

    @needs("names")
    @needs("queue")  # elsewhere so many locks take minutes
    def test_where_too_much_has_come_since_it_begins_anew(self):
        """A thousand events are kept, and some; each lock here makes one at least."""
        service = self.serve()
        with self.follow(service) as events:
            events.until("snapshot")
            self.hold("x")
            events.until("lock", "x")
        with self.follow(service) as ahead:
            ahead.until("snapshot")
            for block in range(12):
                names = ["%02d.%02d" % (block, i) for i in range(100)]
                running = self.start("run", *names, "--", "true")
                ahead.until("lock", names[-1])  # at once: one that does not read is cut off
                self.assertEqual(running.status(), 0)
        with self.follow(service, last_id=events.last_id) as again:
            self.assertEqual(len(again.next()[1]["locks"]), 1201)
        with self.follow(service, last_id=ahead.last_id) as again:
            self.hold("y")
            kind, data = again.next()
            while (kind, data.get("name")) != ("grant", "y"):
                self.assertNotEqual(kind, "snapshot")
                kind, data = again.next()

    def test_while_nothing_happens_a_comment_comes_now_and_then(self):
        """So that a connection that is gone is found out."""
        service = self.serve()
        began = time.monotonic()
        events = self.follow(service)
        while events.block() != {":": ""}:
            pass
        n = 1
        for name in "uvwxyz":
            self.hold(name)
            while (found := events.block()).get("event") != "grant":
                n += found == {":": ""}
        self.assertLessEqual(n, 2 + (time.monotonic() - began) / COMMENT_S)

    def test_many_who_listen_cost_one_look(self):
        service = self.serve()
        many = [self.follow(service) for _ in range(50)]
        for events in many:
            events.until("snapshot")
        began = time.monotonic()
        before = service.metric("holdfast_looks_total")
        self.hold("x")
        for events in many:
            events.until("grant")
        looks = service.metric("holdfast_looks_total") - before
        took = time.monotonic() - began
        self.assertLessEqual(looks, took / 0.5 + 2)

    @needs("names")
    def test_one_that_does_not_read_is_cut_off(self):
        """And delays nobody."""
        service = self.serve("--timeout", "8s")  # our own reading may be slow, too
        for block in range(4):
            self.check(0, "run", *["%d.%d" % (block, i) + "y" * 500 for i in range(100)], "--", "true")
        deaf = socket.socket()
        self.addCleanup(deaf.close)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((service.host, service.port))
        deaf.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        events = self.follow(service)
        self.assertEqual(len(events.until("snapshot")["locks"]), 400)
        self.hold("x")
        events.until("grant", "x")
        self.until(lambda: service.metric("holdfast_http_connections") == 2, "its end")
        self.hold("y")
        events.until("grant", "y")

    def test_who_has_gone_is_let_go(self):
        service = self.serve()
        events = self.follow(service)
        events.until("snapshot")
        events.connection.close()
        events.response.close()
        self.hold("x")  # there is something to be sent
        self.until(lambda: service.metric("holdfast_http_connections") == 1, "its end")

    def test_ends_with_the_service(self):
        service = self.serve()
        events = self.follow(service)
        events.until("snapshot")
        service.running.signal(signal.SIGTERM)
        while events.next():
            pass
        self.assertEqual(service.running.status(), 0)

    def test_over_tls(self):
        import test_refusing
        cert, key = test_refusing.Tls.make(self, "ours")
        service = self.serve("--tls-cert", cert, "--tls-key", key, cert=cert)
        events = self.follow(service)
        events.until("snapshot")
        self.hold("x")
        events.until("grant", "x")

    def test_no_store(self):
        self.env["HOLDFAST_STORE"] = "mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=100"
        snapshot = self.follow(self.serve()).until("snapshot", is_away=True)
        self.assertEqual((snapshot["locks"], snapshot["reachable"]), ([], False))
        self.assertRegex(snapshot["detail"], "127.0.0.1:1")


if __name__ == "__main__":
    serving.main()
