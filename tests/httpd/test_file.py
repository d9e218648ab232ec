#!/usr/bin/python3
"""The service on a file that is changed by hand, or kept busy, meanwhile."""
# SPDX-License-Identifier: Apache-2.0
import signal
import sqlite3

import serving


class OnAFile(serving.Case):
    def setUp(self):
        super().setUp()
        self.env["HOLDFAST_STORE"] = "sqlite:" + self.path("locks.db")

    def open(self):
        db = sqlite3.connect(self.path("locks.db"), isolation_level=None, timeout=serving.PATIENCE)
        self.addCleanup(db.close)
        return db

    def keep_busy(self):
        """Other writers wait until this is rolled back."""
        db = self.open()
        db.execute("BEGIN IMMEDIATE")
        return db

    def answer(self, connection):
        return serving.Answer(connection.getresponse())

    def test_one_that_does_not_wait_is_not_counted_as_waiting(self):
        service = self.serve("--max-waits", "1")
        service.acquire("other")
        db = self.keep_busy()
        tried = self.ask(service, "x")
        self.until(lambda: service.metric("holdfast_waits_open") == 1, "the try")
        waiting = self.ask(service, "y", wait_ms=60000)
        self.until(lambda: service.metric("holdfast_waits_open") != 1, "the wait")
        db.execute("ROLLBACK")
        self.answer(tried)
        self.assertNotEqual(self.answer(waiting).status, 429)

    def test_a_lock_that_is_removed_is_told(self):
        service = self.serve()
        for name in ("x", "y"):
            self.check(0, "run", name, "--", "true")
        with serving.Events(service) as events:
            events.until("snapshot")
            self.open().execute("DELETE FROM locks WHERE name = 'x'")
            self.assertEqual(events.until("gone"), {"name": "x"})
            self.open().execute("DELETE FROM locks")
            self.assertEqual(events.until("gone"), {"name": "y"})

    def test_what_fails_is_said(self):
        service = self.serve()
        service.get("/v1/locks")
        self.open().execute("ALTER TABLE sessions RENAME TO gone")
        answer = service.get("/v1/sessions")
        self.assertGreaterEqual(answer.status, 500)
        self.assertRegex(answer.json["detail"], "locks.db")
        self.assertEqual(service.get("/healthz").status, 200)

    def test_while_the_service_ends_nothing_new_is_begun(self):
        """What is under way keeps it from ending; connected clients are told."""
        service = self.serve()
        service.acquire("other")
        kept = [service.connect() for _ in range(2)]
        for each in kept:
            self.addCleanup(each.close)
            each.connect()
        db = self.keep_busy()
        tried = self.ask(service, "x")
        self.until(lambda: service.metric("holdfast_waits_open") == 1, "the try")
        service.running.signal(signal.SIGTERM)
        self.until(lambda: self.refused(kept), "an answer that the service ends")
        db.execute("ROLLBACK")
        self.assertIn(self.answer(tried).status, (201, 503))
        self.assertEqual(service.running.status(), 0)

    def refused(self, kept):
        """The end may begin while this is answered: then this connection has had its last answer."""
        kept[0].request("GET", "/healthz")
        answer = self.answer(kept[0])
        if answer.status == 503:
            self.check_problem(answer, 503, "HF_CLOSED", "the service ends")
            self.assertEqual((answer.headers["Connection"], answer.headers["Retry-After"]),
                             ("close", "1"))
        elif answer.headers["Connection"] == "close":
            kept.pop(0)
        return answer.status == 503


if __name__ == "__main__":
    serving.main()
