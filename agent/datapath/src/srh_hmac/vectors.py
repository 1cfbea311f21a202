#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors.txt: HMACs by RFC 8754 section 2.1.2.1, with Python's hmac, hashlib and ipaddress alone.

    python3 vectors.py > vectors.txt
"""

import hashlib
import hmac
from ipaddress import IPv6Address
from random import Random


def line(secret: bytes, flags: int, key_id: int, source: str, segments: list[str]) -> str:
    text = IPv6Address(source).packed + bytes([len(segments) - 1, flags]) + key_id.to_bytes(4, "big")
    text += b"".join(IPv6Address(segment).packed for segment in segments)
    mac = hmac.new(secret, text, hashlib.sha256).hexdigest()
    return " ".join([secret.hex(), str(flags), str(key_id), source, ",".join(segments), mac])


print("# secret, flags, key id, source, Segment List in the order of the wire, HMAC; made by vectors.py")
# The group of the test bed, from its headend n1.
for flags in (0, 8):
    print(line(bytes([7] * 32), flags, 0x01020304, "fcff:0:0:1::1", ["fcfe::1", "5f00:0:1:f002:0:7::"]))
random = Random(8754)
for _ in range(20):
    address = lambda: str(IPv6Address(random.getrandbits(128)))
    segments = [address() for _ in range(random.randint(1, 5))]
    print(line(random.randbytes(32), random.choice([0, 8]), random.randint(1, 2**32 - 1), address(), segments))
