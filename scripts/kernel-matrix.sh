#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Loads the BPF programs and runs their packet tests on stock Debian kernels, each in a VM: every kernel given, or all.
# A kernel on which a test fails, or that could not be booted, makes this fail; the others are run all the same.
#
#   scripts/kernel-matrix.sh [6.1] [6.12]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kernels=("$@")
((${#kernels[@]})) || kernels=(6.1 6.12)
built=$(cargo test -p canopy-datapath --lib --no-run --message-format=json 2>/dev/null |
  python3 -c 'import json,sys
print(*[m["executable"] for m in map(json.loads, sys.stdin) if m.get("reason") == "compiler-artifact" and m.get("executable")])')
[ -x "$built" ] || { echo "kernel-matrix: the tests of canopy-datapath do not build: run cargo test -p canopy-datapath --lib --no-run" >&2; exit 1; }
# The VM reads this machine's files while it runs: a rebuild must not pull them away.
tests=$(mktemp -d target/kernels.XXXXXX)
trap 'rm -rf "$tests"' EXIT
cp "$built" "$tests/packets"
failed=()
for kernel in "${kernels[@]}"; do
  echo "== Linux $kernel"
  scripts/verbs-vm.sh --kernel "$kernel" --deadline 3600 -- "$PWD/$tests/packets" --test-threads 2 --nocapture 2>&1 |
    grep -vE '^libbpf: Kernel error message' || failed+=("$kernel")
done
if ((${#failed[@]})); then
  echo "kernel-matrix: FAILED on Linux ${failed[*]}" >&2
  exit 1
fi
echo "kernel-matrix: ok on Linux ${kernels[*]}"
