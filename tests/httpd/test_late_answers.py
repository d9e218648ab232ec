#!/usr/bin/python3
"""What is told of a lease whose answer has waited for long; on a file that is filled by hand."""
# SPDX-License-Identifier: Apache-2.0
import json
import sqlite3
import threading
import time

import bson

import serving

LAG = 3000  # ms: an answer takes its time to be read, on a busy machine; the wait took longer


class LateAnswers(serving.Case):
    def fill(self, service, n):
        """Puts n free locks beside one that was made by the service."""
        lease = service.acquire("x").json["lease"]
        service.call("DELETE", "/v1/leases/" + lease)
        db = sqlite3.connect(self.path("locks.db"))
        record = bson.decode(db.execute("SELECT record FROM locks WHERE name = 'x'").fetchone()[0])
        names = ["filler-%06d" % i for i in range(n)]
        db.executemany("INSERT INTO locks(name, record) VALUES(?, ?)",
                       [(name, bson.encode({**record, "_id": name})) for name in names])
        db.commit()
        db.close()

    def left(self, name):
        """Of the lock's lease, in ms, as the file says it now."""
        db = sqlite3.connect(self.path("locks.db"))
        [record] = db.execute("SELECT record FROM locks WHERE name = ?", (name,)).fetchone()
        session = bson.decode(record)["holders"][0]["session"].binary
        [end] = db.execute("SELECT expires_at FROM sessions WHERE id = ?", (session,)).fetchone()
        db.close()
        return end - time.clock_gettime(time.CLOCK_BOOTTIME) * 1000

    def test_events_leave_off_free_locks_that_are_too_many(self):
        service = self.serve()
        self.fill(service, 50000)  # and x
        lease = service.acquire("held").json["lease"]
        events = serving.Events(service, "")
        self.addCleanup(events.connection.close)
        snapshot = events.until("snapshot")
        self.assertEqual([lock["name"] for lock in snapshot["locks"]], ["held"])
        self.assertTrue(snapshot["free_left_off"])
        service.call("DELETE", "/v1/leases/" + lease)
        events.news("held", 1)

    def whole(self, events):
        """The first snapshot after a look, unchecked: checking 50,000 descriptions takes long."""
        while True:
            fields = events.block()
            if fields.get("event") == "snapshot" and json.loads(fields["data"])["reachable"]:
                return json.loads(fields["data"])

    def test_events_have_all_free_locks_that_are_not(self):
        service = self.serve()
        self.fill(service, 49999)  # and x
        events = serving.Events(service, "")
        self.addCleanup(events.connection.close)
        snapshot = self.whole(events)
        self.assertEqual(len(snapshot["locks"]), 50000)
        self.assertFalse(snapshot["free_left_off"])

    def test_what_is_told_to_be_left_is_left(self):
        """The answer waits for a worker for longer than the ttl: all of them list many locks."""
        service = self.serve()
        self.fill(service, 15000)
        is_over = threading.Event()

        def list_all():
            while not is_over.is_set():
                service.get("/v1/locks?limit=1")
        listers = [threading.Thread(target=list_all) for _ in range(32)]
        for lister in listers:
            lister.start()
        try:
            for i in range(2):
                answer = service.acquire("y%d" % i, ttl_ms=1000)
                if answer.status == 201:  # 410: it had ended before it could be told
                    self.assertLess(answer.json["expires_in_ms"], self.left("y%d" % i) + LAG)
        finally:
            is_over.set()
            for lister in listers:
                lister.join()


if __name__ == "__main__":
    serving.main()
