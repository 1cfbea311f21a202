# SPDX-License-Identifier: Apache-2.0
"""Hosts of the fabric as pods, with canopy-rc as their application."""

import json

from place import until
from release import Release

NAMESPACE = "hosts"
TOKENS = "/var/run/secrets/canopy"
# A pod that does not show its token.
STRANGER = "stranger"


class Transfer:
    """A transfer from the first host of the topology to all others, each a pod; leaving the `with` block deletes them."""

    def __init__(self, cluster, release: Release, group, size, sender=(), **spec):
        self.c, self.release, self.group, self.size, self.options, self.spec = cluster, release, group, size, sender, spec
        self.namespace = NAMESPACE
        self.source, *self.receivers = cluster.fabric.hosts

    def __enter__(self):
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        self.c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        self.release.group(self.group, NAMESPACE, pathMtu=4096, **self.spec)
        # Receivers stay until the source has all acknowledgements.
        sinks = [self.pod(host, "receive", "--linger", "600s") for host in self.receivers]
        waiting = ("--wait-receivers", str(len(self.receivers)), "--deadline", "900s", "--ready-timeout", "120s")
        self.c.apply(*sinks, self.pod(self.source, "send", *waiting, *self.options))
        return self

    def pod(self, host, verb, *more):
        """The pod of a host: its interface `fabric` is the host's (cni/fabric), its socket that of the node's agent; on a machine of its own, that
        machine's network, and the socket of the host's agent."""
        options = [verb, "--group", self.group, "--host", host, "--bytes", str(self.size), "--json", "--leave"]
        options += ["--controller", "unix:/run/canopy/host.sock", "--address", self.c.fabric.hosts[host]["address"], *more]
        container = {
            "name": "rc",
            "image": self.release.image("canopy-rc"),
            "imagePullPolicy": "Never",
            "args": options,
            # Raw sockets stand for the RDMA device.
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["NET_RAW", "NET_ADMIN"]}},
            "env": [{"name": "CANOPY_TOKEN_FILE", "value": f"{TOKENS}/token"}],
            "volumeMounts": [{"name": "canopy", "mountPath": "/run/canopy", "readOnly": True}, {"name": "canopy-token", "mountPath": TOKENS, "readOnly": True}],
        }
        projected = {"serviceAccountToken": {"path": "token", "audience": "canopy", "expirationSeconds": 3600}}
        token = {"name": "canopy-token", "projected": {"sources": [projected]}}
        is_machine = host in self.c.machines
        volume = {"name": "canopy", "hostPath": {"path": "/run/canopy/host-agent" if is_machine else "/run/canopy/agent", "type": "Directory"}}
        spec = {
            "nodeName": host if is_machine else self.c.fabric.edge(host),
            "hostNetwork": is_machine,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            "volumes": [volume, token],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": host, "namespace": NAMESPACE}, "spec": spec}

    def refuses_a_stranger(self):
        """A pod as the others, on the same node, that shows no token has no right at the socket, although it is user 0."""
        pod = self.pod(self.receivers[0], "receive")
        pod["metadata"]["name"] = STRANGER
        pod["spec"]["containers"][0]["env"] = []
        # It has no interface into the fabric, whose address the other one has.
        args = pod["spec"]["containers"][0]["args"]
        args[args.index("--address") + 1] = "::1"
        self.c.apply(pod)
        until("the pod without a token to end", 60, lambda: self.phase(STRANGER) == "Failed")
        printed = self.kubectl("logs", STRANGER)
        assert "the call has none" in printed and "CANOPY_TOKEN_FILE" in printed, printed

    def kubectl(self, *arguments, **more):
        return self.c.kubectl(f"--namespace={NAMESPACE}", *arguments, **more)

    def phase(self, host):
        return self.kubectl("get", "pod", host, "--output=jsonpath={.status.phase}")

    def events(self, host):
        """What a pod's application has reported."""
        lines = self.kubectl("logs", host, check=False).stdout.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def hash_at(self, host):
        """What a receiver has, once it has everything."""
        return next((event["sha256"] for event in self.events(host) if "sha256" in event), None)

    def slow(self, rate):
        """Limits the source, with a queue that takes its whole window."""
        node = self.c.nodes[self.c.fabric.edge(self.source)].place
        pid = until("the source to run", 60, lambda: node.run("pidof", "canopy-rc", check=False).stdout.split())[0]
        node.run("nsenter", f"--target={pid}", "--net", "tc", "qdisc", "replace", "dev", "fabric", "root", "tbf", "rate", rate, "burst", "256k", "limit", "4m")

    def has_ended(self):
        """Whether the source has ended."""
        return self.phase(self.source) in ("Succeeded", "Failed")

    def finish(self):
        """The source's report, after all receivers have the bytes that it sent; fails otherwise."""
        try:
            until("the source to end", 600, self.has_ended)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state()}") from None
        assert self.phase(self.source) == "Succeeded", self.state()
        report = next(event for event in self.events(self.source) if "retransmitted" in event)
        # A receiver acknowledges the last packet before it has the hash of all.
        sums = {host: until(f"{host} to report, after {report}", 60, lambda host=host: self.hash_at(host)) for host in self.receivers}
        assert set(sums.values()) == {report["sha256"]}, (report, sums, self.state())
        return report

    def state(self):
        """What is known of the pods."""
        logs = "\n".join(self.kubectl("logs", host, "--tail=5", check=False).stdout for host in self.c.fabric.hosts)
        return self.kubectl("get", "pods", "--output=wide", check=False).stdout + self.kubectl("get", "events", check=False).stdout[-2000:] + logs

    def __exit__(self, *_):
        self.kubectl("delete", "pods", "--all", "--wait", "--timeout=60s")
        self.kubectl("delete", "multicastgroup", self.group, "--wait", "--timeout=120s")
