// SPDX-License-Identifier: Apache-2.0
//! Extension objects as values, and their encoding with header, pad and checksum.

use super::object::{CTYPE_RESERVED, HEADER, TIMESTAMP_LEN};
use super::{CTYPE_DEVICE, CTYPE_PATH, CTYPE_TIMESTAMP, HEADER_LEN, OBJECT_HEADER_LEN, ObjectView, VERSION};
use crate::checksum::Sum;
use crate::error::{EmitError, Problem};
use crate::long_haul_cnp::CLASS_NUM;
use alloc::string::String;
use alloc::vec::Vec;

/// One extension object. A payload has at most 65531 octets, the limit of Length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Object {
    /// Time of the packet: NTP format, seconds since 1900 and then fractions of a second.
    Timestamp(u64),
    /// Device that sent the packet.
    Device(String),
    /// Path identifier, opaque.
    Path(Vec<u8>),
    /// Any other object.
    Other {
        /// Class-Num.
        class_num: u8,
        /// C-Type; in this class one that is unassigned (4..=255).
        c_type: u8,
        /// Object Payload, without pad.
        payload: Vec<u8>,
    },
}

impl Object {
    /// Octets of header and payload: the value of Length.
    fn len(&self) -> usize {
        OBJECT_HEADER_LEN
            + match self {
                Self::Timestamp(_) => TIMESTAMP_LEN,
                Self::Device(name) => name.len(),
                Self::Path(payload) | Self::Other { payload, .. } => payload.len(),
            }
    }

    /// Octets of header, payload and pad.
    pub fn wire_len(&self) -> usize {
        self.len().next_multiple_of(4)
    }

    /// `out` has `wire_len` octets.
    fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let wrong = |field, problem| EmitError { header: HEADER, field, problem };
        let (min, max, found) = (OBJECT_HEADER_LEN as u64, u64::from(u16::MAX), self.len() as u64);
        let length = u16::try_from(self.len()).map_err(|_| wrong("Length", Problem::OutOfRange { min, max, found }))?;
        let timestamp;
        let (class_num, c_type, payload) = match self {
            Self::Timestamp(ntp) => {
                timestamp = ntp.to_be_bytes();
                (CLASS_NUM, CTYPE_TIMESTAMP, &timestamp[..])
            }
            Self::Device(name) => (CLASS_NUM, CTYPE_DEVICE, name.as_bytes()),
            Self::Path(payload) => (CLASS_NUM, CTYPE_PATH, &payload[..]),
            Self::Other { class_num: CLASS_NUM, c_type: c_type @ CTYPE_RESERVED..=CTYPE_PATH, .. } => {
                // It would be parsed as another variant, or not at all.
                return Err(wrong("C-Type", Problem::Unsupported { found: u64::from(*c_type) }));
            }
            Self::Other { class_num, c_type, payload } => (*class_num, *c_type, &payload[..]),
        };
        let (header, behind) = out.split_at_mut(OBJECT_HEADER_LEN);
        header[..2].copy_from_slice(&length.to_be_bytes());
        (header[2], header[3]) = (class_num, c_type);
        let (body, pad) = behind.split_at_mut(payload.len());
        body.copy_from_slice(payload);
        pad.fill(0);
        Ok(())
    }
}

impl From<ObjectView<'_>> for Object {
    fn from(view: ObjectView<'_>) -> Self {
        match view {
            ObjectView::Timestamp(ntp) => Self::Timestamp(ntp),
            ObjectView::Device(name) => Self::Device(name.into()),
            ObjectView::Path(path) => Self::Path(path.into()),
            ObjectView::Other { class_num, c_type, payload } => {
                Self::Other { class_num, c_type, payload: payload.into() }
            }
        }
    }
}

/// Octets of an extension structure with these objects; none without objects, because the header is omitted then.
pub fn wire_len(objects: &[Object]) -> usize {
    if objects.is_empty() { 0 } else { HEADER_LEN + objects.iter().map(Object::wire_len).sum::<usize>() }
}

/// Writes an extension structure to the front of `out` and returns its octets; writes nothing without objects. Fails
/// when `out` is short, a payload is too long, or an [`Object::Other`] has the type of another variant.
pub fn emit(objects: &[Object], out: &mut [u8]) -> Result<usize, EmitError> {
    let (needed, available) = (wire_len(objects), out.len());
    let Some(out) = out.get_mut(..needed) else {
        let problem = Problem::Truncated { needed, available };
        return Err(EmitError { header: super::HEADER, field: "buffer", problem });
    };
    let Some((header, mut rest)) = out.split_first_chunk_mut::<HEADER_LEN>() else { return Ok(0) };
    *header = [VERSION << 4, 0, 0, 0];
    for object in objects {
        let (own, behind) = rest.split_at_mut(object.wire_len());
        object.emit(own)?;
        rest = behind;
    }
    // Zero would mean that there is no checksum; in one's complement 0xffff is the same number.
    let checksum = match Sum::default().add(out).checksum() {
        0 => 0xffff,
        checksum => checksum,
    };
    out[2..HEADER_LEN].copy_from_slice(&checksum.to_be_bytes());
    Ok(needed)
}
