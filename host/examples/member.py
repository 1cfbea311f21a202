# SPDX-License-Identifier: Apache-2.0
"""The Canopy half of the examples: joining, and the group's events."""

import sys

import canopy_host as ch


def arguments(parser):
    """The options of every member."""
    parser.add_argument("--group", required=True, help="the group, which `canopyctl apply` has declared")
    parser.add_argument("--host", required=True, help="this host's name in the topology")
    parser.add_argument("--device", required=True, help="RDMA device (see `ibv_devices`)")
    parser.add_argument("--address", help="its IPv6 address, if it has several; must lie in the host's prefix")
    parser.add_argument("--socket", default=ch.DEFAULT_SOCKET, help="the agent's host_socket.path [%(default)s]")


class Group:
    """A member, with the events of its group. Leaves at the end of `with`."""

    def __init__(self, args, role, qp, memory=None):
        self.client = ch.Client(args.socket)
        region = memory and ch.Memory(memory.buf, memory.rkey, memory.length)
        self.member = self.client.join(args.group, args.host, role, qp.number, region, qp.device.address)
        self.connection = c = self.member.connection
        qp.connect(c.proxy_address, c.designated_qpn, c.start_psn, c.start_psn, c.path_mtu)
        self.events, self.evicted = self.member.events(), {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.events.close()
        try:
            self.member.leave()
        finally:
            self.member.close()
            self.client.close()

    def poll(self):
        """Reads pending events; raises those that end the transfer, prints the others."""
        while event := self.events.next(0):
            kind = ch.EventKind
            if event.kind == kind.EVICTED:
                self.evicted[event.host] = event.reason
                if event.host == self.member.host:
                    raise ch.GroupFailed(f"this host was removed from the group: {event.reason}")
            if event.kind == kind.FAILED:
                raise ch.GroupFailed(event.reason)
            if event.kind == kind.DELETED:
                raise ch.NoSuchGroup(f"{self.member.group} was deleted")
            if event.kind in (kind.EVICTED, kind.DEGRADED, kind.DISCONNECTED, kind.RECONNECTED, kind.SESSION_ENDED):
                print(f"{event.kind.name.lower()} {event.host} {event.reason}".strip(), file=sys.stderr)
