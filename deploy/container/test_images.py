#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the images of a directory by runc, from their roots and nothing else, and builds them a second time.

    test_images.py IMAGES DIRECTORY_OF_STATIC_PROGRAMS SBOM_DIRECTORY

Needs root, buildah and runc. Containers have namespaces of their own and no network but loopback. Leaves nothing behind.
"""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "debian")]
import images  # noqa: E402
import steps  # noqa: E402
from machine import until  # noqa: E402

NAMESPACES = ("pid", "mount", "ipc", "uts", "network")
# What docs/installation.md has for the agent's container.
AGENT = ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE"]
MOUNTS = [("proc", "proc", "/proc", []), ("sysfs", "sysfs", "/sys", ["ro", "nosuid", "noexec", "nodev"]), ("tmpfs", "tmpfs", "/dev", ["nosuid"])]


class Unpacked:
    """An image's root and settings, from its archive alone."""

    def __init__(self, archive, directory):
        self.name, self.root = archive.name.removesuffix(".oci.tar"), directory / archive.name / "rootfs"
        with tarfile.open(archive) as tar:
            blob = lambda digest: tar.extractfile(f"blobs/{digest.replace(':', '/')}")
            manifest = json.load(blob(images.digest(archive)))
            self.config = json.load(blob(manifest["config"]["digest"]))
            self.root.mkdir(parents=True)
            for layer in manifest["layers"]:
                with tarfile.open(fileobj=blob(layer["digest"])) as files:
                    files.extractall(self.root)

    @property
    def user(self):
        return int(self.config["config"]["User"].split(":")[0])

    def files(self):
        """Every file that is no directory."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir() or path.is_symlink())


class Images:
    """The steps of the test, in their order."""

    def __init__(self, archives, programs, sboms, directory, stack):
        self.archives, self.programs, self.sboms, self.directory, self.stack = archives, programs, sboms, directory, stack
        self.images = {image.name: image for image in (Unpacked(path, directory) for path in archives)}
        # Directories that containers share, as by volumes.
        self.shared = directory / "run"
        self.shared.mkdir()
        os.chown(self.shared, images.USER, images.USER)
        self.count = 0

    def start(self, name, *arguments, capabilities=(), mounts=(), environment=()):
        """Starts a container, whose only writable directories are empty, or `mounts`: (source, destination)."""
        image, self.count = self.images[name], self.count + 1
        bound = [(source, "bind", to, ["rbind"]) for source, to in mounts]
        of_image = next(known for known in images.IMAGES if known.name == name)
        writable = [path for path in of_image.writable if path not in {to for _, to in mounts}]
        own = [("tmpfs", "tmpfs", path, ["nosuid", "nodev", "mode=0755", f"uid={image.user}", f"gid={image.user}"]) for path in writable]
        kinds = ("bounding", "effective", "permitted", "inheritable", "ambient")
        spec = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": image.user, "gid": image.user},
                "args": [*image.config["config"]["Entrypoint"], *(arguments or image.config["config"]["Cmd"])],
                "env": ["PATH=/usr/bin", *environment],
                "cwd": "/",
                "capabilities": {kind: list(capabilities) for kind in kinds},
                "noNewPrivileges": True,
            },
            "root": {"path": "rootfs", "readonly": True},
            "mounts": [dict(zip(("source", "type", "destination", "options"), mount, strict=True)) for mount in [*MOUNTS, *own, *bound]],
            "linux": {"namespaces": [{"type": kind} for kind in NAMESPACES]},
        }
        (image.root.parent / "config.json").write_text(json.dumps(spec))
        identity = f"canopy-images-{os.getpid()}-{self.count}"
        command = ["runc", "--root", self.directory / "runc", "run", "--bundle", image.root.parent, identity]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.stack.callback(process.wait)
        self.stack.callback(lambda: process.poll() is None and process.terminate())
        return process

    def output(self, name, *arguments, **more):
        """What a container prints that ends by itself, and its exit code."""
        process = self.start(name, *arguments, **more)
        text, _ = process.communicate(timeout=60)
        return text, process.returncode

    def step_an_image_has_its_programs_and_nothing_else(self):
        assert sorted(self.images) == sorted(image.name for image in images.IMAGES)
        for image in images.IMAGES:
            found = self.images[image.name]
            assert found.files() == [f"usr/bin/{name}" for name in sorted(image.programs)], found.files()
            labels = found.config["config"]["Labels"]
            assert labels["org.opencontainers.image.title"] == image.name and labels["org.opencontainers.image.licenses"] == "Apache-2.0", labels
            assert (found.user == 0) == (image.name in ("canopy-agent", "canopy-pacer", "canopy-steer")), found.config
            linked = json.loads((self.archives[0].parent / f"{image.name}.cdx.json").read_text())
            assert linked["bomFormat"] == "CycloneDX" and len(linked["components"]) > 20

    def step_every_program_runs_without_a_library(self):
        for name in self.images:
            text, code = self.output(name, "--version")
            assert code == 0 and text.startswith(f"{name} ") or text.startswith("canopy"), (name, text, code)

    def step_the_controller_is_live_and_an_operator_asks_it(self):
        (self.shared / "operators").mkdir()
        os.chown(self.shared / "operators", images.USER, images.USER)
        environment = ["CANOPY__GRPC__LISTEN=unix:/run/canopy/controller.sock,[::1]:8641"]
        controller = self.start("canopy-controller", environment=environment, mounts=[(str(self.shared), "/run/canopy")])
        path = self.shared / "rest.sock"

        def live():
            assert controller.poll() is None, controller.communicate()
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("localhost")
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.connect(str(path))
                connection.request("GET", "/livez")
                return connection.getresponse().status == 200

        until("the controller to be live", 30, live)
        text, code = self.output("canopyctl", "get", "nodes", "-o", "json", mounts=[(str(self.shared), "/run/canopy")])
        # The user of both images is the one that the controller runs as.
        assert code == 0 and json.loads(text)["items"] == [], (text, code)
        token, code = self.output("canopyctl", "host", "enroll", "r1", mounts=[(str(self.shared), "/run/canopy")])
        assert code == 0, token
        (self.directory / "token").write_text(next(line for line in token.splitlines() if line.startswith("canopy1.")))
        (self.directory / "token").chmod(0o644)
        controller.terminate()
        assert controller.wait(30) == 0, controller.communicate()

    def step_a_name_is_resolved_by_the_hosts_of_the_container(self):
        hosts = self.directory / "hosts"
        hosts.write_text("::1 controller.example\n")
        arguments = ("enroll", "--host", "r1", "--controller", "https://controller.example:8641", "--token-file", "/token")
        token = (str(self.directory / "token"), "/token")
        found, code = self.output("canopy-host-agent", *arguments, mounts=[token, (str(hosts), "/etc/hosts")])
        # It finds the address, and that nothing listens there.
        assert code != 0 and "refused" in found and "lookup" not in found, found
        unknown, _ = self.output("canopy-host-agent", *arguments, mounts=[token])
        assert "refused" not in unknown, unknown

    def step_the_agent_has_what_it_needs_with_its_capabilities_alone(self):
        pins = self.directory / "bpf"
        pins.mkdir()
        subprocess.run(["mount", "-t", "bpf", "bpf", pins], check=True)
        self.stack.callback(subprocess.run, ["umount", pins], check=True)
        (pins / "agent").mkdir()
        arguments = ("--pin-dir", "/run/canopy/bpf/agent/pins", "doctor")
        mounts = [(str(self.shared), "/run/canopy"), (str(pins), "/run/canopy/bpf")]
        (self.shared / "bpf").mkdir()
        text, _ = self.output("canopy-agent", *arguments, capabilities=AGENT, mounts=mounts)
        for found in ("kernel BTF: ", "bpffs at pin_dir: ", "capabilities: present"):
            assert f"ok       {found}" in text, text
        text, code = self.output("canopy-agent", *arguments, mounts=mounts)
        assert code != 0 and "MISSING  capabilities: " in text, text

    def step_the_same_programs_give_the_same_images(self):
        again = {path.name: images.digest(path) for path in images.build(self.programs, self.directory / "again", self.sboms)}
        before = {path.name: images.digest(path) for path in self.archives}
        assert again == before, (before, again)


def main():
    if len(sys.argv) != 4 or os.geteuid() != 0:
        raise SystemExit(__doc__)
    archives, programs, sboms = (Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="canopy-images.") as directory, contextlib.ExitStack() as stack:
        steps.run(Images(sorted(archives.glob("*.oci.tar")), programs, sboms, Path(directory), stack))


if __name__ == "__main__":
    main()
