"""Counts up the number in a file until another file is there: PROGRAM URI NAME COUNTER END"""
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import time

import holdfast
from counter import count_up

uri, name, counter, end = sys.argv[1:]
locks = holdfast.Client(uri + "&hfProtocol=ttl")
print("ready", flush=True)
while not os.path.exists(end):
    with locks.lock(name, wait=600):
        print("turn", count_up(counter), flush=True)
    time.sleep(0.03)  # work that needs no lock
