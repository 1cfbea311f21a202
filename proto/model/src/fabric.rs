// SPDX-License-Identifier: Apache-2.0
//! What a host composes path programs from, by numbers: nodes, links and hosts of the fabric, and what the host may send (decisions 5.2).

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

use crate::ids::{NodeId, PortIndex};
use crate::usid::UsidBlock;

/// The fabric as declared. It follows from the topology alone: links out of service are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFabric {
    /// By number.
    pub nodes: BTreeMap<NodeId, FabricNode>,
}

/// A node with what is at its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricNode {
    /// Its name in the topology.
    pub name: String,
    /// Links to other nodes, in ascending order of ports. Each link is at the end with the smaller (node, port), and at that one only.
    pub links: Vec<FabricLink>,
    /// In ascending order of ports.
    pub hosts: Vec<FabricHost>,
}

/// A link between two nodes, seen from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricLink {
    /// Port on this side.
    pub port: PortIndex,
    /// The node at the other end.
    pub far: NodeId,
    /// Its port.
    pub far_port: PortIndex,
    /// Octets of an IPv6 packet.
    pub mtu: u32,
}

/// A host behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricHost {
    /// Port of the node.
    pub port: PortIndex,
    /// Its prefix.
    pub prefix: Ipv6Net,
    /// Octets of an IPv6 packet on its link.
    pub mtu: u32,
}

/// What one host may send into the fabric, and which links no new packet should take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// In front of the uSIDs.
    pub block: UsidBlock,
    /// The host may send path programs.
    pub permitted: bool,
    /// Why programs would be dropped, for people; empty: they would not.
    pub reason: String,
    /// The node that the host is attached to.
    pub edge: NodeId,
    /// The port there.
    pub edge_port: PortIndex,
    /// uNs of a program, at most, 1 to 24.
    pub most_nodes: u8,
    /// Outer source of programs.
    pub address: Ipv6Addr,
    /// Links that are drained or dead: those between nodes, each by one end, and those of hosts with several links, each by the node's end.
    pub unusable: Vec<(NodeId, PortIndex)>,
}
