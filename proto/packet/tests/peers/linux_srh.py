# SPDX-License-Identifier: Apache-2.0
"""Gives each SRH on standard input (hex, one a line) to the kernel as an IPV6_RTHDR option and prints its verdict.

The kernel validates the SRH as it does one that it is to insert or forward: type, lengths, segments, TLV by TLV.
"""

import errno
import socket
import sys

IPV6_RTHDR = 57

for line in sys.stdin:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        try:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RTHDR, bytes.fromhex(line.strip()))
            print("accepted")
        except OSError as error:
            print(errno.errorcode[error.errno])
