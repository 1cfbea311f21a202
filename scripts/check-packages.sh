#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Debian packages of a directory by lintian, where there is one: scripts/check-packages.sh DIRECTORY
# With --install-tools, installs what `make test-packages` needs.
set -euo pipefail

if [ "${1:-}" = --install-tools ]; then
  missing=()
  for tool in mmdebstrap systemd-nspawn lintian; do
    command -v "$tool" >/dev/null || missing+=("${tool/systemd-nspawn/systemd-container}")
  done
  ((${#missing[@]})) || exit 0
  ((EUID == 0)) || { echo "missing: ${missing[*]} - run: sudo apt-get install ${missing[*]}" >&2; exit 1; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  exit 0
fi

directory=${1:?usage: scripts/check-packages.sh DIRECTORY}
if ! command -v lintian >/dev/null; then
  echo "not run: lintian is not installed" >&2
  exit 0
fi
# The maintainer's address is a placeholder until DEBEMAIL is set.
lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$directory"/*.deb
