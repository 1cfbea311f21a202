#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks licenses, sources and duplicates of all crates by deny.toml. Advisories are not checked: their database comes from the network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VERSION=0.20.2
export PATH=$PWD/target/tools/bin:$PATH
command -v cargo-deny >/dev/null || cargo install --quiet --locked --root target/tools "cargo-deny@$VERSION"
cargo deny --locked check --hide-inclusion-graph --allow duplicate licenses bans sources
echo "not run: advisories, whose database is on the network (cargo deny check advisories)"
