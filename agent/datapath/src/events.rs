// SPDX-License-Identifier: Apache-2.0
//! Events of the groups: the first data of a group, and feedback of a receiver from another link-layer address.

use canopy_bpf::node::types::canopy_event_kind as Kind;
use canopy_bpf::node::{Node, types};
use canopy_bpf::ring::Records;
use canopy_bpf::{Result, read};
use canopy_model::ids::GroupId;
use canopy_model::telemetry::{Event, EventCode};
use canopy_units::UnixTime;

/// Events that wait for the event loop, in addition to some 8,000 in the ring buffer; when both are full, the newest are lost and
/// counted (`event_lost`).
const DEPTH: usize = 1024;

/// The events, as they come.
pub(crate) struct Events(Records<types::canopy_event>);

impl Events {
    pub(crate) fn open(bpf: &Node) -> Result<Self> {
        Ok(Self(Records::read_all(bpf.events()?, "bpf-events", DEPTH, read)?))
    }

    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> types::canopy_event {
        match self.0.next().await {
            Some(e) => e,
            None => std::future::pending().await,
        }
    }
}

/// Whether it is about a receiver's link-layer address: the agent's own business.
pub(crate) fn is_other_mac(e: &types::canopy_event) -> bool {
    e.kind == Kind::EVENT_OTHER_MAC.0
}

/// The event to report to the controller.
pub(crate) fn report(e: &types::canopy_event) -> Event {
    Event {
        time: UnixTime::now(),
        code: EventCode::FirstData,
        group: GroupId::new("group", e.group_id.into()).ok(),
        branch: None,
        epoch: None,
        detail: format!("first packet of the source, PSN {:#08x}", e.value),
        reach: None,
    }
}

/// A part of the boundary was gone.
pub(crate) fn boundary_restored(detail: String) -> Event {
    Event {
        time: UnixTime::now(),
        code: EventCode::BoundaryRestored,
        group: None,
        branch: None,
        epoch: None,
        detail,
        reach: None,
    }
}
