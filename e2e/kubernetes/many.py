# SPDX-License-Identifier: Apache-2.0
"""A cluster of hundreds of nodes (kwok) and a thousand groups: what one change costs, and what nothing costs."""

import json
import statistics
import time
from pathlib import Path

import release
from audit import Audit
from place import until

HERE = Path(__file__).resolve().parent
NODES, GROUPS = 300, 1000
NAMESPACE = "many"
# Groups of which each is changed once.
CHANGED = 20
IDLE = 60
FAKE = "kwok.x-k8s.io/node"


class Many:
    """Nodes that are not there, and resources; leaving the `with` block removes them."""

    def __init__(self, cluster, of: release.Release):
        self.c, self.release, self.plane = cluster, of, cluster.plane

    def __enter__(self):
        options = (f"--kubeconfig={self.plane.kubeconfig('admin')}", f"--manage-nodes-with-annotation-selector={FAKE}=fake", "--node-lease-duration-seconds=40")
        self.plane.place.start("kwok", self.plane.programs / "kwok", *options, f"--config={HERE / 'kwok.yaml'}")
        # Without the label by which agents choose their nodes.
        taint = {"key": FAKE, "value": "fake", "effect": "NoSchedule"}
        self.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"kwok-{number}", "annotations": {FAKE: "fake"}, "labels": {FAKE: "fake"}}, "spec": {"taints": [taint]}} for number in range(NODES))
        path = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
        ready = lambda: self.c.kubectl("get", "nodes", f"--selector={FAKE}", f"--output=jsonpath={path}").split().count("True")
        until(f"{NODES} nodes of kwok to be ready", 180, lambda: ready() == NODES)
        return self

    def create(self, objects):
        self.c.kubectl("create", "--filename=-", "--output=name", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def declare(self):
        """Declares the groups; returns what that took, and the operator's requests."""
        self.c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        audit, began = Audit(self.plane), time.monotonic()
        self.create({"apiVersion": release.API, "kind": "MulticastGroup", "metadata": {"name": f"many-{number}", "namespace": NAMESPACE}, "spec": {"minReceivers": 1}} for number in range(GROUPS))
        path = '{range .items[*]}{.status.conditions[?(@.type=="Reconciled")].status}{"\\n"}{end}'
        reconciled = lambda: self.kubectl("get", "multicastgroups", f"--output=jsonpath={path}").split().count("True")
        until(f"{GROUPS} groups to be reconciled", 300, lambda: reconciled() == GROUPS)
        return time.monotonic() - began, self.quiet(audit)

    def quiet(self, audit):
        """The operator's requests, once it has sent none for ten seconds."""
        last = [len(audit.of_the_operator()), time.monotonic()]

        def none_for_ten_seconds():
            if len(audit.of_the_operator()) != last[0]:
                last[:] = len(audit.of_the_operator()), time.monotonic()
            return time.monotonic() - last[1] > 10

        until("the operator to be quiet", 120, none_for_ten_seconds)
        return audit.counted()

    def change(self, number):
        """Changes one group; returns seconds from the request until the API server has the status of it, and the operator's requests about it."""
        name, audit = f"many-{number}", Audit(self.plane)
        self.kubectl("patch", "multicastgroup", name, "--type=merge", "--patch", json.dumps({"spec": {"minReceivers": 2}}))
        current = lambda: self.kubectl("get", "multicastgroup", name, "--output=jsonpath={.metadata.generation} {.status.observedGeneration}").split()
        until(f"the status of {name}", 30, lambda: len(set(current())) == 1)
        (asked,) = [of for of in audit.requests() if of.name == name and not of.is_the_operator_s]
        own = [of for of in audit.of_the_operator() if of.name == name]
        shown = next(of for of in own if of.part == "status" and of.code == 200)
        assert self.least(name) == 2
        return shown.answered - asked.received, audit

    def least(self, name):
        return json.loads(self.release.ctl("get", "group", name, "-o", "json"))["spec"]["minReceivers"]

    def changes(self):
        """Median and worst of the seconds that a change takes, and the operator's requests per change."""
        first = Audit(self.plane)
        took = [self.change(number)[0] for number in range(0, GROUPS, GROUPS // CHANGED)]
        self.quiet(first)
        return statistics.median(took), max(took), len(first.writes()) / len(took), first.counted()

    def idle(self):
        """The operator's requests while nothing changes but the heartbeats of nodes."""
        audit = Audit(self.plane)
        time.sleep(IDLE)
        return audit.counted()

    def restarted(self):
        """The operator's requests after it was killed, until it has carried out a change."""
        audit = Audit(self.plane)
        place = self.c.nodes[release.CONTROLLER_NODE].place
        before = place.run("pidof", "canopy-operator").split()
        place.run("kill", "-KILL", *before)
        until("another operator", 60, lambda: place.run("pidof", "canopy-operator", check=False).stdout.split() not in ([], before))
        self.change(1)
        return self.quiet(audit)

    def kubectl(self, *arguments, **more):
        return self.c.kubectl(f"--namespace={NAMESPACE}", *arguments, **more)

    def __exit__(self, *_):
        self.kubectl("delete", "multicastgroups", "--all", "--wait=false", check=False)
        self.c.kubectl("delete", "nodes", f"--selector={FAKE}", "--wait=false", check=False)
        until("the groups to be deleted", 300, lambda: not self.kubectl("get", "multicastgroups", "--output=name", check=False).stdout.strip())
        self.plane.place.end("kwok")
        self.c.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        until("the nodes of kwok to be gone", 120, self.c.ready)
