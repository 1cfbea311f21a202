// SPDX-License-Identifier: Apache-2.0
//! Base Transport Header, IBTA volume 1 section 9.2; FECN and BECN, IBTA annex A17.9.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    OpCode     |S|M|Pad| TVer  |             P_Key             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |F|B|E|  resv   |              Destination QP                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |A|    resv7    |           Packet Sequence Number              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The fifth octet is `resv8a` as a whole, because that is what the ICRC masks. Its E bit is the Long-haul CNP
//! extension mark of draft-tian-ccwg-long-haul-cnp.

mod opcode;

pub use opcode::Opcode;

use crate::error::{EmitError, ParseError};
use crate::wire::{be16, be24, fits, put24, room, split};

const HEADER: &str = "BTH";

/// Bit of `resv8a`: forward explicit congestion notification.
pub const RESV8A_FECN: u8 = 0x80;
/// Bit of `resv8a`: backward explicit congestion notification.
pub const RESV8A_BECN: u8 = 0x40;
/// Bit of `resv8a`: this CNP carries the Long-haul CNP extension.
pub const RESV8A_E: u8 = 0x20;
/// Largest PSN: 24 bits.
pub const PSN_MAX: u32 = 0xff_ffff;
/// Largest QPN: 24 bits.
pub const QPN_MAX: u32 = 0xff_ffff;

/// A Base Transport Header in place.
#[derive(Debug, Clone, Copy)]
pub struct BthView<'a> {
    header: &'a [u8; Bth::LEN],
    payload: &'a [u8],
}

impl<'a> BthView<'a> {
    /// Checks that `bytes` begins with a whole header; any opcode and version is accepted.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Bth::LEN }>(bytes, HEADER)?;
        Ok(Self { header, payload })
    }

    /// OpCode.
    pub fn opcode(&self) -> Opcode {
        Opcode(self.header[0])
    }

    /// Solicited Event: the responder's completion wakes its consumer.
    pub fn solicited(&self) -> bool {
        self.header[1] & 0x80 != 0
    }

    /// Migration state (MigReq).
    pub fn migration(&self) -> bool {
        self.header[1] & 0x40 != 0
    }

    /// Pad Count: octets (0..=3) between payload and ICRC.
    pub fn pad_count(&self) -> u8 {
        self.header[1] >> 4 & 0x3
    }

    /// Transport header version, 4 bits; 0 is the only one defined.
    pub fn version(&self) -> u8 {
        self.header[1] & 0x0f
    }

    /// Partition Key.
    pub fn pkey(&self) -> u16 {
        be16(self.header, 2)
    }

    /// The octet that holds FECN, BECN and E: [`RESV8A_FECN`], [`RESV8A_BECN`], [`RESV8A_E`].
    pub fn resv8a(&self) -> u8 {
        self.header[4]
    }

    /// Destination QP, 24 bits.
    pub fn dest_qp(&self) -> u32 {
        be24(self.header, 5)
    }

    /// Acknowledge Request.
    pub fn ack_req(&self) -> bool {
        self.header[8] & 0x80 != 0
    }

    /// Seven reserved bits after Acknowledge Request.
    pub fn resv7(&self) -> u8 {
        self.header[8] & 0x7f
    }

    /// Packet Sequence Number, 24 bits.
    pub fn psn(&self) -> u32 {
        be24(self.header, 9)
    }

    /// All octets after the header: extension headers, payload, pad and ICRC.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A Base Transport Header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bth {
    /// OpCode.
    pub opcode: Opcode,
    /// Solicited Event.
    pub solicited: bool,
    /// Migration state (MigReq).
    pub migration: bool,
    /// Pad Count: octets (0..=3) between payload and ICRC.
    pub pad_count: u8,
    /// Transport header version (0..=15); 0 is the only one defined.
    pub version: u8,
    /// Partition Key; 0xffff is the default partition.
    pub pkey: u16,
    /// The octet that holds FECN, BECN and E: [`RESV8A_FECN`], [`RESV8A_BECN`], [`RESV8A_E`].
    pub resv8a: u8,
    /// Destination QP (0..=[`QPN_MAX`]).
    pub dest_qp: u32,
    /// Acknowledge Request.
    pub ack_req: bool,
    /// Seven reserved bits (0..=127) after Acknowledge Request.
    pub resv7: u8,
    /// Packet Sequence Number (0..=[`PSN_MAX`]).
    pub psn: u32,
}

impl Bth {
    /// Octets of the header.
    pub const LEN: usize = 12;

    /// Reads a header from the front of `bytes`; any opcode and version is accepted.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = BthView::parse(bytes)?;
        Ok(Self {
            opcode: view.opcode(),
            solicited: view.solicited(),
            migration: view.migration(),
            pad_count: view.pad_count(),
            version: view.version(),
            pkey: view.pkey(),
            resv8a: view.resv8a(),
            dest_qp: view.dest_qp(),
            ack_req: view.ack_req(),
            resv7: view.resv7(),
            psn: view.psn(),
        })
    }

    /// Writes the header to the front of `out`; fails when `out` is short or a field exceeds its bits.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, HEADER)?;
        let pad_count = fits(HEADER, "Pad Count", u32::from(self.pad_count), 2)? as u8;
        let version = fits(HEADER, "TVer", u32::from(self.version), 4)? as u8;
        let resv7 = fits(HEADER, "resv7", u32::from(self.resv7), 7)? as u8;
        let dest_qp = fits(HEADER, "Destination QP", self.dest_qp, 24)?;
        let psn = fits(HEADER, "PSN", self.psn, 24)?;
        let (solicited, migration) = (u8::from(self.solicited), u8::from(self.migration));
        out[0] = self.opcode.0;
        out[1] = solicited << 7 | migration << 6 | pad_count << 4 | version;
        out[2..4].copy_from_slice(&self.pkey.to_be_bytes());
        out[4] = self.resv8a;
        put24(&mut out[5..8], dest_qp);
        out[8] = u8::from(self.ack_req) << 7 | resv7;
        put24(&mut out[9..12], psn);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_figure_puts_them() {
        let bytes = [0x0a, 0xb0, 0xff, 0xfe, 0x60, 0x01, 0x02, 0x03, 0x80, 0x0a, 0x0b, 0x0c];
        let expected = Bth {
            opcode: Opcode::WRITE_ONLY,
            solicited: true,
            migration: false,
            pad_count: 3,
            version: 0,
            pkey: 0xfffe,
            resv8a: RESV8A_BECN | RESV8A_E,
            dest_qp: 0x01_0203,
            ack_req: true,
            resv7: 0,
            psn: 0x0a_0b0c,
        };
        assert_eq!(Bth::parse(&bytes), Ok(expected));
    }

    #[test]
    fn fields_wider_than_their_bits_are_refused() {
        let good = Bth::parse(&[0; 12]).unwrap();
        let bad = [
            (Bth { pad_count: 4, ..good }, "Pad Count"),
            (Bth { version: 16, ..good }, "TVer"),
            (Bth { resv7: 128, ..good }, "resv7"),
            (Bth { dest_qp: QPN_MAX + 1, ..good }, "Destination QP"),
            (Bth { psn: PSN_MAX + 1, ..good }, "PSN"),
        ];
        for (bth, field) in bad {
            assert_eq!(bth.emit(&mut [0; 12]).unwrap_err().field, field);
        }
    }

    proptest! {
        #[test]
        fn every_bit_survives(bytes: [u8; 12]) {
            let mut again = [0; 12];
            Bth::parse(&bytes).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }
}
