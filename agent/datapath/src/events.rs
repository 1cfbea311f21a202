// SPDX-License-Identifier: Apache-2.0
//! Events of the groups: ended CNP windows, first data of a group, and fatal NAKs, which are never merged.

use std::net::Ipv6Addr;
use std::time::{SystemTime, UNIX_EPOCH};

use canopy_bpf::node::types::{self, canopy_event_kind as Kind};
use canopy_bpf::node::{Control, Node};
use canopy_bpf::ring::Records;
use canopy_bpf::{Context, Result, chain, monotonic_ns, read};
use canopy_model::ids::GroupId;
use canopy_model::telemetry::{Event, EventCode};
use canopy_packet::bth::{Bth, Opcode};
use canopy_packet::ipv6::Ipv6;
use canopy_packet::udp::{ROCE_PORT, Udp};

/// An older CNP event is ignored: a restarted agent sends no CNPs for windows that ended before.
const STALE_NS: u64 = 100_000_000;
/// UDP + BTH + 16 reserved + ICRC.
const CNP_PAYLOAD: u16 = 40;
/// Events that wait for the event loop, in addition to some 8,000 in the ring buffer; when both are full, the newest are lost.
const DEPTH: usize = 1024;

/// The events, as they come.
pub(crate) struct Events(Records<types::canopy_event>);

impl Events {
    pub(crate) fn open(bpf: &Node) -> Result<Self> {
        Ok(Self(Records::read(bpf.events()?, "bpf-events", DEPTH, read)?))
    }

    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> types::canopy_event {
        match self.0.next().await {
            Some(e) => e,
            None => std::future::pending().await,
        }
    }
}

/// Handles one event; returns the event to report to the controller, if any.
pub(crate) fn act(bpf: &Node, e: &types::canopy_event) -> Option<Event> {
    if e.kind == Kind::EVENT_CNP.0 {
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
    if e.kind == Kind::EVENT_FIRST_DATA.0 {
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
fn send_cnp(bpf: &Node, group: u32) -> Result<()> {
    let Some(g) = bpf.groups().get(&group)? else { return Ok(()) };
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
        src: g.up_sa.into(),
        dst: g.up_da.into(),
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

fn branch_address(bpf: &Node, group: u32, slot: u32) -> Option<Ipv6Addr> {
    let peers = bpf.peers().entries().ok()?;
    peers.into_iter().find(|(key, peer)| key.group_id == group && peer.slot == slot).map(|(key, _)| key.address.into())
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
