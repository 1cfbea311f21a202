// SPDX-License-Identifier: Apache-2.0
//! The commands that call a daemon.

use std::io::{self, ErrorKind, Write};
use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use canopy_control::pb;
use canopy_control::pb::steer_service_client::SteerServiceClient;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

use crate::metrics::name;

/// Time limit of a call.
const WITHIN: Duration = Duration::from_secs(10);

pub(super) fn status(socket: &Path, as_json: bool) -> anyhow::Result<()> {
    let status = call(socket, async |mut client| client.get_steering(pb::GetSteeringRequest {}).await)?;
    print(&if as_json { format!("{}\n", status_json(&status)) } else { status_table(&status) })
}

pub(super) fn paths(socket: &Path, address: Ipv6Addr, as_json: bool) -> anyhow::Result<()> {
    let request = pb::GetSteeredPathsRequest { address: address.octets().to_vec() };
    let paths = call(socket, async |mut client| client.get_steered_paths(request).await)?;
    print(&if as_json { format!("{}\n", paths_json(&paths)) } else { paths_table(&paths) })
}

pub(super) fn pin(socket: &Path, address: Ipv6Addr, number: u32) -> anyhow::Result<()> {
    let request = pb::PinPathRequest { address: address.octets().to_vec(), number };
    let pinned = call(socket, async |mut client| client.pin_path(request).await)?;
    let to = pinned.destination.context("the daemon's answer has no destination")?;
    let paths = if to.pinned > 0 { format!("path {}", to.pinned) } else { format!("{} paths", to.active) };
    print(&format!("packets to {} take {paths}\n", name(&to)))
}

/// One call, on a runtime of its own.
fn call<T>(
    socket: &Path,
    call: impl AsyncFnOnce(SteerServiceClient<Channel>) -> Result<tonic::Response<T>, tonic::Status>,
) -> anyhow::Result<T> {
    if !socket.is_absolute() {
        bail!("--socket: {} is not an absolute path", socket.display());
    }
    // An error of the file is clearer than one of gRPC.
    std::os::unix::net::UnixStream::connect(socket)
        .with_context(|| format!("{}: is canopy-steer running, and is this its socket.path?", socket.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))?.timeout(WITHIN);
        let client = SteerServiceClient::new(endpoint.connect().await?).max_decoding_message_size(32 << 20);
        let answer = call(client).await.map_err(|status| anyhow::Error::msg(status.message().to_owned()))?;
        Ok(answer.into_inner())
    })
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    rows.into_iter().for_each(|row| _ = table.add_row(row));
    table.lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(&line).trim_end())).collect()
}

fn status_table(status: &pb::GetSteeringResponse) -> String {
    let pb::GetSteeringResponse { interface, nodes, hosts, reason, .. } = status;
    let mut head = format!("{interface}: {}, fabric of {nodes} nodes and {hosts} hosts\n", mode(status));
    if !reason.is_empty() {
        head += &format!("{}: {reason}\n", if status.steers { "Attention" } else { "Not steered" });
    }
    if status.agent_away_ns > 0 {
        let away = Duration::from_secs(status.agent_away_ns / 1_000_000_000);
        head += &format!(
            "The agent of the host has not answered for {}; its last report applies\n",
            humantime::format_duration(away)
        );
    }
    for counter in status.counters.iter().filter(|counter| counter.value > 0 && counter.name != "encapsulated") {
        head += &format!("{} {}\n", counter.value, meaning(&counter.name));
    }
    head += &probes_line(status);
    if status.destinations.is_empty() {
        return head;
    }
    let row = |to: &pb::SteeredDestination| {
        let pinned = if to.pinned > 0 { to.pinned.to_string() } else { "-".to_owned() };
        vec![
            name(to),
            format!("{} of {}", to.active, to.paths),
            (to.paths - to.usable).to_string(),
            pinned,
            to.mtu.to_string(),
            to.packets.to_string(),
        ]
    };
    let header = ["DESTINATION", "ACTIVE PATHS", "UNUSABLE", "PINNED", "MTU", "PACKETS"];
    head + &table(&header, status.destinations.iter().map(row))
}

/// What probes have found, in words.
fn probes_line(status: &pb::GetSteeringResponse) -> String {
    let Some(probes) = &status.probes else { return "Paths are not probed\n".to_owned() };
    let interval = Duration::from_nanos((probes.interval_ns as f64 * probes.stretch) as u64);
    let interval = Duration::from_micros(interval.as_micros() as u64);
    let pb::SteerProbes { ways, faulty, left_out, silent, refused, .. } = probes;
    let mut lines =
        format!("{ways} paths between edges are probed, those in use every {}", humantime::format_duration(interval));
    if probes.stretch > 1.01 {
        lines += " (probe.rate permits no more)";
    }
    lines += &match faulty {
        0 => "; none has a fault\n".to_owned(),
        1 => "; 1 has a fault\n".to_owned(),
        _ => format!("; {faulty} have faults\n"),
    };
    if *silent > 0 {
        lines +=
            &format!("Of {silent} paths no probe has come back yet, and it is not known whether they have a fault\n");
    }
    if !refused.is_empty() {
        lines += &format!("Probes do not leave this host: {refused}\n");
    }
    if *left_out > 0 {
        lines += &format!("{left_out} paths are not probed, because there are too many\n");
    }
    for pb::SteerSuspect { a, a_port, b, b_port, faulty, of, confidence, is_directed, is_own } in &status.suspects {
        let direction = if *is_directed { " in this direction" } else { "" };
        let percent = (confidence * 100.0).round();
        if *is_own {
            lines += &format!(
                "Suspect: this host's own link or its edge: probes of all paths are lost alike, and packets stay where they are (confidence {percent} %)\n"
            );
            continue;
        }
        lines += &format!(
            "Suspect: link {a}:{a_port} to {b}:{b_port}{direction}, crossed by {faulty} of {of} paths with a fault (confidence {percent} %)\n"
        );
    }
    lines
}

fn meaning(counter: &str) -> &str {
    match counter {
        "no_program" => "packets left without a program, because the slot had none",
        "too_big" => "packets were longer than their path takes: dropped, and answered by Packet Too Big",
        "refused" => {
            "packets left without a program, because the kernel made no room for the header (tunnels, UDP buffers)"
        }
        "failed" => "packets were dropped, because the kernel did not write the header",
        "not_asked" => "destinations came too fast, and were asked for later",
        other => other,
    }
}

fn mode(status: &pb::GetSteeringResponse) -> &'static str {
    match status.mode() {
        pb::SteerMode::Flowlet => "flowlet",
        pb::SteerMode::Spray => "spray",
        pb::SteerMode::Pinned | pb::SteerMode::Unspecified => "pinned",
    }
}

fn status_json(status: &pb::GetSteeringResponse) -> Value {
    let counters: serde_json::Map<_, _> = status.counters.iter().map(|c| (c.name.clone(), json!(c.value))).collect();
    json!({
        "interface": status.interface,
        "mode": mode(status),
        "steers": status.steers,
        "reason": status.reason,
        "nodes": status.nodes,
        "hosts": status.hosts,
        "agentAwaySeconds": status.agent_away_ns as f64 / 1e9,
        "destinations": status.destinations.iter().map(destination_json).collect::<Vec<_>>(),
        "counters": counters,
        "probes": status.probes.as_ref().map(probes_json),
        "suspects": status.suspects.iter().map(suspect_json).collect::<Vec<_>>(),
    })
}

fn probes_json(probes: &pb::SteerProbes) -> Value {
    json!({
        "intervalSeconds": probes.interval_ns as f64 * probes.stretch / 1e9,
        "ways": probes.ways,
        "faulty": probes.faulty,
        "leftOut": probes.left_out,
        "back": probes.back,
        "late": probes.late,
        "marked": probes.marked,
        "congested": probes.congested,
        "lost": probes.lost,
        "notSent": probes.not_sent,
        "silent": probes.silent,
        "refused": if probes.refused.is_empty() { None } else { Some(&probes.refused) },
    })
}

fn suspect_json(link: &pb::SteerSuspect) -> Value {
    json!({
        "own": link.is_own,
        "a": { "node": link.a, "port": link.a_port },
        "b": { "node": link.b, "port": link.b_port },
        "faulty": link.faulty,
        "of": link.of,
        "confidence": link.confidence,
        "directed": link.is_directed,
    })
}

fn destination_json(to: &pb::SteeredDestination) -> Value {
    json!({
        "prefix": name(to),
        "paths": to.paths,
        "active": to.active,
        "usable": to.usable,
        "pinned": if to.pinned > 0 { Some(to.pinned) } else { None },
        "packets": to.packets,
        "mtu": to.mtu,
    })
}

fn address(octets: &[u8]) -> String {
    <[u8; 16]>::try_from(octets).map_or_else(|_| "?".to_owned(), |octets| Ipv6Addr::from(octets).to_string())
}

fn paths_table(paths: &pb::GetSteeredPathsResponse) -> String {
    let pinned = paths.destination.as_ref().map_or(0, |to| to.pinned);
    let row = |path: &pb::SteeredPath| {
        let trouble = match path.fault() {
            pb::SteerFault::BlackHole => Some("black hole"),
            pb::SteerFault::Loss => Some("loss"),
            pb::SteerFault::Unspecified if !path.is_usable => Some("out of service"),
            pb::SteerFault::Unspecified if path.path_id > 0 && path.weight > 0.0 && path.weight < 1.0 => {
                Some("reduced")
            }
            pb::SteerFault::Unspecified => None,
        };
        let part = if path.path_id == 0 {
            None
        } else if path.number == pinned {
            Some("pinned")
        } else {
            Some("active")
        };
        let state = match (part, trouble) {
            (Some(part), Some(trouble)) => format!("{part}, {trouble}"),
            (Some(one), None) | (None, Some(one)) => one.to_owned(),
            (None, None) => "standby".to_owned(),
        };
        let rtt = if path.rtt_ns > 0 { format!("{:.1} us", path.rtt_ns as f64 / 1e3) } else { "-".to_owned() };
        let lost = format!("{} of {}", path.probes_lost, path.probes_back + path.probes_lost);
        let id = if path.path_id > 0 { format!("{:#07x}", path.path_id) } else { "-".to_owned() };
        let segments: Vec<String> = path.segments.iter().rev().map(|segment| address(segment)).collect();
        let program = [vec![address(&path.destination)], segments].concat().join(" ");
        let [packets, mtu] = [path.packets, path.mtu.into()].map(|count: u64| count.to_string());
        vec![
            path.number.to_string(),
            state,
            id,
            format!("{}/64", path.slots),
            packets,
            mtu,
            rtt,
            lost,
            program,
            path.nodes.join(" "),
        ]
    };
    let header = ["PATH", "STATE", "FLOW LABEL", "SHARE", "PACKETS", "MTU", "RTT", "PROBES LOST", "PROGRAM", "NODES"];
    table(&header, paths.paths.iter().map(row))
}

fn paths_json(paths: &pb::GetSteeredPathsResponse) -> Value {
    let path = |path: &pb::SteeredPath| {
        json!({
            "path": path.number,
            "nodes": path.nodes,
            "destination": address(&path.destination),
            "segments": path.segments.iter().rev().map(|segment| address(segment)).collect::<Vec<_>>(),
            "mtu": path.mtu,
            "usable": path.is_usable && path.fault() == pb::SteerFault::Unspecified,
            "pathId": if path.path_id > 0 { Some(path.path_id) } else { None },
            "slots": path.slots,
            "packets": path.packets,
            "octets": path.octets,
            "fault": match path.fault() {
                pb::SteerFault::BlackHole => Some("blackHole"),
                pb::SteerFault::Loss => Some("loss"),
                pb::SteerFault::Unspecified => None,
            },
            "faultSeconds": if path.fault_ns > 0 { Some(path.fault_ns as f64 / 1e9) } else { None },
            "rttSeconds": if path.rtt_ns > 0 { Some(path.rtt_ns as f64 / 1e9) } else { None },
            "leastRttSeconds": if path.least_rtt_ns > 0 { Some(path.least_rtt_ns as f64 / 1e9) } else { None },
            "probesBack": path.probes_back,
            "probesLost": path.probes_lost,
            "probesCongested": path.probes_congested,
            "weight": path.weight,
        })
    };
    json!({
        "destination": paths.destination.as_ref().map(destination_json),
        "paths": paths.paths.iter().map(path).collect::<Vec<_>>(),
    })
}
