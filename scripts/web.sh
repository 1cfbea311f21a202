#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The web UI in web/: `build` makes what the controller embeds, `check` proves it, `install` only fetches the packages; `pictures`, `figures` and
# `memory` run the programs of these names in web/e2e.
set -euo pipefail
cd "$(dirname "$0")/../web"
export PATH="$PWD/../.venv/bin:$PATH" NO_COLOR=1

install() {
  # As the lockfile has them, by their hashes; without their install scripts.
  if ! cmp -s package-lock.json node_modules/.package-lock.json.installed; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/.package-lock.json.installed
  fi
}

# What is generated from the API description, written to file $1, and from the glossary, written to file $2.
generate() {
  npx --no-install openapi-typescript ../controller/rest/openapi.json -o "$1" >/dev/null
  python3 ../scripts/glossary.py >"$2"
}

case "${1:-check}" in
install)
  install
  ;;
build)
  install
  generate src/api/schema.ts src/ui/glossary.ts
  npm run --silent check
  npx --no-install vite build --logLevel warn
  npx --no-install vite build --logLevel warn --config vite.docs.config.ts
  ;;
check)
  install
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  generate "$made/schema.ts" "$made/glossary.ts"
  if ! cmp "$made/schema.ts" src/api/schema.ts; then
    echo "web/src/api/schema.ts is not what controller/rest/openapi.json describes: run scripts/web.sh build and commit the result" >&2
    exit 1
  fi
  if ! cmp "$made/glossary.ts" src/ui/glossary.ts; then
    echo "web/src/ui/glossary.ts is not what docs/glossary.md has: run scripts/web.sh build and commit the result" >&2
    exit 1
  fi
  npm run --silent check
  npm run --silent lint
  npm run --silent test
  npx --no-install vite build --logLevel warn --outDir "$made/dist"
  npx --no-install vite build --logLevel warn --config vite.docs.config.ts --outDir "$made/dist/docs"
  if ! diff -r "$made/dist" dist; then
    echo "web/dist is not what the sources make: run scripts/web.sh build and commit the result" >&2
    exit 1
  fi
  # What the first view loads, and everything, compressed; /docs is apart, and no page of the UI loads a file of it.
  size() { cat "$@" | gzip -9 | wc -c; }
  mapfile -t named < <(grep -o '"/assets/[^"]*"' dist/index.html | tr -d '"')
  first=$(size dist/index.html "${named[@]/#/dist}")
  all=$(size dist/index.html dist/assets/*)
  echo "first view $((first / 1000)) kB, everything $((all / 1000)) kB, /docs $(($(size dist/docs/index.html dist/docs/assets/*) / 1000)) kB, gzip"
  if grep -l '/docs/' dist/index.html dist/assets/*.js; then
    echo "a page of the UI loads a file of /docs" >&2
    exit 1
  fi
  if ((first > 200000 || all > 350000)); then
    echo "the UI is larger than it may be: 200 kB for the first view, 350 kB for everything" >&2
    exit 1
  fi
  ;;
pictures | figures | memory)
  # Of web/dist as it is: `check` has proved that it is that of the sources.
  ../scripts/install-tools.sh web
  install
  npm run --silent "$@"
  ;;
*)
  echo "usage: scripts/web.sh build|check|install|pictures DIRECTORY|figures|memory" >&2
  exit 2
  ;;
esac
