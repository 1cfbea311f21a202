// SPDX-License-Identifier: Apache-2.0
//! End.MT TLV of the SRH: the receivers that one edge node serves, draft-li-spring-rdma-multicast-over-srv6 section 7.2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |      Type     |     Length    |           Reserved            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               Edge Node Address (16 octets)                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Num Receivers |                  Reserved                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |               Receiver 1 Address (16 octets)                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Receiver 1 QPN (24 bits)           |   Reserved    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                 ... up to Num Receivers                       ~
//! ```
//!
//! Reserved fields are zero on transmission and ignored on reception. Length counts what follows it: 22 octets and 20
//! per receiver. It has 8 bits, so 11 receivers fit; an edge with more gets several TLVs ([`EndMt::split`]).

use crate::error::{ParseError, Problem};
use crate::wire::{addr, be24, split};
use core::net::Ipv6Addr;

#[cfg(feature = "alloc")]
mod value;
#[cfg(feature = "alloc")]
pub use value::EndMt;

pub(crate) const HEADER: &str = "End.MT TLV";

/// Type: from the range of RFC 8754 section 8.2 for experiments whose contents do not change on the way, until IANA
/// assigns TBD2.
pub const TLV_TYPE: u8 = 124;
/// Octets in front of the first receiver, Type and Length with them.
pub const FIXED_LEN: usize = 24;
/// Octets of one receiver.
pub const RECEIVER_LEN: usize = 20;
/// Receivers that fit one TLV.
pub const MAX_RECEIVERS: usize = (u8::MAX as usize + 2 - FIXED_LEN) / RECEIVER_LEN;

/// An End.MT TLV in place.
#[derive(Debug, Clone, Copy)]
pub struct EndMtView<'a> {
    fixed: &'a [u8; FIXED_LEN],
    receivers: &'a [[u8; RECEIVER_LEN]],
}

impl<'a> EndMtView<'a> {
    /// Reads a TLV from the front of `bytes`, Type first. Fails when the type is another, the value is cut short, or
    /// Length is not 22 + 20 Num Receivers.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, rest) = split::<FIXED_LEN>(bytes, HEADER)?;
        if fixed[0] != TLV_TYPE {
            let (expected, found) = (u64::from(TLV_TYPE), u64::from(fixed[0]));
            return Err(wrong("Type", Problem::Expected { expected, found }));
        }
        let count = usize::from(fixed[20]);
        let needed = FIXED_LEN + RECEIVER_LEN * count;
        let length = usize::from(fixed[1]);
        if length + 2 != needed {
            let (expected, found) = (needed as u64 - 2, length as u64);
            return Err(wrong("Length", Problem::Expected { expected, found }));
        }
        let (receivers, _) = rest.as_chunks::<RECEIVER_LEN>();
        let receivers = receivers
            .get(..count)
            .ok_or_else(|| wrong("Receiver Address", Problem::Truncated { needed, available: bytes.len() }))?;
        Ok(Self { fixed, receivers })
    }

    /// Edge Node Address: the node that this TLV is for.
    pub fn edge(&self) -> Ipv6Addr {
        addr(self.fixed, 4)
    }

    /// Num Receivers (0..=[`MAX_RECEIVERS`]).
    pub fn num_receivers(&self) -> usize {
        self.receivers.len()
    }

    /// Address and QPN (24 bits) of every receiver, in order.
    pub fn receivers(&self) -> impl ExactSizeIterator<Item = (Ipv6Addr, u32)> + use<'a> {
        self.receivers.iter().map(|receiver| (addr(receiver, 0), be24(receiver, 16)))
    }
}

fn wrong(field: &'static str, problem: Problem) -> ParseError {
    ParseError { header: HEADER, field, problem }
}
