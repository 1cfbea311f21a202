// SPDX-License-Identifier: Apache-2.0
//! Extension objects in place.

use super::OBJECT_HEADER_LEN;
use crate::error::{ParseError, Problem};
use crate::long_haul_cnp::CLASS_NUM;
use crate::wire::{be16, be64, split};
use core::str;

pub(super) const HEADER: &str = "Extension Object";

/// C-Type of a Timestamp.
pub const CTYPE_TIMESTAMP: u8 = 1;
/// C-Type of a Device Identifier.
pub const CTYPE_DEVICE: u8 = 2;
/// C-Type of a Path Identifier.
pub const CTYPE_PATH: u8 = 3;
/// C-Type without a meaning in this class.
pub(super) const CTYPE_RESERVED: u8 = 0;
/// Octets of a Timestamp's payload.
pub(super) const TIMESTAMP_LEN: usize = 8;

/// One object in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectView<'a> {
    /// Time of the packet: NTP format, seconds since 1900 and then fractions of a second.
    Timestamp(u64),
    /// Device that sent the packet.
    Device(&'a str),
    /// Path identifier, opaque.
    Path(&'a [u8]),
    /// An object unknown to this crate, to be skipped.
    Other {
        /// Class-Num.
        class_num: u8,
        /// C-Type.
        c_type: u8,
        /// Object Payload, without pad.
        payload: &'a [u8],
    },
}

/// The objects of an extension structure. The first malformed one is an error and ends the walk: Length below 4 or beyond
/// the structure, a pad that is cut short or not zero, C-Type 0, a Timestamp that is not 8 octets long, or a Device
/// Identifier that is not UTF-8.
#[derive(Debug, Clone)]
pub struct Objects<'a> {
    rest: &'a [u8],
}

impl<'a> Objects<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    fn step(&mut self) -> Result<ObjectView<'a>, ParseError> {
        let bytes = self.rest;
        self.rest = &[];
        let (header, _) = split::<OBJECT_HEADER_LEN>(bytes, HEADER)?;
        let len = usize::from(be16(header, 0));
        if len < OBJECT_HEADER_LEN {
            let (min, max, found) = (OBJECT_HEADER_LEN as u64, u64::from(u16::MAX), len as u64);
            return Err(wrong("Length", Problem::OutOfRange { min, max, found }));
        }
        let needed = len.next_multiple_of(4);
        let available = bytes.len();
        let (whole, rest) =
            bytes.split_at_checked(needed).ok_or(wrong("Length", Problem::Truncated { needed, available }))?;
        let (object, pad) = whole.split_at(len);
        if let Some(octet) = pad.iter().find(|octet| **octet != 0) {
            return Err(wrong("Padding", Problem::Expected { expected: 0, found: u64::from(*octet) }));
        }
        let view = view(header[2], header[3], &object[OBJECT_HEADER_LEN..])?;
        self.rest = rest;
        Ok(view)
    }
}

fn view(class_num: u8, c_type: u8, payload: &[u8]) -> Result<ObjectView<'_>, ParseError> {
    if class_num != CLASS_NUM {
        return Ok(ObjectView::Other { class_num, c_type, payload });
    }
    match c_type {
        CTYPE_RESERVED => Err(wrong("C-Type", Problem::Unsupported { found: 0 })),
        CTYPE_TIMESTAMP => {
            let octets: &[u8; TIMESTAMP_LEN] = payload.try_into().map_err(|_| {
                let expected = (OBJECT_HEADER_LEN + TIMESTAMP_LEN) as u64;
                wrong(
                    "Timestamp Length",
                    Problem::Expected { expected, found: (OBJECT_HEADER_LEN + payload.len()) as u64 },
                )
            })?;
            Ok(ObjectView::Timestamp(be64(octets, 0)))
        }
        CTYPE_DEVICE => str::from_utf8(payload).map(ObjectView::Device).map_err(|error| {
            let found = payload.get(error.valid_up_to()).map_or(0, |octet| u64::from(*octet));
            wrong("Device Identifier", Problem::Unsupported { found })
        }),
        CTYPE_PATH => Ok(ObjectView::Path(payload)),
        _ => Ok(ObjectView::Other { class_num, c_type, payload }),
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = Result<ObjectView<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.step())
    }
}

impl core::iter::FusedIterator for Objects<'_> {}

fn wrong(field: &'static str, problem: Problem) -> ParseError {
    ParseError { header: HEADER, field, problem }
}
