#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Loads the BPF programs and runs their packet tests, canopy-steer's too, and canopy-pacer's tests with fq, on stock Debian kernels, each in a VM: every
# kernel given, or all.
# A kernel on which a test fails, or that could not be booted, makes this fail; the others are run all the same.
#
#   scripts/kernel-matrix.sh [6.1] [6.12]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kernels=("$@")
((${#kernels[@]})) || kernels=(6.1 6.12)
# One build of the whole workspace, as `make test` makes it: another selection of packages would build half of the tree again.
programs=$(cargo test --locked --workspace --no-run --message-format=json) || { echo "kernel-matrix: the tests do not build: see above" >&2; exit 1; }
# Path of the test program of target $1.
built() {
  local path
  path=$(python3 -c 'import json,sys
built = (json.loads(line) for line in sys.stdin)
print(*[m["executable"] for m in built if m.get("executable") and m["profile"]["test"] and m["target"]["name"] == sys.argv[1]])' "$1" <<<"$programs")
  [ -x "$path" ] || { echo "kernel-matrix: no test program of the name $1" >&2; return 1; }
  echo "$path"
}
packets=$(built canopy_datapath)
steer=$(built canopy_steer)
pacer=$(built host)
edt=$(built edt)
daemon=target/debug/canopy-pacer
# The VM reads this machine's files while it runs: a rebuild must not pull them away.
tests=$(mktemp -d target/kernels.XXXXXX)
trap 'rm -rf "$tests"' EXIT
cp "$packets" "$tests/packets" && cp "$steer" "$tests/steer" && cp "$pacer" "$tests/pacer" && cp "$edt" "$tests/edt" && cp "$daemon" "$tests/canopy-pacer"
failed=()
for kernel in "${kernels[@]}"; do
  echo "== Linux $kernel"
  in_vm() { scripts/verbs-vm.sh --kernel "$kernel" --deadline 3600 -- "$@" --nocapture; }
  in_vm "$PWD/$tests/packets" --test-threads 2 || failed+=("$kernel (packets)")
  in_vm "$PWD/$tests/steer" kernel:: --test-threads 1 || failed+=("$kernel (steer)")
  in_vm env CANOPY_PACER="$PWD/$tests/canopy-pacer" "$PWD/$tests/pacer" --test-threads 1 || failed+=("$kernel (pacer)")
  # These kernels have fq: a test that is ignored elsewhere must run here.
  in_vm env CANOPY_PACER="$PWD/$tests/canopy-pacer" "$PWD/$tests/edt" --include-ignored || failed+=("$kernel (edt)")
done
if ((${#failed[@]})); then
  echo "kernel-matrix: FAILED on Linux ${failed[*]}" >&2
  exit 1
fi
echo "kernel-matrix: ok on Linux ${kernels[*]}"
