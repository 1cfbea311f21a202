// SPDX-License-Identifier: Apache-2.0
//! Segment Routing Header, RFC 8754 section 2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Next Header   |  Hdr Ext Len  | Routing Type  | Segments Left |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Last Entry   |     Flags     |              Tag              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Segment List[0] (16 octets), the last segment      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                              ...                              ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Segment List[Last Entry] (16 octets)               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~         Type-Length-Value objects (variable)                  ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Hdr Ext Len counts units of 8 octets behind the first 8, so no SRH exceeds [`MAX_LEN`] = 2048 octets.
//!
//! Padding is not part of the value [`Srh`]: `parse` drops it and `emit` adds what is needed. Every PadN that is
//! emitted has at least 2 octets and a Length in the 0..=5 of RFC 8754 section 2.1.1.2. Pad1 is parsed but never
//! emitted, because Linux reads every TLV as Type, Length, Value and rejects an SRH that contains a Pad1.

mod tlv;

#[cfg(feature = "alloc")]
mod hmac_text;
#[cfg(feature = "alloc")]
pub use hmac_text::hmac_text;
#[cfg(feature = "alloc")]
mod value;
#[cfg(feature = "alloc")]
pub use value::{Hmac, Srh, Tlv};

pub use tlv::{HMAC_MAX_LEN, HmacView, TLV_HMAC, TLV_PAD1, TLV_PADN, TlvView, Tlvs};

use crate::error::{ParseError, Problem};
use crate::wire::{addr, be16, split};
use core::net::Ipv6Addr;

pub(crate) const HEADER: &str = "SRH";

/// Routing Type of an SRH.
pub const ROUTING_TYPE: u8 = 4;
/// Octets in front of the segment list.
pub const FIXED_LEN: usize = 8;
/// Octets of one segment.
pub const SEGMENT_LEN: usize = 16;
/// Octets of an HMAC TLV with the longest HMAC.
pub const HMAC_TLV_LEN: usize = 8 + HMAC_MAX_LEN;
/// Octets of the longest SRH that Hdr Ext Len can express.
pub const MAX_LEN: usize = FIXED_LEN + 8 * u8::MAX as usize;

/// An SRH in place.
#[derive(Debug, Clone, Copy)]
pub struct SrhView<'a> {
    fixed: &'a [u8; FIXED_LEN],
    segments: &'a [[u8; SEGMENT_LEN]],
    tlvs: &'a [u8],
    payload: &'a [u8],
}

impl<'a> SrhView<'a> {
    /// Checks an SRH at the front of `bytes` as RFC 8754 section 4.3.1.1 does: Routing Type 4, Hdr Ext Len within
    /// `bytes`, the segment list within Hdr Ext Len, and Segments Left at most Last Entry + 1 (a reduced SRH omits the
    /// first segment). TLVs are checked while they are walked, see [`SrhView::tlvs`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, rest) = split::<FIXED_LEN>(bytes, HEADER)?;
        if fixed[2] != ROUTING_TYPE {
            let (expected, found) = (u64::from(ROUTING_TYPE), u64::from(fixed[2]));
            return Err(wrong("Routing Type", Problem::Expected { expected, found }));
        }
        let behind = 8 * usize::from(fixed[1]);
        let (body, payload) = rest.split_at_checked(behind).ok_or_else(|| {
            let (needed, available) = (FIXED_LEN + behind, bytes.len());
            wrong("Hdr Ext Len", Problem::Truncated { needed, available })
        })?;
        let count = usize::from(fixed[4]) + 1;
        let (list, tlvs) = body.split_at_checked(SEGMENT_LEN * count).ok_or_else(|| {
            let (needed, available) = (FIXED_LEN + SEGMENT_LEN * count, FIXED_LEN + behind);
            wrong("Last Entry", Problem::Truncated { needed, available })
        })?;
        let (segments, _) = list.as_chunks::<SEGMENT_LEN>();
        let (max, found) = (count as u64, u64::from(fixed[3]));
        if found > max {
            return Err(wrong("Segments Left", Problem::OutOfRange { min: 0, max, found }));
        }
        Ok(Self { fixed, segments, tlvs, payload })
    }

    /// Next Header: what follows the SRH.
    pub fn next_header(&self) -> u8 {
        self.fixed[0]
    }

    /// Hdr Ext Len, in units of 8 octets behind the first 8.
    pub fn hdr_ext_len(&self) -> u8 {
        self.fixed[1]
    }

    /// Segments Left: index of the active segment.
    pub fn segments_left(&self) -> u8 {
        self.fixed[3]
    }

    /// Last Entry: index of the last element of the segment list.
    pub fn last_entry(&self) -> u8 {
        self.fixed[4]
    }

    /// Flags; none is defined.
    pub fn flags(&self) -> u8 {
        self.fixed[5]
    }

    /// Tag: class of the packet.
    pub fn tag(&self) -> u16 {
        be16(self.fixed, 6)
    }

    /// Octets of the whole SRH.
    pub fn wire_len(&self) -> usize {
        FIXED_LEN + SEGMENT_LEN * self.segments.len() + self.tlvs.len()
    }

    /// Segment List\[`index`\], `None` behind Last Entry.
    pub fn segment(&self, index: usize) -> Option<Ipv6Addr> {
        self.segments.get(index).map(|segment| addr(segment, 0))
    }

    /// The segment list in the order of the wire: the last segment of the path first.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = Ipv6Addr> + use<'a> {
        self.segments.iter().map(|segment| addr(segment, 0))
    }

    /// The TLVs in order, padding with them. The first malformed one is an error and ends the walk: where the next one
    /// would begin is then unknown.
    pub fn tlvs(&self) -> Tlvs<'a> {
        Tlvs::new(self.tlvs)
    }

    /// All octets after the SRH.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

fn wrong(field: &'static str, problem: Problem) -> ParseError {
    ParseError { header: HEADER, field, problem }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
