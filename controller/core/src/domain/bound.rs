// SPDX-License-Identifier: Apache-2.0
//! How far a node may be behind the epoch of its group (decisions 3.15).
//!
//! Feedback between nodes carries 14 bits of the epoch of the sender's program. A program that is made in epoch g of its group has an epoch
//! of g - 2,047 to g, and counts children since an epoch of the same ([`Epochs`](crate::epochs::Epochs)). So feedback of another epoch is
//! taken for one that counts only if the programs of parent and child were made 2^14 - 2,048 epochs apart, or more. Here is what keeps them
//! nearer: the epoch that every node of the tree has confirmed (or a later one) is known, and changes wait for the last node. What
//! cannot wait, because a receiver leaves or a link is broken, is carried out as far as nothing can be mistaken.
//!
//! Before a group is open its headend takes no data, so nothing can be acknowledged, and opening it needs every node's confirmation. A
//! session has a Designated QPN of its own: feedback of an earlier one reaches no program of it.

use super::Domain;
pub(super) use super::far::{MAX_BEHIND, MAX_FORCED, is_far, waits_for_nodes};
use super::state::State;
use crate::receivers_by_edge::REFRESHED_EVERY;
use crate::resource::{Confirmed, Group, Node};
use crate::status::is_caught_up;

/// Epochs after which it is checked what the nodes have confirmed.
const CHECKED_AFTER: u32 = 1_024;
const _: () = assert!(MAX_BEHIND < MAX_FORCED && MAX_FORCED < (1 << 14) - REFRESHED_EVERY);

/// Brings up to date what every node has confirmed, in a group that is about to change. The nodes have the programs from before.
pub(super) fn note(state: &State, group: &mut Group) {
    let Some(old) = state.groups.get(&group.metadata.name) else { return };
    if !group.is_open() {
        (group.confirmed, group.confirming) = (None, None);
        return;
    }
    // A version that did not know this left groups that are open.
    let revision = if old.is_open() { 0 } else { state.revision };
    let known = *group.confirmed.get_or_insert(Confirmed { epoch: old.epoch, revision });
    if group.epoch.saturating_sub(known.epoch) < CHECKED_AFTER {
        return;
    }
    let next = *group.confirming.get_or_insert(Confirmed { epoch: old.epoch, revision: state.revision });
    if old.nodes().all(|n| is_caught_up(state.on_ground(), n, old, next.revision)) {
        (group.confirmed, group.confirming) = (Some(next), None);
    }
}

impl Domain {
    /// The groups that may have no tree because a node has not confirmed its program for too many changes: they are planned again
    /// ([`crate::Command::RetryMove`]) when a node reports something else. What it costs: these groups.
    pub fn waiting_for_nodes(&self) -> Vec<String> {
        let groups = self.state.groups.trees().waiting().filter_map(|id| self.state.groups.by_id(id));
        groups.map(|group| group.metadata.name.clone()).collect()
    }
}

/// Why a tree of these nodes cannot come into force in `epoch`, if one of them could be more than `most` epochs behind. `group`: as it is
/// before that, with what is known now.
pub(super) fn exceeded<'a>(
    state: &State,
    group: &Group,
    epoch: u32,
    nodes: impl IntoIterator<Item = &'a str>,
    most: u32,
) -> Option<String> {
    let known = group.confirmed.filter(|_| group.is_open())?;
    // What the nodes have now.
    let present = state.groups.by_id(group.allocation.group_id)?;
    let behind = epoch.saturating_sub(known.epoch);
    let lags = |node: &&str, revision| {
        state.index(node).is_none_or(|at| !is_caught_up(state.on_ground(), at, present, revision))
    };
    let has_program = |node: &Node| node.spec.groups.contains(&present.allocation.group_id);
    let is_new = |node: &&str| !state.node(node).is_some_and(has_program);
    let mut nodes = nodes.into_iter();
    // A node that was in the tree once may still run that program; one of this session, of at most so many epochs ago.
    let is_long = epoch.saturating_sub(group.session) > MAX_FORCED;
    // What is being confirmed may be as far behind already.
    let next = group.confirming.filter(|next| epoch.saturating_sub(next.epoch) <= most);
    let node = match behind > most {
        true => nodes.find(|node| lags(node, next.map_or(state.revision, |next| next.revision))),
        false if is_long && known.revision > 0 => nodes.find(|node| is_new(node) && lags(node, known.revision)),
        false => None,
    }?;
    Some(format!(
        "node {node} has not confirmed its program since epoch {}, {behind} changes ago, and could take feedback of one for that of \
         another: start canopy-agent there, mend what it reports, or take the node out of the topology",
        known.epoch
    ))
}
