# SPDX-License-Identifier: Apache-2.0
"""What the services of the packages may do, written by hand, and whether a running one has that and no more."""

import re

CAPABILITIES = {"net_bind_service": 10, "net_admin": 12, "net_raw": 13, "perfmon": 38, "bpf": 39}
# Each runs as the user of its name.
SERVICES = {
    "canopy-controller": set(),
    "canopy-agent": {"bpf", "net_admin", "perfmon", "net_raw", "net_bind_service"},
    "canopy-host-agent": set(),
    "canopy-pacer": {"bpf", "net_admin", "perfmon"},
    "canopy-steer": {"bpf", "net_admin", "perfmon", "net_raw"},
}


def pid(machine, unit):
    """The main process of a unit, in the machine."""
    return machine.out("systemctl", "show", "-P", "MainPID", unit)


def check(machine, unit):
    """Fails unless the unit's process is its own user's, with the capabilities above and behind the unit's filters."""
    status = machine.shell(f"cat /proc/{pid(machine, unit)}/status")
    field = lambda name: re.search(rf"^{name}:\s*(.*)$", status, re.M)[1].split()
    assert field("Uid")[0] == machine.out("id", "-u", unit) != "0", (unit, field("Uid"))
    wanted = sum(1 << CAPABILITIES[name] for name in SERVICES[unit])
    for kind in ("CapEff", "CapPrm", "CapBnd"):
        assert int(field(kind)[0], 16) == wanted, (unit, kind, field(kind))
    assert field("NoNewPrivs") == ["1"] and field("Seccomp") == ["2"], unit
