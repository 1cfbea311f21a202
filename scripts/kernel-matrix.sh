#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Loads the BPF programs and runs their packet tests, and canopy-pacer's tests with fq, on stock Debian kernels, each in a VM: every
# kernel given, or all.
# A kernel on which a test fails, or that could not be booted, makes this fail; the others are run all the same.
#
#   scripts/kernel-matrix.sh [6.1] [6.12]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kernels=("$@")
((${#kernels[@]})) || kernels=(6.1 6.12)
# Path of the program that cargo makes of target $1 with these arguments.
built() {
  local target=$1 path
  shift
  path=$(cargo test "$@" --no-run --message-format=json 2>/dev/null | python3 -c 'import json,sys
print(*[m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable") and m["target"]["name"] == sys.argv[1]])' "$target")
  [ -x "$path" ] || { echo "kernel-matrix: $target does not build: run cargo test $* --no-run" >&2; return 1; }
  echo "$path"
}
packets=$(built canopy_datapath -p canopy-datapath --lib)
pacer=$(built host -p canopy-pacer --test host)
daemon=$(cargo build -q -p canopy-pacer && echo target/debug/canopy-pacer)
# The VM reads this machine's files while it runs: a rebuild must not pull them away.
tests=$(mktemp -d target/kernels.XXXXXX)
trap 'rm -rf "$tests"' EXIT
cp "$packets" "$tests/packets" && cp "$pacer" "$tests/pacer" && cp "$daemon" "$tests/canopy-pacer"
failed=()
for kernel in "${kernels[@]}"; do
  echo "== Linux $kernel"
  in_vm() { scripts/verbs-vm.sh --kernel "$kernel" --deadline 3600 -- "$@" --nocapture; }
  in_vm "$PWD/$tests/packets" --test-threads 2 || failed+=("$kernel (packets)")
  in_vm env CANOPY_PACER="$PWD/$tests/canopy-pacer" "$PWD/$tests/pacer" --test-threads 1 || failed+=("$kernel (pacer)")
done
if ((${#failed[@]})); then
  echo "kernel-matrix: FAILED on Linux ${failed[*]}" >&2
  exit 1
fi
echo "kernel-matrix: ok on Linux ${kernels[*]}"
