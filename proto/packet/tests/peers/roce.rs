// SPDX-License-Identifier: Apache-2.0
//! RoCEv2 packets and their ICRC against scapy and tshark.

use super::sample::{roce, sample};
use super::{captures, hex, scapy, tshark};
use canopy_packet::bth::Opcode;
use canopy_packet::cnp::Cnp;
use canopy_packet::frame::{RoceBuilder, RoceFrame};
use canopy_packet::icrc;

#[test]
fn scapy_computes_the_same_icrc_for_every_captured_packet() {
    let packets = captures::all_packets();
    let answers = scapy("icrc", &packets.iter().map(|packet| hex(packet)).collect::<Vec<_>>());
    for (packet, answer) in packets.iter().zip(answers) {
        let icrc = icrc::compute(&packet[..packet.len() - 4]).unwrap();
        assert_eq!(hex(&icrc.to_le_bytes()), answer);
    }
}

/// scapy gets fields, never octets: each must be encoded where this crate encodes it, and the ICRC must mask the same
/// bits.
#[test]
fn scapy_builds_the_same_packets_from_the_same_fields() {
    let samples = sample(300, roce());
    let built: Vec<_> =
        samples.iter().map(|(builder, payload)| RoceBuilder { payload, ..builder.clone() }.build().unwrap()).collect();
    let specs: Vec<_> = built.iter().map(|packet| spec(packet)).collect();
    for (packet, answer) in built.iter().zip(scapy("build", &specs)) {
        assert_eq!(hex(packet), answer);
    }
}

#[test]
fn scapy_builds_the_same_cnp() {
    let (src, dst) = ("fd00:2::1".parse().unwrap(), "fd00:1::1".parse().unwrap());
    let mut builder = RoceBuilder::new(src, dst, Opcode::CNP, 0x12_3456, 0);
    builder.bth.resv8a = canopy_packet::bth::RESV8A_BECN;
    builder.extensions.cnp = Some(Cnp::default());
    let spec = r#"{"ipv6": {"src": "fd00:2::1", "dst": "fd00:1::1", "hlim": 64, "nh": 17},
        "udp": {"sport": 49152}, "cnp": 1193046}"#
        .replace('\n', "");
    assert_eq!(scapy("build", &[spec]), [hex(&builder.build().unwrap())]);
}

#[test]
fn tshark_reads_the_fields_that_were_written() {
    let samples = sample(300, roce());
    let packets: Vec<_> =
        samples.iter().map(|(builder, payload)| RoceBuilder { payload, ..builder.clone() }.build().unwrap()).collect();
    let fields = [
        "_ws.malformed",
        "infiniband.bth.opcode",
        "infiniband.bth.padcnt",
        "infiniband.bth.p_key",
        "infiniband.bth.destqp",
        "infiniband.bth.psn",
        "infiniband.reth.va",
        "infiniband.reth.r_key",
        "infiniband.reth.dmalen",
        "infiniband.aeth.msn",
        "infiniband.immdt",
        "infiniband.invariant.crc",
    ];
    for (packet, row) in packets.iter().zip(tshark(&packets, &fields)) {
        let frame = RoceFrame::parse(packet).unwrap();
        let (bth, reth) = (frame.bth, frame.extensions.reth);
        let aeth = frame.extensions.aeth;
        let immdt = frame.extensions.immdt.map(|immdt| hex(&immdt.0.to_be_bytes()));
        let expected = [
            String::new(),
            bth.opcode.0.to_string(),
            bth.pad_count.to_string(),
            bth.pkey.to_string(),
            format!("0x{:06x}", bth.dest_qp),
            bth.psn.to_string(),
            reth.map_or_else(String::new, |reth| format!("0x{:016x}", reth.va)),
            reth.map_or_else(String::new, |reth| format!("0x{:08x}", reth.rkey)),
            reth.map_or_else(String::new, |reth| reth.dma_len.to_string()),
            aeth.map_or_else(String::new, |aeth| aeth.msn.to_string()),
            immdt.unwrap_or_default(),
            format!("0x{:08x}", frame.icrc.swap_bytes()),
        ];
        // tshark lists immediate data twice.
        let first = row.iter().map(|column| column.split(',').next().unwrap_or_default());
        assert!(first.eq(expected.iter()), "{row:?} is not {expected:?}");
    }
}

/// The fields of a packet by the names that scapy has for them, as JSON.
fn spec(packet: &[u8]) -> String {
    let frame = RoceFrame::parse(packet).unwrap();
    let (ipv6, bth) = (frame.ipv6, frame.bth);
    let ipv6 = format!(
        r#"{{"src": "{}", "dst": "{}", "tc": {}, "fl": {}, "hlim": {}, "nh": 17}}"#,
        ipv6.src, ipv6.dst, ipv6.traffic_class, ipv6.flow_label, ipv6.hop_limit
    );
    let bits = format!(
        r#""solicited": {}, "migreq": {}, "padcount": {}, "version": {}, "pkey": {}"#,
        u8::from(bth.solicited),
        u8::from(bth.migration),
        bth.pad_count,
        bth.version,
        bth.pkey
    );
    let resv8a =
        format!(r#""fecn": {}, "becn": {}, "resv6": {}"#, bth.resv8a >> 7, bth.resv8a >> 6 & 1, bth.resv8a & 0x3f);
    let bth = format!(
        r#"{{"opcode": {}, {bits}, {resv8a}, "dqpn": {}, "ackreq": {}, "resv7": {}, "psn": {}}}"#,
        bth.opcode.0,
        bth.dest_qp,
        u8::from(bth.ack_req),
        bth.resv7,
        bth.psn
    );
    let rest = match frame.extensions.aeth {
        Some(aeth) => {
            format!(r#""aeth": {{"syndrome": {}, "msn": {}}}"#, aeth.syndrome.0, aeth.msn)
        }
        None => format!(r#""payload": "{}""#, hex(&packet[60..packet.len() - 4])),
    };
    let udp = format!(r#"{{"sport": {}}}"#, frame.udp.src_port);
    format!(r#"{{"ipv6": {ipv6}, "udp": {udp}, "bth": {bth}, {rest}}}"#)
}
