#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Debian packages of a directory by lintian, where there is one: scripts/check-packages.sh DIRECTORY
# With --install-tools, installs what `make test-packages` needs.
set -euo pipefail

if [ "${1:-}" = --install-tools ]; then
  exec "$(dirname "${BASH_SOURCE[0]}")/need.sh" mmdebstrap systemd-nspawn:systemd-container lintian
fi

directory=${1:?usage: scripts/check-packages.sh DIRECTORY}
if ! command -v lintian >/dev/null; then
  echo "not run: lintian is not installed" >&2
  exit 0
fi
# The maintainer's address is a placeholder until DEBEMAIL is set.
lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$directory"/*.deb
