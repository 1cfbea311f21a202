// SPDX-License-Identifier: Apache-2.0
//! Source QPs from RDMA-CM: datagrams to QP1 in the format of the kernel's stack, run through the program, and the resulting flows.

use canopy_agent_core::congestion::{CmKind, CmMessage, Connections, FourTuple};
use canopy_packet::ipv6::Ipv6;

use super::*;
use crate::egress::rings::message;

const REQUEST: u16 = 0x10;
const REPLY: u16 = 0x13;

/// A UD SEND to QP1 with a communication management MAD (IBTA volume 1, 12.6.5 and 12.6.8): `words` at octets of its data.
fn mad(src: Ipv6Addr, dst: Ipv6Addr, class: u8, attribute: u16, words: &[(usize, u32)]) -> Vec<u8> {
    let mut octets = vec![0; 8 + 24 + 232 + 4];
    octets[..4].copy_from_slice(&0x8001_0000_u32.to_be_bytes());
    octets[7] = 1;
    octets[8..12].copy_from_slice(&[1, class, 2, 3]);
    octets[24..26].copy_from_slice(&attribute.to_be_bytes());
    for (at, word) in words {
        octets[32 + at..36 + at].copy_from_slice(&word.to_be_bytes());
    }
    let mut bth = vec![0x64, 0x40, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 9];
    bth.extend(octets);
    let length = (8 + bth.len()) as u16;
    let ip = Ipv6 { traffic_class: 0, flow_label: 0, payload_len: length, next_header: 17, hop_limit: 64, src, dst };
    let mut packet = vec![0; Ipv6::LEN];
    ip.emit(&mut packet).unwrap();
    packet.extend([0xC0, 0, 0x12, 0xB7]);
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(bth);
    packet
}

fn request(id: u32, qpn: u32) -> Vec<u8> {
    mad(host(1), far(), 7, REQUEST, &[(0, id), (32, qpn << 8 | 0xFF)])
}

fn messages(program: &Egress) -> Vec<CmMessage> {
    let cms: Vec<types::canopy_cm> = records(&program.bpf.cms().unwrap());
    cms.iter().map(|cm| message(cm).unwrap()).collect()
}

#[test]
fn a_request_and_its_reply_give_the_source_qps_of_both_directions() {
    let bed = Bed::new();
    let program = own(&bed);
    let reply = mad(far(), host(1), 7, REPLY, &[(0, 99), (4, 0x4711), (12, 0x77 << 8), (32, 0x5555 << 8)]);
    for packet in [request(0x4711, 0xABCDEF), reply] {
        assert_eq!(program.run(bed.port, &frame(&packet)).0.split_off(14), packet, "the packet itself is not changed");
    }
    let q = |n: u32| Qpn::new("q", n.into()).unwrap();
    let received = messages(&program);
    let wanted = [
        CmMessage { from: host(1), to: far(), kind: CmKind::Request { local_id: 0x4711, qpn: q(0xABCDEF) } },
        CmMessage { from: far(), to: host(1), kind: CmKind::Reply { remote_id: 0x4711, qpn: q(0x77) } },
    ];
    assert_eq!(received, wanted);
    let mut connections = Connections::new(4);
    let given: Vec<_> = received.into_iter().filter_map(|m| connections.handle(m)).flatten().collect();
    let back = FlowKey { src: far(), dst: host(1), dst_qp: q(0xABCDEF) };
    assert_eq!(given, [FourTuple { key: flow(1), src_qp: q(0xABCDEF) }, FourTuple { key: back, src_qp: q(0x77) }]);
    assert!(program.flows().unwrap().is_empty(), "datagrams to QP1 are no flow");
}

#[test]
fn other_messages_and_truncated_ones_cause_no_event() {
    let bed = Bed::new();
    let program = own(&bed);
    // Only a Send has these fields; the method is the fourth octet of the MAD, after the DETH.
    let of_method = |method: u8| {
        let mut packet = request(7, 0x11);
        assert_eq!(std::mem::replace(&mut packet[40 + 8 + 12 + 8 + 3], method), 3);
        packet
    };
    let others = [
        of_method(1),
        of_method(2),
        of_method(0x81),
        mad(host(1), far(), 4, REQUEST, &[(0, 1), (32, 0x11 << 8)]),
        mad(host(1), far(), 7, 0x14, &[(0, 1), (32, 0x11 << 8)]),
    ];
    others.iter().for_each(|p| drop(program.run(bed.port, &frame(p))));
    let whole = request(7, 0x11);
    // The last required octet is the last one of the QPN.
    let needed = 40 + 8 + 12 + 8 + 24 + 32 + 3;
    (48..needed).for_each(|len| drop(program.run(bed.port, &frame(&whole[..len]))));
    assert_eq!(messages(&program), []);
    program.run(bed.port, &frame(&whole[..=needed]));
    assert_eq!(messages(&program).len(), 1);
}

#[test]
fn more_requests_than_the_ring_holds_lose_the_newest_which_are_counted_and_stop_nothing() {
    let bed = Bed::new();
    let program = own(&bed);
    (0..5_000).for_each(|id| drop(program.run(bed.port, &frame(&request(id, 0x11)))));
    let received = messages(&program).len();
    assert!((500..5_000).contains(&received), "{received} in 64 KiB");
    assert_eq!(lost_events(&program, bed.port), 5_000 - received as u64);
    program.run(bed.port, &frame(&request(1, 0x12)));
    assert_eq!(messages(&program).len(), 1);
}
