# SPDX-License-Identifier: Apache-2.0
"""What scapy makes of packets. One input line gives one output line; the argument chooses how."""

import json
import sys

from scapy.contrib.roce import AETH, BTH, cnp
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.packet import Raw


def icrc(line):
    """Hex of a packet with its IPv6 header first -> hex of its ICRC as scapy computes it."""
    return IPv6(bytes.fromhex(line))[BTH].compute_icrc(b"").hex()


def build(line):
    """Fields by layer -> hex of the packet, everything else computed by scapy."""
    spec = json.loads(line)
    if "cnp" in spec:
        bth = cnp(spec["cnp"])
    else:
        bth = BTH(**spec["bth"])
    if "aeth" in spec:
        bth = bth / AETH(**spec["aeth"])
    if "payload" in spec:
        bth = bth / Raw(bytes.fromhex(spec["payload"]))
    return bytes(IPv6(**spec["ipv6"]) / UDP(dport=4791, chksum=0, **spec["udp"]) / bth).hex()


def srh(line):
    """Hex of an SRH -> next header, segments left, last entry, tag, segments, and every TLV in hex."""
    header = IPv6ExtHdrSegmentRouting(bytes.fromhex(line))
    fixed = [header.nh, header.segleft, header.lastentry, header.tag]
    tlvs = [bytes(tlv).hex() for tlv in header.tlv_objects]
    return " ".join(map(str, [*fixed, ",".join(header.addresses), *tlvs]))


def main():
    work = {"icrc": icrc, "build": build, "srh": srh}[sys.argv[1]]
    for line in sys.stdin:
        print(work(line.strip()))


main()
