// SPDX-License-Identifier: Apache-2.0
//! Long-haul CNP in RoCEv2, draft-tian-ccwg-long-haul-cnp-00 section 6.2: a CNP whose BTH has E set.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | OpCode (0x81) |0|0| 0 |   0   |             P_Key             |  BTH
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |0|1|1|    0    |              Destination QP                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |0|      0      |                       0                       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                 Long-haul CNP (12 octets)                     ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    four zero octets, or Extension Header and Objects          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             ICRC                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A standard CNP has 16 reserved octets after its BTH, so twelve would make a packet shorter than any CNP: without
//! extensions four zero octets follow. Version 2 of an Extension Header distinguishes the two cases.
//!
//! The ICRC masks the octet that holds E, so nothing protects that bit. A packet is therefore accepted as a Long-haul
//! CNP only if *every* field is as the draft requires, and Destination QP and Source QP Number are the same QP: the one
//! at the source that is to be controlled, as in the draft's example. Everything else is a plain CNP, or invalid.

use super::extension::ExtensionsView;
use super::{LongHaulCnp, LongHaulCnpView};
use crate::bth::{Bth, BthView, Opcode, RESV8A_BECN, RESV8A_E};
use crate::cnp::Cnp;
use crate::error::{ParseError, Problem};

const HEADER: &str = "Long-haul CNP in RoCEv2";
/// Octets that fill the place of absent extensions.
const FILL: [u8; Cnp::LEN - LongHaulCnp::LEN] = [0; Cnp::LEN - LongHaulCnp::LEN];

/// A Long-haul CNP in place, from its BTH to its ICRC.
#[derive(Debug, Clone, Copy)]
pub struct RoceView<'a> {
    bth: BthView<'a>,
    cnp: LongHaulCnpView<'a>,
    extensions: Option<ExtensionsView<'a>>,
}

impl<'a> RoceView<'a> {
    /// Reads the octets between the UDP header and the ICRC, both excluded. The ICRC is not checked.
    ///
    /// Fails, naming the field, when a field of the BTH is not as section 6.2.3 requires (also if E is clear: that is a
    /// plain CNP), the two QP numbers differ, or the body, the fill or the extensions are malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let bth = BthView::parse(bytes)?;
        check(&bth)?;
        let cnp = LongHaulCnpView::parse(bth.payload())?;
        expect("Source QP Number", u64::from(bth.dest_qp()), u64::from(cnp.source_qp()))?;
        let behind = cnp.payload();
        if behind.len() < FILL.len() {
            let (needed, available) = (Bth::LEN + Cnp::LEN, bytes.len());
            let problem = Problem::Truncated { needed, available };
            return Err(ParseError { header: HEADER, field: "length", problem });
        }
        let extensions = if *behind == FILL { None } else { Some(ExtensionsView::parse(behind)?) };
        Ok(Self { bth, cnp, extensions })
    }

    /// Partition Key of the flow.
    pub fn pkey(&self) -> u16 {
        self.bth.pkey()
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

/// The fields that have one valid value.
fn check(bth: &BthView<'_>) -> Result<(), ParseError> {
    expect("OpCode", u64::from(Opcode::CNP.0), u64::from(bth.opcode().0))?;
    expect("Solicited Event", 0, u64::from(bth.solicited()))?;
    expect("MigReq", 0, u64::from(bth.migration()))?;
    expect("Pad Count", 0, u64::from(bth.pad_count()))?;
    expect("TVer", 0, u64::from(bth.version()))?;
    expect("FECN, BECN, E and reserved", u64::from(RESV8A_BECN | RESV8A_E), u64::from(bth.resv8a()))?;
    expect("Acknowledge Request", 0, u64::from(bth.ack_req()))?;
    expect("resv7", 0, u64::from(bth.resv7()))?;
    expect("PSN", 0, u64::from(bth.psn()))
}

fn expect(field: &'static str, expected: u64, found: u64) -> Result<(), ParseError> {
    if expected == found {
        return Ok(());
    }
    Err(ParseError { header: HEADER, field, problem: Problem::Expected { expected, found } })
}

#[cfg(feature = "alloc")]
mod packet;
#[cfg(feature = "alloc")]
pub use packet::RocePacket;
