// SPDX-License-Identifier: Apache-2.0
//! The domain together with a store of plain records, as in a controller.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use canopy_model::addressing::AddressPlan;
use canopy_model::group::GroupSpec;
use canopy_model::ids::Qpn;
use canopy_model::member::{MemberSpec, Role};
use canopy_model::status::{ItemError, ItemKind, NodeStatus};
use canopy_model::topology::TopologySpec;
use canopy_units::{Monotonic, Octets, Rate, nanos};

use super::Domain;
use crate::command::{Applied, Command, MAX_WRITES, Write};
use crate::domain::GroupFilter;
use crate::error::{DomainError, RestoreError};
use crate::hmac::HmacSettings;
use crate::metadata::Labels;
use crate::record::Record;
use crate::secret::Secret;
use crate::threshold::ThresholdSettings;
use crate::view::{LinkView, NodeView};

mod affected;
mod bound;
mod capturing;
mod data;
mod deleting;
mod draft;
mod drains;
mod effects;
mod fabric_now;
mod hmac;
mod hosts;
mod large;
mod leases;
mod lifecycle;
mod links;
mod lists;
mod losses;
mod lost;
mod map;
mod moving;
mod multicast;
mod opening;
mod pair_effects;
mod paths;
mod problems;
mod proportion;
mod questions;
mod queues;
mod random;
mod records;
mod refusals;
mod restarts;
mod retirements;
mod scale;
mod sessions;
mod silence;
mod silences;
mod stall;
mod status;
mod tenants;

impl Domain {
    /// All nodes with their ports, in name order.
    fn all_nodes(&self) -> Vec<NodeView> {
        self.node_names().iter().filter_map(|name| self.node(name)).collect()
    }

    /// All link directions, in the topology's order.
    fn all_links(&self, now: Monotonic) -> Vec<LinkView> {
        let (all, others) = self.first_links(now, usize::MAX);
        assert_eq!(others, 0);
        all
    }
}

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// Term of a world's first controller.
const TERM: u64 = 1;

/// The key of every test's domain.
fn secret() -> Secret {
    Secret::new([9; 32])
}

/// Records by key.
type Records = BTreeMap<String, Record>;

/// A domain, and the records that its commands made durable.
#[derive(Clone)]
struct World {
    domain: Domain,
    records: Records,
}

impl World {
    fn empty() -> Self {
        Self::empty_with(ThresholdSettings::default())
    }

    fn empty_with(thresholds: ThresholdSettings) -> Self {
        let domain =
            Domain::restore(AddressPlan::default(), thresholds, HmacSettings::default(), secret(), TERM, []).unwrap();
        Self { domain, records: BTreeMap::new() }
    }

    fn with(spec: TopologySpec) -> Self {
        let mut world = Self::empty();
        world.run(topology(spec)).unwrap();
        world
    }

    /// As if the topology were a large one.
    fn apart(spec: TopologySpec) -> Self {
        let mut world = Self::empty();
        world.domain.state.apart_above = 0;
        world.run(topology(spec)).unwrap();
        world
    }

    fn run(&mut self, command: Command) -> Result<Applied, DomainError> {
        self.run_at(command, 0)
    }

    fn run_at(&mut self, command: Command, now_ns: u64) -> Result<Applied, DomainError> {
        let prepared = self.domain.prepare(command)?;
        assert!(prepared.writes.len() <= MAX_WRITES);
        let keys: std::collections::BTreeSet<String> = prepared.writes.iter().map(Write::key).collect();
        assert_eq!(keys.len(), prepared.writes.len(), "a key is written twice");
        for write in &prepared.writes {
            match write {
                Write::Put(record) => drop(self.records.insert(record.key(), record.clone())),
                Write::Delete { key } => drop(self.records.remove(key).expect("what is deleted was there")),
            }
        }
        self.domain.apply(prepared, instant(now_ns))
    }

    fn problem(&self, command: Command) -> String {
        let e = self.domain.prepare(command).unwrap_err();
        format!("{}: {e}", e.code())
    }

    /// Whether every node has confirmed the next tree of `g`; `None` if it does not move.
    fn made(&self) -> Option<bool> {
        self.domain.moving("g").map(|m| m.is_made)
    }

    /// The domain of a controller that restarts from the records.
    fn restarted(&self) -> Domain {
        restored(self.records.clone()).unwrap()
    }

    /// The domain of one that restarts from the records as a version without the trees in them left them.
    fn restarted_by_a_version_without_trees(&self) -> Domain {
        let mut records = self.records.clone();
        records.values_mut().for_each(Record::forget_trees);
        restored(records).unwrap()
    }

    /// As if the group had had so many changes more, by a controller that restarts.
    fn age(&mut self, group: &str, epochs: u32) {
        let Some(Record::Group(record)) = self.records.get_mut(&format!("group/{group}")) else { panic!("no {group}") };
        record.age(epochs);
        let records = self.records.clone();
        let (plan, thresholds) = (AddressPlan::default(), ThresholdSettings::default());
        self.domain =
            Domain::restore(plan, thresholds, HmacSettings::default(), secret(), self.domain.term(), records).unwrap();
    }

    /// Every node confirms its spec, from a connected agent; then the groups that may be opened are, and that is confirmed too.
    fn confirm_all(&mut self) {
        self.confirm();
        for group in self.domain.groups(&GroupFilter::default(), None, usize::MAX).items {
            self.run(Command::OpenGroup { group: group.metadata.name }).unwrap();
        }
        self.confirm();
    }

    /// Every node confirms its spec, from a connected agent.
    fn confirm(&mut self) {
        for node in self.domain.all_nodes() {
            self.domain.agent_connected(&node.name);
            let report = reported(&node.name, node.spec.generation, vec![]);
            self.domain.report(NodeStatus { observed_term: self.domain.term(), ..report }).unwrap();
        }
    }
}

/// The domain of the second controller from `records`.
fn restored(records: Records) -> Result<Domain, RestoreError> {
    Domain::restore(AddressPlan::default(), ThresholdSettings::default(), HmacSettings::default(), secret(), 2, records)
}

fn topology(spec: impl Into<Arc<TopologySpec>>) -> Command {
    Command::PutTopology { labels: Labels::new(), spec: spec.into(), if_match: None }
}

fn group(name: &str) -> Command {
    group_with(name, GroupSpec::default())
}

fn group_with(name: &str, spec: GroupSpec) -> Command {
    Command::PutGroup {
        tenant: None,
        name: name.to_owned(),
        labels: Labels::new(),
        spec,
        if_match: None,
        create_only: false,
    }
}

fn member(host: &str, role: Role, qpn: u64) -> MemberSpec {
    MemberSpec {
        host: host.to_owned(),
        role,
        address: None,
        qpn: Qpn::new("qpn", qpn).unwrap(),
        memory: None,
        start_psn: None,
    }
}

fn join_with(group: &str, spec: MemberSpec) -> Command {
    Command::PutMember { group: group.to_owned(), spec, create_only: true, instance: None, lease: None }
}

fn source(group: &str, host: &str) -> Command {
    join_with(group, member(host, Role::Source, 0x11))
}

fn receiver(group: &str, host: &str) -> Command {
    join_with(group, member(host, Role::Receiver, 0x22))
}

fn leave(group: &str, host: &str) -> Command {
    Command::DeleteMember { group: group.to_owned(), host: host.to_owned() }
}

fn ports_down(node: &str, ports: &[&str]) -> Command {
    Command::PortsDown { node: node.to_owned(), ports: ports.iter().map(|port| (*port).to_owned()).collect() }
}

/// Three leaves and two spines; links to spine2 have an MTU too small for groups, so a tree leads over spine1 or there is none.
fn with_a_small_spine() -> TopologySpec {
    let mut spec = crate::testing::fabric(3, 2, 1);
    spec.links.iter_mut().filter(|l| l.b.device == "spine2").for_each(|l| l.mtu = 1500);
    spec
}

fn reported(node: &str, observed_generation: u64, errors: Vec<ItemError>) -> NodeStatus {
    NodeStatus {
        node: node.to_owned(),
        observed_term: TERM,
        observed_generation,
        errors,
        agent_version: "0.1.0".to_owned(),
        kernel: "6.12".to_owned(),
        minor_version: canopy_model::srh_hmac::MINOR_VERSION,
        ..NodeStatus::default()
    }
}
