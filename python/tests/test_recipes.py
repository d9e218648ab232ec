"""The recipes of docs/python.md for servers and workers, as they stand there: each locks in processes or
greenlets of its own, and gives back what it holds when it is asked to end."""
# SPDX-License-Identifier: Apache-2.0
import http.client
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import holdfast

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")
PATIENCE = 120  # seconds, for what should come at once

COUNT = """
import time
def count():
    with client().lock("count", wait=100):
        with open("count") as file:
            number = int(file.read())
        time.sleep(0.01)
        with open("count", "w") as file:
            file.write(str(number + 1))
"""
HOLD = """
import time
def hold(_=None):
    with client().lock("held", wait=100):
        open("holds", "w").close()
        time.sleep(1000)
"""


def needs(module):
    return unittest.skipUnless(importlib.util.find_spec(module), "%s is not installed" % module)


class OnSocket(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.host)


class Recipes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-recipes-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(PAGE, encoding="utf-8") as page:
            for name, text in re.findall(r"```python\n# (\S+\.py)\n(.*?)```", page.read(), re.S):
                self.write(name, text)
        self.write("count", "0")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, *words):
        paths = (self.folder, os.path.dirname(os.path.dirname(holdfast.__file__)))
        program = subprocess.Popen([sys.executable, *words], cwd=self.folder, stdout=subprocess.PIPE,
                                   env=dict(os.environ, PYTHONPATH=os.pathsep.join(paths)))
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def start_program(self, *parts):
        self.write("program.py", "".join(parts))
        return self.start("program.py")

    def await_that(self, is_so):
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def await_file(self, name):
        self.await_that(lambda: os.path.exists(self.path(name)))

    def counted(self):
        with open(self.path("count"), encoding="utf-8") as file:
            return int(file.read() or -1)

    def assert_released(self):
        with holdfast.Client("sqlite:" + self.path("locks.db")) as client:
            self.assertEqual(client.show("held").last.outcome, holdfast.Outcome.RELEASED)

    def end(self, program, status):
        program.send_signal(signal.SIGTERM)
        self.assertEqual(program.wait(PATIENCE), status)

    @needs("gunicorn")
    def test_gunicorn(self):
        self.write("app.py", "from locks import client" + COUNT + """
def app(environ, start_response):
    count()
    start_response("200 OK", [])
    return [b""]
""")
        place = self.path("socket")
        server = self.start("-m", "gunicorn", "--preload", "-w", "3", "-b", "unix:" + place, "app:app")
        self.await_file("socket")
        requests = [OnSocket(place) for _ in range(12)]
        for each in requests:
            each.request("GET", "/")
        for each in requests:
            self.assertEqual(each.getresponse().status, 200)
            each.close()
        self.assertEqual(self.counted(), 12)
        self.end(server, 0)

    @needs("celery")
    def test_celery(self):
        for name in ("messages", "done"):
            os.mkdir(self.path(name))
        self.write("tasks.py", "from locks import client" + COUNT + """
from celery import Celery
app = Celery("tasks", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": "messages", "data_folder_out": "messages",
                                     "processed_folder": "done"}
task = app.task(count)
""")
        worker = self.start("-m", "celery", "-A", "tasks", "worker", "-c", "3", "-l", "ERROR")
        self.assertEqual(self.start("-c", "import tasks\nfor _ in range(6): tasks.task.delay()").wait(PATIENCE), 0)
        self.await_that(lambda: self.counted() == 6)
        self.end(worker, 0)

    def test_multiprocessing(self):
        program = self.start_program("from locks import client, release_when_terminated", COUNT, HOLD, """
import multiprocessing, os
def each(_):
    count()
with multiprocessing.get_context("fork").Pool(4, release_when_terminated) as pool:
    pool.map(each, range(12), 1)
    pool.apply_async(hold)
    while not os.path.exists("holds"):
        time.sleep(0.02)
""")
        self.assertEqual(program.wait(PATIENCE), 0)
        self.assertEqual(self.counted(), 12)
        self.assert_released()

    def test_any_other_program(self):
        program = self.start_program("from locks import client, release_when_terminated", HOLD, """
release_when_terminated()
hold()
""")
        self.await_file("holds")
        self.end(program, 143)
        self.assert_released()

    @needs("gevent")
    def test_gevent(self):
        program = self.start_program("""
from gevent import monkey
monkey.patch_all()
import gevent
from greenlets import call
from locks import client
order = []
def work(number):
    lock = call(client().acquire, "held", wait=100)
    order.append(number)
    gevent.sleep(0)  # the others, which wait, keep this one from nothing
    call(lock.release)
gevent.joinall([gevent.spawn(work, number) for number in range(5)], raise_error=True)
assert sorted(order) == list(range(5)), order
""")
        self.assertEqual(program.wait(PATIENCE), 0)
        self.assert_released()


if __name__ == "__main__":
    unittest.main(verbosity=2)
