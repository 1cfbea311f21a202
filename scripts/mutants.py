#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the BPF programs on purpose, one fault of bpf/mutants.toml after the other, and shows that a test finds each.

Usage: scripts/mutants.py            every fault still applies to the sources; `make lint` runs this
       scripts/mutants.py run [NAME...]   build and test each, or those whose names contain one of NAME; as root

The tests run on a copy of the sources in target/mutants, so that nothing is broken here if this is stopped. A fault that the verifier
refuses proves nothing about the tests, and fails the run like one that survives. Ends with one line per fault that is not found.
"""

import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = "bpf/c"
AT = ROOT / "target/mutants"
# Whose unit tests find faults of a file, by how its path begins, and where that crate is.
CRATES = {"steer": ("canopy-steer", "host/steer"), "": ("canopy-datapath", "agent/datapath")}
TEXTS = ("name", "file", "old")
KEYS = {*TEXTS, "new", "tests", "survives"}
# Longer than every test together takes on a busy machine: a fault may also make a test wait.
PATIENCE = 900
RESULT = re.compile(r"^test result: (\w+)\.", re.M)
FAILED = re.compile(r"^test (\S+) \.\.\. FAILED", re.M)
# In libbpf's message about a program that the verifier refuses.
REFUSED = "-- BEGIN PROG LOAD LOG --"


def check(mutants, read):
    """What is wrong with the list: faults that do not apply, occur twice, or are not explained."""
    wrong, names = [], set()
    for mutant in mutants:
        name = mutant.get("name", "?")
        missing = [key for key in TEXTS if not mutant.get(key)] + [key for key in ("new", "tests") if key not in mutant]
        unknown = sorted(set(mutant) - KEYS)
        if missing or unknown:
            wrong.append(f"{name}: missing {missing}, unknown {unknown}")
            continue
        if name in names:
            wrong.append(f"{name}: occurs twice")
        names.add(name)
        try:
            found = read(mutant["file"]).count(mutant["old"])
        except OSError as error:
            wrong.append(f"{name}: {error}")
            continue
        if found != 1:
            wrong.append(f"{name}: `old` occurs {found} times in {SOURCES}/{mutant['file']}, not once: write it anew")
        if mutant["old"] == mutant["new"]:
            wrong.append(f"{name}: `new` changes nothing")
        if "survives" in mutant and not mutant["survives"].strip():
            wrong.append(f"{name}: `survives` gives no reason")
    return wrong


def verdict(output, code):
    """What became of a run of tests: killed with the first test that failed, refused by the verifier, or None where all passed."""
    result = RESULT.search(output)
    if code == 0 and result and result[1] == "ok":
        return None
    if REFUSED in output:
        return "refused by the verifier"
    failed = FAILED.search(output)
    return f"killed by {failed[1]}" if failed else "killed: the tests did not end"


def crate_of(mutant):
    """Name and directory of the crate whose tests are to find a fault."""
    return next(crate for begin, crate in CRATES.items() if mutant["file"].startswith(begin))


def copy_sources():
    """Copies every source that git knows; what has not changed keeps its time, so that only the rest is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    )
    tree = AT / "tree"
    for name in listed.stdout.decode().split("\0"):
        source, to = ROOT / name, tree / name
        if not name or not source.is_file():
            continue
        data = source.read_bytes()
        if to.is_file() and to.read_bytes() == data:
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
        to.chmod(source.stat().st_mode)
    return tree


def build(tree, crate):
    """Builds the unit tests of a crate; returns their program, or None with cargo's message."""
    command = ["cargo", "test", "--locked", "-p", crate[0], "--lib", "--no-run", "--message-format", "json-render-diagnostics"]
    command += ["--target-dir", str(AT / "target")]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr
    items = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    tests = (i for i in items if i.get("executable") and i["profile"]["test"] and i["manifest_path"].endswith(f"/{crate[1]}/Cargo.toml"))
    return next(tests)["executable"], ""


def test(program, tree, crate, filters):
    """Runs the tests that a filter names, or all; see verdict()."""
    try:
        done = subprocess.run(
            [program, *filters], cwd=tree / crate[1], capture_output=True, text=True, errors="replace", timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return "killed: the tests did not end"
    return verdict(done.stdout + done.stderr, done.returncode)


def outcome(mutant, tree):
    """Builds and tests one fault; the sources are as before afterwards."""
    path, crate = tree / SOURCES / mutant["file"], crate_of(mutant)
    before = path.read_text()
    path.write_text(before.replace(mutant["old"], mutant["new"]))
    try:
        program, message = build(tree, crate)
        if not program:
            return f"does not build: {message.strip().splitlines()[-1]}"
        return test(program, tree, crate, mutant["tests"]) or (mutant["tests"] and test(program, tree, crate, [])) or "survived"
    finally:
        path.write_text(before)


def run(mutants):
    """Every fault of the list; returns whether each was found or is explained."""
    tree = copy_sources()
    print(f"{len(mutants)} faults; first the tests as they are", flush=True)
    for crate in sorted({crate_of(mutant) for mutant in mutants}):
        program, message = build(tree, crate)
        if not program:
            sys.exit(message)
        if failed := test(program, tree, crate, []):
            sys.exit(f"the tests of {crate[0]} fail without a fault: {failed}")
    bad = []
    for n, mutant in enumerate(mutants, 1):
        began = time.monotonic()
        is_known, result = "survives" in mutant, outcome(mutant, tree)
        ok = result.startswith("killed") != is_known and (not is_known or result == "survived")
        print(f"{n:4} {time.monotonic() - began:4.0f} s  {'ok' if ok else 'BAD':3}  {mutant['name']}: {result}", flush=True)
        if not ok:
            bad.append(f"{mutant['name']}: {result}" + (", but it has a reason to survive" if is_known else ""))
    print("\n".join(bad))
    print(f"{len(mutants)} faults, {len(mutants) - len(bad)} found or explained")
    return not bad


def main():
    mutants = tomllib.loads((ROOT / "bpf/mutants.toml").read_text())["mutant"]
    if wrong := check(mutants, lambda name: (ROOT / SOURCES / name).read_text()):
        print("\n".join(wrong))
        sys.exit(f"mutants: {len(wrong)} of {len(mutants)} faults do not apply")
    if sys.argv[1:2] != ["run"]:
        print(f"mutants: {len(mutants)} faults apply")
        return
    wanted = sys.argv[2:]
    chosen = [m for m in mutants if not wanted or any(w in m["name"] for w in wanted)]
    sys.exit(0 if chosen and run(chosen) else 1)


if __name__ == "__main__":
    main()
