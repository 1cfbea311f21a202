#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figure 1 on machines that share nothing but the network, installed from the packages as docs/installation.md has it.

    run.py DIRECTORY_OF_PACKAGES [TOPOLOGY] [ROOT]

A controller, and a machine for each node and each host of the topology (e2e/topologies/figure1.yaml), whose first host is the source.
Interfaces and settings are the files of docs/installation.md. With ROOT, copies of that root are booted instead of a new one. Needs root,
mmdebstrap, systemd-nspawn and PyYAML. Leaves nothing behind.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "e2e/machines"), str(TOP / "deploy/debian")]
import services  # noqa: E402
import steps  # noqa: E402
from apart import not_shared  # noqa: E402
from fleet import FIGURE_1, Fleet  # noqa: E402
from machine import until  # noqa: E402
from strangers import OtherAuthority, in_the_name_of  # noqa: E402
from transfer import Transfer  # noqa: E402

DOCUMENT = (TOP / "docs/installation.md").read_text()
CONTROLLER = "https://controller.example:8641"
SOCKET = "unix:/run/canopy/host.sock"
MIB = 1 << 20
# How long a membership outlasts its host.
GRACE = "15s"
# What the management network's own manager writes.
MANAGED = """
[Match]
Name=mgmt0

[Network]
IPv6AcceptRA=no
Address={address}/64
"""


def documented(path):
    """A file of docs/installation.md."""
    return re.search(rf"^```ini\n# {re.escape(path)}\n(.*?)^```$", DOCUMENT, re.M | re.S)[1]


def line_of(path):
    """The line that docs/installation.md adds to a file of settings."""
    return re.search(rf"\| `{re.escape(path)}` \| `([^`]*)`", DOCUMENT)[1]


class Machines:
    """The steps of the test, in their order."""

    def __init__(self, fleet, debs):
        self.f, self.debs = fleet, {path.name.split("_")[0]: path for path in debs}
        self.source, *self.receivers = fleet.hosts

    def at(self, name):
        """The machine of a node or host."""
        return self.f.machines[name]

    def packages(self, name):
        """The packages of a machine, as docs/installation.md has them."""
        if name in self.f.nodes:
            return ["canopy-agent"]
        return ["canopy-host", "canopy-tools"] if name in self.f.hosts else ["canopy-controller", "canopyctl"]

    def step_interfaces_are_set_up(self):
        def configure(name, of):
            files = {"/etc/systemd/network/10-management.network": MANAGED.format(address=self.f.addresses[name])}
            if name in self.f.hosts:
                host, path = self.f.hosts[name], "/etc/systemd/network/20-rdma.network"
                text, count = re.subn(r"^Address=.*$", f"Address={host['address']}/{host['prefix'].split('/')[1]}", documented(path), flags=re.M)
                assert count == 1, text
                files[path] = text
            elif name in self.f.nodes:
                files |= {path: documented(path) for path in ("/etc/systemd/networkd.conf.d/canopy.conf", "/etc/systemd/network/20-ports.network")}
            for path, text in files.items():
                of.shell(f"mkdir -p $(dirname {path}); cat >{path}", stdin=text)
            of.shell(f"echo '{self.f.addresses['c1']} controller.example' >>/etc/hosts")
            of.shell("systemctl enable --now systemd-networkd 2>&1; ip link set lo up")
            until(f"{name} has its management address", 30, lambda: self.f.addresses[name] in of.out("ip", "-6", "address", "show", "mgmt0", "-tentative"))

        self.f.each(configure)

    def step_packages_are_installed(self):
        def install(name, of):
            for package in self.packages(name):
                of.copy(self.debs[package], "/root/")
            paths = [f"/root/{self.debs[package].name}" for package in self.packages(name)]
            of.shell(f"DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {' '.join(paths)} 2>&1")

        self.f.each(install)

    def step_agents_are_enrolled(self):
        c1, path = self.at("c1"), "/etc/canopy/controller.toml"
        listen = line_of(path)
        c1.shell(f"""sed -i 's|^listen = .*agents/controller.sock.*|{listen}\\nlease_grace = "{GRACE}"|' {path}; systemctl restart canopy-controller""")
        assert listen in c1.shell(f"cat {path}")

        def enroll(name, of):
            kind, program, unit = ("node", "canopy-agent", "agent") if name in self.f.nodes else ("host", "canopy-host-agent", "host-agent")
            path = f"/etc/canopy/{unit}.toml"
            of.shell(f"sed -i '1i {line_of(path)}' {path}; {program} config check >/dev/null")
            answer = of.run(program, "enroll", stdin=self.f.ctl(kind, "enroll", name))
            assert f"enrolled as {kind}/{name} of domain canopy" in answer.stdout + answer.stderr, answer
            of.shell("systemctl restart canopy-agent" if kind == "node" else "systemctl enable --now canopy-host-agent 2>&1")

        self.f.each(enroll, [*self.f.nodes, *self.f.hosts])

    def step_all_nodes_are_in_sync(self):
        self.f.ctl("apply", "-f", "-", stdin=self.f.resources())
        self.f.ctl("check", "--wait", "60s")
        nodes = json.loads(self.f.ctl("get", "nodes", "-o", "json"))["items"]
        assert [node["metadata"]["name"] for node in nodes] == sorted(self.f.nodes)

    def step_no_two_machines_share_a_file_or_a_namespace(self):
        print("  ", not_shared(self.f.machines))

    def step_every_daemon_is_a_user_of_its_own_with_the_capabilities_of_its_unit(self):
        def check(name, of):
            unit = "canopy-agent" if name in self.f.nodes else "canopy-host-agent" if name in self.f.hosts else "canopy-controller"
            services.check(of, unit)
            running = set(of.shell("ps -eo user:20=,comm= | grep canopy || true").split("\n"))
            assert all(line.split()[0] == unit for line in running), running
            if unit != "canopy-controller":
                journal = of.out("journalctl", "-b", "-u", unit, "-o", "cat", "--no-pager")
                # The last start: before it had a certificate.
                last = journal[journal.rindex("kernel BTF" if unit == "canopy-agent" else "controller: ") - 200 :]
                assert "MISSING" not in last, journal

        self.f.each(check)

    def transfer(self, group, size, *sender):
        """Starts a transfer from the source to all receivers, each through the socket of its own machine."""
        self.f.group(group, pathMtu=4096)
        return Transfer(self.f.programs, group, size, self.receivers, self.source, self.rc, sender)

    def rc(self, host, options, **more):
        """Starts canopy-rc at a host, which reaches the controller through the host's agent."""
        return self.at(host).popen("canopy-rc", *options, "--controller", SOCKET, "--address", self.f.hosts[host]["address"], **more)

    def step_every_receiver_gets_what_the_source_sends(self):
        report = self.transfer("weights", 64 * MIB).finish()
        print(f"   {report['bytes'] >> 20} MiB to {len(self.receivers)} hosts, sha256 {report['sha256'][:12]}, {report['retransmitted']} retransmitted")
        assert report["bytes"] == 64 * MIB
        self.f.ctl("delete", "group", "weights")

    def step_a_host_is_refused_in_the_name_of_another(self):
        self.f.group("other")
        thief, victim = self.receivers[0], (self.receivers[1:] or [self.source])[0]
        refused = in_the_name_of(victim, self.at(thief), CONTROLLER, "other")
        assert refused.startswith("NotPermitted") and f'a certificate of host/{thief} cannot act for host "{victim}"' in refused, refused
        assert json.loads(self.f.ctl("get", "members", "-g", "other", "-o", "json"))["items"] == []

    def step_agents_of_another_authority_are_refused(self):
        host = self.receivers[0]
        for what, answer in OtherAuthority(self.at("c1"), CONTROLLER).refusals(self.at(host), host):
            print(f"   {what}: {answer}")
        self.f.ctl("check")

    def step_a_node_that_loses_power_comes_back_and_nothing_is_lost(self):
        name = self.f.edge(self.receivers[0])
        shape = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf"]
        self.at(self.source).run(*shape, "rate", "40mbit", "burst", "64k", "limit", "4m")
        transfer = self.transfer("power", 64 * MIB)
        state = lambda: json.loads(self.f.ctl("get", "group", "power", "-o", "json"))["status"]
        until("data to be acknowledged", 60, lambda: (state().get("delivery") or {}).get("state") == "Flowing")
        self.f.power_off(name)
        until("the controller to miss it", 90, lambda: "False" in self.connected(name))
        assert not transfer.has_ended()
        self.f.power_on(name)
        self.f.ctl("check", "--wait", "60s")
        self.at(self.source).run(*shape, "rate", "1gbit", "burst", "256k", "limit", "4m")
        report = transfer.finish()
        print(f"   {name} was off; {report['bytes'] >> 20} MiB to {len(self.receivers)} hosts, {report['retransmitted']} retransmitted")
        self.at(self.source).run("tc", "qdisc", "delete", "dev", "eth0", "root")
        self.f.ctl("delete", "group", "power")

    def connected(self, node):
        """The value of a node's condition `Connected`."""
        conditions = json.loads(self.f.ctl("get", "node", node, "-o", "json"))["status"]["conditions"]
        return next(str(c["status"]) for c in conditions if c["type"] == "Connected")

    def members(self, group):
        """Hosts that are in a group."""
        return {member["spec"]["host"] for member in json.loads(self.f.ctl("get", "members", "-g", group, "-o", "json"))["items"]}

    def hold(self, host, group):
        """An application that is in a group by a lease, and gets no data."""
        options = ["receive", "--lease", "--group", group, "--host", host, "--bytes", "1"]
        process = self.rc(host, options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.f.programs.callback(process.kill)
        until(f"{host} to join", 30, lambda: host in self.members(group))

    def step_memberships_of_a_host_that_loses_power_end(self):
        lost, kept = self.receivers[-1], self.source
        self.f.group("held")
        for host in (lost, kept):
            self.hold(host, "held")
        self.f.power_off(lost)
        # Up to 30 s until the controller misses it, then the grace.
        until(f"the membership of {lost} to end", 90, lambda: lost not in self.members("held"))
        assert self.members("held") == {kept}
        self.f.power_on(lost)
        until("the agent's socket", 30, lambda: self.at(lost).run("test", "-S", "/run/canopy/host-agent/host.sock", check=False).returncode == 0)
        self.hold(lost, "held")
        assert self.members("held") == {lost, kept}


def main():
    if len(sys.argv) not in (2, 3, 4) or os.geteuid() != 0:
        raise SystemExit(__doc__)
    directory = Path(sys.argv[1]).resolve()
    topology = Path(sys.argv[2]) if len(sys.argv) > 2 else FIGURE_1
    base = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    # So that the machines end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    with Fleet("canopy-machines", topology, base, others=["c1"], hosts=True) as fleet:
        print(f"{len(fleet.machines)} machines run ({time.monotonic() - began:.1f} s)", flush=True)
        steps.run(Machines(fleet, sorted(directory.glob("*.deb"))), fleet.journals)


if __name__ == "__main__":
    main()
