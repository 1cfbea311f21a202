#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the fuzz targets of proto/packet/fuzz with libFuzzer on stable Rust, and runs all of them for SECONDS together.

Usage: scripts/fuzz.py [SECONDS]    60 without an argument

Seeds are the captured packets of proto/packet/testdata. What is found is kept under proto/packet/fuzz/target/corpus for the next
run. An input that breaks a target is written next to it, and the command that repeats it is printed. Ends with one line per target and
the counts that scripts/test.py reads. A target that tried few inputs, or whose code is not instrumented, fails.
"""

import os
import re
import struct
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "proto/packet/fuzz"
TESTDATA = ROOT / "proto/packet/testdata"
# What `cargo fuzz` passes too; the address sanitizer needs a nightly compiler, and the crate has no unsafe code that is worth it.
COVERAGE = ["level=4", "inline-8bit-counters", "pc-table", "trace-compares"]
FLAGS = ["-Cpasses=sancov-module", *(f"-Cllvm-args=-sanitizer-coverage-{flag}" for flag in COVERAGE)]
FLAGS += ["--cfg=fuzzing", "-Cdebug-assertions", "-Ccodegen-units=1"]
MAX_LEN = 1200
# Each of these is reached in less than a second.
LEAST_RUNS, LEAST_COVERAGE = 1000, 30
IPV6_AT, UDP_AT = 14, 14 + 40
DONE = re.compile(r"^Done (\d+) runs in ", re.M)
COVERED = re.compile(r"\bcov: (\d+)")


def targets():
    """The names of the targets."""
    return [target["name"] for target in tomllib.loads((FUZZ / "Cargo.toml").read_text())["bin"]]


def frames(capture):
    """The frames of a pcap file of this machine's byte order or the other."""
    data = capture.read_bytes()
    order = "<" if data[:1] in (b"\xd4", b"\x4d") else ">"
    at = 24
    while at < len(data):
        (length,) = struct.unpack_from(f"{order}I", data, at + 8)
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def seed(directory):
    """Writes the captured packets: each from its IPv6 header on, and from what follows that."""
    directory.mkdir(parents=True, exist_ok=True)
    for capture in sorted(TESTDATA.rglob("*.pcap")):
        for n, frame in enumerate(frames(capture)):
            for at in (IPV6_AT, UDP_AT):
                if at < len(frame) <= MAX_LEN:
                    (directory / f"{capture.stem}-{n}-{at}").write_bytes(frame[at:])


def build():
    """The directory of the built targets."""
    version = subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, text=True, check=True).stdout
    # With a target of its own, the flags do not apply to build scripts.
    host = re.search(r"^host: (.*)$", version, re.M)[1]
    command = ["cargo", "build", "--locked", "--release", "--bins", "--target", host, "--manifest-path", str(FUZZ / "Cargo.toml")]
    command += ["--target-dir", str(FUZZ / "target")]
    subprocess.run(command, env=os.environ | {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(FLAGS)}, check=True)
    return FUZZ / "target" / host / "release"


def verdict(output, code):
    """What is wrong with a run that printed `output`, or None; and the number of inputs."""
    runs = int(done[1]) if (done := DONE.search(output)) else 0
    coverage = max(map(int, COVERED.findall(output)), default=0)
    if code or not done:
        return "failed", runs
    if coverage < LEAST_COVERAGE:
        return f"covers {coverage} places of the code, at least {LEAST_COVERAGE} were expected: it is not instrumented", runs
    if runs < LEAST_RUNS:
        return f"tried {runs} inputs only", runs
    return None, runs


def run(program, seeds, seconds):
    """Runs one target; returns what is wrong, or None, the number of inputs, and the output."""
    corpus = FUZZ / "target/corpus" / program.name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", f"-max_len={MAX_LEN}", "-timeout=10", "-rss_limit_mb=1024"]
    command += [f"-artifact_prefix={corpus.parent}/{program.name}-", corpus, seeds]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return *verdict(done.stdout, done.returncode), done.stdout


def report(results):
    """Prints the results of all targets; returns the exit code."""
    failed = 0
    for name, (problem, runs, output) in results.items():
        failed += problem is not None
        if problem:
            print(output[-6000:])
        print(f"test fuzz {name} ... {f'FAILED: {problem}' if problem else 'ok'}, {runs} inputs")
        if found := re.search(r"Test unit written to (\S+)", output):
            print(f"repeat with: {found[1].rpartition('/corpus/')[0]}/*/release/{name} {found[1]}")
    passed = len(results) - failed
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored;")
    return 1 if failed else 0


def main():
    """See the module."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    names, programs = targets(), build()
    seeds = FUZZ / "target/seeds"
    seed(seeds)
    # The seconds are processor time: as many targets at once as there are processors, at most two.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        started = time.monotonic()
        done = pool.map(lambda name: run(programs / name, seeds, max(1, seconds // len(names))), names)
        results = dict(zip(names, done))
    print(f"{len(names)} targets in {time.monotonic() - started:.0f} s")
    return report(results)


if __name__ == "__main__":
    sys.exit(main())
