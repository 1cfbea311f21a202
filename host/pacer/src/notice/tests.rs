// SPDX-License-Identifier: Apache-2.0

use canopy_packet::bth::Bth;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::long_haul_cnp::Metric;
use canopy_packet::long_haul_cnp::extension::Object;
use canopy_packet::long_haul_cnp::icmp::Message;
use canopy_packet::long_haul_cnp::roce::RocePacket;

use super::*;

const NODE: &str = "fcff:0:0:1::1";
const HOST: &str = "fd00::1";
const AT_BTH: usize = Ipv6::LEN + Udp::LEN;

fn at(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn body(action: WireAction) -> LongHaulCnp {
    LongHaulCnp { level: 9, action, source_qp: 17, metric: Metric::Rtt(1) }
}

fn in_icmpv6(action: WireAction, objects: Vec<Object>) -> Vec<u8> {
    let message = Message { cnp: body(action), objects }.to_vec(at(NODE), at(HOST)).unwrap();
    let (payload_len, src, dst) = (message.len() as u16, at(NODE), at(HOST));
    let ip =
        Ipv6 { traffic_class: 0, flow_label: 0, payload_len, next_header: NEXT_HEADER_ICMPV6, hop_limit: 3, src, dst };
    let mut packet = vec![0; Ipv6::LEN];
    ip.emit(&mut packet).unwrap();
    packet.extend(message);
    packet
}

fn in_roce(action: WireAction) -> Vec<u8> {
    let (traffic_class, hop_limit, src_port, pkey) = (0, 64, 0xc000, 0xffff);
    let (src, dst, cnp, objects) = (at(NODE), at(HOST), body(action), vec![]);
    RocePacket { traffic_class, hop_limit, src, dst, src_port, pkey, cnp, objects }.to_vec().unwrap()
}

/// The packet with one octet replaced, and a matching ICRC.
fn sealed(mut packet: Vec<u8>, place: usize, octet: u8) -> Vec<u8> {
    packet.truncate(packet.len() - icrc::LEN);
    packet[place] = octet;
    icrc::append(&mut packet).unwrap();
    packet
}

fn whole(packet: &[u8]) -> Result<Notification, (Format, Invalid)> {
    read(packet, packet.len())
}

#[test]
fn each_action_in_each_format_is_understood() {
    let half = Percent::new(50).unwrap();
    for (wire, action) in [
        (WireAction::Notify, Action::Notify),
        (WireAction::Pause { micros: 7 }, Action::Pause { micros: 7 }),
        (WireAction::RateReduce { percent: 50 }, Action::RateReduce(half)),
        (WireAction::Resume { percent: 50 }, Action::Resume(half)),
    ] {
        let content = Content::LongHaul { action, timestamp: None };
        for (format, packet) in [(Format::Icmpv6, in_icmpv6(wire, vec![])), (Format::Rocev2, in_roce(wire))] {
            assert_eq!(whole(&packet), Ok(Notification { from: at(NODE), qpn: 17, format, content }));
        }
    }
    let stamped = in_icmpv6(WireAction::Notify, vec![Object::Device("n".into()), Object::Timestamp(5)]);
    let content = whole(&stamped).unwrap().content;
    assert_eq!(content, Content::LongHaul { action: Action::Notify, timestamp: Some(5) });
}

#[test]
fn ethernet_may_pad_and_no_packet_is_shorter_than_its_length_field() {
    let packet = in_icmpv6(WireAction::Notify, vec![]);
    let padded = [packet.as_slice(), &[0xee; 4]].concat();
    assert!(whole(&padded).is_ok());
    assert_eq!(read(&packet, packet.len() - 1), Err((Format::Icmpv6, Invalid::Malformed)));
    assert_eq!(read(&packet[..50], packet.len()), Err((Format::Icmpv6, Invalid::TooLong)), "not all was copied");
}

#[test]
fn every_damaged_bit_is_detected_or_changes_nothing() {
    for packet in [in_icmpv6(WireAction::RateReduce { percent: 30 }, vec![]), in_roce(WireAction::Notify)] {
        let good = whole(&packet).unwrap();
        for bit in 0..8 * packet.len() {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // What the ICRC masks (Traffic Class, Flow Label, Hop Limit, UDP checksum) may change.
            match whole(&damaged) {
                Ok(notification) if notification == good => {}
                // The octet of bit E is masked as well: without it, it is a plain CNP of the same node.
                Ok(notification) => {
                    assert_eq!((notification.content, bit / 8), (Content::Cnp, AT_BTH + 4), "bit {bit}")
                }
                Err(_) => {}
            }
        }
    }
}

#[test]
fn what_is_not_understood_in_rocev2_is_a_cnp_and_without_becn_it_is_nothing() {
    let packet = in_roce(WireAction::RateReduce { percent: 30 });
    let cnp = Notification { from: at(NODE), qpn: 17, format: Format::Rocev2, content: Content::Cnp };
    // Parameter 130 + 255 percent, and another Source QP Number.
    assert_eq!(whole(&sealed(packet.clone(), AT_BTH + Bth::LEN + 3, 255)), Ok(cnp));
    assert_eq!(whole(&sealed(packet.clone(), AT_BTH + Bth::LEN + 7, 18)), Ok(cnp));
    // Without bit E it is a plain CNP.
    let plain = sealed(packet.clone(), AT_BTH + 4, RESV8A_BECN);
    assert_eq!(whole(&plain), Ok(Notification { format: Format::Cnp, ..cnp }));
    assert_eq!(whole(&sealed(packet.clone(), AT_BTH + 4, 0)), Err((Format::Cnp, Invalid::Malformed)));
    let last = packet.len() - 1;
    let mut wrong = packet;
    wrong[last] ^= 1;
    assert_eq!(whole(&wrong), Err((Format::Rocev2, Invalid::Icrc)));
}

#[test]
fn no_length_of_anything_panics() {
    for packet in [in_icmpv6(WireAction::Notify, vec![]), in_roce(WireAction::Notify)] {
        for len in 0..packet.len() {
            assert!(whole(&packet[..len]).is_err(), "{len}");
            if let Some(payload) = len.checked_sub(Ipv6::LEN) {
                let mut short = packet[..len].to_vec();
                short[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
                assert!(whole(&short).is_err(), "{len}");
            }
        }
    }
}
