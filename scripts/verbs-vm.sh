#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command as root in a VM with a stock Debian kernel that has RDMA over Ethernet in software (rdma_rxe), on this
# machine's own root file system, read-only, with a writable layer in memory. No KVM is needed.
#
#   scripts/verbs-vm.sh [--kernel 6.12|6.1] [--cpus N] [--memory MIB] [--deadline SECONDS] [--results DIR] -- COMMAND [ARGUMENT...]
#
# Its output and exit code are this script's. Beyond that: 124 the deadline passed, 125 the VM could not run, 126 its kernel
# panicked or warned of a broken invariant. What the command writes into /run/verbs stays in --results, beside the kernel's log.
# A fault that is QEMU's (guest_fault.py) starts the VM again, at most twice, with a line about it: the command and its deadline begin anew.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
kernel=6.12 cpus=2 memory=4096 deadline=1800 results=
usage() { sed -n '3,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 125; }
while (($#)); do
  case $1 in
    --kernel) kernel=${2:?}; shift 2 ;;
    --cpus) cpus=${2:?}; shift 2 ;;
    --memory) memory=${2:?}; shift 2 ;;
    --deadline) deadline=${2:?}; shift 2 ;;
    --results) results=${2:?}; shift 2 ;;
    --) shift; break ;;
    *) usage ;;
  esac
done
(($#)) || usage

cache=${CANOPY_VERBS_CACHE:-$top/target/verbs}
mkdir -p "$cache"
exec 9>"$cache/lock.$kernel"
flock 9
bash "$top/scripts/verbs-tools.sh" "$kernel" "$cache" 9>&- || exit 125
exec 9>&-
dir=$cache/linux-$kernel
version=$(<"$dir/unpacked")

share= qemu=
finish() {
  [ -z "$qemu" ] || ! kill -0 "$qemu" 2>/dev/null || { kill "$qemu" 2>/dev/null; wait "$qemu" 2>/dev/null || true; }
  if [ -n "$results" ] && [ -d "$share" ]; then mkdir -p "$results" && cp -r "$share/." "$results/"; fi
  rm -rf "$share"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# One VM from its start to its end, with a new directory for what it leaves; or 124.
boot() {
  rm -rf "$share"
  share=$(mktemp -d "$cache/run.XXXXXX")
  printf '%q ' "$@" >"$share/command"
  # An emulated CPU of a busy machine stands still for seconds at a time: that is no lockup.
  qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp "$cpus" -m "$memory" -nodefaults -no-user-config -display none -no-reboot \
    -kernel "$dir/root/boot/vmlinuz-$version" -initrd "$dir/initramfs" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr random.trust_cpu=on tsc=reliable nowatchdog workqueue.watchdog_thresh=0 rcupdate.rcu_cpu_stall_suppress=1 verbs_top=$top verbs_kernel=$dir/root" \
    -device virtio-rng-pci \
    -fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap" -device virtio-9p-pci,fsdev=root,mount_tag=root \
    -fsdev "local,id=results,path=$share,security_model=none,multidevs=remap" -device virtio-9p-pci,fsdev=results,mount_tag=results \
    -serial "file:$share/console" -chardev "stdio,id=out,signal=off" -serial chardev:out </dev/null >&"$out" 2>"$share/qemu" &
  qemu=$!
  local end=$((SECONDS + deadline))
  while kill -0 "$qemu" 2>/dev/null; do
    if ((SECONDS >= end)); then
      echo "verbs-vm: still running after $deadline s; the end of the kernel's log:" >&2
      tail -n 20 "$share/console" >&2
      exit 124
    fi
    sleep 0.2
  done
  wait "$qemu" || true
}

exec {out}>&1
tries=3
for ((try = 1; ; try++)); do
  boot "$@"
  fault=0
  python3 "$top/scripts/guest_fault.py" "$share/console" "$share/dmesg" || fault=$?
  ((fault == 3 && try < tries)) || break
  echo "verbs-vm: QEMU executed a breakpoint that the kernel had removed (above), which is no fault of the kernel or the command: the VM starts again, $((try + 1)) of $tries" >&2
done
((fault == 0)) || { echo "verbs-vm: the kernel broke (above)" >&2; exit 126; }
[ -s "$share/code" ] || { echo "verbs-vm: the VM ended without a result:" >&2; tail -n 20 "$share/console" "$share/qemu" >&2; exit 125; }
exit "$(<"$share/code")"
