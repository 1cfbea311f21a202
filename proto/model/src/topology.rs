// SPDX-License-Identifier: Apache-2.0
//! The physical network as the operator declares it: nodes, hosts and the links between their ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_units::{Octets, Rate, numbers};
use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, check_name};
use crate::labels::{self, Labels};
use crate::{FieldError, FieldErrors};

/// Smallest link MTU that IPv6 permits (RFC 8200 section 5).
pub const MIN_LINK_MTU: u32 = 1280;
/// Largest link MTU: the length field of an IPv6 header has 16 bits.
pub const MAX_LINK_MTU: u32 = 65_535;
/// Bytes of the name of a port, at most (IFNAMSIZ - 1).
pub const MAX_PORT: usize = 15;
/// Tiers that a node can be declared in: the hosts below them have 0.
pub const NODE_TIERS: std::ops::RangeInclusive<u8> = 1..=16;
/// Longest round-trip time of a link.
pub const MAX_LINK_RTT: Duration = Duration::from_secs(10);
/// Smallest K_base: one RoCEv2 frame with the largest payload (4096), all headers, ICRC and FCS
/// (draft-tian-ccwg-long-haul-cnp-00 section 5.3.2).
pub const MIN_K_BASE: Octets = Octets(4_198);
/// V_ecn in packets per thousand: smallest, largest. At 1000 the marking rate never triggers.
pub const V_ECN_PERMILLE: std::ops::RangeInclusive<u16> = 1..=1_000;
/// Default of V_ecn: half of the packets.
pub const DEFAULT_V_ECN_PERMILLE: u16 = 500;
/// Links of a host, at most.
pub const MAX_HOST_LINKS: usize = 8;
/// Smallest buffer: K_min must be below K_max.
pub const MIN_BUFFER: Octets = Octets(2);

/// A whole network, replaced as a unit: an invalid update changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TopologySpec {
    /// Forwarding nodes, each running an agent.
    pub nodes: Vec<NodeDecl>,
    /// RDMA hosts, each with one link or several, to different nodes.
    #[serde(default)]
    pub hosts: Vec<HostDecl>,
    /// Point-to-point links.
    pub links: Vec<LinkDecl>,
}

/// A forwarding node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeDecl {
    /// Unique among nodes and hosts.
    pub name: String,
    /// Number in the SRv6 locator, unique.
    pub id: NodeId,
    /// Row of the map, 1..=16: leaves have 1. Hops to the nearest host if absent. Paths and trees do not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u8>,
    /// Where the node stands, a DNS-1123 label: nodes of a site are next to each other on the map. Paths and trees do not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// For selectors and for people: key to value, both in Kubernetes' syntax. Paths and trees do not depend on them.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl NodeDecl {
    /// A node of no declared tier and site, without labels.
    pub fn new(name: impl Into<String>, id: NodeId) -> Self {
        Self { name: name.into(), id, tier: None, site: None, labels: Labels::new() }
    }
}

/// An RDMA host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HostDecl {
    /// Unique among nodes and hosts.
    pub name: String,
    /// The prefix routed to the host's ports; members' addresses must lie in it. Of several links, each node leads packets to the one whose node
    /// is nearest. Packets of groups take the link that comes first under `links`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub prefix: Ipv6Net,
    /// The host's default address, inside `prefix`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub address: Ipv6Addr,
    /// Format in which the host's RDMA stack accepts Long-haul CNPs.
    #[serde(default, skip_serializing_if = "LongHaulFormat::is_default")]
    pub long_haul_cnp: LongHaulFormat,
    /// The host may send path programs (draft-filsfils-srv6-ai-backends section 11): its edge lets in those that end where the inner
    /// destination is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub path_programs: bool,
}

/// The two formats of draft-tian-ccwg-long-haul-cnp-00 section 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LongHaulFormat {
    /// ICMPv6: ignored by hosts that do not implement it.
    #[default]
    Icmpv6,
    /// RoCEv2, with the E bit in the BTH of a CNP: only for hosts that are known to accept it.
    RoceV2,
}

impl LongHaulFormat {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A bidirectional link between two ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LinkDecl {
    /// One end, written `device/port`.
    pub a: Endpoint,
    /// The other end.
    pub b: Endpoint,
    /// IPv6 MTU in bytes, 1280..=65535.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// Rate of each direction, bits per second; 0 = not known.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    #[serde(rename = "rateBps", default)]
    pub rate: Rate,
    /// Drain: trees and routes leave the link as soon as another path exists, without losing a packet.
    #[serde(default)]
    pub drained: bool,
    /// Round-trip time between the two ends, microseconds, 1..=10000000; if absent, the agents' measurement is used.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    #[serde(rename = "rttUs", with = "numbers::optional_micros", default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// Octets that the egress ports can queue, 2 and more: one number for both, or `{a, b}`; not known if absent.
    #[serde(rename = "bufferBytes", default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<LinkBuffer>,
    /// alpha in thousandths, 1..=65535: K_max is alpha times the bandwidth-delay product. The controller's default if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<u16>,
    /// K_base in octets, 4198 and more: the smallest K_max. The controller's default if absent.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    #[serde(rename = "kBaseBytes", default, skip_serializing_if = "Option::is_none")]
    pub k_base: Option<Octets>,
    /// V_ecn in packets per thousand, 1..=1000: a higher marking rate is second-level congestion. One number for both egress ports, or
    /// `{a, b}`; the controller's default if absent.
    #[serde(rename = "vEcn", default, skip_serializing_if = "Option::is_none")]
    pub v_ecn: Option<PortNumber>,
    /// V_growth in octets per millisecond, 1 and more: a queue that grows faster is second-level congestion. One number for both egress
    /// ports, or `{a, b}`; the controller's default if absent.
    #[serde(rename = "vGrowthBytesPerMs", default, skip_serializing_if = "Option::is_none")]
    pub v_growth: Option<PortNumber>,
}

/// A number of a link's two egress ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected a number, or {a: number, b: number}")]
pub enum PortNumber {
    /// The same at both ends.
    Both(u64),
    /// Each end its own.
    Each(EndNumbers),
}

/// Numbers of the egress ports by end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EndNumbers {
    /// Of the port at end `a`, which sends towards `b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<u64>,
    /// Of the port at end `b`, which sends towards `a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<u64>,
}

impl PortNumber {
    /// Of the port at end `a`.
    pub fn at_a(self) -> Option<u64> {
        match self {
            Self::Both(number) => Some(number),
            Self::Each(ends) => ends.a,
        }
    }

    /// Of the port at end `b`.
    pub fn at_b(self) -> Option<u64> {
        match self {
            Self::Both(number) => Some(number),
            Self::Each(ends) => ends.b,
        }
    }
}

/// Buffers of a link's two egress ports, octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected a number of octets, or {a: octets, b: octets}")]
pub enum LinkBuffer {
    /// The same at both ends.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    Both(Octets),
    /// Each end its own.
    Each(EndBuffers),
}

/// Buffers of the egress ports by end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EndBuffers {
    /// Of the port at end `a`, which sends towards `b`.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<Octets>,
    /// Of the port at end `b`, which sends towards `a`.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<Octets>,
}

impl LinkBuffer {
    /// Of the port at end `a`.
    pub fn at_a(self) -> Option<Octets> {
        match self {
            Self::Both(octets) => Some(octets),
            Self::Each(ends) => ends.a,
        }
    }

    /// Of the port at end `b`.
    pub fn at_b(self) -> Option<Octets> {
        match self {
            Self::Both(octets) => Some(octets),
            Self::Each(ends) => ends.b,
        }
    }
}

fn default_mtu() -> u32 {
    9000
}

impl LinkDecl {
    /// A link with default settings.
    pub fn new(a: Endpoint, b: Endpoint) -> Self {
        Self {
            a,
            b,
            mtu: default_mtu(),
            rate: Rate::ZERO,
            drained: false,
            rtt: None,
            buffer: None,
            alpha: None,
            k_base: None,
            v_ecn: None,
            v_growth: None,
        }
    }

    /// `a-port--b-port`, for messages and metrics.
    pub fn label(&self) -> String {
        format!("{}--{}", self.a, self.b)
    }
}

/// A port of a device, written `device/port`, for example `n6/eth1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint {
    /// Node or host name.
    pub device: String,
    /// Interface name on that device, at most 15 bytes (IFNAMSIZ - 1).
    pub port: String,
}

// Implemented by hand: the derive would describe a struct with two fields, but an endpoint is one string in JSON.
#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Endpoint {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        String::schema()
    }
}
#[cfg(feature = "schema")]
impl utoipa::ToSchema for Endpoint {}

impl TryFrom<String> for Endpoint {
    type Error = FieldError;
    fn try_from(s: String) -> Result<Self, FieldError> {
        match s.split_once('/') {
            Some((device, port))
                if !device.is_empty() && !port.is_empty() && !port.contains('/') && port.len() <= MAX_PORT =>
            {
                Ok(Self { device: device.into(), port: port.into() })
            }
            _ => Err(FieldError::new(
                "endpoint",
                format!("{s:?} is not device/port (interface names have at most 15 bytes), for example n6/eth1"),
            )),
        }
    }
}

impl From<Endpoint> for String {
    fn from(e: Endpoint) -> String {
        e.to_string()
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.device, self.port)
    }
}

impl TopologySpec {
    /// Checks names, numbers, link ends, host prefixes and that the network is connected.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        self.check_devices(&mut errors);
        self.check_links(&mut errors);
        if errors.0.is_empty() {
            self.check_connected(&mut errors);
        }
        errors.into_result()
    }

    fn check_devices(&self, errors: &mut FieldErrors) {
        let mut names = BTreeSet::new();
        let mut ids = BTreeMap::new();
        if self.nodes.is_empty() {
            errors.push("spec.nodes", "is empty: a topology needs at least one node");
        }
        for (i, n) in self.nodes.iter().enumerate() {
            let at = format!("spec.nodes[{i}]");
            if let Err(e) = check_name(&format!("{at}.name"), &n.name) {
                errors.0.push(e);
            }
            if !names.insert(n.name.as_str()) {
                errors.push(format!("{at}.name"), format!("{:?} is declared twice", n.name));
            }
            if let Some(other) = ids.insert(n.id, n.name.as_str()) {
                errors.push(format!("{at}.id"), format!("{} already belongs to node {other:?}", n.id));
            }
            if let Some(tier) = n.tier.filter(|tier| !NODE_TIERS.contains(tier)) {
                let (least, most) = (NODE_TIERS.start(), NODE_TIERS.end());
                errors.push(format!("{at}.tier"), format!("{tier} is no tier of a node: use {least}..={most}"));
            }
            if let Some(Err(e)) = n.site.as_deref().map(|site| check_name(&format!("{at}.site"), site)) {
                errors.0.push(e);
            }
            labels::check(&format!("{at}.labels"), &n.labels, errors);
        }
        for (i, h) in self.hosts.iter().enumerate() {
            let at = format!("spec.hosts[{i}]");
            if let Err(e) = check_name(&format!("{at}.name"), &h.name) {
                errors.0.push(e);
            }
            if !names.insert(h.name.as_str()) {
                errors.push(format!("{at}.name"), format!("{:?} is declared twice", h.name));
            }
            if !h.prefix.contains(&h.address) {
                errors
                    .push(format!("{at}.address"), format!("{} is outside the host's prefix {}", h.address, h.prefix));
            }
            if h.address.is_multicast() || h.address.is_unspecified() || h.address.is_loopback() {
                errors.push(format!("{at}.address"), format!("{} is not a unicast address", h.address));
            }
        }
        self.check_overlaps(errors);
    }

    /// Of two prefixes with an address in common one contains the other, and comes before it and before all others that it contains.
    fn check_overlaps(&self, errors: &mut FieldErrors) {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_unstable_by_key(|i| (self.hosts[*i].prefix.network(), self.hosts[*i].prefix.prefix_len(), *i));
        let mut around: Vec<usize> = Vec::new();
        let mut overlaps = BTreeMap::new();
        for i in order {
            let prefix = self.hosts[i].prefix;
            while around.pop_if(|other| !self.hosts[*other].prefix.contains(&prefix)).is_some() {}
            if let Some(&other) = around.last() {
                // The later one of the two is to be corrected.
                overlaps.entry(i.max(other)).or_insert(i.min(other));
            }
            around.push(i);
        }
        for (i, other) in overlaps {
            let [h, other] = [i, other].map(|i| &self.hosts[i]);
            errors.push(
                format!("spec.hosts[{i}].prefix"),
                format!("{} overlaps {} of host {:?}", h.prefix, other.prefix, other.name),
            );
        }
    }

    fn check_links(&self, errors: &mut FieldErrors) {
        let nodes: BTreeSet<&str> = self.nodes.iter().map(|n| n.name.as_str()).collect();
        let hosts: BTreeSet<&str> = self.hosts.iter().map(|h| h.name.as_str()).collect();
        let mut used: BTreeSet<&Endpoint> = BTreeSet::new();
        let mut host_links: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (i, l) in self.links.iter().enumerate() {
            for (side, end, far) in [("a", &l.a, &l.b), ("b", &l.b, &l.a)] {
                let at = format!("spec.links[{i}].{side}");
                if !nodes.contains(end.device.as_str()) && !hosts.contains(end.device.as_str()) {
                    errors.push(
                        &at,
                        format!("unknown node or host {:?}: declare it under spec.nodes or spec.hosts", end.device),
                    );
                }
                if !used.insert(end) {
                    errors.push(&at, format!("port {end} is used by two links"));
                }
                if hosts.contains(end.device.as_str()) {
                    let nodes = host_links.entry(&end.device).or_default();
                    if hosts.contains(far.device.as_str()) {
                        errors.push(&at, "links a host to a host: a host connects to a node");
                    } else if nodes.contains(&far.device.as_str()) {
                        let (host, node) = (&end.device, &far.device);
                        errors
                            .push(&at, format!("is a second link of host {host:?} to node {node:?}: one is supported"));
                    }
                    nodes.push(&far.device);
                }
            }
            if l.a.device == l.b.device {
                errors.push(format!("spec.links[{i}].b"), format!("{:?} is linked to itself", l.a.device));
            }
            if !(MIN_LINK_MTU..=MAX_LINK_MTU).contains(&l.mtu) {
                errors.push(
                    format!("spec.links[{i}].mtu"),
                    format!("{} is not an IPv6 MTU: use {MIN_LINK_MTU}..={MAX_LINK_MTU}", l.mtu),
                );
            }
            check_thresholds(i, l, errors);
        }
        for (i, h) in self.hosts.iter().enumerate() {
            match host_links.get(h.name.as_str()).map_or(0, Vec::len) {
                0 => errors.push(format!("spec.hosts[{i}]"), format!("host {:?} has no link", h.name)),
                1..=MAX_HOST_LINKS => {}
                n => errors.push(
                    format!("spec.hosts[{i}]"),
                    format!("host {:?} has {n} links: at most {MAX_HOST_LINKS} are supported", h.name),
                ),
            }
        }
    }

    /// Nodes are connected by links between nodes: hosts forward nothing.
    fn check_connected(&self, errors: &mut FieldErrors) {
        let hosts: BTreeSet<&str> = self.hosts.iter().map(|h| h.name.as_str()).collect();
        let mut adjacent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for l in &self.links {
            adjacent.entry(&l.a.device).or_default().push(&l.b.device);
            adjacent.entry(&l.b.device).or_default().push(&l.a.device);
        }
        let mut seen = BTreeSet::new();
        let mut todo = vec![self.nodes[0].name.as_str()];
        while let Some(d) = todo.pop() {
            if seen.insert(d) && !hosts.contains(d) {
                todo.extend(adjacent.get(d).into_iter().flatten());
            }
        }
        let lost: Vec<&str> = self
            .nodes
            .iter()
            .map(|n| n.name.as_str())
            .chain(self.hosts.iter().map(|h| h.name.as_str()))
            .filter(|d| !seen.contains(d))
            .collect();
        if !lost.is_empty() {
            errors.push(
                "spec.links",
                format!("the topology does not connect: no path from {:?} to {}", self.nodes[0].name, lost.join(", ")),
            );
        }
    }
}

/// Checks the inputs of the link's queue thresholds.
fn check_thresholds(i: usize, link: &LinkDecl, errors: &mut FieldErrors) {
    let mut within = |field: &str, value: Option<u64>, min: u64, max: u64, what: &str| {
        if let Some(value) = value.filter(|v| !(min..=max).contains(v)) {
            let range = if max == u64::MAX { format!("{min} or more") } else { format!("{min}..={max}") };
            errors.push(format!("spec.links[{i}].{field}"), format!("{value} is not {what}: use {range}"));
        }
    };
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    within("rttUs", link.rtt.map(micros), 1, micros(MAX_LINK_RTT), "a round-trip time in microseconds");
    within("alpha", link.alpha.map(u64::from), 1, u16::MAX.into(), "an alpha in thousandths");
    let k_base = link.k_base.map(Octets::get);
    within("kBaseBytes", k_base, MIN_K_BASE.get(), u64::MAX, "a K_base in octets that holds one frame");
    let buffers = match link.buffer {
        None => [("bufferBytes", None); 2],
        Some(LinkBuffer::Both(octets)) => [("bufferBytes", Some(octets)), ("bufferBytes", None)],
        Some(LinkBuffer::Each(ends)) => [("bufferBytes.a", ends.a), ("bufferBytes.b", ends.b)],
    };
    for (field, octets) in buffers {
        within(field, octets.map(Octets::get), MIN_BUFFER.get(), u64::MAX, "a buffer in octets");
    }
    let ends = |number: Option<PortNumber>| match number {
        None => [("", None); 2],
        Some(PortNumber::Both(number)) => [("", Some(number)), ("", None)],
        Some(PortNumber::Each(ends)) => [(".a", ends.a), (".b", ends.b)],
    };
    let (least, most) = (u64::from(*V_ECN_PERMILLE.start()), u64::from(*V_ECN_PERMILLE.end()));
    for (end, permille) in ends(link.v_ecn) {
        within(&format!("vEcn{end}"), permille, least, most, "a V_ecn in packets per thousand");
    }
    for (end, octets) in ends(link.v_growth) {
        within(&format!("vGrowthBytesPerMs{end}"), octets, 1, u64::MAX, "a V_growth in octets per millisecond");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> TopologySpec {
        serde_json::from_value(serde_json::json!({
            "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
            "hosts": [{"name": "s1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"}],
            "links": [{"a": "n1/eth1", "b": "n2/eth1"}, {"a": "n1/eth2", "b": "s1/eth0", "mtu": 4500}],
        }))
        .unwrap()
    }

    fn problem(change: impl FnOnce(&mut TopologySpec)) -> String {
        let mut t = small();
        change(&mut t);
        t.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_good_topology_passes_and_each_fault_names_its_field() {
        small().validate().unwrap();
        assert!(
            problem(|t| t.links[0].b.device = "n9".into()).contains("spec.links[0].b: unknown node or host \"n9\"")
        );
        assert!(problem(|t| t.nodes[1].id = t.nodes[0].id).contains("spec.nodes[1].id"));
        assert!(
            problem(|t| t.hosts[0].address = "2001:db8:2::1".parse().unwrap()).contains("outside the host's prefix")
        );
        assert!(problem(|t| t.links[1].mtu = 1000).contains("spec.links[1].mtu"));
        assert!(
            problem(|t| {
                t.links.remove(0);
            })
            .contains("does not connect: no path from \"n1\" to n2")
        );
        assert!(problem(|t| t.links[1].a.port = "eth1".into()).contains("used by two links"));
    }

    /// Catches a host that connects nodes, a ninth link, and two links to one node, which no path could distinguish.
    #[test]
    fn a_host_has_links_to_different_nodes() {
        let link = |a: &str, b: &str| LinkDecl::new(a.to_owned().try_into().unwrap(), b.to_owned().try_into().unwrap());
        let mut t = small();
        t.links.push(link("n2/eth2", "s1/eth1"));
        t.validate().unwrap();
        let second = problem(|t| t.links.push(link("s1/eth1", "n1/eth3")));
        assert_eq!(second, "spec.links[2].a: is a second link of host \"s1\" to node \"n1\": one is supported");
        let through = problem(|t| t.links[0] = link("n2/eth2", "s1/eth1"));
        assert_eq!(through, "spec.links: the topology does not connect: no path from \"n1\" to n2");
        let with = |nodes: u64| {
            let mut t = small();
            for n in 3..=nodes {
                t.nodes.push(NodeDecl::new(format!("n{n}"), NodeId::new("id", n).unwrap()));
                t.links.push(link("n1/to", &format!("n{n}/eth1")));
                t.links.last_mut().unwrap().a.port = format!("to{n}");
                t.links.push(link(&format!("n{n}/eth2"), &format!("s1/eth{n}")));
            }
            t.validate()
        };
        with(9).unwrap();
        let many = with(10).unwrap_err().to_string();
        assert_eq!(many, "spec.hosts[0]: host \"s1\" has 9 links: at most 8 are supported");
    }

    /// Catches an overlap that is not seen because other prefixes lie between the two, and one that is reported and is none.
    #[test]
    fn prefixes_overlap_where_a_comparison_of_all_pairs_finds_it() {
        let mut state = 1_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let (mut refused, rounds) = (0, 400);
        for _ in 0..rounds {
            let mut t = small();
            t.hosts.clear();
            for i in 0..below(9) {
                let (length, low) = (56 + below(9) as u8, below(512) as u16);
                let address = Ipv6Addr::new(0x2001, 0xdb8, 0, low, 0, 0, 0, 1);
                let prefix = Ipv6Net::new(address, length).unwrap().trunc();
                t.hosts.push(HostDecl {
                    name: format!("h{i}"),
                    prefix,
                    address,
                    long_haul_cnp: LongHaulFormat::default(),
                    path_programs: false,
                });
            }
            let overlaps = |i: usize, j: usize| {
                let [a, b] = [i, j].map(|n| t.hosts[n].prefix);
                a.contains(&b) || b.contains(&a)
            };
            // Which host of several that overlap is named is open; that one is, is not.
            let any = (0..t.hosts.len()).any(|i| (0..i).any(|j| overlaps(i, j)));
            let mut errors = FieldErrors::default();
            t.check_overlaps(&mut errors);
            assert_eq!(!errors.0.is_empty(), any, "{:?}", t.hosts);
            for error in &errors.0 {
                let at: usize = error.field.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
                let other = (0..at).find(|j| error.to_string().contains(&format!("of host \"h{j}\""))).unwrap();
                assert!(overlaps(at, other), "{error}");
            }
            refused += u32::from(any);
        }
        assert!(refused > rounds / 4 && refused < rounds, "{refused}");
        let two = problem(|t| {
            t.hosts.push(HostDecl {
                name: "s2".into(),
                prefix: "2001:db8:1::/56".parse().unwrap(),
                ..t.hosts[0].clone()
            });
        });
        assert!(two.contains("spec.hosts[1].prefix: 2001:db8:1::/56 overlaps 2001:db8:1::/64 of host \"s1\""), "{two}");
    }

    #[test]
    fn what_thresholds_are_made_of_is_optional_and_refused_by_field_beyond_its_limits() {
        let link = |more: serde_json::Value| {
            let mut t = serde_json::to_value(small()).unwrap();
            t["links"][0].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<TopologySpec>(t)
        };
        let refused = |more| link(more).unwrap().validate().unwrap_err().to_string();
        for good in [
            serde_json::json!({"rttUs": 1, "bufferBytes": 2, "alpha": 1, "kBaseBytes": 4198}),
            serde_json::json!({"rttUs": 10_000_000, "bufferBytes": {"b": 2}, "alpha": 65535}),
            serde_json::json!({"vEcn": 1000, "vGrowthBytesPerMs": {"a": 1}}),
            serde_json::json!({"vEcn": {"a": 1, "b": 900}, "vGrowthBytesPerMs": u64::MAX}),
        ] {
            let t = link(good.clone()).unwrap();
            t.validate().unwrap();
            let again = serde_json::to_value(&t.links[0]).unwrap();
            assert!(good.as_object().unwrap().iter().all(|(key, value)| again[key] == *value), "{again}");
        }
        for (bad, field) in [
            (serde_json::json!({"rttUs": 0}), "rttUs"),
            (serde_json::json!({"rttUs": 10_000_001}), "rttUs"),
            (serde_json::json!({"alpha": 0}), "alpha"),
            (serde_json::json!({"kBaseBytes": 4197}), "kBaseBytes"),
            (serde_json::json!({"bufferBytes": 1}), "bufferBytes"),
            (serde_json::json!({"bufferBytes": {"a": 9000, "b": 1}}), "bufferBytes.b"),
            (serde_json::json!({"vEcn": 0}), "vEcn"),
            (serde_json::json!({"vEcn": {"a": 1001}}), "vEcn.a"),
            (serde_json::json!({"vGrowthBytesPerMs": {"b": 0}}), "vGrowthBytesPerMs.b"),
        ] {
            let e = refused(bad);
            assert!(e.starts_with(&format!("spec.links[0].{field}: ")) && e.contains(": use "), "{e}");
        }
        let each = link(serde_json::json!({"bufferBytes": {"a": 7}})).unwrap().links[0].buffer.unwrap();
        assert_eq!((each.at_a(), each.at_b()), (Some(Octets(7)), None), "each end has its own");
        for bad in [serde_json::json!({"bufferBytes": {"c": 7}}), serde_json::json!({"alpha": 65_536})] {
            assert!(link(bad.clone()).is_err(), "{bad}");
        }
        let quiet = serde_json::to_value(&small().links[0]).unwrap();
        assert!(quiet.get("rttUs").is_none() && quiet.get("alpha").is_none(), "{quiet}");
    }
}
