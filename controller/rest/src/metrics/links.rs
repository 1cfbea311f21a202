// SPDX-License-Identifier: Apache-2.0
//! Link directions: thresholds, round-trip times, queues. Flows are not exported: they are short-lived, and each would
//! leave a series.

use std::fmt::Error;
use std::time::Duration;

use canopy_controller_actor::Controller;
use canopy_controller_core::view::LinkView;
use canopy_units::{Rate, nanos};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::{counter, gauge};

mod queues;

/// Directions in one scrape, at most; `canopy_scrape_links_left_out` counts the others.
const MAX_LINKS: usize = 20_000;

pub(super) fn encode(controller: &Controller, out: &mut DescriptorEncoder) -> Result<(), Error> {
    let mut all = controller.links();
    let left_out = all.len().saturating_sub(MAX_LINKS);
    all.truncate(MAX_LINKS);
    gauge(
        out,
        "canopy_scrape_links_left_out",
        "Link directions beyond what one scrape shows.",
        [(super::NO_LABELS, left_out as u64)],
    )?;
    let k_max = all.iter().filter_map(|l| Some((labels(l), l.status.thresholds?.k_max.get())));
    gauge(out, "canopy_link_k_max_bytes", "K_max of the sending port.", k_max)?;
    let k_min = all.iter().filter_map(|l| Some((labels(l), l.status.thresholds?.k_min.get())));
    gauge(out, "canopy_link_k_min_bytes", "K_min of the sending port.", k_min)?;
    let buffers = all.iter().filter_map(|l| Some((labels(l), l.spec.buffer?.get())));
    gauge(out, "canopy_link_buffer_bytes", "Octets that the sending port can queue, where known.", buffers)?;
    let rates = all.iter().filter(|l| l.spec.rate > Rate::ZERO).map(|l| (labels(l), l.spec.rate.bps()));
    gauge(out, "canopy_link_rate_bits_per_second", "Rate of the sending port, where known.", rates)?;
    let seconds =
        |read: fn(&LinkView) -> Option<Duration>| all.iter().filter_map(move |l| Some((labels(l), nanos(read(l)?))));
    times(
        out,
        "canopy_link_rtt_seconds",
        "RTT_est: as configured, else as measured.",
        seconds(|l| l.status.rtt.estimate),
    )?;
    times(
        out,
        "canopy_link_rtt_measured_seconds",
        "Newest round-trip time that the node's STAMP session measured.",
        seconds(|l| l.status.rtt.measured),
    )?;
    let samples = all.iter().filter(|l| l.status.rtt.reported_ago.is_some());
    counter(
        out,
        "canopy_link_probes_answered",
        "STAMP test packets answered since the agent started.",
        samples.clone().map(|l| (labels(l), l.status.rtt.samples)),
    )?;
    counter(
        out,
        "canopy_link_probes_lost",
        "STAMP test packets lost since the agent started.",
        samples.clone().map(|l| (labels(l), l.status.rtt.lost)),
    )?;
    counter(
        out,
        "canopy_link_rtts_refused",
        "Measured round-trip times that the controller refused: shorter than thresholds.min_rtt.",
        samples.map(|l| (labels(l), l.status.rtt.refused)),
    )?;
    let losses = all.iter().filter_map(|l| Some((labels(l), l.status.loss?)));
    counter(
        out,
        "canopy_link_echo_requests",
        "ICMPv6 Echo Requests to the neighbour whose fate is known, since the agent started.",
        losses.clone().map(|(labels, loss)| (labels, loss.requests)),
    )?;
    counter(
        out,
        "canopy_link_echo_requests_lost",
        "Those without a reply.",
        losses.clone().map(|(labels, loss)| (labels, loss.lost)),
    )?;
    counter(
        out,
        "canopy_link_queue_drops",
        "Packets that the sending port's queue dropped.",
        losses.clone().map(|(labels, loss)| (labels, loss.queue_drops)),
    )?;
    counter(
        out,
        "canopy_link_data_packets",
        "Data packets of groups that had to arrive at the other end, without retransmissions.",
        losses.clone().map(|(labels, loss)| (labels, loss.data_packets)),
    )?;
    counter(
        out,
        "canopy_link_data_lost",
        "Those that did not arrive in their turn.",
        losses.clone().map(|(labels, loss)| (labels, loss.data_lost)),
    )?;
    gauge(
        out,
        "canopy_link_lossy_permille",
        "Packets of a thousand that the link lost when it was found to lose packets; 0 while it does not.",
        losses.map(|(labels, loss)| (labels, loss.permille.unwrap_or(0).into())),
    )?;
    counter(
        out,
        "canopy_link_threshold_changes",
        "Changes of thresholds that were pushed to the node.",
        all.iter().map(|l| (labels(l), l.status.pushes)),
    )?;
    queues::encode(&all, out)
}

fn labels(link: &LinkView) -> [(&'static str, &str); 2] {
    let (node, port) = link.name.split_once('/').unwrap_or((&link.name, ""));
    [("node", node), ("port", port)]
}

fn times<'a>(
    out: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl Iterator<Item = ([(&'static str, &'a str); 2], u64)>,
) -> Result<(), Error> {
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, ns) in values {
        metric.encode_family(&labels)?.encode_gauge(&(ns as f64 / 1e9))?;
    }
    Ok(())
}
