# Who is there when something befalls a replica set: a holder, a waiter, leases over HTTP, newcomers; and a
# pymongo client with default options, whose writes say when the set is there again. All have the settings
# that they come with. For tests/live and bench/weather.py.
# SPDX-License-Identifier: Apache-2.0
"""
    with Bystanders(rs.uri) as those:          # all hold what they hold, and wait
        rs.kill(rs.wait_primary())
        fault = boot_ns()
        those.rival.send("end")                # its lock is for the waiter
        again = those.writer.success_after(fault, 60)
"""
import http.client
import json
import threading

import pymongo

from contest import Command, boot_ns
from limits import BUSY
from repeated import Repeated

HTTP_PATIENCE_S = 100  # longer than a service lets anybody wait
RENEWALS_S = 1
WRITES_S = 0.25
WRITES_MOST = 200  # that may hang at a member that does not answer
HOLDS = "echo holds; read line; exit 0"


class Calls:
    """What was tried again and again: each with when it began, when it ended, and how."""

    def __init__(self):
        self.changed = threading.Condition()
        self.all = []

    def add(self, began, outcome):
        with self.changed:
            self.all.append((began, boot_ns(), outcome))
            self.changed.notify_all()

    def since(self, moment):
        """Those that ended at that moment or later, in the order of their ends."""
        with self.changed:
            return [each for each in self.all if each[1] >= moment]

    def success_after(self, moment, timeout):
        """Waits for the first that began after that and succeeded; returns when it ended."""
        def ends():
            return [ended for began, ended, outcome in self.all if began >= moment and outcome is True]
        with self.changed:
            if not self.changed.wait_for(ends, timeout * BUSY):
                raise TimeoutError("no success in %g s: %s" % (timeout * BUSY, self.all[-3:]))
            return min(ends())


class Writer(Calls):
    """One client of pymongo with default options. It begins two majority writes, one after the other, four
    times a second, whether or not the ones before have ended."""

    def __init__(self, uri):
        super().__init__()
        self.client = pymongo.MongoClient(uri)
        self.collection = self.client.get_database(
            "holdfast_bed", write_concern=pymongo.WriteConcern("majority")).writer
        self.under_way = threading.Semaphore(WRITES_MOST)
        self.repeated = Repeated(self.begin, WRITES_S)

    def begin(self):
        if self.under_way.acquire(blocking=False):
            threading.Thread(target=self.write, daemon=True).start()

    def write(self):
        began = boot_ns()
        try:
            key = self.collection.insert_one({}).inserted_id
            self.collection.delete_one({"_id": key})
            self.add(began, True)
        except Exception as error:  # also when it is closed
            self.add(began, str(error))
        self.under_way.release()

    def end(self):
        self.repeated.end()
        self.client.close()


class Service:
    """`holdfast serve`, and calls to it."""

    def __init__(self, uri, *words):
        self.command = Command("--store", uri, *words, "serve", "--listen", "127.0.0.1:0")
        try:
            _, line = self.command.line("listening on", 30)
        except BaseException:
            self.command.kill()
            raise
        self.port = int(line.rpartition(":")[2])

    def call(self, method, path, body=None, headers=None):
        """Returns the status and the answer's JSON; the status is 0 if there is no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HTTP_PATIENCE_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               dict(headers or {}, **{"Content-Type": "application/json"}))
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException) as error:
            return 0, {"detail": str(error)}
        finally:
            connection.close()

    def acquire(self, name, key=None, **asked):
        return self.call("POST", "/v1/locks/" + name, asked, {"Idempotency-Key": key} if key else None)

    def end(self):
        self.command.kill()


class Later(threading.Thread):
    """A call that may take its time: `result` when it has ended at `at`."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.result, self.at = call, None, None
        self.start()

    def run(self):
        self.result = self.call()
        self.at = boot_ns()

    def wait(self, timeout):
        self.join(timeout * BUSY)
        if self.at is None:
            raise TimeoutError("no answer in %g s" % (timeout * BUSY))
        return self.result


class Lease(Calls):
    """An ID lease of a service, renewed each second."""

    def __init__(self, service, name):
        super().__init__()
        self.service = service
        status, answer = service.acquire(name)
        if status != 201:
            raise RuntimeError("no lease: %d %s" % (status, answer))
        self.id = answer["lease"]
        self.repeated = Repeated(self.renew, RENEWALS_S)

    def renew(self):
        began = boot_ns()
        status, answer = self.service.call("PUT", "/v1/leases/" + self.id)
        self.add(began, True if status == 200 else (status, answer))

    def is_lost(self):
        return any(outcome is not True and outcome[0] in (404, 410) for _, _, outcome in self.all)

    def end(self):
        self.repeated.end()


class Newcomers(Calls):
    """One program after the other, from its making on: `holdfast run x -- true`, or what does the same."""

    def __init__(self, kind, *words, pause=0):
        super().__init__()
        self.kind, self.words, self.pause = kind, words, pause
        self.over, self.command = threading.Event(), None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(self.pause):
            began = boot_ns()
            with self.kind(*self.words) as self.command:
                status = self.command.process.wait()
                self.add(began, True if status == 0 else (status, self.command.errors))

    def finish(self, timeout):
        """No more come; waits for the last."""
        self.over.set()
        self.thread.join(timeout * BUSY)

    def end(self):
        self.over.set()
        if self.command:
            self.command.kill()
        self.thread.join()


class Bystanders:
    """Leaving `with` ends all."""

    def __init__(self, uri, words=(), prefix=""):
        self.uri, self.words, self.prefix, self.ended = uri, words, prefix, []
        self.writer = self.later(Writer(uri))
        self.service = self.later(Service(uri, *words))

    def later(self, each):
        """Ended in the end."""
        self.ended.append(each.end if hasattr(each, "end") else each.kill)
        return each

    def run(self, *words):
        return self.later(Command("--store", self.uri, *self.words, *words))

    def holds(self, name, *words):
        """A `run` that holds that lock until it is told "end"."""
        command = self.run("run", *words, name, "--", "bash", "-c", HOLDS)
        command.line("holds", 30)
        return command

    def waits(self, name, *words):
        """A `run` that waits for that lock, and says "ran" when it has it."""
        command = self.run("-v", "run", *words, name, "--", "echo", "ran")
        command.said("waiting for", 30)
        return command

    def __enter__(self):
        try:
            self.holder = self.holds(self.prefix + "held")
            self.rival = self.holds(self.prefix + "wanted")
            self.waiter = self.waits(self.prefix + "wanted")
            self.lease = self.later(Lease(self.service, self.prefix + "leased"))
            self.writer.success_after(0, 30)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for end in reversed(self.ended):
            end()
