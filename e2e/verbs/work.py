# SPDX-License-Identifier: Apache-2.0
"""What is transferred: a list of operations, and the memory that a receiver must have afterwards.

An operation is a dict: `op` (send, send_imm, write, write_imm, read, atomic), `size` in bytes, `at` its offset in the memory of
the receiver, and `imm`. Operations do not touch each other: between them are bytes that must not be written.
"""

import hashlib
import random

GAP = 61
FILL = 0xA5
IMM = ("send_imm", "write_imm")
# A SEND of any kind and a WRITE with immediate consume a receive; a WRITE does not.
CONSUMES = ("send", "send_imm", "write_imm")


def plan(ops, sizes):
    """Every size with every operation in turn. A SEND comes last: its completion implies that all before it has
    arrived."""
    work, at = [], GAP
    for i, (op, size) in enumerate([(op, size) for size in sizes for op in ops] + [("send", 1)]):
        work.append({"op": op, "size": size, "at": at, "imm": 0x10000 + i})
        at += size + GAP
    return work


def capacity(work):
    """Bytes of memory that a receiver needs."""
    return max((o["at"] + o["size"] for o in work), default=0) + GAP


def content(seed, number, size):
    """The bytes of operation `number`."""
    return random.Random(f"{seed}/{number}").randbytes(size)


def memory(work, seed, length):
    """The whole memory after `work`."""
    image = bytearray([FILL]) * length
    for number, o in enumerate(work):
        image[o["at"] : o["at"] + o["size"]] = content(seed, number, o["size"])
    return bytes(image)


def digest(data):
    """SHA-256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()
