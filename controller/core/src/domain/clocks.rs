// SPDX-License-Identifier: Apache-2.0
//! Wall clocks of nodes beside the controller's, as the time stamps of telemetry show them. In memory only; nothing but problems depends
//! on them.

use canopy_units::UnixTime;

use super::Domain;
use crate::clock::Difference;

/// Fewer nodes do not show whose clock is wrong.
const MIN_WITNESSES: usize = 3;

impl Domain {
    /// Notes that telemetry which the wall clock of `node` dates `at` arrived when the controller's showed `now`. A node that names no time
    /// has no clock.
    pub fn clock_shown(&mut self, node: &str, at: UnixTime, now: UnixTime) {
        let Some(index) = self.state.index(node) else { return };
        let has_one = at != UnixTime::default();
        self.state.nodes[index].telemetry.clock = has_one.then(|| Difference::between(at, now)).flatten();
    }

    /// Why the controller's own wall clock is taken for wrong: those of most connected nodes differ from it to the same side. Reads one field
    /// of each node.
    pub fn controllers_clock_differs(&self) -> Option<String> {
        let connected = || self.state.nodes.iter().filter(|node| node.connected);
        let to_side =
            |is_ahead| connected().filter(|n| n.telemetry.clock.is_some_and(|c| c.is_ahead == is_ahead)).count();
        let (all, ahead, behind) = (connected().count(), to_side(true), to_side(false));
        if all < MIN_WITNESSES || ahead.max(behind) * 2 <= all {
            return None;
        }
        // The other way round: what is ahead of the controller shows that it is behind.
        let side = if ahead > behind { "behind" } else { "ahead of" };
        Some(format!("it is {side} the clocks of {} of {all} connected nodes", ahead.max(behind)))
    }
}
