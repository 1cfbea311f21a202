# SPDX-License-Identifier: Apache-2.0
"""What is stored in another version: resources, which the operator stores anew, and the controller's store, which an earlier controller refuses."""

import base64
import json
import shutil

import release
import yaml
from place import until

GROUP, NAMESPACE = "stored", "stored"
LATER = "v1alpha2"
DEFINITIONS = ("multicastgroups", "topologies")
STORE = "/var/lib/volumes/canopy/controller"
POD = f"{release.NAME}-controller-0"


class Stored:
    """Definitions that store a later version, and back; a store of a later format, and back."""

    def __init__(self, cluster, of: release.Release):
        self.c, self.release, self.plane = cluster, of, cluster.plane
        self.present = release.API.split("/")[1]

    def chart(self, stores):
        """A chart whose definitions have both versions, of which this one is stored."""
        chart = self.c.directory / f"crds-{stores}"
        shutil.copytree(release.RESOURCES, chart)
        for path in (chart / "templates").glob("*.yaml"):
            of = yaml.safe_load(path.read_text())
            (version,) = of["spec"]["versions"]
            of["spec"]["versions"] = [version | {"name": name, "storage": name == stores} for name in (self.present, LATER)]
            path.write_text(yaml.safe_dump(of))
        return chart

    def stored_versions(self):
        return [self.c.get("customresourcedefinition", f"{name}.canopy.dev")["status"]["storedVersions"] for name in DEFINITIONS]

    def in_etcd(self):
        """The versions of all objects as they are stored."""
        ends = [base64.b64encode(text.encode()).decode() for text in ("/registry/canopy.dev/", "/registry/canopy.dev0")]
        answer = self.plane.place.run("curl", "--silent", "--fail", "http://127.0.0.1:2379/v3/kv/range", "--data", json.dumps({"key": ends[0], "range_end": ends[1]}))
        objects = [json.loads(base64.b64decode(of["value"])) for of in json.loads(answer)["kvs"]]
        return {of["apiVersion"].split("/")[1] for of in objects}, len(objects)

    def of_resources(self):
        """Every object is written in the version that is stored now; definitions without it are refused until all are written in another one."""
        self.c.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.release.group(GROUP, NAMESPACE)
        later, both = self.chart(LATER), self.chart(self.present)
        assert self.stored_versions() == [[self.present]] * 2
        self.release.resources(later)
        until("all objects to be stored in the later version", 60, lambda: self.stored_versions() == [[LATER]] * 2)
        versions, number = self.in_etcd()
        assert versions == {LATER} and number >= 2, (versions, number)
        refused = self.release.resources(check=False)
        assert refused.returncode != 0 and "storedVersions" in refused.stderr, refused
        self.release.resources(both)
        until("all objects to be stored in the former version again", 60, lambda: self.stored_versions() == [[self.present]] * 2)
        assert self.in_etcd()[0] == {self.present}
        self.release.resources()
        self.c.kubectl(f"--namespace={NAMESPACE}", "delete", "multicastgroup", GROUP, "--timeout=60s")

    def of_the_controller(self):
        """A controller does not start on a store of a later format, names the way back, and goes it."""
        place = self.c.nodes[release.CONTROLLER_NODE].place
        written = json.dumps({"format": 2, "version": "9.9.9"})
        copy = "cp $(ls snapshots/*.snapshot | tail -1) before-format-2.snapshot && chown --reference=format before-format-2.snapshot"
        # As a later version would leave it. A controller that ends writes a backup, which is the copy.
        self.scale(0)
        place.run("sh", "-c", f"cd {STORE} && {copy} && echo '{written}' >format")
        self.scale(1)
        until("the earlier controller to refuse the store, with what to do", 120, lambda: "canopy-controller store return" in self.last_words())
        assert "9.9.9" in self.last_words()
        # Kubernetes tries again, and no try is ready.
        tries = self.restarts()
        until("two more tries", 120, lambda: self.restarts() >= tries + 2 or self.container().get("ready"))
        assert not self.container()["ready"]
        self.scale(0)
        self.give_up()
        self.scale(1)
        self.release.kubectl("wait", "pod", POD, "--for=condition=Ready", "--timeout=120s")
        self.release.in_sync()
        self.release.ctl("check", "--wait", "120s")
        assert place.run("sh", "-c", f"ls {STORE}/later-1") and '"format":1' in place.run("cat", f"{STORE}/format")

    def scale(self, replicas):
        """With or without a controller."""
        self.release.kubectl("scale", "statefulset", f"{release.NAME}-controller", f"--replicas={replicas}")
        if replicas:
            until("the pod of the controller", 60, lambda: self.release.pods("controller"))
        else:
            self.release.kubectl("wait", "pod", POD, "--for=delete", "--timeout=120s")

    def give_up(self):
        """As docs/kubernetes.md has it."""
        image = self.release.image("canopy-controller")
        container = {"name": "canopy-return", "image": image, "imagePullPolicy": "Never", "args": ["store", "return"], "volumeMounts": [{"name": "store", "mountPath": "/var/lib/canopy"}, {"name": "settings", "mountPath": "/etc/canopy"}]}
        spec = {
            "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch"},
            "containers": [container],
            "volumes": [{"name": "store", "persistentVolumeClaim": {"claimName": f"store-{POD}"}}, {"name": "settings", "configMap": {"name": f"{release.NAME}-controller"}}],
        }
        self.release.kubectl("run", "canopy-return", "--restart=Never", f"--image={image}", f"--overrides={json.dumps({'spec': spec})}")
        phase = lambda: self.release.kubectl("get", "pod", "canopy-return", "--output=jsonpath={.status.phase}")
        until("the store to be returned", 120, lambda: phase() in ("Succeeded", "Failed"))
        assert phase() == "Succeeded", self.release.kubectl("logs", "canopy-return")
        self.release.kubectl("delete", "pod", "canopy-return")

    def container(self):
        pod = self.c.get(f"--namespace={release.NAMESPACE}", "pod", POD) if self.release.pods("controller") else {}
        return next((of for of in pod.get("status", {}).get("containerStatuses", ()) if of["name"] == "controller"), {})

    def last_words(self):
        """What the controller's container has ended with."""
        of = self.container()
        ends = [of.get(key, {}).get("terminated", {}).get("message", "") for key in ("state", "lastState")]
        return "".join(ends)

    def restarts(self):
        return self.container().get("restartCount", 0)
