#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the programs of a Kubernetes cluster from Go modules into target/kubernetes/bin, once for each set of versions.

Needs Go and its module proxy, or nothing if the programs are there. Module and build caches are below target/kubernetes and go after a build.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
HERE = Path(__file__).resolve().parent
DIRECTORY = HERE.parents[1] / "target/kubernetes"
BIN = DIRECTORY / "bin"
# Each has a module of its own, which pins versions and sums.
MODULES = HERE / "modules"
KUBERNETES = "1.36.3"


@dataclass(frozen=True)
class Module:
    """A module and the programs that are built of it."""

    name: str
    # Path of the package of each program.
    programs: dict
    flags: str = ""
    tags: str = ""


def version_flags():
    """What clients and charts see as the version of the cluster."""
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())


ALL = (
    Module("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Module("helm", {"helm": "helm.sh/helm/v4/cmd/helm"}),
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module("containerd", {name: f"github.com/containerd/containerd/v2/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")}, tags="no_btrfs"),
    Module(
        "kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")},
        flags=version_flags(),
    ),
)


def names():
    """Every program that a cluster is made of."""
    return [name for module in ALL for name in module.programs]


def wanted():
    """What the programs are built from, as one digest."""
    parts = [(MODULES / module.name / name).read_text() for module in ALL for name in ("go.mod", "go.sum")]
    return hashlib.sha256("\n".join([*parts, repr(ALL)]).encode()).hexdigest()


def is_built():
    """Whether all programs are there, of these versions."""
    mark = DIRECTORY / "built"
    return mark.is_file() and mark.read_text() == wanted() and all((BIN / name).is_file() for name in names())


def go(*arguments):
    """Runs a command of Go, whose caches are the project's."""
    caches = {"GOMODCACHE": DIRECTORY / "gomod", "GOCACHE": DIRECTORY / "gocache"}
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw -trimpath -buildvcs=false"}
    environment = os.environ | settings | {key: str(value) for key, value in caches.items()}
    done = subprocess.run(["go", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"go {' '.join(arguments)}: exit {done.returncode}\n{done.stdout[-4000:]}")


def programs(module):
    """Builds the programs of a module."""
    for name, package in module.programs.items():
        go("build", "-C", str(MODULES / module.name), "-ldflags", f"-s -w {module.flags}", "-tags", module.tags, "-o", str(BIN / name), package)
        print(f"built {name}", flush=True)


def main():
    """Builds what is missing; returns the directory of the programs."""
    if not is_built():
        if not shutil.which("go"):
            raise SystemExit("go is missing: the programs of the cluster are built from Go modules")
        BIN.mkdir(parents=True, exist_ok=True)
        for module in ALL:
            programs(module)
        for cache in ("gomod", "gocache"):
            shutil.rmtree(DIRECTORY / cache)
        (DIRECTORY / "built").write_text(wanted())
    return BIN


if __name__ == "__main__":
    main()
