// SPDX-License-Identifier: Apache-2.0
//! Session-Reflector test packet, RFC 8762 section 4.3.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Sequence Number                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     Timestamp (8 octets)                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Error Estimate        |              MBZ              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 Receive Timestamp (8 octets)                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 Session-Sender Sequence Number                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |              Session-Sender Timestamp (8 octets)              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Session-Sender Error Estimate |              MBZ              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Ses-Sender TTL |                      MBZ                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::{ErrorEstimate, LEN, SenderPacket};
use crate::error::{EmitError, ParseError};
use crate::wire::{be16, be32, be64, room, split};

const HEADER: &str = "STAMP Session-Reflector packet";

/// A Session-Reflector test packet in place.
#[derive(Debug, Clone, Copy)]
pub struct ReflectorPacketView<'a> {
    packet: &'a [u8; LEN],
    error_estimate: ErrorEstimate,
    sender_error_estimate: ErrorEstimate,
    payload: &'a [u8],
}

impl<'a> ReflectorPacketView<'a> {
    /// Checks that `bytes` begins with a whole packet whose two Error Estimates are valid.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (packet, payload) = split::<LEN>(bytes, HEADER)?;
        let error_estimate = ErrorEstimate::parse(HEADER, be16(packet, 12))?;
        let sender_error_estimate = ErrorEstimate::parse(HEADER, be16(packet, 36))?;
        Ok(Self { packet, error_estimate, sender_error_estimate, payload })
    }

    /// Sequence Number of the reflector.
    pub fn sequence(&self) -> u32 {
        be32(self.packet, 0)
    }

    /// Timestamp: when the reflector sent this.
    pub fn timestamp(&self) -> u64 {
        be64(self.packet, 4)
    }

    /// Error Estimate of the reflector's two timestamps.
    pub fn error_estimate(&self) -> ErrorEstimate {
        self.error_estimate
    }

    /// Receive Timestamp: when the reflector received the sender's packet.
    pub fn receive_timestamp(&self) -> u64 {
        be64(self.packet, 16)
    }

    /// The fields of the sender's packet, copied into this one.
    pub fn sender(&self) -> SenderPacket {
        SenderPacket {
            sequence: be32(self.packet, 24),
            timestamp: be64(self.packet, 28),
            error_estimate: self.sender_error_estimate,
        }
    }

    /// Ses-Sender TTL: Hop Limit of the sender's packet on reception.
    pub fn sender_ttl(&self) -> u8 {
        self.packet[40]
    }

    /// All octets after the base packet.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A Session-Reflector test packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReflectorPacket {
    /// Sequence Number: the sender's (stateless reflector) or the reflector's own count.
    pub sequence: u32,
    /// Timestamp: when the reflector sends this.
    pub timestamp: u64,
    /// Error Estimate of the reflector's two timestamps.
    pub error_estimate: ErrorEstimate,
    /// Receive Timestamp: when the reflector received the sender's packet.
    pub receive_timestamp: u64,
    /// The sender's packet, copied.
    pub sender: SenderPacket,
    /// Ses-Sender TTL: Hop Limit of the sender's packet on reception.
    pub sender_ttl: u8,
}

impl ReflectorPacket {
    /// Reads a packet from the front of `bytes`; fails when `bytes` is short or a Multiplier is zero.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = ReflectorPacketView::parse(bytes)?;
        Ok(Self {
            sequence: view.sequence(),
            timestamp: view.timestamp(),
            error_estimate: view.error_estimate(),
            receive_timestamp: view.receive_timestamp(),
            sender: view.sender(),
            sender_ttl: view.sender_ttl(),
        })
    }

    /// Writes the packet to the front of `out`, MBZ as zero; fails when `out` is short or an Error Estimate invalid.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<LEN>(out, HEADER)?;
        let error_estimate = self.error_estimate.emit(HEADER)?;
        let sender_error_estimate = self.sender.error_estimate.emit(HEADER)?;
        out[..4].copy_from_slice(&self.sequence.to_be_bytes());
        out[4..12].copy_from_slice(&self.timestamp.to_be_bytes());
        out[12..14].copy_from_slice(&error_estimate);
        out[14..16].fill(0);
        out[16..24].copy_from_slice(&self.receive_timestamp.to_be_bytes());
        out[24..28].copy_from_slice(&self.sender.sequence.to_be_bytes());
        out[28..36].copy_from_slice(&self.sender.timestamp.to_be_bytes());
        out[36..38].copy_from_slice(&sender_error_estimate);
        out[38..40].fill(0);
        out[40] = self.sender_ttl;
        out[41..].fill(0);
        Ok(())
    }
}
