// SPDX-License-Identifier: Apache-2.0
//! Link directions: thresholds, and what the controller finds by comparing both ends. Queues are the agents' to export.

use canopy_controller_actor::Controller;
use canopy_controller_core::view::LinkView;
use canopy_metrics::{Description, Family, Page, Value};
use canopy_units::Rate;

const fn gauge(name: &'static str, help: &'static str) -> Family<2> {
    Family::gauge(name, help, ["node", "port"])
}

const fn counter(name: &'static str, help: &'static str) -> Family<2> {
    Family::counter(name, help, ["node", "port"])
}

type Read = fn(&LinkView) -> Option<Value>;

static FAMILIES: [Family<2>; 10] = [
    gauge("canopy_link_rate_bits_per_second", "Rate of the sending port, where known."),
    gauge("canopy_link_k_max_bytes", "K_max of the sending port."),
    gauge("canopy_link_k_min_bytes", "K_min of the sending port."),
    gauge("canopy_link_buffer_bytes", "Octets that the sending port can queue, where known."),
    gauge("canopy_link_rtt_seconds", "RTT_est: as configured, else as measured."),
    counter(
        "canopy_link_rtts_refused",
        "Measured round-trip times that the controller refused: shorter than thresholds.min_rtt.",
    ),
    counter("canopy_link_threshold_changes", "Changes of thresholds that were pushed to the node."),
    counter(
        "canopy_link_data_packets",
        "Data packets of groups that had to arrive at the other end, without retransmissions.",
    ),
    counter("canopy_link_data_lost", "Those that did not arrive in their turn."),
    gauge(
        "canopy_link_loss_ratio",
        "Share of packets that the link lost when it was found to lose packets; 0 while it does not.",
    ),
];
/// In the order of [`FAMILIES`].
const READ: [Read; FAMILIES.len()] = [
    |l| (l.spec.rate > Rate::ZERO).then(|| l.spec.rate.bps().into()),
    |l| Some(l.status.thresholds?.k_max.get().into()),
    |l| Some(l.status.thresholds?.k_min.get().into()),
    |l| Some(l.spec.buffer?.get().into()),
    |l| Some(l.status.rtt.estimate?.as_secs_f64().into()),
    |l| l.status.rtt.reported_ago.map(|_| l.status.rtt.refused.into()),
    |l| Some(l.status.pushes.into()),
    |l| Some(l.status.loss?.data_packets.into()),
    |l| Some(l.status.loss?.data_lost.into()),
    |l| Some((f64::from(l.status.loss?.permille.unwrap_or(0)) / 1e3).into()),
];

pub(super) fn families() -> Vec<Description> {
    FAMILIES.iter().map(Family::describe).collect()
}

/// All directions in the topology's order, or as many as fit.
pub(super) fn write(controller: &Controller, page: &mut Page<'_>) -> std::fmt::Result {
    let room = page.room(FAMILIES.len());
    let (all, others) = controller.first_links(room);
    page.leave_out(others * FAMILIES.len());
    for (family, read) in FAMILIES.iter().zip(READ) {
        page.write(family, all.iter().filter_map(|l| Some((labels(l), read(l)?))))?;
    }
    Ok(())
}

fn labels(link: &LinkView) -> [&str; 2] {
    let (node, port) = link.name.split_once('/').unwrap_or((&link.name, ""));
    [node, port]
}
