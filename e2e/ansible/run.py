#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the playbooks of deploy/ansible against machines that systemd boots, with SSH, and traffic between them.

    run.py DIRECTORY_OF_PACKAGES [TOPOLOGY] [ROOT]

A controller, a machine for each node of the topology (e2e/topologies/figure1.yaml), and one with the agent of a host, a pacer and canopy-steer. Hosts of the
topology are network namespaces. With ROOT, copies of that root are booted instead of a new one. Needs root, mmdebstrap, systemd-nspawn, dpkg-dev, and
`scripts/install-tools.sh ansible`; canopy-rc is expected beside the programs of the packages. Leaves nothing behind.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

sys.dont_write_bytecode = True  # no __pycache__ in the sources
TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "e2e/machines"), str(TOP / "deploy/debian")]
import machine  # noqa: E402
import steps  # noqa: E402
from fleet import FIGURE_1, Fleet, sh  # noqa: E402
from transfer import Transfer  # noqa: E402

# What the playbooks need on a machine: SSH, and Python with apt's library.
machine.PACKAGES += ",openssh-server,python3-apt"
COLLECTION = TOP / "deploy/ansible"
# What a check or a playbook that fails early must leave alone.
STATE = """
dpkg-query -W
find /etc /usr /var/lib /var/cache /opt /srv -xdev -type f -printf '%p %s %T@ %m %u\\n' | grep -v -e ^/var/lib/systemd/ -e ^/var/lib/canopy/ -e ^/var/cache/apt/.*bin | sort
systemctl list-unit-files --plain --no-legend
systemctl show -P MainPID canopy-controller canopy-agent canopy-host-agent canopy-pacer canopy-steer
find /run/canopy /var/lib/canopy -maxdepth 2 2>/dev/null | sort
"""


def repacked(deb, to, version, edit=lambda root: None):
    """A copy of a package with another version, and `edit` applied to its files."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        sh("dpkg-deb", "-R", deb, root)
        control = root / "DEBIAN/control"
        control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.M))
        edit(root)
        out = to / f"{deb.name.split('_')[0]}_{version}.deb"
        sh("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, out)
        return out


def of_next_version(root):
    """Programs that report the next version: the text of the version has as many characters."""
    for path in (root / "usr/sbin", root / "usr/bin"):
        for program in path.glob("canopy*"):
            program.write_bytes(program.read_bytes().replace(b"0.1.0", b"0.1.1"))


class Inventory(Fleet):
    """The machines, and what runs Ansible against them."""

    def __init__(self, debs, topology, base):
        super().__init__("canopy-ansible", topology, base, others=["c1", "p1"])
        self.debs = {path.name.split("_")[0]: path for path in debs}
        self.variables = {}

    def __enter__(self):
        super().__enter__()
        try:
            self.write_inventory()
        except BaseException:
            self.__exit__()
            raise
        return self

    def boot(self):
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / "key")
        super().boot()
        public = (self.directory / "key.pub").read_text()
        self.each(lambda _, of: of.shell("mkdir -p -m 0700 /root/.ssh; cat >/root/.ssh/authorized_keys", stdin=public))

    def connect(self):
        """Plugs the cables in, and sets interfaces up as an administrator does."""
        super().connect()
        for name, of in self.machines.items():
            of.shell(f"ip address add {self.addresses[name]}/64 dev mgmt0 nodad; ip link set mgmt0 up; ip link set lo up")
        for link in self.topology["links"]:
            for device, port in (link[end].split("/") for end in "ab"):
                if device in self.hosts:
                    self.host_up(device, port)
                else:
                    self.machines[device].run("ip", "link", "set", port, "up")

    def host_up(self, name, port):
        """Address and route of a host, as an administrator sets them."""
        namespace, host = self.namespace(name), self.hosts[name]
        sh("ip", "-n", namespace, "link", "set", "lo", "up")
        sh("ip", "-n", namespace, "link", "set", port, "up")
        length = host["prefix"].split("/")[1]
        sh("ip", "-n", namespace, "address", "add", f"{host['address']}/{length}", "dev", port, "nodad")
        sh("ip", "-n", namespace, "route", "add", "default", "via", "fe80::1", "dev", port)

    def write_inventory(self):
        resources = self.directory / "topology.yaml"
        resources.write_text(self.resources())
        address = lambda names: {"hosts": {name: {"ansible_host": self.addresses[name]} for name in names}}
        self.variables = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.directory / "key"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            "ansible_python_interpreter": "/usr/bin/python3",
            "canopy_controller": f"https://[{self.addresses['c1']}]:8641",
            "canopy_batches": [1, 2, 3],
            "canopy_verify": "2m",
            "controller_deb": str(self.debs["canopy-controller"]),
            "controller_ctl_deb": str(self.debs["canopyctl"]),
            "controller_listen": ["[::]:8641"],
            "controller_resources": str(resources),
            "agent_deb": str(self.debs["canopy-agent"]),
            "canopy_apt_source": "deb [trusted=yes] file:/srv/packages ./",
            "pacer_interface": "rdma0",
            "pacer_settings": {"line_rate": "1G"},
            "steer_interface": "rdma1",
        }
        # The agent of the last host; it gets the package from the repository.
        agent = {"hosts": {"p1": {"ansible_host": self.addresses["p1"], "host_agent_host": list(self.hosts)[-1]}}}
        groups = {"canopy_hosts": agent, "canopy_controllers": address(["c1"]), "canopy_nodes": address(self.nodes), "canopy_pacers": address(["p1"]), "canopy_steers": address(["p1"])}
        (self.directory / "inventory.yml").write_text(yaml.safe_dump({"all": {"vars": self.variables, "children": groups}}))

    def environment(self):
        return os.environ | {
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory / "collections"),
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "ANSIBLE_PIPELINING": "true",
            # Connections of another run would lead to its machines, which have the same addresses.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.directory / "cp"),
            "ANSIBLE_SSH_ARGS": "-C -o ControlMaster=auto -o ControlPersist=20s",
            "ANSIBLE_FORKS": "8",
            "ANSIBLE_DEPRECATION_WARNINGS": "false",
            "ANSIBLE_NOCOLOR": "true",
            "LC_ALL": "C.UTF-8",
        }

    def play(self, book, *options, variables=None):
        """Runs a playbook of the collection; returns exit code and output."""
        command = ["ip", "netns", "exec", self.management, "ansible-playbook", "-i", self.directory / "inventory.yml", f"canopy.sdn.{book}"]
        command += [*options, *(["-e", json.dumps(variables)] if variables else [])]
        # A file, not a pipe: connections that SSH keeps for the next play would hold that open.
        with tempfile.TemporaryFile("w+", dir=self.directory) as out:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True, env=self.environment(), check=False)
            out.seek(0)
            return done.returncode, out.read()

    def must(self, book, *options, variables=None):
        """As `play`, and it has to succeed; returns what each machine changed, and the output."""
        code, text = self.play(book, *options, variables=variables)
        assert code == 0, text[-6000:]
        return self.recap(text), text

    def recap(self, text):
        """The number of changes of each machine."""
        return {name: int(changed) for name, changed in re.findall(r"^(\w+) +: ok=\d+ +changed=(\d+)", text, re.M)}

    def state(self):
        return {name: of.out("sh", "-c", STATE) for name, of in self.machines.items()}

    def versions(self, package="canopy-agent", names=None):
        return {name: self.machines[name].out("dpkg-query", "-W", "-f", "${Version}", package) for name in names or self.nodes}


class Playbooks:
    """The steps of the test, in their order."""

    def __init__(self, fleet, rc):
        self.f, self.rc = fleet, rc
        version = fleet.debs["canopy-agent"].name.split("_")[1]
        self.next, self.broken = f"{version}+next1", f"{version}+next2"

    def step_the_collection_is_built_and_installed(self):
        out = self.f.directory / "built"
        sh("ansible-galaxy", "collection", "build", COLLECTION, "--output-path", out, env=self.f.environment())
        sh("ansible-galaxy", "collection", "install", "--offline", *out.glob("*.tar.gz"), env=self.f.environment())
        repository = self.f.machines["p1"].root / "srv/packages"
        repository.mkdir()
        shutil.copy(self.f.debs["canopy-host"], repository)
        (repository / "Packages").write_text(sh("dpkg-scanpackages", ".", cwd=repository))
        # No other repository is reachable from there.
        self.f.machines["p1"].shell("rm -f /etc/apt/sources.list; ip link add rdma0 type veth peer name rdma1; ip link set rdma0 up; ip link set rdma1 up")

    def step_a_check_of_fresh_machines_changes_nothing(self):
        before = self.f.state()
        _, text = self.f.must("site", "--check", "--diff")
        assert all(f"canopy-{package}" in text for package in ("controller", "agent", "host")), text[-3000:]
        assert self.f.state() == before, differences(before, self.f.state())

    def step_the_first_run_installs_configures_and_enrolls(self):
        changes, text = self.f.must("site")
        assert all(changes[name] > 0 for name in self.f.machines), changes
        assert "canopy1." not in text, "a token is in the output"
        nodes = json.loads(self.f.ctl("get", "nodes", "-o", "json"))["items"]
        assert sorted(node["metadata"]["name"] for node in nodes) == sorted(self.f.nodes)
        self.f.ctl("check")
        assert "rdma0" in self.f.machines["p1"].out("canopy-pacer", "status")
        machine.until("the agent of the host to answer canopy-steer", 20, lambda: self.steering()["agentAwaySeconds"] == 0)
        assert self.steering()["interface"] == "rdma1" and "pathPrograms" in self.steering()["reason"], self.steering()
        assert "answers this agent" in self.doctor()

    def steering(self):
        """What canopy-steer reports of itself."""
        return json.loads(self.f.machines["p1"].out("canopy-steer", "status", "--json"))

    def doctor(self):
        """What the agent of the host finds on its machine."""
        return self.f.machines["p1"].out("runuser", "-u", "canopy-host-agent", "--", "canopy-host-agent", "doctor", check=False)

    def step_the_second_run_changes_nothing(self):
        before = self.f.state()
        changes, text = self.f.must("site", "--diff")
        assert set(changes) == set(self.f.machines) and not any(changes.values()), (changes, text[-3000:])
        assert self.f.state() == before, differences(before, self.f.state())

    def step_a_value_that_the_program_refuses_ends_it_before_anything_changes(self):
        before = self.f.state()
        for variables, machine_of_it, named in (
            ({"agent_settings": {"stamp": {"port": 0}}}, "n1", "stamp.port"),
            ({"agent_settings": {"stamp": {"prot": 862}}}, "n1", "prot"),
            ({"controller_settings": {"store": {"engine": "none"}}}, "c1", "store.engine"),
            ({"pacer_settings": {"rtt": "soon"}}, "p1", "rtt"),
            ({"steer_settings": {"mode": "random"}}, "p1", "mode"),
            ({"host_agent_settings": {"host_socket": {"gruop": "x"}}}, "p1", "gruop"),
        ):
            code, text = self.f.play("site", "--limit", machine_of_it, variables=variables)
            assert code != 0 and named in text, (code, text[-3000:])
        code, text = self.f.play("site", "--limit", "n1", variables={"agent_enroll": "sometimes"})
        assert code != 0 and "agent_enroll" in text, (code, text[-3000:])
        assert self.f.state() == before, differences(before, self.f.state())
        far = repacked(self.f.debs["canopy-agent"], self.f.directory, "0.9.0")
        code, text = self.f.play("site", "--limit", "n1", variables={"agent_deb": str(far)})
        assert code != 0 and "0.9.0 works with the minor versions next to its own" in text, (code, text[-3000:])

    def transfer(self, name, seconds, hosts=(), **spec):
        """Starts a transfer from the first of `hosts`, or of all, to the others, at a rate at which it takes `seconds`; returns what waits for its end."""
        source, *receivers = hosts or self.f.hosts
        self.f.group(name, pathMtu=4096, **spec)
        megabits = 20
        shape = ["ip", "netns", "exec", self.f.namespace(source), "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf"]
        # A queue that takes the sender's whole window.
        sh(*shape, "rate", f"{megabits}mbit", "burst", "64k", "limit", "4m")
        controller = f"unix:/proc/{self.f.machines['c1'].leader}/root/run/canopy/agents/controller.sock"
        at = lambda host: ["ip", "netns", "exec", self.f.namespace(host), self.rc]
        popen = lambda host, options, **more: subprocess.Popen([*at(host), *options, "--controller", controller], **more)
        # Its timer is so long that a busy machine causes no retransmission: each one means that a packet was lost.
        transfer = Transfer(self.f.programs, name, megabits * seconds * 125_000, receivers, source, popen, ("--timeout", "5s"))
        self.f.ctl("wait", "group", name, "--for", "ready", "--timeout", "60s")

        def end():
            assert not transfer.has_ended(), f"it was over too early: {transfer.sender.communicate()}"
            sh(*shape, "rate", "1gbit", "burst", "256k", "limit", "4m")
            report = transfer.finish()
            assert report["retransmitted"] == 0, report
            self.f.ctl("delete", "group", name)
            return report

        return end

    def upgraded_to(self, version, edit=of_next_version):
        """Variables with packages of another version; `edit` makes the agent's."""
        to = self.f.directory / version
        to.mkdir()
        new = {name: repacked(deb, to, version, edit if name == "canopy-agent" else of_next_version) for name, deb in self.f.debs.items()}
        variable = {"canopy-controller": "controller_deb", "canopyctl": "controller_ctl_deb", "canopy-agent": "agent_deb"}
        return {variable[name]: str(path) for name, path in new.items() if name in variable}

    def step_an_upgrade_in_batches_under_traffic_loses_no_packet(self):
        variables = self.upgraded_to(self.next)
        # No source is a receiver of the other group: its acknowledgements would wait behind its own data.
        first, second, *receivers = self.f.hosts
        ends = {
            "upgraded": self.transfer("upgraded", 600, [first, *receivers]),
            "native": self.transfer("native", 600, [second, *receivers], replication="multicast"),
        }
        began = time.monotonic()
        changes, text = self.f.must("site", variables=variables)
        print(f"   upgraded in {time.monotonic() - began:.0f} s")
        for name, end in ends.items():
            report = end()
            print(f"   {name}: {report['bytes'] >> 20} MiB, {report['retransmitted']} retransmitted")
        assert set(self.f.versions().values()) == {self.next}
        assert self.f.versions("canopy-controller", ["c1"]) == self.f.versions("canopyctl", ["c1"]) == {"c1": self.next}
        assert all(changes[name] > 0 for name in ("c1", *self.f.nodes)), changes
        at = {name: self.f.machines[name].shell("grep ' upgrade canopy-[ac]' /var/log/dpkg.log | tail -1 | cut -c1-19") for name in ("c1", *self.f.nodes)}
        assert max(at, key=lambda name: at[name] * (name != "c1")) != "c1" and at["c1"] < min(at[name] for name in self.f.nodes), at
        assert at["n1"] < min(at[name] for name in self.f.nodes if name != "n1"), at
        self.f.ctl("check")
        agents = json.loads(self.f.ctl("get", "nodes", "-o", "json"))["items"]
        assert {node["status"]["agentVersion"] for node in agents} == {"0.1.1"}, agents
        changes, _ = self.f.must("site", variables=variables)
        assert not any(changes.values()), changes

    def step_a_package_that_does_not_work_ends_the_upgrade_at_the_first_machine(self):
        def breaks(root):
            of_next_version(root)
            program = root / "usr/sbin/canopy-agent"
            program.rename(program.with_name("canopy-agent.real"))
            program.write_text('#!/bin/sh\n[ "$1" = run ] && exit 3\nexec "$0.real" "$@"\n')
            program.chmod(0o755)

        kept = {name: path for name, path in self.upgraded_to(f"{self.next}.1").items() if name != "agent_deb"}
        broken = self.upgraded_to(self.broken, breaks)["agent_deb"]
        good = self.f.directory / self.next / f"canopy-agent_{self.next}.deb"
        end = self.transfer("aborted", 600)
        code, text = self.f.play("site", variables=kept | {"agent_deb": broken, "agent_timeout": 20})
        assert code != 0, text[-3000:]
        found = self.f.versions()
        assert found == {name: self.broken if name == "n1" else self.next for name in self.f.nodes}, (found, text[-3000:])
        # The next attempt does not begin while the domain has a fault.
        code, text = self.f.play("site", "--limit", "c1,n2", variables=kept | {"agent_deb": broken, "canopy_health_timeout": 3})
        assert code != 0 and self.f.versions(names=["n2"]) == {"n2": self.next}, text[-3000:]
        # The way back, with the machine alone that failed.
        self.f.must("site", "--limit", "c1,n1", variables=kept | {"agent_deb": str(good), "agent_allow_downgrade": True, "agent_gate": False})
        report = end()
        print(f"   {report['bytes'] >> 20} MiB, {report['retransmitted']} retransmitted")
        self.f.ctl("check", "--wait", "30s")

    def step_a_node_is_retired(self):
        code, text = self.f.play("retire")
        assert code != 0 and "canopy_retire=" in text, text[-3000:]
        name = self.f.edge(list(self.f.hosts)[-1])
        self.f.must("retire", variables={"canopy_retire": name})
        gone = self.f.machines[name]
        assert gone.run("dpkg-query", "-W", "canopy-agent", check=False).returncode == 1
        assert gone.shell("find /etc/canopy /var/lib/canopy -name '*agent*' 2>/dev/null || true") == ""
        assert gone.out("ip", "-6", "route", "show", "table", "4791", check=False) == ""
        assert name in self.f.ctl("get", "drains")
        assert json.loads(self.f.ctl("get", "node", name, "-o", "json"))["status"]["retirement"]["step"] == "Retired"
        changes, _ = self.f.must("retire", variables={"canopy_retire": name})
        assert not any(changes.values()), changes

    def step_a_host_is_retired(self):
        self.f.must("retire", variables={"canopy_retire": "p1"})
        gone = self.f.machines["p1"]
        assert gone.run("dpkg-query", "-W", "canopy-host", check=False).returncode == 1
        assert gone.shell("find /etc/canopy /var/lib/canopy 2>/dev/null || true") == ""
        # Nor its programs: pref 61 is the place of canopy-steer.
        assert "pref 61" not in gone.out("tc", "filter", "show", "dev", "rdma1", "egress")
        assert gone.out("sh", "-c", "grep /run/canopy/host/bpf /proc/mounts || true") == ""
        host = list(self.f.hosts)[-1]
        assert f"host/{host}" in self.f.ctl("audit", "--kind", "identity"), self.f.ctl("audit", "--kind", "identity")
        changes, _ = self.f.must("retire", variables={"canopy_retire": "p1"})
        assert not any(changes.values()), changes


def differences(before, after):
    """What differs between two states, for a message."""
    lines = lambda state: {(name, line) for name, text in state.items() for line in text.splitlines()}
    return sorted(lines(before) ^ lines(after))[:40]


def main():
    if len(sys.argv) not in (2, 3, 4) or os.geteuid() != 0:
        raise SystemExit(__doc__)
    directory = Path(sys.argv[1]).resolve()
    topology = Path(sys.argv[2]) if len(sys.argv) > 2 else FIGURE_1
    base = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    rc = Path(os.environ.get("CANOPY_RC", TOP / "target/lab/canopy-rc"))
    # So that the machines end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    with Inventory(sorted(directory.glob("*.deb")), topology, base) as fleet:
        print(f"{len(fleet.machines)} machines run ({time.monotonic() - began:.1f} s)", flush=True)
        steps.run(Playbooks(fleet, rc))


if __name__ == "__main__":
    main()
