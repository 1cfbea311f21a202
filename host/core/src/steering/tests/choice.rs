// SPDX-License-Identifier: Apache-2.0
//! Which paths are candidates, and pins.

use super::*;

fn numbers(steering: &Steering, to: Ipv6Addr) -> Vec<usize> {
    steering.destination(to).unwrap().paths.iter().map(|path| path.number).collect()
}

/// Catches programs over the links of other interfaces, and a host with several links that is reached by way of one alone.
#[test]
fn programs_begin_at_the_interface_and_end_at_each_link_of_the_destination() {
    let block = UsidBlock::at_front("5f00::".parse().unwrap());
    let names = [1, 2, 3, 4, 5, 6].map(|node| (port(node, 1).node, format!("n{node}"))).into();
    let links: Vec<MapLink> = (1..=4)
        .flat_map(|leaf| [5, 6].map(|spine| MapLink { a: port(leaf, spine), b: port(spine, leaf), mtu: 9100 }))
        .collect();
    let hosts = [(1, 1, 1), (2, 1, 1), (3, 1, 2), (4, 1, 2), (1, 2, 3), (2, 2, 3)].map(|(leaf, at, host)| {
        let prefix = format!("2001:db8:0:{host}::/64").parse().unwrap();
        MapHost { prefix, port: port(leaf, at), mtu: 9000 }
    });
    let map = Arc::new(Map::new(block, names, &links, &hosts, port(2, 1), 5).unwrap());
    assert_eq!(map.own_prefix().unwrap().to_string(), "2001:db8:0:1::/64");
    let (mut steering, mut kernel) = steering(&map);
    let to: Ipv6Addr = "2001:db8:0:2::9".parse().unwrap();
    steering.add(to, at(1)).unwrap();
    kernel.carry_out(&mut steering);
    let wanted = ["2:5:3", "2:6:3", "2:5:4", "2:6:4"].map(|way| (format!("5f00:0:{way}::"), 16));
    assert_eq!(kernel.addresses(to), wanted.into());
    // A link of the destination fails.
    assert_eq!(steering.set_unusable(map.links_at(&BTreeSet::from([port(4, 1)])), at(2)), []);
    kernel.carry_out(&mut steering);
    let wanted = ["2:5:3", "2:6:3"].map(|way| (format!("5f00:0:{way}::"), 32));
    assert_eq!(kernel.addresses(to), wanted.into());
    // To a host behind the same node; its link there fails.
    let near: Ipv6Addr = "2001:db8:0:3::9".parse().unwrap();
    steering.add(near, at(3)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(near), [("5f00:0:2::".to_owned(), 64)].into());
    assert_eq!(steering.set_unusable(map.links_at(&BTreeSet::from([port(2, 2)])), at(4)), []);
    kernel.carry_out(&mut steering);
    let around = ["2:5:1", "2:6:1"].map(|way| (format!("5f00:0:{way}::"), 32));
    assert_eq!(kernel.addresses(near), around.into());
    assert_eq!(steering.set_unusable(BTreeSet::new(), at(5)), []);
    kernel.carry_out(&mut steering);
    assert_eq!((kernel.addresses(near).len(), kernel.addresses(to).len()), (1, 4));
    // Probes come back to the same interface.
    let ways = ways(&mut steering);
    assert!(ways.keys().all(|way| way.starts_with("5f00:0:2:") && way.ends_with(":2:0")), "{ways:?}");
    assert_eq!(ways.values().filter(|wanted| wanted.is_some()).count(), 4);
}

/// Catches a host that knows only paths out of service while others are in service, and one that keeps them when the first ones are back.
#[test]
fn of_more_paths_than_candidates_those_in_service_come_first() {
    let map = clos(2, 128);
    let (mut steering, mut kernel) = steering(&map);
    let to = host(2, 1);
    steering.asked(to, at(1)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!(numbers(&steering, to), (1..=64).collect::<Vec<_>>());
    assert_eq!(ways(&mut steering).len(), 64);
    let first: BTreeSet<PortOf> =
        steering.destination(to).unwrap().paths.iter().map(|path| path.path.hops[0].from).collect();
    // All but the first one.
    let (kept, out) = (*first.first().unwrap(), first.iter().skip(1).copied().collect());
    assert_eq!(steering.set_unusable(map.links_at(&out), at(2)), []);
    kernel.carry_out(&mut steering);
    let chosen = numbers(&steering, to);
    assert_eq!((chosen.len(), chosen.iter().filter(|number| **number <= 64).count()), (64, 1), "{chosen:?}");
    assert!(chosen.is_sorted());
    let view = steering.destination(to).unwrap();
    assert!(view.paths.iter().all(|path| !path.is_out && !out.contains(&path.path.hops[0].from)));
    assert!(view.paths.iter().any(|path| path.path.hops[0].from == kept));
    let taken = |steering: &Steering, kernel: &Kernel| {
        let view = steering.destination(to).unwrap();
        let active: BTreeSet<String> = view
            .paths
            .iter()
            .filter(|path| path.share.is_some())
            .map(|path| path.header.destination.to_string())
            .collect();
        assert_eq!(active, kernel.addresses(to).into_keys().collect(), "what is shown is what is written");
        view.paths.iter().all(|path| path.share.is_none() || !path.is_out)
    };
    assert!(taken(&steering, &kernel));
    assert_eq!(ways(&mut steering).values().filter(|wanted| wanted.is_none()).count(), 63);
    // All but those are out, too: the others stay candidates, behind them in no order but their own.
    let all_but: BTreeSet<usize> = map.links_at(&(1..=127).map(|spine| port(100 + spine, 1)).collect());
    assert_eq!(steering.set_unusable(all_but, at(3)), []);
    kernel.carry_out(&mut steering);
    assert_eq!(numbers(&steering, to).len(), 64);
    assert!(taken(&steering, &kernel));
    assert_eq!(kernel.addresses(to).len(), 1);
    assert_eq!(steering.set_unusable(BTreeSet::new(), at(100)), []);
    kernel.carry_out(&mut steering);
    assert_eq!(numbers(&steering, to), (1..=64).collect::<Vec<_>>());
}

/// Catches a pin to a path that is no candidate, one that is lost to paths in service, and candidates that stay when it has ended.
#[test]
fn a_pinned_path_is_a_candidate() {
    let map = clos(2, 128);
    let (mut steering, mut kernel) = steering(&map);
    let to = host(2, 1);
    steering.pin(to, Some(100), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!(numbers(&steering, to), (1..=63).chain([100]).collect::<Vec<_>>());
    let only = kernel.addresses(to);
    let view = steering.destination(to).unwrap();
    assert_eq!((view.pinned, only.len()), (Some(100), 1));
    let its_link = BTreeSet::from([view.paths[63].path.hops[0].link]);
    assert_eq!(steering.set_unusable(its_link, at(2)), []);
    kernel.carry_out(&mut steering);
    assert_eq!((kernel.addresses(to), numbers(&steering, to)[63]), (only.clone(), 100));
    let refused = steering.pin(to, Some(129), at(2)).unwrap_err().to_string();
    assert_eq!(refused, "path 129: no path of 2001:db8:2:1::/64 that packets may take has this number, of 128");
    steering.pin(to, Some(128), at(3)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!(numbers(&steering, to), (1..=63).chain([128]).collect::<Vec<_>>());
    assert_ne!(kernel.addresses(to), only);
    steering.pin(to, None, at(4)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!((numbers(&steering, to), kernel.addresses(to).len()), ((1..=64).collect(), 4));
}

/// Catches a refused pin that leaves the former one without its path.
#[test]
fn a_pin_for_which_there_is_no_id_leaves_the_former_one() {
    let map = clos(2, 128);
    let (mut steering, mut kernel) = steering(&map);
    let to = host(2, 1);
    steering.pin(to, Some(100), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    let before = kernel.addresses(to);
    while steering.ids.next().is_some() {}
    assert_eq!(steering.pin(to, Some(101), at(2)), Err(Refused::NoIds));
    let view = steering.destination(to).unwrap();
    assert_eq!((view.pinned, numbers(&steering, to)[63]), (Some(100), 100));
    assert_eq!(steering.set_unusable(map.links_at(&BTreeSet::from([port(101, 2)])), at(3)), []);
    kernel.carry_out(&mut steering);
    assert_eq!((kernel.addresses(to), steering.destination(to).unwrap().pinned), (before, Some(100)));
}

#[test]
fn a_pin_holds_over_faults_and_restarts_and_ends_with_its_path() {
    let map = clos(3, 4);
    let (mut steering, mut kernel) = steering(&map);
    let number = |steering: &Steering, spine: u64| {
        let view = steering.destination(host(2, 1)).unwrap();
        view.paths.iter().position(|path| path.path.nodes().any(|node| node == port(spine, 1).node)).unwrap() + 1
    };
    steering.asked(host(2, 1), at(1)).unwrap();
    let of_103 = number(&steering, 103);
    steering.pin(host(2, 1), Some(of_103), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    let only = BTreeMap::from([("5f00:0:1:67:2::".to_owned(), 64)]);
    assert_eq!(kernel.addresses(host(2, 1)), only);
    steering.set_unusable(map.links_at(&BTreeSet::from([port(103, 2)])), at(2));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(host(2, 1)), only);
    let refused = steering.pin(host(2, 1), Some(5), at(2)).unwrap_err().to_string();
    assert_eq!(refused, "path 5: no path of 2001:db8:2:1::/64 that packets may take has this number, of 4");
    assert!(steering.pin(host(2, 1), Some(0), at(2)).is_err());
    assert_eq!(steering.destination(host(2, 1)).unwrap().pinned, Some(of_103));

    let mut next = Steering::new(SETTINGS);
    let (restored, unused) = kernel.restored();
    assert_eq!(unused.len(), 3);
    next.restore(restored, unused.clone(), at(3));
    next.set_map(Some(Arc::clone(&map)), BTreeSet::new(), at(3));
    // Once more, in case that the process has ended before it was done.
    unused.iter().for_each(|id| assert_eq!(next.next_command(), Some(Command::Leave(*id))));
    assert_eq!((next.next_command(), number(&next, 103)), (None, of_103));
    assert_eq!(next.destination(host(2, 1)).unwrap().pinned, Some(of_103));
    // Without that spine, and not permitted for a while.
    next.set_map(Some(clos(3, 2)), BTreeSet::new(), at(4));
    kernel.carry_out(&mut next);
    assert_eq!(kernel.addresses(host(2, 1)).len(), 2);
    assert_eq!(next.destination(host(2, 1)).unwrap().pinned, None);
    next.set_map(None, BTreeSet::new(), at(4));
    next.set_map(Some(Arc::clone(&map)), BTreeSet::new(), at(4));
    next.asked(host(2, 1), at(4)).unwrap();
    kernel.carry_out(&mut next);
    assert_eq!(kernel.addresses(host(2, 1)), only);
    next.set_map(Some(clos(3, 2)), BTreeSet::new(), at(4));
    next.pin(host(2, 1), Some(1), at(5)).unwrap();
    next.pin(host(2, 1), None, at(5)).unwrap();
    kernel.carry_out(&mut next);
    assert_eq!((kernel.addresses(host(2, 1)).len(), next.destination(host(2, 1)).unwrap().pinned), (2, None));
}
