#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a guest's kernel log has a fault of the kernel, or one of the emulator, which ran an instruction that was gone.

    scripts/guest_fault.py LOG...

Prints the faults of the logs that exist. Exit code 0: none. 1: the kernel broke. 3: QEMU executed a removed breakpoint.

Linux puts a breakpoint (int3, byte cc) over an instruction that it is about to exchange. With several emulated CPUs in
threads of their own, QEMU can keep a translation of it after the kernel has exchanged the instruction; a CPU that executes it
ends in `Oops: int3`. A breakpoint that the kernel wants is still there.
"""

import re
import sys
from pathlib import Path

FAULT = re.compile(r"Kernel panic|BUG: |Oops: |general protection fault|int3: ")
BREAKPOINT = re.compile(r"\bint3: 0000 \[#1\]")
CODE = re.compile(r"\bCode:(?: [0-9a-f]{2})* ([0-9a-f]{2}) <[0-9a-f]{2}>")
LINES_OF_A_FAULT, LINES_IN_ALL = 30, 60


def faults(log):
    """Lines of a log that are a fault, and those behind each that explain it."""
    lines, kept, until = log.splitlines(), [], -1
    for at, line in enumerate(lines):
        if FAULT.search(line):
            until = at + LINES_OF_A_FAULT
        if at <= until:
            kept.append(line)
    return kept


def is_removed_breakpoint(log):
    """Whether the first fault of a log is a breakpoint that is not where the CPU found it."""
    first = faults(log)
    if not first or not BREAKPOINT.search(first[0]):
        return False
    code = next((found for line in first if (found := CODE.search(line))), None)
    return code is not None and code[1] != "cc"


def main():
    logs = [path.read_text(errors="replace") for path in map(Path, sys.argv[1:]) if path.exists()]
    found = [log for log in logs if faults(log)]
    for log in found:
        print("\n".join(faults(log)[:LINES_IN_ALL]), file=sys.stderr)
    if not found:
        return 0
    return 3 if all(is_removed_breakpoint(log) for log in found) else 1


if __name__ == "__main__":
    sys.exit(main())
