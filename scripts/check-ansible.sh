#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Ansible collection of deploy/ansible by yamllint, ansible-lint, and those checks of ansible-test that need nothing from the network.
# With --install-tools, installs what `make test-ansible` needs on this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --install-tools ]; then
  exec scripts/need.sh mmdebstrap systemd-nspawn:systemd-container dpkg-scanpackages:dpkg-dev ssh:openssh-client
fi

export PATH=$PWD/.venv/bin:$PATH
# A collection is found by the names of its directories; ansible-test takes no file that git ignores.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/ansible_collections/canopy"
cp -r deploy/ansible "$root/ansible_collections/canopy/sdn"
export ANSIBLE_COLLECTIONS_PATH=$root ANSIBLE_HOME=$root/home
cd "$root/ansible_collections/canopy/sdn"
yamllint --strict .
ansible-lint --offline --strict -q --nocolor .
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
tests=(action-plugin-docs compile empty-init ignores line-endings no-assert no-get-exception no-illegal-filenames no-smart-quotes replace-urlopen)
tests+=(shebang symlinks use-argspec-type-path use-compat-six)
LC_ALL=C.UTF-8 ansible-test sanity --color no --python "$version" "${tests[@]/#/--test=}"
