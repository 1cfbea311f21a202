// SPDX-License-Identifier: Apache-2.0
//! Events of the ingress program: ended CNP windows, first data of a group, and fatal NAKs, which are never merged.

use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_agent_core::DatapathError;
use canopy_model::ids::GroupId;
use canopy_model::telemetry::{Event, EventCode};
use canopy_packet::bth::{Bth, Opcode};
use canopy_packet::ipv6::Ipv6;
use canopy_packet::udp::{ROCE_PORT, Udp};
use libbpf_rs::{MapHandle, RingBufferBuilder};
use tokio::sync::mpsc;

use crate::bpf::{Bpf, Control, Table};
use crate::error::{Context, chain};
use crate::plain::read;
use crate::skel::types;
use crate::tables;

const EVENT_CNP: u32 = 1;
const EVENT_FIRST_DATA: u32 = 3;
/// An older CNP event is ignored: a restarted agent sends no CNPs for windows that ended before.
const STALE_NS: u64 = 100_000_000;
/// UDP + BTH + 16 reserved + ICRC.
const CNP_PAYLOAD: u16 = 40;
/// Events that wait for the event loop, in addition to some 8,000 in the ring buffer; when both are full, the newest are lost.
const DEPTH: usize = 1024;

/// The thread that reads the ring buffer.
pub(crate) struct Events {
    receiver: mpsc::Receiver<types::canopy_event>,
    stop: Arc<AtomicBool>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Events {
    pub(crate) fn open(pin: &Path) -> Result<Self, DatapathError> {
        let map = MapHandle::from_pinned_path(pin).with_context(|| format!("opening {}", pin.display()))?;
        let (tx, receiver) = mpsc::channel(DEPTH);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::Builder::new()
            .name("bpf-events".into())
            .spawn(move || pump(&map, &tx, &stopped))
            .context("starting the event reader")?;
        Ok(Self { receiver, stop })
    }

    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> types::canopy_event {
        match self.receiver.recv().await {
            Some(e) => e,
            None => std::future::pending().await,
        }
    }
}

fn pump(map: &MapHandle, tx: &mpsc::Sender<types::canopy_event>, stop: &AtomicBool) {
    let mut builder = RingBufferBuilder::new();
    let push = |data: &[u8]| {
        if let Some(e) = read(data) {
            // If the event loop does not keep up, the newest event is lost.
            let _ = tx.try_send(e);
        }
        0
    };
    let added = builder.add(map, push).map(drop);
    let ring = match added.and_then(|()| builder.build()) {
        Ok(ring) => ring,
        Err(e) => {
            tracing::error!(error = %e, "cannot read the event ring buffer: this node sends no CNPs upstream until the agent is restarted");
            return;
        }
    };
    while !stop.load(Ordering::Relaxed) {
        if let Err(e) = ring.poll(Duration::from_millis(200)) {
            tracing::warn!(error = %e, "cannot poll the event ring buffer, trying again");
        }
    }
}

/// Handles one event; returns the event to report to the controller, if any.
pub(crate) fn act(bpf: &Bpf, e: &types::canopy_event) -> Option<Event> {
    if e.kind == EVENT_CNP {
        let late = monotonic_ns().saturating_sub(e.time_ns);
        if late >= STALE_NS {
            tracing::debug!(
                group = e.group_id,
                late_ms = late / 1_000_000,
                "ignored the end of a CNP window: the event is too old"
            );
        } else if let Err(error) = send_cnp(bpf, e.group_id) {
            tracing::warn!(error = chain(&error), group = e.group_id, "cannot send a CNP upstream");
        }
        return None;
    }
    let group = GroupId::new("group", e.group_id.into()).ok();
    if e.kind == EVENT_FIRST_DATA {
        let detail =
            format!("first packet of the source, PSN {:#08x}: receivers that join from now on are late", e.value);
        return Some(Event { time_unix_ns: unix_ns(), code: EventCode::FirstData, group, branch: None, detail });
    }
    let branch = branch_address(bpf, e.group_id, e.slot);
    let name = branch.map_or_else(|| "a branch that has left".to_string(), |a| a.to_string());
    let detail = format!(
        "{name} answered with a fatal NAK (AETH syndrome {:#04x}): its QP is in error and will not recover by retransmission",
        e.value
    );
    Some(Event { time_unix_ns: unix_ns(), code: EventCode::FatalNak, group, branch, detail })
}

/// Sends one CNP upstream for an ended window (draft-li, CNP Aggregation).
fn send_cnp(bpf: &Bpf, group: u32) -> Result<(), DatapathError> {
    let Some(g) = bpf.get_as::<u32, types::canopy_group>(Table::Groups, &group)? else { return Ok(()) };
    bpf.control(group, Control::Send, &cnp_frame(&g).context("composing a CNP")?)
}

fn cnp_frame(g: &types::canopy_group) -> Result<Vec<u8>, String> {
    let mut packet = vec![0; 40 + usize::from(CNP_PAYLOAD) - 4];
    let ip = Ipv6 {
        // DSCP 48, the default of hosts for CNPs.
        traffic_class: 48 << 2,
        flow_label: 0,
        payload_len: CNP_PAYLOAD,
        next_header: 17,
        hop_limit: 64,
        src: tables::address(&g.up_sa),
        dst: tables::address(&g.up_da),
    };
    let udp = Udp { src_port: g.up_sport as u16, dst_port: ROCE_PORT, length: CNP_PAYLOAD, checksum: 0 };
    let bth = Bth {
        opcode: Opcode::CNP,
        solicited: false,
        migration: true,
        pad_count: 0,
        version: 0,
        pkey: 0xFFFF,
        resv8a: 0x40,
        dest_qp: g.up_qpn,
        ack_req: false,
        resv7: 0,
        psn: 0,
    };
    ip.emit(&mut packet[..40]).map_err(|e| e.to_string())?;
    udp.emit(&mut packet[40..48]).map_err(|e| e.to_string())?;
    bth.emit(&mut packet[48..60]).map_err(|e| e.to_string())?;
    canopy_packet::icrc::append(&mut packet).map_err(|e| e.to_string())?;
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xDD]);
    frame.extend(packet);
    Ok(frame)
}

fn branch_address(bpf: &Bpf, group: u32, slot: u32) -> Option<Ipv6Addr> {
    bpf.keys(Table::Peers).iter().find_map(|key| {
        let k: types::canopy_peer_key = read(key)?;
        let peer: types::canopy_peer = read(&bpf.get(Table::Peers, key).ok()??)?;
        (k.group_id == group && peer.slot == slot).then(|| tables::address(&k.address))
    })
}

/// CLOCK_MONOTONIC, the clock of the programs' timestamps.
pub(crate) fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a valid timespec on the stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
