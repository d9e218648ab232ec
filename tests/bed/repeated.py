# Makes a call again and again, in a thread of its own.
# SPDX-License-Identifier: Apache-2.0
import threading


class Repeated(threading.Thread):
    """Makes a call each `pause` seconds until end()."""

    def __init__(self, call, pause):
        super().__init__(daemon=True)
        self.call, self.pause, self.over = call, pause, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.pause):
            self.call()

    def end(self):
        self.over.set()
