// SPDX-License-Identifier: Apache-2.0
//! What a write does to the fabric, its groups, and the paths between its edges, known before it is carried out.

use serde::{Deserialize, Serialize};

/// What happens to a node, a group or pairs of edges, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// A node is in the topology from now on.
    NodeAdded,
    /// A node's ports, addresses or routes change.
    NodeChanged,
    /// A group has a tree from now on.
    TreeStarts,
    /// Pairs of edges have more paths in service.
    PathsMore,
    /// The paths of pairs of edges have not been counted: that would take too long, as where there are many outside a Clos.
    PathsNotCounted,
    /// Pairs of edges have fewer paths in service, and at least one.
    PathsFewer,
    /// A group's tree is another one.
    TreeMoves,
    /// Pairs of edges have no path without drained or dead links: sources keep using those that are drained.
    PathsStay,
    /// A group's tree keeps links that the drain takes out of service: there is no other way.
    TreeStays,
    /// A node leaves the topology.
    NodeRemoved,
    /// A group is deleted with its members.
    GroupDeleted,
    /// Pairs of edges have no path any more.
    PathsStop,
    /// A group no longer has a tree: its receivers get no data.
    TreeStops,
    /// One of a later version, in an answer that is read.
    #[serde(other)]
    Unknown,
}

/// What an effect is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EffectObject {
    /// A node.
    Node,
    /// A group.
    Group,
    /// Pairs of nodes with hosts of which one may send path programs.
    Pairs,
    /// One of a later version, in an answer that is read.
    #[serde(other)]
    Unknown,
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    /// What happens.
    pub kind: EffectKind,
    /// To which kind of object.
    pub object: EffectObject,
    /// Its name. Of pairs the edge that all of them have, or one of them: `leaf1 - leaf2`; empty for those that were not counted.
    pub name: String,
    /// What is no longer: of a tree the ports towards the root that only the old one has; of pairs how many paths each had in service; empty where
    /// there is nothing.
    pub from: String,
    /// What is instead; of a tree that stops, why; of pairs how many paths each then has in service.
    pub to: String,
    /// How many pairs of edges; `None` for other objects.
    pub pairs: Option<u64>,
    /// Whether no packet is lost by it: what moves is made before it is broken (decisions 3.14).
    pub lossless: bool,
}
