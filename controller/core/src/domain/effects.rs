// SPDX-License-Identifier: Apache-2.0
//! What a prepared command would do to nodes, groups and paths.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use canopy_model::topology::Endpoint;

use super::change::{Effect as Change, GroupEffect, LinksEffect, Replan, TopologyEffect};
use super::drains::Drains;
use super::pair_effects::{MAX_WORK, of_pairs};
use super::state::State;
use crate::effect::{Effect, EffectKind, EffectObject};
use crate::resource::{Behind, Group, GroupState, Step};
use crate::topology::Network;

/// Ports towards the root of a tree.
type Uplinks = BTreeSet<Endpoint>;

/// See [`super::Domain::effects`]. As long as preparing the command took: all groups for a topology, those that it concerns for links, one for a group;
/// and what [`of_pairs`] takes where links change.
pub(super) fn effects(state: &State, change: &Change) -> Vec<Effect> {
    let mut found = match change {
        Change::Group(effect) => of_group(state, effect).into_iter().collect(),
        Change::Topology(effect) => of_topology(state, effect),
        Change::Links(effect) => of_links(state, effect),
        Change::None
        | Change::Drains { .. }
        | Change::Silence(_)
        | Change::Retirements(_)
        | Change::Thresholds(_)
        | Change::Hmac(_) => Vec::new(),
    };
    found.sort_by(|a, b| {
        b.kind.cmp(&a.kind).then_with(|| match (a.object, b.object) {
            // As they are: those with the fewest paths first.
            (EffectObject::Pairs, EffectObject::Pairs) => Ordering::Equal,
            _ => a.cmp(b),
        })
    });
    found
}

fn of_group(state: &State, effect: &GroupEffect) -> Option<Effect> {
    let old = state.groups.get(&effect.name);
    let network = state.network();
    match (&effect.group, old) {
        (new, Some(old)) if new.as_ref().is_none_or(|new| new.deleting && !old.deleting) => {
            let members = match old.members.len() {
                0 => return None,
                1 => "1 member".to_owned(),
                n => format!("{n} members"),
            };
            Some(group(EffectKind::GroupDeleted, &effect.name, members, String::new(), false))
        }
        (Some(new), old) => {
            let before = old.map(|old| settled(network, old));
            tree(&effect.name, before, settled(network, new), next_tree(new.behind.as_ref()))
        }
        (None, _) => None,
    }
}

fn of_topology(state: &State, effect: &TopologyEffect) -> Vec<Effect> {
    let mut found = nodes(state, effect);
    let new = effect.topology.as_ref().map(|t| &*t.network);
    found.extend(of_replans(state, &effect.replans, new, &Uplinks::new()));
    let both = state.network().zip(new);
    found.extend(both.map(|(old, new)| of_pairs(old, new, MAX_WORK)).unwrap_or_default());
    found
}

fn of_links(state: &State, effect: &LinksEffect) -> Vec<Effect> {
    let changed = effect.bases.iter().map(|(_, base)| node(EffectKind::NodeChanged, &base.name, true));
    let mut found: Vec<Effect> = changed.collect();
    let new = &*effect.topology.network;
    let drained = effect.drains.as_ref().map(|drains| drained(new, drains)).unwrap_or_default();
    found.extend(of_replans(state, &effect.replans, Some(new), &drained));
    found.extend(state.network().map(|old| of_pairs(old, new, MAX_WORK)).unwrap_or_default());
    found
}

fn of_replans(state: &State, replans: &[Replan], new: Option<&Network>, drained: &Uplinks) -> Vec<Effect> {
    let old = state.network();
    let of_one = |replan: &Replan| {
        let group = state.groups.get(&replan.name)?;
        Some(of_replan(replan, settled(old, group), new, drained))
    };
    replans.iter().filter_map(of_one).flatten().collect()
}

fn of_replan(replan: &Replan, before: Settled, new: Option<&Network>, drained: &Uplinks) -> Vec<Effect> {
    let after = state_of(new, &replan.state);
    let next = next_tree(replan.behind.as_ref());
    let in_the_end = next.clone().or_else(|| after.clone().ok());
    let kept: Vec<String> =
        in_the_end.iter().flatten().filter(|port| drained.contains(*port)).map(Endpoint::to_string).collect();
    let stays = || group(EffectKind::TreeStays, &replan.name, String::new(), kept.join(", "), true);
    let stays = (!kept.is_empty()).then(stays);
    tree(&replan.name, Some(before), after, next).into_iter().chain(stays).collect()
}

/// The tree of a group, or why it has none.
type Settled = Result<Uplinks, String>;

fn settled(network: Option<&Network>, group: &Group) -> Settled {
    state_of(network, &group.state)
}

fn state_of(network: Option<&Network>, state: &GroupState) -> Settled {
    match (state, network) {
        (GroupState::Live(plan), Some(network)) => Ok(plan.tree.uplinks(network).into_iter().collect()),
        (GroupState::Live(_), None) => Err("there is no topology".to_owned()),
        (GroupState::Waiting(reason), _) => Err((*reason).to_owned()),
        (GroupState::Infeasible(reason) | GroupState::Failed(reason), _) => Err(reason.clone()),
    }
}

/// The tree that is made beside the one in force.
fn next_tree(behind: Option<&Behind>) -> Option<Uplinks> {
    match &behind?.step {
        Step::Making(making) if !making.next.is_empty() => Some(making.next.iter().cloned().collect()),
        Step::Making(_) | Step::GivenUp(_) | Step::NoWay(_) => None,
    }
}

fn tree(name: &str, before: Option<Settled>, after: Settled, next: Option<Uplinks>) -> Option<Effect> {
    match (before, after) {
        (Some(Ok(old)), Ok(new)) => {
            let is_made_first = next.is_some();
            let new = next.unwrap_or(new);
            // A tree that only grows or shrinks at its ends moves no receiver.
            let (from, to) = (only(&old, &new), only(&new, &old));
            let lossless = is_made_first || from.is_empty() || to.is_empty();
            (old != new).then(|| group(EffectKind::TreeMoves, name, from, to, lossless))
        }
        (Some(Ok(old)), Err(reason)) => {
            Some(group(EffectKind::TreeStops, name, only(&old, &Uplinks::new()), reason, false))
        }
        (None | Some(Err(_)), Ok(new)) => {
            Some(group(EffectKind::TreeStarts, name, String::new(), only(&new, &Uplinks::new()), true))
        }
        (_, Err(_)) => None,
    }
}

fn only(these: &Uplinks, not_these: &Uplinks) -> String {
    these.difference(not_these).map(Endpoint::to_string).collect::<Vec<_>>().join(", ")
}

fn nodes(state: &State, effect: &TopologyEffect) -> Vec<Effect> {
    let old: BTreeMap<&str, _> = state.nodes.iter().map(|n| (n.spec.base.name.as_str(), &n.spec.base)).collect();
    let new: BTreeSet<&str> = effect.bases.iter().map(|base| base.name.as_str()).collect();
    let removed = old.keys().filter(|name| !new.contains(*name));
    let removed = removed.map(|name| node(EffectKind::NodeRemoved, name, false));
    let changed = effect.bases.iter().filter_map(|base| match old.get(base.name.as_str()) {
        None => Some(node(EffectKind::NodeAdded, &base.name, true)),
        Some(before) if ***before != *base => Some(node(EffectKind::NodeChanged, &base.name, true)),
        Some(_) => None,
    });
    removed.chain(changed).collect()
}

fn node(kind: EffectKind, name: &str, lossless: bool) -> Effect {
    let name = name.to_owned();
    Effect { kind, object: EffectObject::Node, name, from: String::new(), to: String::new(), pairs: None, lossless }
}

/// Both ends of all links that are drained.
fn drained(network: &Network, drains: &Drains) -> Uplinks {
    let links = drains.targets().into_iter().flat_map(|target| network.links_of(target));
    links.flat_map(|link| [&network.spec.links[link].a, &network.spec.links[link].b]).cloned().collect()
}

fn group(kind: EffectKind, name: &str, from: String, to: String, lossless: bool) -> Effect {
    Effect { kind, object: EffectObject::Group, name: name.to_owned(), from, to, pairs: None, lossless }
}
