# A server that a driver takes for a mongos: the primary of a set, behind a proxy that answers `hello` as a
# router does. No mongos is to be had for tests; so what the driver and Holdfast do differently at one is
# exercised at least. What a cluster does differently is not. SPDX-License-Identifier: Apache-2.0
from proxy import Proxy

OF_A_MEMBER = ("setName", "setVersion", "hosts", "passives", "arbiters", "primary", "me", "electionId",
               "lastWrite", "secondary", "tags", "topologyVersion", "hello", "isreplicaset")


def as_router(name, _command, reply):
    """Those of serverStatus have no section on replication."""
    if name.lower() in ("hello", "ismaster") and reply.get("ok"):
        for field in OF_A_MEMBER:
            reply.pop(field, None)
        reply["msg"] = "isdbgrid"
    elif name == "serverStatus":
        reply.pop("repl", None)
        reply["process"] = "mongos"


class Router(Proxy):
    """In front of the primary, which must stay the same: of a set of one, or with patient elections."""
    options = {}

    def __init__(self, replica_set):
        super().__init__(replica_set.wait_primary().host, as_router)
