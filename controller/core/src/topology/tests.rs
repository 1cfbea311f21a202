// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use canopy_model::topology::LinkDecl;
use proptest::prelude::*;

use super::*;
use crate::testing::{fabric, random_graph};

#[test]
fn ports_are_numbered_in_link_order_and_both_ends_agree() {
    let n = Network::build(fabric(2, 2, 1), &AddressPlan::default()).unwrap();
    for node in 0..n.len() {
        for (i, port) in n.ports(node).iter().enumerate() {
            assert_eq!(usize::from(port.index.get()), i + 1);
            let link = &n.spec.links[port.link];
            let mine = if link.a.device == n.name(node) { &link.a } else { &link.b };
            assert_eq!(n.port_name(node, port.index), mine.port);
            if let Far::Node { node: far, port: far_port } = port.far {
                let theirs = if link.a.device == n.name(node) { &link.b } else { &link.a };
                assert_eq!((n.name(far), n.port_name(far, far_port)), (theirs.device.as_str(), theirs.port.as_str()));
            }
        }
    }
}

#[test]
fn host_prefixes_that_catch_the_fabrics_addresses_are_refused() {
    for (prefix, address, what) in [
        ("5f00:0:1::/48", "5f00:0:1::1", "the SRv6 block"),
        ("fcff::/48", "fcff::1", "the node addresses"),
        ("fcfe::/64", "fcfe::1", "the Proxy Addresses"),
        ("::/0", "2001::1", "the SRv6 block"),
    ] {
        let mut spec = fabric(1, 1, 1);
        spec.hosts[0].prefix = prefix.parse().unwrap();
        spec.hosts[0].address = address.parse().unwrap();
        let e = Network::build(spec, &AddressPlan::default()).unwrap_err().to_string();
        assert!(e.starts_with("spec.hosts[0].prefix: ") && e.contains(what), "{e}");
    }
}

/// Catches destinations that are kept once more for each topology, or each node.
#[test]
fn what_is_the_same_is_shared_with_the_network_before_and_by_all_bases() {
    let plan = AddressPlan::default();
    let old = Network::build(fabric(3, 2, 2), &plan).unwrap();
    let mut spec = fabric(3, 2, 2);
    spec.links[0].mtu = 1500;
    let mut new = Network::build(spec, &plan).unwrap();
    assert!(!Arc::ptr_eq(new.destinations(), old.destinations()));
    new.share(&old);
    assert!(Arc::ptr_eq(new.destinations(), old.destinations()));
    let bases: Vec<_> = (0..new.len()).map(|at| crate::routes::node_base(&new, &plan, None, at)).collect();
    assert_eq!(Arc::strong_count(old.destinations()), 2 + bases.len());
    let mut other = Network::build(fabric(3, 2, 1), &plan).unwrap();
    other.share(&old);
    assert!(!Arc::ptr_eq(other.destinations(), old.destinations()));
}

#[test]
fn nothing_leads_over_broken_and_drained_links_unless_there_is_no_other_way() {
    let plan = AddressPlan::default();
    let spec = fabric(2, 2, 1);
    let down = |ports: &[&str]| ports.iter().map(|p| crate::testing::endpoint(p)).collect::<BTreeSet<_>>();
    let around = |spec: &TopologySpec, ports: &[&str]| {
        let n = Network::build_around(spec.clone(), &plan, &down(ports), &[], &[]).unwrap();
        let led_over: BTreeSet<usize> = (0..n.len()).flat_map(|i| n.adjacent(i)).map(|a| a.link).collect();
        let between_nodes = |l: &LinkDecl| n.node(&l.a.device).is_some() && n.node(&l.b.device).is_some();
        let links = n.spec.links.iter().enumerate().filter(|(i, l)| between_nodes(l) && !led_over.contains(i));
        links.map(|(_, l)| l.a.to_string()).collect::<Vec<_>>()
    };
    assert!(around(&spec, &[]).is_empty());
    assert_eq!(around(&spec, &["spine1/down1"]), ["leaf1/up1"]);
    assert_eq!(around(&spec, &["leaf1/host1"]), [""; 0], "a host has one link");
    // Without both its links leaf1 is cut off: one stays.
    assert_eq!(around(&spec, &["leaf1/up1", "leaf1/up2"]).len(), 1);
    let mut drained = spec.clone();
    drained.links[0].drained = true;
    assert_eq!(around(&drained, &[]), ["leaf1/up1"]);
    let other = drained.links.iter().position(|l| l.a.to_string() == "leaf1/up2").unwrap();
    assert_eq!(
        around(&drained, &[&drained.links[other].a.to_string()]),
        ["leaf1/up2"],
        "drained is better than broken"
    );
    let n = Network::build_around(spec, &plan, &down(&["spine1/down1"]), &[], &[]).unwrap();
    let (leaf1, spine1) = (n.node("leaf1").unwrap(), n.node("spine1").unwrap());
    assert!(n.adjacent(leaf1).all(|a| a.to != spine1));
}

#[test]
fn a_port_is_found_by_its_name_and_a_broken_link_by_the_path_that_it_is_on() {
    let down = BTreeSet::from([crate::testing::endpoint("leaf2/up1")]);
    let n = Network::build_around(fabric(2, 1, 1), &AddressPlan::default(), &down, &[], &[]).unwrap();
    let [leaf1, leaf2, spine1] = ["leaf1", "leaf2", "spine1"].map(|name| n.node(name).unwrap());
    let (at, up) = n.across(&crate::testing::endpoint("leaf2/up1")).unwrap();
    assert_eq!((at, up.to, n.endpoint(at, up.port).to_string().as_str()), (leaf2, spine1, "leaf2/up1"));
    assert_eq!(n.endpoint(up.to, up.far_port).to_string(), "spine1/down2");
    assert!(n.across(&crate::testing::endpoint("leaf2/host1")).is_none(), "a host");
    // By a port of either end, whichever is the first of the link, and by that of a host.
    for (link, decl) in n.spec.links.iter().enumerate() {
        for end in [&decl.a, &decl.b] {
            assert_eq!(n.link_at(end), Some(link), "{end}");
        }
    }
    for none in ["leaf2/none", "none/up1", "h1/none"] {
        assert_eq!(n.link_at(&crate::testing::endpoint(none)), None, "{none}");
    }
    assert_eq!(n.broken_between(leaf1, leaf2), Some(n.spec.links[up.link].label()));
    assert_eq!(n.broken_between(leaf1, spine1), None);
    assert_eq!((n.adjacent(leaf2).count(), n.sound(leaf2).count()), (1, 0));
    assert_eq!(n.sound_distances(leaf1, |_| false).0[leaf2], u32::MAX);
}

/// Catches a node that has left and is the last resort of paths, and one that is not named as what is missing.
#[test]
fn nothing_leads_over_a_node_that_has_left_also_where_there_is_no_other_way() {
    let without = |spines: u16, left: &[&str]| {
        Network::build_around(fabric(2, spines, 1), &AddressPlan::default(), &BTreeSet::new(), &[], left).unwrap()
    };
    let n = without(1, &["spine1", "none"]);
    let [leaf1, leaf2, spine1] = ["leaf1", "leaf2", "spine1"].map(|name| n.node(name).unwrap());
    assert!((0..n.len()).all(|node| n.adjacent(node).next().is_none()));
    for to in [leaf2, spine1] {
        assert_eq!(n.left_between(leaf1, to, false), Some(spine1));
    }
    assert_eq!(n.broken_between(leaf1, leaf2), None);
    let n = without(2, &["spine1"]);
    let [leaf1, leaf2] = ["leaf1", "leaf2"].map(|name| n.node(name).unwrap());
    assert_eq!(n.distances(leaf1, |_| false).0[leaf2], 2);
    let down = BTreeSet::from([crate::testing::endpoint("leaf2/up1")]);
    let n = n.with_links(&down, &[], &["spine1"]);
    assert_eq!((n.left_between(leaf1, leaf2, false), n.left_between(leaf1, leaf2, true)), (None, Some(spine1)));
    assert!(without(1, &[]).difference(&without(1, &["spine1"])).lost.len() == 2);
}

#[test]
fn a_node_with_too_many_ports_is_named() {
    let mut spec = fabric(1, 1, 0);
    let link = spec.links[0].clone();
    for i in 0..4095 {
        let mut more = link.clone();
        more.a.port = format!("x{i}");
        more.b.port = format!("y{i}");
        spec.links.push(more);
    }
    let e = Network::build(spec, &AddressPlan::default()).unwrap_err().to_string();
    assert!(e.contains("spec.links[4095].a: \"leaf1\" has more than 4095 ports"), "{e}");
}

/// Which nodes have the hop counts of `old`, without a search.
fn kept(old: &Network, new: &Network) -> Vec<String> {
    let is_kept = |root: &NodeIx| Arc::ptr_eq(&old.hops_from(*root), &new.hops_from(*root));
    (0..new.len()).filter(is_kept).map(|root| new.name(root).to_owned()).collect()
}

#[test]
fn hop_counts_are_kept_where_there_is_another_way_of_the_same_length() {
    let old = Network::build(fabric(3, 2, 1), &AddressPlan::default()).unwrap();
    (0..old.len()).for_each(|root| drop(old.hops_from(root)));
    let down = BTreeSet::from([crate::testing::endpoint("leaf1/up1")]);
    let without = old.with_links(&down, &[], &[]);
    assert_eq!(kept(&old, &without), ["leaf2", "leaf3", "spine2"], "leaf1 and spine1 are three hops apart now");
    let again = without.with_links(&BTreeSet::new(), &[], &[]);
    assert_eq!(kept(&without, &again), ["leaf2", "leaf3", "spine2"], "and one hop again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Catches hop counts that are kept although they are others.
    #[test]
    fn hop_counts_are_those_of_a_search_whatever_links_were_in_service_before(
        parents in prop::collection::vec(any::<usize>(), 1..12),
        extra in prop::collection::vec((any::<usize>(), any::<usize>()), 0..16),
        states in prop::collection::vec((prop::collection::vec(any::<usize>(), 0..6), any::<Option<usize>>()), 1..6),
    ) {
        let spec = random_graph(&parents, &extra);
        let ports: Vec<Endpoint> = spec.links.iter().map(|link| link.a.clone()).collect();
        let names: Vec<String> = spec.nodes.iter().map(|node| node.name.clone()).collect();
        let mut network = Network::build(spec, &AddressPlan::default()).unwrap();
        for (down, drained) in states {
            (0..network.len()).step_by(2).for_each(|root| drop(network.hops_from(root)));
            let down = down.iter().map(|i| ports[i % ports.len()].clone()).collect();
            let drained: Vec<DrainTarget<'_>> =
                drained.iter().map(|i| DrainTarget::Node(&names[i % names.len()])).collect();
            network = network.with_links(&down, &drained, &[]);
            for root in 0..network.len() {
                let (found, _) = network.sound_distances(root, |_| false);
                let found: Vec<u16> = found.into_iter().map(|hops| u16::try_from(hops).unwrap_or(UNREACHED)).collect();
                prop_assert_eq!(&network.hops_from(root)[..], &found[..], "from {}", network.name(root));
            }
        }
    }
}
