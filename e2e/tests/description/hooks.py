# SPDX-License-Identifier: Apache-2.0
"""What no schema can express about requests of the REST API, for schemathesis: see e2e/tests/tests/description.rs.

Three kinds: parameters that exclude one another, names that are in a request twice, and refusals for what a request refers to.
Each list is closed: a valid request that is refused for anything else is a failure.
"""

import json
import datetime
import os
import re
import urllib.error
import urllib.request
import zlib

import schemathesis
from hypothesis import strategies as st

schemathesis.openapi.format("ipv6-prefix", st.sampled_from(["2001:db8:0:1::/64", "2001:db8:7::/48", "2001:db8::1/128"]))

# Parameters of a list that a stream does not have.
OF_LISTS = ("limit", "continue", "labelSelector", "fieldSelector", "phase", "namePrefix", "group", "node", "root", "severity", "kind", "name", "by", "action",
            "withinSeconds", "code", "before", "hosts", "request", "summary", "nameContains")
# Names in the topology and of the resources that the test has made: half of the valid requests use them, so that not all answers are 404.
KNOWN = {"group": ["g1", "g2"], "drain": ["d1"], "host": ["s1", "r1", "r2"], "node": ["n1", "n2"], "port": ["eth1", "eth2"]}


def is_valid(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


def known(parameter, value):
    """A name that there is for every second value, the same for the same value."""
    digest = zlib.crc32(str(value).encode())
    names = KNOWN.get(parameter)
    return names[digest // 2 % len(names)] if names and digest % 2 else value


def send(path, body):
    """The answer to a POST beside the generated requests; nothing if it is refused, for example after too many wrong codes."""
    url = os.environ["CANOPY_SERVER"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return {}


def new_code():
    return {"code": send("/api/v1/sign-in-codes", {})["code"]}


def sign_in(case):
    """No generator finds a code or a bearer: every second code is a real one, and what is ended is a session."""
    if case.method == "DELETE":
        bearer = send("/api/v1/sign-in", new_code()).get("bearer")
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {bearer}"}
    elif zlib.crc32(str(case.body).encode()) % 2:
        case.body = new_code()


@schemathesis.hook
def before_call(context, case, kwargs):
    query = case.query
    watches = str(query.get("watch")).lower() == "true" and is_valid(case)
    # A stream takes a second: outside of the long campaign, one request in four that could be a stream is one.
    if watches and "CANOPY_DEEP" not in os.environ and zlib.crc32(repr(sorted(query.items(), key=str)).encode()) % 4:
        query["watch"] = "false"
    is_stream = case.path == "/api/v1/watch" or str(query.get("watch")).lower() == "true"
    if is_stream and (is_valid(case) or query.get("timeoutSeconds") is None):
        # Streams are pinned to a second.
        query["timeoutSeconds"] = 1
    if is_stream and str(query.get("timeoutSeconds")).isdigit():
        query["timeoutSeconds"] = min(int(query["timeoutSeconds"]), 1)
    if not is_valid(case):
        return
    if case.path == "/api/v1/sign-in":
        sign_in(case)
    if is_stream:
        for name in OF_LISTS:
            query.pop(name, None)
        if "." not in str(query.get("after", ".")):
            query.pop("after")
    elif "watch" in {parameter.name for parameter in case.operation.query}:
        query.pop("timeoutSeconds", None)
        if case.path != "/api/v1/events" or "." in str(query.get("after")):
            query.pop("after", None)
    if case.path == "/api/v1/problems" and ("kind" in query) != ("name" in query):
        query.pop("kind", None)
        query.pop("name", None)
    if case.path == "/api/v1/flows" and "node" not in query:
        query.pop("port", None)
    if case.path == "/api/v1/paths" and query.get("from") == query.get("to"):
        query["to"] = "r1" if query.get("from") == "s1" else "s1"
    if "segments" in query:
        # Not every string of these characters is an address.
        query["segments"] = "5f00:0:3::,5f00:0:4::"
    if case.path == "/api/v1/charts":
        # What is kept since when decides which steps there are.
        query.pop("from", None)
        query.pop("to", None)
        # Not every string of these characters is an address.
        if str(query.get("object")).startswith("branch/"):
            query["object"] = "branch/g1/n1/2001:db8::1"
    headers = case.headers or {}
    if "If-Match" in headers:
        headers.pop("If-None-Match", None)
        # The generator loses the quotation marks of the pattern.
        if not re.fullmatch(r'\*|"[!#-~]+"', str(headers["If-Match"])):
            headers.pop("If-Match")
    if case.path == "/api/v1/log-levels" and isinstance(case.body, dict):
        # Those of agents: the log of the controller under test stays readable.
        case.body["node"] = known("node", case.body.get("node") or "n1")
    if case.path == "/api/v1/nodes/{node}/retire" and isinstance(case.body, dict):
        # The nodes of the test stay in the topology's trees: they have no agents that could clean up.
        case.body["withoutAgent"] = False
    end_in_an_hour(case.body)
    # A number without a fraction is an integer to a schema; the server takes digits only.
    case.body = with_integers(case.body)
    for name, value in case.path_parameters.items():
        case.path_parameters[name] = known(name, value)
    repeat_names(case)


def with_integers(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: with_integers(of) for key, of in value.items()}
    if isinstance(value, list):
        return [with_integers(of) for of in value]
    return value


def end_in_an_hour(value):
    """A drain or silence ends in the future, and within a year; a silence begins before its end."""
    if isinstance(value, list):
        for of in value:
            end_in_an_hour(of)
    if isinstance(value, dict):
        end_in_an_hour(value.get("items"))
        spec = value.get("spec")
        for field, minutes in (("from", 30), ("until", 60)):
            if isinstance(spec, dict) and spec.get(field) is not None:
                at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
                spec[field] = at.isoformat(timespec="seconds")


def repeat_names(case):
    """The body has the names of the path again."""
    body = case.body
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        return
    metadata, path = body["metadata"], case.path_parameters
    if case.path.startswith("/api/v1/groups/{group}/members"):
        host = path.get("host", known("host", body["spec"]["host"]))
        body["spec"]["host"] = host
        metadata["name"] = host
        metadata["group"] = path["group"]
    elif named := {"drain", "silence", "group"} & path.keys():
        metadata["name"] = path[named.pop()]


# Refusals of well-formed requests, by field: for what they refer to, or for fields that depend on one another.
REFERENCES = [
    (r"spec\.link$|spec\.node$", r"."),
    (r"spec\.(pathMtu|replication|encoding)$", r"members"),
    (r"spec\.nodes\[\d+\]\.(name|id)$", r"is declared twice|already belongs to"),
    (r"spec\.hosts\[\d+\](\.name)?$", r"is declared twice|has no link|has \d+ links"),
    (r"spec\.hosts\[\d+\]\.(address|prefix)$", r"is outside the host's prefix|is not a unicast address|overlaps"),
    (r"spec\.links\[\d+\]\.[ab]$", r"unknown node or host|is used by two links|links a host to a host|is linked to itself"),
    (r"spec\.links$", r"does not connect"),
    (r"spec\.host$", r"."),
    (r"spec\.(group|problem)$", r"there is no group|no problem .* is open"),
    (r"Idempotency-Key$", r"was sent with another write"),
    (r"spec\.address$", r"."),
    (r"spec\.memory(\.length)?$", r"only receivers|wraps the address space|."),
    (r"spec\.startPsn$", r"."),
    (r"spec\.role$", r"."),
    (r"spec\.qpn$", r"."),
    (r"metadata\.group$", r"is missing"),
    (r"metadata\.name$", r"is not the name in the path"),
    (r"certificateRequest$", r"not a certificate request|has a certificate already|has [0-9]+ octets"),
    # A certificate ends sooner than a secret.
    (r"forSeconds$", r"use 60 to 43200"),
    # A group stays in its tenant.
    (r"metadata\.tenant$", r"stays in its tenant"),
]


def is_of_references(answer):
    """Whether a 422 is for what the request refers to."""
    if answer["code"] == "Limit":
        return True
    errors = answer.get("errors", [])

    def matches(error):
        field = re.sub(r"^items\[\d+\]\.", "", error["field"])
        return any(re.match(of, field) and re.search(why, error["detail"]) for of, why in REFERENCES)

    return bool(errors) and all(matches(error) for error in errors)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """False for a refusal that no schema can foresee."""
    kind = type(failure).__name__
    conditions = ("If-Match", "If-None-Match", "If-Plan-Match")
    if response.status_code == 412 and kind in ("RejectedPositiveData", "AcceptedNegativeData"):
        # Conditions are on the state of the resource, and are checked before the content (RFC 9110 section 13.2.1).
        return not any(name in (case.headers or {}) for name in conditions)
    if kind != "RejectedPositiveData":
        return True
    return not (response.status_code == 422 and is_of_references(response.json()))
