# SPDX-License-Identifier: Apache-2.0
"""Whether machines have nothing of a file system in common, nor a namespace, as the kernel shows it."""

import itertools
import os

NAMESPACES = ("mnt", "net", "pid", "uts", "ipc", "cgroup")
# One hierarchy of a kernel, of which each machine sees its own part.
OF_THE_KERNEL = {"cgroup", "cgroup2"}
# systemd-nspawn shows each machine, read-only, what runs it.
OF_NSPAWN = "/run/host/os-release"
# Every file and socket of Canopy, and all that a program could leave for another.
EVERYTHING = f"find / /run /tmp -xdev ! -path {OF_NSPAWN} -printf '%D:%i %p\\n'"


def inside(path, of):
    """Whether `path` is `of` or below it."""
    return path == of or path.startswith(of.rstrip("/") + "/")


def mounts(of):
    """(device, root within it) of each mount of a machine that can have files, and the peer groups to which mounts propagate."""
    trees, peers = set(), set()
    for line in of.out("cat", "/proc/self/mountinfo").splitlines():
        own, rest = line.split(" - ")
        _, _, device, root, point, _, *optional = own.split()
        peers |= {field.split(":")[1] for field in optional if point != OF_NSPAWN}
        if rest.split()[0] not in OF_THE_KERNEL and point != OF_NSPAWN:
            trees.add((device, root))
    return trees, peers


def not_shared(machines):
    """Fails if two machines, or one and this, have a namespace, a mounted tree or a file in common; returns what was compared."""
    spaces, found, files = {}, {}, {}
    for name, of in machines.items():
        for kind in NAMESPACES:
            space = of.out("readlink", f"/proc/1/ns/{kind}")
            assert space != os.readlink(f"/proc/self/ns/{kind}"), f"{name} is in the namespace of this machine: {space}"
            assert space not in spaces, f"{name} and {spaces[space]} are in one namespace: {space}"
            spaces[space] = name
        found[name] = mounts(of)
        for line in of.out("sh", "-c", EVERYTHING).splitlines():
            inode, path = line.split(" ", 1)
            owner, other = files.setdefault(inode, (name, path))
            assert owner == name, f"{name} and {owner} have one file: {path}, {other}"
    for (a, (trees_a, peers_a)), (b, (trees_b, peers_b)) in itertools.combinations(found.items(), 2):
        assert not peers_a & peers_b, f"mounts of {a} propagate to {b}"
        for (device, root), (other, root_b) in itertools.product(trees_a, trees_b):
            common = device == other and (inside(root, root_b) or inside(root_b, root))
            assert not common, f"{a} and {b} have mounted one tree: {root} and {root_b} of {device}"
    return f"{len(machines)} machines: {len(spaces)} namespaces, {sum(len(t) for t, _ in found.values())} mounts, {len(files)} files, all of one machine each"
