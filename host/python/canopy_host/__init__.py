# SPDX-License-Identifier: Apache-2.0
"""Joins an RDMA application to a Canopy group, instead of exchanging QPNs with its peers.

    from canopy_host import Client, Role

    with Client() as client, client.join("weights", "s1", Role.SOURCE, qp.qp_num) as member:
        c = member.connection      # connect the queue pair to c.proxy_address, c.designated_qpn, c.start_psn
        member.wait_ready(receivers=3, timeout=30)
        for event in member.events():
            ...

The end of `with client.join(...)` leaves the group, and so does the end of the process unless it joined with
`lease=False`; dropping a membership does not. The rest is as documented in the
C header: any thread may call, a child after fork connects anew.
"""

from ._api import Client, Connection, Event, EventKind, Events, Membership, Memory, Ready, Role
from ._errors import (
    AlreadyJoined,
    CanopyError,
    GroupFailed,
    InternalError,
    InvalidArgument,
    LimitReached,
    NoSuchGroup,
    NotPermitted,
    NotPossible,
    ProtocolError,
    SocketError,
    TimedOut,
    Unavailable,
)
from ._library import DEFAULT_SOCKET

__all__ = [
    "AlreadyJoined",
    "CanopyError",
    "Client",
    "Connection",
    "DEFAULT_SOCKET",
    "Event",
    "EventKind",
    "Events",
    "GroupFailed",
    "InternalError",
    "InvalidArgument",
    "LimitReached",
    "Membership",
    "Memory",
    "NoSuchGroup",
    "NotPermitted",
    "NotPossible",
    "ProtocolError",
    "Ready",
    "Role",
    "SocketError",
    "TimedOut",
    "Unavailable",
]
