// SPDX-License-Identifier: Apache-2.0
//! Agents that restart. Their nodes forward meanwhile, so that nothing about a node is concluded from the silence of its agent:
//!
//! ```text
//! connected --its stream ends--> restarting --a neighbour's counters show that it does not forward--> doubted
//!     ^                              | the term has ended                                                | the term has ended
//!     |                              v                                                                   v
//!     +--------connects------------ away <---------------------------------------------------------------+
//! ```
//!
//! The term is what the agent announced when it was stopped, else that of a kill. While it restarts, a link to the node is dead if its
//! carrier is gone, and not because the node does not answer over it. That counts once the node is doubted: one above it in a tree reports
//! that its branch to the node acknowledges nothing of the data that it gets, or the time of a kill has passed, which no restart takes: the
//! kernel answers, not the agent, so that a silent link is then taken for what it most likely is. In any of the states an agent that
//! connects ends the restart.

use std::time::Duration;

use canopy_model::node_spec::Peer;
use canopy_units::Monotonic;

use super::state::State;
use crate::resource::{Node, Restart, RestartState};
use crate::topology::NodeIx;
use crate::view::RestartingAgent;

/// An agent that announced nothing is back within this long: it was killed, or its machine was.
pub(super) const KILLED: Duration = Duration::from_secs(10);

/// Notes that the agent is about to end and is back `within` this long, or that it is not: each report has either, so that none of an
/// earlier agent stays.
pub(super) fn announce(state: &mut State, node: &str, within: Option<Duration>) {
    if let Some(at) = state.index(node) {
        state.nodes[at].announced = within;
    }
}

/// The agent's stream has ended.
pub(super) fn begin(node: &mut Node, now: Monotonic) {
    let announced = node.announced.take();
    let term = announced.unwrap_or(KILLED);
    node.restart =
        Some(Restart { until: now + term, term, is_announced: announced.is_some(), state: RestartState::Restarting });
}

/// An agent is connected.
pub(super) fn end(node: &mut Node) {
    (node.announced, node.restart) = (None, None);
}

/// Doubts nodes that do not forward, and ends restarts whose term has ended. Returns these nodes. A few instructions per node; called twice a
/// second.
pub(super) fn expire(state: &mut State, now: Monotonic) -> Vec<String> {
    let mut changed = Vec::new();
    for at in 0..state.nodes.len() {
        let Some(Restart { until, term, state: is, .. }) = &state.nodes[at].restart else { continue };
        let is_late = now + term.saturating_sub(KILLED) >= *until;
        let next = match is {
            RestartState::Restarting | RestartState::Doubted if now >= *until => RestartState::Away,
            RestartState::Restarting if is_late || is_stalled(state, at) => RestartState::Doubted,
            RestartState::Restarting | RestartState::Doubted | RestartState::Away => continue,
        };
        let node = &mut state.nodes[at];
        node.restart.iter_mut().for_each(|restart| restart.state = next);
        changed.push(node.spec.base.name.clone());
    }
    changed
}

/// Nodes whose agents are to be back soon, in name order. Passes over each node.
pub(super) fn awaited(state: &State, now: Monotonic) -> Vec<RestartingAgent> {
    let is_awaited = |node: &&Node| node.is_restarting() && !node.retired;
    let view = |node: &Node| {
        let restart = node.restart.as_ref()?;
        let back_within = restart.until.since(now);
        Some(RestartingAgent { node: node.spec.base.name.clone(), announced: restart.is_announced, back_within })
    };
    let mut awaited: Vec<RestartingAgent> = state.nodes.iter().filter(is_awaited).filter_map(view).collect();
    awaited.sort_unstable_by(|a, b| a.node.cmp(&b.node));
    awaited
}

/// Whether the node behind this port restarts: that it does not answer shows nothing.
pub(super) fn excuses(state: &State, node: NodeIx, port: &str) -> bool {
    let port = state.nodes[node].spec.base.ports.iter().find(|p| p.name == port);
    let Some(Peer::Node { name, .. }) = port.map(|port| &port.peer) else { return false };
    let restart = state.node(name).and_then(|node| node.restart.as_ref());
    restart.is_some_and(|restart| restart.state == RestartState::Restarting)
}

/// Names of the nodes that this one has links to.
pub(super) fn neighbours(state: &State, node: &str) -> Vec<String> {
    let ports = state.node(node).into_iter().flat_map(|node| &node.spec.base.ports);
    let names = ports.filter_map(|port| match &port.peer {
        Peer::Node { name, .. } => Some(name.clone()),
        Peer::Host { .. } => None,
    });
    names.collect()
}

/// Whether a neighbour reports that a branch to this node acknowledges nothing.
fn is_stalled(state: &State, at: NodeIx) -> bool {
    let base = &state.nodes[at].spec.base;
    let above = neighbours(state, &base.name);
    let mut above = above.iter().filter_map(|name| state.node(name));
    above.any(|node| node.stalls.keys().any(|(_, branch)| *branch == base.node_address))
}
