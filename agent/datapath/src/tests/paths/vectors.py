#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.txt: packets with path programs at each node that they pass, before and behind it, as scapy builds them. What a node does is
written here from RFC 9800 and RFC 8986 anew, over lists of 16-bit words.

    python3 vectors.py > vectors.txt
"""

from ipaddress import IPv6Address
from random import Random

from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.packet import Raw

# Ports of the test bed's node: the uA of each, and d0 leads to hosts.
PORTS = {"u0": 0xE001, "d0": 0xE002, "d1": 0xE003, "d2": 0xE004, "d3": 0xE005}
HOST, FAR_HOST = "2001:db8:1::100", "2001:db8:77::1"
SOURCE = "fcff:0:0:9::1"


def address(words):
    return str(IPv6Address(b"".join(w.to_bytes(2, "big") for w in [0x5F00, 0, *words, *[0] * (6 - len(words))])))


def words_of(text):
    packed = IPv6Address(text).packed
    return [int.from_bytes(packed[i : i + 2], "big") for i in range(4, 16, 2)]


def inner(dst=HOST, tc=0, hlim=63, octets=b"path program"):
    return IPv6(src="2001:db8:ff::1", dst=dst, tc=tc, hlim=hlim) / UDP(sport=0xC000, dport=4791) / Raw(octets)


def packet(words, segments=(), left=0, tc=0, hlim=64, carried=None, last=None, fl=0x12345):
    outer = IPv6(src=SOURCE, dst=address(words), tc=tc, fl=fl, hlim=hlim, nh=43 if segments else 41)
    if segments:
        srh = IPv6ExtHdrSegmentRouting(nh=41, addresses=[address(s) for s in segments], segleft=left, lastentry=len(segments) - 1)
        outer = outer / srh
    return outer / (carried or inner())


def ecn(outer, carried):
    """RFC 6040 figure 4."""
    table = {3: {1: 3, 2: 3, 3: 3}, 1: {2: 1}}
    return table.get(outer, {}).get(carried, carried)


def step(me, far, p):
    """The port that the packet leaves by, - for the kernel's choice, and the packet."""
    p = IPv6(bytes(p))
    words = words_of(p.dst)
    srh = p[IPv6ExtHdrSegmentRouting] if IPv6ExtHdrSegmentRouting in p else None
    carried = (srh or p).payload
    left = srh.segleft if srh else 0
    port, changed, ended = None, False, False
    by_ua = {ua: name for name, ua in PORTS.items()}
    by_un = {un: name for name, un in far.items()}
    behind_un = False
    while port is None and not ended:
        word = words[0]
        if word in by_ua:
            port = by_ua[word]
        elif behind_un:
            return by_un[word], emit(p, srh, words, left, changed, carried)
        else:
            assert word == me, hex(word)
            behind_un = True
        rest = words[1:]
        if any(rest):
            words = rest
        elif left:
            left -= 1
            words, changed = words_of(srh.addresses[left]), True
        else:
            ended = True
    if not ended:
        return port, emit(p, srh, words, left, changed, carried)
    carried = carried.copy()
    carried.tc = carried.tc & ~3 | ecn(p.tc & 3, carried.tc & 3)
    if port in (None, "d0"):
        return "-", carried
    carried.hlim -= 1
    return port, carried


def emit(p, srh, words, left, changed, carried):
    out = IPv6(src=p.src, dst=address(words), tc=p.tc, fl=p.fl, hlim=p.hlim - 1)
    if srh and (left or not changed):
        srh = srh.copy()
        srh.remove_payload()
        srh.segleft = left
        return out / srh / carried
    return out / carried


def line(name, me, far, port, p):
    to, out = step(me, far, p)
    uns = ",".join(f"{far.get(name, 0):x}" for name in ("u0", "d1", "d2", "d3"))
    print(name, f"{me:x}", uns, port, to, bytes(p).hex(), bytes(out).hex())
    return out


def walk(name, nodes, p):
    """Through nodes, each with its uSID, its neighbours by port, and the port on which the packet arrives."""
    for number, (me, far, port) in enumerate(nodes, 1):
        p = line(f"{name}/{number}", me, far, port, p)


print("# name, uSID of the node, uNs behind u0, d1, d2, d3, port of arrival, port by which it leaves, packet, packet behind the node; by vectors.py")
spines = {"d1": 0x500, "d2": 0x600}
leaves = {"u0": 0x200, "d1": 0x100, "d2": 0x300, "d3": 0x400}
# The illustration of draft-filsfils-srv6-ai-backends section 7: GPU1 -> GPU3, GPU2 -> GPU3, and the first after the switch to Spine6.
walk("gpu1-gpu3", [(0x100, spines, "d3"), (0x500, leaves, "d1"), (0x300, spines, "d1")], packet([0x100, 0x500, 0x300]))
walk("gpu2-gpu3", [(0x200, spines, "d3"), (0x600, leaves, "u0"), (0x400, spines, "d2")], packet([0x200, 0x600, 0x400]))
walk("spine6", [(0x100, spines, "d3"), (0x600, leaves, "d1"), (0x300, spines, "d2")], packet([0x100, 0x600, 0x300]))
# Three tiers: five uNs and a service fill the address.
walk(
    "full",
    [(0x11, {"d1": 0x21}, "u0"), (0x21, {"d1": 0x31}, "u0"), (0x31, {"d2": 0x22}, "u0"), (0x22, {"d3": 0x12}, "u0")],
    packet([0x11, 0x21, 0x31, 0x22, 0x12, 0xF100]),
)
# uAs alone, the last one to the host, or to another node, without a header; behind uNs where links are parallel.
alone = [(1, {}, "u0"), (0x21, {}, "u0"), (2, {}, "u0")]
walk("uas", alone, packet([0xE003, 0xE004, 0xE002]))
walk("uas-to-a-node", alone, packet([0xE003, 0xE004, 0xE005]))
walk("parallel", [(1, {}, "u0"), (5, {}, "u0"), (2, {}, "u0")], packet([1, 0xE004, 5, 0xE003, 2]))
# A row of eight: the SRH goes with its last segment, at node 6.
row = [(n, {"u0": n - 1, "d1": n + 1}, "u0") for n in range(1, 9)]
walk("psp", row, packet([1, 2, 3, 4, 5, 6], [[7, 8]], 1))
walk("two-segments", row, packet([1, 2, 3], [[7, 8], [4, 5, 6]], 2))
walk("ua-psp", [(1, {}, "u0"), (2, {"d3": 3}, "u0")], packet([0xE005], [[2, 3]], 1))
walk("segment-of-uas", [(1, {}, "u0"), (2, {}, "u0")], packet([1], [[0xE003, 2]], 1))
# Segments Left 0 on arrival: a node without PSP left the SRH there.
walk("srh-stays", [(1, {"d1": 2}, "u0"), (2, {}, "u0")], packet([1, 2], [[9, 9]], 0))
# A Replication-SID behind a uN arrives whole.
walk("to-a-tree", [(1, {"d1": 7}, "u0")], packet([1, 7, 0xF002, 0x12, 0x34]))
for outer in range(4):
    for carried in range(4):
        if (outer, carried) != (3, 0):
            line(f"ecn-{outer}-{carried}", 1, {}, "u0", packet([1], tc=0xB8 | outer, carried=inner(tc=0x20 | carried)))
random = Random(9800)
for number in range(60):
    if not number % 6:
        far = {name: un for name, un in zip(("u0", "d1", "d2", "d3"), random.sample(range(2, 0xE000), 4))}
    uas = [ua for name, ua in PORTS.items() if name != "d0"]
    first = random.choice([[1, random.choice(list(far.values()))], [random.choice(uas)], [1, random.choice(uas)]])
    rest = [random.choice([random.randrange(1, 0xE000), random.choice(uas)]) for _ in range(random.randint(0, 6 - len(first)))]
    segments = [[random.choice(list(far.values())), random.randrange(1, 0xE000)] for _ in range(random.choice([0, 0, 1, 3]))]
    left = random.randint(0, len(segments))
    if not rest and left and random.random() < 0.5:
        first = first[:1] if first[0] == 1 else first
    carried = inner(FAR_HOST, random.choice([1, 2, 3]), random.randint(2, 255), random.randbytes(random.randint(0, 200)))
    p = packet(first + rest, segments, left, random.randrange(256), random.randint(2, 255), carried, fl=random.randrange(1 << 20))
    line(f"random-{number}", 1, far, random.choice(list(far)), p)
