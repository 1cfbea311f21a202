// SPDX-License-Identifier: Apache-2.0
//! Captures of one packet: arming the programs, and the frames that they return.

use std::num::NonZeroU32;
use std::time::Duration;

use canopy_bpf::node::types::canopy_capture_direction as Direction;
use canopy_bpf::node::{CAPTURING, Node, types};
use canopy_bpf::ring::Records;
use canopy_bpf::{Context, Result, monotonic, read};
use canopy_model::capture::{CaptureDirection, CaptureOrder, CapturedFrame};
use canopy_units::{Monotonic, UnixTime, nanos};

/// Frames that wait for the event loop: a packet and its copies to as many branches as a group has.
const DEPTH: usize = 256;

/// Waits for a packet of a group, or for none.
pub(crate) fn arm(bpf: &Node, order: Option<&CaptureOrder>) -> Result<()> {
    let lost = bpf.capturing().get(&CAPTURING)?.map_or(0, |entry| entry.lost);
    if lost > 0 {
        tracing::warn!(lost, "frames of a capture found no room in the ring buffer");
    }
    // Nothing is armed while the rest of the entry changes.
    bpf.capturing().put(&CAPTURING, &types::canopy_capture::default())?;
    let Some(order) = order else { return Ok(()) };
    let group_id = order.group.get();
    let group = bpf.groups().get(&group_id)?.ok_or("it is not configured at this node");
    let group = group.with_context(|| format!("capturing a packet of group {group_id}"))?;
    let idle = types::canopy_capture {
        group_id: 0,
        id: order.id.get(),
        psn: order.psn.get(),
        dqpn: group.dqpn,
        proxy: group.proxy,
        flags: group.flags,
        pad: 0,
        taken: 0,
        lost: 0,
    };
    bpf.capturing().put(&CAPTURING, &idle)?;
    bpf.capturing().put(&CAPTURING, &types::canopy_capture { group_id, ..idle })
}

/// The captured frames, as they come.
pub(crate) struct Captured(Records<types::canopy_captured>);

impl Captured {
    pub(crate) fn open(bpf: &Node) -> Result<Self> {
        Ok(Self(Records::read_all(bpf.captured()?, "bpf-captured", DEPTH, read)?))
    }

    /// The next frame, and the index of its interface. Cancel safe.
    pub(crate) async fn next(&mut self) -> types::canopy_captured {
        match self.0.next().await {
            Some(frame) => frame,
            None => std::future::pending().await,
        }
    }
}

/// The frame as the controller gets it; `None` if it is none that the programs make.
pub(crate) fn report(raw: &types::canopy_captured, port: String) -> Option<CapturedFrame> {
    let direction = match Direction(raw.direction) {
        Direction::CAPTURE_IN => CaptureDirection::In,
        Direction::CAPTURE_OUT => CaptureDirection::Out,
        _ => return None,
    };
    let age = monotonic().since(Monotonic::from_nanos(raw.time_ns));
    let frame = CapturedFrame {
        id: NonZeroU32::new(raw.id)?,
        direction,
        port,
        time: before(UnixTime::now(), age),
        length: raw.length,
        inner_at: raw.inner_at,
        head: raw.head.get(..raw.head_len as usize)?.to_vec(),
        inner: raw.inner,
    };
    frame.checked().ok()
}

fn before(now: UnixTime, age: Duration) -> UnixTime {
    UnixTime::from_nanos(now.nanos().saturating_sub(nanos(age)))
}
