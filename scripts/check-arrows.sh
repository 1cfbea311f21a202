#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The arrow rule, from cargo's own graph: {units, packet} <- model <- {control, cores} <- {api, edges} <- runtime <- binaries, e2e.
# Nothing of the controller names anything of the agent, nor back; a core names no outside technology.
set -euo pipefail
cd "$(dirname "$0")/.."

fail=0
# Direct and indirect normal dependencies of a crate, one name a line.
graph() { cargo tree -q -e normal --prefix none -p "$1" | awk '{print $1}' | sort -u; }
own() { cargo tree -q -e normal --prefix none --depth 1 -p "$1" | awk '{print $1}' | sort -u; }
forbid() { # crate, pattern, why
  verdict graph "$@"
}
forbid_own() { # the same for what the crate itself names
  verdict own "$@"
}
verdict() {
  local list=$1 names found
  shift
  # On its own line: without cargo, or a crate of this name, the check fails here.
  names=$("$list" "$1")
  # Quantities with their units are for every crate: canopy-units depends on nothing of ours.
  found=$(grep -xE "$2" <<<"$names" | grep -vx -e "$1" -e canopy-units || true)
  if [ -n "$found" ]; then
    echo "arrow: $1 must not depend on $(tr '\n' ' ' <<<"$found")- $3" >&2
    fail=1
  fi
}

outside='tokio|tonic|axum|sled|libbpf-rs|rtnetlink|hyper|prost|nix'
forbid canopy-units 'canopy-.*' 'units know nothing of us'
forbid canopy-units "$outside|libc" 'units are numbers'
forbid canopy-packet 'canopy-.*' 'bytes on the wire know nothing of us'
forbid canopy-packet "$outside" 'packet is no_std'
forbid canopy-model "canopy-.*|$outside" 'the model is plain data'
forbid canopy-paths "canopy-(packet|control|bpf|controller-.*|agent.*|datapath|store|host.*|daemon|pacer)|$outside" 'paths are for the controller and for hosts'
forbid canopy-bpf 'canopy-(control|model|agent|controller|store|host|datapath|pacer).*' 'BPF knows bytes on the wire and nothing of who loads it'
forbid_own canopy-bpf 'tonic|axum|sled|rtnetlink|hyper|nix' 'one outside technology per edge'
forbid canopy-control 'canopy-(controller|agent|datapath|store|packet).*' 'the contract names the model only'
forbid canopy-controller-core "canopy-(agent|datapath|store|controller-).*|$outside" 'the core is pure'
forbid canopy-controller-core 'utoipa|serde_json' 'the JSON form of the API belongs to canopy-controller-api, that of records to the actor'
forbid canopy-controller-api "canopy-(agent|datapath|store|controller-(actor|grpc|rest|runtime)).*|canopyctl|$outside" 'the API is types, for its server and its clients'
forbid canopy-agent-core "canopy-(agent-|controller|store|datapath).*|$outside" 'the core is pure'
forbid canopy-host-core "canopy-(agent|controller|store|datapath|control|host).*|$outside" 'the core is pure'
forbid canopy-identity 'canopy-(control|packet|bpf|controller|agent|store|host|datapath|daemon|pacer).*|axum|tonic|sled' 'names and certificates are for both sides'
forbid canopy-controller-authority 'canopy-(control|packet|bpf|controller-.*|agent|store|host|datapath|daemon|pacer).*|axum|tonic|sled' 'the authority signs, and knows of no API'
forbid canopy-controller-kubernetes 'canopy-(control|packet|bpf|controller-.*|agent|store|host|datapath|daemon|pacer).*|axum|tonic|sled|kube|k8s-openapi' 'a client of two calls of Kubernetes, without its libraries'
forbid canopy-controller-access 'canopy-control|canopy-(bpf|controller-(api|actor|authority|grpc|rest|runtime)|agent|store|host|datapath|daemon|pacer).*|axum|tonic|sled' 'roles and tokens know of no API'
forbid canopy-controller-oidc 'canopy-(control|model|packet|identity|bpf|controller-.*|agent|store|host|datapath|daemon|pacer).*|axum|tonic|sled' 'single sign-on knows a provider, and neither roles nor an API'
forbid canopy-daemon 'canopy-.*' 'what every daemon needs knows none of them'
forbid canopy-machine "canopy-.*|tokio|tonic|axum|sled|libbpf-rs|rtnetlink|hyper|prost" 'what a machine needs is read from its kernel, and knows no program'
forbid canopy-metrics 'canopy-.*' 'what every scrape needs knows no daemon'
forbid canopy-store 'canopy-.*' 'a store keeps bytes'
forbid canopy-reference "canopy-.*|$outside" 'the reference shares nothing with what it judges'
for c in canopy-controller-actor canopy-controller-grpc canopy-controller-rest canopy-controller-runtime canopy-controller-api canopy-controller-authority canopy-controller-access canopy-controller-kubernetes canopy-controller-oidc canopyctl; do
  forbid "$c" 'canopy-(agent|datapath|host|pacer|rc|lab|e2e).*' 'the controller names nothing of the agent or of hosts'
done
forbid_own canopy-controller-rest 'tonic|sled|libbpf-rs|rtnetlink' 'one outside technology per edge'
forbid canopyctl 'canopy-(controller-(actor|grpc|rest|runtime)|store)|axum|tonic|sled' 'a client of the REST API and of nothing else'
forbid canopy-operator 'canopy-(controller-(actor|grpc|rest|runtime|authority|access|kubernetes)|store|agent|datapath|host|pacer|rc|lab|e2e).*|sled' 'a client of the REST API and of Kubernetes'
forbid_own canopy-operator 'axum|tonic' 'a client of the REST API and of Kubernetes'
# Its libraries are in no other program.
for c in canopy-controller-runtime canopy-agent-runtime canopy-pacer canopy-steer canopyctl; do
  forbid "$c" 'kube|k8s-openapi' 'Kubernetes is for the operator'
done
forbid_own canopy-controller-grpc 'axum|sled|libbpf-rs|rtnetlink' 'one outside technology per edge'
for c in canopy-datapath canopy-agent-link canopy-stamp canopy-agent-runtime; do
  forbid "$c" 'canopy-(controller|store|host|pacer|rc|lab|e2e|reference).*|canopyctl' 'the agent names nothing of the controller or of hosts'
done
for c in canopy-host canopy-host-capi; do
  forbid "$c" 'canopy-(controller|agent|datapath|store|rc|lab|e2e|packet).*|canopyctl' 'an application sees the contract only'
done
for c in canopy-pacer canopy-steer; do
  forbid "$c" 'canopy-(controller|agent|datapath|stamp|store|rc|lab|e2e).*|canopyctl' 'a source host has neither controller nor agent'
done
forbid_own canopy-host-capi "$outside" 'the C ABI is a face of canopy-host'
forbid_own canopy-datapath 'tonic|axum|sled' 'the kernel, through BPF and netlink'
forbid_own canopy-stamp 'tonic|axum|sled|libbpf-rs|rtnetlink' 'one outside technology per edge'
forbid_own canopy-agent-link 'libbpf-rs|rtnetlink|sled' 'one outside technology per edge'

# Test support is compiled into tests only.
if git grep -l 'canopy-testkit' -- '*Cargo.toml' | xargs awk '/^\[/{section=$0} /^canopy-testkit/ && section !~ /dev-dependencies/ && FILENAME != "Cargo.toml"{print FILENAME; bad=1} END{exit !bad}'; then
  echo "arrow: canopy-testkit is for tests only" >&2
  fail=1
fi
# `unsafe` lives where the kernel is called: in the home of BPF, the datapath's sockets, and one socket option; and where C calls in.
if git grep -nE '\bunsafe\s*(\{|fn|impl|trait|extern)' -- '*.rs' ':!bpf/src/' ':!agent/datapath/' ':!controller/runtime/src/peer_groups.rs' ':!host/capi/'; then
  echo "arrow: unsafe code outside bpf, agent/datapath and host/capi" >&2
  fail=1
fi
((fail)) || echo "arrows: every dependency points the right way"
exit $fail
