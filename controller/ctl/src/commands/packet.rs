// SPDX-License-Identifier: Apache-2.0
//! `packet GROUP`: one packet of a group as it is at every hop, and what each node changed.

use std::io::Write;
use std::net::Ipv6Addr;
use std::time::Duration;

use canopy_controller_api::capture::{
    Capture, CaptureChange, CaptureDirection, CaptureFrame, CaptureHop, CaptureOuter, CaptureRequest, CaptureState,
    ExpectedHop, ExpectedPacket,
};
use serde_json::Value;
use tokio::time::Instant;

use super::segment;
use crate::cli::{PacketArgs, PacketOutput};
use crate::client::{Client, parse};
use crate::failure::{Exit, Failure};
use crate::output::{json, table, text};

/// Time between two readings of a capture: there is no stream of captures.
const EVERY: Duration = Duration::from_millis(100);
/// The longest that one capture waits.
const LONGEST: Duration = Duration::from_secs(5);
/// The headend reports once a second: what the source sent until the end of a capture is known after that.
const REPORTED: Duration = Duration::from_millis(1200);
/// Octets of a value that are printed.
const PRINTED: usize = 8;

/// See the module.
///
/// # Errors
/// The controller cannot be reached or refused it, no packet passed, or the file cannot be written.
pub async fn run(client: &Client, args: &PacketArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let group = segment("group", &args.group)?;
    if args.expected {
        return expected(client, args, &format!("/api/v1/groups/{group}/packet"), out).await;
    }
    let path = format!("/api/v1/groups/{group}/captures");
    let doing = format!("capturing a packet of group {}", args.group);
    let (answer, capture) = capture(client, args, &path, &doing).await?;
    if !capture.hops.iter().any(|hop| hop.frame.is_some()) {
        return Err(nothing(&capture));
    }
    if let Some(file) = &args.pcapng {
        let octets = client.octets(&doing, &format!("{path}/{}?format=pcapng", capture.id)).await?;
        let failed = |e| Failure::new(Exit::Error, format!("writing {}: {e}", file.display()));
        std::fs::write(file, octets).map_err(failed)?;
    }
    if args.output == PacketOutput::Json { json(out, &answer) } else { write(&capture, out) }
}

/// What the packet has to be at every place.
async fn expected(client: &Client, args: &PacketArgs, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let doing = format!("reading the packet of group {}", args.group);
    let octets = client.octets(&doing, path).await?;
    if args.output == PacketOutput::Json {
        return json(out, &parse::<Value>(&doing, &octets)?);
    }
    let packet: ExpectedPacket = parse(&doing, &octets)?;
    if packet.hops.is_empty() {
        writeln!(out, "group {} has no tree: no packet can pass", text(&packet.group))?;
    }
    for hop in &packet.hops {
        let ExpectedHop { node, port, peer, fields, .. } = hop;
        let (to, leaves) = match hop.direction {
            CaptureDirection::In => ("from", "in"),
            CaptureDirection::Out => ("to", "out"),
        };
        writeln!(out, "{}/{} {leaves}, {to} {}", text(node), text(port), text(peer))?;
        let rows =
            fields.iter().map(|field| vec![format!("  {}", text(field.field)), text(&field.value), text(&field.why)]);
        table(out, &[], rows.collect())?;
        writeln!(out)?;
    }
    if packet.left > 0 {
        writeln!(out, "{} more places are left out", packet.left)?;
    }
    Ok(())
}

/// Captures a packet, and another one while the source sends and none was seen: its rate rises and falls.
async fn capture(client: &Client, args: &PacketArgs, path: &str, doing: &str) -> Result<(Value, Capture), Failure> {
    let end = Instant::now() + args.timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now()).min(LONGEST).as_secs_f64();
        let request = CaptureRequest { psn: args.psn, within_seconds: Some(left.ceil().max(1.0) as u32) };
        let body = serde_json::to_value(request).map_err(|e| Failure::new(Exit::Error, e.to_string()))?;
        let armed: Capture = client.post(doing, path, &body).await?;
        let (answer, capture) = ended(client, &format!("{path}/{}", armed.id), doing).await?;
        let is_seen = capture.hops.iter().any(|hop| hop.frame.is_some());
        if is_seen || args.psn.is_some() || capture.sent.unwrap_or(0) == 0 || Instant::now() >= end {
            return Ok((answer, capture));
        }
    }
}

/// The capture once nothing more is waited for.
async fn ended(client: &Client, path: &str, doing: &str) -> Result<(Value, Capture), Failure> {
    loop {
        let (answer, capture) = read(client, path, doing).await?;
        match capture.state {
            CaptureState::Armed => tokio::time::sleep(EVERY).await,
            CaptureState::Complete => return Ok((answer, capture)),
            CaptureState::Expired => {
                tokio::time::sleep(REPORTED).await;
                return read(client, path, doing).await;
            }
        }
    }
}

async fn read(client: &Client, path: &str, doing: &str) -> Result<(Value, Capture), Failure> {
    let octets = client.octets(doing, path).await?;
    Ok((parse(doing, &octets)?, parse(doing, &octets)?))
}

/// Why no packet was seen.
fn nothing(capture: &Capture) -> Failure {
    let (group, psn, within) = (text(&capture.group), capture.psn, Duration::from_nanos(capture.within_ns));
    let why = match capture.sent {
        Some(0) => format!("its source sent nothing within {within:?}: send data, and try again"),
        Some(sent) => format!(
            "the packet with PSN {psn} did not pass within {within:?}, although the source sent {sent} PSNs: try again, or name one with --psn"
        ),
        None => format!("the packet with PSN {psn} did not pass within {within:?}, and the headend does not report"),
    };
    Failure::new(Exit::Timeout, format!("group {group}: no packet was captured: {why}{}", unable(capture)))
}

/// Which nodes do not capture.
fn unable(capture: &Capture) -> String {
    if capture.unable.is_empty() {
        return String::new();
    }
    let nodes: Vec<String> = capture.unable.iter().map(text).collect();
    format!("\nnot captured at {}: no agent is connected there, or one of an earlier version", nodes.join(", "))
}

fn write(capture: &Capture, out: &mut dyn Write) -> Result<(), Failure> {
    let (group, psn) = (text(&capture.group), capture.psn);
    let seen = capture.hops.iter().filter(|hop| hop.frame.is_some()).count();
    writeln!(out, "group {group}, PSN {psn}: seen at {seen} of {} places\n", capture.hops.len())?;
    let header = ["NODE", "", "PORT", "PEER", "OUTER SA", "OUTER DA", "LEFT", "INNER DA", "DQPN", "PSN"];
    table(out, &header, capture.hops.iter().map(row).collect())?;
    for hop in &capture.hops {
        let changes = hop.frame.iter().flat_map(|frame| &frame.changes);
        // Link-layer addresses are other ones behind every hop.
        let changes: Vec<_> = changes.filter(|change| text(change.field) != "ethernet").collect();
        if changes.is_empty() {
            continue;
        }
        writeln!(out, "\n{}/{} {}: changed", text(&hop.node), text(&hop.port), direction(hop))?;
        let rows = changes.into_iter().map(|change| {
            let values = format!("{} -> {}", value(change, &change.before), value(change, &change.after));
            vec![format!("  {}", text(change.field)), values, text(&change.why)]
        });
        table(out, &[], rows.collect())?;
    }
    for hop in &capture.hops {
        for difference in hop.frame.iter().flat_map(|frame| &frame.unexpected) {
            let (node, port, expected) = (text(&hop.node), text(&hop.port), text(&difference.expected));
            writeln!(out, "\n{node}/{port} {}: {} is not {expected}", direction(hop), text(difference.field))?;
        }
    }
    if capture.left > 0 {
        writeln!(out, "\n{} more places or frames are left out", capture.left)?;
    }
    if !capture.unable.is_empty() {
        writeln!(out, "{}", unable(capture))?;
    }
    Ok(())
}

fn direction(hop: &CaptureHop) -> &'static str {
    match hop.direction {
        CaptureDirection::In => "in",
        CaptureDirection::Out => "out",
    }
}

fn row(hop: &CaptureHop) -> Vec<String> {
    let place = [text(&hop.node), direction(hop).to_owned(), text(&hop.port), text(&hop.peer)];
    let headers = hop.frame.as_ref().map_or_else(|| vec!["not seen".to_owned()], headers);
    place.into_iter().chain(headers).collect()
}

fn headers(frame: &CaptureFrame) -> Vec<String> {
    let outer = frame.outer.as_ref();
    let of_outer = |what: fn(&CaptureOuter) -> String| outer.map_or("-".to_owned(), what);
    vec![
        of_outer(|o| o.source.to_string()),
        of_outer(|o| o.destination.to_string()),
        of_outer(|o| o.segments_left.to_string()),
        frame.destination.to_string(),
        format!("{:#08x}", frame.dest_qp),
        frame.psn.to_string(),
    ]
}

/// A value as people read it: an address, or hexadecimal digits, the first ones of many.
fn value(change: &CaptureChange, digits: &str) -> String {
    let field = text(change.field);
    let octets = digits.len() / 2;
    if digits.is_empty() {
        return "nothing".to_owned();
    }
    if octets == 16 && (field.ends_with("ource") || field.ends_with("estination")) {
        let address = u128::from_str_radix(digits, 16).map(Ipv6Addr::from);
        return address.map_or_else(|_| text(digits), |address| address.to_string());
    }
    if octets <= PRINTED {
        return format!("0x{}", text(digits));
    }
    format!("{octets} octets")
}
