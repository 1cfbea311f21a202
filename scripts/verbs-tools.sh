#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares what scripts/verbs-vm.sh boots: the tools, and one stock Debian kernel unpacked into a cache with its initramfs.
# Usage: scripts/verbs-tools.sh KERNEL CACHE   (KERNEL is 6.12 or 6.1; CACHE a directory to keep things in)
set -euo pipefail
kernel=${1:?6.12 or 6.1} cache=${2:?cache directory}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
log() { echo "verbs-tools: $*" >&2; }

declare -A package_of=(
  [qemu-system-x86_64]=qemu-system-x86 [busybox]=busybox-static [kmod]=kmod [depmod]=kmod [xz]=xz-utils [dpkg-deb]=dpkg
  [rdma]=iproute2 [ip]=iproute2 [tc]=iproute2 [ethtool]=ethtool [tcpdump]=tcpdump [bpftool]=bpftool
  [ibv_devinfo]=ibverbs-utils [ibv_rc_pingpong]=ibverbs-utils [ib_send_bw]=perftest
)
missing=()
for tool in "${!package_of[@]}"; do
  command -v "$tool" >/dev/null || missing+=("${package_of[$tool]}")
done
# pyverbs is a compiled module of the distribution's interpreter, not of one that stands before it in PATH.
/usr/bin/python3 -c 'import pyverbs.qp' 2>/dev/null || missing+=(python3-pyverbs)
ls /usr/lib/*/libibverbs/librxe-*.so >/dev/null 2>&1 || missing+=(ibverbs-providers rdma-core)
if ((${#missing[@]})); then
  list=$(printf '%s\n' "${missing[@]}" | sort -u | tr '\n' ' ')
  if ! command -v apt-get >/dev/null || ((EUID != 0)); then
    echo "missing: $list- install these Debian packages as root: apt-get install --no-install-recommends $list" >&2
    exit 1
  fi
  log "installing $list"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $list >/dev/null
fi

dir=$cache/linux-$kernel
if [ ! -e "$dir/unpacked" ]; then
  case $kernel in
    6.1) suite=bookworm ;;
    6.12) suite=bookworm-backports ;;
    *) echo "no kernel $kernel: use 6.12 or 6.1" >&2; exit 1 ;;
  esac
  command -v apt-get >/dev/null || { echo "kernel $kernel is fetched with apt-get: run this on Debian" >&2; exit 1; }
  # Backports may not be among this machine's sources: lists of our own, at the mirror that this machine uses.
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk '$2 == "bookworm" { print $1; exit }')
  [ -n "$mirror" ] || { echo "no mirror of Debian bookworm among this machine's apt sources: add one" >&2; exit 1; }
  rm -rf "$dir" && mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial" "$dir/root"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$dir/apt/sources.list"
  apt=(-o "Dir::Etc::SourceList=$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$dir/apt/lists"
    -o "Dir::Cache::Archives=$dir/apt/archives" -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o APT::Sandbox::User=root)
  apt-get "${apt[@]}" update -qq
  name=$(apt-cache "${apt[@]}" search --names-only "^linux-image-${kernel//./\\.}\\.[0-9].*-amd64-unsigned\$" | awk '{ print $1 }' |
    grep -Ev -- '-(cloud|rt)-' | sort -V | tail -1)
  [ -n "$name" ] || { echo "$suite has no linux-image-$kernel.*-amd64-unsigned" >&2; exit 1; }
  log "downloading $name of $suite"
  (cd "$dir" && apt-get "${apt[@]}" download -qq "$name" && dpkg-deb -x ./*.deb root && rm -rf ./*.deb apt)
  version=$(basename "$dir"/root/boot/vmlinuz-*) && version=${version#vmlinuz-}
  # A merged-/usr kernel package has them in one place, older ones in the other.
  [ -d "$dir/root/lib/modules" ] || { mkdir -p "$dir/root/lib" && mv "$dir/root/usr/lib/modules" "$dir/root/lib/modules"; }
  depmod -b "$dir/root" "$version"
  rm -rf "$dir/root/usr"
  echo "$version" >"$dir/unpacked"
fi

# The initramfs mounts the machine's root file system and hands over; it needs only what 9p over virtio needs.
version=$(<"$dir/unpacked") init=$here/e2e/verbs/vm/init
if [ ! -e "$dir/initramfs" ] || [ "$init" -nt "$dir/initramfs" ]; then
  stage=$(mktemp -d "$dir/initramfs.XXXXXX")
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$stage"/{bin,dev,proc,sys,lower,upper,new,modules}
  cp "$(command -v busybox)" "$stage/bin/busybox"
  install -m 0755 "$init" "$stage/init"
  for module in virtio_pci 9pnet_virtio 9p overlay; do
    modprobe -d "$dir/root" -S "$version" --show-depends "$module"
  done | awk '$1 == "insmod" { print $2 }' | awk '!seen[$0]++' | while read -r file; do
    to=$stage/modules/$(basename "${file%.xz}")
    case $file in *.xz) xz -dc "$file" >"$to" ;; *) cp "$file" "$to" ;; esac
    basename "$to" >>"$stage/modules/order"
  done
  (cd "$stage" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$dir/initramfs.new"
  mv "$dir/initramfs.new" "$dir/initramfs"
fi
