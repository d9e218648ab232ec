"""One of those that contend in test_faults.py: takes ID leases of one lock and counts up under them, and
takes locks for work that is to be done once, until a file is there. URI SEED COUNTER END LOCK WORK BEGUN: WORK
has %d in it, for a number that grows by one each two seconds after the second BEGUN of CLOCK_BOOTTIME."""
# SPDX-License-Identifier: Apache-2.0
import os
import random
import sys
import time

import holdfast

TTL = 3
PERIOD = 10 * 365 * 86400
LEAST_LEFT = 0.1  # a careful program does not write with less

uri, seed, counter, end, lock_name, work_name, begun = sys.argv[1:]
chance = random.Random(int(seed))


def say(*words):
    print(*words, flush=True)


def read():
    with open(counter) as stream:
        return int(stream.read())


def write(value):
    with open(counter, "r+") as stream:
        stream.write("%-20d\n" % value)


def count_up(lease):
    """Holds it for a while, perhaps for longer than one lease."""
    value = read()
    for _ in range(chance.choice((0, 0, 1, 2))):
        time.sleep(chance.uniform(0, lease.ttl / 3))
        lease.renew()
    time.sleep(chance.uniform(0.01, 0.3))
    if lease.left > LEAST_LEFT:
        write(value + 1)
        say("wrote", value + 1)


def lease_turn(client):
    lease = client.lease(lock_name, ttl=TTL, wait=chance.choice((0, 0.5, 5)))
    say("held", lease.ttl, lease.token)
    count_up(lease)
    if not chance.randrange(5):
        say("left")  # to its end
        return
    if chance.randrange(2):
        lease.release()
    else:
        client.release_lease(lease.id)
    say("released")


def work_turn(client):
    number = int(time.clock_gettime(time.CLOCK_BOOTTIME) - float(begun)) // 2
    with client.lock(work_name % number, period=PERIOD, wait=5) as lock:
        if lock.has_run:
            say("known", number)
            return
        say("begin", number)
        time.sleep(chance.uniform(0, 0.2))
        lock.check()
        lock.set_exit_status(0)
        lock.release()
        say("done", number)


with holdfast.Client(uri, ttl=TTL) as client:
    while not os.path.exists(end):
        try:
            chance.choice((lease_turn, work_turn))(client)
        except holdfast.HoldfastError as error:
            say("failed", type(error).__name__, error)
        time.sleep(chance.uniform(0, 0.05))
