// SPDX-License-Identifier: Apache-2.0
//! Atomic Extended Transport Header (request) and Atomic ACK Extended Transport Header (response), IBTA volume 1
//! section 9.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  Virtual Address (64 bits)                    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Remote Key                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                Swap (or Add) Data (64 bits)                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                   Compare Data (64 bits)                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               Original Remote Data (64 bits)                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::error::{EmitError, ParseError};
use crate::wire::{be32, be64, room, split};

const REQUEST: &str = "AtomicETH";
const ACK: &str = "AtomicAckETH";

/// An AtomicETH in place.
#[derive(Debug, Clone, Copy)]
pub struct AtomicEthView<'a> {
    header: &'a [u8; AtomicEth::LEN],
    payload: &'a [u8],
}

impl<'a> AtomicEthView<'a> {
    /// Checks that `bytes` begins with a whole header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ AtomicEth::LEN }>(bytes, REQUEST)?;
        Ok(Self { header, payload })
    }

    /// Virtual Address of the operand at the responder.
    pub fn va(&self) -> u64 {
        be64(self.header, 0)
    }

    /// Remote Key.
    pub fn rkey(&self) -> u32 {
        be32(self.header, 8)
    }

    /// Swap data of CmpSwap, addend of FetchAdd.
    pub fn swap_or_add(&self) -> u64 {
        be64(self.header, 12)
    }

    /// Compare data of CmpSwap.
    pub fn compare(&self) -> u64 {
        be64(self.header, 20)
    }

    /// All octets after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An AtomicETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Virtual Address of the operand at the responder.
    pub va: u64,
    /// Remote Key.
    pub rkey: u32,
    /// Swap data of CmpSwap, addend of FetchAdd.
    pub swap_or_add: u64,
    /// Compare data of CmpSwap.
    pub compare: u64,
}

impl AtomicEth {
    /// Octets of the header.
    pub const LEN: usize = 28;

    /// Reads a header from the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = AtomicEthView::parse(bytes)?;
        Ok(Self { va: view.va(), rkey: view.rkey(), swap_or_add: view.swap_or_add(), compare: view.compare() })
    }

    /// Writes the header to the front of `out`; fails when `out` is short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, REQUEST)?;
        out[..8].copy_from_slice(&self.va.to_be_bytes());
        out[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        out[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        out[20..].copy_from_slice(&self.compare.to_be_bytes());
        Ok(())
    }
}

/// An AtomicAckETH in place.
#[derive(Debug, Clone, Copy)]
pub struct AtomicAckEthView<'a> {
    header: &'a [u8; AtomicAckEth::LEN],
    payload: &'a [u8],
}

impl<'a> AtomicAckEthView<'a> {
    /// Checks that `bytes` begins with a whole header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ AtomicAckEth::LEN }>(bytes, ACK)?;
        Ok(Self { header, payload })
    }

    /// The operand as it was before the operation.
    pub fn original(&self) -> u64 {
        be64(self.header, 0)
    }

    /// All octets after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An AtomicAckETH: the operand as it was before the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicAckEth(pub u64);

impl AtomicAckEth {
    /// Octets of the header.
    pub const LEN: usize = 8;

    /// Reads a header from the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(AtomicAckEthView::parse(bytes)?.original()))
    }

    /// Writes the header to the front of `out`; fails when `out` is short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        *room::<{ Self::LEN }>(out, ACK)? = self.0.to_be_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fields_follow_each_other_without_a_gap() {
        let mut bytes = [0; 28];
        (bytes[7], bytes[11], bytes[19], bytes[27]) = (1, 2, 3, 4);
        let expected = AtomicEth { va: 1, rkey: 2, swap_or_add: 3, compare: 4 };
        assert_eq!(AtomicEth::parse(&bytes), Ok(expected));
    }

    proptest! {
        #[test]
        fn every_bit_survives(bytes: [u8; 28]) {
            let mut again = [0; 28];
            AtomicEth::parse(&bytes).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(again, bytes);
            AtomicAckEth::parse(&bytes[20..]).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(&again[..8], &bytes[20..]);
        }
    }
}
