// SPDX-License-Identifier: Apache-2.0
//! `canopy-rc receive`.

use std::fs::File;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use canopy_control::pb::{JoinRequest, MemoryRegion, Role};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::args::{Op, ReceiveArgs};
use super::send::unicast;
use super::{block_on, local, print, write_whole};
use crate::connection::{Connection, Ingress};
use crate::membership::{self, Member};
use crate::receive::{Receiver, Sink};
use crate::responder::{Counters, Settings};
use crate::transfer::{MTUS, Region};

/// Longest sleep: the interval at which the stop flag and the deadlines are checked.
const NAP: Duration = Duration::from_millis(20);
/// Largest memory to register: all of it is allocated.
const MEMORY_MAX: u64 = 4 << 30;

#[derive(Serialize)]
struct Report<'a> {
    event: &'static str,
    complete: bool,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_sha256: Option<String>,
    immediates: u64,
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

pub(super) fn run(runtime: &Runtime, stop: &AtomicBool, args: &ReceiveArgs) -> Result<()> {
    ensure!(args.bytes > 0, "bytes: nothing to receive; give at least 1");
    let local = local::address(&args.end)?;
    let qpn = local::qpn(&args.end)?;
    let region = region(args)?;
    let memory = region.map_or(0, |region| region.length) as usize;
    let out = args.out.as_ref().map(|path| File::create(path).with_context(|| format!("creating {}", path.display())));
    let sink = Sink::new(memory, out.transpose()?);
    // Bound before joining: the first packet may arrive as soon as the controller knows this receiver.
    let socket = local::socket(&args.end, local)?;
    let (member, connection) = match &args.end.unicast {
        Some(_) => (None, unicast(&args.end, local, qpn)?),
        None => {
            let (member, connection) = block_on(runtime, stop, join(args, local, qpn, region))?;
            (Some(member), connection)
        }
    };
    let mtu = connection.mtu;
    ensure!(MTUS.contains(&mtu), "mtu: {mtu} is not an RDMA path MTU; use 256, 512, 1024, 2048 or 4096");
    let settings = Settings {
        region,
        rnr_every: args.rnr_every,
        rnr_timer: args.rnr_timer,
        stop_after: args.stop_after,
        ..Settings::new(mtu)
    };
    write_ready_file(args, &connection, region)?;
    let mut receiver = Receiver::new(connection, socket, settings, sink);
    let result = receive(&mut receiver, stop, args);
    report(&mut receiver, "exit", &result, args)?;
    receiver.sink().finish().context("writing what was received")?;
    if let (Some(member), true) = (member, args.end.leave) {
        runtime.block_on(member.leave())?;
    }
    result
}

/// Receives all bytes and lingers.
fn receive(receiver: &mut Receiver, stop: &AtomicBool, args: &ReceiveArgs) -> Result<()> {
    let deadline = args.deadline.map(|deadline| Instant::now() + deadline);
    let mut complete = false;
    loop {
        receiver.turn(NAP).context("receiving")?;
        let bytes = receiver.responder().counters().bytes;
        if !complete && bytes >= args.bytes {
            complete = true;
            report(receiver, "complete", &Ok(()), args)?;
        }
        if let Some(code) = receiver.responder().failure() {
            bail!("answered with a fatal NAK: {code:?}");
        }
        let stopped = stop.load(Ordering::Relaxed);
        let idle = receiver.last_packet().map_or(Duration::ZERO, |last| last.elapsed());
        match complete {
            true if stopped || idle >= args.linger => return Ok(()),
            false if stopped => bail!("stopped by a signal after {bytes} of {} bytes", args.bytes),
            false if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                bail!("the deadline has passed after {bytes} of {} bytes", args.bytes)
            }
            _ => {}
        }
    }
}

/// The memory to register: none unless the operation is WRITE.
fn region(args: &ReceiveArgs) -> Result<Option<Region>> {
    if args.end.op == Op::Send {
        return Ok(None);
    }
    let length = args.end.memory.unwrap_or(args.bytes);
    ensure!(
        (1..=MEMORY_MAX).contains(&length),
        "memory: {length} bytes is outside 1..={MEMORY_MAX}; give --memory to register less than all bytes"
    );
    // Different at each receiver, so that an edge that fails to rewrite them is detected.
    let va = match args.end.va {
        Some(va) => va,
        None => 0x7f00_0000_0000 + (u64::from(local::random()?) << 12),
    };
    ensure!(va.checked_add(length).is_some(), "va: {length} bytes at {va:#x} wrap the address space");
    let rkey = match args.end.rkey {
        Some(rkey) => rkey,
        None => local::random()?,
    };
    Ok(Some(Region { va, rkey, length }))
}

async fn join(args: &ReceiveArgs, local: Ipv6Addr, qpn: u32, region: Option<Region>) -> Result<(Member, Connection)> {
    let end = &args.end;
    let request = JoinRequest {
        group: end.group.clone().unwrap_or_default(),
        host: end.host.clone().unwrap_or_default(),
        role: Role::Receiver.into(),
        address: local.octets().to_vec(),
        qpn,
        memory: region.map(|Region { va, rkey, length }| MemoryRegion { va, rkey, length }),
        lease: end.lease,
        instance: local::instance()?,
        ..Default::default()
    };
    let controller = end.controller.as_deref().unwrap_or_default();
    let (member, joined) = Member::join(controller, request, end.join_timeout).await?;
    Ok((member, membership::connection(local, qpn, &joined)?))
}

fn write_ready_file(args: &ReceiveArgs, connection: &Connection, region: Option<Region>) -> Result<()> {
    let Some(path) = &args.ready_file else { return Ok(()) };
    let text = serde_json::json!({
        "address": connection.local,
        "qpn": connection.local_qpn,
        "peer": connection.peer,
        "peer_qpn": connection.peer_qpn,
        "start_psn": connection.start_psn,
        "mtu": connection.mtu,
        "va": region.map(|region| region.va),
        "rkey": region.map(|region| region.rkey),
    });
    write_whole(path, &format!("{text}\n"))
}

fn report(receiver: &mut Receiver, event: &'static str, result: &Result<()>, args: &ReceiveArgs) -> Result<()> {
    let sha256 = receiver.sink().sha256();
    let memory_sha256 = receiver.sink().memory_sha256();
    let immediates = receiver.sink().immediates();
    let counters = receiver.responder().counters();
    let seconds = receiver.elapsed().as_secs_f64();
    let goodput_bps = if seconds > 0.0 { counters.bytes as f64 * 8.0 / seconds } else { 0.0 };
    let report = Report {
        event,
        complete: counters.bytes >= args.bytes,
        sha256,
        memory_sha256,
        immediates,
        seconds,
        goodput_bps,
        counters,
        ingress: receiver.ingress(),
        send_errors: receiver.send_errors(),
        error: result.as_ref().err().map(|error| format!("{error:#}")),
    };
    print(&report, args.end.json)
}
