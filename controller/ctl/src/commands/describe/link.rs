// SPDX-License-Identifier: Apache-2.0
//! A link direction: what its thresholds are made of, and what they are.

use std::io::Write;

use serde_json::Value;

use super::{ago, field};
use crate::client::Client;
use crate::commands::link_path;
use crate::failure::Failure;
use crate::output::text;

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
        return Ok(());
    }
    field(out, "  K_max (octets)", text(&link, "/status/thresholds/kMaxBytes"))?;
    field(out, "  K_min (octets)", text(&link, "/status/thresholds/kMinBytes"))?;
    let bound = match text(&link, "/status/thresholds/bound/by").as_str() {
        "buffer" => format!("the port's buffer; wanted were {}", text(&link, "/status/thresholds/bound/wantedBytes")),
        "base" => "K_base; the bandwidth-delay product is smaller".to_owned(),
        "bandwidthDelay" => "alpha times the bandwidth-delay product".to_owned(),
        other => other.to_owned(),
    };
    field(out, "  Bound by", bound)?;
    field(out, "  Computed from", format!("{} ns", text(&link, "/status/pushedRttNs")))?;
    field(out, "  Last change", age("/status/pushedAgoNs"))?;
    field(out, "  Changes", text(&link, "/status/pushes"))
}
