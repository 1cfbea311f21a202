#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the packages in a machine booted by systemd, and uses, restarts, removes and purges what they bring.

    test_packages.py DIRECTORY_OF_PACKAGES [ROOT]

Controller, agent n1, pacer and canopy-steer are the packages' services, each as a user of its own. Agent n2 and the hosts s1 and r1 are network
namespaces of the same machine. With ROOT, a copy of that root is booted instead of a new one. Needs root, mmdebstrap and systemd-nspawn. It takes about two minutes, and leaves nothing behind.
"""

import json
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import services  # noqa: E402
import steps  # noqa: E402
from machine import Machine, until  # noqa: E402
from packages import PACKAGES  # noqa: E402

REST = "unix:/run/canopy/rest.sock"
# The agent of a host comes later than the others.
SERVICES = [unit for unit in services.SERVICES if unit != "canopy-host-agent"]
HOLDER = "canopy-mroute-holder"
# The maps of canopy-steer, which outlive it.
MAPS = "/run/canopy/host/bpf/steer/rdma1"
# Exposure by `systemd-analyze security`, in tenths: 0 is nothing, 100 everything.
EXPOSED = {"canopy-controller": 15, "canopy-agent": 25, HOLDER: 20, "canopy-host-agent": 20, "canopy-pacer": 25, "canopy-steer": 25}

NETWORK = """
ip netns add n2; ip netns add s1; ip netns add r1
ip link add eth1 mtu 9000 type veth peer name eth1 netns n2 mtu 9000
ip link add eth2 mtu 9000 type veth peer name eth0 netns s1 mtu 9000
ip -n n2 link add eth2 mtu 9000 type veth peer name eth0 netns r1 mtu 9000
ip link set eth1 up; ip link set eth2 up
for n in n2 s1 r1; do ip -n $n link set lo up; done
ip -n n2 link set eth1 up; ip -n n2 link set eth2 up
ip -n s1 link set eth0 up; ip -n s1 address add 2001:db8:0:100::1/64 dev eth0 nodad
ip -n r1 link set eth0 up; ip -n r1 address add 2001:db8:0:1::1/64 dev eth0 nodad
ip link add rdma0 type veth peer name rdma0 netns s1; ip link set rdma0 up
ip link add rdma1 type veth peer name rdma1 netns s1; ip link set rdma1 up
"""
TOPOLOGY = """
apiVersion: canopy/v1
kind: Topology
metadata: {name: default}
spec:
  nodes: [{name: n1, id: 1}, {name: n2, id: 2}]
  hosts:
    - {name: s1, prefix: "2001:db8:0:100::/64", address: "2001:db8:0:100::1"}
    - {name: r1, prefix: "2001:db8:0:1::/64", address: "2001:db8:0:1::1", pathPrograms: true}
  links:
    - {a: n1/eth1, b: n2/eth1, mtu: 9000}
    - {a: n1/eth2, b: s1/eth0, mtu: 9000}
    - {a: n2/eth2, b: r1/eth0, mtu: 9000}
"""
N2 = """
node = "n2"
controller = "unix:/run/canopy/controller.sock"
state_dir = "/root/n2"
pin_dir = "/run/canopy/bpf/n2"
[host_socket]
path = "/root/n2.sock"
"""


class Packages:
    """The steps of the test, in their order."""

    def __init__(self, machine, debs):
        self.m, self.debs = machine, debs

    def install(self, *names):
        files = [f"/root/{path.name}" for path in self.debs if not names or path.name.split("_")[0] in names]
        return self.m.shell(f"DEBIAN_FRONTEND=noninteractive dpkg -i {' '.join(files)} 2>&1")

    def ctl(self, *command, **more):
        return self.m.run("canopyctl", "--server", REST, *command, **more).stdout

    def pid(self, unit):
        return services.pid(self.m, unit)

    def active(self, unit):
        return self.m.out("systemctl", "is-active", unit, check=False)

    def nodes(self):
        answer = self.ctl("get", "nodes", "-o", "json", check=False)
        return {node["metadata"]["name"]: node for node in json.loads(answer).get("items", [])} if answer else {}

    def in_sync(self, *names):
        def ready():
            nodes = self.nodes()
            kinds = lambda node: {c["type"] for c in node["status"]["conditions"] if str(c["status"]) in ("True", "true")}
            return all(name in nodes and {"Connected", "Synced", "Healthy"} <= kinds(nodes[name]) for name in names)

        until(f"{names} in sync:\n{self.ctl('get', 'nodes', check=False)}", 30, ready)

    def step_packages_install_and_their_services_start(self):
        self.m.shell("hostname n1; echo n1 >/etc/hostname")
        for path in self.debs:
            self.m.copy(path, "/root/")
        self.install()
        for unit in ("canopy-controller", "canopy-agent", f"{HOLDER}.path", "run-canopy-bpf.mount"):
            until(f"{unit} active", 20, lambda unit=unit: self.active(unit) == "active")
        for unit in ("canopy-pacer", "canopy-steer"):
            assert self.active(unit) == "inactive", "it has no interface yet"
        assert self.m.out("systemctl", "--failed", "--plain", "--no-legend") == ""

    def step_settings_of_the_packages_are_valid(self):
        for program in ("canopy-controller", "canopy-agent"):
            self.m.run(program, "config", "check")
        for program in ("canopy-pacer", "canopy-steer"):
            refused = self.m.run(program, "config", "check", check=False)
            assert refused.returncode != 0 and "interface" in refused.stderr, refused.stderr

    def step_each_package_has_manuals_and_the_list_of_what_is_linked(self):
        for package in PACKAGES:
            listed = json.loads((self.m.root / f"usr/share/doc/{package.name}/sbom.cdx.json").read_text())
            assert {"tokio", "serde"} <= {component["name"] for component in listed["components"]}, package.name
            assert not re.search(r"file:///(root|work|home)/", json.dumps(listed)), package.name
            for program, section in package.programs.items():
                pages = {path.name for path in (self.m.root / f"usr/share/man/man{section}").glob(f"{program}*")}
                assert f"{program}.{section}.gz" in pages and len(pages) > 2, pages
        for path in ("bash-completion/completions/canopyctl", "zsh/vendor-completions/_canopyctl", "fish/vendor_completions.d/canopyctl.fish"):
            assert "describe" in (self.m.root / "usr/share" / path).read_text(), path

    def step_two_nodes_are_in_sync(self):
        self.m.shell(NETWORK)
        self.m.shell("cat >/root/n2.toml", stdin=N2)
        self.m.shell("systemd-run -q --unit=n2 ip netns exec n2 canopy-agent --config /root/n2.toml run")
        self.m.shell("cat >/root/topology.yaml", stdin=TOPOLOGY)
        self.ctl("apply", "-f", "/root/topology.yaml")
        self.in_sync("n1", "n2")

    def step_the_pacer_starts_once_it_has_an_interface(self):
        self.m.shell("sed -i 's/^#interface = .*/interface = \"rdma0\"/' /etc/canopy/pacer.toml; echo 'line_rate = \"1G\"' >/root/l")
        self.m.shell("sed -i '/^interface/r /root/l' /etc/canopy/pacer.toml; systemctl enable --now canopy-pacer 2>&1")
        assert "rdma0" in self.m.out("canopy-pacer", "status")

    def step_canopy_steer_starts_once_it_has_an_interface(self):
        self.m.shell("sed -i 's/^#interface = .*/interface = \"rdma1\"/' /etc/canopy/steer.toml; systemctl enable --now canopy-steer 2>&1")
        assert self.active("run-canopy-host-bpf.mount") == "active"
        assert self.steering()["interface"] == "rdma1"
        assert len(self.filters()) == 2, self.filters()
        assert self.maps() != ""

    def steering(self):
        """What canopy-steer reports of itself."""
        return json.loads(self.m.out("canopy-steer", "status", "--json"))

    def filters(self):
        """Programs of canopy-steer at its interface."""
        both = [self.m.out("tc", "filter", "show", "dev", "rdma1", hook) for hook in ("egress", "ingress")]
        return re.findall(r"pref 61 bpf chain 0 handle", "\n".join(both))

    def maps(self):
        """The maps of canopy-steer with their inodes: others once they are made anew."""
        return self.m.shell(f"ls -i {MAPS}/*/* 2>/dev/null || true")

    def step_services_run_as_users_of_their_own_with_the_capabilities_that_they_need(self):
        for unit in SERVICES:
            services.check(self.m, unit)

    def step_doctor_finds_nothing_missing_in_the_unit(self):
        journal = self.m.out("journalctl", "-u", "canopy-agent", "-o", "cat", "--no-pager")
        for name in ("bpffs at pin_dir", "capabilities", "switches of the network", "memory limit", "kernel BTF"):
            assert re.search(rf"^ok +{re.escape(name)}: ", journal, re.M), f"{name}:\n{journal}"
        assert "MISSING" not in journal, journal

    def drop_in(self, unit, text):
        """Other settings for a unit, which restarts with them."""
        directory = f"/run/systemd/system/{unit}.service.d"
        self.m.shell(f"mkdir -p {directory}; cat >{directory}/test.conf", stdin=f"[Service]\n{text}")
        self.m.shell(f"systemctl daemon-reload; systemctl restart --no-block {unit}")

    def no_drop_in(self, unit):
        self.m.shell(f"rm -r /run/systemd/system/{unit}.service.d; systemctl daemon-reload; systemctl restart {unit}")

    def step_a_main_loop_that_hangs_is_restarted_by_the_watchdog(self):
        for unit in ("canopy-agent", "canopy-pacer", "canopy-steer"):
            self.drop_in(unit, "WatchdogSec=2s\nTimeoutAbortSec=1s\n")
            try:
                until(f"{unit} active", 20, lambda unit=unit: self.active(unit) == "active")
                fed = lambda unit=unit: self.m.out("systemctl", "show", "-P", "WatchdogTimestampMonotonic", unit)
                for _ in range(3):
                    until(f"the watchdog of {unit} fed", 10, lambda before=fed(): fed() != before)
                hung = self.pid(unit)
                self.m.run("kill", "-STOP", hung)
                until(f"another {unit}", 30, lambda unit=unit, hung=hung: self.active(unit) == "active" and self.pid(unit) not in ("0", hung))
            finally:
                self.no_drop_in(unit)
        self.in_sync("n1")

    def step_doctor_names_what_a_unit_lacks(self):
        lacking = "InaccessiblePaths=/run/canopy/bpf\nReadOnlyPaths=/proc/sys/net\nCapabilityBoundingSet=~CAP_PERFMON\nAmbientCapabilities=~CAP_PERFMON\n"
        cursor = self.m.out("journalctl", "-n", "0", "--show-cursor", "-o", "cat").removeprefix("-- cursor: ")
        journal = lambda: self.m.out("journalctl", "-u", "canopy-agent", "-o", "cat", "--no-pager", f"--after-cursor={cursor}")
        self.drop_in("canopy-agent", lacking)
        try:
            for missing in ("capabilities: CAP_PERFMON missing", "switches of the network: ", "bpffs at pin_dir: "):
                until(f"MISSING {missing}", 20, lambda missing=missing: f"MISSING  {missing}" in journal())
        finally:
            self.no_drop_in("canopy-agent")
        self.in_sync("n1")

    def step_units_are_sound_and_little_exposed(self):
        units = [unit for package in PACKAGES for path in package.files if (unit := Path(path).name).endswith((".service", ".mount", ".path"))]
        found = self.m.run("systemd-analyze", "verify", "--man=no", *units)
        assert found.stderr.strip() == "", found.stderr
        for unit, tenths in EXPOSED.items():
            self.m.run("systemd-analyze", "security", "--no-pager", f"--threshold={tenths}", f"{unit}.service")
        overall = self.m.out("systemd-analyze", "security", "--no-pager", *(f"{unit}.service" for unit in EXPOSED), check=False)
        print("   exposure:", ", ".join(f"{unit} {figure}" for unit, figure in re.findall(r"for (\S+)\.service: ([0-9.]+)", overall)))

    def step_users_have_the_roles_of_their_groups_and_others_none(self):
        self.m.shell("useradd -m app; useradd -m -G canopy alice; useradd -m -G canopy-view eve; useradd -m -G canopy-admin root2; useradd -m stranger")

        def canopyctl(user, *arguments):
            line = f"HOME=/home/{user} canopyctl {' '.join(arguments)}"
            return self.m.run("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "sh", "-c", line, check=False)

        # The socket is the default server.
        for user, role in (("eve", "viewer"), ("alice", "operator"), ("root2", "admin")):
            assert f"{user}, with the role {role}" in canopyctl(user, "whoami").stdout, (user, canopyctl(user, "whoami"))
            assert "n1" in canopyctl(user, "get", "nodes").stdout, user
        assert "needs operator" in canopyctl("eve", "delete", "group", "none").stderr
        assert "needs admin" in canopyctl("alice", "node", "enroll", "n9").stderr
        for user in ("stranger", "canopy-agent"):
            refused = canopyctl(user, "get", "nodes")
            assert refused.returncode != 0 and "has no role" in refused.stderr, (user, refused)
        for path in ("/var/lib/canopy/controller", "/var/lib/canopy/identity", "/var/lib/canopy/agent", "/run/canopy/bpf", "/run/canopy/agents", "/run/canopy/host/bpf", MAPS):
            refused = self.m.run("setpriv", "--reuid=stranger", "--regid=stranger", "--clear-groups", "ls", path, check=False)
            assert refused.returncode != 0, path

    def join(self, user, socket, group, host, role, qpn):
        """What an application of `user` prints."""
        arguments = ["python3", "/usr/local/bin/join.py", socket, group, host, role, str(qpn)]
        return self.m.out("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *arguments)

    def group(self, name, **spec):
        document = {"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": name}, "spec": spec}
        self.ctl("apply", "-f", "-", stdin=json.dumps(document))

    def step_a_user_of_the_group_canopy_host_joins_by_the_library(self):
        self.m.copy(HERE / "join.py", "/usr/local/bin/")
        self.group("weights")
        socket = "/run/canopy/host.sock"
        assert self.join("app", socket, "weights", "s1", "SOURCE", 17).startswith("SocketError")
        self.m.shell("usermod -aG canopy-host app")
        assert self.join("app", socket, "weights", "s1", "SOURCE", 17).startswith("NotPermitted")
        self.m.shell('sed -i "s/^uids = .*/uids = [$(id -u app)]/" /etc/canopy/agent.toml; systemctl restart canopy-agent')
        for call in (("root", "/root/n2.sock", "weights", "r1", "RECEIVER", 18), ("app", socket, "weights", "s1", "SOURCE", 17)):
            answer = self.join(*call)
            assert answer.startswith("joined"), answer
        self.ctl("wait", "group", "weights", "--for", "ready", "--timeout", "30s")

    def step_the_agent_of_a_host_joins_it_over_tls(self):
        controller = "https://[::1]:8641"
        self.drop_in("canopy-controller", 'Environment="CANOPY__GRPC__LISTEN=unix:/run/canopy/agents/controller.sock,[::1]:8641"\n')
        until("the controller", 20, lambda: self.nodes())
        self.m.shell(f"sed -i 's|^#controller = .*|controller = \"{controller}\"\\nhost = \"r1\"|' /etc/canopy/host-agent.toml")
        self.m.shell('sed -i "s/^uids = .*/uids = [\\"app\\"]/" /etc/canopy/host-agent.toml')
        self.m.shell(f"canopyctl --server {REST} host enroll r1 2>/dev/null | canopy-host-agent enroll")
        self.m.run("systemctl", "start", "canopy-host-agent")
        services.check(self.m, "canopy-host-agent")
        journal = self.m.out("journalctl", "-u", "canopy-host-agent", "-o", "cat", "--no-pager")
        assert "MISSING" not in journal and re.search("^ok +controller: .* answers this agent", journal, re.M), journal
        self.group("remote")
        answer = self.join("app", "/run/canopy/host.sock", "remote", "r1", "RECEIVER", 38)
        assert answer.startswith("joined"), answer
        member = json.loads(self.ctl("get", "members", "-g", "remote", "-o", "json"))["items"][0]
        assert str(member["metadata"]["writtenBy"]["uid"]) == self.m.out("id", "-u", "app"), member
        self.ctl("delete", "member", "r1", "-g", "remote")
        self.ctl("delete", "group", "remote")
        self.canopy_steer_has_the_fabric_of_that_agent()
        # The socket's usual place is that of the node's agent again.
        self.m.shell("systemctl stop canopy-host-agent; systemd-tmpfiles --create canopy-agent.conf")
        self.no_drop_in("canopy-controller")

    def canopy_steer_has_the_fabric_of_that_agent(self):
        refused = lambda: "uid" in self.steering()["reason"] and "host_socket.uids" in self.steering()["reason"]
        until("canopy-steer to be refused by the agent", 20, refused)
        self.m.shell('sed -i "s/^uids = .*/uids = [$(id -u app), \\"canopy-steer\\"]/" /etc/canopy/host-agent.toml; systemctl restart canopy-host-agent')
        has_it = lambda: (found := self.steering())["steers"] and found["agentAwaySeconds"] == 0
        until("canopy-steer to have the fabric", 30, has_it)
        assert (self.steering()["nodes"], self.steering()["hosts"]) == (2, 2), self.steering()
        # An operator may see that, and neither paths nor pins.
        asked = lambda *command: self.m.run("setpriv", "--reuid=app", "--regid=app", "--init-groups", "canopy-steer", *command, check=False)
        assert "fabric of 2 nodes and 2 hosts" in asked("status").stdout, asked("status")
        assert "may see the status" in asked("paths", "2001:db8:0:100::1").stderr, asked("paths", "2001:db8:0:100::1")

    def step_multicast_routing_is_a_unit_that_an_agent_restarts_without(self):
        assert self.active(HOLDER) == "inactive"
        self.group("multi", replication="multicast", minReceivers=1)
        for call in (("root", "/root/n2.sock", "multi", "r1", "RECEIVER", 28), ("app", "/run/canopy/host.sock", "multi", "s1", "SOURCE", 27)):
            answer = self.join(*call)
            assert answer.startswith("joined"), answer
        self.ctl("wait", "group", "multi", "--for", "ready", "--timeout", "30s")
        routes = self.m.out("ip", "-6", "mroute", "show")
        holder = self.pid(HOLDER)
        assert self.active(HOLDER) == "active" and "ff3e" in routes, routes
        assert self.m.out("cat", "/proc/sys/net/ipv6/conf/all/mc_forwarding") == "1"
        self.m.run("systemctl", "stop", "canopy-agent")
        assert (self.pid(HOLDER), self.m.out("ip", "-6", "mroute", "show")) == (holder, routes)
        self.m.run("systemctl", "start", "canopy-agent")
        self.in_sync("n1")
        assert self.pid(HOLDER) == holder
        # One that was killed comes back.
        self.m.run("kill", "-9", holder)
        until("another holder", 20, lambda: self.active(HOLDER) == "active" and self.pid(HOLDER) not in ("0", holder))
        self.in_sync("n1")
        for host in ("s1", "r1"):
            self.ctl("delete", "member", host, "-g", "multi")
        self.ctl("delete", "group", "multi")
        until("the holder to end", 20, lambda: self.active(HOLDER) == "inactive")
        assert self.active(f"{HOLDER}.path") == "active"
        assert not (self.m.root / "var/lib/canopy/agent/multicast.wanted").exists()

    def step_an_agent_that_is_killed_comes_back_with_what_it_had(self):
        before = self.pid("canopy-agent")
        pins = self.m.out("sh", "-c", "ls -i /run/canopy/bpf/agent/pins/*/states /run/canopy/bpf/agent/pins/*/groups")
        self.m.run("kill", "-9", before)
        until("another agent", 20, lambda: self.active("canopy-agent") == "active" and self.pid("canopy-agent") not in ("0", before))
        self.in_sync("n1")
        assert self.m.out("sh", "-c", "ls -i /run/canopy/bpf/agent/pins/*/states /run/canopy/bpf/agent/pins/*/groups") == pins

    def step_a_canopy_steer_that_is_stopped_or_killed_leaves_its_programs(self):
        before, maps = self.pid("canopy-steer"), self.maps()
        self.m.run("kill", "-9", before)
        until("another canopy-steer", 20, lambda: self.active("canopy-steer") == "active" and self.pid("canopy-steer") not in ("0", before))
        assert (self.maps(), len(self.filters())) == (maps, 2)
        self.m.run("systemctl", "stop", "canopy-steer")
        assert (self.maps(), len(self.filters())) == (maps, 2)
        self.m.run("systemctl", "start", "canopy-steer")
        assert (self.maps(), len(self.filters())) == (maps, 2)

    def step_an_upgrade_restarts_the_services_and_keeps_settings(self):
        before = {unit: self.pid(unit) for unit in SERVICES}
        files = [f"/etc/canopy/{name}.toml" for name in ("agent", "host-agent", "pacer", "steer")]
        settings, maps = self.m.out("cat", *files), self.maps()
        self.install()
        assert self.m.out("cat", *files) == settings
        assert self.maps() == maps != ""
        for unit, pid in before.items():
            until(f"{unit} again", 20, lambda unit=unit, pid=pid: self.active(unit) == "active" and self.pid(unit) not in ("0", pid))
        self.in_sync("n1", "n2")

    def step_what_an_administrator_has_disabled_stays_so(self):
        self.m.shell("systemctl disable --now canopy-pacer 2>&1")
        self.install("canopy-host")
        assert self.active("canopy-pacer") == "inactive"

    def step_remove_leaves_forwarding_and_reports_it(self):
        answer = self.m.shell("dpkg -r canopy-agent 2>&1")
        assert "continues to forward" in answer, answer
        assert self.m.run("systemctl", "is-active", "canopy-agent", check=False).stdout.strip() == "inactive"
        assert "bpf" in self.m.out("tc", "filter", "show", "dev", "eth1", "ingress")
        assert self.m.out("ip", "-6", "route", "show", "table", "4791") != ""

    def step_an_agent_that_is_installed_again_takes_over(self):
        self.install("canopy-agent")
        self.in_sync("n1", "n2")

    def step_purge_cleans_the_kernel(self):
        answer = self.m.shell("dpkg -P canopy-agent 2>&1")
        assert "removing programs" in answer and "not all was removed" not in answer, answer
        assert self.m.out("tc", "filter", "show", "dev", "eth1", "ingress") == ""
        assert self.m.out("ip", "-6", "route", "show", "table", "4791", check=False) == ""
        assert "479" not in self.m.out("ip", "-6", "rule")
        assert self.m.out("sh", "-c", "grep /run/canopy/bpf /proc/mounts || true") == ""

    def step_purge_of_all_leaves_no_file(self):
        assert len(self.filters()) == 2, self.filters()
        self.m.shell("systemctl stop n2; dpkg -P canopy-controller canopy-host canopyctl canopy-tools 2>&1")
        # Removed before its program was.
        assert self.filters() == [], self.filters()
        assert self.m.out("sh", "-c", "grep /run/canopy /proc/mounts || true") == ""
        left = self.m.shell("find /etc/canopy /var/lib/canopy /run/canopy /lib/systemd/system /etc/systemd -name '*canopy*' 2>/dev/null || true")
        assert left == "", left
        assert self.m.out("systemctl", "--failed", "--plain", "--no-legend") == ""


def main():
    if len(sys.argv) not in (2, 3) or os.geteuid() != 0:
        raise SystemExit(__doc__)
    debs = sorted(Path(sys.argv[1]).glob("*.deb"))
    if len(debs) != len(PACKAGES):
        raise SystemExit(f"{sys.argv[1]} has {len(debs)} packages, not {len(PACKAGES)}: run make packages")
    with Machine("canopy-packages", *sys.argv[2:]) as machine:
        journal = lambda: print(machine.run("journalctl", "-u", "canopy-*", "-n", "40", "--no-pager", check=False).stdout)
        steps.run(Packages(machine, debs), journal)


if __name__ == "__main__":
    main()
