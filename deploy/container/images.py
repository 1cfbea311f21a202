#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds OCI images, each with a root of one static program, or two, and the directories that it writes to. Needs buildah and binutils, root and no network.

    images.py DIRECTORY_OF_STATIC_PROGRAMS OUT_DIRECTORY SBOM_DIRECTORY

Writes NAME.oci.tar, NAME.cdx.json with what is linked into the program, and the program by itself in bin/. The same programs and commit give images of the same digest.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "deploy/debian"))
import build as packages  # noqa: E402

# The user of programs that need no capability.
USER = 65532
# Nothing is fetched.
POLICY = {"default": [{"type": "insecureAcceptAnything"}]}
LICENSE = "Apache-2.0"


@dataclass(frozen=True)
class Image:
    """One image; its name is that of its first program."""

    name: str
    summary: str
    # Directories that the program's user writes to.
    writable: tuple = ()
    # Without one, the program needs capabilities, which only root has in a container.
    user: int = USER
    # Arguments of a container that is started with none.
    command: tuple = ()
    # Other programs, for who executes a command in a container.
    also: tuple = ()

    @property
    def programs(self):
        """Every program in it."""
        return (self.name, *self.also)


IMAGES = (
    Image("canopy-controller", "controller of RDMA multicast over SRv6", ("/run/canopy", "/var/lib/canopy"), command=("run",), also=("canopyctl",)),
    Image("canopy-operator", "resources of Kubernetes for RDMA multicast over SRv6", command=("run",)),
    Image("canopy-agent", "agent on a node of RDMA multicast over SRv6", ("/run/canopy", "/var/lib/canopy"), user=0, command=("run",)),
    Image("canopy-host-agent", "agent on a host of RDMA multicast over SRv6", ("/run/canopy", "/var/lib/canopy"), command=("run",)),
    Image("canopy-pacer", "pacer of queue pairs for RDMA multicast over SRv6", ("/run/canopy",), user=0, command=("run",)),
    Image("canopy-steer", "paths of a host's packets over SRv6", ("/run/canopy",), user=0, command=("run",)),
    Image("canopyctl", "command line of RDMA multicast over SRv6"),
)


def static(path):
    """Fails unless a program needs neither a loader nor a library."""
    headers = packages.run("readelf", "--program-headers", "--dynamic", str(path))
    if "INTERP" in headers or "(NEEDED)" in headers:
        raise SystemExit(f"{path} is not static: build it by `make images`")


class Builder:
    """Builds images with a store of buildah's own, which goes with it."""

    def __init__(self, directory):
        self.directory = directory
        self.version, self.epoch = packages.version()
        (directory / "policy.json").write_text(json.dumps(POLICY))

    def buildah(self, command, *arguments):
        store = ["--root", self.directory / "store", "--runroot", self.directory / "run", "--storage-driver", "vfs"]
        return packages.run("buildah", *map(str, store), command, *map(str, arguments)).strip()

    def root(self, image, programs):
        """The files of an image."""
        root = self.directory / image.name
        for name in image.programs:
            target = root / "usr/bin" / name
            packages.copy(programs / name, target, 0o755)
            packages.run("strip", "--strip-unneeded", "--remove-section=.comment", str(target))
            static(target)
        for path in image.writable:
            (root / path.lstrip("/")).mkdir(parents=True)
        for path in [root, *(path for path in root.rglob("*") if path.is_dir())]:
            path.chmod(0o755)
        for path in image.writable:
            shutil.chown(root / path.lstrip("/"), image.user, image.user)
        return root

    def labels(self, image):
        created = datetime.fromtimestamp(self.epoch, UTC).isoformat().replace("+00:00", "Z")
        values = {"title": image.name, "description": image.summary, "version": self.version, "licenses": LICENSE, "created": created}
        return [f"org.opencontainers.image.{key}={value}" for key, value in values.items()]

    def image(self, image, programs, out):
        """Builds one image; returns its file."""
        root = self.root(image, programs)
        container = self.buildah("from", "--signature-policy", self.directory / "policy.json", "scratch")
        self.buildah("add", "--quiet", container, f"{root}/", "/")
        settings = [f"--label={label}" for label in self.labels(image)]
        settings += [f"--user={image.user}:{image.user}", "--entrypoint", json.dumps([f"/usr/bin/{image.name}"]), "--cmd", " ".join(image.command)]
        settings += ["--workingdir", "/", "--history-comment", "", "--created-by", "deploy/container/images.py"]
        self.buildah("config", *settings, container)
        target = out / f"{image.name}.oci.tar"
        target.unlink(missing_ok=True)
        name = f"oci-archive:{target}:{image.name}:{self.version.replace('~', '-')}"
        policy = ("--signature-policy", self.directory / "policy.json")
        self.buildah("commit", "--quiet", "--format=oci", "--disable-compression=false", "--identity-label=false", f"--timestamp={self.epoch}", "--rm", *policy, container, name)
        return target


def digest(archive):
    """The digest of an image in its archive, whose own octets have the time at which it was written."""
    with tarfile.open(archive) as tar:
        return json.load(tar.extractfile("index.json"))["manifests"][0]["digest"]


def build(programs, out, sboms):
    """Builds all images into `out`; returns their files."""
    (out / "bin").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="canopy-images.") as directory:
        builder = Builder(Path(directory))
        for image in IMAGES:
            path = builder.image(image, programs, out)
            shutil.copy(builder.directory / image.name / "usr/bin" / image.name, out / "bin")
            shutil.copyfile(sboms / f"{image.name}.cdx.json", out / f"{image.name}.cdx.json")
            yield path


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    for path in build(*(Path(argument).resolve() for argument in sys.argv[1:])):
        print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB, {digest(path)}", flush=True)


if __name__ == "__main__":
    main()
