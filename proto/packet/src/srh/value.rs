// SPDX-License-Identifier: Apache-2.0
//! The SRH as a value, and its encoding with padding.

use super::tlv::HMAC_FIXED_LEN;
use super::{
    FIXED_LEN, HEADER, HmacView, MAX_LEN, ROUTING_TYPE, SEGMENT_LEN, SrhView, TLV_HMAC, TLV_PAD1, TLV_PADN, TlvView,
};
use crate::end_mt::{self, EndMt};
use crate::error::{EmitError, ParseError, Problem};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// A Segment Routing Header. Last Entry, Hdr Ext Len and padding follow from the rest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Srh {
    /// Next Header: what follows the SRH.
    pub next_header: u8,
    /// Segments Left, at most the number of segments (one more than Last Entry: a reduced SRH).
    pub segments_left: u8,
    /// Flags; none is defined, so zero on transmission.
    pub flags: u8,
    /// Tag: class of the packet, zero where unused.
    pub tag: u16,
    /// The segment list in the order of the wire: the last segment of the path first. 1..=127 segments.
    pub segments: Vec<Ipv6Addr>,
    /// TLVs other than padding and HMAC, in order.
    pub tlvs: Vec<Tlv>,
    /// HMAC TLV; always emitted last.
    pub hmac: Option<Hmac>,
}

/// A TLV with content: neither padding nor HMAC, which have their own places.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tlv {
    /// Receivers of one edge node.
    EndMt(EndMt),
    /// A TLV unknown to this crate.
    Other {
        /// Type; neither 0, 4, 5 nor 124.
        tlv_type: u8,
        /// The value without Type and Length, at most 255 octets.
        value: Vec<u8>,
    },
}

/// An HMAC TLV. Its reserved bits are zero on transmission.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hmac {
    /// D: the destination address was not verified when the HMAC was computed (reduced SRH).
    pub d: bool,
    /// HMAC Key ID.
    pub key_id: u32,
    /// The HMAC: 8, 16, 24 or 32 octets.
    pub hmac: Vec<u8>,
}

impl Srh {
    /// Reads an SRH from the front of `bytes`, all its TLVs with it. Fails as [`SrhView::parse`] and
    /// [`SrhView::tlvs`] do, and when there are two HMAC TLVs.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let view = SrhView::parse(bytes)?;
        let (mut tlvs, mut hmac) = (Vec::new(), None);
        for tlv in view.tlvs() {
            match tlv? {
                TlvView::Pad1 | TlvView::PadN { .. } => {}
                TlvView::EndMt(end_mt) => tlvs.push(Tlv::EndMt(end_mt.into())),
                TlvView::Other { tlv_type, value } => {
                    tlvs.push(Tlv::Other { tlv_type, value: value.to_vec() });
                }
                TlvView::Hmac(view) => {
                    if hmac.replace(Hmac::from(view)).is_some() {
                        let (field, problem) = ("HMAC TLV", Problem::Unwanted);
                        return Err(ParseError { header: HEADER, field, problem });
                    }
                }
            }
        }
        Ok(Self {
            next_header: view.next_header(),
            segments_left: view.segments_left(),
            flags: view.flags(),
            tag: view.tag(),
            segments: view.segments().collect(),
            tlvs,
            hmac,
        })
    }

    /// Octets of the SRH with its padding: a multiple of 8. May exceed [`MAX_LEN`], which [`Srh::emit`] refuses.
    pub fn wire_len(&self) -> usize {
        let padding = padding(self.unpadded_tlvs_len());
        let hmac = self.hmac.as_ref().map_or(0, Hmac::wire_len);
        let tlvs = self.unpadded_tlvs_len() + padding.iter().sum::<usize>() + hmac;
        FIXED_LEN + SEGMENT_LEN * self.segments.len() + tlvs
    }

    /// The SRH as octets. Fails as [`Srh::emit`] does.
    pub fn to_vec(&self) -> Result<Vec<u8>, EmitError> {
        let mut out = alloc::vec![0; self.wire_len().min(MAX_LEN)];
        self.emit(&mut out)?;
        Ok(out)
    }

    /// Writes the SRH to the front of `out`: segment list, TLVs, PadN up to a multiple of 8, HMAC; returns how many
    /// octets that were. Fails when there is no segment, Segments Left exceeds the number of segments, the SRH exceeds
    /// [`MAX_LEN`], `out` is short, or a TLV cannot be encoded.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.checked_len()?;
        let available = out.len();
        let out = out.get_mut(..len).ok_or_else(|| wrong("buffer", Problem::Truncated { needed: len, available }))?;
        out[0] = self.next_header;
        out[1] = (len / 8 - 1) as u8;
        out[2] = ROUTING_TYPE;
        out[3] = self.segments_left;
        out[4] = (self.segments.len() - 1) as u8;
        out[5] = self.flags;
        out[6..8].copy_from_slice(&self.tag.to_be_bytes());
        let (list, mut rest) = out[FIXED_LEN..].split_at_mut(SEGMENT_LEN * self.segments.len());
        for (octets, segment) in list.chunks_exact_mut(SEGMENT_LEN).zip(&self.segments) {
            octets.copy_from_slice(&segment.octets());
        }
        for tlv in &self.tlvs {
            let (octets, behind) = rest.split_at_mut(tlv.wire_len());
            tlv.emit(octets)?;
            rest = behind;
        }
        for len in padding(self.unpadded_tlvs_len()).into_iter().filter(|&len| len > 0) {
            let (octets, behind) = rest.split_at_mut(len);
            octets.fill(0);
            octets[0] = TLV_PADN;
            octets[1] = (len - 2) as u8;
            rest = behind;
        }
        if let Some(hmac) = &self.hmac {
            hmac.emit(rest)?;
        }
        Ok(len)
    }

    fn checked_len(&self) -> Result<usize, EmitError> {
        let count = self.segments.len() as u64;
        let max = ((MAX_LEN - FIXED_LEN) / SEGMENT_LEN) as u64;
        if !(1..=max).contains(&count) {
            return Err(wrong("Segment List", Problem::OutOfRange { min: 1, max, found: count }));
        }
        let found = u64::from(self.segments_left);
        if found > count {
            return Err(wrong("Segments Left", Problem::OutOfRange { min: 0, max: count, found }));
        }
        if let Some(hmac) = &self.hmac {
            hmac.check()?;
        }
        let len = self.wire_len();
        if len > MAX_LEN {
            let (max, found) = (MAX_LEN as u64, len as u64);
            return Err(wrong("Hdr Ext Len", Problem::OutOfRange { min: 24, max, found }));
        }
        Ok(len)
    }

    fn unpadded_tlvs_len(&self) -> usize {
        self.tlvs.iter().map(Tlv::wire_len).sum()
    }
}

impl Tlv {
    /// Octets of the TLV, Type and Length with them.
    pub fn wire_len(&self) -> usize {
        match self {
            Self::EndMt(end_mt) => end_mt.wire_len(),
            Self::Other { value, .. } => 2 + value.len(),
        }
    }

    fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        match self {
            Self::EndMt(end_mt) => end_mt.emit(out),
            Self::Other { tlv_type, value } => {
                let known = [TLV_PAD1, TLV_PADN, TLV_HMAC, end_mt::TLV_TYPE];
                if known.contains(tlv_type) {
                    // It would be parsed as another variant, or dropped as padding.
                    let found = u64::from(*tlv_type);
                    return Err(wrong("TLV Type", Problem::Unsupported { found }));
                }
                let (min, max, found) = (0, u64::from(u8::MAX), value.len() as u64);
                let length = u8::try_from(value.len())
                    .map_err(|_| wrong("TLV Length", Problem::OutOfRange { min, max, found }))?;
                out[0] = *tlv_type;
                out[1] = length;
                out[2..].copy_from_slice(value);
                Ok(())
            }
        }
    }
}

impl Hmac {
    fn wire_len(&self) -> usize {
        HMAC_FIXED_LEN + self.hmac.len()
    }

    fn check(&self) -> Result<(), EmitError> {
        match self.hmac.len() {
            8 | 16 | 24 | 32 => Ok(()),
            found => Err(wrong("HMAC", Problem::Unsupported { found: found as u64 })),
        }
    }

    /// `out` has `wire_len` octets and `check` has passed.
    fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        self.check()?;
        out[0] = TLV_HMAC;
        out[1] = (self.wire_len() - 2) as u8;
        out[2..4].copy_from_slice(&[u8::from(self.d) << 7, 0]);
        out[4..8].copy_from_slice(&self.key_id.to_be_bytes());
        out[8..].copy_from_slice(&self.hmac);
        Ok(())
    }
}

impl From<HmacView<'_>> for Hmac {
    fn from(view: HmacView<'_>) -> Self {
        Self { d: view.d(), key_id: view.key_id(), hmac: view.hmac().to_vec() }
    }
}

/// Lengths of the PadN TLVs (0: none) that bring `len` octets to a multiple of 8. PadN has at least 2 octets, so where
/// one is missing nine are put in; as two PadN, because a single one would need a Length above 5.
fn padding(len: usize) -> [usize; 2] {
    match len.next_multiple_of(8) - len {
        1 => [4, 5],
        missing => [missing, 0],
    }
}

fn wrong(field: &'static str, problem: Problem) -> EmitError {
    EmitError { header: HEADER, field, problem }
}
