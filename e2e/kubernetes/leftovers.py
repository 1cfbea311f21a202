# SPDX-License-Identifier: Apache-2.0
"""What Canopy has in the kernel of a node, and what it has changed of what was there before."""

import re

# Of Kubernetes: interfaces of pods, and their bridge.
OF_PODS = re.compile(r"^(veth|cni|pod-)")
# Stays on, because others on the machine may need it: docs/operations.md.
STAYS = "forwarding"


def lines(node, *command):
    return node.place.run(*command, check=False).stdout.splitlines()


def left(node):
    """Pins, routes, rules, addresses and qdiscs of Canopy."""
    found = [f"pin {line}" for line in lines(node, "find", "/sys/fs/bpf/canopy", "-type", "f")]
    found += [f"route {line}" for line in lines(node, "ip", "-6", "route", "show", "table", "all", "proto", "201")]
    found += [f"rule {line}" for line in lines(node, "ip", "-6", "rule", "show") if "479" in line]
    found += [f"address {line}" for line in lines(node, "ip", "-6", "-oneline", "address", "show") if any(of in line for of in ("fcff:", "fe80::4:", "fe80::5:"))]
    return found + [f"qdisc {line}" for line in lines(node, "tc", "qdisc", "show") if "clsact" in line]


def kernel(node):
    """Interfaces and switches of a node, which are to be the same before and after; those of pods come and go."""
    links = [line.split()[1].split("@")[0].rstrip(":") for line in lines(node, "ip", "-oneline", "link", "show")]
    state = {f"link {name}": "there" for name in links if not OF_PODS.match(name)}
    for line in lines(node, "sysctl", "--all", "--pattern", r"^net\.ipv[46]\.conf\."):
        key, _, value = line.partition(" = ")
        device, _, switch = key.split(".", 3)[3].rpartition(".")
        # Names of interfaces may have dots, and sysctl writes them as slashes.
        if not OF_PODS.match(device) and STAYS not in switch:
            state[key] = value
    return state


def changed(before, after):
    """What is not as it was."""
    return [f"{key}: {before.get(key, 'not there')} -> {after.get(key, 'not there')}" for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
