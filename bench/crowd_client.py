#!/usr/bin/python3
# One client of a crowd, in a process of its own: crowd_client.py VERB URI N. It does what the verb says with N of
# something, and says what came of it in a line of JSON. crowd_holding.py starts it.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import itertools
import json
import os
import sys
import threading
import time

import holdfast

THREADS, MANY_THREADS = 8, 32
LIMIT = 1000  # permits of the semaphore that one process holds all of
TTL_S = float(os.environ.get("CROWD_TTL", 0)) or None
LOCAL_TURNS = int(os.environ.get("CROWD_LOCAL_TURNS", 0)) or None


def say(**what):
    print(json.dumps(what), flush=True)


def in_threads(work, things, threads=THREADS):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, things))


def heard():
    """The next word of the process that started this one; nothing, if that has ended."""
    return sys.stdin.readline().strip()


# ---- Verbs

def hold(client, n):
    """N locks; when told so, closes the client with all of them."""
    held = in_threads(lambda i: client.acquire("held/%05d" % i), range(n), MANY_THREADS)
    say(held=len(held))
    heard()
    began = time.monotonic()
    client.close()
    say(took=time.monotonic() - began)
    heard()


def share(client, n):
    """N permits of one semaphore, each with a ticket of its own."""
    held = in_threads(lambda _: client.acquire("shared", permits=1, limit=LIMIT), range(n))
    say(held=len(held))
    heard()


def read(client, n):
    """N shared locks of one name, until told to close them."""
    held = in_threads(lambda _: client.acquire("readers", shared=True), range(n))
    say(held=len(held))
    heard()
    for lock in held:
        lock.close()
    heard()


def once(client, n):
    """Names that nobody asks for again. It is killed."""
    held = client.acquire_all(["once/%d/%d" % (os.getpid(), i) for i in range(n)])
    say(held=len(held))
    heard()


def many(client, n):
    """Very many such names. It is killed."""
    held = in_threads(lambda i: client.acquire("many/%d/%05d" % (os.getpid(), i)), range(n), MANY_THREADS)
    say(held=len(held))
    heard()


def stand(client, n):
    """N threads that want one lock, and come one after the other. Each writes when it came, once it has the lock."""
    path, each_s, failed = os.environ["CROWD_TURNS"], float(os.environ["CROWD_APART"]), []

    def want(came):
        try:
            with client.acquire("q"), open(path, "a") as turns:
                print(came, file=turns)
        except holdfast.Error as error:
            failed.append(error)

    threads, began = [], time.monotonic()
    for i in range(n):
        time.sleep(max(0, began + i * each_s - time.monotonic()))
        threads.append(threading.Thread(target=want, args=(time.monotonic(),)))
        threads[-1].start()
    say(came=n)
    for each in threads:
        each.join()
    say(failed=len(failed))
    heard()


class Turns:
    """Threads that take locks with new names, and close them."""

    def __init__(self, client):
        self.client, self.numbers = client, itertools.count()
        self.mutex, self.longest = threading.Lock(), 0.0

    def one(self):
        began = time.monotonic()
        number = next(self.numbers)
        self.client.acquire("new/%07d" % number).close()
        took = time.monotonic() - began
        with self.mutex:
            self.longest = max(self.longest, took)
        return number + 1

    def run_until(self, moment):
        def work(_):
            while time.monotonic() < moment:
                self.one()
        in_threads(work, range(THREADS))
        return next(self.numbers)


def churn(client, seconds):
    """As many new names as it can, for so long."""
    turns = Turns(client)
    n = turns.run_until(time.monotonic() + seconds)
    say(turns=n, longest=turns.longest)
    heard()


def take(client, n):
    """N new names, one after the other in each thread; then it ends in order."""
    turns = Turns(client)
    in_threads(lambda _: turns.one(), range(n))
    client.close()
    say(turns=n)
    heard()


VERBS = {"hold": hold, "share": share, "read": read, "once": once, "many": many, "stand": stand, "churn": churn, "take": take}


def main():
    verb, uri, n = sys.argv[1:]
    VERBS[verb](holdfast.Client(uri, ttl=TTL_S, local_turns=LOCAL_TURNS), int(n))
    os._exit(0)  # without waiting for what is left to do: the process that started this one has seen enough


main()
