// SPDX-License-Identifier: Apache-2.0
//! What a write does to the fabric and its groups, known before it is carried out.

use serde::{Deserialize, Serialize};

/// What happens to a node or a group, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// A node is in the topology from now on.
    NodeAdded,
    /// A node's ports, addresses or routes change.
    NodeChanged,
    /// A group has a tree from now on.
    TreeStarts,
    /// A group's tree is another one.
    TreeMoves,
    /// A group's tree keeps links that the drain takes out of service: there is no other way.
    TreeStays,
    /// A node leaves the topology.
    NodeRemoved,
    /// A group is deleted with its members.
    GroupDeleted,
    /// A group no longer has a tree: its receivers get no data.
    TreeStops,
}

/// What an effect is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EffectObject {
    /// A node.
    Node,
    /// A group.
    Group,
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    /// What happens.
    pub kind: EffectKind,
    /// To which kind of object.
    pub object: EffectObject,
    /// Its name.
    pub name: String,
    /// What is no longer: of a tree the ports towards the root that only the old one has; empty where there is nothing.
    pub from: String,
    /// What is instead; of a tree that stops, why.
    pub to: String,
    /// Whether no packet is lost by it: what moves is made before it is broken (decisions 3.14).
    pub lossless: bool,
}
