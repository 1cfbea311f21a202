// SPDX-License-Identifier: Apache-2.0
//! ACK Extended Transport Header, IBTA volume 1 section 9.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Syndrome    |         Message Sequence Number               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! There is no acknowledged PSN here: that is the PSN of the BTH in front.

mod rnr;
mod syndrome;

pub use rnr::{RNR_TIMER_MAX, rnr_rank, rnr_timer};
pub use syndrome::{CREDITS_UNLIMITED, NakCode, Syndrome, SyndromeKind};

use crate::error::{EmitError, ParseError};
use crate::wire::{be24, fits, put24, room, split};

const HEADER: &str = "AETH";

/// Largest MSN: 24 bits.
pub const MSN_MAX: u32 = 0xff_ffff;

/// An AETH in place.
#[derive(Debug, Clone, Copy)]
pub struct AethView<'a> {
    header: &'a [u8; Aeth::LEN],
    payload: &'a [u8],
}

impl<'a> AethView<'a> {
    /// Checks that `bytes` starts with a complete header; any syndrome is accepted.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Aeth::LEN }>(bytes, HEADER)?;
        Ok(Self { header, payload })
    }

    /// Syndrome.
    pub fn syndrome(&self) -> Syndrome {
        Syndrome(self.header[0])
    }

    /// Message Sequence Number, 24 bits: messages that the responder completed.
    pub fn msn(&self) -> u32 {
        be24(self.header, 1)
    }

    /// All octets after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An AETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// Syndrome.
    pub syndrome: Syndrome,
    /// Message Sequence Number (0..=[`MSN_MAX`]): messages that the responder completed.
    pub msn: u32,
}

impl Aeth {
    /// Octets of the header.
    pub const LEN: usize = 4;

    /// Reads a header from the front of `bytes`; any syndrome is accepted.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = AethView::parse(bytes)?;
        Ok(Self { syndrome: view.syndrome(), msn: view.msn() })
    }

    /// Writes the header to the front of `out`; fails when `out` is short or the MSN exceeds 24 bits.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, HEADER)?;
        let msn = fits(HEADER, "MSN", self.msn, 24)?;
        out[0] = self.syndrome.0;
        put24(&mut out[1..], msn);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_msn_of_25_bits_is_refused() {
        let aeth = Aeth { syndrome: Syndrome::ack(0), msn: MSN_MAX + 1 };
        assert_eq!(aeth.emit(&mut [0; 4]).unwrap_err().field, "MSN");
    }

    proptest! {
        #[test]
        fn every_bit_survives(bytes: [u8; 4]) {
            let mut again = [0; 4];
            Aeth::parse(&bytes).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }
}
