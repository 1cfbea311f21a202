// SPDX-License-Identifier: Apache-2.0
//! Invalidate Extended Transport Header, IBTA volume 1 section 9.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            R_Key                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::error::{EmitError, ParseError};
use crate::wire::{be32, room, split};

const HEADER: &str = "IETH";

/// An IETH in place.
#[derive(Debug, Clone, Copy)]
pub struct IethView<'a> {
    header: &'a [u8; Ieth::LEN],
    payload: &'a [u8],
}

impl<'a> IethView<'a> {
    /// Checks that `bytes` begins with a whole header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, payload) = split::<{ Ieth::LEN }>(bytes, HEADER)?;
        Ok(Self { header, payload })
    }

    /// The R_Key that the responder invalidates.
    pub fn rkey(&self) -> u32 {
        be32(self.header, 0)
    }

    /// All octets after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An IETH: the R_Key that the responder invalidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ieth(pub u32);

impl Ieth {
    /// Octets of the header.
    pub const LEN: usize = 4;

    /// Reads a header from the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(IethView::parse(bytes)?.rkey()))
    }

    /// Writes the header to the front of `out`; fails when `out` is short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        *room::<{ Self::LEN }>(out, HEADER)? = self.0.to_be_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_big_endian_both_ways_and_the_rest_is_left_alone() {
        assert_eq!(Ieth::parse(&[1, 2, 3, 4, 5]), Ok(Ieth(0x0102_0304)));
        let mut out = [9; 5];
        Ieth(0x0102_0304).emit(&mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 9]);
        assert_eq!(Ieth::parse(&[1, 2, 3]).unwrap_err().header, HEADER);
    }
}
