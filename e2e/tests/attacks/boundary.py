# SPDX-License-Identifier: Apache-2.0
"""Frames that no host outside the SRv6 domain may send, made by scapy and sent on one interface.

Reads a JSON object on standard input: `attacks` names functions below, the rest is what they need. Each attack goes out `count` times
with 0, 1, 2 and 3 VLAN tags of VID 0, and once with a tag of VID 5. Prints a JSON object: drop reason -> frames.
"""

import collections
import json
import sys

from scapy.config import conf
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import UDP
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
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
)
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw
from scapy.sendrecv import sendp

conf.verb = 0
to = json.load(sys.stdin)


def data(src, psn=1000):
    """A SEND_ONLY of the source's session, with a right ICRC."""
    bth = BTH(opcode="RC_SEND_ONLY", dqpn=to["dqpn"], psn=psn, ackreq=1)
    return IPv6(src=src, dst=to["proxy"], hlim=64) / UDP(sport=0xC000, dport=4791, chksum=0) / bth / Raw(b"forged!!")


def ack(src, dst, psn=4000):
    bth = BTH(opcode="RC_ACKNOWLEDGE", dqpn=to["dqpn"], psn=psn)
    return IPv6(src=src, dst=dst, hlim=64) / UDP(sport=0xC001, dport=4791, chksum=0) / bth / AETH(syndrome=0x1F, msn=1)


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
    yield "edge_tunnel", IPv6(src=to["host"], dst=to["peer"]) / IPv6ExtHdrDestOpt() / encapsulated(to["host"], to["end_mt"][0])[1]


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


def discovery():
    own, gateway = to["port"], to["gateway"]
    for target in [own, gateway, to["peer"]]:
        for src in [to["host"], to["link_local"]]:
            yield "edge_neighbour_discovery", IPv6(src=src, dst=own, hlim=255) / ICMPv6ND_NA(tgt=target, S=1, O=1)
        if target != to["peer"]:
            yield "edge_neighbour_discovery", IPv6(src="::", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt=target)
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


def main():
    sent = collections.Counter()
    frames = []
    for name in to["attacks"]:
        for reason, packet in globals()[name]():
            for tags in [[], [0], [0, 0], [0, 0, 0], [5]]:
                frame = Ether(dst=to["mac"])
                for vid in tags:
                    frame = frame / Dot1Q(vlan=vid)
                frames += [frame / packet] * to["count"]
                # On an edge port no other tag than one of VID 0 passes, whatever is behind it.
                passes = name == "outside" or tags in ([], [0])
                sent[reason if passes else "edge_frame"] += to["count"]
    sendp(frames, iface=to["interface"])
    print(json.dumps(sent))


main()
