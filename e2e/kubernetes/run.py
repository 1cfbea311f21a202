#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figure 1 on a cluster of Kubernetes, installed from the chart as docs/kubernetes.md has it.

    run.py DIRECTORY_OF_IMAGES DIRECTORY_OF_STATIC_PROGRAMS [TOPOLOGY] [--steps WORDS] [--keep]

A node of Kubernetes for each node of the topology (e2e/topologies/figure1.yaml) and for one host, a pod for each host. The cluster's programs
come from Go modules (from_modules.py). Needs root. Leaves nothing behind.
"""

import argparse
import json
import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

import yaml

sys.dont_write_bytecode = True  # no __pycache__ in the sources
HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE), str(TOP / "deploy/kubernetes"), str(TOP / "deploy/container"), str(TOP / "deploy/debian")]
import from_modules  # noqa: E402
import images  # noqa: E402
import leftovers  # noqa: E402
import many as many_of  # noqa: E402
import manifests  # noqa: E402
import release  # noqa: E402
import steps  # noqa: E402
from cluster import REGISTRY, Cluster  # noqa: E402
from conflicts import Conflicts  # noqa: E402
from cordon import Cordon  # noqa: E402
from many import Many  # noqa: E402
from outage import Outage  # noqa: E402
from place import until  # noqa: E402
from pods import Transfer  # noqa: E402
from stored import Stored  # noqa: E402

MIB = 1 << 20
# The application of the pods; no image for users.
APPLICATION = images.Image("canopy-rc", "a Reliable Connection in software, for tests", user=0)
# What a cluster on one machine does not show; docs/kubernetes.md has the same list.
NOT_RUN = "real RDMA devices, DRA, SR-IOV, NetworkPolicy, AppArmor, LoadBalancer, cluster DNS, the Prometheus operator, arm64, control groups of version 2, SPIRE"
FIGURE_1 = TOP / "e2e/topologies/figure1.yaml"
# The host that is a machine of its own, with the agent of a host.
MACHINES = ("r2",)
# Steps that all others stand on.
INSTALL = ("step_the_chart_refuses_older_resources", "step_the_chart_is_installed", "step_every_agent_is_in_sync")


class Kubernetes:
    """The steps of the test, in their order."""

    def __init__(self, cluster, archives):
        self.c, self.archives = cluster, archives
        self.release = release.Release(cluster, archives)
        self.source, *self.receivers = cluster.fabric.hosts

    def step_the_manifests_are_those_that_helm_makes(self):
        differing = manifests.differing(self.c.helm)
        assert not differing, f"made of other charts: {differing}: python3 e2e/kubernetes/render.py"
        chart = ("template", "canopy", release.CHART, "--api-versions=monitoring.coreos.com/v1")
        made = [of for of in yaml.safe_load_all(self.c.helm(*chart, "--set=monitoring.prometheusRule.enabled=true,monitoring.dashboards.enabled=true")) if of]
        (rules,) = (of["spec"] for of in made if of["kind"] == "PrometheusRule")
        assert rules == yaml.safe_load((TOP / "deploy/prometheus/canopy.rules.yaml").read_text())
        boards = {name: json.loads(text) for of in made if "-dashboard-" in of["metadata"]["name"] for name, text in of["data"].items()}
        assert boards == {path.name: json.loads(path.read_text()) for path in (TOP / "deploy/grafana").glob("*.json")}, list(boards)
        refused = self.c.helm(*chart, "--set=controller.replicas=2", check=False)
        assert refused.returncode != 0 and "/controller/replicas" in refused.stderr, refused

    def step_the_chart_refuses_older_resources_and_names_the_command_that_upgrades_them(self):
        self.release.prepare()
        self.kernels = {name: leftovers.kernel(node) for name, node in self.c.nodes.items()}
        self.release.resources(self.release.older_resources())
        refused = self.release.upgrade(check=False)
        command = f"helm upgrade --install canopy-crds deploy/kubernetes/canopy-crds --namespace {release.NAMESPACE}"
        assert refused.returncode != 0 and "multicastgroups.canopy.dev" in refused.stderr and command in refused.stderr, refused
        assert not self.release.pods("controller") and not self.release.pods("agent"), "it has installed something"
        self.release.resources()

    def step_the_chart_is_installed(self):
        self.release.upgrade()

    def step_every_agent_is_in_sync(self):
        self.release.in_sync()
        self.release.topology()
        # Agents enroll once the kubelets have brought them what the controller has published.
        status = lambda: self.c.get("topology", "default").get("status", {})
        until("all nodes to be in sync", 240, lambda: status().get("syncedNodes") == len(self.c.nodes))
        self.release.ctl("check", "--wait", "120s")
        nodes = json.loads(self.release.ctl("get", "nodes", "-o", "json"))["items"]
        assert sorted(node["metadata"]["name"] for node in nodes) == sorted(self.c.nodes), nodes

    def step_pods_receive_what_a_pod_sends(self):
        with Transfer(self.c, self.release, "weights", 256 * MIB, ("--timeout", "1s")) as transfer:
            column = lambda: transfer.kubectl("get", "multicastgroup", "weights", "--no-headers").split()[1:4]
            until("the resource to have the group's phase, source and receivers", 60, lambda: column() == ["Ready", self.source, str(len(self.receivers))])
            owners = {of["metadata"].get("writtenBy", {}).get("account", "") for of in json.loads(self.release.ctl("get", "members", "-g", "weights", "-o", "json"))["items"]}
            assert owners == {f"{transfer.namespace}/default"}, owners
            transfer.refuses_a_stranger()
            report = transfer.finish()
        print(f"   {report['bytes'] >> 20} MiB to {len(self.receivers)} pods, sha256 {report['sha256'][:12]}, {report['retransmitted']} retransmitted")

    def step_a_group_of_a_resource_is_written_by_no_one_else_until_it_is_taken_over(self):
        Conflicts(self.c, self.release).of_a_group()

    def step_a_drain_survives_the_topology_being_applied_again(self):
        Conflicts(self.c, self.release).of_a_drain()

    def step_a_cordoned_node_is_drained_until_it_is_uncordoned(self):
        Cordon(self.c, self.release).of_a_node_without_hosts()

    def step_agents_are_replaced_one_by_one_under_traffic_without_a_loss(self):
        values = self.release.values()
        values["agent"]["podAnnotations"] = {"example.com/rollout": "second"}
        before = {node: pod["metadata"]["uid"] for node, pod in self.release.pods("agent").items()}
        # Its timer is so long that a busy machine causes no retransmission: each one means that a packet was lost.
        with Transfer(self.c, self.release, "rolled", 630 * MIB, ("--timeout", "5s")) as transfer:
            transfer.slow("12mbit")
            until("data to be acknowledged", 60, lambda: self.delivery("rolled") == "Flowing")
            trees, began = self.trees("rolled"), time.monotonic()
            self.release.upgrade(values)
            took = time.monotonic() - began
            assert not transfer.has_ended(), transfer.state()
            assert self.trees("rolled") == trees, (trees, self.trees("rolled"))
            self.a_broken_version_stops_at_one_node(values)
            self.the_controller_s_pod_is_replaced()
            assert not transfer.has_ended(), transfer.state()
            assert self.trees("rolled") == trees, (trees, self.trees("rolled"))
            transfer.slow("1gbit")
            report = transfer.finish()
        after = {node: pod["metadata"]["uid"] for node, pod in self.release.pods("agent").items()}
        assert after.keys() == before.keys() and not set(after.values()) & set(before.values()), (before, after)
        assert report["retransmitted"] == 0, report
        print(f"   six agents in {took:.0f} s, then a broken version and back, and the controller's pod: {report['bytes'] >> 20} MiB, 0 retransmitted")

    def step_the_kernel_copies_for_a_group_while_no_agent_runs(self):
        holders = lambda: {node: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for node, pod in self.release.pods("multicast-holder").items()}
        routes = lambda: {name: len(leftovers.lines(node, "ip", "-6", "mroute", "show", "table", "all")) for name, node in self.c.nodes.items()}
        before = holders()
        assert before.keys() == self.c.nodes.keys(), before
        with Transfer(self.c, self.release, "copied", 250 * MIB, ("--timeout", "5s"), replication="multicast", minReceivers=len(self.receivers)) as transfer:
            transfer.slow("12mbit")
            until("data to be acknowledged", 60, lambda: self.delivery("copied") == "Flowing")
            trees, with_agents = self.trees("copied"), routes()
            assert any(with_agents.values()), with_agents
            self.release.kubectl("delete", "pods", "--selector=app.kubernetes.io/component=agent")
            self.release.in_sync()
            assert (self.trees("copied"), routes(), holders()) == (trees, with_agents, before), (trees, with_agents, before, holders())
            assert not transfer.has_ended(), transfer.state()
            transfer.slow("1gbit")
            report = transfer.finish()
        assert report["retransmitted"] == 0, report
        until("the kernels' routes of the group to be gone", 60, lambda: not any(routes().values()))
        print(f"   {report['bytes'] >> 20} MiB, 0 retransmitted; copied by the kernels of {sorted(name for name, number in with_agents.items() if number)}")

    def a_broken_version_stops_at_one_node(self, values):
        """An agent that does not start ends the rollout at its node; a rollback brings it back."""
        broken = json.loads(json.dumps(values))
        broken["agent"]["settings"] = {"no_such_key": 1}
        refused = self.release.upgrade(broken, "--timeout=45s", check=False)
        assert refused.returncode != 0, refused
        ready = {node for node, pod in self.release.pods("agent").items() if self.release.is_ready(pod)}
        assert len(ready) == len(self.c.nodes) - 1, ready
        self.c.helm("rollback", release.NAME, f"--namespace={release.NAMESPACE}", "--wait", "--timeout=3m")
        self.release.in_sync()

    def the_controller_s_pod_is_replaced(self):
        """Its store is on a volume: the next one continues."""
        pod = f"{release.NAME}-controller-0"
        uid = lambda: self.release.kubectl("get", "pod", pod, "--output=jsonpath={.metadata.uid}", check=False).stdout
        before = uid()
        self.release.kubectl("delete", "pod", pod)
        until("another pod of the controller", 60, lambda: uid() not in ("", before))
        self.release.kubectl("wait", "pod", pod, "--for=condition=Ready", "--timeout=120s")
        self.release.in_sync()
        self.release.ctl("check", "--wait", "60s")

    def trees(self, group):
        """The nodes and branches of a group, which change when a tree moves."""
        return json.loads(self.release.ctl("get", "group", group, "-o", "json"))["status"].get("trees")

    def delivery(self, group):
        return (json.loads(self.release.ctl("get", "group", group, "-o", "json"))["status"].get("delivery") or {}).get("state")

    def step_a_minute_without_the_api_server_and_a_kubelet_costs_no_packet(self):
        with Transfer(self.c, self.release, "served", 400 * MIB, ("--timeout", "5s")) as transfer:
            transfer.slow("12mbit")
            until("data to be acknowledged", 60, lambda: self.delivery("served") == "Flowing")
            Cordon(self.c, self.release).of_a_node_with_members()
            outage = Outage(self.c, self.release, "served")
            outage.lasts_a_minute(lambda: None)
            outage.edits_are_reconciled(transfer.namespace)
            assert not transfer.has_ended(), transfer.state()
            transfer.slow("1gbit")
            report = transfer.finish()
        assert report["retransmitted"] == 0, report
        print(f"   {report['bytes'] >> 20} MiB, 0 retransmitted; what was edited afterwards is reconciled")

    def step_resources_are_stored_anew_when_their_definition_stores_another_version(self):
        Stored(self.c, self.release).of_resources()

    def step_a_store_of_a_later_format_is_refused_with_the_way_back(self):
        Stored(self.c, self.release).of_the_controller()

    def step_one_change_among_a_thousand_groups_and_three_hundred_nodes_costs_its_own(self):
        with Many(self.c, self.release) as many:
            took, requests = many.declare()
            print(f"   {many_of.GROUPS} groups on {many_of.NODES} nodes reconciled in {took:.0f} s: {requests}")
            middle, worst, writes, requests = many.changes()
            print(f"   a change: {middle * 1000:.0f} ms, {worst * 1000:.0f} ms at most, {writes:.1f} writes; {many_of.CHANGED} changes: {requests}")
            assert middle <= 1 and writes <= 2, (middle, worst, requests)
            requests = many.idle()
            print(f"   {many_of.IDLE} s without a change: {requests}")
            assert not [of for of in requests if not of.startswith("watch ")], requests
            requests = many.restarted()
            print(f"   the operator restarted, and one change: {requests}")
            assert sum(number for of, number in requests.items() if of.startswith("patch ")) <= 2, requests

    def step_uninstall_with_clean_up_fails_and_names_the_node_that_does_not_answer(self):
        assert all(map(leftovers.left, self.c.nodes.values())), "nothing to remove"
        silent = self.c.nodes[list(self.c.nodes)[1]]
        agents = silent.place.run("pidof", "canopy-agent").split()
        silent.place.run("kill", "-STOP", *agents)
        refused = self.release.uninstall(check=False)
        silent.place.run("kill", "-CONT", *agents)
        # Helm prints the log of the Job as one line of its own.
        printed = (refused.stdout + refused.stderr).replace("\\n", "\n").splitlines()
        named = [line for line in printed if line.startswith(f"  {silent.name}: ")]
        assert refused.returncode != 0 and named and any("not left within" in line for line in printed), refused
        assert leftovers.left(silent) and self.release.pods("controller"), "it was removed all the same"
        print(f" {named[0]}")

    def step_uninstall_with_clean_up_leaves_nothing(self):
        self.release.uninstall()
        # Helm waits for no pod. What resources describe stays.
        of_it = lambda: self.release.kubectl("get", "jobs,pods,serviceaccounts", f"--selector=app.kubernetes.io/instance={release.NAME}", "--output=name")
        until("pods, jobs and accounts of the release to be gone", 120, lambda: not of_it())
        assert self.c.get("topology", "default")["spec"]["nodes"]
        left = {name: leftovers.left(node) for name, node in self.c.nodes.items()}
        assert not any(left.values()), left
        changed = {name: leftovers.changed(self.kernels[name], leftovers.kernel(node)) for name, node in self.c.nodes.items()}
        assert not any(changed.values()), changed


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path)
    parser.add_argument("static", type=Path, help="directory of static programs")
    parser.add_argument("topology", type=Path, nargs="?", default=FIGURE_1)
    parser.add_argument("--steps", type=lambda text: text.split(","), metavar="WORDS", help="after the installation, only steps with one of these words in their names, between commas")
    parser.add_argument("--keep", action="store_true", help="keep the cluster after a failure until a signal (SIGTERM, SIGINT)")
    return parser.parse_args()


def main():
    options = arguments()
    if os.geteuid() != 0:
        raise SystemExit("run.py: needs root")
    # So that the cluster ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    programs = from_modules.main()
    with tempfile.TemporaryDirectory(prefix="canopy-kubernetes.") as temporary:
        archives = {path.name.removesuffix(".oci.tar"): path for path in sorted(options.images.resolve().glob("*.oci.tar"))}
        archives["canopy-rc"] = images.Builder(Path(temporary)).image(APPLICATION, options.static.resolve(), Path(temporary))
        run(options, programs, archives)


def run(options, programs, archives):
    """Runs the test with the cluster's programs and Canopy's images."""
    began = time.monotonic()
    with Cluster(options.topology, programs, {f"{REGISTRY}/{name}@{images.digest(path)}": path for name, path in archives.items()}, MACHINES) as cluster:
        print(f"a cluster of {len(cluster.all)} nodes is ready ({time.monotonic() - began:.1f} s)", flush=True)
        print(f"not run here: {NOT_RUN}", flush=True)
        test = Kubernetes(cluster, archives)

        def after_failure():
            test.release.describe()
            if options.keep:
                print("kept until a signal:", shlex.join(cluster.plane.place.entered(cluster.programs / "kubectl", f"--kubeconfig={cluster.plane.kubeconfig('admin')}")), flush=True)
                signal.pause()

        is_wanted = lambda name: not options.steps or name.startswith(INSTALL) or any(word in name for word in options.steps)
        steps.run(test, after_failure, is_wanted)


if __name__ == "__main__":
    main()
