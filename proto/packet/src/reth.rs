// SPDX-License-Identifier: Apache-2.0
//! RDMA Extended Transport Header, IBTA volume 1 section 9.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Virtual Address                         |
//! |                          (64 bits)                            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Remote Key                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          DMA Length                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::error::{EmitError, ParseError};
use crate::wire::{be32, be64, room, split};

const HEADER: &str = "RETH";

/// A RETH in place.
#[derive(Debug, Clone, Copy)]
pub struct RethView<'a> {
    header: &'a [u8; Reth::LEN],
    payload: &'a [u8],
}

impl<'a> RethView<'a> {
    /// Checks that `bytes` begins with a whole header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Reth::LEN }>(bytes, HEADER)?;
        Ok(Self { header, payload })
    }

    /// Virtual Address of the first octet, at the responder.
    pub fn va(&self) -> u64 {
        be64(self.header, 0)
    }

    /// Remote Key.
    pub fn rkey(&self) -> u32 {
        be32(self.header, 8)
    }

    /// DMA Length: octets of the whole operation, over all its packets.
    pub fn dma_len(&self) -> u32 {
        be32(self.header, 12)
    }

    /// All octets after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A RETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Virtual Address of the first octet, at the responder.
    pub va: u64,
    /// Remote Key.
    pub rkey: u32,
    /// DMA Length: octets of the whole operation, over all its packets.
    pub dma_len: u32,
}

impl Reth {
    /// Octets of the header.
    pub const LEN: usize = 16;

    /// Reads a header from the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = RethView::parse(bytes)?;
        Ok(Self { va: view.va(), rkey: view.rkey(), dma_len: view.dma_len() })
    }

    /// Writes the header to the front of `out`; fails when `out` is short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, HEADER)?;
        out[..8].copy_from_slice(&self.va.to_be_bytes());
        out[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        out[12..].copy_from_slice(&self.dma_len.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_figure_puts_them() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let expected = Reth { va: 0x0102_0304_0506_0708, rkey: 0x090a_0b0c, dma_len: 0x0d0e_0f10 };
        assert_eq!(Reth::parse(&bytes), Ok(expected));
    }

    proptest! {
        #[test]
        fn every_bit_survives(bytes: [u8; 16]) {
            let mut again = [0; 16];
            Reth::parse(&bytes).unwrap().emit(&mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }
}
