// SPDX-License-Identifier: Apache-2.0
//! Path programs through the nodes of the lab, sent by scapy in the place of a node: which links they pass, and what arrives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::Ipv6Addr;

use canopy_e2e::capture::{Capture, Packet, Way};
use canopy_e2e::{Bed, up};
use serde_json::json;

/// Outer headers of programs: IPv6 in IPv6, and with an SRH.
const PROGRAMS: &str = "ip6[6] == 41 or ip6[6] == 43";
const PACKETS: usize = 20;
/// n1, n4, n6, n5, n3: the ports at which a program of these nodes arrives.
const WAY: [(&str, &str); 4] = [("n4", "eth2"), ("n6", "eth2"), ("n5", "eth1"), ("n3", "eth1")];

/// Sends programs from n1 to n4, with a packet of r1 to r4 in each.
fn send(bed: &Bed, programs: &serde_json::Value) -> u64 {
    let what = json!({
        "interface": "eth1", "mac": bed.mac("n4", "eth2").unwrap(), "source": "fcff:0:0:1::1",
        "from": "2001:db8:0:1::1", "to": "2001:db8:0:4::1", "programs": programs, "packets": PACKETS,
    });
    bed.attack("n1", "programs.py", &what).unwrap()["sent"].as_u64().unwrap()
}

/// Destination and hop limit of each packet, if all are alike.
fn headers(packets: &[Packet]) -> (usize, Option<(Ipv6Addr, u8)>) {
    let of = |p: &Packet| (Ipv6Addr::from(<[u8; 16]>::try_from(&p.bytes[24..40]).unwrap()), p.bytes[7]);
    let first = packets.first().map(of);
    assert!(packets.iter().all(|p| Some(of(p)) == first));
    (packets.len(), first)
}

/// Catches a hop that is left out or taken by a route, an SRH that arrives, and a congestion mark that does not.
#[test]
fn a_program_passes_the_links_that_it_names_and_its_packet_arrives() {
    let bed = up("figure1").unwrap();
    bed.wait_measured().unwrap();
    let in_srh = ["5f00:0:6:5:3::"];
    for (program, addresses) in [
        (json!(["5f00:0:4:6:5:3::", 0, []]), ["5f00:0:4:6:5:3::", "5f00:0:6:5:3::", "5f00:0:5:3::", "5f00:0:3::"]),
        (json!(["5f00:0:4::", 1, in_srh]), ["5f00:0:4::", "5f00:0:6:5:3::", "5f00:0:5:3::", "5f00:0:3::"]),
        (
            json!(["5f00:0:e001:e003:e003::", 0, []]),
            ["5f00:0:e001:e003:e003::", "5f00:0:e003:e003::", "5f00:0:e003::", ""],
        ),
    ] {
        let taps = WAY.map(|(node, port)| Capture::start_one_way(&bed.lab, node, port, Way::In, PROGRAMS).unwrap());
        let host = Capture::start_one_way(&bed.lab, "r4", "eth0", Way::In, "udp and src host 2001:db8:0:1::1").unwrap();
        assert_eq!(send(&bed, &json!([program])), PACKETS as u64);
        let passed = taps.map(|tap| headers(&tap.stop().unwrap()));
        let wanted = addresses.iter().zip([64, 63, 62, 61]).map(|(address, hop_limit)| {
            let address: Option<Ipv6Addr> = address.parse().ok();
            (if address.is_some() { PACKETS } else { 0 }, address.map(|address| (address, hop_limit)))
        });
        assert_eq!(passed.to_vec(), wanted.collect::<Vec<_>>(), "{program}");
        let arrived = host.stop().unwrap();
        assert_eq!(arrived.len(), PACKETS, "{program}: {:?}", bed.port_drops("n3").unwrap());
        assert!(arrived.iter().all(|p| p.bytes[6] == 17 && p.bytes[1] >> 4 & 3 == 3), "UDP, marked CE");
    }
}

/// n4 has a route to n3 over n6 and n5, and no link.
#[test]
fn a_program_takes_no_route() {
    let bed = up("figure1").unwrap();
    bed.wait_measured().unwrap();
    let taps =
        WAY[1..].iter().map(|(node, port)| Capture::start_one_way(&bed.lab, node, port, Way::In, PROGRAMS).unwrap());
    let taps: Vec<_> = taps.collect();
    assert_eq!(send(&bed, &json!([["5f00:0:4:3::", 0, []], ["5f00:0:3::", 0, []]])), 2 * PACKETS as u64);
    let key = |reason: &str| ("eth2".to_owned(), reason.to_owned());
    bed.lab
        .wait("n4 to count the programs", |_| {
            let drops = bed.port_drops("n4")?;
            let of = |reason| drops.get(&key(reason)).copied();
            Ok((of("path_no_link"), of("path_sid")) == (Some(PACKETS as u64), Some(PACKETS as u64)))
        })
        .unwrap();
    assert!(taps.into_iter().all(|tap| tap.stop().unwrap().is_empty()));
}
