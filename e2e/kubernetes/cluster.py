# SPDX-License-Identifier: Apache-2.0
"""A cluster of Kubernetes on this machine: a control plane, and a node for each node of a topology and for some of its hosts, with the topology's
links between them."""

import concurrent.futures
import contextlib
import json
import os
import shutil
import tarfile
from pathlib import Path

import from_modules
from fabric import Fabric
from node import PAUSE, Node, plug
from place import hierarchies, remove_cgroups, sh, until
from plane import Plane

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
# Where images of the test come from; nothing resolves it.
REGISTRY = "canopy.invalid"
NEEDED = ("nsenter", "unshare", "setpriv", "ip", "iptables", "openssl", "runc", "gcc", "buildah")


def missing():
    """What this machine lacks, each with what it is for."""
    found = [f"{name}: not in PATH" for name in NEEDED if not shutil.which(name)]
    found += [f"/usr/lib/cni/{name}: plugin of containernetworking-plugins" for name in ("bridge", "host-local", "loopback") if not Path("/usr/lib/cni", name).exists()]
    groups = {path.name for path in hierarchies()}
    found += [f"control group hierarchy {name} (version 1)" for name in ("cpu", "cpuset", "memory", "devices", "freezer", "pids") if name not in groups]
    if not Path("/sys/kernel/btf/vmlinux").exists():
        found.append("/sys/kernel/btf/vmlinux: kernel BTF")
    return found


def stale(base):
    """Removes what runs left whose process is gone: their directories and control groups. Everything else went with the process."""
    for directory in base.iterdir() if base.is_dir() else ():
        if not Path(f"/proc/{directory.name}").exists():
            remove_cgroups(f"canopy-{directory.name}")
            shutil.rmtree(directory)


def pause(directory):
    """An archive of the image of each pod's first process."""
    root, archive = directory / "pause", directory / "pause.tar"
    root.mkdir()
    sh("gcc", "-static", "-Os", "-s", "-o", root / "pause", HERE / "pause.c")
    with tarfile.open(directory / "root.tar", "w") as tar:
        tar.add(root / "pause", "pause")
    store = ["--root", directory / "store", "--runroot", directory / "runroot", "--storage-driver", "vfs"]
    policy = directory / "policy.json"
    policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
    buildah = lambda command, *arguments: sh("buildah", *store, command, *arguments).strip()
    container = buildah("from", "--signature-policy", policy, "scratch")
    buildah("add", "--quiet", container, root / "pause", "/pause")
    buildah("config", "--entrypoint", '["/pause"]', container)
    buildah("commit", "--quiet", "--signature-policy", policy, "--rm", container, f"oci-archive:{archive}:{PAUSE}")
    return archive


class Cluster:
    """The cluster; leaving the `with` block ends it and removes everything that it made."""

    def __init__(self, topology, programs, archives, machines=()):
        """`archives` are images by name; `machines` are the hosts that are nodes of the cluster."""
        self.programs, self.archives = programs, archives
        self.fabric = Fabric(topology, machines)
        self.base = from_modules.DIRECTORY / "run"
        self.group, self.directory = f"canopy-{os.getpid()}", self.base / str(os.getpid())
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        lacking = missing()
        if lacking:
            raise SystemExit("this machine lacks:\n  " + "\n  ".join(lacking))
        stale(self.base)
        self.directory.mkdir(parents=True)
        self.stack.callback(shutil.rmtree, self.directory)
        self.stack.callback(remove_cgroups, self.group)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        # In this thread: a place ends with the thread that made it.
        numbers = {name: number for number, name in enumerate([*self.fabric.nodes, *self.fabric.machines], 11)}
        self.plane = Plane(self.directory, self.group, self.programs, {name: f"10.77.0.{number}" for name, number in numbers.items()})
        self.stack.callback(self.plane.place.stop)
        for command in ("link add br0 type bridge", "address add 10.77.0.1/24 dev br0", "link set br0 up"):
            self.plane.place.run("ip", *command.split())
        self.plane.place.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        # Those of the fabric, and hosts.
        self.nodes, self.machines = {}, {}
        for name, number in numbers.items():
            role, of = ("host", self.machines) if name in self.fabric.machines else ("fabric", self.nodes)
            of[name] = node = Node(name, number, self.directory, self.group, self.plane, role)
            self.stack.callback(node.place.stop)
            plug(self.plane, node)
        self.all = self.nodes | self.machines
        for node in self.all.values():
            node.routes([other for other in self.all.values() if other is not node])
        self.fabric.connect({name: node.place for name, node in self.all.items()})
        self.plane.start()
        archives = {PAUSE: pause(self.directory)} | self.archives
        # Two at a time, as this machine has processors.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda node: (node.start(), node.load(archives)), self.all.values()))
        until("all nodes are ready", 180, self.ready)

    def ready(self):
        """Whether all nodes are."""
        for node in self.all.values():
            node.place.check()
        nodes = json.loads(self.plane.kubectl("get", "nodes", "--output=json"))["items"]
        conditions = [{c["type"]: c["status"] for c in node["status"].get("conditions", ())} for node in nodes]
        return len(nodes) == len(self.all) and all(of.get("Ready") == "True" for of in conditions)

    def __exit__(self, *_):
        self.stack.close()

    def kubectl(self, *arguments, **more):
        return self.plane.kubectl(*arguments, **more)

    def helm(self, *arguments, **more):
        return self.plane.helm(*arguments, **more)

    def get(self, *arguments):
        """Objects as kubectl has them."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def apply(self, *documents):
        """Applies objects."""
        self.kubectl("apply", "--filename=-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
