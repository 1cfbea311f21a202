# SPDX-License-Identifier: Apache-2.0
"""A node that is cordoned in Kubernetes is drained at the controller."""

import json

import release
from place import until


class Cordon:
    """`kubectl cordon` and `kubectl uncordon`, and the drains that follow."""

    def __init__(self, cluster, of: release.Release):
        self.c, self.release = cluster, of
        self.edges = {cluster.fabric.edge(host) for host in cluster.fabric.hosts}

    def drains(self):
        """Name and uid of each drain."""
        return {of["metadata"]["name"]: of["metadata"]["uid"] for of in json.loads(self.release.ctl("get", "drains", "-o", "json"))["items"]}

    def of_a_node_without_hosts(self):
        """It has one drain, over a restart of the operator, that others do not end, and that ends with the cordon."""
        node = next(name for name in self.c.nodes if name not in self.edges)
        name = f"cordon-{node}"
        # Named after its node.
        self.release.ctl("drain", "node", node, "--reason", "by hand")
        self.c.kubectl("cordon", node)
        until("the cordoned node to be drained", 30, lambda: name in self.drains())
        before = self.drains()
        refused = self.release.ctl("undrain", name, check=False)
        assert refused.returncode != 0 and f"kubectl uncordon {node}" in refused.stderr, refused
        self.restart_the_operator()
        # What it does first is to compare; a change of another node comes after that.
        other = next(of for of in self.c.nodes if of not in self.edges and of != node)
        self.c.kubectl("cordon", other)
        until("another cordoned node to be drained", 60, lambda: f"cordon-{other}" in self.drains())
        assert {key: uid for key, uid in self.drains().items() if key != f"cordon-{other}"} == before, (before, self.drains())
        self.c.kubectl("uncordon", node, other)
        until("the drains of nodes that are uncordoned to end", 30, lambda: list(self.drains()) == [node])
        self.release.ctl("undrain", node)

    def of_a_node_with_members(self):
        """It is not drained, and an event of the node has the reason."""
        node = self.c.fabric.edge(list(self.c.fabric.hosts)[-1])
        self.c.kubectl("cordon", node)
        fields = f"involvedObject.kind=Node,involvedObject.name={node},reason=FabricDrainRefused"
        found = lambda: self.c.get("--namespace=default", "events", f"--field-selector={fields}")["items"]
        events = until("an event of the node that is not drained", 30, found)
        assert "are members of groups" in events[0]["message"] and not self.drains(), (events, self.drains())
        self.c.kubectl("uncordon", node)

    def restart_the_operator(self):
        place = self.c.nodes[release.CONTROLLER_NODE].place
        before = place.run("pidof", "canopy-operator").split()
        place.run("kill", "-KILL", *before)
        until("another operator", 60, lambda: place.run("pidof", "canopy-operator", check=False).stdout.split() not in ([], before))
