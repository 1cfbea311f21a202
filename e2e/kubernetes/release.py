# SPDX-License-Identifier: Apache-2.0
"""Canopy on a cluster, installed from its chart."""

import json
import shutil

import images
from cluster import REGISTRY, TOP
from node import ROLE
from place import until

CHART = TOP / "deploy/kubernetes/canopy"
RESOURCES = TOP / "deploy/kubernetes/canopy-crds"
NAMESPACE = "canopy-system"
API = "canopy.dev/v1alpha1"
# Of the definitions, which a chart that needs a later one does not accept.
REVISION = "canopy.dev/revision: '1'"
NAME = "canopy"
# A fixed address of the controller's service: this cluster has no DNS.
ADDRESS = "10.96.0.41"
# Of the range of services, without one.
DEAD = "10.96.0.40"
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
            "operator": {"enabled": True, "drainCordoned": True},
            "controller": {"service": {"clusterIP": ADDRESS}, "storage": {"className": "local", "size": "1Gi"}},
            # The first is dead; nothing of it is there.
            "agent": {"controller": f"https://{DEAD}:8641,https://{ADDRESS}:8641", "settings": {"host_socket": {"kubernetes": True}}, "nodeSelector": {ROLE: "fabric"}},
            "hostAgent": {"enabled": True, "controller": f"https://{ADDRESS}:8641", "settings": {"host_socket": {"kubernetes": True}}, "nodeSelector": {ROLE: "host"}},
            "cleanup": {"onUninstall": True, "timeout": "60s"},
        }

    def image(self, name):
        """An image by its digest."""
        return f"{REGISTRY}/{name}@{images.digest(self.archives[name])}"

    def topology(self, spec=None):
        """Declares the topology as a resource."""
        self.c.apply({"apiVersion": API, "kind": "Topology", "metadata": {"name": "default"}, "spec": spec or self.c.fabric.declared()})

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

    def prepare(self):
        """What a release needs: a namespace and a volume."""
        self.volume()
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        self.c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})

    def resources(self, chart=RESOURCES, check=True):
        """Installs or upgrades the definitions of the resources."""
        return self.c.helm("upgrade", "--install", "canopy-crds", chart, f"--namespace={NAMESPACE}", "--wait", check=check)

    def older_resources(self):
        """A chart of definitions that are older than those of this version."""
        older = self.c.directory / "older-crds"
        shutil.copytree(RESOURCES, older)
        for path in (older / "templates").glob("*.yaml"):
            text = path.read_text()
            assert text.count(REVISION) == 1, path
            path.write_text(text.replace(REVISION, "canopy.dev/revision: '0'"))
        return older

    def uninstall(self, check=True):
        """Removes the release; with `cleanup.onUninstall`, nodes are retired first."""
        return self.c.helm("uninstall", NAME, f"--namespace={NAMESPACE}", "--wait", "--timeout=4m", check=check)

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

    def in_the_controller(self):
        """Its node, and the process there: the way to it without the API server."""
        place = self.c.nodes[CONTROLLER_NODE].place
        return place, place.run("pidof", "canopy-controller").split()[0]

    def ctl_on_its_node(self, *command):
        """Output of canopyctl in the controller's pod, by an administrator of its node."""
        place, pid = self.in_the_controller()
        return place.run("nsenter", f"--target={pid}", "--mount", "--root", "/usr/bin/canopyctl", "--server", SOCKET, *command)

    def rest(self, method, path, body):
        """An answer of the REST API, and its status in the last line."""
        place, pid = self.in_the_controller()
        socket = f"/proc/{pid}/root/{SOCKET.removeprefix('unix:/')}"
        request = ("--request", method, "--header", "Content-Type: application/json", "--data-binary", "@-")
        return place.run("curl", "--silent", "--show-error", "--max-time", "30", "--unix-socket", socket, *request, "--write-out", "\n%{http_code}", f"http://canopy{path}", input=body)

    def describe(self):
        """Prints what is known of a failure."""
        print(self.kubectl("get", "pods,ds,sts,pvc", "--output=wide", check=False).stdout)
        print(self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False).stdout[-4000:])
        for component in ("controller", "agent", "host-agent", "multicast-holder"):
            print(self.kubectl("logs", f"--selector=app.kubernetes.io/component={component}", "--tail=15", "--prefix", check=False).stdout[-5000:])
