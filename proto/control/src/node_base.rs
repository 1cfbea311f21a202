// SPDX-License-Identifier: Apache-2.0
//! A node's identity, ports and unicast routes.

use canopy_model::FieldError;
use canopy_model::ids::{NodeId, PortIndex, check_name};
use canopy_model::node_spec::{NodeBase, Peer, Port, Route};
use canopy_model::topology::MIN_LINK_MTU;

use crate::field::{address, each, octets, prefix, required};
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
            routes: each("routes", wire.routes)?,
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

impl From<&Route> for pb::Route {
    fn from(route: &Route) -> Self {
        Self { prefix: Some(route.prefix.into()), port: u32::from(route.port.get()), next_hop: octets(route.next_hop) }
    }
}
