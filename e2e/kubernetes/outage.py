# SPDX-License-Identifier: Apache-2.0
"""The control plane of Kubernetes goes away under traffic."""

import json
import time

import release
from place import until

MINUTE = 60


class Outage:
    """The API server is killed for a minute, and with it the kubelet of a node that receives."""

    def __init__(self, cluster, of: release.Release, group):
        self.c, self.release, self.group = cluster, of, group
        self.plane, self.node = cluster.plane, cluster.nodes[cluster.fabric.edge(list(cluster.fabric.hosts)[-1])]

    def state(self):
        """Trees and members of the group, asked without the API server."""
        get = lambda *what: json.loads(self.release.ctl_on_its_node("get", *what, "-o", "json"))
        members = sorted((of["spec"]["host"], of["spec"]["role"]) for of in get("members", "-g", self.group)["items"])
        return {"trees": get("group", self.group)["status"].get("trees"), "members": members}

    def lasts_a_minute(self, meanwhile):
        """Calls `meanwhile` all the time; fails if trees or members change."""
        before = self.state()
        assert len(before["members"]) == len(self.c.fabric.hosts), before
        self.plane.place.end("kube-apiserver")
        self.node.place.end("kubelet")
        ends = time.monotonic() + MINUTE
        while time.monotonic() < ends:
            now = self.state()
            assert now == before, (before, now)
            meanwhile()
            time.sleep(1)
        assert self.c.kubectl("get", "nodes", "--request-timeout=2s", check=False).returncode != 0, "the API server has answered"
        self.plane.start_api_server()
        self.node.start_kubelet()
        until("all nodes are ready again", 180, self.c.ready)
        now = self.state()
        assert now == before, (before, now)

    def edits_are_reconciled(self, namespace):
        """What is edited after it comes to the controller; the operator has lost its watches."""
        for least in (2, 1):
            self.c.kubectl(f"--namespace={namespace}", "patch", "multicastgroup", self.group, "--type=merge", "--patch", json.dumps({"spec": {"minReceivers": least}}))
            has = lambda: json.loads(self.release.ctl("get", "group", self.group, "-o", "json"))["spec"]["minReceivers"]
            until(f"the controller to have what was edited, minReceivers {least}", 90, lambda least=least: has() == least)
