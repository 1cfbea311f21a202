# SPDX-License-Identifier: Apache-2.0
"""The API server's own record of requests: what the operator sends, and when resources of Canopy are written."""

import datetime
import json

# Of the pod that the operator is in.
ACCOUNT = "system:serviceaccount:canopy-system:canopy-controller"
GROUP = "canopy.dev"
# Requests of the controller, which has the same account.
OF_CONTROLLER = ("tokenreviews", "configmaps")
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [ACCOUNT]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"], "resources": [{"group": GROUP}]},
        {"level": "None"},
    ],
}


def instant(text):
    return datetime.datetime.fromisoformat(text).timestamp()


class Request:
    """A request that the API server has answered, or a watch that it has begun to."""

    def __init__(self, line):
        of = json.loads(line)
        target = of.get("objectRef", {})
        self.verb, self.resource, self.name = of["verb"], target.get("resource"), target.get("name")
        self.namespace, self.part = target.get("namespace"), target.get("subresource")
        self.is_end = of["stage"] == "ResponseComplete"
        self.received, self.answered = instant(of["requestReceivedTimestamp"]), instant(of["stageTimestamp"])
        self.code = of.get("responseStatus", {}).get("code")
        self.is_the_operator_s = of["user"]["username"] == ACCOUNT and self.resource not in OF_CONTROLLER

    def __repr__(self):
        return f"{self.verb} {self.resource}{'/' + self.part if self.part else ''} {self.name or ''} {self.code}"


class Audit:
    """The requests from now on."""

    def __init__(self, plane):
        self.path = plane.audit
        self.start = self.path.stat().st_size if self.path.exists() else 0

    def requests(self):
        """All of them. The server writes a line before it answers, and whole."""
        with self.path.open() as file:
            file.seek(self.start)
            found = [Request(line) for line in file if line.endswith("\n")]
        # A watch has two lines, of its begin and its end.
        return [of for of in found if of.is_end != (of.verb == "watch")]

    def of_the_operator(self):
        return [of for of in self.requests() if of.is_the_operator_s]

    def counted(self):
        """The operator's requests by verb and resource."""
        counts = {}
        for of in self.of_the_operator():
            key = f"{of.verb} {of.resource}{'/' + of.part if of.part else ''}"
            counts[key] = counts.get(key, 0) + 1
        return counts

    def writes(self):
        """Those that change something, but for events."""
        return [of for of in self.of_the_operator() if of.verb not in ("get", "list", "watch") and of.resource != "events"]
