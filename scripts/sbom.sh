#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes what is linked into each package's programs as CycloneDX, one file a package: scripts/sbom.sh DIRECTORY
set -euo pipefail
out=${1:?usage: scripts/sbom.sh DIRECTORY}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VERSION=0.5.9
export PATH=$PWD/target/tools/bin:$PATH
command -v cargo-cyclonedx >/dev/null || cargo install --quiet --locked --root target/tools "cargo-cyclonedx@$VERSION"

# Package or image -> crates whose programs and libraries it has.
packages='canopy-controller controller/runtime
canopy-operator deploy/kubernetes/operator
canopy-agent agent/runtime
canopy-host host/capi host/pacer host/steer agent/runtime
canopy-host-agent agent/runtime
canopy-pacer host/pacer
canopy-steer host/steer
canopyctl controller/ctl
canopy-tools e2e/rc'
name=canopy.sbom
trap 'find . -path ./target -prune -o -name "$name.json" -exec rm {} +' EXIT
cargo cyclonedx --quiet --format json --override-filename "$name" --spec-version 1.5 --target "$(rustc -vV | sed -n 's/^host: //p')"
while read -r package crates; do
  # shellcheck disable=SC2086
  python3 scripts/sbom.py "$package" $(printf "%s/$name.json " $crates) >"$out/$package.cdx.json"
done <<<"$packages"
