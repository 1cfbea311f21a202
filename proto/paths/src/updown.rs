// SPDX-License-Identifier: Apache-2.0
//! All shortest up-down paths between two edges of a tiered plane (a folded Clos): up to the lowest tier at which both have a common node,
//! and down again.
//!
//! They are counted first, and each has a number: path `n` is composed from the counts, without the paths before it. So there may be any
//! number of them; work is in the order of the links between the nodes above the two edges, up to that tier. No node is on a path twice: a
//! node below the top that is above both edges would be a lower top.

use std::collections::BTreeMap;

use crate::fabric::{Fabric, NodeIx, Port};

/// The shortest up-down paths from one edge to another.
#[derive(Clone, Debug)]
pub(crate) struct UpDown<'a> {
    fabric: &'a Fabric,
    from: NodeIx,
    top: u32,
    /// Ways to the end of the path from each node above the first edge, and below the top.
    up: BTreeMap<NodeIx, u64>,
    /// The same for each node above the last edge; the top is among them.
    down: BTreeMap<NodeIx, u64>,
}

impl<'a> UpDown<'a> {
    /// `None` if the plane is not tiered, or no node is above both.
    pub(crate) fn new(fabric: &'a Fabric, from: NodeIx, to: NodeIx) -> Option<Self> {
        let plane = fabric.plane(from);
        if plane != fabric.plane(to) || !fabric.is_tiered(plane) || fabric.tier(from) != fabric.tier(to) {
            return None;
        }
        let mut top = fabric.tier(from);
        // By tier: the nodes above the first edge, and the ways down from those above the last one.
        let mut above = vec![BTreeMap::from([(from, 0)])];
        let mut down = BTreeMap::from([(to, 1)]);
        let mut below = down.clone();
        while !above[above.len() - 1].keys().any(|node| below.contains_key(node)) {
            below = higher_tier(fabric, &below, top + 1);
            let next = higher_tier(fabric, &above[above.len() - 1], top + 1);
            above.push(next);
            if below.is_empty() || above[above.len() - 1].is_empty() {
                return None;
            }
            down.extend(&below);
            top += 1;
        }
        let mut up = BTreeMap::new();
        let mut higher = below;
        for level in above.iter().rev().skip(1) {
            let ways = level.keys().map(|&node| {
                let ways = fabric.neighbours(node).filter_map(|(_, far)| higher.get(&far)).fold(0, add);
                (node, ways)
            });
            let ways: BTreeMap<NodeIx, u64> = ways.filter(|(_, ways)| *ways > 0).collect();
            up.extend(&ways);
            higher = ways;
        }
        Some(Self { fabric, from, top, up, down })
    }

    /// How many paths there are, `u64::MAX` for more than that.
    pub(crate) fn count(&self) -> u64 {
        if self.fabric.tier(self.from) == self.top { 1 } else { self.up.get(&self.from).copied().unwrap_or(0) }
    }

    /// Path `n` in ascending order of the nodes' and ports' numbers, as the ports by which it leaves its nodes.
    pub(crate) fn path(&self, mut n: u64) -> Vec<(NodeIx, Port)> {
        let mut path = Vec::new();
        let mut at = self.from;
        let mut is_down = self.fabric.tier(at) == self.top;
        loop {
            let tier = self.fabric.tier(at);
            let choice = self.fabric.neighbours(at).find(|(_, far)| {
                let (wanted, ways) = match is_down {
                    true => (tier.checked_sub(1), self.down.get(far)),
                    false if tier + 1 == self.top => (Some(tier + 1), self.down.get(far)),
                    false => (Some(tier + 1), self.up.get(far)),
                };
                let ways = ways.filter(|_| wanted == Some(self.fabric.tier(*far))).copied().unwrap_or(0);
                let is_chosen = n < ways;
                if !is_chosen {
                    n -= ways;
                }
                is_chosen
            });
            let Some((port, far)) = choice else { return path };
            path.push((at, port));
            at = far;
            is_down |= self.fabric.tier(at) == self.top;
        }
    }
}

fn add(sum: u64, ways: &u64) -> u64 {
    sum.saturating_add(*ways)
}

/// The nodes of the tier above these, with the sum of the ways of those below each.
fn higher_tier(fabric: &Fabric, level: &BTreeMap<NodeIx, u64>, tier: u32) -> BTreeMap<NodeIx, u64> {
    let mut sums: BTreeMap<NodeIx, u64> = BTreeMap::new();
    for (&node, ways) in level {
        for (_, far) in fabric.neighbours(node).filter(|(_, far)| fabric.tier(*far) == tier) {
            let sum = sums.entry(far).or_default();
            *sum = add(*sum, ways);
        }
    }
    sums
}
