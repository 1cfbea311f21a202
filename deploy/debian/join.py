# SPDX-License-Identifier: Apache-2.0
"""An application, by the Python module and the library of the packages; its membership stays when it ends.

    join.py SOCKET GROUP HOST ROLE QPN
"""

import sys

import canopy_host as ch

socket, group, host, role, qpn = sys.argv[1:]
try:
    with ch.Client(socket) as client:
        print("joined, to", client.join(group, host, ch.Role[role], int(qpn), lease=False).connection.proxy_address)
except ch.CanopyError as error:
    print(type(error).__name__, error)
