# SPDX-License-Identifier: Apache-2.0
"""What the charts make of sets of values, kept beside them: helm is needed to make them anew (`make test-kubernetes`), and not to check them."""

import hashlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
RENDERED = HERE / "rendered"
# Digest of everything that the manifests are made of.
MARK = RENDERED / "sources.sha256"
CHARTS = ("canopy", "canopy-crds")
NAMESPACE = "canopy-system"


def cases():
    """(name, chart, file of values or none) of each file in RENDERED."""
    values = sorted((HERE / "values").glob("*.yaml"))
    return [("canopy-crds", "canopy-crds", None), ("default", "canopy", None), *((path.stem, "canopy", path) for path in values)]


def sources():
    """The digest of charts and values as they are."""
    digest = hashlib.sha256()
    # Alert rules and dashboards change by themselves, and no manifest here has them.
    files = [path for top in (*CHARTS, "values") for path in (HERE / top).rglob("*") if path.is_file() and "files" not in path.relative_to(HERE).parts]
    for path in sorted(files):
        digest.update(f"{path.relative_to(HERE)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def render(helm):
    """(name, manifests) of each case; `helm(arguments...)` returns its output."""
    for name, chart, values in cases():
        options = ["--namespace", NAMESPACE, "--api-versions", "monitoring.coreos.com/v1,canopy.dev/v1alpha1", *(["--values", values] if values else [])]
        yield name, helm("template", "canopy", HERE / chart, *options)


def write(helm):
    """Makes them anew."""
    RENDERED.mkdir(exist_ok=True)
    for path in RENDERED.glob("*.yaml"):
        path.unlink()
    for name, text in render(helm):
        (RENDERED / f"{name}.yaml").write_text(text)
    MARK.write_text(f"{sources()}\n")


def differing(helm):
    """Names of the cases that helm renders otherwise."""
    return [name for name, text in render(helm) if not (RENDERED / f"{name}.yaml").is_file() or (RENDERED / f"{name}.yaml").read_text() != text]
