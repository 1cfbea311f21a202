# SPDX-License-Identifier: Apache-2.0
"""Canopy on a cluster, installed from its chart."""

import json

import images
from cluster import REGISTRY, TOP
from place import until

CHART = TOP / "deploy/kubernetes/canopy"
RESOURCES = TOP / "deploy/kubernetes/canopy-crds"
NAMESPACE = "canopy-system"
API = "canopy.dev/v1alpha1"
NAME = "canopy"
# A fixed address of the controller's service: this cluster has no DNS.
ADDRESS = "10.96.0.41"
SOCKET = "unix:/run/canopy/rest.sock"
# Where the volume of the controller is.
CONTROLLER_NODE = "n6"


class Release:
    """The release, and what it is asked by."""

    def __init__(self, cluster, archives):
        self.c, self.archives = cluster, archives

    def values(self):
        """Values of the chart for this cluster."""
        image = lambda name: dict(zip(("repository", "digest"), self.image(name).split("@"), strict=True))
        return {
            "images": {"pullPolicy": "Never", "controller": image("canopy-controller"), "operator": image("canopy-operator"), "agent": image("canopy-agent"), "hostAgent": image("canopy-host-agent")},
            "operator": {"enabled": True},
            "controller": {"service": {"clusterIP": ADDRESS}, "storage": {"className": "local", "size": "1Gi"}},
            "agent": {"controller": f"https://{ADDRESS}:8641"},
        }

    def image(self, name):
        """An image by its digest."""
        return f"{REGISTRY}/{name}@{images.digest(self.archives[name])}"

    def topology(self):
        """Declares the topology as a resource."""
        self.c.apply({"apiVersion": API, "kind": "Topology", "metadata": {"name": "default"}, "spec": self.c.fabric.declared()})

    def group(self, name, namespace, **spec):
        """Declares a group as a resource, and waits until the controller has it."""
        metadata = {"name": name, "namespace": namespace}
        self.c.apply({"apiVersion": API, "kind": "MulticastGroup", "metadata": metadata, "spec": spec})
        self.c.kubectl(f"--namespace={namespace}", "wait", "multicastgroup", name, "--for=condition=Reconciled", "--timeout=60s")

    def volume(self):
        """A volume on a node's own disk, as its administrator makes one."""
        path = "/var/lib/volumes/canopy"
        self.c.nodes[CONTROLLER_NODE].place.run("mkdir", "-p", path)
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [CONTROLLER_NODE]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "storageClassName": "local",
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
        self.c.apply(
            storage | {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "canopy"}, "spec": spec},
        )

    def install(self):
        """Installs the charts in their order, and waits until everything is ready."""
        self.volume()
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        self.c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        self.c.helm("upgrade", "--install", "canopy-crds", RESOURCES, f"--namespace={NAMESPACE}", "--wait")
        self.upgrade()

    def upgrade(self, values=None, *more, check=True):
        """Installs the chart, or upgrades what is there."""
        given = json.dumps(values or self.values())
        wait = () if any(option.startswith("--timeout") for option in more) else ("--timeout=3m",)
        return self.c.helm("upgrade", "--install", NAME, CHART, f"--namespace={NAMESPACE}", "--values=-", "--wait", *wait, *more, input=given, check=check)

    def kubectl(self, *arguments, **more):
        return self.c.kubectl(f"--namespace={NAMESPACE}", *arguments, **more)

    def pods(self, component):
        """The pods of a component, by node."""
        items = self.c.get(f"--namespace={NAMESPACE}", "pods", f"--selector=app.kubernetes.io/component={component}")["items"]
        return {pod["spec"].get("nodeName"): pod for pod in items}

    def is_ready(self, pod):
        """Whether all containers of a pod are."""
        return all(status["ready"] for status in pod["status"].get("containerStatuses", [{"ready": False}]))

    def in_sync(self):
        """Waits until an agent is ready on each node."""
        def all_ready():
            pods = self.pods("agent")
            return set(pods) == set(self.c.nodes) and all(map(self.is_ready, pods.values()))

        until("all agents to be ready", 180, all_ready)

    def ctl(self, *command, **more):
        """Output of canopyctl in the controller's pod, as docs/kubernetes.md has it."""
        given = ("--stdin",) if "input" in more else ()
        return self.kubectl("exec", *given, f"{NAME}-controller-0", "--", "/usr/bin/canopyctl", "--server", SOCKET, *command, **more)

    def describe(self):
        """Prints what is known of a failure."""
        print(self.kubectl("get", "pods,ds,sts,pvc", "--output=wide", check=False).stdout)
        print(self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False).stdout[-4000:])
        for component in ("controller", "agent"):
            print(self.kubectl("logs", f"--selector=app.kubernetes.io/component={component}", "--tail=15", "--prefix", check=False).stdout[-5000:])
