// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::end_mt::EndMt;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

mod fields;

fn srh(segments: usize) -> Srh {
    Srh {
        next_header: 41,
        segments_left: 1,
        flags: 0,
        tag: 0,
        segments: vec!["5f00:0:1::".parse().unwrap(); segments],
        tlvs: Vec::new(),
        hmac: None,
    }
}

fn other(len: usize) -> Tlv {
    Tlv::Other { tlv_type: 200, value: vec![7; len] }
}

fn tlv() -> impl Strategy<Value = Tlv> {
    let receivers = vec((any::<Ipv6Addr>(), 0_u32..1 << 24), 0..=crate::end_mt::MAX_RECEIVERS);
    let end_mt = (any::<Ipv6Addr>(), receivers).prop_map(|(edge, receivers)| Tlv::EndMt(EndMt { edge, receivers }));
    let other = (125_u8.., vec(any::<u8>(), 0..40)).prop_map(|(tlv_type, value)| Tlv::Other { tlv_type, value });
    prop_oneof![end_mt, other]
}

fn hmac() -> impl Strategy<Value = Hmac> {
    let octets = prop::sample::select(&[8_usize, 16, 24, 32][..]).prop_flat_map(|len| vec(any::<u8>(), len));
    (any::<bool>(), any::<u32>(), octets).prop_map(|(d, key_id, hmac)| Hmac { d, key_id, hmac })
}

prop_compose! {
    fn any_srh()(
        segments in vec(any::<Ipv6Addr>(), 1..12),
        left: prop::sample::Index,
        (next_header, flags, tag) in any::<(u8, u8, u16)>(),
        tlvs in vec(tlv(), 0..5),
        hmac in prop::option::of(hmac()),
    ) -> Srh {
        let segments_left = left.index(segments.len() + 1) as u8;
        Srh { next_header, segments_left, flags, tag, segments, tlvs, hmac }
    }
}

/// `(type, octets of the whole TLV)` of every TLV, in order.
fn layout(bytes: &[u8]) -> Vec<(u8, usize)> {
    let view = SrhView::parse(bytes).unwrap();
    let kind = |tlv| match tlv {
        TlvView::Pad1 => (TLV_PAD1, 1),
        TlvView::PadN { padding } => (TLV_PADN, 2 + padding.len()),
        TlvView::Hmac(view) => (TLV_HMAC, 8 + view.hmac().len()),
        TlvView::EndMt(view) => (124, 24 + 20 * view.num_receivers()),
        TlvView::Other { tlv_type, value } => (tlv_type, 2 + value.len()),
    };
    view.tlvs().map(|tlv| kind(tlv.unwrap())).collect()
}

#[test]
fn the_fixed_part_is_that_of_the_figure() {
    let mut srh = srh(2);
    (srh.flags, srh.tag) = (0x11, 0x2233);
    srh.segments[0] = "fcfe::1".parse().unwrap();
    let bytes = srh.to_vec().unwrap();
    assert_eq!(bytes[..8], [41, 4, 4, 1, 1, 0x11, 0x22, 0x33]);
    assert_eq!(bytes[8..24], srh.segments[0].octets());
    assert_eq!(bytes.len(), 40);
}

#[test]
fn missing_octets_are_filled_with_pad_n_of_at_least_two_octets() {
    for (value, padding) in
        [(6, &[][..]), (5, &[4, 5]), (4, &[2]), (3, &[3]), (2, &[4]), (1, &[5]), (0, &[6]), (7, &[7])]
    {
        let mut srh = srh(1);
        srh.tlvs.push(other(value));
        let layout = layout(&srh.to_vec().unwrap());
        let found: Vec<_> = layout[1..].iter().map(|&(kind, len)| (kind, len)).collect();
        let expected: Vec<_> = padding.iter().map(|&len| (TLV_PADN, len)).collect();
        assert_eq!(found, expected, "value of {value} octets");
    }
}

#[test]
fn what_hdr_ext_len_cannot_express_is_refused_and_what_it_can_is_not() {
    let hmac = Hmac { d: false, key_id: 1, hmac: vec![0; 32] };
    assert_eq!(srh(127).to_vec().unwrap().len(), 2040);
    assert_eq!(srh(128).to_vec().unwrap_err().field, "Segment List");
    assert_eq!(srh(0).to_vec().unwrap_err().field, "Segment List");
    let full = Srh { tlvs: vec![other(6)], ..srh(127) };
    assert_eq!(full.to_vec().unwrap()[1], 255);
    for over in [
        Srh { tlvs: vec![other(7)], ..srh(127) },
        Srh { tlvs: vec![other(5)], ..srh(127) },
        Srh { hmac: Some(hmac), ..srh(126) },
    ] {
        assert_eq!(over.to_vec().unwrap_err().field, "Hdr Ext Len");
    }
    let many = Srh { tlvs: vec![other(255); 500], ..srh(1) };
    assert_eq!(many.emit(&mut vec![0; 1 << 20]).unwrap_err().field, "Hdr Ext Len");
}

#[test]
fn values_without_an_encoding_are_refused_by_field() {
    let one = srh(1);
    let tlvs = |tlv| vec![tlv];
    let typed = |tlv_type| Tlv::Other { tlv_type, value: vec![] };
    let hmac = |len| Some(Hmac { d: false, key_id: 1, hmac: vec![0; len] });
    let mut bad = vec![
        (Srh { segments_left: 2, ..one.clone() }, "Segments Left"),
        (Srh { tlvs: tlvs(other(256)), ..one.clone() }, "TLV Length"),
        (Srh { hmac: hmac(12), ..one.clone() }, "HMAC"),
        (Srh { hmac: hmac(40), ..one.clone() }, "HMAC"),
        (Srh { hmac: hmac(0), ..one.clone() }, "HMAC"),
    ];
    bad.extend([0, 4, 5, 124].map(|t| (Srh { tlvs: tlvs(typed(t)), ..one.clone() }, "TLV Type")));
    for (srh, field) in bad {
        assert_eq!(srh.to_vec().unwrap_err().field, field, "{srh:?}");
    }
    assert_eq!(one.emit(&mut [0; 23]).unwrap_err().field, "buffer");
}

#[test]
fn malformed_headers_are_refused_by_field() {
    let good = srh(2).to_vec().unwrap();
    for (offset, octet, field) in [
        (2, 3, "Routing Type"),
        (1, 5, "Hdr Ext Len"),
        (1, 3, "Last Entry"),
        (4, 2, "Last Entry"),
        (3, 3, "Segments Left"),
    ] {
        let mut bytes = good.clone();
        bytes[offset] = octet;
        assert_eq!(SrhView::parse(&bytes).unwrap_err().field, field);
    }
    let mut reduced = good;
    reduced[3] = 2;
    assert_eq!(SrhView::parse(&reduced).unwrap().segment(2), None);
}

#[test]
fn malformed_tlvs_end_the_walk_with_an_error() {
    let base = srh(1).to_vec().unwrap();
    for tlvs in [
        [200, 7, 0, 0, 0, 0, 0, 0], // Length beyond the SRH
        [200, 5, 0, 0, 0, 0, 0, 9], // Type without Length
        [5, 6, 0, 0, 0, 0, 0, 1],   // HMAC TLV without HMAC
        [124, 6, 0, 0, 0, 0, 0, 0], // End.MT TLV without its fixed part
    ] {
        let mut bytes = [&base[..], &tlvs].concat();
        bytes[1] += 1;
        bytes.extend([0; 300]); // octets of the next header must not be taken for the TLV's
        let view = SrhView::parse(&bytes).unwrap();
        let mut walk = view.tlvs().skip_while(Result::is_ok);
        assert!(walk.next().is_some(), "{tlvs:?}");
        assert!(walk.next().is_none(), "{tlvs:?}");
        assert!(Srh::parse(&bytes).is_err());
    }
}

#[test]
fn pad1_is_understood_and_a_second_hmac_is_not() {
    let hmac = Hmac { d: true, key_id: 0x0102_0304, hmac: vec![9; 8] };
    let one = Srh { hmac: Some(hmac), ..srh(1) };
    let mut bytes = one.to_vec().unwrap();
    assert_eq!(bytes[24..32], [5, 14, 0x80, 0, 1, 2, 3, 4]);
    let tlv = bytes[24..].to_vec();
    bytes.splice(24..24, [0; 8]);
    bytes[1] += 1;
    assert_eq!(Srh::parse(&bytes), Ok(one));
    bytes.extend(tlv);
    bytes[1] += 2;
    assert_eq!(Srh::parse(&bytes).unwrap_err().field, "HMAC TLV");
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(srh in any_srh(), behind: Vec<u8>) {
        let mut bytes = srh.to_vec().unwrap();
        let len = bytes.len();
        let mut used_before = vec![0xaa; len];
        prop_assert_eq!(srh.emit(&mut used_before), Ok(len));
        prop_assert_eq!(&used_before, &bytes);
        bytes.extend(&behind);
        let view = SrhView::parse(&bytes).unwrap();
        prop_assert_eq!((view.wire_len(), srh.wire_len()), (len, len));
        prop_assert_eq!(view.payload(), behind);
        prop_assert_eq!(Srh::parse(&bytes), Ok(srh));
    }

    /// The rules of decision 2.6 and of RFC 8754 on any mixture of TLVs.
    #[test]
    fn padding_is_legal_and_the_hmac_last_and_aligned(srh in any_srh()) {
        let bytes = srh.to_vec().unwrap();
        prop_assert_eq!(bytes.len() % 8, 0);
        prop_assert_eq!(bytes.len(), 8 * usize::from(bytes[1]) + 8);
        let layout = layout(&bytes);
        let padding: Vec<_> = layout.iter().filter(|tlv| tlv.0 == TLV_PADN).collect();
        prop_assert!(layout.iter().all(|tlv| tlv.0 != TLV_PAD1));
        prop_assert!(padding.iter().all(|tlv| (2..=7).contains(&tlv.1)));
        prop_assert!(padding.len() <= 2 && padding.iter().map(|tlv| tlv.1).sum::<usize>() <= 9);
        if let Some(at) = layout.iter().position(|tlv| tlv.0 == TLV_HMAC) {
            prop_assert_eq!(at, layout.len() - 1);
            prop_assert_eq!(layout[at].1 % 8, 0);
        }
    }

    #[test]
    fn every_truncation_is_refused(srh in any_srh(), cut: prop::sample::Index) {
        let bytes = srh.to_vec().unwrap();
        prop_assert!(SrhView::parse(&bytes[..cut.index(bytes.len())]).is_err());
    }
}
