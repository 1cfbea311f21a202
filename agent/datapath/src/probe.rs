// SPDX-License-Identifier: Apache-2.0
//! Probes of the queue pairs of late receivers (decisions 3.13): whether each was reset and expects the start PSN.
//!
//! A receiver that left and joined again without resetting its queue pair would take new data for duplicates, and acknowledge it. So a
//! late receiver is probed before it gets data. Two requests ask for an answer, and neither is ever executed: one as far ahead of the start
//! PSN as a PSN can be, which a queue pair refuses with a NAK of the PSN that it expects; and one just before the start PSN, a duplicate,
//! which it acknowledges with the PSN before the one that it expects. The first is decisive for every responder, but each NAKs a
//! gap once only, so that a lost NAK is not repeated; the second is answered each time, but a responder that has received nothing need not
//! know its own PSN then (Linux rxe acknowledges 0xFFFFFF). A queue pair that is not connected yet answers neither. The programs judge
//! the answers.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use canopy_bpf::{Context, Result};
use canopy_model::ids::Qpn;
use canopy_model::node_spec::{BranchKind, GroupProgram};
use canopy_packet::bth::Opcode;
use canopy_packet::frame::RoceBuilder;

use crate::raw_socket::RawSocket;

/// Interval of probes while an application is expected to connect its queue pair.
const SOON: Duration = Duration::from_millis(20);
/// How long it is expected to.
const EXPECTED: Duration = Duration::from_secs(2);
/// Interval afterwards.
const LATER: Duration = Duration::from_millis(500);
/// Largest distance of a PSN that is ahead of another: half the PSN space, less one.
const FAR_AHEAD: u32 = (1 << 23) - 1;

/// When the late receivers of one group are probed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    since: Instant,
    next: Instant,
}

impl Schedule {
    /// Probes are due at once.
    pub(crate) fn starting(now: Instant) -> Self {
        Self { since: now, next: now }
    }

    /// Whether probes are due; then the next ones are due later.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + if now < self.since + EXPECTED { SOON } else { LATER };
        }
        due
    }
}

/// Probes receivers of the group. `socket` is opened if it is not yet.
pub(crate) fn send(
    socket: &mut Option<RawSocket>,
    g: &GroupProgram,
    receivers: impl Iterator<Item = Ipv6Addr>,
) -> Result<()> {
    let socket = match socket {
        Some(socket) => socket,
        None => socket.insert(RawSocket::open()?),
    };
    for address in receivers {
        let branch = g.branches.iter().find(|b| b.address == address);
        let Some(BranchKind::Receiver { qpn, .. }) = branch.map(|b| &b.kind) else { continue };
        for packet in packets(g, address, *qpn)? {
            socket.send(&packet, address)?;
        }
    }
    Ok(())
}

/// The decisive probe first: its answer makes that of the other one meaningless.
fn packets(g: &GroupProgram, receiver: Ipv6Addr, qpn: Qpn) -> Result<[Vec<u8>; 2]> {
    let start = g.start_psn.get();
    let probe = |psn: u32| {
        let mut b = RoceBuilder::new(g.proxy, receiver, Opcode::SEND_ONLY, qpn.get(), psn & 0xFF_FFFF);
        (b.bth.ack_req, b.bth.migration) = (true, true);
        b.build().with_context(|| format!("composing a probe of the queue pair of {receiver}"))
    };
    Ok([probe(start.wrapping_add(FAR_AHEAD))?, probe(start.wrapping_sub(1))?])
}
