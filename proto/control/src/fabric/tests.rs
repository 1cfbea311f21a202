// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;

use canopy_model::fabric::{FabricHost, FabricLink, FabricNode, HostFabric, Sender};
use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::usid::UsidBlock;
use ipnet::Ipv6Net;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::pb;

fn node(number: u64) -> NodeId {
    NodeId::new("node", number).unwrap()
}

fn port(number: u64) -> PortIndex {
    PortIndex::new("port", number).unwrap()
}

fn link(at: u64, far: u64, far_port: u64) -> FabricLink {
    FabricLink { port: port(at), far: node(far), far_port: port(far_port), mtu: 9000 }
}

fn prefix(site: u16, host: u16) -> Ipv6Net {
    Ipv6Net::new(std::net::Ipv6Addr::new(0x2001, 0xdb8, site, host, 0, 0, 0, 0), 64).unwrap()
}

fn host(at: u64, prefix: Ipv6Net) -> FabricHost {
    FabricHost { port: port(at), prefix, mtu: 9000 }
}

/// Leaves 1 to `leaves` with `hosts` hosts each, and as many spines behind them.
fn clos(leaves: u64, spines: u64, hosts: u64) -> HostFabric {
    let leaf = |n: u64| FabricNode {
        name: format!("leaf{n}"),
        links: (0..spines).map(|s| link(hosts + 1 + s, leaves + 1 + s, n)).collect(),
        hosts: (0..hosts).map(|h| host(h + 1, prefix(n as u16, h as u16))).collect(),
    };
    let spine = |s: u64| FabricNode { name: format!("spine{s}"), ..FabricNode::default() };
    let leaves_of = (1..=leaves).map(|n| (node(n), leaf(n)));
    HostFabric { nodes: leaves_of.chain((0..spines).map(|s| (node(leaves + 1 + s), spine(s)))).collect() }
}

fn sender(unusable: Vec<(NodeId, PortIndex)>) -> Sender {
    Sender {
        block: UsidBlock::at_front("5f00::".parse().unwrap()),
        permitted: true,
        reason: "agents of an earlier version: leaf2".to_owned(),
        edge: node(1),
        edge_port: port(1),
        most_nodes: 5,
        address: "2001:db8::1".parse().unwrap(),
        unusable,
    }
}

fn state(items: &FabricItems, sender: &Sender) -> pb::FabricState {
    (items.digest(), sender).into()
}

fn pages_of(items: &FabricItems, from: Option<&FabricItems>, sender: &Sender) -> Vec<pb::WatchFabricResponse> {
    items.pages(from).with_state((items.digest(), sender).into()).collect()
}

fn take(received: &mut Received, pages: Vec<pb::WatchFabricResponse>) -> Result<Held, ReceiveError> {
    let mut last = None;
    for page in pages {
        // As it travels.
        last = received.apply(pb::WatchFabricResponse::decode(&page.encode_to_vec()[..]).unwrap())?;
    }
    Ok(last.expect("the last page has the state"))
}

prop_compose! {
    /// Neighbouring and lone ports, with far ends that ascend, stay, or are anywhere.
    fn any_links()(
        runs in prop::collection::vec((1u64..4, 1u64..6, 1u64..0xD000, 0u64..3, 1u64..4000, 0u64..3, any::<bool>()), 0..6)
    ) -> Vec<FabricLink> {
        let (mut next, mut links) = (0, Vec::new());
        for (gap, count, far, far_step, far_port, port_step, is_short) in runs {
            next += gap;
            for i in 0..count {
                let mtu = if is_short { 1500 } else { 9000 };
                let (far, far_port) = (node(far + i * far_step), port(far_port + i * port_step));
                links.push(FabricLink { port: port(next + i), far, far_port, mtu });
            }
            next += count - 1;
        }
        links
    }
}

prop_compose! {
    fn any_hosts()(
        runs in prop::collection::vec((1u64..4, 1u64..6, any::<u128>(), 0u8..=128, 0u128..3, any::<bool>()), 0..6)
    ) -> Vec<FabricHost> {
        let (mut next, mut hosts) = (0, Vec::new());
        for (gap, count, address, length, step, is_short) in runs {
            next += gap;
            for i in 0..count {
                let size = 1u128.checked_shl(128 - u32::from(length)).unwrap_or(0);
                let address = address.wrapping_add(u128::from(i).wrapping_mul(size.wrapping_mul(step)));
                let prefix = Ipv6Net::new(address.into(), length).unwrap().trunc();
                hosts.push(FabricHost { port: port(next + i), prefix, mtu: if is_short { 1280 } else { 65_535 } });
            }
            next += count - 1;
        }
        hosts
    }
}

prop_compose! {
    fn any_node()(name in "[a-z][a-z0-9]{0,9}", links in any_links(), hosts in any_hosts()) -> FabricNode {
        FabricNode { name, links, hosts }
    }
}

fn any_fabric() -> impl Strategy<Value = HostFabric> {
    prop::collection::btree_map(1u64..12, any_node(), 0..8)
        .prop_map(|nodes| HostFabric { nodes: nodes.into_iter().map(|(id, of)| (node(id), of)).collect() })
}

proptest! {
    /// Catches a run that is taken apart into other links or hosts than it was made of.
    #[test]
    fn a_node_is_the_same_after_it_has_travelled(before in any_node()) {
        let wire = pb::FabricNode::from(&before);
        prop_assert_eq!(FabricNode::try_from(wire), Ok(before));
    }

    /// Catches a change after which the receiver has something else than with the whole, or another digest.
    #[test]
    fn changes_lead_where_the_whole_leads(fabrics in prop::collection::vec(any_fabric(), 1..5)) {
        let mut received = Received::default();
        let mut sent: Option<FabricItems> = None;
        for fabric in fabrics {
            let items = FabricItems::encode(&fabric);
            let sender = sender(vec![(node(1), port(2))]);
            let held = take(&mut received, pages_of(&items, sent.as_ref(), &sender)).unwrap();
            prop_assert_eq!((&*held.fabric, &*held.sender, &*held.items), (&fabric, &sender, &items));
            let whole = take(&mut Received::default(), pages_of(&items, None, &sender)).unwrap();
            prop_assert_eq!(&whole, &held);
            let mut restored = Received::restore(held.to_octets()).unwrap();
            prop_assert_eq!(restored.held(), Some(&held));
            prop_assert_eq!(restored.digest(), Vec::from(items.digest()));
            sent = Some(items);
        }
    }
}

/// Catches links of a Clos that travel one by one, and a page without a bound.
#[test]
fn neighbouring_links_and_hosts_travel_as_one_run() {
    let fabric = clos(400, 32, 32);
    let of_leaf = pb::FabricNode::from(&fabric.nodes[&node(7)]);
    assert_eq!((of_leaf.links.len(), of_leaf.hosts.len()), (1, 1));
    let items = FabricItems::encode(&fabric);
    let octets: usize = items.nodes().values().map(|item| item.octets()).sum();
    assert!(octets < 432 * 70, "{octets} octets");
    assert_eq!(pages_of(&items, None, &sender(vec![])).len(), 1);

    // No two of these links form a run.
    let lone = |n: u64| FabricNode {
        name: format!("n{n}"),
        links: (1..=1000).map(|p| link(2 * p, 2000 + 2 * p, n)).collect(),
        hosts: Vec::new(),
    };
    let items = FabricItems::encode(&HostFabric { nodes: (1..=100).map(|n| (node(n), lone(n))).collect() });
    let pages = pages_of(&items, None, &sender(vec![]));
    assert!(pages.len() > 1 && pages.iter().all(|page| page.encoded_len() <= (256 << 10) + 512), "{}", pages.len());
    assert!(pages[0].reset && pages[1..].iter().all(|page| !page.reset), "a later page forgets the ones before");
    let with_state: Vec<bool> = pages.iter().map(|page| page.state.is_some()).collect();
    assert_eq!(with_state.iter().rposition(|has| !has), Some(pages.len() - 2), "the last page alone has the state");
    take(&mut Received::default(), pages).unwrap();
}

/// Catches a link that changes more than the item that has it, and a state for which nodes travel.
#[test]
fn a_changed_link_is_one_item_and_an_equal_fabric_none() {
    let before = clos(4, 2, 2);
    let mut after = before.clone();
    after.nodes.get_mut(&node(3)).unwrap().links[1].mtu = 1500;
    after.nodes.remove(&node(6));
    let [before, after] = [before, after].map(|fabric| FabricItems::encode(&fabric));
    let sender = sender(vec![]);
    let pages = pages_of(&after, Some(&before), &sender);
    let [page] = &pages[..] else { panic!("{} pages", pages.len()) };
    let changed: Vec<u32> = page.nodes.iter().map(|item| item.node).collect();
    assert_eq!((page.reset, changed, &page.gone[..]), (false, vec![3], &[6][..]));

    let mut received = Received::default();
    let first = take(&mut received, pages_of(&after, None, &sender)).unwrap();
    let pages = pages_of(&after, Some(&after), &sender);
    assert_eq!((pages.len(), pages[0].nodes.len(), pages[0].gone.len()), (1, 0, 0));
    let second = take(&mut received, pages).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.fabric, &second.fabric), "a state alone makes no other fabric");
}

/// Catches a part of a change in force, one that is continued by another stream, and a receiver that asks for a difference after an error.
#[test]
fn what_does_not_come_out_as_announced_changes_nothing() {
    let [first, second] = [clos(4, 2, 2), clos(5, 2, 2)].map(|fabric| FabricItems::encode(&fabric));
    let mut received = Received::default();
    assert!(received.digest().is_empty());
    let held = take(&mut received, pages_of(&first, None, &sender(vec![]))).unwrap();

    let mut cut_off = pages_of(&second, Some(&first), &sender(vec![])).remove(0);
    cut_off.state = None;
    assert_eq!(received.apply(cut_off), Ok(None));
    assert_eq!(received.held(), Some(&held));
    assert_eq!(received.digest(), Vec::from(first.digest()), "the next stream begins from what is in force");
    assert!(received.apply(pages_of(&first, Some(&first), &sender(vec![])).remove(0)).is_ok());

    // A difference to something else.
    let wrong = FabricItems::encode(&clos(5, 2, 1));
    let failed = take(&mut received, pages_of(&second, Some(&wrong), &sender(vec![])));
    let Err(ReceiveError::DigestMismatch { announced, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(announced, second.digest());
    assert_eq!(received.held().map(|held| &held.items), Some(&held.items));
    assert!(received.digest().is_empty());
    take(&mut received, pages_of(&second, None, &sender(vec![]))).unwrap();
    assert_eq!(received.digest(), Vec::from(second.digest()));
}

/// Catches the digest of another definition than that of the .proto file, by which sender and receiver of two versions never agree.
#[test]
fn the_digest_is_what_the_contract_has() {
    use sha2::{Digest as _, Sha256};
    let fabric = clos(2, 1, 1);
    let mut hash = Sha256::new();
    for (id, of) in &fabric.nodes {
        hash.update([0, 0, (id.get() >> 8) as u8, id.get() as u8]);
        hash.update(Sha256::digest(pb::FabricNode::from(of).encode_to_vec()));
    }
    assert_eq!(Vec::from(FabricItems::encode(&fabric).digest()), hash.finalize().to_vec());
}

/// Catches a digest over what this version decodes, and a field that it does not know lost on the way to the next receiver.
#[test]
fn fields_of_a_later_version_are_kept() {
    let fabric = clos(2, 1, 1);
    let mut nodes = BTreeMap::new();
    for (id, of) in &fabric.nodes {
        let mut content = pb::FabricNode::from(of).encode_to_vec();
        content.extend([0xF8, 0x07, 0x01]);
        nodes.insert(*id, items::Item::new(content.into()));
    }
    let items = FabricItems::new(nodes);
    let held = take(&mut Received::default(), pages_of(&items, None, &sender(vec![]))).unwrap();
    assert_eq!((&*held.fabric, held.items.digest()), (&fabric, items.digest()));
    let sender = sender(vec![]);
    assert_eq!(pages_of(&held.items, None, &sender), pages_of(&items, None, &sender));
}

/// Catches a run that becomes more than a node has, and a field whose error does not name it.
#[test]
fn invalid_nodes_are_refused_with_the_field() {
    let of = |links: Vec<pb::FabricLinks>, hosts: Vec<pb::FabricHosts>| {
        FabricNode::try_from(pb::FabricNode { name: "n".into(), links, hosts }).unwrap_err().field
    };
    let run = pb::FabricLinks { port: 1, count: 2, far: 5, far_step: 1, far_port: 9, far_port_step: 0, mtu: 9000 };
    let links = |change: fn(&mut pb::FabricLinks)| {
        let mut changed = run;
        change(&mut changed);
        of(vec![changed], vec![])
    };
    assert_eq!(links(|run| run.port = 0), "links[0].port");
    assert_eq!(links(|run| run.count = 4096), "links[0].count");
    assert_eq!(links(|run| run.count = u32::MAX), "links[0].count");
    assert_eq!(links(|run| run.far = 0xDFFF), "links[0].far");
    assert_eq!(links(|run| run.far_step = 2), "links[0].far_step");
    assert_eq!(links(|run| run.far_port = 0), "links[0].far_port");
    assert_eq!(links(|run| run.mtu = 1279), "links[0].mtu");
    assert_eq!(of(vec![run, pb::FabricLinks { port: 2, ..run }], vec![]), "links[1].port");
    let run = pb::FabricHosts { port: 1, count: 2, prefix: vec![0xFF; 16], prefix_length: 128, mtu: 9000 };
    assert_eq!(of(vec![], vec![run.clone()]), "hosts[0].count");
    assert_eq!(of(vec![], vec![pb::FabricHosts { prefix_length: 64, ..run.clone() }]), "hosts[0].prefix.address");
    assert_eq!(of(vec![], vec![pb::FabricHosts { prefix: vec![1], ..run }]), "hosts[0].prefix.address");
    let unnamed = FabricNode::try_from(pb::FabricNode::default()).unwrap_err();
    assert_eq!(unnamed.field, "name");
}

/// Catches octets that become gigabytes of links: each of these nodes takes 30 octets and has 4095 links.
#[test]
fn a_fabric_is_no_larger_than_a_topology() {
    let run = pb::FabricLinks { port: 1, count: 4095, far: 5, far_port: 9, mtu: 9000, ..Default::default() };
    let content: Vec<u8> = pb::FabricNode { name: "n".into(), links: vec![run], hosts: vec![] }.encode_to_vec();
    let nodes = (1..=300).map(|node| pb::FabricItem { node, content: content.clone().into() }).collect();
    let mut received = Received::default();
    let page = pb::WatchFabricResponse { reset: true, nodes, ..Default::default() };
    assert_eq!(received.apply(page), Err(ReceiveError::TooLarge { what: "links" }));
    assert!(Received::restore(vec![1, 2, 3]).is_err() && Received::restore(Vec::new()).is_err());
}

#[test]
fn a_state_is_the_same_after_it_has_travelled() {
    let items = FabricItems::encode(&clos(2, 1, 1));
    for sender in [
        sender(vec![(node(7), port(3)), (node(8), port(4095))]),
        Sender { permitted: false, reason: String::new(), ..sender(vec![]) },
    ] {
        assert_eq!(<(FabricDigest, Sender)>::try_from(&state(&items, &sender)), Ok((items.digest(), sender)));
    }
    let refused = |change: fn(&mut pb::FabricState)| {
        let mut wire = state(&items, &sender(vec![(node(7), port(3))]));
        change(&mut wire);
        <(FabricDigest, Sender)>::try_from(&wire).unwrap_err().field
    };
    assert_eq!(refused(|wire| wire.digest.clear()), "digest");
    assert_eq!(refused(|wire| wire.block.clear()), "block");
    assert_eq!(refused(|wire| wire.edge = 0), "edge");
    assert_eq!(refused(|wire| wire.edge_port = 0), "edge_port");
    assert_eq!(refused(|wire| wire.most_nodes = 25), "most_nodes");
    assert_eq!(refused(|wire| wire.address.clear()), "address");
    assert_eq!(refused(|wire| wire.unusable[0].port = 0), "unusable[0].port");
}
