#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds controller and agent of the release before this one, once, and prints the directory with them: for tests of upgrades.
# Until there is a release tag, that release is a commit with contract 1.7.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

release=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null || echo 6bbb684ceafff30620d4288cf989af8586cafcf8)
commit=$(git rev-parse --verify --quiet "$release^{commit}") || {
  echo "previous-release: this checkout's history has no $release: fetch all of it (git fetch --unshallow --tags)" >&2
  exit 1
}
top=$PWD/target/previous
to=$top/$commit
if [ ! -d "$to" ]; then
  echo "building $release, once: about 5 minutes on 2 CPUs" >&2
  rm -rf "$top/source" "$to.new"
  mkdir -p "$top/source" "$to.new"
  git archive "$commit" | tar -x -C "$top/source"
  (cd "$top/source" && CARGO_TARGET_DIR=$top/build cargo build --locked --workspace --exclude canopy-e2e --exclude canopy-sim --bins --profile lab) >&2
  cp "$top"/build/lab/{canopy-controller,canopy-agent} "$to.new/"
  mv "$to.new" "$to"
  rm -rf "$top/source" "$top/build"
fi
echo "$to"
