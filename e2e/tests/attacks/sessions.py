# SPDX-License-Identifier: Apache-2.0
"""Packets that are left of an earlier session of a group, made by scapy and sent on one interface.

Reads a JSON object on standard input: `role` (source or receiver), `host` (its address), `proxy`, `dqpn` (of the session that has ended),
`psns` (of the session that is under way), `mac`, `interface` and `count`. Prints how many frames went out.
"""

import json
import sys

from scapy.config import conf
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.sendrecv import sendp

conf.verb = 0
to = json.load(sys.stdin)


def packet(opcode, psn, **bth):
    ip = IPv6(src=to["host"], dst=to["proxy"], hlim=64) / UDP(sport=0xC001, dport=4791, chksum=0)
    return ip / BTH(opcode=opcode, dqpn=to["dqpn"], psn=psn, **bth)


def of_receiver():
    """An ACK, each kind of NAK and a CNP, in the window of the present session."""
    for psn in to["psns"]:
        for syndrome in [0x1F, 0x60, 0x61, 0x62, 0x63, 0x64, 0x2A]:
            yield packet("RC_ACKNOWLEDGE", psn) / AETH(syndrome=syndrome, msn=psn & 0xFFFF)
        yield packet("CNP", 0, becn=1) / CNPPadding()


def of_source():
    for psn in to["psns"]:
        for opcode in ["RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_LAST", "RC_SEND_ONLY"]:
            yield packet(opcode, psn, ackreq=1) / Raw(b"of another session" * 3 + b"!!")


kinds = {"receiver": of_receiver, "source": of_source}
frames = [Ether(dst=to["mac"]) / p for p in kinds[to["role"]]()] * to["count"]
sendp(frames, iface=to["interface"])
print(json.dumps(len(frames)))
