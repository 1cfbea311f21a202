// SPDX-License-Identifier: Apache-2.0
//! The fabric as a host knows it: which host is behind which prefix, and which paths lead there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_model::fabric::{HostFabric, Sender};
use canopy_model::ids::NodeId;
use canopy_model::usid::UsidBlock;
use canopy_paths::fabric::{Ends, Fabric, NotAFabric, PortOf};
use canopy_paths::host::check;
use canopy_paths::pair::Paths;
use canopy_paths::path::{Attachment, Path, Style};
use canopy_paths::program::Header;
use ipnet::Ipv6Net;

use super::MAX_CANDIDATES;
use super::destination::{Candidate, Candidates};

/// Least MTU of IPv6 (RFC 8200 section 5): no source sends smaller packets because of a path.
const LEAST_MTU: u32 = 1280;

/// A link between two nodes, and its MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLink {
    /// One end.
    pub a: PortOf,
    /// The other one.
    pub b: PortOf,
    /// Octets.
    pub mtu: u32,
}

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapHost {
    /// Its addresses.
    pub prefix: Ipv6Net,
    /// The edge's port that leads to it.
    pub port: PortOf,
    /// Octets.
    pub mtu: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Map {
    fabric: Fabric,
    names: BTreeMap<NodeId, String>,
    /// By place of a link, those between nodes first.
    ends: Vec<(PortOf, Option<PortOf>)>,
    hosts: BTreeMap<Ipv6Net, Vec<Attachment>>,
    /// Lengths of the hosts' prefixes.
    lengths: BTreeSet<u8>,
    own: Vec<Attachment>,
    most_nodes: u8,
}

impl Map {
    /// From nodes with their names, links and hosts; `own` is the port that leads to this host. Work is in the order of their number.
    ///
    /// # Errors
    /// What is there twice or not at all.
    pub fn new(
        block: UsidBlock,
        names: BTreeMap<NodeId, String>,
        links: &[MapLink],
        hosts: &[MapHost],
        own: PortOf,
        most_nodes: u8,
    ) -> Result<Self, NotAFabric> {
        let between = links.iter().map(|link| (Ends::Nodes(link.a, link.b), link.mtu));
        let to_hosts = hosts.iter().map(|host| (Ends::Host(host.port), host.mtu));
        let fabric = Fabric::new(block, names.keys().copied(), between.chain(to_hosts))?;
        let ends = links.iter().map(|link| (link.a, Some(link.b)));
        let ends = ends.chain(hosts.iter().map(|host| (host.port, None))).collect();
        let mut attachments: BTreeMap<Ipv6Net, Vec<Attachment>> = BTreeMap::new();
        for (host, link) in hosts.iter().zip(links.len()..) {
            attachments.entry(host.prefix.trunc()).or_default().push(Attachment { edge: host.port, link });
        }
        // Programs leave by one interface: of a host with several links, only by that of this port.
        let own = attachments.values().flatten().filter(|attachment| attachment.edge == own).copied().collect();
        let lengths = attachments.keys().map(Ipv6Net::prefix_len).collect();
        Ok(Self { fabric, names, ends, hosts: attachments, lengths, own, most_nodes })
    }

    /// From what the agent of the host has received.
    ///
    /// # Errors
    /// As [`Map::new`].
    pub fn of(fabric: &HostFabric, sender: &Sender) -> Result<Self, NotAFabric> {
        let names = fabric.nodes.iter().map(|(node, content)| (*node, content.name.clone())).collect();
        let (mut links, mut hosts) = (Vec::new(), Vec::new());
        for (&node, content) in &fabric.nodes {
            links.extend(content.links.iter().map(|link| MapLink {
                a: PortOf { node, port: link.port },
                b: PortOf { node: link.far, port: link.far_port },
                mtu: link.mtu,
            }));
            hosts.extend(content.hosts.iter().map(|host| MapHost {
                prefix: host.prefix,
                port: PortOf { node, port: host.port },
                mtu: host.mtu,
            }));
        }
        let own = PortOf { node: sender.edge, port: sender.edge_port };
        Self::new(sender.block, names, &links, &hosts, own, sender.most_nodes)
    }

    /// The host that an address belongs to.
    pub(super) fn host(&self, address: Ipv6Addr) -> Option<(Ipv6Net, &[Attachment])> {
        // Longest first; a fabric's prefixes have one length or two.
        self.lengths.iter().rev().find_map(|length| {
            let prefix = Ipv6Net::new(address, *length).ok()?.trunc();
            Some((prefix, self.hosts.get(&prefix)?.as_slice()))
        })
    }

    /// The candidates of a host, in the order of their numbers: of its paths that this host's edge lets in, the pinned one, then those without
    /// an unusable link, then the others; of these the first ones, as they share least.
    pub(super) fn candidates(&self, prefix: Ipv6Net, unusable: &BTreeSet<usize>, pin: Option<&Header>) -> Candidates {
        let mut list: Vec<Candidate> = self.paths(prefix, unusable).collect();
        let total = list.len();
        if total > MAX_CANDIDATES {
            list.sort_by_key(|candidate| (Some(&candidate.header) != pin, candidate.is_out(unusable)));
            list.truncate(MAX_CANDIDATES);
            list.sort_by_key(|candidate| candidate.number);
        }
        let has_several_links = self.hosts.get(&prefix).is_some_and(|to| to.len() > 1);
        Candidates { list, total, has_several_links }
    }

    /// The path with this number, of those that a host may have.
    pub(super) fn numbered(&self, prefix: Ipv6Net, number: usize, unusable: &BTreeSet<usize>) -> Option<Candidate> {
        self.paths(prefix, unusable).find(|candidate| candidate.number == number)
    }

    /// Over those links of the host that are usable, if any is: shorter paths over another one would stand in the way of longer ones.
    fn paths(&self, prefix: Ipv6Net, unusable: &BTreeSet<usize>) -> impl Iterator<Item = Candidate> {
        let all = self.hosts.get(&prefix).map_or(&[][..], Vec::as_slice);
        let usable: Vec<Attachment> = all.iter().filter(|to| !unusable.contains(&to.link)).copied().collect();
        let to = if usable.is_empty() { all } else { &usable };
        let paths = Paths::between(&self.fabric, &self.own, to).list.into_iter();
        paths.zip(1..).filter_map(|(ranked, number)| self.candidate(number, ranked.path))
    }

    fn candidate(&self, number: usize, path: Path) -> Option<Candidate> {
        let program = path.program(Style::Nodes, None).ok()?;
        let header = program.encode(self.fabric.block());
        check(&program, &header, self.most_nodes).ok()?;
        let most = path.mtu(&self.fabric, &header);
        let probe = self.probe(&path, &path);
        (most >= LEAST_MTU).then_some(Candidate { number, path, header, most, probe })
    }

    /// The program that leads along one path and back by another, and the longest inner packet that it takes. `None`: the edge lets none in.
    pub(super) fn probe(&self, there: &Path, back: &Path) -> Option<(Header, u32)> {
        let round = there.there_and_back(back, &self.fabric)?;
        let program = round.program(Style::Nodes, None).ok()?;
        let header = program.encode(self.fabric.block());
        check(&program, &header, self.most_nodes).ok()?;
        let most = round.mtu(&self.fabric, &header);
        Some((header, most))
    }

    /// Places of links that end at these ports.
    pub fn links_at(&self, ports: &BTreeSet<PortOf>) -> BTreeSet<usize> {
        let is_at = |(_, (a, b)): &(usize, &(PortOf, Option<PortOf>))| {
            ports.contains(a) || b.as_ref().is_some_and(|b| ports.contains(b))
        };
        self.ends.iter().enumerate().filter(is_at).map(|(place, _)| place).collect()
    }

    /// The ends of a link between nodes.
    pub(super) fn ends_of(&self, link: usize) -> Option<(PortOf, PortOf)> {
        let (a, b) = self.ends.get(link)?;
        Some((*a, (*b)?))
    }

    /// The name of a node; empty, if there is none.
    pub fn name(&self, node: NodeId) -> &str {
        self.names.get(&node).map_or("", String::as_str)
    }

    /// Names of a path's nodes, in order.
    pub fn names<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a str> {
        path.nodes().map(|node| self.name(node))
    }

    /// Prefixes of this host.
    pub fn own_prefix(&self) -> Option<Ipv6Net> {
        let is_own = |attached: &[Attachment]| self.own.iter().any(|own| attached.contains(own));
        self.hosts.iter().find(|(_, attached)| is_own(attached)).map(|(prefix, _)| *prefix)
    }

    /// The least prefix that all hosts are in.
    pub fn covering(&self) -> Option<Ipv6Net> {
        let (first, last) = (self.hosts.keys().next()?.network(), self.hosts.keys().map(Ipv6Net::broadcast).max()?);
        let common = (u128::from(first) ^ u128::from(last)).leading_zeros();
        Some(Ipv6Net::new(first, u8::try_from(common).ok()?).ok()?.trunc())
    }

    /// Hosts and nodes.
    pub fn size(&self) -> (usize, usize) {
        (self.hosts.len(), self.names.len())
    }
}
