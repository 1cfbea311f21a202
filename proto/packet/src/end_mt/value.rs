// SPDX-License-Identifier: Apache-2.0
//! The End.MT TLV as a value.

use super::{EndMtView, FIXED_LEN, HEADER, MAX_RECEIVERS, RECEIVER_LEN, TLV_TYPE};
use crate::error::{EmitError, ParseError, Problem};
use crate::wire::{fits, put24};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// An End.MT TLV.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndMt {
    /// Edge Node Address: the node that this TLV is for.
    pub edge: Ipv6Addr,
    /// Address and QPN (24 bits) of every receiver, at most [`MAX_RECEIVERS`].
    pub receivers: Vec<(Ipv6Addr, u32)>,
}

impl EndMt {
    /// The TLVs for an edge with these receivers: none for an empty list, else one per [`MAX_RECEIVERS`] or part of
    /// them, in the order of the list.
    pub fn split(edge: Ipv6Addr, receivers: &[(Ipv6Addr, u32)]) -> Vec<Self> {
        let chunks = receivers.chunks(MAX_RECEIVERS);
        chunks.map(|receivers| Self { edge, receivers: receivers.to_vec() }).collect()
    }

    /// Octets of the TLV, Type and Length with them.
    pub fn wire_len(&self) -> usize {
        FIXED_LEN + RECEIVER_LEN * self.receivers.len()
    }

    /// Reads a TLV from the front of `bytes`, Type first. Fails as [`EndMtView::parse`] does.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self::from(EndMtView::parse(bytes)?))
    }

    /// Writes the TLV, Type first, to the front of `out`; reserved fields are zero. Fails when `out` is short, there
    /// are more than [`MAX_RECEIVERS`] receivers, or a QPN exceeds 24 bits.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let count = self.receivers.len();
        if count > MAX_RECEIVERS {
            let (max, found) = (MAX_RECEIVERS as u64, count as u64);
            return Err(wrong("Num Receivers", Problem::OutOfRange { min: 0, max, found }));
        }
        let (needed, available) = (self.wire_len(), out.len());
        let out = out.get_mut(..needed).ok_or_else(|| wrong("buffer", Problem::Truncated { needed, available }))?;
        out.fill(0);
        out[0] = TLV_TYPE;
        out[1] = (needed - 2) as u8;
        out[4..20].copy_from_slice(&self.edge.octets());
        out[20] = count as u8;
        let entries = out[FIXED_LEN..].chunks_exact_mut(RECEIVER_LEN);
        for (entry, (address, qpn)) in entries.zip(&self.receivers) {
            entry[..16].copy_from_slice(&address.octets());
            put24(&mut entry[16..19], fits(HEADER, "Receiver QPN", *qpn, 24)?);
        }
        Ok(())
    }
}

impl From<EndMtView<'_>> for EndMt {
    fn from(view: EndMtView<'_>) -> Self {
        Self { edge: view.edge(), receivers: view.receivers().collect() }
    }
}

fn wrong(field: &'static str, problem: Problem) -> EmitError {
    EmitError { header: HEADER, field, problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn receivers(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<(Ipv6Addr, u32)>> {
        let receiver = (any::<Ipv6Addr>(), 0_u32..1 << 24);
        proptest::collection::vec(receiver, count)
    }

    fn emitted(tlv: &EndMt) -> Vec<u8> {
        let mut bytes = vec![0xaa; tlv.wire_len()];
        tlv.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_figure_of_the_draft_for_two_receivers() {
        let edge = "fcff:0:0:7::1".parse().unwrap();
        let (r1, r2) = ("fd00:1::1".parse().unwrap(), "fd00:2::2".parse().unwrap());
        let tlv = EndMt { edge, receivers: vec![(r1, 0x01_0203), (r2, 0xff_fffe)] };
        let expected = [
            124, 62, 0, 0, // Type, Length, Reserved
            0xfc, 0xff, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, // Edge Node Address
            2, 0, 0, 0, // Num Receivers, Reserved
            0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // Receiver 1 Address
            1, 2, 3, 0, // Receiver 1 QPN, Reserved
            0xfd, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, // Receiver 2 Address
            0xff, 0xff, 0xfe, 0, // Receiver 2 QPN, Reserved
        ];
        assert_eq!(emitted(&tlv), expected);
    }

    #[test]
    fn eleven_receivers_fit_and_twelve_are_refused() {
        let mut tlv = EndMt { edge: Ipv6Addr::LOCALHOST, receivers: vec![(Ipv6Addr::LOCALHOST, 2); 11] };
        assert_eq!(emitted(&tlv)[1], 242);
        tlv.receivers.push((Ipv6Addr::LOCALHOST, 2));
        let error = tlv.emit(&mut [0; 300]).unwrap_err();
        assert_eq!(error.field, "Num Receivers");
        assert!(matches!(error.problem, Problem::OutOfRange { max: 11, found: 12, .. }));
    }

    #[test]
    fn a_qpn_of_25_bits_is_refused() {
        let tlv = EndMt { edge: Ipv6Addr::LOCALHOST, receivers: vec![(Ipv6Addr::LOCALHOST, 1 << 24)] };
        assert_eq!(tlv.emit(&mut [0; 44]).unwrap_err().field, "Receiver QPN");
    }

    #[test]
    fn a_count_that_length_does_not_bear_out_is_malformed() {
        let tlv = EndMt { edge: Ipv6Addr::LOCALHOST, receivers: vec![(Ipv6Addr::LOCALHOST, 2); 2] };
        for (offset, octet) in [(1, 61), (1, 63), (1, 42), (20, 1), (20, 3), (20, 255)] {
            let mut bytes = emitted(&tlv);
            bytes[offset] = octet;
            bytes.resize(6000, 0);
            assert_eq!(EndMt::parse(&bytes).unwrap_err().field, "Length", "{offset} {octet}");
        }
    }

    #[test]
    fn an_error_names_what_the_count_requires() {
        let tlv = EndMt { edge: Ipv6Addr::LOCALHOST, receivers: vec![(Ipv6Addr::LOCALHOST, 2); 2] };
        let bytes = emitted(&tlv);
        assert_eq!(EndMtView::parse(&bytes).unwrap().num_receivers(), 2);
        let problem = |bytes: &[u8]| EndMt::parse(bytes).unwrap_err().problem;
        assert_eq!(problem(&bytes[..63]), Problem::Truncated { needed: 64, available: 63 });
        let changed = |at: usize, octet| {
            let mut bytes = bytes.clone();
            bytes[at] = octet;
            problem(&bytes)
        };
        assert_eq!(changed(0, 5), Problem::Expected { expected: 124, found: 5 });
        assert_eq!(changed(1, 61), Problem::Expected { expected: 62, found: 61 });
        assert_eq!(changed(20, 3), Problem::Expected { expected: 82, found: 62 });
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed_whatever_reserved_fields_hold(
            edge: Ipv6Addr, receivers in receivers(0..=MAX_RECEIVERS), noise: u8,
        ) {
            let tlv = EndMt { edge, receivers };
            let mut bytes = emitted(&tlv);
            for reserved in [2, 3, 21, 22, 23].into_iter().chain((43..bytes.len()).step_by(20)) {
                prop_assert_eq!(bytes[reserved], 0);
                bytes[reserved] = noise;
            }
            prop_assert_eq!(EndMt::parse(&bytes), Ok(tlv));
        }

        #[test]
        fn every_truncation_is_refused(receivers in receivers(1..=MAX_RECEIVERS), cut: prop::sample::Index) {
            let tlv = EndMt { edge: Ipv6Addr::LOCALHOST, receivers };
            let bytes = emitted(&tlv);
            prop_assert!(EndMt::parse(&bytes[..cut.index(bytes.len())]).is_err());
            let mut short = vec![0; cut.index(bytes.len())];
            prop_assert_eq!(tlv.emit(&mut short).unwrap_err().field, "buffer");
        }

        #[test]
        fn splitting_loses_no_receiver_and_fills_every_tlv_but_the_last(receivers in receivers(0..60)) {
            let tlvs = EndMt::split(Ipv6Addr::LOCALHOST, &receivers);
            let again: Vec<_> = tlvs.iter().flat_map(|tlv| tlv.receivers.clone()).collect();
            prop_assert_eq!(again, receivers);
            if let Some((last, full)) = tlvs.split_last() {
                prop_assert!(full.iter().all(|tlv| tlv.receivers.len() == MAX_RECEIVERS));
                prop_assert!((1..=MAX_RECEIVERS).contains(&last.receivers.len()));
            }
        }
    }
}
