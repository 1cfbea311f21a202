// SPDX-License-Identifier: Apache-2.0
//! Long-haul CNP in ICMPv6, draft-tian-ccwg-long-haul-cnp-00 section 6.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type (200)  |   Code (0)    |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                 Long-haul CNP (12 octets)                     ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~   Extension Header and Extension Objects (optional)           ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A message that is longer than header and fixed body has extensions; there is no other indication.

use super::extension::ExtensionsView;
use super::{ICMPV6_TYPE, LongHaulCnp, LongHaulCnpView};
use crate::error::{ParseError, Problem};
use crate::icmpv6::{self, Icmpv6View};
use core::net::Ipv6Addr;

const HEADER: &str = "Long-haul CNP in ICMPv6";

/// Code: the message is about one flow.
pub const CODE_FLOW: u8 = 0;

/// A message in place.
#[derive(Debug, Clone, Copy)]
pub struct MessageView<'a> {
    cnp: LongHaulCnpView<'a>,
    extensions: Option<ExtensionsView<'a>>,
}

impl<'a> MessageView<'a> {
    /// Reads a message that fills `bytes`, starting at its ICMPv6 header, sent from `src` to `dst`.
    ///
    /// Fails, naming the field, when the type or code is another, the ICMPv6 checksum is wrong, or the body or the
    /// extensions are malformed.
    pub fn parse(src: Ipv6Addr, dst: Ipv6Addr, bytes: &'a [u8]) -> Result<Self, ParseError> {
        let wrong = |field, problem| ParseError { header: HEADER, field, problem };
        let header = Icmpv6View::parse(bytes)?;
        if header.icmp_type() != ICMPV6_TYPE {
            let (expected, found) = (u64::from(ICMPV6_TYPE), u64::from(header.icmp_type()));
            return Err(wrong("Type", Problem::Expected { expected, found }));
        }
        if header.code() != CODE_FLOW {
            return Err(wrong("Code", Problem::Unsupported { found: u64::from(header.code()) }));
        }
        if !icmpv6::verify(src, dst, bytes) {
            let expected = u64::from(icmpv6::checksum(src, dst, bytes));
            return Err(wrong("Checksum", Problem::Expected { expected, found: u64::from(header.checksum()) }));
        }
        let cnp = LongHaulCnpView::parse(header.payload())?;
        let behind = cnp.payload();
        let extensions = if behind.is_empty() { None } else { Some(ExtensionsView::parse(behind)?) };
        Ok(Self { cnp, extensions })
    }

    /// The fixed body.
    pub fn cnp(&self) -> LongHaulCnp {
        self.cnp.into()
    }

    /// The extensions, if present.
    pub fn extensions(&self) -> Option<ExtensionsView<'a>> {
        self.extensions
    }
}

#[cfg(feature = "alloc")]
pub use value::Message;

#[cfg(feature = "alloc")]
mod value {
    use super::super::extension::{self, Object};
    use super::{CODE_FLOW, ICMPV6_TYPE, LongHaulCnp, MessageView};
    use crate::error::{EmitError, ParseError};
    use crate::icmpv6::{self, Icmpv6};
    use alloc::vec::Vec;
    use core::net::Ipv6Addr;

    /// A message; type, code and checksums follow from the rest.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct Message {
        /// The fixed body.
        pub cnp: LongHaulCnp,
        /// Extension objects in order; without any, the Extension Header is omitted.
        pub objects: Vec<Object>,
    }

    impl Message {
        /// Reads a message that fills `bytes`. Fails as [`MessageView::parse`] does.
        pub fn parse(src: Ipv6Addr, dst: Ipv6Addr, bytes: &[u8]) -> Result<Self, ParseError> {
            let view = MessageView::parse(src, dst, bytes)?;
            let objects = view.extensions().into_iter().flat_map(|e| e.objects()).map(Object::from).collect();
            Ok(Self { cnp: view.cnp(), objects })
        }

        /// Octets of the message, its ICMPv6 header with them.
        pub fn wire_len(&self) -> usize {
            Icmpv6::LEN + LongHaulCnp::LEN + extension::wire_len(&self.objects)
        }

        /// The message starting at its ICMPv6 header, sent from `src` to `dst`. Fails if a field is beyond its limits.
        pub fn to_vec(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Result<Vec<u8>, EmitError> {
            let mut message = alloc::vec![0; self.wire_len()];
            self.cnp.emit(&mut message[Icmpv6::LEN..])?;
            extension::emit(&self.objects, &mut message[Icmpv6::LEN + LongHaulCnp::LEN..])?;
            let header = Icmpv6 { icmp_type: ICMPV6_TYPE, code: CODE_FLOW, checksum: 0 };
            header.emit(&mut message)?;
            let checksum = icmpv6::checksum(src, dst, &message);
            Icmpv6 { checksum, ..header }.emit(&mut message)?;
            Ok(message)
        }
    }
}
