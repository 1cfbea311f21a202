// SPDX-License-Identifier: Apache-2.0
//! Order, length and placement of the packets of a message: IBTA volume 1 sections 9.7.4.1.2 to 9.7.4.1.7.

use canopy_packet::aeth::NakCode;
use canopy_packet::reth::Reth;

use super::Settings;
use crate::transfer::Region;
use crate::wire::Packet;

/// A message that is not yet complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    Send,
    Write {
        /// Offset of the next packet's payload in the region.
        offset: u64,
        /// Bytes that have not arrived yet.
        remaining: u64,
    },
}

/// Where a payload is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Appended to what was received by SEND.
    Stream,
    /// At this offset of the registered region, inside it.
    Memory(u64),
}

/// Validates the packet that has the expected PSN while `open` is the message in progress; returns its payload's
/// place and the message in progress afterwards, or the NAK to send.
pub(super) fn accept(
    open: Option<Message>,
    packet: &Packet<'_>,
    settings: &Settings,
) -> Result<(Place, Option<Message>), NakCode> {
    let opcode = packet.headers.bth.opcode;
    let (first, last) = (opcode.is_first_or_only(), opcode.is_last_or_only());
    let len = packet.payload.len() as u64;
    let mtu = u64::from(settings.mtu);
    let len_is_right = match (first, last) {
        (true, true) => len <= mtu,
        (false, true) => (1..=mtu).contains(&len),
        _ => len == mtu,
    };
    let supported = (opcode.is_send() || opcode.is_write()) && !opcode.has_ieth();
    if !supported || !len_is_right || first == open.is_some() {
        return Err(NakCode::InvalidRequest);
    }
    let message = match (open, packet.headers.reth) {
        (None, None) => Message::Send,
        (None, Some(reth)) => begin_write(&reth, settings.region)?,
        (Some(message), _) => message,
    };
    match message {
        Message::Send if opcode.is_send() => Ok((Place::Stream, (!last).then_some(message))),
        Message::Write { offset, remaining } if opcode.is_write() => {
            let left = remaining.checked_sub(len).ok_or(NakCode::InvalidRequest)?;
            if last != (left == 0) {
                return Err(NakCode::InvalidRequest);
            }
            let rest = Message::Write { offset: offset + len, remaining: left };
            Ok((Place::Memory(offset), (!last).then_some(rest)))
        }
        _ => Err(NakCode::InvalidRequest),
    }
}

/// Checks a WRITE against the registered memory. A zero-length WRITE needs no valid address or key.
fn begin_write(reth: &Reth, region: Option<Region>) -> Result<Message, NakCode> {
    let remaining = u64::from(reth.dma_len);
    if remaining == 0 {
        return Ok(Message::Write { offset: 0, remaining });
    }
    let region = region.ok_or(NakCode::RemoteAccess)?;
    let offset = reth.va.checked_sub(region.va).ok_or(NakCode::RemoteAccess)?;
    let end = offset.checked_add(remaining).ok_or(NakCode::RemoteAccess)?;
    if reth.rkey != region.rkey || end > region.length {
        return Err(NakCode::RemoteAccess);
    }
    Ok(Message::Write { offset, remaining })
}
