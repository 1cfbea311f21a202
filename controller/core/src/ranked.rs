// SPDX-License-Identifier: Apache-2.0
//! The neighbours of every node in the order in which paths prefer them.

use canopy_model::ids::NodeId;

use crate::hash::mix;

/// Of the neighbours of `node` that are nearer to some other node, paths from there lead over the one with the least of these. `index`: the
/// neighbour's, for two of one hash.
pub(crate) fn rank(node: NodeId, neighbour: NodeId, index: usize) -> (u64, usize) {
    (mix(u64::from(node.get()), u64::from(neighbour.get())), index)
}

/// A neighbour over one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) to: u32,
    pub(crate) link: u32,
}

/// The neighbours of each node over all links, in service or not, in the order of their [`rank`].
#[derive(Debug)]
pub(crate) struct Ranked {
    /// Row of node n in `near`: `rows[n]..rows[n + 1]`.
    rows: Vec<usize>,
    near: Vec<Near>,
}

impl Ranked {
    /// Of nodes whose neighbours are these, each with its rank and the link that leads there.
    pub(crate) fn new(nodes: impl Iterator<Item = Vec<((u64, usize), usize)>>) -> Self {
        let (mut rows, mut near) = (vec![0], Vec::new());
        for mut row in nodes {
            row.sort_unstable();
            // A topology has at most MAX_NODES nodes and MAX_LINKS links.
            near.extend(row.into_iter().map(|((_, to), link)| Near { to: to as u32, link: link as u32 }));
            rows.push(near.len());
        }
        Self { rows, near }
    }

    pub(crate) fn of_node(&self, node: usize) -> &[Near] {
        &self.near[self.rows[node]..self.rows[node + 1]]
    }
}
