// SPDX-License-Identifier: Apache-2.0
//! The commands that call a daemon.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use canopy_host::Error;
use canopy_host::pacing::{Action, Cause, Client, LimitedBy, Means, OpenOptions, Origin, Qp, Status};
use canopy_units::Monotonic;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value, json};

use super::Open;

pub(super) fn status(socket: &Path, as_json: bool) -> anyhow::Result<()> {
    let status = Client::connect(socket)?.status()?;
    let text = if as_json { format!("{}\n", status_json(&status)) } else { status_table(&status) };
    print(&text).map(drop)
}

pub(super) fn open(open: &Open) -> anyhow::Result<()> {
    let Open { qpn, peer, dest_qpn, line_rate, min_rate, rtt, .. } = *open;
    let options = OpenOptions { qpn, peer, dest_qpn, line_rate, min_rate, rtt };
    let qp = Client::connect(&open.socket.socket)?.open(options)?;
    print(&format!("QP {} to {} QP {}: {}\n", qp.qpn, qp.peer, qp.dest_qpn, qp.rate)).map(drop)
}

pub(super) fn close(socket: &Path, qpn: u32) -> anyhow::Result<()> {
    Ok(Client::connect(socket)?.close(qpn)?)
}

pub(super) fn watch(socket: &Path, as_json: bool) -> anyhow::Result<()> {
    for action in Client::connect(socket)?.actions() {
        let action = match action {
            Ok(action) => action,
            // The daemon may restart; the new watch starts with the current state.
            Err(Error::Unavailable(reason)) => {
                eprintln!("canopy-pacer: {reason}; watching again");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let line = if as_json { action_json(&action).to_string() } else { action_line(&action) };
        if !print(&format!("{line}\n"))? {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns `false` if the output was closed.
fn print(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn status_table(status: &Status) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["QPN", "PEER", "DEST QPN", "ORIGIN", "RATE", "PAUSED", "LIMITED BY", "RTT"]);
    for qp in &status.qps {
        let paused = qp.pause_left.map_or("-".to_owned(), |left| format!("{:.1} ms", left.as_secs_f64() * 1e3));
        let rtt = format!("{:.3} ms{}", qp.rtt.as_secs_f64() * 1e3, if qp.rtt_is_measured { "" } else { " (given)" });
        table.add_row([
            qp.qpn.to_string(),
            qp.peer.to_string(),
            qp.dest_qpn.to_string(),
            origin(qp.origin).to_owned(),
            qp.rate.to_string(),
            paused,
            limited_by(qp).unwrap_or_else(|| "-".to_owned()),
            rtt,
        ]);
    }
    let Status { interface, nodes, line_rate, pacing, .. } = status;
    let head =
        format!("{interface}: {}, {line_rate}, {nodes} nodes, {} queue pairs\n", means(*pacing), status.qps.len());
    let rows: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if status.qps.is_empty() { head } else { head + &rows }
}

fn status_json(status: &Status) -> Value {
    let counters = |list: &[(String, u64)]| list.iter().map(|(n, v)| (n.clone(), json!(v))).collect::<Map<_, _>>();
    json!({
        "interface": status.interface,
        "pacing": means(status.pacing),
        "lineRateBps": status.line_rate.bps(),
        "nodes": status.nodes,
        "monotonicNs": status.at.nanos(),
        "qps": status.qps.iter().map(qp_json).collect::<Vec<_>>(),
        "received": counters(&status.received),
        "outcomes": counters(&status.outcomes),
        "actions": counters(&status.actions),
    })
}

fn qp_json(qp: &Qp) -> Value {
    json!({
        "qpn": qp.qpn,
        "peer": qp.peer.to_string(),
        "destQpn": qp.dest_qpn,
        "origin": origin(qp.origin),
        "rateBps": qp.rate.bps(),
        "lineRateBps": qp.line_rate.bps(),
        "minRateBps": qp.min_rate.bps(),
        "paused": qp.pause_left.is_some(),
        "pauseLeftUs": qp.pause_left.map_or(0, |left| left.as_micros() as u64),
        "limitedBy": limited_by(qp),
        "rttUs": qp.rtt.as_secs_f64() * 1e6,
        "rttMeasured": qp.rtt_is_measured,
    })
}

fn action_json(action: &Action) -> Value {
    let mut object = json!({
        "action": cause(action.cause),
        "receivedNs": action.received_at.map(Monotonic::nanos),
        "appliedNs": action.applied_at.nanos(),
        "appliedUnixNs": action.applied_unix.nanos(),
        "missed": action.missed,
    });
    if let (Value::Object(into), Value::Object(qp)) = (&mut object, qp_json(&action.qp)) {
        into.extend(qp);
    }
    object
}

fn action_line(action: &Action) -> String {
    let qp = &action.qp;
    let at = action.applied_unix.nanos();
    let mut line = format!(
        "{}.{:06} QP {} to {} QP {}: {}: {}",
        at / 1_000_000_000,
        at % 1_000_000_000 / 1_000,
        qp.qpn,
        qp.peer,
        qp.dest_qpn,
        cause(action.cause),
        qp.rate
    );
    if let Some(left) = qp.pause_left {
        line += &format!(", paused for {:.3} ms", left.as_secs_f64() * 1e3);
    }
    if let Some(who) = limited_by(qp) {
        line += &format!(", because of {who}");
    }
    if action.missed > 0 {
        line += &format!(" ({} changes before this one were missed)", action.missed);
    }
    line
}

fn limited_by(qp: &Qp) -> Option<String> {
    qp.limited_by.map(|who| match who {
        LimitedBy::Node(node) => node.to_string(),
        _ => "peer".to_owned(),
    })
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Learned => "learned",
        Origin::Agent => "agent",
        _ => "registered",
    }
}

fn means(means: Means) -> &'static str {
    match means {
        Means::Edt => "edt",
        Means::Htb => "htb",
        _ => "none",
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::State => "state",
        Cause::Open => "open",
        Cause::Close => "close",
        Cause::Adjust => "adjust",
        Cause::Notify => "notify",
        Cause::Reduce => "reduce",
        Cause::Pause => "pause",
        Cause::Resume => "resume",
        Cause::Cnp => "cnp",
        Cause::PauseEnd => "pause-end",
        Cause::Increase => "increase",
        _ => "other",
    }
}
