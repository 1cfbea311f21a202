// SPDX-License-Identifier: Apache-2.0
//! Extension structure of a Long-haul CNP: RFC 4884 sections 7 and 8, draft-tian-ccwg-long-haul-cnp-00 section 6.1.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version|      Reserved         |           Checksum            |  Extension Header
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Length             |   Class-Num   |    C-Type     |  Extension Object, one or more
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~           Object Payload, padded with zero to 4 octets        ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Version has 4 bits and Reserved 12 (the draft's figure shows 8 and 8; its text and RFC 4884 define 4 and 12). The
//! checksum covers the whole structure; zero means that the sender computed none. Length counts the object's header and
//! payload but not the pad. A header without an object is malformed: it must be omitted then.

mod object;
#[cfg(feature = "alloc")]
mod value;

pub use object::{CTYPE_DEVICE, CTYPE_PATH, CTYPE_TIMESTAMP, ObjectView, Objects};
#[cfg(feature = "alloc")]
pub use value::{Object, emit, wire_len};

use crate::checksum::Sum;
use crate::error::{ParseError, Problem};
use crate::wire::{be16, split};

const HEADER: &str = "Extension Header";

/// Version of the Extension Header.
pub const VERSION: u8 = 2;
/// Octets of the Extension Header.
pub const HEADER_LEN: usize = 4;
/// Octets of an object's header.
pub const OBJECT_HEADER_LEN: usize = 4;

/// An extension structure in place: header and every object have been checked.
#[derive(Debug, Clone, Copy)]
pub struct ExtensionsView<'a> {
    checksum: u16,
    objects: &'a [u8],
}

impl<'a> ExtensionsView<'a> {
    /// Reads a structure that fills `bytes`.
    ///
    /// Fails, naming the field, when the version is not 2, a reserved bit is set, the checksum is neither zero nor right,
    /// there is no object, or an object is malformed: see [`Objects`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, objects) = split::<HEADER_LEN>(bytes, HEADER)?;
        let first = be16(header, 0);
        expect("Version", u64::from(VERSION), u64::from(first >> 12))?;
        expect("Reserved", 0, u64::from(first & 0x0fff))?;
        let checksum = be16(header, 2);
        let sum = Sum::default().add(bytes);
        if checksum != 0 && sum.fold() != 0xffff {
            let mut without = *header;
            without[2..].fill(0);
            let expected = u64::from(Sum::default().add(&without).add(objects).checksum());
            return Err(wrong("Checksum", Problem::Expected { expected, found: u64::from(checksum) }));
        }
        if objects.is_empty() {
            return Err(wrong("Extension Object", Problem::Missing));
        }
        Objects::new(objects).try_for_each(|object| object.map(drop))?;
        Ok(Self { checksum, objects })
    }

    /// Checksum; zero when the sender computed none.
    pub fn checksum(&self) -> u16 {
        self.checksum
    }

    /// The objects in order.
    pub fn objects(&self) -> impl Iterator<Item = ObjectView<'a>> + use<'a> {
        // Each was checked in `parse`.
        Objects::new(self.objects).filter_map(Result::ok)
    }
}

fn expect(field: &'static str, expected: u64, found: u64) -> Result<(), ParseError> {
    if expected == found {
        return Ok(());
    }
    Err(wrong(field, Problem::Expected { expected, found }))
}

fn wrong(field: &'static str, problem: Problem) -> ParseError {
    ParseError { header: HEADER, field, problem }
}
