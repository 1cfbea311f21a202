# SPDX-License-Identifier: Apache-2.0
"""A compromised host of leaf1, which may send path programs, sends those that it may not: each packet has one thing wrong.

Reads a JSON object on standard input: `interface`, `mac` (of the port at its far end), `packets` and `seed`. Prints how many it sent of each
kind. The octets are made here, field by field; nothing of the project is asked what a program may be.
"""

import collections
import ipaddress
import json
import random
import socket
import struct
import sys

LEAF1, LEAF3, SPINES, NODES = 0x100, 0x300, (0x500, 0x600), {0x100, 0x200, 0x300, 0x400, 0x500, 0x600}
ME, PEER = "2001:db8:0:1::1", "2001:db8:0:3::1"
BLOCK = (0x5F00, 0)

given = json.load(sys.stdin)
draw = random.Random(given["seed"])


def octets(address):
    return ipaddress.IPv6Address(address).packed


def sid(usids):
    return struct.pack("!8H", *BLOCK, *(list(usids) + [0] * 6)[:6])


def ipv6(src, dst, following, payload, hop_limit=64):
    return struct.pack("!IHBB", 0x60000000, len(payload), following, hop_limit) + octets(src) + dst + payload


def inner(src=ME, dst=PEER, following=17, payload=b"\xc0\x00\x12\xb7\x00\x1c\x00\x00" + b"FORGED" * 3 + b"\x00\x00"):
    return ipv6(src, octets(dst), following, payload)


def program(usids, carried=None, src=ME):
    return ipv6(src, sid(usids), 41, inner() if carried is None else carried)


def srh(segments, left, last=None, kind=4, flags=0, more=b""):
    last = len(segments) - 1 if last is None else last
    head = struct.pack("!BBBBBBH", 41, 2 * len(segments) + len(more) // 8, kind, left, last, flags, 0)
    return head + b"".join(segments) + more


def good():
    """A program to leaf3 that the host may send."""
    return [LEAF1, draw.choice(SPINES)] + draw.choice(([], [0x200, draw.choice(SPINES)])) + [LEAF3]


def no_function():
    """A value that is no uSID of a host's program, wherever it stands."""
    unknown = draw.randrange(1, 0xE000)
    while unknown in NODES:
        unknown = draw.randrange(1, 0xE000)
    return draw.choice((0xE000, 0xF001, 0xF002, draw.randrange(0xF000, 0x10000), unknown))


def first():
    usids = good()
    usids[0] = draw.choice([value for value in (draw.randrange(1, 0x10000), 0x300, 0x500, 0xE001) if value != LEAF1])
    return program(usids)


def between():
    usids = good()
    usids.insert(draw.randrange(1, len(usids)), no_function())
    return program(usids)


def gap():
    usids = good()
    usids.insert(draw.randrange(1, len(usids)), 0)
    return program(usids)


def links():
    usids = good()
    usids[1:1] = [draw.randrange(0xE001, 0xF000), draw.randrange(0xE001, 0xF000)]
    return program(usids)


def last():
    usids = good()
    usids[-1] = draw.choice([value for value in (0, 0x100, 0x200, 0x400, 0x500, 0xE003, draw.randrange(0x10000)) if value != LEAF3])
    return program(usids)


def behind():
    return program(good() + [draw.choice((0xE003, 0xF100, 0x400, no_function()))])


def to_others():
    dst = draw.choice(("2001:db8:0:2::1", "2001:db8:0:4::1", "2001:db8:9::1", "5f00:0:300::", "5f00:0:300:f001::", "fcff:0:0:300::1", "fcfe::1", "ff02::1", "fe80::1"))
    return program(good(), inner(dst=dst))


def in_the_name_of_others():
    src = draw.choice(("2001:db8:0:2::1", "2001:db8:0:3::1", "fcff:0:0:100::1", "5f00:0:100::", "fcfe::1"))
    return draw.choice((lambda: program(good(), inner(src=src)), lambda: program(good(), src=src)))()


def tunnels():
    return program(good(), draw.choice((
        lambda: inner(following=41, payload=inner()), lambda: inner(following=4, payload=b"\x45" * 20),
        lambda: inner(following=43, payload=srh([octets(PEER)], 0) + inner()),
        lambda: inner(following=60, payload=b"\x29\x00\x01\x04\x00\x00\x00\x00" + inner()),
        lambda: program(good()),
    ))())


def segments():
    """The destination leads to a spine; what the SRH has behind it is not to leaf3, or is no SRH."""
    to, bad = sid([LEAF3]), sid([draw.choice((0x200, 0x400, 0xE003, 0xF001, no_function()))])
    header = draw.choice((
        lambda: srh([bad], 1), lambda: srh([octets("2001:db8:0:3::1")], 1), lambda: srh([bytes(16)], 1), lambda: srh([bad, to], 2),
        lambda: srh([to, octets("2001:db8::1")], 2), lambda: srh([to], 0), lambda: srh([to], 2), lambda: srh([to], 1, last=3),
        lambda: srh([to], 1, kind=draw.choice((0, 2, 3, 5))), lambda: srh([to], 1, flags=draw.randrange(1, 256)),
        lambda: srh([to], 1, more=b"\x05\x06" + bytes(6)), lambda: srh([to] + [sid([0x500])] * 3, 4),
    ))()
    return ipv6(ME, sid([LEAF1, draw.choice(SPINES)]), 43, header + inner())


def carried():
    return ipv6(ME, sid(good()), draw.choice((17, 6, 4, 58, 59, 60, 0, 44)), inner())


def length():
    packet = bytearray(program(good()))
    packet[5] += draw.choice((-9, -1, 1, 9))
    return bytes(packet) + bytes(9)


def version():
    packet = bytearray(draw.choice((lambda: program(good()), lambda: program(good(), bytes([0x45]) + inner()[1:])))())
    if packet[40] == 0x60:
        packet[0] = draw.choice([value for value in range(0, 256, 16) if value != 0x60])
    return bytes(packet)


def loops():
    """Longer than a way there and back over two tiers, or back and forth."""
    spine, other = draw.sample(SPINES, 2)
    usids = draw.choice((
        [LEAF1, spine, LEAF1, spine, LEAF3], [LEAF1, spine, LEAF3, spine, 0x200, LEAF3], [LEAF1, spine, 0x200, other, 0x400, LEAF3],
        [LEAF1, spine, LEAF3, spine, LEAF3],
    ))
    if draw.random() < 0.5:
        return program(usids)
    at = draw.randrange(2, len(usids))
    return ipv6(ME, sid(usids[:at]), 43, srh([sid(usids[at:])], 1) + inner())


def headers():
    """Another header in front of what would be a good program."""
    rest = draw.choice((program(good())[40:], srh([sid([LEAF3])], 1) + inner()))
    following, kind = (41, 60) if rest[0] == 0x60 else (43, draw.choice((60, 0)))
    return ipv6(ME, sid(good()), kind, bytes([following, 0, 1, 4, 0, 0, 0, 0]) + rest)


KINDS = (
    first, between, gap, links, last, behind, to_others, in_the_name_of_others, tunnels, segments, carried, length, version, loops, headers,
)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((given["interface"], 0))
ethernet = bytes.fromhex(given["mac"].replace(":", "")) + b"\x02\x00\x00\x00\x00\x66" + b"\x86\xdd"
sent = collections.Counter()
for number in range(given["packets"]):
    kind = KINDS[number % len(KINDS)]
    out.send(ethernet + kind())
    sent[kind.__name__] += 1
print(json.dumps(sent))
