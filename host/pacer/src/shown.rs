// SPDX-License-Identifier: Apache-2.0
//! Queue pairs and changes, as the API shows them.

use canopy_control::pb;
use canopy_host_core::pacing::Issuer;
use canopy_model::ids::Qpn;
use canopy_units::{Monotonic, UnixTime, nanos};

use crate::engine::{Change, Live, Origin, RttFrom};

/// A queue pair in the API.
pub(crate) fn show(qpn: Qpn, live: &Live, now: Monotonic) -> pb::PacedQp {
    let (limited_by, limited_by_peer) = match live.command.limited_by {
        Some(Issuer::Node(node)) => (node.octets().to_vec(), false),
        Some(Issuer::Peer) => (live.flow.peer.octets().to_vec(), true),
        None => (Vec::new(), false),
    };
    let origin = match live.origin {
        Origin::Registered => pb::QpOrigin::Registered,
        Origin::Learned => pb::QpOrigin::Learned,
        Origin::Agent => pb::QpOrigin::Agent,
    };
    pb::PacedQp {
        qpn: qpn.get(),
        peer: live.flow.peer.octets().to_vec(),
        dest_qpn: live.flow.qpn,
        origin: origin.into(),
        rate_bps: live.command.rate.bps(),
        line_rate_bps: live.spec.line.bps(),
        min_rate_bps: live.spec.min.bps(),
        pause_left_ns: live.command.paused_until.map_or(0, |until| nanos(until.since(now))),
        limited_by,
        limited_by_peer,
        rtt_ns: nanos(live.spec.rtt),
        rtt_is_measured: live.rtt_from == RttFrom::Measured,
    }
}

/// A change in the API.
pub(crate) fn show_change(change: &Change, applied: Monotonic, applied_unix: UnixTime) -> pb::WatchActionsResponse {
    pb::WatchActionsResponse {
        cause: change.cause.into(),
        qp: Some(show(change.qpn, &change.live, applied)),
        received_ns: change.received_at.unwrap_or_default().nanos(),
        applied_ns: applied.nanos(),
        applied_unix_ns: applied_unix.nanos(),
        missed: 0,
    }
}
