# SPDX-License-Identifier: Apache-2.0
"""Canopy's REST API, as far as an application and its operator need it."""

import json
import os
import time
import urllib.error
import urllib.request

SERVER = os.environ.get("CANOPY_SERVER", "http://127.0.0.1:8640")


class Refused(Exception):
    """The controller refused a request; `status` is the HTTP status, `problem` the body (RFC 9457)."""

    def __init__(self, method, path, status, problem):
        super().__init__(f"{method} {path}: {status} {problem}")
        self.status, self.problem = status, problem


def request(method, path, body=None):
    """One request; returns the JSON answer, None if it is empty."""
    data = None if body is None else json.dumps(body).encode()
    req = urllib.request.Request(f"{SERVER}/api/v1{path}", data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(req, timeout=60) as answer:
            text = answer.read()
    except urllib.error.HTTPError as e:
        raise Refused(method, path, e.code, e.read().decode(errors="replace")) from None
    return json.loads(text) if text else None


def _resource(kind, name, spec):
    return {"apiVersion": "canopy/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def create_group(name, **spec):
    """Declares a group."""
    return request("PUT", f"/groups/{name}", _resource("Group", name, spec))


def group(name):
    """The group's status."""
    return request("GET", f"/groups/{name}")["status"]


def delete_group(name):
    """Deletes a group after all its members have left."""
    for member in request("GET", f"/groups/{name}/members")["items"]:
        leave(name, member["spec"]["host"])
    request("DELETE", f"/groups/{name}")


def join(name, host, role, qpn, memory=None):
    """Joins a group; returns the connection parameters of the QP."""
    spec = {"host": host, "role": role, "qpn": qpn}
    if memory:
        spec["memory"] = memory
    request("POST", f"/groups/{name}/members", _resource("Member", host, spec))
    return group(name)["connection"]


def leave(name, host):
    """Leaves a group."""
    request("DELETE", f"/groups/{name}/members/{host}")


def wait_ready(name, receivers, seconds=120):
    """Waits until the group is ready with this many receivers; returns its status."""
    return wait(
        lambda: group(name),
        lambda s: s["phase"] == "Ready" and s["receivers"] == receivers and s["source"],
        f"group {name} to be ready with {receivers} receivers",
        seconds,
    )


def drops(name):
    """Packets of the group that nodes dropped, as {(node, reason): packets}, from telemetry."""
    items = request("GET", f"/groups/{name}/telemetry")["items"]
    return {(item["node"], d["name"]): d["packets"] for item in items for d in item["drops"] if d["packets"]}


def events(name):
    """Events of the group."""
    return request("GET", f"/events?limit=1000&group={name}")["items"]


def wait(read, good, what, seconds=120):
    """Polls `read()` until `good(value)`; returns the value."""
    deadline = time.monotonic() + seconds
    while True:
        value = read()
        if good(value):
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}; last seen: {value}")
        time.sleep(0.05)
