# SPDX-License-Identifier: Apache-2.0
"""Machines that systemd boots, each with a root and namespaces of its own, and the cables between them: a management network, and the
links of a topology."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "deploy/debian"))
import machine  # noqa: E402
from machine import Machine, until  # noqa: E402

REST = "unix:/run/canopy/rest.sock"
FIGURE_1 = TOP / "e2e/topologies/figure1.yaml"


def sh(*command, **more):
    """Output of a command of this machine that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def mac(device, port):
    """The link-layer address of a port, which it keeps while its device is off."""
    return "02:" + hashlib.sha256(f"{device}/{port}".encode()).digest()[:5].hex(":")


class Fleet:
    """Machines by name. `c1` has the controller; a host of the topology that has no machine is a network namespace of this one."""

    def __init__(self, label, topology, base=None, others=("c1",), hosts=False):
        """`others` are machines beside those of the topology's nodes, and of its hosts with `hosts`. With `base`, copies of that root are
        booted instead of a new one."""
        self.label, self.base = label, base
        self.topology = yaml.safe_load(topology.read_text())["spec"]
        self.nodes = [node["name"] for node in self.topology["nodes"]]
        self.hosts = {host["name"]: host for host in self.topology["hosts"]}
        self.names = [*others, *self.nodes, *(self.hosts if hosts else ())]
        self.addresses = {name: f"fd00:ca::{number}" for number, name in enumerate(self.names, 1)}
        # Several runs may be under way at once.
        self.management = f"{label}-{os.getpid()}"
        self.stack, self.machines = contextlib.ExitStack(), {}
        # Ends the programs that run in machines, before the machines. systemd stops every process for a moment before it ends them: nsenter
        # may stop with its child then for good, and a machine does not end before someone has waited for that child.
        self.programs = contextlib.ExitStack()

    def __enter__(self):
        try:
            self.directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{self.label}.")))
            if not self.base:
                self.base = self.directory / "base"
                self.base.mkdir()
                machine.make_root(self.base)
            self.boot()
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.programs.close()
        for of in self.machines.values():
            # All at once: each takes some seconds.
            if of.process:
                of.process.terminate()
        try:
            self.each(lambda _, of: of.__exit__())
        finally:
            self.stack.close()

    def each(self, act, names=None):
        """Calls `act(name, machine)` for all machines, or those of `names`, three at a time; returns what it returned, by name."""
        names = list(names or self.machines)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return dict(zip(names, pool.map(lambda name: act(name, self.machines[name]), names), strict=True))

    def boot(self):
        """Boots all machines; they take a core each for a moment."""
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            booted = {name: pool.submit(Machine(f"{self.management}-{name}", self.base).__enter__) for name in self.names}
            for name, future in booted.items():
                with contextlib.suppress(Exception):
                    self.machines[name] = future.result()
        failed = {name: future.exception() for name, future in booted.items() if future.exception()}
        assert not failed, f"not booted: {failed}"
        self.each(lambda name, of: of.shell(f"hostname {name}; echo {name} >/etc/hostname; echo '127.0.0.1 localhost {name}' >/etc/hosts"))

    def connect(self):
        """Plugs every cable in."""
        for name in (self.management, *(self.namespace(host) for host in self.hosts if host not in self.machines)):
            sh("ip", "netns", "add", name)
            self.stack.callback(sh, "ip", "netns", "delete", name)
        ip = lambda *command: sh("ip", "-n", self.management, *command)
        ip("link", "add", "br0", "type", "bridge")
        ip("address", "add", "fd00:ca::ffff/64", "dev", "br0", "nodad")
        ip("link", "set", "br0", "up")
        for name in self.machines:
            self.plug_management(name)
        for link in self.topology["links"]:
            self.plug(link)

    def plug_management(self, name):
        """Cable of a machine to the management network: its interface mgmt0."""
        port, leader, own = f"to-{name}", self.machines[name].leader, mac(name, "mgmt0")
        sh("ip", "-n", self.management, "link", "add", port, "type", "veth", "peer", "name", "mgmt0", "address", own, "netns", leader)
        sh("ip", "-n", self.management, "link", "set", port, "master", "br0", "up")

    def plug(self, link):
        """Cable of a link of the topology. What it is plugged into sets its own end up."""
        (a, port_a), (b, port_b) = (link[end].split("/") for end in "ab")
        mtu = str(self.topology["defaults"]["mtu"])
        end = lambda device, port: ("address", mac(device, port), "netns", self.where(device), "mtu", mtu)
        sh("ip", "link", "add", port_a, *end(a, port_a), "type", "veth", "peer", "name", port_b, *end(b, port_b))

    def power_off(self, name):
        """Ends a machine at once; what its cables led to loses its ports."""
        self.machines[name].power_off()
        gone = [(self.management, f"to-{name}")]
        for link in self.links_of(name):
            far = link["b"] if link["a"].split("/")[0] == name else link["a"]
            gone.append(far.split("/"))
        until(f"the cables of {name} to be gone", 20, lambda: not any(self.has_port(*end) for end in gone))

    def power_on(self, name):
        """Boots a machine that was powered off, with the same cables."""
        self.machines[name].power_on()
        self.plug_management(name)
        for link in self.links_of(name):
            self.plug(link)
        self.machines[name].wait_up()

    def links_of(self, name):
        """Links with an end at a device."""
        return [link for link in self.topology["links"] if name in (link["a"].split("/")[0], link["b"].split("/")[0])]

    def has_port(self, device, port):
        """Whether a device, or the management network, has a port."""
        within = ["nsenter", f"--net=/proc/{self.machines[device].leader}/ns/net"] if device in self.machines else ["ip", "netns", "exec", device]
        return subprocess.run([*within, "ip", "link", "show", port], capture_output=True, check=False).returncode == 0

    def where(self, device):
        """Network namespace of a device, as `ip` takes it."""
        return self.machines[device].leader if device in self.machines else self.namespace(device)

    def namespace(self, host):
        return f"{self.management}-{host}"

    def edge(self, host):
        """The node that a host is at."""
        ends = next((link["a"].split("/")[0], link["b"].split("/")[0]) for link in self.links_of(host))
        return next(end for end in ends if end != host)

    def resources(self):
        """The topology as the controller takes it."""
        mtu = self.topology["defaults"]["mtu"]
        links = [{"a": link["a"], "b": link["b"], "mtu": mtu} for link in self.topology["links"]]
        spec = {"nodes": self.topology["nodes"], "hosts": self.topology["hosts"], "links": links}
        return yaml.safe_dump({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": spec})

    def journals(self):
        """Prints the end of every machine's journal."""
        for name, of in self.machines.items():
            if of.process:
                print(f"-- {name}\n{of.run('journalctl', '-u', 'canopy-*', '-n', '15', '--no-pager', check=False).stdout}")

    def ctl(self, *command, **more):
        """Output of canopyctl at the controller."""
        return self.machines["c1"].run("canopyctl", "--server", REST, *command, **more).stdout

    def group(self, name, **spec):
        """Makes a group."""
        document = {"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": name}, "spec": spec}
        self.ctl("apply", "-f", "-", stdin=json.dumps(document))
