// SPDX-License-Identifier: Apache-2.0
//! Queues of link directions, as the agents report them, and the Long-haul CNPs sent about them.

use std::fmt::Error;

use canopy_controller_core::view::LinkView;
use canopy_model::congestion::QueueTelemetry;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::{counter, gauge, labels};

type Read = fn(&QueueTelemetry) -> u64;

const GAUGES: [(&str, &str, Read); 5] = [
    ("canopy_link_queue_bytes", "Queue depth of the sending port at the last sample.", |q| q.queue.get()),
    ("canopy_link_queue_peak_bytes", "Largest queue depth in the last one to two seconds.", |q| q.peak_queue.get()),
    ("canopy_link_queue_growth_bytes_per_ms", "Queue growth rate of the last sample.", |q| q.qgr_per_ms.get()),
    ("canopy_link_congestion_level", "Congestion Level of the last sample, 0 to 255.", |q| q.level.into()),
    ("canopy_link_congestion_peak_level", "Largest Congestion Level in the last one to two seconds.", |q| {
        q.peak_level.into()
    }),
];
const COUNTERS: [(&str, &str, Read); 5] = [
    ("canopy_link_packets", "Data packets sent.", |q| q.packets),
    ("canopy_link_bytes", "Bytes of data packets sent.", |q| q.octets.get()),
    ("canopy_link_packets_marked", "Data packets that the node marked CE.", |q| q.marked),
    ("canopy_link_packets_ce", "Data packets that left marked CE, by this node or one before.", |q| q.ce),
    ("canopy_link_packets_not_ect", "Data packets above K_min that are not ECN capable.", |q| q.not_ect),
];
const SENT: [(&str, Read); 4] = [
    ("notify", |q| q.counts.cnps.notify),
    ("pause", |q| q.counts.cnps.pause),
    ("rate_reduce", |q| q.counts.cnps.rate_reduce),
    ("resume", |q| q.counts.cnps.resume),
];
const HELD_BACK: [(&str, Read); 5] = [
    ("suppressed", |q| q.counts.suppressed),
    ("flow_limit", |q| q.counts.rate_limited_flow),
    ("port_limit", |q| q.counts.rate_limited_port),
    ("unknown_source_qp", |q| q.counts.unknown_source_qp),
    ("not_sent", |q| q.counts.cnps.failed),
];

pub(super) fn encode(all: &[LinkView], out: &mut DescriptorEncoder) -> Result<(), Error> {
    let shown: Vec<_> = all.iter().filter_map(|l| Some((labels(l), l.status.congestion.as_ref()?.queue))).collect();
    for (name, help, read) in GAUGES {
        gauge(out, name, help, shown.iter().map(|(labels, queue)| (*labels, read(queue))))?;
    }
    let help = "Share of the packets of the last sample that left marked CE.";
    let mut rates = out.encode_descriptor("canopy_link_ecn_marking_ratio", help, None, MetricType::Gauge)?;
    for (labels, queue) in &shown {
        rates.encode_family(labels)?.encode_gauge(&(f64::from(queue.emr_permille) / 1e3))?;
    }
    for (name, help, read) in COUNTERS {
        counter(out, name, help, shown.iter().map(|(labels, queue)| (*labels, read(queue))))?;
    }
    let each = |label: &'static str, kinds: &'static [(&'static str, Read)]| {
        let of_link = move |([node, port], queue): &([(&'static str, _); 2], QueueTelemetry)| {
            let (node, port, queue) = (*node, *port, *queue);
            kinds.iter().map(move |(kind, read)| ([node, port, (label, *kind)], read(&queue)))
        };
        shown.iter().flat_map(of_link)
    };
    counter(out, "canopy_link_long_haul_cnps", "Long-haul CNPs that the node sent, by action.", each("action", &SENT))?;
    let help = "Long-haul CNPs that a sample required and the node did not send, by reason.";
    counter(out, "canopy_link_long_haul_cnps_held_back", help, each("reason", &HELD_BACK))
}
