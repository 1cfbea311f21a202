# SPDX-License-Identifier: Apache-2.0
"""Frames of a group's source that are not one packet to its node: UDP GSO buffers, another VLAN, another link-layer address.

Reads a JSON object on standard input: `source` and `proxy` (addresses), `qpn` and `psn` (of the session), `mac` (the node's port), `interface`
and `packets` (of each kind). Every payload begins with FORG. Prints how many frames of each kind went out.
"""

import json
import socket
import sys

from scapy.config import conf
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw
from scapy.sendrecv import sendp

# linux/udp.h
UDP_SEGMENT = 103
PACKETS_OF_A_BUFFER = 8

conf.verb = 0
to = json.load(sys.stdin)


def packet(psn):
    """A SEND_ONLY that the headend would take, with a right ICRC."""
    ip = IPv6(src=to["source"], dst=to["proxy"], hlim=64) / UDP(sport=0xC000, dport=4791, chksum=0)
    return ip / BTH(opcode="RC_SEND_ONLY", dqpn=to["qpn"], psn=psn, ackreq=1) / Raw(b"FORG" * 25)


def send_buffers():
    """One write, from which the kernel would make several packets behind this interface."""
    sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sender.bind((to["source"], 0xC000))
    datagrams = [bytes(packet(to["psn"] + i)[UDP].payload) for i in range(PACKETS_OF_A_BUFFER)]
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(datagrams[0]))
    for _ in range(to["packets"]):
        sender.sendto(b"".join(datagrams), (to["proxy"], 4791))


def send_frames(begin):
    frames = [begin / packet(to["psn"] + i) for i in range(to["packets"])]
    sendp(frames, iface=to["interface"])


send_buffers()
send_frames(Ether(dst=to["mac"]) / Dot1Q(vlan=7))
send_frames(Ether(dst="02:00:5e:00:00:01"))
print(json.dumps(dict.fromkeys(["gso", "vlan", "other"], to["packets"])))
