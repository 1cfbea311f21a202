# SPDX-License-Identifier: Apache-2.0
"""The fabric of a topology between the nodes of a cluster: a link between two nodes is a veth; the end of a host waits at its node for the pod
of the host's name (cni/fabric), or is in a machine of its own."""

import subprocess

import yaml

# A host's interface.
PORT = "fabric"


class Fabric:
    """What a topology's file has, and its cables; `machines` are hosts that are nodes of the cluster."""

    def __init__(self, topology, machines=()):
        self.spec = yaml.safe_load(topology.read_text())["spec"]
        self.nodes = [node["name"] for node in self.spec["nodes"]]
        self.hosts = {host["name"]: host for host in self.spec["hosts"]}
        self.machines = machines

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
                host = device in self.hosts and device not in self.machines
                name = f"pod-{device}" if host else port if device in self.nodes else PORT
                sides.append((name, places[self.edge(device) if host else device].pid, host))
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
            address = f"{host['address']}/{host['prefix'].split('/')[1]}"
            if name in self.machines:
                # As cni/fabric does it in a pod.
                places[name].run("sh", "-c", f"ip address add {address} dev {PORT} nodad && ip -6 route add default via fe80::1 dev {PORT}")
            else:
                places[self.edge(name)].run("sh", "-c", f"mkdir -p /run/fabric; echo {address} >/run/fabric/{name}")

    def declared(self):
        """The topology as the controller takes it."""
        mtu = self.spec["defaults"]["mtu"]
        links = [{"a": link["a"], "b": link["b"], "mtu": mtu} for link in self.spec["links"]]
        return {"nodes": self.spec["nodes"], "hosts": self.spec["hosts"], "links": links}
