# SPDX-License-Identifier: Apache-2.0
# Every command that CI runs, by the same name. `make help` lists them.

SHELL := /bin/bash
# Python tools are in the project's own environment, which `make tools` creates.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
.DEFAULT_GOAL := help
# Where `make lab` builds: optimised for a short build and a fast enough lab; `make test` builds with tests, in target/debug.
LAB := target/lab

.PHONY: help lab down test test-unit test-e2e test-verbs test-deep verbs kernels web web-build web-pictures web-figures web-memory docs-pictures bench bench-scale clean-room conformance build tools lint fmt deps fuzz mutants mutants-rust packages images test-packages test-machines test-kubernetes test-ansible test-images sbom deny clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# For example LAB_OPTIONS=--with-prometheus.
lab: tools ## Figure 1 with real parts: multicast 64 MiB from s1 to r1..r5, then leave the lab up; LAB_OPTIONS=--with-prometheus adds Prometheus
	@[ -x $(LAB)/canopy-lab ] || echo "building the programs: about 5 minutes on 2 CPUs the first time"
	cargo build --locked --workspace --exclude canopy-e2e --exclude canopy-fleet --exclude canopy-sim --exclude canopy-operator --bins --profile lab
	$(LAB)/canopy-lab run e2e/topologies/figure1.yaml --bytes 64MiB $(LAB_OPTIONS)

down: ## take the lab down
	$(LAB)/canopy-lab down

test: ## everything that proves it, with a table at the end; what CI runs
	@command -v python3 >/dev/null || scripts/install-tools.sh
	@python3 scripts/test.py

test-unit: build ## unit, property, packet and kernel tests of every crate
	@python3 scripts/test.py unit

test-e2e: build ## the lab: real controller, agents, kernel and traffic
	@python3 scripts/test.py e2e

test-verbs: build ## the shortest proof with the kernel's own RDMA stack, in a VM
	scripts/verbs-vm.sh -- python3 e2e/verbs/run.py --only one_send_of_1_mib

verbs: tools build ## all of it: SEND, WRITE, loss, refusals, eviction with the kernel's own RDMA stack, in a VM
	scripts/verbs-vm.sh -- python3 e2e/verbs/run.py

kernels: tools build ## the BPF programs, their packet tests and the pacer with fq on Debian's 6.1 and 6.12, in a VM
	scripts/kernel-matrix.sh 6.1 6.12

test-deep: build ## the long campaigns: 20 minutes of fuzzing, 10^4 seeds, 10^6 forged answers, wide model bounds, 256 MiB at every loss and MTU, 23 attacks on the controller, 10,000 resources applied and undone over two crashes, pictures and figures of the web UI and a day of its memory, 150 restarts of agents and 56 exchanges with the previous release under traffic
	python3 scripts/fuzz.py 1200
	CANOPY_DEEP=1 cargo test -p canopy-agent-core -p canopy-reference -p canopy-sim -p canopy-datapath -- --nocapture
	CANOPY_DEEP=1 cargo test -p canopy-controller-runtime --test abuse --test many -- --nocapture
	CANOPY_DEEP=1 cargo test -p canopy-e2e -- --nocapture
	$(MAKE) web-figures web-memory web-pictures
	previous=$$(scripts/previous-release.sh) && CANOPY_PREVIOUS=$$previous cargo test -p canopy-e2e --test identities --test restarts -- --ignored --nocapture

conformance: build ## docs/conformance.md names tests that exist and run, docs/resources.md the fields of the API
	python3 scripts/test_check_conformance.py
	python3 scripts/check-conformance.py
	python3 scripts/test_check_resources.py
	python3 scripts/check-resources.py

web: ## the web UI: its generated types and its build are those of the sources; lint, types, unit tests, size
	@scripts/install-tools.sh web
	@scripts/web.sh check

web-pictures: ## pictures of every page of the web UI, dark and light, on three screens, with 0, 1, 100 and 10,000 objects and with 600 nodes of a real controller, in target/pictures, for people to judge; axe and errors on each: about 25 minutes
	@scripts/web.sh pictures $(CURDIR)/target/pictures
	CANOPY_PICTURES=$(CURDIR)/target/pictures cargo test -p canopy-controller-runtime --test ui -- pictures_with_600_nodes

docs-pictures: build ## the pictures in docs/pictures, of the lab with real agents and traffic
	@scripts/install-tools.sh web
	mkdir -p docs/pictures
	DOCS_PICTURES=$(CURDIR)/docs/pictures cargo test -p canopy-e2e --test ui -- --nocapture

web-figures: ## the figures of the web UI that have a budget: sizes, time to the first view, the longest task of the page and frames per second with the map of 10,000 nodes
	@scripts/web.sh figures

web-memory: ## a day of changes, on the page's own clock: the memory of the web UI is flat: about 20 minutes
	@scripts/web.sh memory

web-build: ## what the controller embeds, from the sources in web/: run after a change there, or of the API description
	@scripts/install-tools.sh web
	@scripts/web.sh build

bench: tools build ## ns per packet, how soon a host's packets take another path, a change among many groups, a sample of telemetry, commits per second, what 2,000 watchers cost a write, both stores with 10^6 records, trees in a fabric of 2,880 nodes, a topology of 130,176 hosts, what callers wait for beside 23 attacks, time to Ready, goodput beside one unicast flow, what Long-haul CNPs gain, how evenly a host's packets load four spines, how long a silent black hole takes them
	cargo bench -p canopy-datapath --features testbed --bench packets
	cargo bench -p canopy-bpf --bench steer
	cargo bench -p canopy-agent-runtime --bench delta
	cargo bench -p canopy-agent-runtime --bench telemetry
	cargo bench -p canopy-controller-actor --bench commits
	cargo bench -p canopy-controller-runtime --bench watchers
	cargo bench -p canopy-store --bench engines
	CANOPY_DEEP=1 cargo test --release -p canopy-controller-core --lib -- --nocapture a_tree_costs a_topology_of
	CANOPY_DEEP=1 CANOPY_ATTACK_SECONDS=3 cargo test --release -p canopy-controller-runtime --test abuse -- --nocapture
	cargo run -q -p canopy-e2e --bin canopy-bench
	cargo run -q -p canopy-e2e --bin canopy-bench-longhaul
	cargo run -q -p canopy-e2e --bin canopy-bench-steer

bench-scale: tools ## what a change costs in a large domain, beside what is to be reached: groups, joins, confirmations and a dead switch among 27,648 hosts, a topology of 130,176, a change among an agent's 4,000 groups, a controller with 1,008 agents and 10,000 groups
	CANOPY_DEEP=1 cargo test --release -p canopy-controller-core --lib -- --nocapture --test-threads 1 a_change_costs a_topology_of
	cargo bench -p canopy-agent-runtime --bench delta
	cargo build --release -p canopy-controller-runtime -p canopy-fleet --bins
	target/release/canopy-fleet

clean-room: ## `make lab` and `make test` in a minimal Debian root, from a clone of HEAD
	scripts/clean-room.sh

build: ## debug build of the whole workspace
	cargo build --locked --workspace --all-targets

tools: ## install what is missing on this machine
	@scripts/install-tools.sh

lint: tools ## formatting, clippy, protocol buffers, the words of docs/glossary.md, who reads the wall clock, settings of the clean room, how stages are counted, alert rules, dashboards, the lists of mutants, the manifests of the Helm charts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cd proto/control/proto && buf lint && buf breaking --against ../released/canopy-v1.binpb
	python3 scripts/test_check_words.py
	python3 scripts/test_glossary.py
	python3 scripts/check-words.py
	python3 scripts/test_check_clocks.py
	python3 scripts/check-clocks.py
	python3 scripts/test_clean_room.py
	python3 scripts/test_guest_fault.py
	python3 scripts/test_test.py
	python3 scripts/test_mutants.py
	python3 scripts/mutants.py
	python3 scripts/test_rust_mutants.py
	python3 scripts/rust-mutants.py
	python3 scripts/test_dashboards.py
	python3 scripts/dashboards.py --check
	python3 deploy/debian/test_manual.py
	python3 scripts/test_sbom.py
	python3 scripts/test_check_charts.py
	python3 scripts/check-charts.py
	PATH="$$PATH:target/prometheus/usr/bin" promtool check rules deploy/prometheus/canopy.rules.yaml
	PATH="$$PATH:target/prometheus/usr/bin" promtool test rules deploy/prometheus/canopy.rules.test.yaml

deps: ## the arrow rule of ARCHITECTURE.md, from cargo's own graph; no circle of files in a crate
	@scripts/check-arrows.sh
	@python3 scripts/test_check_circles.py
	@python3 scripts/check-circles.py

fuzz: ## the fuzz targets of the packet formats, for a minute together (`make test-deep`: 20 minutes)
	@python3 scripts/test_fuzz.py
	@python3 scripts/fuzz.py 60

mutants: tools ## every fault of bpf/mutants.toml, made in the BPF programs, is found by a test: about half an hour
	python3 scripts/mutants.py run

mutants-rust: ## every mutant that cargo-mutants makes in the crates of mutants/ is found by a test or explained: 4 seconds a mutant, about an hour
	python3 scripts/rust-mutants.py run

# Profile of the programs in the packages, and where cargo puts them.
PACKAGED ?= release

packages: tools sbom ## Debian packages in target/packages, from a release build; PACKAGED=lab: from the programs of `make lab`, built sooner
	CANOPY_HOST_SONAME=libcanopy_host_c.so.0 cargo build --locked --workspace --exclude canopy-e2e --exclude canopy-fleet --exclude canopy-sim --exclude canopy-lab --exclude canopy-testkit --exclude canopy-operator --bins --lib --profile $(PACKAGED)
	python3 deploy/debian/build.py target/$(PACKAGED) target/packages target/sbom
	scripts/check-packages.sh target/packages

test-packages: ## install, use, upgrade, remove and purge the packages on a machine that systemd boots: about 5 minutes, as root
	scripts/check-packages.sh --install-tools
	$(MAKE) packages PACKAGED=lab
	python3 deploy/debian/test_packages.py target/packages

test-machines: tools ## Figure 1 on thirteen machines that share nothing but the network, installed from the packages: about 4 minutes after the build, as root
	scripts/check-packages.sh --install-tools
	$(MAKE) packages PACKAGED=lab
	python3 e2e/machines/run.py target/packages

test-kubernetes: tools ## a cluster of Kubernetes from Go modules: the charts installed, Figure 1 with pods as hosts, agents rolled and the API server away under traffic, a thousand groups, and uninstalled with clean-up: about 19 minutes after the builds (the first one of the cluster: 15), as root
	scripts/need.sh buildah runc iptables openssl gcc /usr/lib/cni/bridge:containernetworking-plugins
	$(MAKE) images PACKAGED=lab
	python3 e2e/kubernetes/run.py target/images target/$(HOST)/lab

test-ansible: ## the Ansible collection: its checks, then its playbooks against eight machines that systemd boots, with an upgrade under traffic: 10 minutes after the build, as root
	scripts/check-ansible.sh --install-tools
	scripts/install-tools.sh ansible
	scripts/check-ansible.sh
	$(MAKE) packages PACKAGED=lab
	python3 e2e/ansible/run.py target/packages

# Programs that need no library and no loader: with the C library in them.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

images: tools sbom ## OCI images of static programs in target/images, with the programs and with what is linked into them; PACKAGED=lab as for packages
	scripts/need.sh buildah
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --workspace --exclude canopy-e2e --exclude canopy-fleet --exclude canopy-sim --exclude canopy-lab --exclude canopy-testkit --exclude canopy-host-capi --bins --profile $(PACKAGED) --target $(HOST)
	python3 deploy/container/images.py target/$(HOST)/$(PACKAGED) target/images target/sbom

test-images: ## build the images twice and run them with nothing else in their roots: 1 minute after the build, as root
	scripts/need.sh buildah runc
	$(MAKE) images PACKAGED=lab
	python3 deploy/container/test_images.py target/images target/$(HOST)/lab target/sbom

sbom: tools ## what is linked into each package's programs (CycloneDX), in target/sbom
	scripts/sbom.sh target/sbom

deny: tools ## licenses, sources and duplicates of all crates; advisories need a database from the network and are not run
	scripts/deny.sh

fmt: ## format the sources
	cargo fmt --all

clean: ## remove build results
	cargo clean
