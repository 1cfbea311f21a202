// SPDX-License-Identifier: Apache-2.0
//! Ports in a scrape: queues, Long-haul CNPs, round-trip times, Echo Requests, packets to path SIDs. Flows are not exported: they are short-lived, and each would
//! leave a series.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_agent_core::{PathPackets, Sample};
use canopy_metrics::{Description, Family, Page};
use canopy_model::congestion::QueueTelemetry;
use canopy_model::ids::PortIndex;
use canopy_model::node_spec::Port;
use canopy_model::telemetry::{LinkLoss, LinkRtt};

type Read = fn(&QueueTelemetry) -> u64;

const fn gauge(name: &'static str, help: &'static str) -> Family<1> {
    Family::gauge(name, help, ["port"])
}

const fn counter(name: &'static str, help: &'static str) -> Family<1> {
    Family::counter(name, help, ["port"])
}

static GAUGES: [Family<1>; 5] = [
    gauge("canopy_link_queue_bytes", "Queue depth of the port at the last sample."),
    gauge("canopy_link_queue_peak_bytes", "Largest queue depth in the last one to two seconds."),
    gauge("canopy_link_queue_growth_bytes_per_second", "Queue growth rate of the last sample."),
    gauge("canopy_link_congestion_level", "Congestion Level of the last sample, 0 to 255."),
    gauge("canopy_link_congestion_peak_level", "Largest Congestion Level in the last one to two seconds."),
];
const READ_GAUGES: [Read; 5] = [
    |q| q.queue.get(),
    |q| q.peak_queue.get(),
    |q| q.qgr_per_ms.get().saturating_mul(1000),
    |q| q.level.into(),
    |q| q.peak_level.into(),
];
static MARKING: Family<1> =
    gauge("canopy_link_ecn_marking_ratio", "Share of the packets of the last sample that left marked CE.");
static COUNTERS: [Family<1>; 5] = [
    counter("canopy_link_packets", "Data packets sent."),
    counter("canopy_link_bytes", "Bytes of data packets sent."),
    counter("canopy_link_packets_marked", "Data packets that the node marked CE."),
    counter("canopy_link_packets_ce", "Data packets that left marked CE, by this node or one before."),
    counter("canopy_link_packets_not_ect", "Data packets above K_min that are not ECN capable."),
];
const READ_COUNTERS: [Read; 5] = [|q| q.packets, |q| q.octets.get(), |q| q.marked, |q| q.ce, |q| q.not_ect];
static SENT: Family<2> =
    Family::counter("canopy_link_long_haul_cnps", "Long-haul CNPs that the node sent, by action.", ["port", "action"]);
const ACTIONS: [(&str, Read); 4] = [
    ("notify", |q| q.counts.cnps.notify),
    ("pause", |q| q.counts.cnps.pause),
    ("rate_reduce", |q| q.counts.cnps.rate_reduce),
    ("resume", |q| q.counts.cnps.resume),
];
static HELD_BACK: Family<2> = Family::counter(
    "canopy_link_long_haul_cnps_held_back",
    "Long-haul CNPs that a sample required and the node did not send, by reason.",
    ["port", "reason"],
);
const REASONS: [(&str, Read); 5] = [
    ("suppressed", |q| q.counts.suppressed),
    ("flow_limit", |q| q.counts.rate_limited_flow),
    ("port_limit", |q| q.counts.rate_limited_port),
    ("unknown_source_qp", |q| q.counts.unknown_source_qp),
    ("not_sent", |q| q.counts.cnps.failed),
];
static RTT: Family<1> =
    gauge("canopy_link_rtt_measured_seconds", "Newest round-trip time that the STAMP session of the link measured.");
static ANSWERED: Family<1> =
    counter("canopy_link_probes_answered", "STAMP test packets answered since the agent started.");
static LOST: Family<1> = counter("canopy_link_probes_lost", "STAMP test packets lost since the agent started.");
static REQUESTS: Family<1> = counter(
    "canopy_link_echo_requests",
    "ICMPv6 Echo Requests to the neighbour whose fate is known, since the agent started.",
);
static REQUESTS_LOST: Family<1> = counter("canopy_link_echo_requests_lost", "Those without a reply.");
static PATHS: Family<2> = Family::counter(
    "canopy_path_packets",
    "Packets to path SIDs that arrived on the port and were not dropped: forwarded over the link that the next uSID names, or ended, where the inner packet was forwarded.",
    ["port", "action"],
);
static QUEUE_DROPS: Family<1> = counter("canopy_link_queue_drops", "Packets that the queue of the port dropped.");

pub(super) fn families() -> Vec<Description> {
    let single = [&MARKING, &RTT, &ANSWERED, &LOST, &REQUESTS, &REQUESTS_LOST, &QUEUE_DROPS];
    let mut all: Vec<_> = GAUGES.iter().chain(&COUNTERS).chain(single).map(Family::describe).collect();
    all.extend([&SENT, &HELD_BACK, &PATHS].map(Family::describe));
    all
}

/// What is known of each port; at most as many as a node has.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports(BTreeMap<PortIndex, PortRow>);

#[derive(Clone, Debug, Default)]
struct PortRow {
    name: String,
    queue: Option<QueueTelemetry>,
    probes: Option<LinkRtt>,
    /// Kept while no test packet is answered.
    rtt: Option<Duration>,
    loss: Option<LinkLoss>,
    paths: PathPackets,
}

impl Ports {
    pub(super) fn update(&mut self, ports: &[Port], sample: &Sample, rtts: &[LinkRtt], losses: &[LinkLoss]) {
        self.0.retain(|index, _| ports.iter().any(|p| p.index == *index));
        for port in ports {
            let row = self.0.entry(port.index).or_default();
            row.name.clone_from(&port.name);
            row.queue = sample.congestion.iter().find(|q| q.port == port.index).map(|q| q.queue);
            row.probes = rtts.iter().find(|r| r.port == port.index).copied();
            row.rtt = row.probes.and_then(|r| r.rtt).or(row.rtt);
            row.loss = losses.iter().find(|l| l.port == port.index).copied();
            row.paths = sample.paths.get(&port.name).copied().unwrap_or_default();
        }
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let all = || self.0.values().map(|row| ([row.name.as_str()], row));
        let queues = || all().filter_map(|(labels, row)| Some((labels, row.queue.as_ref()?)));
        for (family, read) in GAUGES.iter().zip(READ_GAUGES).chain(COUNTERS.iter().zip(READ_COUNTERS)) {
            page.write(family, queues().map(|(labels, queue)| (labels, read(queue))))?;
        }
        page.write(&MARKING, queues().map(|(labels, queue)| (labels, f64::from(queue.emr_permille) / 1e3)))?;
        page.write(&SENT, queues().flat_map(|(labels, queue)| by(labels, &ACTIONS, queue)))?;
        page.write(&HELD_BACK, queues().flat_map(|(labels, queue)| by(labels, &REASONS, queue)))?;
        page.write(&RTT, all().filter_map(|(labels, row)| Some((labels, row.rtt?.as_secs_f64()))))?;
        let probes = || all().filter_map(|(labels, row)| Some((labels, row.probes?)));
        page.write(&ANSWERED, probes().map(|(labels, rtt)| (labels, rtt.samples)))?;
        page.write(&LOST, probes().map(|(labels, rtt)| (labels, rtt.lost)))?;
        let losses = || all().filter_map(|(labels, row)| Some((labels, row.loss?)));
        page.write(&REQUESTS, losses().map(|(labels, loss)| (labels, loss.requests)))?;
        page.write(&REQUESTS_LOST, losses().map(|(labels, loss)| (labels, loss.lost)))?;
        page.write(&QUEUE_DROPS, losses().map(|(labels, loss)| (labels, loss.queue_drops)))?;
        let paths = all()
            .flat_map(|([port], row)| [([port, "ended"], row.paths.ended), ([port, "forwarded"], row.paths.forwarded)]);
        page.write(&PATHS, paths)
    }
}

fn by<'a>(
    [port]: [&'a str; 1],
    kinds: &'static [(&'static str, Read)],
    queue: &'a QueueTelemetry,
) -> impl Iterator<Item = ([&'a str; 2], u64)> {
    kinds.iter().map(move |(kind, read)| ([port, *kind], read(queue)))
}
