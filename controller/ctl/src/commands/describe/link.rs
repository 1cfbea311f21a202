// SPDX-License-Identifier: Apache-2.0
//! A link direction: the inputs of its thresholds, the thresholds, the state of its queue, and its flows.

use std::io::Write;

use canopy_controller_api::link::{Bound, FlowView, LinkCongestion, LinkObserved};
use canopy_controller_api::{LinkResource, List};

use super::{ago, field, fields};
use crate::client::Client;
use crate::commands::{flows, link_path, rows, with_query};
use crate::failure::Failure;
use crate::output::text;

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let link: LinkResource = client.get(&format!("describing link {name}"), &link_path(name)?).await?;
    inputs(out, &link)?;
    writeln!(out, "\nThresholds:")?;
    if link.status.reason.is_empty() {
        thresholds(out, &link.status)?;
    } else {
        field(out, "  None", text(&link.status.reason))?;
    }
    match &link.status.congestion {
        Some(congestion) => queue(out, congestion)?,
        None => {
            writeln!(out, "\nQueue:")?;
            let why = "not reported: check that the node's agent is connected and that the link has thresholds";
            field(out, "  Unknown", why)?;
        }
    }
    let flows: List<FlowView> =
        client.get("listing flows", &with_query("/api/v1/flows", &flows::query(name)?)?).await?;
    if flows.items.is_empty() {
        return Ok(());
    }
    for (title, columns) in [("Flows", flows::traffic()), ("Long-haul CNPs about them", flows::notifications())] {
        writeln!(out, "\n{title}:")?;
        rows::write(&columns, &flows.items, out)?;
    }
    Ok(())
}

fn inputs(out: &mut dyn Write, link: &LinkResource) -> Result<(), Failure> {
    let (spec, rtt) = (&link.spec, &link.status.rtt);
    let computed = || "from K_min to K_max in one RTT_est".to_owned();
    let v_growth = spec.v_growth_bytes_per_ms.map_or_else(computed, text);
    fields(
        out,
        [
            ("From", text(&link.metadata.name)),
            ("To", text(&spec.to)),
            ("Link", text(&spec.link)),
            ("Rate (bit/s)", text(spec.rate_bps)),
            ("Buffer (octets)", text(spec.buffer_bytes)),
            ("Alpha (1/1000)", text(spec.alpha)),
            ("K_base (octets)", text(spec.k_base_bytes)),
            ("V_ecn (1/1000)", text(spec.v_ecn)),
            ("V_growth (octets/ms)", v_growth),
        ],
    )?;
    writeln!(out, "\nRound-trip time (ns):")?;
    fields(
        out,
        [
            ("  Configured", text(rtt.configured_ns)),
            ("  Measured", text(rtt.measured_ns)),
            ("  Smallest, 2.4 s", text(rtt.filtered_ns)),
            ("  RTT_est", text(rtt.estimate_ns)),
            ("  Samples", text(rtt.samples)),
            ("  Lost", text(rtt.lost)),
            ("  Refused", text(rtt.refused)),
            ("  Reported", ago(rtt.reported_ago_ns)),
        ],
    )
}

fn thresholds(out: &mut dyn Write, status: &LinkObserved) -> Result<(), Failure> {
    let thresholds = status.thresholds.as_ref();
    let bound = match thresholds.map(|t| t.bound) {
        Some(Bound::Buffer { wanted_bytes }) => format!("the port's buffer; the formula gives {wanted_bytes}"),
        Some(Bound::Base) if status.rtt.estimate_ns.is_none() => "K_base; no round-trip time is known".to_owned(),
        Some(Bound::Base) => "K_base; the bandwidth-delay product is smaller".to_owned(),
        Some(Bound::BandwidthDelay) => "alpha times the bandwidth-delay product".to_owned(),
        None => text(()),
    };
    fields(
        out,
        [
            ("  K_max (octets)", text(thresholds.map(|t| t.k_max_bytes))),
            ("  K_min (octets)", text(thresholds.map(|t| t.k_min_bytes))),
            ("  Bound by", bound),
            ("  Computed from", format!("{} ns", text(status.pushed_rtt_ns))),
            ("  Last change", ago(status.pushed_ago_ns)),
            ("  Changes", text(status.pushes)),
        ],
    )
}

fn queue(out: &mut dyn Write, congestion: &LinkCongestion) -> Result<(), Failure> {
    let (queue, counts) = (&congestion.queue, &congestion.queue.counts);
    writeln!(out, "\nQueue:")?;
    fields(
        out,
        [
            ("  Load (bits/s)", text(congestion.load_bps)),
            ("  Depth (octets)", text(queue.queue)),
            ("  Peak (octets)", text(queue.peak_queue)),
            ("  Depth from", text(queue.depth_source)),
            ("  Level (0..255)", text(queue.level)),
            ("  Peak level", text(queue.peak_level)),
            ("  EMR (1/1000)", text(queue.emr_permille)),
            ("  QGR (octets/ms)", text(queue.qgr_per_ms)),
            ("  Packets", text(queue.packets)),
            ("  Octets", text(queue.octets)),
            ("  Marked here", text(queue.marked)),
            ("  Left with CE", text(queue.ce)),
            ("  Not ECN capable", text(queue.not_ect)),
            ("  Reported", ago(Some(congestion.reported_ago_ns))),
        ],
    )?;
    writeln!(out, "\nLong-haul CNPs:")?;
    fields(
        out,
        [
            ("  Notify", text(counts.cnps.notify)),
            ("  Pause", text(counts.cnps.pause)),
            ("  Rate Reduce", text(counts.cnps.rate_reduce)),
            ("  Resume", text(counts.cnps.resume)),
            ("  Failed", text(counts.cnps.failed)),
            ("  Suppressed", text(counts.suppressed)),
            ("  Flow limit", text(counts.rate_limited_flow)),
            ("  Port limit", text(counts.rate_limited_port)),
            ("  No source QP", text(counts.unknown_source_qp)),
        ],
    )
}
