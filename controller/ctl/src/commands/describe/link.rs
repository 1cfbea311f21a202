// SPDX-License-Identifier: Apache-2.0
//! A link direction: the inputs of its thresholds, the thresholds, the state of its queue, and its flows.

use std::io::Write;

use serde_json::Value;

use super::{ago, field};
use crate::client::Client;
use crate::commands::{flows, link_path};
use crate::failure::Failure;
use crate::output::{list, table, text};

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let link = client.get(&format!("describing link {name}"), &link_path(name)?).await?;
    for (label, pointer) in [
        ("From", "/metadata/name"),
        ("To", "/spec/to"),
        ("Link", "/spec/link"),
        ("Rate (bit/s)", "/spec/rateBps"),
        ("Buffer (octets)", "/spec/bufferBytes"),
        ("Alpha (1/1000)", "/spec/alpha"),
        ("K_base (octets)", "/spec/kBaseBytes"),
    ] {
        field(out, label, text(&link, pointer))?;
    }
    writeln!(out, "\nRound-trip time (ns):")?;
    for (label, pointer) in [
        ("  Configured", "/status/rtt/configuredNs"),
        ("  Measured", "/status/rtt/measuredNs"),
        ("  Smallest, 2.4 s", "/status/rtt/filteredNs"),
        ("  RTT_est", "/status/rtt/estimateNs"),
        ("  Samples", "/status/rtt/samples"),
        ("  Lost", "/status/rtt/lost"),
    ] {
        field(out, label, text(&link, pointer))?;
    }
    let age = |pointer: &str| ago(link.pointer(pointer).and_then(Value::as_u64));
    field(out, "  Reported", age("/status/rtt/reportedAgoNs"))?;
    writeln!(out, "\nThresholds:")?;
    let reason = text(&link, "/status/reason");
    if reason != "-" {
        field(out, "  None", reason)?;
    } else {
        thresholds(&link, out)?;
    }
    queue(&link, out)?;
    let flows = client.get("listing flows", &format!("/api/v1/flows?{}", flows::query(name)?)).await?;
    let flows: Vec<Value> = list(&flows, "/items").iter().map(flows::shown).collect();
    if flows.is_empty() {
        return Ok(());
    }
    for (title, columns) in [("Flows", flows::traffic()), ("Long-haul CNPs about them", flows::notifications())] {
        writeln!(out, "\n{title}:")?;
        let header: Vec<&str> = columns.iter().map(|c| c.0).collect();
        table(out, &header, flows.iter().map(|flow| columns.iter().map(|c| text(flow, c.1)).collect()).collect())?;
    }
    Ok(())
}

fn thresholds(link: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let age = |pointer: &str| ago(link.pointer(pointer).and_then(Value::as_u64));
    field(out, "  K_max (octets)", text(link, "/status/thresholds/kMaxBytes"))?;
    field(out, "  K_min (octets)", text(link, "/status/thresholds/kMinBytes"))?;
    let bound = match text(link, "/status/thresholds/bound/by").as_str() {
        "buffer" => {
            format!("the port's buffer; the formula gives {}", text(link, "/status/thresholds/bound/wantedBytes"))
        }
        "base" => "K_base; the bandwidth-delay product is smaller".to_owned(),
        "bandwidthDelay" => "alpha times the bandwidth-delay product".to_owned(),
        other => other.to_owned(),
    };
    field(out, "  Bound by", bound)?;
    field(out, "  Computed from", format!("{} ns", text(link, "/status/pushedRttNs")))?;
    field(out, "  Last change", age("/status/pushedAgoNs"))?;
    field(out, "  Changes", text(link, "/status/pushes"))
}

fn queue(link: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "\nQueue:")?;
    let congestion = link.pointer("/status/congestion").filter(|c| !c.is_null());
    let Some(congestion) = congestion else {
        return field(
            out,
            "  Unknown",
            "not reported: check that the node's agent is connected and that the link has thresholds",
        );
    };
    for (label, pointer) in [
        ("  Depth (octets)", "/queueBytes"),
        ("  Peak (octets)", "/peakQueueBytes"),
        ("  Depth from", "/depthSource"),
        ("  Level (0..255)", "/level"),
        ("  Peak level", "/peakLevel"),
        ("  EMR (1/1000)", "/emrPermille"),
        ("  QGR (octets/ms)", "/qgrBytesPerMs"),
        ("  Packets", "/packets"),
        ("  Octets", "/bytes"),
        ("  Marked here", "/marked"),
        ("  Left with CE", "/ce"),
        ("  Not ECN capable", "/notEct"),
    ] {
        field(out, label, text(congestion, pointer))?;
    }
    field(out, "  Reported", ago(congestion.get("reportedAgoNs").and_then(Value::as_u64)))?;
    writeln!(out, "\nLong-haul CNPs:")?;
    for (label, pointer) in [
        ("  Notify", "/cnps/notify"),
        ("  Pause", "/cnps/pause"),
        ("  Rate Reduce", "/cnps/rateReduce"),
        ("  Resume", "/cnps/resume"),
        ("  Failed", "/cnps/failed"),
        ("  Suppressed", "/suppressed"),
        ("  Flow limit", "/rateLimitedFlow"),
        ("  Port limit", "/rateLimitedPort"),
        ("  No source QP", "/unknownSourceQp"),
    ] {
        field(out, label, text(congestion, pointer))?;
    }
    Ok(())
}
