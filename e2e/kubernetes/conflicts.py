# SPDX-License-Identifier: Apache-2.0
"""What becomes of a group and a topology that a resource declares, when others write them too."""

import json

import release
from place import until

GROUP = "shared"
NAMESPACE = "conflicts"
# What the resource declares, and what the others would have.
OWN, OTHER = 2, 3
DRAINED = "n6/eth3"


class Conflicts:
    """A group by kubectl, REST and canopyctl; a drain beside the topology's resource."""

    def __init__(self, cluster, of: release.Release):
        self.c, self.release = cluster, of

    def of_a_group(self):
        """Only the resource changes its group, until an operator takes that over; the resource shows it, and gets it back."""
        self.c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.release.group(GROUP, NAMESPACE, minReceivers=OWN)
        given = json.dumps(self.changed())
        for refused in (self.by_rest(given), self.by_ctl(given), self.by_ctl(given, verb=("delete", "group", GROUP))):
            assert "ManagedBy" in refused or "is managed by kubernetes.kubernetes." in refused, refused
            assert f"kubectl --namespace {NAMESPACE} edit multicastgroup {GROUP}" in refused, refused
        assert self.least() == OWN
        self.other_namespace()
        self.release.ctl("--take-over", "apply", "--filename=-", input=given)
        until("the resource to show that its group was taken over", 60, lambda: self.reconciled() == "False Conflict")
        assert self.least() == OTHER
        self.kubectl("annotate", "multicastgroup", GROUP, "canopy.dev/adopt=true")
        until("the resource to have its group back", 60, lambda: self.reconciled().startswith("True"))
        assert self.least() == OWN
        self.kubectl("delete", "multicastgroup", GROUP, "--timeout=60s")
        gone = self.release.ctl("get", "group", GROUP, check=False)
        assert gone.returncode == 3, gone

    def other_namespace(self):
        """A second resource of the same name, of another tenant, has no part in the group, and none in it when it goes."""
        of = {"apiVersion": release.API, "kind": "MulticastGroup", "metadata": {"name": GROUP, "namespace": "default"}, "spec": {"minReceivers": OTHER}}
        self.c.apply(of)
        until("the second resource to have a conflict", 60, lambda: self.reconciled("default") == "False Conflict")
        self.c.kubectl("--namespace=default", "delete", "multicastgroup", GROUP, "--timeout=60s")
        assert self.least() == OWN and self.reconciled().startswith("True")

    def of_a_drain(self):
        """A drain stays whatever is applied to the topology's resource."""
        name = DRAINED.replace("/", "-")
        self.release.ctl("drain", "link", DRAINED, "--reason", "optics")
        declared = self.c.fabric.declared()
        other = next(link for link in declared["links"] if link["a"] == "n4/eth3")
        for drained in (True, False):
            self.release.topology({**declared, "links": [link | ({"drained": drained} if link is other else {}) for link in declared["links"]]})
            until("the controller to have the topology that was applied", 60, lambda drained=drained: self.topology_has("n4/eth3", drained))
            names = [of["metadata"]["name"] for of in self.listed("drains")]
            assert names == [name], names
        self.release.ctl("undrain", name)
        assert self.listed("drains") == []

    def topology_has(self, port, drained):
        """Whether the resource is reconciled, and a link of the controller's topology drained by it."""
        of = self.c.get("topology", "default")
        conditions = {condition["type"]: condition for condition in of["status"]["conditions"]}
        is_current = of["status"].get("observedGeneration") == of["metadata"]["generation"] and conditions["Reconciled"]["status"] == "True"
        links = json.loads(self.release.ctl("get", "topology", "-o", "json"))["spec"]["links"]
        return is_current and next(link for link in links if link["a"] == port).get("drained", False) == drained

    def listed(self, what):
        return json.loads(self.release.ctl("get", what, "-o", "json"))["items"]

    def group(self):
        return json.loads(self.release.ctl("get", "group", GROUP, "-o", "json"))

    def least(self):
        return self.group()["spec"].get("minReceivers")

    def changed(self):
        """The group as another writer would have it."""
        of = self.group()
        metadata = {"name": GROUP, "tenant": of["metadata"]["tenant"]}
        return {"apiVersion": of["apiVersion"], "kind": of["kind"], "metadata": metadata, "spec": of["spec"] | {"minReceivers": OTHER}}

    def by_rest(self, given):
        """The answer to a PUT, which is to be 409."""
        answer = self.release.rest("PUT", f"/api/v1/groups/{GROUP}", given)
        assert answer.endswith("\n409"), answer
        return answer

    def by_ctl(self, given, verb=("apply", "--filename=-")):
        """What canopyctl writes when it is refused."""
        refused = self.release.ctl(*verb, input=given, check=False)
        assert refused.returncode in (1, 4), refused
        return refused.stderr + refused.stdout

    def reconciled(self, namespace=NAMESPACE):
        """Status and reason of the resource's condition."""
        path = '{range .status.conditions[?(@.type=="Reconciled")]}{.status} {.reason}{end}'
        return self.c.kubectl(f"--namespace={namespace}", "get", "multicastgroup", GROUP, f"--output=jsonpath={path}")

    def kubectl(self, *arguments):
        return self.c.kubectl(f"--namespace={NAMESPACE}", *arguments)
