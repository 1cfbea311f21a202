#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Both examples with the kernel's rdma_rxe, in the VM of e2e/verbs (its README lists the requirements):

    cargo build && cargo build -p canopy-host-capi
    scripts/verbs-vm.sh -- python3 host/examples/in_vm.py

CANOPY_BIN is the directory of the programs and libcanopy_host_c.so if that is not target/debug.
"""

import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(TOP / "e2e/verbs"))
import bed as b  # noqa: E402
import controller  # noqa: E402
import hosts  # noqa: E402

NODE_OF = {"s1": "n6", "r1": "n1", "r2": "n1", "r3": "n2", "r4": "n3", "r5": "n3"}
RECEIVERS = ["r1", "r3", "r4"]
DEADLINE = 600


def start(example, host, role, *arguments):
    """One member, a process of its own."""
    env = os.environ | {"PYTHONPATH": str(TOP / "host/python"), "CANOPY_HOST_LIBRARY": str(b.programs() / "libcanopy_host_c.so")}
    socket = hosts.LAB.parent / f"{NODE_OF[host]}.sock"
    command = ["/usr/bin/python3", "-B", HERE / example, role, "--group", example, "--host", host]
    command += ["--device", hosts.device(host), "--socket", socket, *arguments]
    return subprocess.Popen([str(c) for c in command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def run(example, source, receiver):
    """Runs an example from s1 to three receivers; returns each one's folder and the output of the source."""
    controller.create_group(example, pathMtu=1024, stallAfterMs=60000)
    folders = {host: Path(tempfile.mkdtemp(prefix=f"{host}-")) for host in RECEIVERS}
    members = {host: start(example, host, "receive", *receiver, folders[host]) for host in RECEIVERS}
    members["s1"] = start(example, "s1", "send", "--receivers", len(RECEIVERS), "--wait", 120, *source)
    output = {}
    try:
        for host, member in members.items():
            output[host] = member.communicate(timeout=DEADLINE)[0]
            print(f"{host}: {output[host].strip()}", flush=True)
            assert member.returncode == 0, f"{example} at {host} ended with {member.returncode}"
    finally:
        for member in members.values():
            member.kill()
    status = controller.group(example)
    assert status["receivers"] == 0 and not status["source"], f"a member did not leave: {status}"
    assert not controller.drops(example).get("feedback_window"), controller.drops(example)
    return folders, output["s1"]


def compare(files, folders):
    """Every receiver has these files and no others."""
    want = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    for host, folder in folders.items():
        has = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}
        assert has == want, f"{host} has {has} in place of {want}"


def safetensors(path, seed, counts):
    """A file with one tensor of so many 16-bit numbers for each of `counts`."""
    header, at = {}, 0
    for n, count in enumerate(counts):
        header[f"layers.{n}.weight"] = {"dtype": "BF16", "shape": [count], "data_offsets": [at, at + 2 * count]}
        at += 2 * count
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + random.Random(seed).randbytes(at))


def main():
    """See the module."""
    bed = b.Bed()
    try:
        work = Path(tempfile.mkdtemp())
        # Many chunks, so that RNR NAKs delay the source; and an incomplete last one.
        file = work / "image.bin"
        file.write_bytes(random.Random(1).randbytes(3 * (1 << 20) + 12345))
        folders, _ = run("canopy-cp", [file], ["--memory", "256K"])
        compare([file], folders)
        weights = work / "weights"
        weights.mkdir()
        for n in range(2):
            safetensors(weights / f"model-{n}.safetensors", n, [1 << 19, 77, 1 << 18])
        meet = ["--rendezvous", "[::1]:4711"]
        folders, output = run("canopy-broadcast", [*meet, weights], [*meet, "--wait", 300, "--memory", "1M"])
        compare(weights.iterdir(), folders)
        sent = {line.split()[0]: float(line.split()[4]) for line in output.splitlines() if line.startswith(("multi", "uni"))}
        assert sent["unicast"] > 2.5 * sent["multicast"], f"one copy is not less than three: {sent}"
        print("both examples passed")
    finally:
        bed.down()


if __name__ == "__main__":
    main()
