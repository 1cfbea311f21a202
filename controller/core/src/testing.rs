// SPDX-License-Identifier: Apache-2.0
//! Networks and samples for tests.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use canopy_model::ids::{GroupId, NodeId};
use canopy_model::telemetry::{BranchTelemetry, GroupTelemetry};
use canopy_model::topology::{Endpoint, HostDecl, LinkDecl, LongHaulFormat, NodeDecl, TopologySpec};
use canopy_units::{Octets, UnwrappedPsn};

pub(crate) mod clos;

pub(crate) fn endpoint(text: &str) -> Endpoint {
    Endpoint::try_from(text.to_owned()).unwrap()
}

pub(crate) fn link(a: &str, b: &str) -> LinkDecl {
    LinkDecl::new(endpoint(a), endpoint(b))
}

pub(crate) fn node(name: &str, id: u64) -> NodeDecl {
    NodeDecl::new(name, NodeId::new("id", id).unwrap())
}

pub(crate) fn host(name: &str, number: u16) -> HostDecl {
    HostDecl {
        name: name.to_owned(),
        prefix: format!("2001:db8:{number:x}::/64").parse().unwrap(),
        address: format!("2001:db8:{number:x}::1").parse().unwrap(),
        long_haul_cnp: LongHaulFormat::default(),
        path_programs: false,
    }
}

/// A group's sample of a node that has counted nothing.
pub(crate) fn group_sample(group_id: GroupId, epoch: u32) -> GroupTelemetry {
    GroupTelemetry {
        group_id,
        epoch,
        high: UnwrappedPsn::ZERO,
        min_next: None,
        acks_in: 0,
        acks_out: 0,
        naks_in: 0,
        naks_out: 0,
        cnps_in: 0,
        cnps_out: 0,
        data_packets: 0,
        fresh_packets: None,
        data_octets: Octets::ZERO,
        branches: vec![],
        drops: vec![],
    }
}

/// The same of a branch.
pub(crate) fn branch_sample(address: Ipv6Addr) -> BranchTelemetry {
    BranchTelemetry {
        address,
        next: None,
        unconfirmed: false,
        ack_psn: None,
        epsn: None,
        fatal: None,
        late: None,
        start: None,
        ccount: 0,
        last_feedback: None,
        packets: 0,
        octets: Octets::ZERO,
        completed_min: None,
    }
}

/// Two levels: every leaf linked to every spine. Leaves `leaf1..`, spines `spine1..`, hosts `h<leaf>-<k>`.
pub(crate) fn fabric(leaves: u16, spines: u16, hosts_per_leaf: u16) -> TopologySpec {
    let mut t = TopologySpec::default();
    for l in 1..=leaves {
        t.nodes.push(node(&format!("leaf{l}"), l.into()));
    }
    for s in 1..=spines {
        t.nodes.push(node(&format!("spine{s}"), 0x100 + u64::from(s)));
        for l in 1..=leaves {
            t.links.push(link(&format!("leaf{l}/up{s}"), &format!("spine{s}/down{l}")));
        }
    }
    for l in 1..=leaves {
        for h in 1..=hosts_per_leaf {
            let name = format!("h{l}-{h}");
            t.hosts.push(host(&name, l * 256 + h));
            t.links.push(link(&format!("leaf{l}/host{h}"), &format!("{name}/eth0")));
        }
    }
    t
}

/// A connected graph of nodes without hosts: a random spanning tree (the parent of node i is an earlier node) plus
/// extra links.
pub(crate) fn random_graph(parents: &[usize], extra: &[(usize, usize)]) -> TopologySpec {
    let n = parents.len() + 1;
    let mut t = TopologySpec {
        nodes: (0..n).map(|i| node(&format!("n{i}"), i as u64 + 1)).collect(),
        ..TopologySpec::default()
    };
    let tree = parents.iter().enumerate().map(|(i, p)| (i + 1, p % (i + 1)));
    let extra = extra.iter().map(|(a, b)| (a % n, b % n)).filter(|(a, b)| a != b);
    for (k, (a, b)) in tree.chain(extra).enumerate() {
        t.links.push(link(&format!("n{a}/e{k}"), &format!("n{b}/e{k}")));
    }
    t
}

/// Two hosts with a link to each of these nodes, as far as there are any.
pub(crate) fn with_multi_homed(mut spec: TopologySpec, nodes: &[usize]) -> TopologySpec {
    let nodes: BTreeSet<usize> = nodes.iter().map(|node| node % spec.nodes.len()).collect();
    for h in 1..=2u16 {
        spec.hosts.push(host(&format!("h{h}"), h));
        let links = nodes.iter().map(|node| link(&format!("n{node}/host{h}"), &format!("h{h}/eth{node}")));
        spec.links.extend(links);
    }
    spec
}
