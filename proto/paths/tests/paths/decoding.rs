// SPDX-License-Identifier: Apache-2.0
//! What captured headers lead through, and what is reported where a program is broken.

use std::net::Ipv6Addr;

use canopy_model::ids::{ServiceId, TreeId};
use canopy_model::usid::Usid;
use canopy_paths::decode::{DecodeError, Decoded, End, Problem, decode};
use canopy_paths::program::Header;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::net::{Net, address, id, port_of};

/// Leaf 1 and 2, spine 5 with one link to each, spine 6 with two to leaf 1; a host at each leaf.
fn net() -> Net {
    let mut net = Net::new([1, 2, 5, 6]);
    for (a, b) in [(1, 5), (5, 2), (1, 6), (1, 6), (6, 2)] {
        net.link(a, b);
    }
    net.host(1);
    net.host(2);
    net
}

fn captured(destination: &str, segments: &[&str], segments_left: u8, at: Option<u16>) -> Decoded {
    let segments = segments.iter().map(|segment| address(segment)).collect();
    let header = Header { destination: address(destination), segments, segments_left };
    decode(&net().fabric(), &header, at.map(id))
}

fn links(decoded: &Decoded) -> Vec<usize> {
    decoded.steps.iter().filter_map(|step| Some(step.crossing?.link)).collect()
}

fn error(destination: &str, at: Option<u16>) -> String {
    captured(destination, &[], 0, at).end.unwrap_err().to_string()
}

#[test]
fn an_address_is_understood_at_every_hop() {
    for (at, destination, expected) in [
        (None, "5f00:0:1:5:2::", vec![0, 1]),
        (Some(1), "5f00:0:1:5:2::", vec![0, 1]),
        (None, "5f00:0:5:2::", vec![1]),
        (Some(1), "5f00:0:5:2::", vec![0, 1]),
        (Some(5), "5f00:0:5:2::", vec![1]),
        (Some(5), "5f00:0:2::", vec![1]),
        (None, "5f00:0:2::", vec![]),
        (Some(1), "5f00:0:e001:2::", vec![0, 1]),
    ] {
        let decoded = captured(destination, &[], 0, at);
        assert_eq!((links(&decoded), decoded.end), (expected, Ok(End::Node(id(2)))), "{destination} at {at:?}");
    }
}

#[test]
fn uas_lead_over_ports_and_the_last_one_delivers() {
    let decoded = captured("5f00:0:e003:e003:e003::", &[], 0, Some(1));
    assert_eq!(links(&decoded), [3, 4]);
    assert_eq!(decoded.end, Ok(End::Port { port: port_of((2, 3)), link: 6, to: None }));
    let to_a_node = captured("5f00:0:e001::", &[], 0, Some(1)).end;
    assert_eq!(to_a_node, Ok(End::Port { port: port_of((1, 1)), link: 0, to: Some(id(5)) }));
}

/// Catches segments that are read from the front of the list, or beyond Segments Left.
#[test]
fn segments_are_read_from_segments_left_down() {
    let list = ["5f00:0:2::", "5f00:0:5::"];
    let decoded = captured("5f00:0:1::", &list, 2, None);
    assert_eq!((links(&decoded), decoded.end), (vec![0, 1], Ok(End::Node(id(2)))));
    let places: Vec<_> = decoded.steps.iter().map(|step| (step.place.segment, step.place.slot)).collect();
    assert_eq!(places, [(None, 1), (Some(1), 1), (Some(0), 1)]);
    let at_spine = captured("5f00:0:5::", &list, 1, Some(5));
    assert_eq!((links(&at_spine), at_spine.end), (vec![1], Ok(End::Node(id(2)))));
    let loaded = captured("5f00:0:2::", &list, 0, None);
    assert_eq!((links(&loaded), loaded.end), (vec![], Ok(End::Node(id(2)))), "an SRH that a node left in place");
    let e = captured("5f00:0:1::", &list, 3, None).end.unwrap_err().to_string();
    assert!(e.ends_with("Segments Left is 3, and the Segment List has 2 segments"), "{e}");
}

#[test]
fn services_and_multicast_functions_end_a_program() {
    let service = ServiceId::new("service", 0xF101).unwrap();
    assert_eq!(captured("5f00:0:5:2:f101::", &[], 0, None).end, Ok(End::Service(id(2), service)));
    assert_eq!(captured("5f00:0:2:f001::", &["fcfe::1"], 1, None).end, Ok(End::EndMt(id(2))));
    let tree = TreeId::new("tree", 0x7_0000).unwrap();
    assert_eq!(captured("5f00:0:1:5:f002:7::", &["fcfe::1"], 1, None).end, Ok(End::Replicate(id(5), tree)));
}

#[test]
fn what_is_unknown_is_named_with_its_place() {
    for (destination, at, expected) in [
        ("2001:db8::1", None, "uSID 1 of the destination address: 2001:db8::1 is outside the SRv6 block 5f00::/32"),
        ("5f00::", None, "uSID 1 of the destination address: the address has no uSID behind the block"),
        ("5f00:0:1:9::", None, "uSID 2 of the destination address: no node has the uN 0x0009"),
        (
            "5f00:0:1:2::",
            None,
            "uSID 2 of the destination address: no link leads from node 1 to node 2, and a uN leads over the direct link only",
        ),
        (
            "5f00:0:1:6:2::",
            None,
            "uSID 2 of the destination address: 2 links lead from node 1 to node 6: a uN does not name one of them, a uA does",
        ),
        (
            "5f00:0:e001:2::",
            None,
            "uSID 1 of the destination address: uA 0xe001 means another thing at each node: name the node that the packet was captured at",
        ),
        (
            "5f00:0:1:e009:2::",
            None,
            "uSID 2 of the destination address: node 1 has no port 9, which the uA 0xe009 names",
        ),
        (
            "5f00:0:1:e004:2::",
            None,
            "uSID 2 of the destination address: port 4 of node 1 leads to a host, and other uSIDs follow",
        ),
        ("5f00:0:1:0:5::", None, "uSID 2 of the destination address: 0 before other uSIDs: no node has this SID"),
        (
            "5f00:0:1:e001:f100::",
            None,
            "uSID 3 of the destination address: service 0xf100 is not behind the uN of its edge: no node has this SID",
        ),
        (
            "5f00:0:1:f100:5::",
            None,
            "uSID 2 of the destination address: service 0xf100 ends a program, and other uSIDs follow",
        ),
        ("5f00:0:1::", Some(7), "uSID 1 of the destination address: there is no node 7"),
    ] {
        assert_eq!(error(destination, at), expected, "{destination}");
    }
    let reserved = error("5f00:0:1:e000::", None);
    assert!(reserved.starts_with("uSID 2 of the destination address: 0xe000 is reserved"), "{reserved}");
    let in_list = captured("5f00:0:1:5::", &["5f00:0:9::"], 1, None);
    assert_eq!(in_list.end.unwrap_err().to_string(), "uSID 1 of Segment List[0]: no node has the uN 0x0009");
    assert_eq!(in_list.steps.len(), 2, "what was understood before is shown");
}

proptest! {
    /// Catches a header that makes the decoder panic or walk for ever, and a walk that does not hang together.
    #[test]
    fn any_header_is_decoded_to_a_connected_walk(
        slots in vec(vec(value(), 6), 1..4),
        segments_left in 0_u8..4,
        at in option::of(select(vec![1_u16, 2, 5, 6])),
    ) {
        let address = |slots: &Vec<u16>| {
            let mut segments = [0x5f00, 0, 0, 0, 0, 0, 0, 0];
            segments[2..].copy_from_slice(slots);
            Ipv6Addr::from(segments)
        };
        let segments = slots[1..].iter().map(address).collect();
        let header = Header { destination: address(&slots[0]), segments, segments_left };
        let decoded = decode(&net().fabric(), &header, at.map(id));
        let mut node = at.map(id);
        for step in &decoded.steps {
            let is_left = matches!(step.usid, Usid::Adjacency(_));
            if let Some(crossing) = step.crossing {
                prop_assert_eq!(Some(crossing.from.node), node);
                prop_assert_eq!(step.node, if is_left { crossing.from.node } else { crossing.to });
                node = Some(crossing.to);
            } else {
                prop_assert!(node.is_none_or(|node| node == step.node));
                node = Some(step.node);
            }
        }
        prop_assert!(decoded.steps.len() <= 24);
        prop_assert_eq!(segments_left as usize >= slots.len(), matches!(decoded.end, Err(DecodeError { problem: Problem::SegmentsLeft(..), .. })));
    }
}

/// Values that often make sense.
fn value() -> impl Strategy<Value = u16> {
    prop_oneof![
        6 => select(vec![1_u16, 2, 5, 6]),
        3 => 0xE001_u16..0xE005,
        2 => Just(0),
        1 => select(vec![0xF001_u16, 0xF002, 0xF100, 0xE000]),
        1 => any::<u16>(),
    ]
}
