# SPDX-License-Identifier: Apache-2.0
"""A node of a cluster: containerd, kubelet and kube-proxy in one place."""

import json
import os
import subprocess
from pathlib import Path

from place import Place, until
from plane import SERVICES

HERE = Path(__file__).resolve().parent
# Plugins of Debian's package.
PLUGINS = Path("/usr/lib/cni")
PODS = "10.88.0.0/16"
PAUSE = "canopy.invalid/pause:1"
# Label of a node: "fabric", or "host".
ROLE = "canopy.invalid/role"
CONTAINERD = """
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "native"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
# A machine without CAP_SYS_RESOURCE may not lower it.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{bin}"]
conf_dir = "{conf}"
"""
NETWORK = {
    "cniVersion": "1.0.0",
    "name": "test",
    "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False},
        {"type": "fabric"},
    ],
}


class Node:
    """A node; `number` gives its address and that of its pods, `role` is its label."""

    def __init__(self, name, number, directory, group, plane, role):
        self.name, self.group, self.plane, self.programs, self.role = name, group, plane, plane.programs, role
        self.address, self.pods = f"10.77.0.{number}", f"10.88.{number}.0/24"
        self.place = Place(name, directory, group)
        self.settings()

    def file(self, name, text):
        path = self.place.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def settings(self):
        """Writes the files of settings."""
        plugins = self.place.directory / "plugins"
        plugins.mkdir()
        for name in ("bridge", "host-local", "loopback"):
            (plugins / name).symlink_to(PLUGINS / name)
        (plugins / "fabric").symlink_to(HERE / "cni/fabric")
        network = json.loads(json.dumps(NETWORK))
        network["plugins"][0]["ipam"] = {"type": "host-local", "ranges": [[{"subnet": self.pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
        conf = Path(self.file("network/10-test.conflist", json.dumps(network))).parent
        self.containerd = self.file("containerd.toml", CONTAINERD.format(pause=PAUSE, bin=plugins, conf=conf))
        nothing = dict.fromkeys(("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"), "0%")
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": self.plane.path("ca.crt")}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": self.plane.path(f"kubelet-{self.name}.crt"),
            "tlsPrivateKeyFile": self.plane.path(f"kubelet-{self.name}.key"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.group}/{self.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "resolvConf": "",
            # Nothing is evicted for want of a disk that many share.
            "evictionHard": nothing,
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "localStorageCapacityIsolation": False,
            "shutdownGracePeriod": "0s",
        }
        self.kubelet = self.file("kubelet.json", json.dumps(kubelet))
        proxy = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": PODS,
            "hostnameOverride": self.name,
            "clientConnection": {"kubeconfig": self.plane.kubeconfig("system:kube-proxy")},
            # Limits of the whole machine, which a namespace cannot set.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        self.proxy = self.file("proxy.json", json.dumps(proxy))

    def start(self):
        """Starts the node's programs; the kubelet registers it."""
        environment = os.environ | {"PATH": f"{self.programs}:{os.environ['PATH']}"}
        self.place.start("containerd", self.programs / "containerd", "--config", self.containerd, "--log-level", "warn", environment=environment)
        until(f"containerd of {self.name}", 60, lambda: self.place.check() or self.ctr("version", check=False).returncode == 0)
        self.place.start("kube-proxy", self.programs / "kube-proxy", f"--config={self.proxy}")
        self.start_kubelet()

    def start_kubelet(self):
        """Starts the kubelet, also after it was ended."""
        options = (f"--config={self.kubelet}", f"--kubeconfig={self.plane.kubeconfig(f'system:node:{self.name}')}", f"--hostname-override={self.name}", f"--node-ip={self.address}", f"--node-labels={ROLE}={self.role}")
        self.place.start("kubelet", self.programs / "kubelet", *options)

    def ctr(self, *arguments, **more):
        """Runs containerd's client."""
        return self.place.run(self.programs / "ctr", "--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io", *arguments, **more)

    def load(self, archives):
        """Imports images, each by the name that it has here: with a digest, or a tag."""
        for name, archive in archives.items():
            repository, at, _ = name.partition("@")
            by_digest = ("--digests", "--base-name", repository) if at else ()
            self.ctr("images", "import", "--local", *by_digest, archive)

    def routes(self, others):
        """Routes to the pods of other nodes, and to services from pods."""
        self.place.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        for other in others:
            self.place.run("ip", "route", "add", other.pods, "via", other.address)


def plug(plane, node):
    """Cable of a node to the management network: its interface mgmt0."""
    of = ["nsenter", f"--net=/proc/{plane.place.pid}/ns/net", "ip"]
    subprocess.run([*of, "link", "add", f"to-{node.name}", "type", "veth", "peer", "name", "mgmt0", "netns", node.place.pid], check=True)
    subprocess.run([*of, "link", "set", f"to-{node.name}", "master", "br0", "up"], check=True)
    node.place.run("ip", "address", "add", f"{node.address}/24", "dev", "mgmt0")
    node.place.run("ip", "link", "set", "mgmt0", "up")
    plane.place.run("ip", "route", "add", node.pods, "via", node.address)
    # Services from the node itself are taken by kube-proxy before a route is needed, but a route has to be there.
    node.place.run("ip", "route", "add", SERVICES, "via", "10.77.0.1")
