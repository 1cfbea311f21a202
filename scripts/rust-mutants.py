#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the crates of mutants/*.toml with cargo-mutants, and shows that a test finds each fault, or that the list explains why none can.

Usage: scripts/rust-mutants.py               every mutant that is explained still exists; `make lint` runs this
       scripts/rust-mutants.py run [LIST...]   build and test every mutant of each list, or of those with these names, e.g. packet

The tests run on a copy of the sources in target/mutants, so that nothing is broken here if this is stopped. The first set of tests of a
list runs with every mutant, each further one with those that are left. A mutant that a test never ends with counts as found; one that does
not compile is not counted. The results of cargo-mutants stay in target/mutants/rust.

A mutant is named as cargo-mutants prints it, without line and column; where several of a file have the same name, `(2 of 3)` follows.
"""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
from mutants import AT, ROOT, copy_sources

INSTALL = "cargo install cargo-mutants --locked"
RESULTS = AT / "rust"
KEYS = {"crate", "path", "tests", "survives"}
# Modules of tests, which cargo-mutants recognises only where their attribute is exactly `cfg(test)`.
TESTS = ("**/tests.rs", "**/tests/**")
# Seconds: far longer than the tests of one crate take on a busy machine.
PATIENCE = "60"
# cargo-mutants ends with these where it tested every mutant: all found, some not, some without an end.
TESTED = {0, 2, 3}
PLACE = re.compile(r"^:\d+:\d+(?=: )")
NUMBER = re.compile(r" \(\d+ of \d+\)$")
# The function at the end of a mutation of an operator, or at the beginning of one of a whole function.
INSIDE = re.compile(r" in (\S.*)$")
WHOLE = re.compile(r"^replace (.*?\w.*?)(?: -> .*?)? with ")


def labels(mutants):
    """The names of a crate's mutants by what cargo-mutants calls them: without line and column, numbered where several are the same."""
    short = {m["name"]: m["file"] + PLACE.sub("", m["name"].removeprefix(m["file"])) for m in mutants}
    total, seen, names = Counter(short.values()), Counter(), {}
    for full, name in short.items():
        seen[name] += 1
        names[full] = f"{name} ({seen[name]} of {total[name]})" if total[name] > 1 else name
    return names


def function_of(name):
    """The function that a mutant is in, without its type; None where it is in a constant."""
    mutation = NUMBER.sub("", name).partition(": ")[2]
    found = INSIDE.search(mutation) or WHOLE.search(mutation)
    return found[1].rpartition("::")[2] if found else None


def explained(entries):
    """Every mutant that may survive, in the order of the list."""
    return [name for entry in entries.get("survives", []) for name in entry.get("names", [])]


def check(entries, read):
    """What is wrong with a list without cargo-mutants: mutants of files or functions that do not exist, or without a reason."""
    missing, unknown = sorted({"crate", "path", "tests"} - set(entries)), sorted(set(entries) - KEYS)
    if missing or unknown:
        return [f"missing {missing}, unknown {unknown}"]
    wrong = [f"{name}: occurs twice" for name, times in Counter(explained(entries)).items() if times > 1]
    for entry in entries.get("survives", []):
        names = entry.get("names") or []
        if set(entry) != {"names", "reason"} or not names or not entry["reason"].strip():
            wrong.append(f"{names or entry}: needs `names` and a `reason`, and nothing else")
        for name in names:
            file, function = name.partition(": ")[0], function_of(name)
            if not file.startswith(entries["path"] + "/"):
                wrong.append(f"{name}: is not in {entries['path']}")
                continue
            try:
                source = read(file)
            except OSError as error:
                wrong.append(f"{name}: {error}")
                continue
            if function and not re.search(rf"\bfn {re.escape(function)}\b", source):
                wrong.append(f"{name}: {file} has no function {function}")
    return wrong


def after(results, found, only):
    """What became of each mutant after one more set of tests, which concerns `only`, or all if that is empty: cargo-mutants 27 tests
    mutants of struct fields too where a filter excludes them, and what one set of tests has found stays found."""
    return results | {name: result for name, result in found.items() if not only or name in only}


def judge(results, entries):
    """From what became of each mutant: the lines that fail the run, and the counts."""
    known, count = set(explained(entries)), Counter()
    bad = [f"{name}: is explained, but does not exist" for name in sorted(known - set(results))]
    for name, result in results.items():
        count["total"] += 1
        if result == "Unviable":
            count["unviable"] += 1
        elif result in ("CaughtMutant", "Timeout"):
            count["killed"] += 1
            count["endless"] += result == "Timeout"
        elif result == "MissedMutant":
            count["explained" if name in known else "survived"] += 1
        else:
            bad.append(f"{name}: {result}")
        if name in known and result != "MissedMutant":
            bad.append(f"{name}: is explained, but {result}")
        if name not in known and result == "MissedMutant":
            bad.append(f"{name}: survived")
    return bad, count


def arguments(entries):
    """What cargo-mutants gets for a crate, to list and to test alike."""
    excluded = [word for glob in TESTS for word in ("--exclude", glob)]
    return ["cargo", "mutants", "--no-config", "--colors", "never", "--package", entries["crate"], *excluded]


def is_installed():
    """Whether cargo has the subcommand."""
    try:
        return subprocess.run(["cargo", "mutants", "--version"], cwd=ROOT, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def listed(entries, tree):
    """The names of a crate's mutants; see labels()."""
    done = subprocess.run([*arguments(entries), "--list", "--json"], cwd=tree, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return labels(json.loads(done.stdout))


def environment():
    """Less to build, the same random values in every run, and no files of failed cases in the sources."""
    less = {f"CARGO_PROFILE_{profile}_{key}": "0" for profile in ("DEV", "TEST") for key in ("DEBUG", "OPT_LEVEL")} | {"CARGO_INCREMENTAL": "0"}
    values = {"PROPTEST_RNG_SEED": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}
    return {"CARGO_TARGET_DIR": str(AT / "target")} | os.environ | less | values


def test(entries, tree, targets, only, number):
    """Builds and tests the mutants, or only some; returns what became of each, by what cargo-mutants calls it."""
    output = RESULTS / f"{entries['crate']}-{number}"
    output.mkdir(parents=True, exist_ok=True)
    command = [*arguments(entries), "--in-place", "--no-shuffle", "--timeout", PATIENCE, "--output", str(output)]
    command += [word for name in only for word in ("--re", f"^{re.escape(name)}$")]
    # Arguments behind `--` would select what is run, but not what is built.
    command += [f"--cargo-arg={target}" for target in targets]
    code = subprocess.run(command, cwd=tree, env=environment()).returncode
    if code not in TESTED:
        sys.exit(f"cargo-mutants ended with {code}: see {output}/mutants.out/log")
    outcomes = json.loads((output / "mutants.out/outcomes.json").read_text())["outcomes"]
    mutants = [o for o in outcomes if isinstance(o["scenario"], dict)]
    return {o["scenario"]["Mutant"]["name"]: o["summary"] for o in mutants}


def run(entries, tree):
    """Every mutant of a crate; returns the lines that fail the run, and a line of counts."""
    began, names = time.monotonic(), listed(entries, tree)
    results, left = dict.fromkeys(names, "was not tested"), []
    for number, targets in enumerate(entries["tests"], 1):
        results = after(results, test(entries, tree, targets, left, number), left)
        left = [name for name, result in results.items() if result == "MissedMutant"]
        if not left:
            break
    bad, count = judge({names[full]: result for full, result in results.items()}, entries)
    viable = count["total"] - count["unviable"]
    return bad, (
        f"{entries['crate']}: {count['total']} mutants, {count['unviable']} do not compile; of {viable}: {count['killed']} killed"
        f" ({count['endless']} of them without an end), {count['explained']} explained, {count['survived']} survived;"
        f" {100 * count['killed'] / max(viable, 1):.1f} % killed, {time.monotonic() - began:.0f} s"
    )


def main():
    lists = {path.stem: tomllib.loads(path.read_text()) for path in sorted((ROOT / "mutants").glob("*.toml"))}
    is_run, wanted = sys.argv[1:2] == ["run"], sys.argv[2:]
    if unknown := set(wanted) - set(lists):
        sys.exit(f"mutants/ has no list {', '.join(sorted(unknown))}")
    wrong = [f"mutants/{name}.toml: {line}" for name, entries in lists.items() for line in check(entries, lambda f: (ROOT / f).read_text())]
    has_tool = is_installed()
    if has_tool and not wrong and not is_run:
        for name, entries in lists.items():
            there = set(listed(entries, ROOT).values())
            gone = [mutant for mutant in explained(entries) if mutant not in there]
            wrong += [f"mutants/{name}.toml: {mutant}: does not exist; write its name anew, or remove it" for mutant in gone]
    if wrong:
        print("\n".join(wrong))
        sys.exit(f"rust-mutants: {len(wrong)} errors")
    if not is_run:
        total = sum(len(explained(entries)) for entries in lists.values())
        print(f"rust-mutants: {total} mutants are explained; their files and functions exist")
        if has_tool:
            print("rust-mutants: cargo-mutants still makes each of them")
        else:
            print(f"rust-mutants: NOT RUN: whether cargo-mutants still makes each of them. It is not installed: {INSTALL}")
        return
    if not has_tool:
        sys.exit(f"rust-mutants: cargo-mutants is not installed. Run: {INSTALL}")
    tree = copy_sources()
    done = [run(entries, tree) for name, entries in lists.items() if not wanted or name in wanted]
    bad = [line for lines, _ in done for line in lines]
    print("\n".join([*bad, *(counts for _, counts in done)]))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
