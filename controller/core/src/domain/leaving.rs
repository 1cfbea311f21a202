// SPDX-License-Identifier: Apache-2.0
//! What each step of a node that leaves for good waits for, and what is refused meanwhile.

use canopy_model::drain::DrainTarget;
use canopy_model::member::Role;
use canopy_model::node_spec::Peer;
use canopy_model::retirement::MINOR_VERSION;

use super::drains::Drains;
use super::state::State;
use crate::error::DomainError;
use crate::resource::Node;
use crate::retirement::{RetireStep as Step, Retirement};
use crate::view::RetirementView;

/// Names that a text lists, at most.
const MAX_NAMED: usize = 5;

/// A membership of a host behind the node.
pub(super) struct Membership {
    pub(super) group: String,
    pub(super) host: String,
    pub(super) role: Role,
}

/// Whether a drain without an end takes this node out of service.
pub(super) fn covers(drains: &Drains, node: &str) -> bool {
    drains.all().any(|drain| drain.spec.until.is_none() && drain.spec.target() == Some(DrainTarget::Node(node)))
}

/// Refuses drains that put a node back into service that is being retired, or was.
pub(super) fn check_drains(state: &State, drains: &Drains) -> Result<(), DomainError> {
    let lost = |retirement: &&Retirement| {
        let node = &retirement.node;
        !retirement.enrolled && covers(&state.drains, node) && !covers(drains, node)
    };
    let Some(Retirement { node, .. }) = state.retirements.values().find(lost) else { return Ok(()) };
    let detail = format!("it is being retired, or was: `canopyctl node retire {node} --cancel` ends that");
    Err(DomainError::InUse { kind: "node", name: node.clone(), detail })
}

/// Refuses a topology without a node that cleans up, or whose certificates are being revoked: neither would end.
pub(super) fn check_nodes(state: &State, stays: impl Fn(&str) -> bool) -> Result<(), DomainError> {
    let lost = |of: &&Retirement| of.is_beyond_return() && !of.has_ended() && !stays(&of.node);
    let Some(Retirement { node, reached, .. }) = state.retirements.values().find(lost) else { return Ok(()) };
    let step = reached.step;
    let detail = format!("it is being retired, in step {step}: keep it in the topology until it has left");
    Err(DomainError::InUse { kind: "node", name: node.clone(), detail })
}

/// Refuses a member behind a node that cleans up, or has.
pub(super) fn check_member(state: &State, host: &str) -> Result<(), DomainError> {
    let Some(network) = state.network() else { return Ok(()) };
    let Some(node) = network.host(host).map(|at| network.name(at.node)) else { return Ok(()) };
    match state.retirements.get(node).filter(|of| of.is_beyond_return() && !of.enrolled) {
        None => Ok(()),
        Some(_) => {
            let detail = format!("it is retired, and host {host} has no other node: enroll the node again first");
            Err(DomainError::InUse { kind: "node", name: node.to_owned(), detail })
        }
    }
}

/// Refuses an agent's report about another retirement than the one that is under way, or before that has ordered anything: taken, it would
/// let the agent stop for good while this one waits for it. What is reported of a node that has left, or that does not leave, changes nothing.
pub(super) fn check_report(state: &State, node: &str, reported: u64) -> Result<(), DomainError> {
    let Some(present) = state.retirements.get(node).filter(|of| !of.has_ended()) else { return Ok(()) };
    if present.id == reported && present.is_beyond_return() {
        return Ok(());
    }
    let (id, step) = (present.id, present.reached.step);
    let detail = format!(
        "its agent reports that it has cleaned up for retirement {reported}, and the one under way is {id}, in step {step}"
    );
    Err(DomainError::InUse { kind: "node", name: node.to_owned(), detail })
}

/// The next step, if it is due. A few instructions, and as many per node only where nothing else is waited for.
pub(super) fn due(state: &State, retirement: &Retirement) -> Option<Step> {
    if retirement.reached.step == Step::Draining {
        let at = state.node(&retirement.node)?;
        let is_waited_for = |node: &Node| is_late(node, at, retirement);
        if !is_ready(state, at, retirement) || state.nodes.get(retirement.waits_for).is_some_and(is_waited_for) {
            return None;
        }
    }
    next(state, retirement).ok()
}

/// After a report: waits for another node if the one that was waited for has confirmed the routes around a node that is drained. So each
/// node is checked about once, however many reports there are; again with each report where the step is due and a pending commit, or a
/// store that takes no changes, holds it up.
pub(super) fn wait_for_another(state: &mut State) {
    let found = |retirement: &Retirement| {
        let at = state.node(&retirement.node).filter(|at| is_ready(state, at, retirement))?;
        let n = state.nodes.len();
        let mut order = (0..n).map(|i| (retirement.waits_for + i) % n);
        order.find(|node| is_late(&state.nodes[*node], at, retirement))
    };
    let draining = state.retirements.values().filter(|of| of.reached.step == Step::Draining);
    let moved = draining.filter_map(|of| Some((of.node.clone(), found(of).filter(|late| *late != of.waits_for)?)));
    for (node, late) in moved.collect::<Vec<_>>() {
        if let Some(retirement) = state.retirements.get_mut(&node) {
            retirement.waits_for = late;
        }
    }
}

/// Whether a node that is drained waits at most for others to confirm the routes around it.
fn is_ready(state: &State, at: &Node, retirement: &Retirement) -> bool {
    let is_able = || retirement.spec.without_agent || is_able(at, retirement).is_ok();
    at.spec.groups.is_empty() && is_able() && memberships(state, &retirement.node).next().is_none()
}

/// Whether routes of a node may lead over `at`, which is drained: from its last change on nothing leads there, and a node that has an older
/// spec has not changed since.
fn is_late(node: &Node, at: &Node, retirement: &Retirement) -> bool {
    #[cfg(test)]
    CHECKED.with(|count| count.set(count.get() + 1));
    let since = at.spec.generation.max(retirement.id);
    let is_other = node.spec.base.name != retirement.node && !node.retired;
    let is_waited_for = node.connected || !retirement.spec.accept_loss;
    is_other && is_waited_for && node.observed().is_none_or(|observed| observed < node.spec.generation.min(since))
}

#[cfg(test)]
thread_local! {
    /// How often a node was checked.
    pub(super) static CHECKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The next step, or what it waits for, for operators.
pub(super) fn next(state: &State, retirement: &Retirement) -> Result<Step, String> {
    let node = &retirement.node;
    match retirement.reached.step {
        Step::Draining => {
            let Some(at) = state.node(node) else { return Err("the node is not in the topology".to_owned()) };
            is_left(state, at, retirement)?;
            if retirement.spec.without_agent {
                return Ok(Step::Revoking);
            }
            is_able(at, retirement)?;
            Ok(Step::CleaningUp)
        }
        Step::CleaningUp if retirement.spec.without_agent => Ok(Step::Revoking),
        Step::CleaningUp => {
            let able = state.node(node).map_or(Ok(()), |at| is_able(at, retirement));
            Err(match (&retirement.failed, able) {
                (Some(why), _) => format!("its agent could not remove everything, and tries again: {why}"),
                (None, Ok(())) => "its agent to clean up".to_owned(),
                (None, Err(why)) => why,
            })
        }
        Step::Revoking => Err("its certificates to be revoked".to_owned()),
        // Nothing, or its agent, which the node's condition shows.
        Step::Retired => Err(String::new()),
    }
}

/// Whether nothing leads over the node any more. A few instructions per node of the topology: for one that asks, and before a step.
fn is_left(state: &State, at: &Node, retirement: &Retirement) -> Result<(), String> {
    let name = &retirement.node;
    if let Some(hosts) = hosts(state, name) {
        return Err(format!("{hosts}: let them leave, or retire it with --accept-loss"));
    }
    let groups: Vec<&str> = at.spec.groups.ids().filter_map(|id| state.groups.name(id)).collect();
    if !groups.is_empty() {
        let named = named(&groups);
        return Err(format!("{named} to leave it: a move is not finished, or there is no other way"));
    }
    let late = state.nodes.iter().filter(|node| is_late(node, at, retirement));
    let late: Vec<&str> = late.map(|node| node.spec.base.name.as_str()).collect();
    if !late.is_empty() {
        return Err(format!("{} to confirm the routes around it", named(&late)));
    }
    Ok(())
}

/// Whether the agent can take the order to clean up.
fn is_able(at: &Node, retirement: &Retirement) -> Result<(), String> {
    const BY_HAND: &str = "or stop it, run `canopy-agent cleanup` on its machine, and continue with --without-agent";
    if !at.connected {
        return Err(format!("its agent, which is not connected: start it, {BY_HAND}"));
    }
    match at.status.as_ref().map(|status| status.minor_version) {
        None if retirement.agent_leaves => Ok(()),
        None => Err("its agent to report".to_owned()),
        Some(minor) if minor < MINOR_VERSION => Err(format!(
            "its agent, which has contract 1.{minor} and cleans up from 1.{MINOR_VERSION} on: upgrade it, {BY_HAND}"
        )),
        Some(_) => Ok(()),
    }
}

/// Memberships of hosts behind the node, by host.
pub(super) fn memberships<'a>(state: &'a State, node: &str) -> impl Iterator<Item = Membership> + use<'a> {
    let ports = state.node(node).map(|at| at.spec.base.ports.as_slice()).unwrap_or_default();
    // A host with several links is a member by way of its first one.
    let here = state.index(node);
    let is_first = move |host: &&str| {
        state.network().and_then(|network| network.host(host)).is_none_or(|at| Some(at.node) == here)
    };
    let hosts = ports.iter().filter_map(|port| match &port.peer {
        Peer::Host { name, .. } => Some(name.as_str()),
        Peer::Node { .. } => None,
    });
    hosts.filter(is_first).flat_map(move |host| {
        let of_host = state.groups.of_host(host);
        of_host.filter_map(move |group| {
            let role = state.groups.get(group)?.members.get(host)?.role;
            Some(Membership { group: group.to_owned(), host: host.to_owned(), role })
        })
    })
}

/// Hosts behind the node that are members of groups, for operators; `None` if there are none.
pub(super) fn hosts(state: &State, node: &str) -> Option<String> {
    let mut hosts: Vec<String> = memberships(state, node).map(|membership| membership.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    (!hosts.is_empty()).then(|| format!("{} are members of groups", named(&hosts)))
}

/// The first few names, and how many more there are.
fn named(names: &[&str]) -> String {
    let first = names[..names.len().min(MAX_NAMED)].join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// A retirement with what it waits for.
pub(super) fn view(state: &State, retirement: &Retirement) -> RetirementView {
    let waits_for = next(state, retirement).err().unwrap_or_default();
    RetirementView { retirement: retirement.clone(), waits_for }
}
