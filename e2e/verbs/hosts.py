# SPDX-License-Identifier: Apache-2.0
"""RDMA hosts: the far end of each of the lab's host links, with the kernel's rdma_rxe on it.

rdma_rxe serves the first network namespace only, so all hosts live in that one. Routing separates them: packets of a
host are routed by its own table before the `local` table, so every packet from one host to another leaves by the
sender's link and comes back by the receiver's.
"""

import ipaddress
import json
import subprocess
import time
from pathlib import Path

FIRST_TABLE = 100
LAB = Path("/run/canopy-lab/default/lab.json")


def run(*command, check=True):
    """Runs a command and returns its output."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}: {done.stdout}")
    return done.stdout


def interface(host):
    """The host's network interface."""
    return f"v-{host}"


def device(host):
    """The host's RDMA device."""
    return f"rxe-{host}"


def prepare():
    """Routing of the first namespace, once."""
    for name, value in (("all/accept_dad", 0), ("default/accept_dad", 0), ("default/accept_ra", 0), ("default/router_solicitations", 0)):
        Path(f"/proc/sys/net/ipv6/conf/{name}").write_text(str(value))
    # Order: the hosts' own tables, then table `local`. The new rule is added before the old one is deleted, so that
    # there is always one.
    run("ip", "-6", "rule", "add", "pref", "90", "lookup", "local")
    run("ip", "-6", "rule", "del", "pref", "0")


def attach(number, host, address, prefix_length, namespace=None, router="fe80::1"):
    """Makes the interface eth0 of `namespace` (or the interface that is here already) RDMA host `host`."""
    name, table = interface(host), str(FIRST_TABLE + number)
    if namespace:
        run("ip", "-n", namespace, "link", "set", "eth0", "netns", "1", "name", name)
    run("ethtool", "-K", name, "tx", "off", "rx", "off", "gro", "off", "gso", "off", "tso", "off")
    run("ip", "link", "set", name, "up")
    run("ip", "-6", "addr", "add", f"{address}/{prefix_length}", "dev", name, "nodad")
    run("ip", "-6", "route", "add", "default", "via", router, "dev", name, "table", table)
    run("ip", "-6", "rule", "add", "pref", str(number + 1), "iif", "lo", "from", address, "lookup", table)
    run("rdma", "link", "add", device(host), "type", "rxe", "netdev", name)


def attach_lab():
    """Attaches every host of the lab that is up."""
    prepare()
    for number, host in enumerate(_lab_hosts()):
        length = ipaddress.ip_network(host["prefix"]).prefixlen
        attach(number, host["name"], host["address"], length, f"cnp-{host['name']}")


def addresses():
    """{host: address} of the lab that is up."""
    return {host["name"]: host["address"] for host in _lab_hosts()}


def fabric_ends():
    """Both ends ("n6/eth2") of every link between two nodes."""
    spec = json.loads(LAB.read_text())["file"]["spec"]
    nodes = {node["name"] for node in spec["nodes"]}
    links = [(link["a"], link["b"]) for link in spec["links"]]
    return [end for link in links if all(e.split("/")[0] in nodes for e in link) for end in link]


def _lab_hosts():
    return json.loads(LAB.read_text())["file"]["spec"]["hosts"]


def sent_bytes(host):
    """Bytes that the host has put onto its link, with Ethernet headers."""
    return int(Path(f"/sys/class/net/{interface(host)}/statistics/tx_bytes").read_text())


def counters(host):
    """The RDMA device's counters (see rdma_rxe's rxe_hw_counters.h)."""
    base = Path(f"/sys/class/infiniband/{device(host)}/ports/1/hw_counters")
    return {f.name: int(f.read_text()) for f in base.iterdir() if f.name != "lifespan"}


def gid_index(host):
    """The index of a global address in the device's GID table, for tools that take it by number."""
    table = Path(f"/sys/class/infiniband/{device(host)}/ports/1/gids")
    for entry in sorted(table.iterdir(), key=lambda f: int(f.name)):
        gid = entry.read_text().strip()
        if not gid.startswith(("fe80", "0000")):
            return int(entry.name)
    raise LookupError(f"{device(host)} has no global GID")


def wait_listening(port, seconds=60):
    """Waits until a process listens on a TCP port."""
    deadline = time.monotonic() + seconds
    while f":{port} " not in run("ss", "-Hltn"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no process listens on port {port} after {seconds} s")
        time.sleep(0.05)
