// SPDX-License-Identifier: Apache-2.0
//! TLVs of the SRH, RFC 8754 section 2.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+
//! |    Type 0     |                                                 Pad1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type 4     |    Length     | Padding ...                     PadN
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type 5     |    Length     |D|          Reserved           | HMAC
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          HMAC Key ID                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                 HMAC (8, 16, 24 or 32 octets)                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::end_mt::{self, EndMtView};
use crate::error::{ParseError, Problem};
use crate::wire::{be32, split};

const HEADER: &str = "SRH TLV";
const HMAC: &str = "HMAC TLV";

/// Type of Pad1, the one TLV without Length.
pub const TLV_PAD1: u8 = 0;
/// Type of PadN.
pub const TLV_PADN: u8 = 4;
/// Type of the HMAC TLV.
pub const TLV_HMAC: u8 = 5;
/// Octets of the longest HMAC.
pub const HMAC_MAX_LEN: usize = 32;
/// Octets of an HMAC TLV in front of the HMAC, Type and Length with them.
pub(crate) const HMAC_FIXED_LEN: usize = 8;

/// One TLV in place.
#[derive(Debug, Clone, Copy)]
pub enum TlvView<'a> {
    /// One octet of padding.
    Pad1,
    /// Padding.
    PadN {
        /// The padding itself, without Type and Length; its content is ignored.
        padding: &'a [u8],
    },
    /// Keyed hash over source, Last Entry, Flags, key id and segment list; not over other TLVs.
    Hmac(HmacView<'a>),
    /// Receivers of one edge node.
    EndMt(EndMtView<'a>),
    /// A TLV unknown to this crate, to be skipped.
    Other {
        /// Type.
        tlv_type: u8,
        /// The value, without Type and Length.
        value: &'a [u8],
    },
}

/// The TLVs of an SRH, one after the other; see [`super::SrhView::tlvs`].
#[derive(Debug, Clone)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    fn step(&mut self) -> Result<TlvView<'a>, ParseError> {
        let bytes = self.rest;
        self.rest = &[];
        if let [TLV_PAD1, rest @ ..] = bytes {
            self.rest = rest;
            return Ok(TlvView::Pad1);
        }
        let (&[tlv_type, length], behind) = split::<2>(bytes, HEADER)?;
        let length = usize::from(length);
        let (value, rest) = behind.split_at_checked(length).ok_or(ParseError {
            header: HEADER,
            field: "Length",
            problem: Problem::Truncated { needed: 2 + length, available: bytes.len() },
        })?;
        let whole = &bytes[..2 + length];
        let tlv = match tlv_type {
            TLV_PADN => TlvView::PadN { padding: value },
            TLV_HMAC => TlvView::Hmac(HmacView::parse(whole)?),
            end_mt::TLV_TYPE => TlvView::EndMt(EndMtView::parse(whole)?),
            _ => TlvView::Other { tlv_type, value },
        };
        self.rest = rest;
        Ok(tlv)
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<TlvView<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.step())
    }
}

impl core::iter::FusedIterator for Tlvs<'_> {}

/// An HMAC TLV in place.
#[derive(Debug, Clone, Copy)]
pub struct HmacView<'a> {
    fixed: &'a [u8; HMAC_FIXED_LEN],
    hmac: &'a [u8],
}

impl<'a> HmacView<'a> {
    /// Reads a TLV from the front of `bytes`, Type first. Fails when the type is another, the value is cut short, or
    /// the HMAC is not 8, 16, 24 or 32 octets long.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let wrong = |field, problem| ParseError { header: HMAC, field, problem };
        let (fixed, rest) = split::<HMAC_FIXED_LEN>(bytes, HMAC)?;
        if fixed[0] != TLV_HMAC {
            let (expected, found) = (u64::from(TLV_HMAC), u64::from(fixed[0]));
            return Err(wrong("Type", Problem::Expected { expected, found }));
        }
        let length = usize::from(fixed[1]);
        let hmac_len = length.checked_sub(HMAC_FIXED_LEN - 2);
        let Some(hmac_len @ (8 | 16 | 24 | HMAC_MAX_LEN)) = hmac_len else {
            return Err(wrong("Length", Problem::Unsupported { found: length as u64 }));
        };
        let hmac = rest.get(..hmac_len).ok_or_else(|| {
            let (needed, available) = (HMAC_FIXED_LEN + hmac_len, bytes.len());
            wrong("HMAC", Problem::Truncated { needed, available })
        })?;
        Ok(Self { fixed, hmac })
    }

    /// D: the destination address was not verified when the HMAC was computed (reduced SRH).
    pub fn d(&self) -> bool {
        self.fixed[2] & 0x80 != 0
    }

    /// HMAC Key ID.
    pub fn key_id(&self) -> u32 {
        be32(self.fixed, 4)
    }

    /// The HMAC: 8, 16, 24 or 32 octets.
    pub fn hmac(&self) -> &'a [u8] {
        self.hmac
    }
}
