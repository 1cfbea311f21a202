// SPDX-License-Identifier: Apache-2.0
//! Session-Sender test packet, RFC 8762 section 4.2.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Sequence Number                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     Timestamp (8 octets)                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Error Estimate        |                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
//! |                        MBZ (30 octets)                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::{ErrorEstimate, LEN};
use crate::error::{EmitError, ParseError};
use crate::wire::{be16, be32, be64, room, split};

const HEADER: &str = "STAMP Session-Sender packet";

/// A Session-Sender test packet in place.
#[derive(Debug, Clone, Copy)]
pub struct SenderPacketView<'a> {
    packet: &'a [u8; LEN],
    error_estimate: ErrorEstimate,
    payload: &'a [u8],
}

impl<'a> SenderPacketView<'a> {
    /// Checks that `bytes` begins with a whole packet whose Error Estimate is valid.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (packet, payload) = split::<LEN>(bytes, HEADER)?;
        let error_estimate = ErrorEstimate::parse(HEADER, be16(packet, 12))?;
        Ok(Self { packet, error_estimate, payload })
    }

    /// Sequence Number.
    pub fn sequence(&self) -> u32 {
        be32(self.packet, 0)
    }

    /// Timestamp: when the packet was sent.
    pub fn timestamp(&self) -> u64 {
        be64(self.packet, 4)
    }

    /// Error Estimate of the timestamp.
    pub fn error_estimate(&self) -> ErrorEstimate {
        self.error_estimate
    }

    /// All octets after the base packet.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A Session-Sender test packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SenderPacket {
    /// Sequence Number: 0 for the first packet of a session, then one more each.
    pub sequence: u32,
    /// Timestamp: when the packet was sent.
    pub timestamp: u64,
    /// Error Estimate of the timestamp.
    pub error_estimate: ErrorEstimate,
}

impl SenderPacket {
    /// Reads a packet from the front of `bytes`; fails when `bytes` is short or Multiplier is zero.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = SenderPacketView::parse(bytes)?;
        Ok(Self { sequence: view.sequence(), timestamp: view.timestamp(), error_estimate: view.error_estimate() })
    }

    /// Writes the packet to the front of `out`, MBZ as zero; fails when `out` is short or the Error Estimate invalid.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<LEN>(out, HEADER)?;
        let error_estimate = self.error_estimate.emit(HEADER)?;
        out[..4].copy_from_slice(&self.sequence.to_be_bytes());
        out[4..12].copy_from_slice(&self.timestamp.to_be_bytes());
        out[12..14].copy_from_slice(&error_estimate);
        out[14..].fill(0);
        Ok(())
    }
}
