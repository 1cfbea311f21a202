#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a build and the lab need, on Debian and its derivatives; elsewhere prints what is missing.
set -euo pipefail

declare -A package_of=(
  [clang]=clang [llvm-strip]=llvm [protoc]=protobuf-compiler [pkg-config]=pkg-config [cmake]=cmake [make]=make [gcc]=gcc
  [ip]=iproute2 [tc]=iproute2 [bpftool]=bpftool [tshark]=tshark [tcpdump]=tcpdump [nsenter]=util-linux [ethtool]=ethtool [ping]=iputils-ping [python3]=python3
)
missing=()
for tool in "${!package_of[@]}"; do
  command -v "$tool" >/dev/null || missing+=("${package_of[$tool]}")
done
[ -e /usr/include/libelf.h ] || missing+=(libelf-dev)
[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
[ -e /usr/include/google/protobuf/empty.proto ] || missing+=(libprotobuf-dev)

if ((${#missing[@]})); then
  list=$(printf '%s\n' "${missing[@]}" | sort -u | tr '\n' ' ')
  if ! command -v apt-get >/dev/null; then
    echo "missing: $list(Debian package names). Install them with this system's package manager and run make again." >&2
    exit 1
  fi
  if ((EUID != 0)); then
    echo "missing: $list- run: sudo apt-get install $list" >&2
    exit 1
  fi
  echo "installing: $list"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $list >/dev/null
fi

command -v cargo >/dev/null || { echo "missing: a Rust toolchain, 1.95 or later (rustup.rs, or your distribution's cargo)" >&2; exit 1; }

# Programs and maps are pinned on a BPF file system; a fresh machine without systemd may have none.
if ((EUID == 0)) && ! mountpoint -q /sys/fs/bpf; then
  mount -t bpf bpf /sys/fs/bpf
fi

# Peers that the packet tests compare with, and the protocol buffer linter.
need_pip=()
python3 -c 'import scapy, sys; sys.exit(tuple(map(int, scapy.__version__.split(".")[:2])) < (2, 6))' 2>/dev/null || need_pip+=("scapy==2.8.0")
command -v buf >/dev/null || python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("buf") is None)' 2>/dev/null || need_pip+=("buf-bin")
if ((${#need_pip[@]})); then
  echo "installing for python3: ${need_pip[*]}"
  python3 -m pip --version >/dev/null 2>&1 || { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-pip >/dev/null; }
  python3 -m pip install -q --root-user-action=ignore "${need_pip[@]}" 2>/dev/null ||
    python3 -m pip install -q --root-user-action=ignore --break-system-packages "${need_pip[@]}"
fi
command -v buf >/dev/null || { command -v pyenv >/dev/null && pyenv rehash; } || true
