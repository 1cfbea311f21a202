#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs make targets in a minimal Debian root, from a clone of HEAD, and so shows that they install everything that they need.
#
#   scripts/clean-room.sh [--keep | --in ROOT] [TARGET...]          make targets in this order; `lab test` if none is given
#   scripts/clean-room.sh [--keep | --in ROOT] -- COMMAND [ARG...]  any command, in the clone
#   scripts/clean-room.sh --settings                                what the root gets of this machine's settings
#
# The root has the packages of mmdebstrap's variant minbase, git, make and ca-certificates, and nothing mounted from outside. It
# has mount, PID, IPC, UTS and cgroup namespaces of its own. The network is this machine's: the package registries are there, and
# the lab is shown in a machine's first network namespace, where it may lengthen the packet queue of a CPU. So port 8640 must be free.
#
# Each step's output is also kept in target/clean-room/logs. --keep keeps the root in target/clean-room, and --in enters a root that
# was kept, as it is; processes and mounts end with this script in any case. The exit code is 0 if every step succeeded, 1 if one
# failed, 2 if there is no root to run it in.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SUITE=bookworm
BUNDLE=/etc/ssl/certs/ca-certificates.crt
# Variables by which clients reach the package registries. A path in one of them is this machine's: it is not passed.
REGISTRY_VARIABLES='^((https?|ftp|all|no)_proxy|cargo_(http|net|registries|source)_.*|cargo_registry_default'\
'|pip_(index_url|extra_index_url|trusted_host|proxy|default_timeout|timeout|retries)'\
'|npm_config_(.*registry|proxy|https_proxy|noproxy|strict_ssl)|go(proxy|noproxy|private|sumdb|nosumdb))$'
# Variables that name a CA bundle: in the root they name the root's own, which has this machine's CAs too.
BUNDLE_VARIABLES='^(ssl_cert_file|curl_ca_bundle|requests_ca_bundle|git_ssl_cainfo|pip_cert|cargo_http_cainfo|npm_config_cafile|node_extra_ca_certs)$'

usage() { sed -n '5,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
log() { echo "clean-room: $*" >&2; }
die() { log "$*"; exit 2; }

# Environment of every command in the root.
settings() {
  local name
  printf '%s\n' HOME=/root LANG=C.UTF-8 "TERM=${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  while read -r name; do
    if [[ ${name,,} =~ $BUNDLE_VARIABLES ]]; then
      echo "$name=$BUNDLE"
    elif [[ ${name,,} =~ $REGISTRY_VARIABLES && ${name,,} != *token* && ${!name} != *[[:cntrl:]]* && ${!name} != /* ]]; then
      echo "$name=${!name}"
    fi
  done < <(compgen -e | sort)
}

# apt's proxies, time-outs and checks of dates, as on this machine.
apt_options() {
  ! command -v apt-config >/dev/null ||
    apt-config dump | grep -E '^Acquire::((http|https)::.*|Check-Valid-Until|Check-Date|Retries|ForceIPv[46]) "[^/"]' || true
}

# This machine's mirrors of the suite; none if it has other sources: then mmdebstrap's own default is used.
apt_sources() {
  ! command -v apt-get >/dev/null ||
    apt-get indextargets --format "\$(ORIGIN) \$(REPO_URI) \$(CODENAME) \$(COMPONENT)" 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$SUITE" '$1 == "Debian" && $3 ~ "^" suite "(-updates|-security)?$" && $4 == "main" { print "deb", $2, $3, $4 }' || true
}

# The certificates of bundle $2 that bundle $1 does not have, one file each in directory $3.
add_certificates() {
  awk -v first="$1" -v to="$3" '
    /-----BEGIN/ { text = ""; within = 1 }
    within { text = text $0 "\n" }
    /-----END/ {
      within = 0
      if (FILENAME == first) { known[text] = 1 }
      else if (!(text in known)) { known[text] = 1; file = to "/clean-room-" ++n ".crt"; printf "%s", text >file; close(file) }
    }' "$1" "$2"
}

make_root() {
  chmod 755 "$root"
  local options=$root.apt mirrors
  if ! command -v mmdebstrap >/dev/null; then
    command -v apt-get >/dev/null || { log "mmdebstrap is missing: install it with this system's package manager"; return 1; }
    log "installing mmdebstrap"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
  fi
  apt_options >"$options"
  mapfile -t mirrors < <(apt_sources)
  mmdebstrap --mode=root --variant=minbase --include=git,make,ca-certificates --aptopt="$options" "$SUITE" "$root" "${mirrors[@]}"
  printf '127.0.0.1 localhost clean-room\n::1 localhost\n' >"$root/etc/hosts"
  cp --remove-destination "$(readlink -f /etc/resolv.conf)" "$root/etc/resolv.conf"
  add_certificates "$root$BUNDLE" "${SSL_CERT_FILE:-$BUNDLE}" "$root/usr/local/share/ca-certificates"
  chroot "$root" /usr/sbin/update-ca-certificates
}

# First process of the root's PID namespace. It mounts what a machine's kernel provides, and ends when this script does.
init() {
  local root=$1 host_pid device number
  read -r host_pid _ </proc/self/stat
  mount --bind "$root" "$root"
  cd "$root"
  mount -t proc -o nosuid,nodev,noexec proc proc
  mount -t sysfs -o nosuid,nodev,noexec sysfs sys
  mount -t tmpfs -o mode=755,size=16m dev dev
  mount -t tmpfs -o mode=755 run run
  mount -t tmpfs -o mode=1777 tmp tmp
  while read -r device number; do
    # shellcheck disable=SC2086
    mknod -m 666 "dev/$device" c $number
  done <<<$'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0'
  mkdir dev/pts dev/shm run/lock
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
  mount -t tmpfs -o mode=1777 shm dev/shm
  ln -s pts/ptmx dev/ptmx
  ln -s /proc/self/fd dev/fd
  ln -s fd/0 dev/stdin && ln -s fd/1 dev/stdout && ln -s fd/2 dev/stderr
  hostname clean-room
  pivot_root . .
  umount -l .
  echo "$host_pid"
  # The pipe's end is closed when the script ends, however it ends; a shell also waits for orphans.
  exec chroot . /bin/bash -c 'cd /; while read -r _; do :; done'
}

# A command in the root.
within() {
  local environment
  mapfile -t environment < <(settings)
  nsenter --target "$inside" --mount --pid --ipc --uts --cgroup env -i "${environment[@]}" "$@" </dev/null
}

rows=() failed='' running=''
# step NAME COMMAND...: runs the command, shows and keeps its output, adds a row to the table, and sets `failed` if it failed.
step() {
  local name=$1 file=$logs/${1// /-}.log started=$EPOCHREALTIME code counts
  shift
  echo "== $name"
  # In the background, as only `wait` is interrupted by a signal; not in a condition, where `set -e` would not apply to functions.
  set +e
  { (set -e; "$@") 2>&1 | tee "$file"; exit "${PIPESTATUS[0]}"; } &
  running=$!
  wait "$running"
  code=$?
  running=
  set -e
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$file" | tail -1) || true
  rows+=("$name" "$(awk -v a="$started" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", b - a }')")
  if ((code)); then failed=$name; rows+=("FAILED${counts:+: $counts}"); else rows+=("ok${counts:+: $counts}"); fi
}

finish() {
  trap '' INT TERM HUP
  # A lab that was interrupted has not restored the machine's packet queue.
  local saved=/proc/$inside/root/run/canopy-lab.backlog
  [ -z "$inside" ] || [ ! -e "$saved" ] || cat "$saved" >/proc/sys/net/core/netdev_max_backlog
  # mmdebstrap removes its mounts when it is asked to end. All that runs in the root ends with the root's first process, whose
  # input ends here; `wait` returns after that.
  [ -z "$running" ] || kill -TERM -- "-$running" || true
  [ -z "$pipe" ] || exec {pipe}>&-
  wait
  if [ -z "$keep" ]; then rm -rf --one-file-system "$root"; else log "the root is $root"; fi
  rm -f "$root.apt"
}

main() {
  local targets=() commands=() target
  keep='' pipe='' inside='' root='' made=''
  while (($#)); do
    case $1 in
      --keep) keep=1 ;;
      --in)
        [[ -n ${2:-} && -d $2/root/canopy ]] || die "--in needs a root that --keep kept"
        root=$(cd "$2" && pwd) keep=1 made=1
        shift
        ;;
      --settings) settings; apt_options; apt_sources; exit 0 ;;
      -h | --help) usage; exit 0 ;;
      --) shift; commands=("$@"); (($#)) || { usage >&2; exit 2; }; break ;;
      -*) usage >&2; exit 2 ;;
      *)
        awk -F: -v target="$1" '$1 == target { found = 1 } END { exit !found }' "$top/Makefile" || die "the Makefile has no target $1"
        targets+=("$1")
        ;;
    esac
    shift
  done
  ((${#targets[@]} + ${#commands[@]})) || targets=(lab test)
  ((EUID == 0)) || die "makes namespaces and mounts: run it as root"

  # Each step is a process group, which can be ended as a whole.
  set -m
  room=$top/target/clean-room logs=$top/target/clean-room/logs
  rm -rf "$logs" && mkdir -p "$logs"
  [ -n "$made" ] || root=$(mktemp -d "$room/root.XXXXXX")
  trap finish EXIT
  trap 'exit 130' INT TERM HUP
  if [ -z "$made" ]; then
    [ -z "$(git -C "$top" status --porcelain)" ] || log "the work tree has changes that are not committed: they are not in the clone"
    step root make_root
    [ -z "$failed" ] || die "no root: see $logs/root.log"
  fi
  coproc ROOM {
    exec unshare --mount --pid --fork --kill-child --ipc --uts --cgroup bash -euc "$(declare -f init); init \"\$1\"" init "$root"
  }
  pipe=${ROOM[1]}
  read -r inside <&"${ROOM[0]}" || die "no namespaces for the root"
  if [ -z "$made" ]; then
    git -C "$top" bundle create -q "$root/root/canopy.bundle" HEAD
    step clone within git -c advice.detachedHead=false clone -q /root/canopy.bundle /root/canopy
    [ -z "$failed" ] || die "no clone: see $logs/clone.log"
  fi

  if ((${#commands[@]})); then
    step command within env --chdir=/root/canopy "${commands[@]}"
  fi
  for target in "${targets[@]}"; do
    step "make $target" within make -C /root/canopy "$target"
    # As a user would before something else.
    [ "$target" != lab ] || step "make down" within make -C /root/canopy down
  done

  echo
  printf '%-14s %8s  %s\n' step seconds result "${rows[@]}"
  echo "commit $(within git -C /root/canopy rev-parse --short HEAD), Debian $SUITE, $(nproc) CPUs; logs: $logs"
  [ -z "$failed" ]
}

# The tests read the functions without running anything. `exit` stands on the line of `main`: an edit meanwhile has no effect.
[ "${BASH_SOURCE[0]}" != "$0" ] || { main "$@"; exit; }
