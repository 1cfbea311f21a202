// SPDX-License-Identifier: Apache-2.0
//! Which hosts of stalled receivers to probe, and what to report of them. Pure: takes the time as an argument.

use canopy_agent_core::reach::{HostTarget, Reach, StalledBranch};
use canopy_model::node_spec::{BranchKind, NodeSpec};
use canopy_model::reach::HostReach;
use canopy_model::telemetry::{Event, EventCode};
use canopy_units::{Monotonic, UnixTime};
use tokio::time::Instant;

/// The probes, on the event loop's clock.
#[derive(Debug)]
pub(crate) struct HostWatch {
    reach: Reach,
    start: Instant,
}

impl HostWatch {
    pub(crate) fn new(now: Instant) -> Self {
        Self { reach: Reach::default(), start: now }
    }

    /// When a probe is due; `None` while no host waits for one.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.reach.poll_timeout().map(|due| self.start + due.since(Monotonic::START))
    }

    /// Forgets stalls of receivers that `spec` does not have.
    pub(crate) fn watch(&mut self, spec: &NodeSpec) {
        self.reach.retain(|branch| HostTarget::of(spec, branch).is_some());
    }

    /// Processes an event of the stall detection. Returns what is known already of the host, to be reported again.
    pub(crate) fn handle(&mut self, spec: &NodeSpec, event: &Event) -> Option<Event> {
        let branch = (event.group?, event.branch?);
        match event.code {
            EventCode::BranchStalled => {
                let known = self.reach.stalled(branch, HostTarget::of(spec, branch)?)?;
                report(spec, branch, known, event.time)
            }
            EventCode::BranchRecovered => {
                self.reach.recovered(branch);
                None
            }
            _ => None,
        }
    }

    /// The host to probe now, if one is due.
    pub(crate) fn next_host(&mut self, now: Instant) -> Option<HostTarget> {
        self.reach.next_host(Monotonic::START + (now - self.start))
    }

    /// A host was probed; returns one event for each stall that this explains.
    pub(crate) fn found(
        &mut self,
        spec: &NodeSpec,
        target: &HostTarget,
        reach: Option<HostReach>,
        time: UnixTime,
    ) -> Vec<Event> {
        let explained = self.reach.found(target, reach);
        explained.into_iter().filter_map(|branch| report(spec, branch, reach?, time)).collect()
    }
}

fn report(spec: &NodeSpec, (group, address): StalledBranch, reach: HostReach, time: UnixTime) -> Option<Event> {
    let program = spec.groups.get(&group)?;
    let branch = program.branches.iter().find(|b| b.address == address)?;
    let BranchKind::Receiver { qpn, .. } = branch.kind else { return None };
    Some(Event {
        time,
        code: EventCode::HostProbed,
        group: Some(group),
        branch: Some(address),
        epoch: Some(program.epoch),
        detail: reach.sentence(address, qpn),
        reach: Some(reach),
    })
}
