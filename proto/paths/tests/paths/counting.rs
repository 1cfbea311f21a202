// SPDX-License-Identifier: Apache-2.0
//! How many paths pairs of edges have in service, beside the paths themselves.

use std::collections::BTreeMap;

use canopy_paths::count::{Class, Count, Counts, Service};
use canopy_paths::fabric::Fabric;
use canopy_paths::pair::{Method, Paths};
use canopy_paths::path::Attachment;
use proptest::prelude::*;

use crate::net::Net;
use crate::oracle::{clos_of_edges, graph};

/// The listed paths one by one, and whether they are all shortest up-down paths.
fn one_by_one(fabric: &Fabric, services: &[Service], a: Attachment, b: Attachment) -> (Count, Method) {
    let paths = Paths::between(fabric, &[a], &[b]);
    assert_eq!(paths.total, paths.list.len() as u64, "small enough to be listed");
    let mut count = Count { all: paths.total, ..Count::default() };
    for ranked in &paths.list {
        let worst = |service| ranked.path.hops.iter().any(|hop| services[hop.link] == service);
        count.alive += u64::from(!worst(Service::Dead));
        count.in_service += u64::from(!worst(Service::Dead) && !worst(Service::Drained));
    }
    (count, paths.method)
}

fn services() -> impl Strategy<Value = Vec<Service>> {
    let one = prop_oneof![6 => Just(Service::In), 1 => Just(Service::Drained), 1 => Just(Service::Dead)];
    proptest::collection::vec(one, 400)
}

proptest! {
    /// Catches a drained link that counts as dead, a parallel link that counts once, a higher tier than the paths have, and a way that is
    /// counted for another edge of the same class although it is another one.
    #[test]
    fn in_a_clos_they_are_as_many_as_the_listed_ones((net, edges) in clos_of_edges(), services in services()) {
        let (fabric, service) = (net.fabric(), |link: usize| services[link]);
        let mut counts = Counts::new(&fabric, &service);
        let mut classes: BTreeMap<Class, Attachment> = BTreeMap::new();
        for &a in &edges {
            let class = counts.class(a.edge.node).unwrap();
            let alike = *classes.entry(class).or_insert(a);
            for &b in edges.iter().filter(|b| b.edge.node != a.edge.node) {
                let (expected, method) = one_by_one(&fabric, &services, a, b);
                let counted = counts.up_down(a.edge.node, b.edge.node);
                match method {
                    Method::UpDown => prop_assert_eq!(counted.unwrap_or_default(), expected),
                    Method::Detours => {
                        prop_assert_eq!(counted, None);
                        prop_assert_eq!(counts.detours(a.edge.node, b.edge.node), expected);
                    }
                }
                if b.edge.node != alike.edge.node {
                    prop_assert_eq!(counts.up_down(alike.edge.node, b.edge.node), counted, "edges of one class");
                }
            }
        }
    }

    #[test]
    fn elsewhere_they_are_those_of_the_heuristic((net, a, b) in graph(), services in services()) {
        prop_assume!(a.edge.node != b.edge.node);
        let (fabric, service) = (net.fabric(), |link: usize| services[link]);
        let mut counts = Counts::new(&fabric, &service);
        let (expected, method) = one_by_one(&fabric, &services, a, b);
        let counted = counts.up_down(a.edge.node, b.edge.node);
        prop_assert_eq!(counted.is_some(), method == Method::UpDown);
        prop_assert_eq!(counted.unwrap_or_else(|| counts.detours(a.edge.node, b.edge.node)), expected);
    }
}

/// Catches a sum that overflows, and a pair of two planes that has paths.
#[test]
fn more_paths_than_a_number_holds_are_the_greatest_number_and_planes_have_none_in_common() {
    // 300 links from each tier to the next one: 300^4 ways up from each edge, and more than 2^64 paths.
    let mut net = Net::new([1, 2, 3, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32, 0x41]);
    for way in [[1, 0x11, 0x21, 0x31, 0x41], [2, 0x12, 0x22, 0x32, 0x41]] {
        way.windows(2).for_each(|two| (0..300).for_each(|_| net.link(two[0], two[1])));
    }
    let [a, b, c] = [1, 2, 3].map(|node| net.host(node).edge.node);
    let fabric = net.fabric();
    let mut counts = Counts::new(&fabric, &|_| Service::In);
    assert_eq!(counts.up_down(a, b), Some(Count { all: u64::MAX, alive: u64::MAX, in_service: u64::MAX }));
    assert_eq!((counts.up_down(a, c), counts.detours(a, c)), (Some(Count::default()), Count::default()));
}
