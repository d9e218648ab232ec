"""Protocol `document`: a lock in a document of the user's own, and claims."""
# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
import os
import unittest

import pymongo

import holdfast
from stores import SOON, OnAStore, Taker, on_each_store


class Documents(OnAStore):
    def new_store(self):
        uri = super().new_store()
        self.orders = pymongo.MongoClient(os.environ["HOLDFAST_TEST_URI"])[
            uri.partition("?")[0].rpartition("/")[2]].orders
        self.addCleanup(self.orders.database.client.close)
        self.orders.insert_many([{"_id": "A%d" % i, "state": "paid", "at": -i} for i in range(3)])
        return uri + "&hfProtocol=document&hfCollection=orders&hfTokenField=fence"

    def test_a_document_is_locked_in_place(self):
        with self.one.acquire_document("A1") as lock:
            self.assertEqual((lock.name, json.loads(lock.document)["state"]), ("A1", "paid"))
            self.assertIsNotNone(self.orders.find_one("A1")["lockId"])
            self.assertEqual(self.orders.find_one("A1")["fence"], lock.token)
            with self.assertRaises(holdfast.HeldError):
                self.two.acquire_document("A1", wait=0)
        self.assertIsNone(self.orders.find_one("A1")["lockId"])
        with self.assertRaises(holdfast.NotFoundError):
            self.one.acquire_document("B1")

    def test_claims_take_one_each(self):
        with self.one.claim({"state": "paid"}, {"at": 1}) as first, \
                self.two.claim('{"state": "paid"}', '{"at": 1}') as second:
            self.assertEqual([first.name, second.name], ["A2", "A1"])
            with self.assertRaises(holdfast.NotFoundError):
                self.one.claim({"state": "none"}, wait=0)
            with self.assertRaises(holdfast.InvalidError):
                self.one.claim("{")
            with self.assertRaises(holdfast.InvalidError):
                self.one.claim({"at": object()})

    def test_a_claim_waits_for_a_document(self):
        taker = Taker(self.one.claim, {"_id": "new"})
        self.orders.insert_one({"_id": "new"})
        taker.result().close()

    def test_what_is_renewed_by_hand(self):
        with self.client(ttl=self.ttl).acquire_document("A1", no_refresh=True) as lock:
            lock.refresh()
            self.assertGreater(lock.check(), 0)

    def test_a_lease_that_is_released_twice(self):
        with self.one.lease("A1") as lease:
            lease.release()
        with self.assertRaises(holdfast.LostError):
            self.one.release_lease(lease.id)

    def test_what_the_protocol_lacks(self):
        with self.assertRaises(holdfast.UnsupportedError):
            self.one.acquire("A1", shared=True)
        self.assertEqual(self.one.protocol, "document")

    def test_asyncio_locks_a_document(self):
        async def main():
            async with holdfast.AsyncClient(self.uri) as client:
                async with client.lock("A1") as lock:
                    self.assertEqual(self.orders.find_one("A1")["fence"], lock.token)
                    with self.assertRaises(holdfast.HeldError):
                        self.two.acquire_document("A1", wait=0)
        asyncio.run(main())
        self.assertIsNone(self.orders.find_one("A1")["lockId"])

    def test_another_client_gets_it_when_it_is_released(self):
        with self.one.acquire_document("A1"):
            taker = Taker(self.two.acquire_document, "A1", wait=SOON)
        taker.result().close()


on_each_store(globals())

if __name__ == "__main__":
    unittest.main(verbosity=2)
