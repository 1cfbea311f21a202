// SPDX-License-Identifier: Apache-2.0
//! Test packets of the Simple Two-way Active Measurement Protocol, unauthenticated mode, RFC 8762 sections 4.2.1 and
//! 4.3.1: the payload of UDP.
//!
//! Both directions have [`LEN`] octets, so that a reflector answers with as many as it received. MBZ octets are zero on
//! transmission and ignored on reception, as the RFC requires; they are not part of the values. Octets after the base
//! packet (padding, or the TLVs of RFC 8972) are returned as `payload()`.
//!
//! A timestamp is 64 bits: NTP (RFC 5905: seconds since 1900, then fractions of a second) if the Z bit of the adjacent
//! Error Estimate is clear, truncated PTPv2 (seconds, then nanoseconds) if it is set.

mod reflector;
mod sender;

pub use reflector::{ReflectorPacket, ReflectorPacketView};
pub use sender::{SenderPacket, SenderPacketView};

use crate::error::{EmitError, ParseError, Problem};
use crate::wire::fits;

/// UDP destination port that a Session-Reflector listens on by default.
pub const PORT: u16 = 862;
/// Octets of a test packet without extensions, in either direction.
pub const LEN: usize = 44;
/// Where RFC 8972 section 3 puts the Session Identifier (SSID), in octets that are zero without it.
pub const SESSION: core::ops::Range<usize> = 14..16;
/// Type of the Extra Padding TLV, RFC 8972 section 4.1.
pub const TLV_EXTRA_PADDING: u8 = 1;
/// Flags of a TLV as a Session-Sender sends it: unrecognized, until a reflector knows it (RFC 8972 section 4).
pub const TLV_UNRECOGNIZED: u8 = 0x80;
/// Octets of a TLV in front of its value.
pub const TLV_LEN: usize = 4;

/// Error Estimate of a timestamp, RFC 4656 section 4.1.2 with the Z bit of RFC 8186:
///
/// ```text
///  0                   1
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |S|Z|   Scale   |   Multiplier  |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// The error is Multiplier * 2^-32 * 2^Scale seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorEstimate {
    /// S: the clock is synchronised to UTC by an external source.
    pub synchronized: bool,
    /// Z: the timestamp is in PTPv2 format, not NTP.
    pub ptp: bool,
    /// Scale (0..=63).
    pub scale: u8,
    /// Multiplier (1..=255): zero means that the packet is corrupt.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// Reads the field; fails when Multiplier is zero.
    fn parse(header: &'static str, field: u16) -> Result<Self, ParseError> {
        let [high, multiplier] = field.to_be_bytes();
        if multiplier == 0 {
            let problem = Problem::OutOfRange { min: 1, max: u64::from(u8::MAX), found: 0 };
            return Err(ParseError { header, field: "Error Estimate Multiplier", problem });
        }
        Ok(Self { synchronized: high & 0x80 != 0, ptp: high & 0x40 != 0, scale: high & 0x3f, multiplier })
    }

    fn emit(&self, header: &'static str) -> Result<[u8; 2], EmitError> {
        let scale = fits(header, "Error Estimate Scale", u32::from(self.scale), 6)? as u8;
        if self.multiplier == 0 {
            let problem = Problem::OutOfRange { min: 1, max: u64::from(u8::MAX), found: 0 };
            return Err(EmitError { header, field: "Error Estimate Multiplier", problem });
        }
        Ok([u8::from(self.synchronized) << 7 | u8::from(self.ptp) << 6 | scale, self.multiplier])
    }
}

#[cfg(test)]
mod tests;
