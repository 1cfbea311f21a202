// SPDX-License-Identifier: Apache-2.0

use canopy_packet::end_mt::EndMt;
use canopy_packet::srh::{Srh, Tlv};
use proptest::prelude::*;

use super::*;

fn tight(mtu: u32) -> Option<TightLink> {
    Some(TightLink { label: "n6/eth1--n4/eth1".into(), mtu })
}

fn ask(choice: EncodingChoice, edges: &[usize], path_mtu: u32, mtu: u32) -> Result<Decision, FieldError> {
    decide(&Question { choice, path_mtu, edges, tightest: tight(mtu), signed: false })
}

/// The SRH that a headend would really write, by the crate that writes it.
fn real_srh(edges: &[usize]) -> Srh {
    let address = Ipv6Addr::LOCALHOST;
    let tlvs = edges.iter().flat_map(|&n| EndMt::split(address, &vec![(address, 2); n])).map(Tlv::EndMt).collect();
    Srh { next_header: 41, segments_left: 1, flags: 0, tag: 0, segments: vec![address; 2], tlvs, hmac: None }
}

proptest! {
    #[test]
    fn sizes_are_those_of_the_real_header(edges in prop::collection::vec(1usize..40, 0..6)) {
        let sum = edges.iter().map(|&n| tlv_bytes(n)).sum();
        let question = Question { choice: EncodingChoice::Auto, path_mtu: 1024, edges: &edges, tightest: None, signed: false };
        prop_assert_eq!(question.srh_bytes(sum), real_srh(&edges).wire_len());
    }

    #[test]
    fn what_is_decided_fits_and_one_edge_more_would_not(
        edges in prop::collection::vec(1usize..60, 1..20), path_mtu in prop::sample::select(vec![256u32, 512, 1024, 2048, 4096]), mtu in 1280u32..9000,
    ) {
        let bare = 40 + 84 + path_mtu as usize + 40;
        match ask(EncodingChoice::Auto, &edges, path_mtu, mtu) {
            Err(e) => {
                prop_assert!(bare > mtu as usize);
                prop_assert_eq!(e.field, "spec.pathMtu");
            }
            Ok(d) => {
                let in_band: Vec<usize> = edges.iter().zip(&d.in_band).filter(|(_, b)| **b).map(|(n, _)| *n).collect();
                let fits = |s: &Srh| s.wire_len() <= 2048 && s.wire_len() + 40 + 84 + path_mtu as usize <= mtu as usize;
                prop_assert!(fits(&real_srh(&in_band)));
                prop_assert_eq!(d.srh_bytes, real_srh(&in_band).wire_len());
                prop_assert!(real_srh(&in_band).to_vec().is_ok());
                let mode = match in_band.len() { 0 => EncodingMode::Provisioned, n if n == edges.len() => EncodingMode::InBand, _ => EncodingMode::Hybrid };
                prop_assert_eq!(d.mode, mode);
                // No larger set of edges fits: not even the shortest lists, one more of them.
                let mut shortest = edges.clone();
                shortest.sort_unstable();
                if in_band.len() < edges.len() {
                    prop_assert!(!fits(&real_srh(&shortest[..=in_band.len()])));
                }
            }
        }
    }
}

#[test]
fn a_whole_set_of_lists_goes_in_band() {
    let d = ask(EncodingChoice::Auto, &[1, 2, 3], 4096, 9000).unwrap();
    // 40 + (24 + 20) + (24 + 40) + (24 + 60), padded to 8.
    assert_eq!((d.mode, d.srh_bytes, d.overhead_bytes()), (EncodingMode::InBand, 232, 272));
    assert_eq!(
        d.reason,
        "the lists of all 3 edges fit: the SRH has 232 bytes of at most 2048, the largest SRH there can be (RFC 8754)"
    );
}

#[test]
fn the_longest_lists_are_provisioned_first() {
    let d = ask(EncodingChoice::Auto, &[90, 1, 50, 2], 1024, 9000).unwrap();
    assert_eq!(d.mode, EncodingMode::Hybrid);
    assert_eq!(d.in_band, [false, true, true, true]);
    assert!(d.reason.contains("the 1 longest lists are provisioned"), "{}", d.reason);
}

#[test]
fn a_tight_link_sets_the_budget_and_is_named() {
    // 4180 inner + 40 outer + 40 bare SRH = 4260.
    assert_eq!(inner_bytes(4096), 4180);
    let e = ask(EncodingChoice::Auto, &[1], 4096, 1500).unwrap_err();
    assert_eq!(
        e.to_string(),
        "spec.pathMtu: link n6/eth1--n4/eth1 has MTU 1500, this group needs 4260 bytes (4096 of payload, 164 of headers): raise the link's MTU or use pathMtu 1024"
    );
    // 164 bytes of headers.
    for (mtu, fits) in [(2048 + 164, 2048), (2048 + 163, 1024), (1024 + 163, 512), (512 + 163, 256)] {
        let e = ask(EncodingChoice::Auto, &[1], 4096, mtu).unwrap_err().to_string();
        assert!(e.ends_with(&format!("or use pathMtu {fits}")), "{mtu}: {e}");
    }
    let e = ask(EncodingChoice::Auto, &[1], 4096, 256 + 163).unwrap_err().to_string();
    assert!(e.ends_with("raise the link's MTU"), "{e}");
    assert!(ask(EncodingChoice::Auto, &[1], 4096, 4259).is_err());
    let none = ask(EncodingChoice::Auto, &[1], 4096, 4260).unwrap();
    assert!(none.reason.ends_with("; no list fits"), "{}", none.reason);
    assert_eq!(ask(EncodingChoice::Auto, &[1], 4096, 4260).unwrap().mode, EncodingMode::Provisioned);
    assert_eq!(ask(EncodingChoice::Auto, &[1], 4096, 4260 + 47).unwrap().mode, EncodingMode::Provisioned);
    let d = ask(EncodingChoice::Auto, &[1], 4096, 4260 + 48).unwrap();
    assert_eq!((d.mode, d.srh_bytes), (EncodingMode::InBand, 88));
    assert!(d.reason.contains("at most 88: link n6/eth1--n4/eth1 has MTU 4308"), "{}", d.reason);
}

#[test]
fn what_was_asked_for_is_done_or_refused() {
    assert_eq!(ask(EncodingChoice::InBand, &[3], 1024, 9000).unwrap().mode, EncodingMode::InBand);
    let e = ask(EncodingChoice::InBand, &[200], 1024, 9000).unwrap_err();
    assert!(
        e.to_string().starts_with("spec.encoding: inBand would need an SRH of 4496 bytes, but there are at most 2048"),
        "{e}"
    );
    let d = ask(EncodingChoice::Provisioned, &[3], 1024, 9000).unwrap();
    assert_eq!((d.mode, d.srh_bytes, d.in_band), (EncodingMode::Provisioned, 40, vec![false]));
}

#[test]
fn a_tree_of_one_node_has_no_link_to_fit() {
    let d =
        decide(&Question { choice: EncodingChoice::Auto, path_mtu: 4096, edges: &[5], tightest: None, signed: false })
            .unwrap();
    assert_eq!(d.mode, EncodingMode::InBand);
}

#[test]
fn host_links_must_carry_the_inner_packet() {
    let link = |mtu| TightLink { label: "h1/eth0--n1/eth9".into(), mtu };
    check_host_link(4096, &link(4180)).unwrap();
    let e = check_host_link(4096, &link(4179)).unwrap_err().to_string();
    assert!(
        e.contains("link h1/eth0--n1/eth9 has MTU 4179, this group needs 4180 bytes")
            && e.ends_with("or use pathMtu 2048"),
        "{e}"
    );
}

#[test]
fn the_hmac_tlv_takes_its_place_from_the_lists() {
    let ask = |edges: &[usize], mtu, signed| {
        decide(&Question { choice: EncodingChoice::Auto, path_mtu: 1024, edges, tightest: tight(mtu), signed })
    };
    for edges in [&[1][..], &[11, 3], &[5; 7]] {
        let (without, with) = (ask(edges, 9000, false).unwrap(), ask(edges, 9000, true).unwrap());
        assert_eq!((with.srh_bytes, with.in_band), (without.srh_bytes + 40, without.in_band));
        let mut srh = real_srh(edges);
        srh.hmac = Some(canopy_packet::srh::Hmac { d: true, key_id: 1, hmac: vec![0; 32] });
        assert_eq!(srh.wire_len(), with.srh_bytes, "{edges:?}");
    }
    // A group near the limit changes its encoding rather than fail.
    let need = ask(&[11, 3], 9000, false).unwrap().srh_bytes;
    let mtu = (Ipv6::LEN + inner_bytes(1024) + need) as u32;
    assert_eq!(ask(&[11, 3], mtu, false).unwrap().mode, EncodingMode::InBand);
    assert_eq!(ask(&[11, 3], mtu, true).unwrap().mode, EncodingMode::Hybrid);
    // Without room for the TLV alone there is no encoding.
    let bare = (Ipv6::LEN + inner_bytes(1024) + 40) as u32;
    assert!(
        ask(&[1], bare, false).is_ok() && ask(&[1], bare + 39, true).is_err() && ask(&[1], bare + 40, true).is_ok()
    );
}
