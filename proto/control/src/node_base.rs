// SPDX-License-Identifier: Apache-2.0
//! A node's identity, ports and unicast routes.

use std::time::Duration;

use canopy_model::FieldError;
use canopy_model::addressing::AddressPlan;
use canopy_model::host_programs::{HostPrograms, MOST_NODES, Uns};
use canopy_model::ids::{NodeId, PortIndex, check_name};
use canopy_model::node_spec::{NodeBase, PathLink, Peer, Port, PortThresholds};
use canopy_model::routes::{Route, Routes};
use canopy_model::topology::{DEFAULT_V_ECN_PERMILLE, MAX_LINK_RTT, MIN_LINK_MTU, V_ECN_PERMILLE};
use canopy_units::{Octets, Rate, nanos};
use ipnet::Ipv6Net;

use crate::field::{address, each, octets, prefix, required, within};
use crate::pb;

impl TryFrom<pb::NodeBase> for NodeBase {
    type Error = FieldError;
    fn try_from(wire: pb::NodeBase) -> Result<Self, FieldError> {
        check_name("name", &wire.name)?;
        Ok(Self {
            node_id: NodeId::new("node_id", wire.node_id.into())?,
            node_address: address("node_address", &wire.node_address)?,
            un: prefix("un", wire.un)?,
            end_mt: address("end_mt", &wire.end_mt)?,
            ports: each("ports", wire.ports)?,
            routes: each::<_, Route>("routes", wire.routes)?.into_iter().collect::<Routes>(),
            addressing: wire
                .addressing
                .map_or_else(|| Ok(AddressPlan::default()), |a| within("addressing", a.try_into()))?,
            hmac: wire.hmac.map(|hmac| within("hmac", hmac.try_into())).transpose()?,
            path_links: each("path_links", wire.path_links)?,
            host_programs: wire
                .host_programs
                .map(|programs| within("host_programs", programs.try_into()))
                .transpose()?,
            name: wire.name,
        })
    }
}

impl From<&NodeBase> for pb::NodeBase {
    fn from(base: &NodeBase) -> Self {
        Self {
            name: base.name.clone(),
            node_id: u32::from(base.node_id.get()),
            node_address: octets(base.node_address),
            un: Some(base.un.into()),
            end_mt: octets(base.end_mt),
            ports: base.ports.iter().map(Into::into).collect(),
            routes: base.routes.iter().map(Into::into).collect(),
            addressing: Some((&base.addressing).into()),
            hmac: base.hmac.as_ref().map(Into::into),
            path_links: base.path_links.iter().map(Into::into).collect(),
            host_programs: base.host_programs.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<pb::Addressing> for AddressPlan {
    type Error = FieldError;
    fn try_from(wire: pb::Addressing) -> Result<Self, FieldError> {
        Ok(Self {
            block: prefix("block", wire.block)?,
            node_prefix: prefix("node_prefix", wire.node_prefix)?,
            proxy_prefix: prefix("proxy_prefix", wire.proxy_prefix)?,
            multicast_prefix: prefix("multicast_prefix", wire.multicast_prefix)?,
        })
    }
}

impl From<&AddressPlan> for pb::Addressing {
    fn from(plan: &AddressPlan) -> Self {
        Self {
            block: Some(plan.block.into()),
            node_prefix: Some(plan.node_prefix.into()),
            proxy_prefix: Some(plan.proxy_prefix.into()),
            multicast_prefix: Some(plan.multicast_prefix.into()),
        }
    }
}

impl TryFrom<pb::Port> for Port {
    type Error = FieldError;
    fn try_from(wire: pb::Port) -> Result<Self, FieldError> {
        if wire.name.is_empty() || wire.name.len() > 15 || wire.name.contains(['/', '\0']) {
            return Err(FieldError::new(
                "name",
                format!("{:?} is not an interface name: use 1..=15 bytes without '/'", wire.name),
            ));
        }
        if !(MIN_LINK_MTU..=65535).contains(&wire.mtu) {
            return Err(FieldError::new("mtu", format!("{} is not an IPv6 MTU: use {MIN_LINK_MTU}..=65535", wire.mtu)));
        }
        Ok(Self {
            index: PortIndex::new("index", wire.index.into())?,
            name: wire.name,
            mtu: wire.mtu,
            link_local: address("link_local", &wire.link_local)?,
            peer: required("peer", wire.peer)?.try_into()?,
            thresholds: wire.thresholds.map(PortThresholds::try_from).transpose()?,
        })
    }
}

impl From<&Port> for pb::Port {
    fn from(port: &Port) -> Self {
        Self {
            index: u32::from(port.index.get()),
            name: port.name.clone(),
            mtu: port.mtu,
            link_local: octets(port.link_local),
            peer: Some((&port.peer).into()),
            thresholds: port.thresholds.map(Into::into),
        }
    }
}

impl TryFrom<pb::PortThresholds> for PortThresholds {
    type Error = FieldError;
    fn try_from(wire: pb::PortThresholds) -> Result<Self, FieldError> {
        let pb::PortThresholds { k_min_bytes, k_max_bytes, rtt_ns, port_rate_bps, v_ecn_permille, .. } = wire;
        if k_min_bytes >= k_max_bytes {
            let why = format!("{k_min_bytes} is not below k_max_bytes, {k_max_bytes}");
            return Err(FieldError::new("thresholds.k_min_bytes", why));
        }
        let longest = nanos(MAX_LINK_RTT);
        if !(1..=longest).contains(&rtt_ns) {
            let why = format!("{rtt_ns} is not a round-trip time: use 1..={longest} ns");
            return Err(FieldError::new("thresholds.rtt_ns", why));
        }
        if port_rate_bps == 0 {
            return Err(FieldError::new(
                "thresholds.port_rate_bps",
                "is 0: leave thresholds out where it is not known",
            ));
        }
        let v_ecn = match v_ecn_permille {
            0 => Some(DEFAULT_V_ECN_PERMILLE),
            permille => u16::try_from(permille).ok().filter(|permille| V_ECN_PERMILLE.contains(permille)),
        };
        let Some(v_ecn_permille) = v_ecn else {
            let why = format!("{v_ecn_permille} is not a V_ecn: use 1..=1000, or 0 for the default");
            return Err(FieldError::new("thresholds.v_ecn_permille", why));
        };
        let (k_min, k_max, rtt) = (Octets(k_min_bytes), Octets(k_max_bytes), Duration::from_nanos(rtt_ns));
        let v_growth_per_ms = match wire.v_growth_bytes_per_ms {
            0 => Self::default_v_growth(k_min, k_max, rtt),
            octets => Octets(octets),
        };
        Ok(Self { k_min, k_max, rtt, port_rate: Rate::from_bps(port_rate_bps), v_ecn_permille, v_growth_per_ms })
    }
}

impl From<PortThresholds> for pb::PortThresholds {
    fn from(thresholds: PortThresholds) -> Self {
        let PortThresholds { k_min, k_max, rtt, port_rate, v_ecn_permille, v_growth_per_ms } = thresholds;
        Self {
            k_min_bytes: k_min.get(),
            k_max_bytes: k_max.get(),
            rtt_ns: nanos(rtt),
            port_rate_bps: port_rate.bps(),
            v_ecn_permille: v_ecn_permille.into(),
            v_growth_bytes_per_ms: v_growth_per_ms.get(),
        }
    }
}

impl TryFrom<pb::port::Peer> for Peer {
    type Error = FieldError;
    fn try_from(wire: pb::port::Peer) -> Result<Self, FieldError> {
        match wire {
            pb::port::Peer::Node(node) => {
                check_name("node.name", &node.name)?;
                Ok(Self::Node { name: node.name, link_local: address("node.link_local", &node.link_local)? })
            }
            pb::port::Peer::Host(host) => {
                check_name("host.name", &host.name)?;
                Ok(Self::Host {
                    name: host.name,
                    prefix: prefix("host.prefix", host.prefix)?,
                    address: address("host.address", &host.address)?,
                    gateway: address("host.gateway", &host.gateway)?,
                })
            }
        }
    }
}

impl From<&Peer> for pb::port::Peer {
    fn from(peer: &Peer) -> Self {
        match peer {
            Peer::Node { name, link_local } => {
                Self::Node(pb::PeerNode { name: name.clone(), link_local: octets(*link_local) })
            }
            Peer::Host { name, prefix, address, gateway } => Self::Host(pb::PeerHost {
                name: name.clone(),
                prefix: Some((*prefix).into()),
                address: octets(*address),
                gateway: octets(*gateway),
            }),
        }
    }
}

impl TryFrom<pb::Route> for Route {
    type Error = FieldError;
    fn try_from(wire: pb::Route) -> Result<Self, FieldError> {
        Ok(Self {
            prefix: prefix("prefix", wire.prefix)?,
            port: PortIndex::new("port", wire.port.into())?,
            next_hop: address("next_hop", &wire.next_hop)?,
        })
    }
}

impl From<Route> for pb::Route {
    fn from(route: Route) -> Self {
        Self { prefix: Some(route.prefix.into()), port: u32::from(route.port.get()), next_hop: octets(route.next_hop) }
    }
}

impl TryFrom<pb::PathLink> for PathLink {
    type Error = FieldError;
    fn try_from(wire: pb::PathLink) -> Result<Self, FieldError> {
        let un = (wire.un != 0).then(|| NodeId::new("un", wire.un.into())).transpose()?;
        Ok(Self { port: PortIndex::new("port", wire.port.into())?, un })
    }
}

impl From<&PathLink> for pb::PathLink {
    fn from(link: &PathLink) -> Self {
        Self { port: link.port.get().into(), un: link.un.map_or(0, |un| un.get().into()) }
    }
}

/// An end, as [`each`] converts it: a tuple cannot implement the conversion here.
struct PathEnd((Ipv6Net, NodeId));

impl TryFrom<pb::PathEnd> for PathEnd {
    type Error = FieldError;
    fn try_from(wire: pb::PathEnd) -> Result<Self, FieldError> {
        Ok(Self((prefix("prefix", wire.prefix)?, NodeId::new("un", wire.un.into())?)))
    }
}

impl TryFrom<pb::HostPrograms> for HostPrograms {
    type Error = FieldError;
    fn try_from(wire: pb::HostPrograms) -> Result<Self, FieldError> {
        let ports = wire.ports.into_iter().map(|port| PortIndex::new("ports", port.into()));
        let ends = each::<_, PathEnd>("ends", wire.ends)?;
        let most_nodes = u8::try_from(wire.most_nodes).ok().filter(|most| (1..=MOST_NODES).contains(most));
        Ok(Self {
            ports: ports.collect::<Result<_, _>>()?,
            ends: ends.into_iter().map(|PathEnd(end)| end).collect(),
            nodes: Uns::of_bits("nodes", wire.nodes)?,
            most_nodes: most_nodes.ok_or_else(|| {
                FieldError::new("most_nodes", format!("{} is no number of uNs: use 1..={MOST_NODES}", wire.most_nodes))
            })?,
        })
    }
}

impl From<&HostPrograms> for pb::HostPrograms {
    fn from(programs: &HostPrograms) -> Self {
        let end =
            |(prefix, un): &(Ipv6Net, NodeId)| pb::PathEnd { prefix: Some((*prefix).into()), un: un.get().into() };
        Self {
            ports: programs.ports.iter().map(|port| port.get().into()).collect(),
            ends: programs.ends.iter().map(end).collect(),
            nodes: programs.nodes.bits().to_vec(),
            most_nodes: programs.most_nodes.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// Catches a uA that a uN of the wire becomes, and a port beyond those that have a uA.
    #[test]
    fn a_path_link_has_a_port_with_a_ua_and_the_un_of_a_node() {
        let link = |port, un| PathLink::try_from(pb::PathLink { port, un });
        let both = link(3, 0xDFFF).unwrap();
        assert_eq!((both.port.get(), both.un.map(NodeId::get)), (3, Some(0xDFFF)));
        assert_eq!(link(0xFFF, 0).unwrap().un, None);
        let field = |port, un| link(port, un).unwrap_err().field;
        assert_eq!([field(0, 1), field(0x1000, 1), field(1, 0xE001)], ["port", "port", "un"]);
    }

    #[test]
    fn this_version_of_the_contract_knows_path_links_and_programs_of_hosts() {
        const { assert!(crate::MINOR_VERSION >= canopy_model::usid::MINOR_VERSION) };
        const { assert!(crate::MINOR_VERSION >= canopy_model::host_programs::MINOR_VERSION) };
    }

    /// Catches an end at a uA, and a port that cannot have one.
    #[test]
    fn programs_of_hosts_end_at_nodes() {
        let read = |port, un, most_nodes| {
            let prefix = pb::Prefix { address: vec![0x20; 16], length: 128 };
            let ends = vec![pb::PathEnd { prefix: Some(prefix), un }];
            HostPrograms::try_from(pb::HostPrograms { ports: vec![port], ends, nodes: vec![2], most_nodes })
        };
        let good = read(3, 0xDFFF, 24).unwrap();
        assert_eq!((good.ports.len(), good.ends[0].1.get()), (1, 0xDFFF));
        let field = |port, un, most| read(port, un, most).unwrap_err().field;
        assert_eq!([field(0, 1, 1), field(1, 0, 1), field(1, 0xE001, 1)], ["ports", "ends[0].un", "ends[0].un"]);
        assert_eq!([0, 25, 257].map(|most| field(1, 1, most)), ["most_nodes"; 3]);
    }

    /// The part of the schema before path links that the test needs.
    #[derive(Clone, PartialEq, prost::Message)]
    struct BaseBefore {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(uint32, tag = "2")]
        node_id: u32,
    }

    #[test]
    fn an_agent_of_1_7_reads_a_base_with_path_links_and_the_base_of_a_controller_of_1_7_has_none() {
        let links = vec![pb::PathLink { port: 1, un: 2 }];
        let base = pb::NodeBase { name: "n1".into(), node_id: 1, path_links: links, ..pb::NodeBase::default() };
        let before = BaseBefore { name: "n1".into(), node_id: 1 };
        assert_eq!(BaseBefore::decode(base.encode_to_vec().as_slice()).unwrap(), before);
        assert_eq!(pb::NodeBase::decode(before.encode_to_vec().as_slice()).unwrap().path_links, []);
    }

    #[test]
    fn thresholds_beyond_their_limits_are_refused_by_field() {
        let good = pb::PortThresholds {
            k_min_bytes: 1,
            k_max_bytes: 2,
            rtt_ns: 10_000_000_000,
            port_rate_bps: 1,
            v_ecn_permille: 1_000,
            v_growth_bytes_per_ms: 7,
        };
        assert_eq!(pb::PortThresholds::from(PortThresholds::try_from(good).unwrap()), good);
        let field = |wire: pb::PortThresholds| PortThresholds::try_from(wire).unwrap_err().field;
        assert_eq!(field(pb::PortThresholds { k_min_bytes: 2, ..good }), "thresholds.k_min_bytes");
        assert_eq!(field(pb::PortThresholds { rtt_ns: 0, ..good }), "thresholds.rtt_ns");
        assert_eq!(field(pb::PortThresholds { rtt_ns: 10_000_000_001, ..good }), "thresholds.rtt_ns");
        assert_eq!(field(pb::PortThresholds { port_rate_bps: 0, ..good }), "thresholds.port_rate_bps");
        assert_eq!(field(pb::PortThresholds { v_ecn_permille: 1_001, ..good }), "thresholds.v_ecn_permille");
        assert_eq!(field(pb::PortThresholds { v_ecn_permille: 65_537, ..good }), "thresholds.v_ecn_permille");
    }

    /// The schema before V_ecn and V_growth.
    #[derive(Clone, PartialEq, prost::Message)]
    struct EarlierThresholds {
        #[prost(uint64, tag = "1")]
        k_min_bytes: u64,
        #[prost(uint64, tag = "2")]
        k_max_bytes: u64,
        #[prost(uint64, tag = "3")]
        rtt_ns: u64,
        #[prost(uint64, tag = "4")]
        port_rate_bps: u64,
    }

    #[test]
    fn thresholds_of_an_earlier_controller_have_the_defaults_and_an_earlier_agent_reads_those_of_today() {
        let earlier = EarlierThresholds {
            k_min_bytes: 62_500_000,
            k_max_bytes: 125_000_000,
            rtt_ns: 10_000_000,
            port_rate_bps: 9,
        };
        let wire = pb::PortThresholds::decode(earlier.encode_to_vec().as_slice()).unwrap();
        let thresholds = PortThresholds::try_from(wire).unwrap();
        assert_eq!((thresholds.v_ecn_permille, thresholds.v_growth_per_ms), (500, Octets(6_250_000)));
        let today = PortThresholds { v_ecn_permille: 1, v_growth_per_ms: Octets(2), ..thresholds };
        let octets = pb::PortThresholds::from(today).encode_to_vec();
        assert_eq!(EarlierThresholds::decode(octets.as_slice()).unwrap(), earlier);
        let wire = pb::PortThresholds::decode(octets.as_slice()).unwrap();
        assert_eq!(PortThresholds::try_from(wire).unwrap(), today);
    }
}
