// SPDX-License-Identifier: Apache-2.0
//! Neighbours in the kernel's messages.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex};

use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourExtFlags, NeighbourMessage, NeighbourState,
};

/// Interface and address of a neighbour.
pub(crate) type Neighbour = (u32, Ipv6Addr);
/// Neighbours that the agent keeps resolved.
pub(crate) type Kept = Arc<Mutex<BTreeSet<Neighbour>>>;

/// The kernel knows the link-layer address of a neighbour in this state.
pub(crate) fn is_resolved(state: NeighbourState) -> bool {
    !matches!(state, NeighbourState::None | NeighbourState::Incomplete | NeighbourState::Failed)
}

/// The kernel keeps it resolved.
pub(crate) fn managed(n: &NeighbourMessage) -> bool {
    n.attributes.iter().any(|a| matches!(a, NeighbourAttribute::ExtFlags(f) if f.contains(NeighbourExtFlags::Managed)))
}

/// Its IPv6 address.
pub(crate) fn destination(n: &NeighbourMessage) -> Option<Ipv6Addr> {
    n.attributes.iter().find_map(|a| match a {
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(*ip),
        _ => None,
    })
}

/// The link-layer address of a resolved neighbour.
pub(crate) fn link_layer_address(n: &NeighbourMessage) -> Option<[u8; 6]> {
    let found = n.attributes.iter().find_map(|a| match a {
        NeighbourAttribute::LinkLayerAddress(octets) => octets.as_slice().try_into().ok(),
        _ => None,
    });
    found.filter(|_| is_resolved(n.header.state))
}
