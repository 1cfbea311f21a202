// SPDX-License-Identifier: Apache-2.0
//! Events of the groups: first data of a group, and fatal NAKs, which are never merged.

use std::net::Ipv6Addr;

use canopy_bpf::node::Node;
use canopy_bpf::node::types::{self, canopy_event_kind as Kind};
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

/// The event to report to the controller.
pub(crate) fn report(bpf: &Node, e: &types::canopy_event) -> Event {
    let group = GroupId::new("group", e.group_id.into()).ok();
    if e.kind == Kind::EVENT_FIRST_DATA.0 {
        let detail = format!("first packet of the source, PSN {:#08x}", e.value);
        return Event { time: UnixTime::now(), code: EventCode::FirstData, group, branch: None, detail };
    }
    let branch = branch_address(bpf, e.group_id, e.slot);
    let name = branch.map_or_else(|| "a branch that has left".to_string(), |a| a.to_string());
    let detail = format!(
        "{name} answered with a fatal NAK (AETH syndrome {:#04x}): its QP is in error and will not recover by retransmission",
        e.value
    );
    Event { time: UnixTime::now(), code: EventCode::FatalNak, group, branch, detail }
}

fn branch_address(bpf: &Node, group_id: u32, slot: u32) -> Option<Ipv6Addr> {
    Some(bpf.branches().get(&types::canopy_slot_key { group_id, slot }).ok()??.address.into())
}

/// A part of the boundary was gone.
pub(crate) fn boundary_restored(detail: String) -> Event {
    Event { time: UnixTime::now(), code: EventCode::BoundaryRestored, group: None, branch: None, detail }
}
