// SPDX-License-Identifier: Apache-2.0
//! `canopy-rc send`.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use canopy_control::pb::{JoinRequest, Role};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::args::{EndArgs, Op, SendArgs};
use super::{block_on, local, print};
use crate::connection::{Connection, Ingress};
use crate::content::Content;
use crate::membership::{self, Member};
use crate::requester::{Counters, Settings};
use crate::send::Sender;
use crate::transfer::{Operation, Region, Transfer};

#[derive(Serialize)]
struct Report<'a> {
    event: &'static str,
    bytes: u64,
    sha256: Option<String>,
    seconds: f64,
    goodput_bps: f64,
    #[serde(flatten)]
    counters: &'a Counters,
    #[serde(flatten)]
    ingress: &'a Ingress,
    send_errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn run(runtime: &Runtime, stop: &AtomicBool, args: &SendArgs) -> Result<()> {
    let (content, bytes) = content(args)?;
    let settings = Settings::new(args.window, args.ack_every, args.timeout, args.retries)?;
    let settings = if args.ignore_cnps { settings.ignoring_cnps() } else { settings };
    let local = local::address(&args.end)?;
    let qpn = local::qpn(&args.end)?;
    let socket = local::socket(&args.end, local)?;
    let (member, connection, operation) = match &args.end.unicast {
        Some(_) => (None, unicast(&args.end, local, qpn)?, unicast_operation(&args.end, bytes)?),
        None => {
            let (member, connection, operation) = block_on(runtime, stop, join(args, local, qpn))?;
            (Some(member), connection, operation)
        }
    };
    let transfer = Transfer::new(bytes, args.message_size, connection.mtu, operation, args.imm)?;
    let mut sender = Sender::new(connection, socket, content, transfer, settings);
    let bar = if args.progress { progress_bar(bytes)? } else { ProgressBar::hidden() };
    let begun = Instant::now();
    let result = sender.run(begun + args.deadline, stop, |acked| bar.set_position(acked));
    let seconds = begun.elapsed().as_secs_f64();
    bar.finish_and_clear();
    report(&sender, seconds, &result, args.end.json)?;
    if let (Some(member), true) = (member, args.end.leave) {
        runtime.block_on(member.leave())?;
    }
    result
}

/// The unicast connection that the command line describes.
pub(super) fn unicast(args: &EndArgs, local: std::net::Ipv6Addr, local_qpn: u32) -> Result<Connection> {
    let peer = args.unicast.context("unicast: missing")?;
    let mtu = u32::try_from(args.mtu).unwrap_or(u32::MAX);
    let (address, peer_qpn, start_psn) = (peer.address, peer.qpn, peer.psn);
    Ok(Connection { local, local_qpn, peer: address, peer_qpn, start_psn, mtu })
}

fn content(args: &SendArgs) -> Result<(Content, u64)> {
    match (&args.file, args.bytes) {
        (Some(path), _) => Content::open(path).with_context(|| format!("opening {}", path.display())),
        (None, bytes) => Ok((Content::Random(args.seed), bytes.unwrap_or(0))),
    }
}

fn unicast_operation(args: &EndArgs, bytes: u64) -> Result<Operation> {
    match args.op {
        Op::Send => Ok(Operation::Send),
        Op::Write => Ok(Operation::Write(Region {
            va: args.va.context("va: a unicast WRITE needs the receiver's --va")?,
            rkey: args.rkey.context("rkey: a unicast WRITE needs the receiver's --rkey")?,
            length: args.memory.unwrap_or(bytes),
        })),
    }
}

async fn join(args: &SendArgs, local: std::net::Ipv6Addr, qpn: u32) -> Result<(Member, Connection, Operation)> {
    let end = &args.end;
    let request = JoinRequest {
        group: end.group.clone().unwrap_or_default(),
        host: end.host.clone().unwrap_or_default(),
        role: Role::Source.into(),
        address: local.octets().to_vec(),
        qpn,
        memory: None,
        lease: end.lease,
        instance: local::instance()?,
        ..Default::default()
    };
    let controller = end.controller.as_deref().unwrap_or_default();
    let (mut member, joined) = Member::join(controller, request, end.join_timeout).await?;
    let connection = membership::connection(local, qpn, &joined)?;
    let write = end.op == Op::Write;
    if args.at_once {
        ensure!(!write, "--at-once is for --op send: a WRITE needs the length of the receivers' memory");
        return Ok((member, connection, Operation::Send));
    }
    let state = member.ready(args.wait_receivers, write, args.ready_timeout).await?;
    let operation = match end.op {
        Op::Send => Operation::Send,
        Op::Write => {
            Operation::Write(Region { va: joined.write_base_va, rkey: joined.write_rkey, length: state.write_length })
        }
    };
    Ok((member, connection, operation))
}

fn progress_bar(bytes: u64) -> Result<ProgressBar> {
    let template = "{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(template).context("making the progress bar")?;
    Ok(ProgressBar::new(bytes).with_style(style))
}

fn report(sender: &Sender, seconds: f64, result: &Result<()>, json: bool) -> Result<()> {
    let bytes = sender.requester().bytes_acked();
    let report = Report {
        event: if result.is_ok() { "complete" } else { "failed" },
        bytes,
        sha256: result.is_ok().then(|| sender.sha256()),
        seconds,
        goodput_bps: bytes as f64 * 8.0 / seconds,
        counters: sender.requester().counters(),
        ingress: sender.ingress(),
        send_errors: sender.send_errors(),
        error: result.as_ref().err().map(|error| format!("{error:#}")),
    };
    print(&report, json)
}
