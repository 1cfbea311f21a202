#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of `make test` and ends with a table of them and the line `N passed, N failed, N skipped`.

Usage: scripts/test.py              all stages
       scripts/test.py STAGE...     some of them: `unit` and `e2e` need a build, the others are make targets

The end-to-end tests wait for most of their time, so that two of their programs run at once, each in labs of its own, but for a
few that run alone; what one prints appears when it has ended.

All Rust tests come from one `cargo test --workspace` build: another selection of packages enables other features of the
dependencies and would build half of the tree again. A stage that fails does not end the run, except that nothing runs after
a failed `tools` or `build`; what did not run is named in the table and fails the run.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Name, command, and whether the later stages depend on it. None = tests of the workspace.
STAGES = [
    ("tools", ["make", "-s", "tools"], True),
    ("build", ["cargo", "build", "--locked", "--workspace", "--all-targets"], True),
    ("lint", ["make", "-s", "lint"], False),
    ("deps", ["make", "-s", "deps"], False),
    ("fuzz", ["make", "-s", "fuzz"], False),
    ("conformance", ["make", "-s", "conformance"], False),
    # Before `unit`, which has the tests of the UI in Chromium: this stage installs what they need.
    ("web", ["make", "-s", "web"], False),
    ("verbs", ["make", "-s", "test-verbs"], False),
    ("unit", None, False),
    ("e2e", None, False),
]
E2E_PACKAGE = "canopy-e2e"
# Programs of end-to-end tests that run at once.
E2E_AT_ONCE = 2
# Those that count what happens in a time: alone, after the others.
E2E_ALONE = ("congestion", "delay", "longhaul", "thresholds")
# What all stages write below target/ with nothing there yet, and some room.
NEEDED_GIB = 20
# CI builds once, from nothing: what a second build would reuse is never read there, and is about half of target/debug.
if os.environ.get("CI"):
    os.environ.setdefault("CARGO_INCREMENTAL", "0")
# Python tools are in the project's own environment.
os.environ["PATH"] = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
RUST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
VITEST = re.compile(r"^\s+Tests  (?:(\d+) failed)?(?: \| )?(?:(\d+) passed)?(?: \| )?(?:(\d+) skipped)?")
UNITTEST = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_FAILED = re.compile(r"^FAILED \((.*)\)")


class Stage:
    """Counts of one stage."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped, self.seconds = name, 0, 0, 0, 0.0
        self.state, self.failures = "not run", []
        self.lock = threading.Lock()

    def count(self, line):
        """Reads one line of a test runner's output."""
        if m := RUST.match(line):
            passed, failed, ignored = map(int, m.groups())
            self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + ignored
        elif m := VITEST.match(line):
            failed, passed, skipped = (int(n or 0) for n in m.groups())
            self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
        elif m := UNITTEST.match(line):
            self.passed += int(m[1])
        elif m := UNITTEST_FAILED.match(line):
            bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", m[1]))
            self.passed, self.failed = self.passed - bad, self.failed + bad

    def run(self, command, cwd=ROOT, env=None):
        """Runs a command, shows its output, counts its tests; returns whether it succeeded."""
        process = start(command, cwd, env)
        for line in process.stdout:
            print(line, end="", flush=True)
            self.count(line)
        return process.wait() == 0

    def run_quietly(self, title, command, cwd, env):
        """The same from one of several threads: shows the output at the end, below the title."""
        process = start(command, cwd, env)
        lines = list(process.stdout)
        code = process.wait()
        with self.lock:
            print(title, *lines, sep="", flush=True)
            for line in lines:
                self.count(line)
        return code == 0


def start(command, cwd, env):
    """A process whose output is read."""
    return subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def lacking_room(target=ROOT / "target", free=None):
    """What to do if target/ and what is free on its disk do not hold a build; None if they do. A linker on a full disk reports a bus error."""
    target.mkdir(exist_ok=True)
    of = subprocess.run(["du", "-s", "-B1", str(target)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    written = int(of.stdout.split()[0])
    free = shutil.disk_usage(target).free if free is None else free
    missing = NEEDED_GIB - (written + free) / 2**30
    if missing <= 0:
        return None
    return f"target/ takes {NEEDED_GIB} GiB: it has {written / 2**30:.1f}, and {free / 2**30:.1f} are free on its disk. Free {missing:.1f} GiB and run it again."


def test_programs():
    """Test programs of the workspace: package, target, kind, program, directory of the package."""
    build = subprocess.run(
        ["cargo", "test", "--workspace", "--no-run", "--message-format=json"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )
    for message in map(json.loads, build.stdout.splitlines()):
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message.get("executable"):
            directory = Path(message["manifest_path"]).parent
            package = re.search(r'^name = "(.*)"', (directory / "Cargo.toml").read_text(), re.M)[1]
            target = message["target"]
            yield package, target["name"], target["kind"][0], message["executable"], directory


def run_tests(stage, e2e):
    """Every test program of the end-to-end package, or of all others and the documentation tests."""
    def run(of):
        package, target, kind, program, directory = of
        # As cargo sets it for the programs that it runs.
        env = os.environ | {"CARGO_MANIFEST_DIR": str(directory), "CARGO_PKG_NAME": package}
        title = f"     Running {package} {kind} {target}"
        print(title, flush=True)
        if e2e:
            return stage.run_quietly(f"         Ran {package} {kind} {target}\n", [program], directory, env)
        return stage.run([program], cwd=directory, env=env)

    programs = [of for of in sorted(test_programs()) if (of[0] == E2E_PACKAGE) == e2e]
    together = [of for of in programs if e2e and of[1] not in E2E_ALONE]
    programs = together + [of for of in programs if of not in together]
    with concurrent.futures.ThreadPoolExecutor(E2E_AT_ONCE) as pool:
        results = list(pool.map(run, together))
    results += map(run, programs[len(together) :])
    stage.failures += [f"{of[0]} {of[1]}" for of, ok in zip(programs, results) if not ok]
    if not e2e and not stage.run(["cargo", "test", "--workspace", "--doc", "--quiet"]):
        stage.failures.append("documentation tests")
    return not stage.failures


def table(stages):
    """Prints the table and the closing line; returns the exit code."""
    rows = [("stage", "seconds", "passed", "failed", "skipped", "result")]
    for s in stages:
        seconds = "-" if s.state == "not run" else f"{s.seconds:.0f}"
        counts = [str(n) if n else "-" for n in (s.passed, s.failed, s.skipped)]
        rows.append((s.name, seconds, *counts, s.state + (": " + ", ".join(s.failures) if s.failures else "")))
    rows.append(("all", f"{sum(s.seconds for s in stages):.0f}", *[""] * 4))
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    print()
    for row in rows:
        print("  ".join([row[0].ljust(widths[0])] + [row[i].rjust(widths[i]) for i in range(1, 5)] + [row[5]]).rstrip())
    passed, failed, skipped = (sum(getattr(s, f) for s in stages) for f in ("passed", "failed", "skipped"))
    # A stage that fails without a failed test, or does not run, is one failure.
    failed += sum(s.state == "not run" or s.state == "FAILED" and not s.failed for s in stages)
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def main():
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", nargs="*", help=f"one of {', '.join(name for name, _, _ in STAGES)}")
    wanted = parser.parse_args().stage
    unknown = set(wanted) - {name for name, _, _ in STAGES}
    if unknown:
        parser.error(f"unknown stage {', '.join(sorted(unknown))}")
    chosen = [s for s in STAGES if not wanted or s[0] in wanted]
    stages, stopped = [Stage(name) for name, _, _ in chosen], False
    lacking = lacking_room()
    if lacking:
        print(f"test: {lacking}", file=sys.stderr)
        return table(stages)
    for stage, (name, command, is_needed) in zip(stages, chosen):
        if stopped:
            continue
        print(f"== {name}", flush=True)
        started = time.monotonic()
        ok = stage.run(command) if command else run_tests(stage, name == "e2e")
        stage.seconds, stage.state = time.monotonic() - started, "ok" if ok else "FAILED"
        stopped = is_needed and not ok
    return table(stages)


if __name__ == "__main__":
    sys.exit(main())
