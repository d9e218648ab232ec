#!/usr/bin/python3
# Runs a command beside a fresh replica set, whose URI it finds in HOLDFAST_TEST_URI, and passes its
# exit status on. Where HOLDFAST_TEST_URI is set already and nothing special is asked for, that set
# is used. SPDX-License-Identifier: Apache-2.0
import argparse
import os
import signal
import subprocess
import sys

from mongod import ReplicaSet


def arguments():
    parser = argparse.ArgumentParser(usage="%(prog)s [options] -- CMD [ARG...]")
    parser.add_argument("--members", type=int, metavar="N", help="how many servers (3)")
    parser.add_argument("--standalone", action="store_true", help="one server, no replica set")
    parser.add_argument("--faketime", action="append", default=[], metavar="MEMBER=SECONDS",
                        help="that member's clock (0, 1, ...) is so far ahead")
    parser.add_argument("--election-ms", type=int, metavar="MS", help="electionTimeoutMillis")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def run(command):
    """The command's exit status; signals to us go to it, and it dies with us."""
    child = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--"] + command)
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda number, frame: child.send_signal(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the child too
    status = child.wait()
    return 128 - status if status < 0 else status


def main():
    asked = arguments()
    special = asked.members or asked.standalone or asked.faketime or asked.election_ms
    if os.environ.get("HOLDFAST_TEST_URI") and not special:
        return run(asked.command)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    skew = {int(number): float(seconds)
            for number, seconds in (each.split("=") for each in asked.faketime)}
    with ReplicaSet(members=asked.members or 3, standalone=asked.standalone, skew=skew,
                    election_ms=asked.election_ms) as rs:
        os.environ["HOLDFAST_TEST_URI"] = rs.uri
        return run(asked.command)


sys.exit(main())
