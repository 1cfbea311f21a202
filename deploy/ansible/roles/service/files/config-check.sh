# SPDX-License-Identifier: Apache-2.0
# Has a program check new settings, from standard input, as if they were installed already: `config-check.sh DEB PROGRAM FILE`.
# With a package DEB, the program is the one in it; with "" it is the installed one. Runs in a mount namespace of its own
# (`unshare --mount`), so that all that it makes is gone when it ends, and nothing of the machine changes.
deb=$1 program=$2 file=$3
mount -t tmpfs -o mode=0700 tmpfs /mnt
cat >/mnt/settings.toml
if [ -n "$deb" ]; then
  dpkg-deb -x "$deb" /mnt/package
  program=/mnt/package$program
fi
# FILE is read by the program in any case: what is in it now must not count.
if [ -e "$file" ]; then
  mount --bind /mnt/settings.toml "$file"
  exec "$program" config check
fi
exec "$program" config check --config /mnt/settings.toml
