# SPDX-License-Identifier: Apache-2.0
"""Frames that no host outside the SRv6 domain may send, made by scapy and sent on one interface.

Reads a JSON object on standard input: `attacks` names functions below, the rest is what they need. Each attack goes out `count` times
with 0, 1, 2 and 3 VLAN tags of VID 0 and with a tag of VID 5, and once with other tags. Every IPv6 header has the flow label `label`.
Prints a JSON object: drop reason -> frames; `none` where no filter of the boundary counts them.
"""

import collections
import functools
import json
import socket
import sys

from scapy.arch import get_if_hwaddr
from scapy.config import conf
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6ND_Redirect,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
)
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

conf.verb = 0
to = json.load(sys.stdin)

# VLAN tags as (class, VID); the first ones are sent `count` times.
C, S = Dot1Q, Dot1AD
OFTEN = [[], [(C, 0)], [(C, 0), (C, 0)], [(C, 0), (C, 0), (C, 0)], [(C, 5)]]
ONCE = [[(C, 5), (C, 0)], [(C, 0), (C, 5)], [(S, 0)], [(S, 5)], [(S, 0), (C, 0)]]


def data(src, psn=1000):
    """A SEND_ONLY of the source's session, with a right ICRC."""
    bth = BTH(opcode="RC_SEND_ONLY", dqpn=to["dqpn"], psn=psn, ackreq=1)
    return IPv6(src=src, dst=to["proxy"], hlim=64) / UDP(sport=0xC000, dport=4791, chksum=0) / bth / Raw(b"forged!!")


def ack(src, dst, psn=4000, syndrome=0x1F):
    bth = BTH(opcode="RC_ACKNOWLEDGE", dqpn=to["dqpn"], psn=psn)
    return IPv6(src=src, dst=dst, hlim=64) / UDP(sport=0xC001, dport=4791, chksum=0) / bth / AETH(syndrome=syndrome, msn=1)


def cnp(src, dst):
    bth = BTH(opcode="CNP", dqpn=to["dqpn"], becn=1)
    return IPv6(src=src, dst=dst, hlim=64) / UDP(sport=0xC001, dport=4791, chksum=0) / bth / CNPPadding()


def encapsulated(src, sid):
    srh = IPv6ExtHdrSegmentRouting(addresses=[to["proxy"], sid], segleft=1, lastentry=1)
    return IPv6(src=src, dst=sid, hlim=64) / srh / data(to["source"])


def sids():
    return to["end_mt"] + to["uns"] + to["trees"]


def encapsulation():
    for sid in sids():
        for src in [to["host"], *to["nodes"]]:
            yield "edge_tunnel", encapsulated(src, sid)
    yield "edge_tunnel", IPv6(src=to["host"], dst=to["peer"]) / IPv6ExtHdrRouting(addresses=[to["proxy"]]) / UDP(dport=4791)
    inner = encapsulated(to["host"], to["end_mt"][0])
    yield "edge_tunnel", IPv6(src=to["host"], dst=to["peer"]) / IPv6ExtHdrDestOpt() / inner[1]
    hidden = IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrRouting(addresses=[to["proxy"]])
    yield "edge_tunnel", IPv6(src=to["host"], dst=to["peer"]) / hidden / UDP(dport=4791)
    for dst in [to["peer"], to["proxy"]]:
        yield "edge_tunnel", IPv6(src=to["host"], dst=dst) / inner
        yield "edge_tunnel", IPv6(src=to["host"], dst=dst) / IPv6ExtHdrDestOpt() / inner
        yield "edge_tunnel", IPv6(src=to["host"], dst=dst) / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(dport=4791)
    # SIDs in an IPv4 tunnel (RFC 4213).
    yield "edge_frame", IP(src="192.0.2.1", dst="192.0.2.2") / inner


def steering():
    for sid in sids():
        yield "edge_sid", IPv6(src=to["host"], dst=sid) / UDP(dport=4791) / Raw(b"x" * 20)


def names_of_others():
    """Feedback in a node's, a receiver's and the source's name."""
    for src in [*to["nodes"], to["source"], to["peer"]]:
        yield "edge_source", ack(src, to["proxy"])
        for node in to["nodes"]:
            yield "edge_source", ack(src, node)
        yield "edge_source", data(src)


def nodes():
    for node in to["nodes"]:
        yield "edge_node_address", ack(to["host"], node)
        yield "edge_node_address", IPv6(src=to["host"], dst=node) / ICMPv6EchoRequest()


def proxy():
    fragments = [(0, 1), (1, 1), (100, 0)]
    for offset, more in fragments:
        whole = data(to["host"])
        yield "edge_proxy_prefix", IPv6(src=to["host"], dst=to["proxy"]) / IPv6ExtHdrFragment(
            nh=17, offset=offset, m=more, id=7
        ) / whole[UDP]
    yield "edge_proxy_prefix", IPv6(src=to["host"], dst=to["proxy"]) / UDP(dport=4790)
    yield "edge_proxy_prefix", IPv6(src=to["host"], dst=to["proxy"]) / ICMPv6EchoRequest()


def chains():
    many = IPv6(src=to["host"], dst=to["proxy"])
    for _ in range(5):
        many = many / IPv6ExtHdrDestOpt()
    yield "edge_headers", many / data(to["host"])[UDP]
    # One header of 264 octets.
    long = Raw(bytes([17, 32]) + bytes(262) + bytes(data(to["host"]))[40:])
    yield "edge_headers", IPv6(src=to["host"], dst=to["proxy"], nh=60) / long


def link_local():
    """Groups by their multicast address, and packets without a global source."""
    for dst in [to["multicast"], "ff05::1", "ff02::1"]:
        yield "edge_link_local", IPv6(src=to["host"], dst=dst) / data(to["host"])[UDP]
    for src in [to["link_local"], "::"]:
        for dst in [to["proxy"], to["peer"], to["nodes"][0], to["multicast"]]:
            yield "edge_link_local", ack(src, dst)


def own_name():
    """Feedback and data to a group in the own name of a host that is no member of it."""
    host, proxy = to["host"], to["proxy"]
    for psn in [to["start"], 4000]:
        yield "branch_unknown", ack(host, proxy, psn)
        # PSN sequence error, RNR, remote operational error.
        for syndrome in [0x60, 0x2C, 0x63]:
            yield "branch_unknown", ack(host, proxy, psn, syndrome)
        yield "branch_unknown", data(host, psn)
    yield "branch_unknown", cnp(host, proxy)


def to_outside():
    """A host to a network behind an interface of its node that the topology does not have."""
    yield "none", IPv6(src=to["host"], dst=to["beyond"]) / UDP(dport=4791) / Raw(b"x" * 20)


def discovery():
    own, gateway = to["port"], to["gateway"]
    for target in [own, gateway, to["peer"]]:
        for src in [to["host"], to["link_local"]]:
            yield "edge_neighbour_discovery", IPv6(src=src, dst=own, hlim=255) / ICMPv6ND_NA(tgt=target, S=1, O=1)
        if target != to["peer"]:
            yield "edge_neighbour_discovery", IPv6(src="::", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt=target)
    for target in [to["peer"], to["proxy"], to["end_mt"][0], *to["nodes"]]:
        for src in [to["host"], to["link_local"]]:
            for dst in ["ff02::1:ff00:1", own]:
                yield "edge_neighbour_discovery", IPv6(src=src, dst=dst, hlim=255) / ICMPv6ND_NS(tgt=target)
    for hop_limit in [254, 1]:
        yield "edge_neighbour_discovery", IPv6(src=to["host"], dst=own, hlim=hop_limit) / ICMPv6ND_NS(tgt=own)
        yield "edge_neighbour_discovery", IPv6(src=to["host"], dst=own, hlim=hop_limit) / ICMPv6ND_NA(tgt=to["host"], S=1)
    for more in [0, 1]:
        fragment = IPv6ExtHdrFragment(nh=58, offset=0, m=more, id=9)
        yield "edge_neighbour_discovery", IPv6(src=to["host"], dst=own, hlim=255) / fragment / ICMPv6ND_NS(tgt=own)
        yield "edge_neighbour_discovery", IPv6(src=to["host"], dst=own, hlim=255) / fragment / ICMPv6ND_NA(tgt=to["host"])
    yield "edge_neighbour_discovery", IPv6(src=to["link_local"], dst="ff02::1", hlim=255) / ICMPv6ND_RA()
    yield "edge_neighbour_discovery", IPv6(src=gateway, dst=own, hlim=255) / ICMPv6ND_Redirect(tgt=own, dst=to["peer"])


def too_big():
    """Errors of the host, to its node and to others: the path to a node, to another host or to the source has an MTU of 1280."""
    for about in [*to["nodes"], to["peer"], to["source"]]:
        for dst in [to["gateway"], to["port"], to["peer"]]:
            for src in [to["nodes"][0], to["host"]]:
                quoted = IPv6(src=src, dst=about) / ICMPv6EchoRequest()
                yield "edge_icmp_error", IPv6(src=to["host"], dst=dst) / ICMPv6PacketTooBig(mtu=1280) / quoted
        yield "edge_icmp_error", IPv6(src=to["host"], dst=to["gateway"]) / IPv6ExtHdrFragment(nh=58, m=1, id=8) / (
            ICMPv6PacketTooBig(mtu=1280) / IPv6(src=to["nodes"][0], dst=about) / ICMPv6EchoRequest()
        )


def strays():
    """Data of the source's own address and of its group, 4 million PSNs and more ahead, as an earlier connection may have sent."""
    for ahead in [4_000_000, 4_000_001, 8_000_000]:
        yield "psn_flight", data(to["source"], (to["start"] + ahead) % (1 << 24))


def outside():
    for dst in [*sids(), *to["nodes"], to["proxy"], to["multicast"]]:
        yield "outside", ack(to["host"], dst)
        yield "outside", encapsulated(to["nodes"][0], dst)
    # Errors about paths in the domain, to an address of the node itself.
    for about in [*to["nodes"], to["source"]]:
        quoted = IPv6(src=to["host"], dst=about) / ICMPv6EchoRequest()
        yield "outside", IPv6(src=to["host"], dst="fe80::1") / ICMPv6PacketTooBig(mtu=1280) / quoted


def from_outside():
    """Hosts and what is theirs, from an interface of a node that the topology does not have."""
    for dst in [to["source"], to["peer"]]:
        yield "none", IPv6(src=to["host"], dst=dst) / UDP(dport=4791) / Raw(b"x" * 20)
        yield "none", IPv6(src=to["proxy"], dst=dst) / data(to["source"])[UDP]


def fabric():
    """What a node sends to its child, and what it never sends, to a port without a filter."""
    for dst in [*sids(), to["multicast"]]:
        for src in to["nodes"]:
            yield "none", encapsulated(src, dst)
    for src in [*to["nodes"], to["peer"]]:
        for dst in [*to["nodes"], to["proxy"], to["peer"]]:
            yield "none", ack(src, dst)
    yield "none", data(to["source"])


def expected(name, reason, tags):
    """Which reason counts a frame with such tags."""
    if name == "fabric":
        return "none"
    if name in ("outside", "from_outside"):
        # The kernel has no VLAN 5 there.
        return "none" if tags == [(C, 5), (C, 0)] else nested(reason, tags)
    # On an edge port no other tag than one of VID 0 passes, whatever is behind it.
    return reason if tags in ([], [(C, 0)], [(S, 0)]) else "edge_frame"


def nested(reason, tags):
    return "outside" if len(tags) > 1 and tags[0][1] == 0 else reason


def labelled(packet):
    layer = packet
    while layer:
        if isinstance(layer, IPv6):
            layer.fl = to["label"]
        layer = layer.payload
    return packet


@functools.cache
def link_header(tags, protocol):
    frame = Ether(src=get_if_hwaddr(to["interface"]), dst=to["mac"])
    for kind, vid in tags:
        frame = frame / kind(vlan=vid)
    return bytes(frame / Raw())[:-2] + protocol


def main():
    sent = collections.Counter()
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((to["interface"], 0))
    for name in to["attacks"]:
        for reason, packet in globals()[name]():
            octets = bytes(labelled(packet))
            protocol = b"\x86\xdd" if isinstance(packet, IPv6) else b"\x08\x00"
            for tags in OFTEN + ONCE:
                count = to["count"] if tags in OFTEN else 1
                for _ in range(count):
                    wire.send(link_header(tuple(tags), protocol) + octets)
                sent[expected(name, reason, tags)] += count
    print(json.dumps(sent))


main()
