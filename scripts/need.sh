#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of programs that this machine lacks: scripts/need.sh PROGRAM[:PACKAGE]...
set -euo pipefail
missing=()
for tool in "$@"; do
  command -v "${tool%%:*}" >/dev/null || missing+=("${tool#*:}")
done
((${#missing[@]})) || exit 0
((EUID == 0)) || { echo "missing: ${missing[*]} - run: sudo apt-get install ${missing[*]}" >&2; exit 1; }
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
