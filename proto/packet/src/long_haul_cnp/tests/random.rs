// SPDX-License-Identifier: Apache-2.0
//! Every emitted packet parses, and no octets make a parser panic.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Notify),
        any::<u16>().prop_map(|micros| Action::Pause { micros }),
        (0..=PERCENT_MAX).prop_map(|percent| Action::RateReduce { percent }),
        (0..=PERCENT_MAX).prop_map(|percent| Action::Resume { percent }),
    ]
}

fn metric() -> impl Strategy<Value = Metric> {
    let value = 0..=METRIC_VALUE_MAX;
    prop_oneof![
        value.clone().prop_map(Metric::Unspecified),
        value.clone().prop_map(Metric::QueueDepth),
        value.clone().prop_map(Metric::QueueGrowthRate),
        (0..=PERCENT_MAX).prop_map(Metric::EcnMarkingRate),
        value.clone().prop_map(Metric::Rtt),
        (5_u8.., value).prop_map(|(metric_type, value)| Metric::Other { metric_type, value }),
    ]
}

fn object() -> impl Strategy<Value = Object> {
    let payload = || vec(any::<u8>(), 0..40);
    prop_oneof![
        any::<u64>().prop_map(Object::Timestamp),
        ".{0,12}".prop_map(Object::Device),
        payload().prop_map(Object::Path),
        (4_u8.., payload()).prop_map(|(c_type, payload)| Object::Other { class_num: 247, c_type, payload }),
        (0_u8..247, any::<u8>(), payload()).prop_map(|(class_num, c_type, payload)| Object::Other {
            class_num,
            c_type,
            payload
        }),
    ]
}

prop_compose! {
    fn cnp()(level: u8, action in action(), source_qp in 0_u32..1 << 24, metric in metric()) -> LongHaulCnp {
        LongHaulCnp { level, action, source_qp, metric }
    }
}

fn parse_everything(bytes: &[u8]) {
    let (src, dst) = (node(), source());
    let _ = RocePacket::parse(bytes);
    let _ = RoceView::parse(bytes);
    if let Ok(view) = ExtensionsView::parse(bytes) {
        let objects: Vec<_> = view.objects().map(Object::from).collect();
        let mut again = vec![0xaa; bytes.len()];
        assert_eq!(extension::emit(&objects, &mut again), Ok(bytes.len()));
        assert!(again[4..] == bytes[4..]);
    }
    if let Ok(message) = Message::parse(src, dst, bytes) {
        let again = message.to_vec(src, dst).unwrap();
        assert_eq!(Message::parse(src, dst, &again), Ok(message));
    }
}

proptest! {
    #[test]
    fn messages_survive(cnp in cnp(), objects in vec(object(), 0..5), src: u128, dst: u128) {
        let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
        let message = Message { cnp, objects };
        let bytes = message.to_vec(src, dst).unwrap();
        prop_assert_eq!(bytes.len(), message.wire_len());
        prop_assert_eq!(Message::parse(src, dst, &bytes), Ok(message));
    }

    #[test]
    fn packets_survive(
        (traffic_class, hop_limit, src_port, pkey) in any::<(u8, u8, u16, u16)>(),
        (src, dst) in any::<(u128, u128)>(),
        cnp in cnp(),
        objects in vec(object(), 0..5),
        behind in vec(any::<u8>(), 0..20),
    ) {
        let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
        let packet = RocePacket { traffic_class, hop_limit, src, dst, src_port, pkey, cnp, objects };
        let mut bytes = packet.to_vec().unwrap();
        prop_assert!(icrc::verify(&bytes).unwrap());
        prop_assert!(bytes.len() >= 80);
        bytes.extend(behind);
        prop_assert_eq!(RocePacket::parse(&bytes), Ok(packet));
    }

    #[test]
    fn arbitrary_octets_do_no_harm(bytes in vec(any::<u8>(), 0..120)) {
        parse_everything(&bytes);
    }

    /// Damage with corrected checksums reaches the parsers behind them.
    #[test]
    fn damaged_extensions_do_no_harm(
        damage in vec((4..32_usize, any::<u8>()), 1..5), cut in 0..=32_usize, icmp: bool,
    ) {
        let mut octets = EXTENSIONS;
        damage.iter().for_each(|(at, octet)| octets[*at] = *octet);
        octets[2..4].fill(0);
        parse_everything(&octets[..cut]);
        if icmp {
            let mut message = [&[200, 0, 0, 0][..], &BODY, &octets[..cut]].concat();
            let checksum = icmpv6::checksum(node(), source(), &message);
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
            parse_everything(&message);
        }
    }
}
