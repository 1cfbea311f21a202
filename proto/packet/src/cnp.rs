// SPDX-License-Identifier: Apache-2.0
//! Body of a Congestion Notification Packet, IBTA annex A17.9.3.
//!
//! A CNP is a BTH with OpCode [`crate::bth::Opcode::CNP`] and BECN set, then:
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! |                    reserved (16 octets, zero)                 |
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A Long-haul CNP in the RoCEv2 format puts its extension here and sets E in the BTH, so the octets are kept.

use crate::error::{EmitError, ParseError};
use crate::wire::{room, split};

const HEADER: &str = "CNP";

/// Body of a CNP in place.
#[derive(Debug, Clone, Copy)]
pub struct CnpView<'a> {
    header: &'a [u8; Cnp::LEN],
    payload: &'a [u8],
}

impl<'a> CnpView<'a> {
    /// Checks that `bytes` starts with a complete body; the reserved octets are not checked.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Cnp::LEN }>(bytes, HEADER)?;
        Ok(Self { header, payload })
    }

    /// The reserved octets.
    pub fn reserved(&self) -> &'a [u8; Cnp::LEN] {
        self.header
    }

    /// All octets after the body: the ICRC, in a packet.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Body of a CNP; the default is a standard CNP, all zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Cnp {
    /// The reserved octets.
    pub reserved: [u8; Cnp::LEN],
}

impl Cnp {
    /// Octets of the body.
    pub const LEN: usize = 16;

    /// Reads a body from the front of `bytes`; the reserved octets are not checked.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self { reserved: *CnpView::parse(bytes)?.reserved() })
    }

    /// Writes the body to the front of `out`; fails when `out` is short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        *room::<{ Self::LEN }>(out, HEADER)? = self.reserved;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standard_cnp_is_16_zero_octets_and_any_body_survives() {
        let mut out = [1; 17];
        Cnp::default().emit(&mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let body = Cnp { reserved: *b"0123456789abcdef" };
        body.emit(&mut out).unwrap();
        assert_eq!(Cnp::parse(&out), Ok(body));
        assert_eq!(Cnp::parse(&out[2..]).unwrap_err().header, "CNP");
    }
}
