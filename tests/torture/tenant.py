#!/usr/bin/python3
# A client of the services in the fault campaign: its threads take leases over HTTP, renew, repeat
# and release them at whichever service comes up, and say what they believed in a history of the
# torturer's kind. With --break it takes locks from their holders instead. campaign.py starts it.
# SPDX-License-Identifier: Apache-2.0
"""
A lease is believed in from its answer on, for as long as is certain: what the service says is left
(`expires_in_ms`) was left when it was asked, or at a later moment. So belief ends that long after
the request was sent, or, where the request waited for its turn, after it had it. What a repeat is
told may be how long the first call waited, so such a lease is renewed first.
"""
import argparse
import http.client
import json
import os
import queue
import random
import subprocess
import threading
import time
import urllib.parse

NS, MS = 1_000_000_000, 1_000_000
RW = 1 << 30  # HF_LIMIT_RW
SEM_LIMIT = 3
SAY_S = 0.02  # how often a holder says that it believes
TRIES = 4  # of a call that gets no answer
PATIENCE_S = 25  # longer than a service ever takes
BREAK_PATIENCE_S = 40


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class History:
    """Lines as history.c writes them, each in one piece."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def say(self, event, **fields):
        line = json.dumps(dict({"event": event, "at": boot_ns()}, **fields)) + "\n"
        os.write(self.fd, line.encode())


class Answer:
    """What came of one call; status 0: no answer."""

    def __init__(self, sent, status=0, text=""):
        self.sent, self.received, self.status = sent, boot_ns(), status
        try:
            self.json = json.loads(text) if text else {}
        except ValueError:
            self.json = {}

    @property
    def code(self):
        if self.status in (200, 201, 204):
            return "HF_OK"
        return self.json.get("code", "HTTP_%d" % self.status) if self.status else "NO_ANSWER"


def call(service, method, path, body=None, key=None, patience=PATIENCE_S):
    """`service` is (host, port)."""
    headers = {"Content-Type": "application/json"} if body else {}
    if key:
        headers["Idempotency-Key"] = key
    connection = http.client.HTTPConnection(*service, timeout=patience)
    sent = boot_ns()
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(sent, response.status, response.read().decode())
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return Answer(sent)
    finally:
        connection.close()


def lease_path(lease):
    return "/v1/leases/" + urllib.parse.quote(lease, safe="")


class Turn:
    """One lease: how it is asked for, and until when it is believed in. The thread whose turn it is
    and those that call for it meet here."""

    def __init__(self, thread, number):
        self.thread, self.number = thread, number
        self.mutex, self.answers, self.calls = threading.Lock(), queue.Queue(), 0
        self.lease, self.token, self.deadline = None, None, 0
        self.said, self.until, self.is_lost, self.is_over = 0, 0, False, False
        self.repeats = 0

    def say(self, event, **fields):
        self.thread.history.say(event, thread=self.thread.number, turn=self.number, **fields)

    def learn(self, answer, has_waited):
        """Of the lease that is this turn's: the first that was answered. With another token it was
        taken anew, after a drop: what this turn had is lost."""
        with self.mutex:
            if answer.status == 410 and self.lease:
                self.is_lost = True
            if answer.status not in (200, 201):
                return
            if self.lease and (self.lease, self.token) != (answer.json["lease"],
                                                           answer.json["token"]):
                self.is_lost = True
                return  # the checker complains, unless a drop excuses it
            self.lease, self.token = answer.json["lease"], answer.json["token"]
            waited = answer.json.get("waited_ms", 0) * MS if has_waited else 0
            since = min(answer.received, answer.sent + waited)
            self.deadline = max(self.deadline, since + answer.json["expires_in_ms"] * MS)

    def believes(self):
        now = boot_ns()
        with self.mutex:
            if self.is_lost or self.is_over or now >= self.deadline:
                return False
            self.until = now
        if now - self.said >= SAY_S * NS:
            self.said = now
            self.say("believes", until=now)
        return True

    # ---- Calls ----

    def send(self, kind, service, method, path, body=None, patience=PATIENCE_S, **told):
        """Makes one call and says so, with all that the checker wants to know of it."""
        with self.mutex:
            self.calls += 1
            n = self.calls
        key = self.key if body else None
        self.say("call", n=n, kind=kind, service=service, patience_ms=int(patience * 1000),
                 key=key or "", **told)
        answer = call(self.thread.services[service], method, path, body, key, patience)
        said = {name: answer.json[name] for name in ("lease", "token", "expires_in_ms")
                if name in answer.json}
        self.say("answer", n=n, status=answer.status, code=answer.code,
                 text=answer.json.get("detail", ""), **said)
        return answer

    def acquire(self, service, kind="acquire", patience=PATIENCE_S, **other):
        asked = dict(self.asked, **other)
        self.repeats += kind == "repeat"
        answer = self.send(kind, service, "POST", "/v1/locks/" + self.lock, json.dumps(asked),
                           asked["wait_ms"] / 1000 + patience, wait_ms=asked["wait_ms"])
        if kind != "changed":
            self.learn(answer, not self.repeats)
        self.answers.put(answer)

    def renew(self, service):
        self.learn(self.send("renew", service, "PUT", lease_path(self.lease)), False)

    def release(self, service):
        return self.send("release", service, "DELETE", lease_path(self.lease))

    def misname(self, service, method):
        """The right secret, and the name of another lock: is no lease."""
        wrong = lease_path(self.lease[:33] + "other")
        self.send("misnamed", service, method, wrong)

    def beside(self, what, *args, **kwargs):
        threading.Thread(target=what, args=args, kwargs=kwargs, daemon=True).start()


class Tenant(threading.Thread):
    """Takes one lease after the other."""

    def __init__(self, number, given, history):
        super().__init__()
        self.number, self.given, self.history = number, given, history
        self.services, self.turns = given.services, 0
        self.chance = random.Random(given.seed * 1000003 + number)

    def run(self):
        while not os.path.exists(self.given.until):
            self.turns += 1
            self.take(self.choose(Turn(self, self.turns)))

    # ---- Chance ----

    def is_one_in(self, n):
        return self.chance.randrange(n) == 0

    def some_service(self):
        return self.chance.randrange(len(self.services))

    def choose(self, it):
        it.lock = self.chance.choice(self.given.locks)
        it.ttl_ms = self.chance.randrange(self.given.ttl_ms[0], self.given.ttl_ms[1] + 1)
        it.asked = {"ttl_ms": it.ttl_ms,
                    "wait_ms": self.chance.choice([0, self.chance.randrange(50, 4000)])}
        if it.lock.startswith("sem"):
            it.permits, it.limit = self.chance.randrange(1, 3), SEM_LIMIT
            it.asked.update(permits=it.permits, limit=it.limit)
        elif self.is_one_in(3):
            it.permits, it.limit = 1, RW
            it.asked["mode"] = "shared"
        else:
            it.permits = it.limit = RW
        it.key = "%032x" % self.chance.getrandbits(128) if self.chance.random() < 0.7 else None
        return it

    def choose_hold_s(self, it):
        kind, ttl = self.chance.random(), it.ttl_ms / 1000
        if kind < 0.7:
            return self.chance.uniform(0, 0.1)
        return self.chance.uniform(0, ttl) if kind < 0.9 else self.chance.uniform(ttl, 2.5 * ttl)

    def choose_patience(self):
        """Some hang up while the answer is under way."""
        return self.chance.uniform(0, 0.3) if self.is_one_in(12) else PATIENCE_S

    # ---- One turn ----

    def take(self, it):
        it.say("ask", lock=it.lock, permits=it.permits, limit=it.limit,
               wait_ms=it.asked["wait_ms"], ttl_ms=it.ttl_ms, key=it.key or "")
        answer = self.acquire(it)
        if not it.lease:
            it.say("refused", code=answer.code, text=answer.json.get("detail", ""))
            time.sleep(self.chance.uniform(0.01, 0.2))
            return
        previous = answer.json.get("previous", {})
        it.say("granted", token=it.token, lease=it.lease,
               previous={"none": 0, "released": 1, "abandoned": 2}.get(previous.get("outcome"), -1),
               previous_token=previous.get("token", 0))
        if it.repeats and boot_ns() >= it.deadline:
            it.renew(self.some_service())
        self.hold(it, self.choose_hold_s(it))
        self.end(it)

    def acquire(self, it):
        """Returns the answer that says it, the last one where none does. With a key the same call
        comes at the other service too: at the same moment, later, or when an answer is missing."""
        first, tries = self.some_service(), 1
        it.beside(it.acquire, first, patience=self.choose_patience())
        if it.key and self.is_one_in(4):
            it.beside(it.acquire, 1 - first, "repeat")
            tries += 1
        elif it.key and self.is_one_in(4):
            threading.Timer(self.chance.uniform(0, 0.2 + it.asked["wait_ms"] / 1000), it.acquire,
                            (1 - first, "repeat")).start()
            tries += 1
        awaited = tries
        while True:
            answer = it.answers.get()
            awaited -= 1
            if answer.status in (200, 201) or not awaited and (
                    answer.status in (409, 410, 422, 500) or tries >= TRIES or not it.key):
                return answer
            if not awaited:
                tries, awaited, first = tries + 1, 1, 1 - first
                it.beside(it.acquire, first, "repeat")

    def hold(self, it, seconds):
        end = boot_ns() + int(seconds * NS)
        renews_at = boot_ns() + self.renew_after(it)
        while it.believes() and boot_ns() < end:
            time.sleep(0.005)
            if boot_ns() >= renews_at:
                renews_at = boot_ns() + self.renew_after(it)
                it.beside(it.renew, self.some_service())
            if self.is_one_in(60):
                self.do_something_else(it)

    def renew_after(self, it):
        return int(it.ttl_ms * MS * self.chance.uniform(0.1, 0.7))

    def do_something_else(self, it):
        """What is to change nothing."""
        kind, service = self.chance.randrange(4), self.some_service()
        if kind == 0:
            it.beside(it.misname, service, self.chance.choice(["PUT", "DELETE"]))
        elif it.key and kind == 1:
            it.beside(it.acquire, service, "changed", ttl_ms=it.ttl_ms + 1)
        elif it.key:
            it.beside(it.acquire, service, "repeat")

    def end(self, it):
        kind = self.chance.random()
        if kind < 0.08:  # not given back, and believed in to the end
            while it.believes():
                time.sleep(0.005)
        if kind < 0.14:
            self.leave(it)
        else:
            self.release(it)

    def leave(self, it):
        """Not given back. Some come back when it has run out."""
        it.is_over = True
        if it.until:
            it.say("leave", until=it.until)
        if self.is_one_in(3):
            time.sleep(self.chance.uniform(0, 1))
            it.renew(self.some_service())

    def release(self, it):
        it.believes()
        it.is_over = True
        it.say("release", until=it.until)
        service, twice = self.some_service(), self.is_one_in(6)
        if twice:
            it.beside(it.release, 1 - service)
        for _ in range(TRIES):
            answer = it.release(service)
            if answer.status in (204, 410, 500):
                break
            service = 1 - service
        is_certain = answer.status == 204 and answer.received < it.deadline
        it.say("released", code=answer.code, is_certain=is_certain)
        if self.is_one_in(4):
            it.release(self.some_service())
        if it.key and self.is_one_in(4):
            it.acquire(self.some_service(), "repeat")


class Breaker(threading.Thread):
    """Takes locks from those who hold them; by force from leases only."""

    def __init__(self, given, history):
        super().__init__()
        self.given, self.history, self.breaks = given, history, 0
        self.chance = random.Random(given.seed)

    def run(self):
        while not os.path.exists(self.given.until):
            time.sleep(self.chance.uniform(0.5, 3))
            lock = self.chance.choice(self.given.locks)
            service = self.chance.choice(self.given.services)
            shown = call(service, "GET", "/v1/locks/" + lock)
            holders = shown.json.get("holders", [])
            if holders:
                self.take_from(lock, self.chance.choice(holders)["token"], service)

    def take_from(self, lock, token, service):
        """One time in four from all of them."""
        forced = lock.startswith("lease") and self.chance.random() < 0.5
        token = token if forced or self.chance.random() < 0.75 else 0
        self.breaks += 1
        self.history.say("break", n=self.breaks, lock=lock, token=token, forced=forced)
        if forced:
            done, asked = self.force(lock, token), [token]
        else:
            done, asked = self.ask(lock, token, service)
        self.history.say("broken", n=self.breaks, done=done, tokens=asked)

    @staticmethod
    def ask(lock, token, service):
        which = "&if_token=%d" % token if token else ""
        answer = call(service, "DELETE", "/v1/locks/%s?reason=torture%s" % (lock, which),
                      patience=BREAK_PATIENCE_S)
        asked = [each["token"] for each in answer.json.get("asked", [])]
        return answer.status == 200, [token] if token else asked

    def force(self, lock, token):
        return subprocess.call(
            [os.environ["HOLDFAST_BIN"], "--store", self.given.store, "break", lock, "--force",
             "--if-token", str(token), "--reason", "torture"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL) == 0


def words():
    parser = argparse.ArgumentParser()
    for name in ("--id", "--history", "--until", "--services", "--locks", "--ttl", "--store"):
        parser.add_argument(name, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--break", dest="breaks", action="store_true")
    given = parser.parse_args()
    given.services = [(host, int(port)) for host, _, port in
                      (each.partition(":") for each in given.services.split(","))]
    given.locks = given.locks.split(",")
    given.ttl_ms = [int(each) for each in given.ttl.split("-")]
    return given


def main():
    given = words()
    history = History(given.history)
    history.say("begin", id=given.id, pid=os.getpid(), ttl_ms=given.ttl_ms[1], seed=given.seed)
    threads = ([Breaker(given, history)] if given.breaks
               else [Tenant(i, given, history) for i in range(given.threads)])
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history.say("end", close_ms=0)
    os._exit(0)  # calls that are still open are left alone


if __name__ == "__main__":
    main()
