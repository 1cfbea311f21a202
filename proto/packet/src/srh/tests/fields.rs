// SPDX-License-Identifier: Apache-2.0
//! What a view reads, and which octets an error is about.

use super::*;

/// The octets that an error names are counted from the front of the SRH.
#[test]
fn an_error_names_the_octets_that_are_needed() {
    let good = srh(2).to_vec().unwrap();
    let problem = |bytes: &[u8]| SrhView::parse(bytes).unwrap_err().problem;
    assert_eq!(problem(&good[..7]), Problem::Truncated { needed: 8, available: 7 });
    assert_eq!(problem(&good[..39]), Problem::Truncated { needed: 40, available: 39 });
    let mut list = good.clone();
    list[1] = 3;
    assert_eq!(problem(&list), Problem::Truncated { needed: 40, available: 32 });
    let mut left = good;
    left[3] = 3;
    assert_eq!(problem(&left), Problem::OutOfRange { min: 0, max: 2, found: 3 });
    let tlv = |bytes: &[u8]| Tlvs::new(bytes).next().unwrap().unwrap_err().problem;
    assert_eq!(tlv(&[200]), Problem::Truncated { needed: 2, available: 1 });
    assert_eq!(tlv(&[200, 7, 0, 0]), Problem::Truncated { needed: 9, available: 4 });
    let hmac = HmacView::parse(&[5, 22, 0, 0, 0, 0, 0, 1, 9]).unwrap_err();
    assert_eq!((hmac.field, hmac.problem), ("HMAC", Problem::Truncated { needed: 24, available: 9 }));
    let unsupported = |len| HmacView::parse(&[5, len, 0, 0, 0, 0, 0, 1]).unwrap_err();
    for length in [0, 5, 6, 13, 15, 39] {
        let error = unsupported(length);
        assert_eq!((error.field, error.problem), ("Length", Problem::Unsupported { found: length.into() }));
    }
}

#[test]
fn a_view_has_every_field_of_the_figure() {
    let addresses = ["5f00:0:1::", "5f00:0:2::", "5f00:0:3::"].map(|text| text.parse().unwrap());
    let hmac = Hmac { d: false, key_id: 1, hmac: vec![3; 32] };
    let srh = Srh { segments: addresses.to_vec(), flags: 3, tag: 0x0405, hmac: Some(hmac), ..srh(0) };
    let bytes = srh.to_vec().unwrap();
    let view = SrhView::parse(&bytes).unwrap();
    assert_eq!((view.next_header(), view.segments_left(), view.flags(), view.tag()), (41, 1, 3, 0x0405));
    assert_eq!((view.last_entry(), usize::from(view.hdr_ext_len())), (2, bytes.len() / 8 - 1));
    assert_eq!([0, 1, 2].map(|at| view.segment(at)), addresses.map(Some));
    assert_eq!(view.segments().len(), 3);
    assert_eq!(layout(&bytes), [(TLV_HMAC, HMAC_TLV_LEN)]);
}
