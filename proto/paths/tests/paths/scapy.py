# SPDX-License-Identifier: Apache-2.0
"""Outer headers as scapy writes and reads them. A line `DESTINATION SEGMENTS_LEFT SEGMENT,SEGMENT...` (- for none) gives the octets in hex of
IPv6, the SRH if there are segments, and an inner IPv6 header; then what scapy reads back from these octets.
"""

import sys

from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting

INNER = IPv6(src="2001:db8::1", dst="2001:db8::3", nh=59)


def answer(line):
    destination, left, segments = line.split()
    outer = IPv6(src="2001:db8::1", dst=destination, hlim=64, nh=41)
    if segments == "-":
        packet = outer / INNER
    else:
        addresses = segments.split(",")
        srh = IPv6ExtHdrSegmentRouting(nh=41, addresses=addresses, segleft=int(left), lastentry=len(addresses) - 1)
        packet = IPv6(src="2001:db8::1", dst=destination, hlim=64, nh=43) / srh / INNER
    octets = bytes(packet)
    read = IPv6(octets)
    if IPv6ExtHdrSegmentRouting in read:
        srh = read[IPv6ExtHdrSegmentRouting]
        return f"{octets.hex()} {read.dst} {srh.segleft} {','.join(srh.addresses)}"
    return f"{octets.hex()} {read.dst} 0 -"


def main():
    for line in sys.stdin:
        print(answer(line.strip()))


main()
