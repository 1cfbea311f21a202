#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests that the Helm charts make are valid in three versions of Kubernetes, and up to date; the charts' values are those of their schema.

Helm is not needed: what it makes of the charts is in deploy/kubernetes/rendered, and `make test-kubernetes` compares it with helm's output.
"""

import json
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

sys.dont_write_bytecode = True  # no __pycache__ in the sources
TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "deploy/kubernetes"))
import manifests  # noqa: E402

# The oldest one that the charts take, the one that `make test-kubernetes` runs, and the newest one.
VERSIONS = ("1.32", "1.36", "1.37")
# Resources of the Prometheus operator, which no schema of Kubernetes has.
FOREIGN = {"ServiceMonitor", "PrometheusRule"}


def documents(text):
    """The objects of a file."""
    return [document for document in yaml.safe_load_all(text) if document]


def faults_of(document):
    """What the versions of Kubernetes find wrong in an object."""
    if document["kind"] in FOREIGN:
        return
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            yield f"{document['kind']} {document['metadata']['name']}: {version}: {getattr(error, 'message', error)}"


def faults_of_values(values):
    """What the chart's schema finds wrong in values."""
    schema = json.loads((manifests.HERE / "canopy/values.schema.json").read_text())
    checker = jsonschema.Draft202012Validator(schema)
    return [f"{'.'.join(map(str, error.absolute_path)) or 'values'}: {error.message}" for error in checker.iter_errors(values)]


def faults():
    """Everything that is wrong."""
    for name, _, values in manifests.cases():
        path = manifests.RENDERED / f"{name}.yaml"
        if not path.is_file():
            yield f"{path}: missing"
            continue
        found = documents(path.read_text())
        yield from (f"{name}.yaml: {fault}" for document in found for fault in faults_of(document))
        if values:
            yield from (f"{values.name}: {fault}" for fault in faults_of_values(yaml.safe_load(values.read_text())))
    yield from (f"canopy/values.yaml: {fault}" for fault in faults_of_values(yaml.safe_load((manifests.HERE / "canopy/values.yaml").read_text())))
    if not manifests.MARK.is_file() or manifests.MARK.read_text().strip() != manifests.sources():
        yield "deploy/kubernetes/rendered: made of other charts or values: python3 e2e/kubernetes/render.py"


def main():
    found = list(faults())
    for fault in found:
        print(fault)
    print(f"check-charts: {len(found)} faults in {len(manifests.cases())} files for Kubernetes {', '.join(VERSIONS)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
