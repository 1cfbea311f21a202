// SPDX-License-Identifier: Apache-2.0
//! Ports of a node whose links carry nothing: what its agent reports, what trees and routes do, and when they may return (decisions 3.14).

use std::collections::BTreeSet;

use canopy_model::topology::Endpoint;
use canopy_units::Monotonic;

use super::links::Links;
use super::restarts;
use super::state::State;

/// Names of a node's ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPorts {
    /// Those that trees and routes avoid.
    pub avoided: BTreeSet<String>,
    /// Those that carry nothing. A link is not among them while it may be silent because a queue at one of its ends drops every packet, or
    /// because the agent at its far end restarts.
    pub reported: BTreeSet<String>,
    /// Avoided ones that were silent, and whose links have not answered for long enough since. That its agent no longer reports one proves
    /// nothing: it may have been restarted, and has then never had an answer.
    pub unproven: BTreeSet<String>,
    /// One is silent that is avoided for another reason so far.
    pub is_silence_new: bool,
}

/// The ports of `node` at `now`; `None` if there is no such node, or its agent has not reported yet.
pub(super) fn of(state: &State, links: &Links, node: &str, now: Monotonic) -> Option<DeadPorts> {
    let (avoided, mut reported) = state.ports_down(node)?;
    let index = state.index(node)?;
    let at = |port: &String| Endpoint { device: node.to_owned(), port: port.clone() };
    let silent: Vec<String> = reported.iter().filter(|port| state.is_silent(index, port)).cloned().collect();
    for port in &silent {
        let means_nothing = || restarts::excuses(state, index, port) || links.is_congested(state, &at(port), now);
        if !avoided.contains(port) && !state.withholds(index, port) && means_nothing() {
            reported.remove(port);
        }
    }
    let is_new = |port: &String| avoided.contains(port) && !state.silent().contains(&at(port));
    let is_silence_new = silent.iter().any(is_new);
    Some(DeadPorts { unproven: links.unproven(state, node, now), avoided, reported, is_silence_new })
}
