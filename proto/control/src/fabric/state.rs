// SPDX-License-Identifier: Apache-2.0
//! What the last page of a change has: the digest of the fabric, and what the host may send into it.

use canopy_model::FieldError;
use canopy_model::fabric::Sender;
use canopy_model::host_programs::MOST_NODES;
use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::limits::MAX_LINKS;
use canopy_model::usid::UsidBlock;

use super::items::FabricDigest;
use crate::field::{address, octets, within};
use crate::pb;

impl TryFrom<&pb::FabricState> for (FabricDigest, Sender) {
    type Error = FieldError;
    fn try_from(wire: &pb::FabricState) -> Result<Self, FieldError> {
        if wire.unusable.len() > MAX_LINKS {
            return Err(FieldError::new("unusable", format!("has more than {MAX_LINKS} links")));
        }
        let most_nodes = u8::try_from(wire.most_nodes).ok().filter(|most| (1..=MOST_NODES).contains(most));
        let unusable = wire.unusable.iter().enumerate();
        let unusable = unusable.map(|(i, end)| within(format_args!("unusable[{i}]"), end_of(end)));
        let sender = Sender {
            block: UsidBlock::at_front(address("block", &wire.block)?),
            permitted: wire.permitted,
            reason: wire.reason.clone(),
            edge: NodeId::new("edge", wire.edge.into())?,
            edge_port: PortIndex::new("edge_port", wire.edge_port.into())?,
            most_nodes: most_nodes.ok_or_else(|| {
                FieldError::new("most_nodes", format!("{} is not a number of uNs: use 1..=24", wire.most_nodes))
            })?,
            address: address("address", &wire.address)?,
            unusable: unusable.collect::<Result<_, _>>()?,
        };
        let digest = FabricDigest::from_field("digest", &wire.digest)?;
        Ok((digest.ok_or_else(|| FieldError::new("digest", "is missing"))?, sender))
    }
}

impl From<(FabricDigest, &Sender)> for pb::FabricState {
    fn from((digest, sender): (FabricDigest, &Sender)) -> Self {
        let port = |(node, port): &(NodeId, PortIndex)| pb::FabricPort {
            node: u32::from(node.get()),
            port: u32::from(port.get()),
        };
        Self {
            digest: digest.into(),
            block: octets(sender.block.address([])),
            permitted: sender.permitted,
            reason: sender.reason.clone(),
            edge: u32::from(sender.edge.get()),
            edge_port: u32::from(sender.edge_port.get()),
            most_nodes: u32::from(sender.most_nodes),
            address: octets(sender.address),
            unusable: sender.unusable.iter().map(port).collect(),
        }
    }
}

fn end_of(wire: &pb::FabricPort) -> Result<(NodeId, PortIndex), FieldError> {
    Ok((NodeId::new("node", wire.node.into())?, PortIndex::new("port", wire.port.into())?))
}
