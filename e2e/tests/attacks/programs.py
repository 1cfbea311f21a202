# SPDX-License-Identifier: Apache-2.0
"""Packets with path programs, as a node would send them that has a source behind it.

Reads a JSON object on standard input: `interface`, `mac` (of the port at its far end), `source` (the node's address), `from` and `to` (of the
inner packet), `programs` (a list of destination, Segments Left and Segment List), and `packets` (of each). Prints how many were sent.
"""

import json
import socket
import sys

from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether
from scapy.packet import Raw

to = json.load(sys.stdin)
inner = IPv6(src=to["from"], dst=to["to"], hlim=63, tc=2) / UDP(sport=0xC000, dport=4791) / Raw(b"PATH" * 25)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((to["interface"], 0))
sent = 0
for destination, left, segments in to["programs"]:
    outer = IPv6(src=to["source"], dst=destination, hlim=64, fl=0x54321, tc=3, nh=43 if segments else 41)
    if segments:
        outer /= IPv6ExtHdrSegmentRouting(nh=41, addresses=segments, segleft=left, lastentry=len(segments) - 1)
    for _ in range(to["packets"]):
        out.send(bytes(Ether(dst=to["mac"]) / outer / inner))
        sent += 1
print(json.dumps({"sent": sent}))
