// SPDX-License-Identifier: Apache-2.0
//! When to sample groups for stalled branches. Pure: takes the time as an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_agent_core::stall::Stalls;
use canopy_model::ids::GroupId;
use canopy_model::node_spec::NodeSpec;
use canopy_model::telemetry::{Event, GroupTelemetry};
use canopy_units::{Monotonic, UnixTime};
use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);
/// Samples per stall time.
const SAMPLES: u32 = 4;
/// A sample that takes long delays the next one by this many times its duration: forwarding changes have priority.
const REST: u32 = 4;

/// The stall detection and its next deadline.
#[derive(Debug)]
pub(crate) struct StallWatch {
    stalls: Stalls,
    stall_after: BTreeMap<GroupId, Duration>,
    start: Instant,
    due: Option<Instant>,
}

impl StallWatch {
    pub(crate) fn new(now: Instant) -> Self {
        Self { stalls: Stalls::default(), stall_after: BTreeMap::new(), start: now, due: None }
    }

    /// When the next sample is due; `None` while there is no group.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Watches the groups of `spec`.
    pub(crate) fn watch(&mut self, spec: &NodeSpec, now: Instant) {
        self.stall_after = spec.groups.iter().map(|(id, program)| (*id, program.params.stall_after)).collect();
        let next = self.interval().map(|interval| now + interval);
        self.due = next.map(|next| self.due.map_or(next, |due| due.min(next)));
    }

    /// A sample that started at `started` has ended, successfully or not.
    pub(crate) fn sampled(&mut self, started: Instant, now: Instant) {
        self.due = self.interval().map(|interval| now + interval.max((now - started) * REST));
    }

    /// Events of a sample.
    pub(crate) fn observe(&mut self, groups: &[GroupTelemetry], now: Instant, time: UnixTime) -> Vec<Event> {
        let now = Monotonic::START + (now - self.start);
        self.stalls.observe(groups, |id| self.stall_after.get(&id).copied(), now, time)
    }

    /// Reports stalled branches again, for a controller that may not have received the events.
    pub(crate) fn report_again(&mut self) {
        self.stalls.report_again();
    }

    fn interval(&self) -> Option<Duration> {
        let shortest = self.stall_after.values().min()?;
        Some((*shortest / SAMPLES).clamp(SHORTEST, LONGEST))
    }
}
