# SPDX-License-Identifier: Apache-2.0
"""The fabric of a topology between the nodes of a cluster: a link between two nodes is a veth; the end of a host waits at its node for the pod
of the host's name (cni/fabric)."""

import subprocess

import yaml


class Fabric:
    """What a topology's file has, and its cables."""

    def __init__(self, topology):
        self.spec = yaml.safe_load(topology.read_text())["spec"]
        self.nodes = [node["name"] for node in self.spec["nodes"]]
        self.hosts = {host["name"]: host for host in self.spec["hosts"]}

    def ends(self, link):
        """(device, port) of both ends of a link."""
        return [link[end].split("/") for end in "ab"]

    def edge(self, host):
        """The node that a host is at."""
        return next(device for link in self.spec["links"] for device, _ in self.ends(link) if host in {at for at, _ in self.ends(link)} and device != host)

    def connect(self, places):
        """Plugs every cable in; `places` are the nodes' by name."""
        mtu = str(self.spec["defaults"]["mtu"])
        for link in self.spec["links"]:
            sides = []
            for device, port in self.ends(link):
                host = device in self.hosts
                sides.append((f"pod-{device}" if host else port, places[self.edge(device) if host else device].pid, host))
            (a, at_a, _), (b, at_b, _) = sides
            command = ["ip", "link", "add", a, "netns", at_a, "mtu", mtu, "type", "veth", "peer", "name", b, "netns", at_b, "mtu", mtu]
            subprocess.run(command, check=True)
            for port, pid, host in sides:
                within = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "link", "set", port]
                if host:
                    # Up, so that the port has a carrier before there is a pod, and without an address.
                    subprocess.run([*within, "addrgenmode", "none"], check=True)
                subprocess.run([*within, "up"], check=True)
        for name, host in self.hosts.items():
            prefix = host["prefix"].split("/")[1]
            places[self.edge(name)].run("sh", "-c", f"mkdir -p /run/fabric; echo {host['address']}/{prefix} >/run/fabric/{name}")

    def declared(self):
        """The topology as the controller takes it."""
        mtu = self.spec["defaults"]["mtu"]
        links = [{"a": link["a"], "b": link["b"], "mtu": mtu} for link in self.spec["links"]]
        return {"nodes": self.spec["nodes"], "hosts": self.spec["hosts"], "links": links}
