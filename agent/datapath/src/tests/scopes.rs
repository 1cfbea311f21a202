// SPDX-License-Identifier: Apache-2.0
//! What a reconcile compares: what changed, the network, or everything.

use canopy_agent_core::Scope;
use canopy_model::status::ItemKind;

use crate::rules::TABLE;
use crate::testbed::*;

/// Four groups with a receiver behind port d0, the second and the third with a child behind d1.
fn four() -> Testbed {
    let mut bed = Testbed::new(&Shape { children: 1, ..Shape::default() });
    assert_eq!(bed.multiply(4), []);
    assert_eq!(
        bed.reconcile(|s| s.groups.for_each_mut(|g| _ = [1, 4].contains(&g.group_id.get()).then(|| g.branches.pop()))),
        []
    );
    bed
}

/// The epoch of a group that the programs have.
fn epoch(bed: &Testbed, id: u32) -> u32 {
    bed.datapath.bpf.groups().get(&id).unwrap().unwrap().epoch
}

fn change(bed: &mut Testbed, id: u32, scope: Scope) -> Vec<(ItemKind, Option<u32>)> {
    bed.spec.groups.for_each_mut(|g| g.epoch += u32::from(g.group_id.get() == id));
    bed.follow(scope).into_iter().map(|e| (e.kind, e.group.map(|id| id.get()))).collect()
}

/// Catches an audit of every map for a change of one group, or for a notice of the kernel.
#[test]
fn only_an_audit_finds_what_there_is_no_notice_of() {
    let mut bed = four();
    bed.datapath.bpf.qpns().delete(&0x1002).unwrap();
    let is_there = |bed: &Testbed| bed.datapath.bpf.qpns().get(&0x1002).unwrap().is_some();
    for (scope, now) in [(Scope::Spec, 2), (Scope::Network, 3)] {
        assert_eq!(change(&mut bed, 1, scope), []);
        assert_eq!(epoch(&bed, 1), now);
        assert!(!is_there(&bed), "{scope:?}");
        assert_eq!(bed.follow(scope), []);
        assert!(!is_there(&bed), "{scope:?}");
    }
    assert_eq!(bed.follow(Scope::All), []);
    assert!(is_there(&bed));
}

/// Catches a network that is compared for each change of a group, and one that is not where a notice or the spec wants it.
#[test]
fn the_network_is_compared_where_it_may_be_another() {
    let mut bed = four();
    // A neighbour that does not answer is compared each time.
    bed.peers_answer();
    assert_eq!(bed.follow(Scope::All), []);
    let un = bed.spec.base.un.to_string();
    let ip = |args: &str| {
        let out = std::process::Command::new("ip").args(args.split(' ')).output().unwrap();
        assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    };
    let has_route = || !ip(&format!("-6 route show {un} table all")).is_empty();
    let remove = || _ = ip(&format!("-6 route del {un} table {TABLE}"));
    assert!(has_route());
    remove();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !bed.datapath.netlink.has_notice() {
        assert!(std::time::Instant::now() < deadline, "no notice of a route that was removed");
        bed.wait(std::time::Duration::from_millis(10));
    }
    assert_eq!(change(&mut bed, 1, Scope::Spec), []);
    assert!(has_route(), "a notice waited while a spec came");
    bed.datapath.netlink.lose_notices();
    remove();
    assert_eq!(change(&mut bed, 1, Scope::Spec), []);
    assert!(!has_route(), "there is no notice, and no hop is another");
    assert_eq!(bed.follow(Scope::Network), []);
    assert!(has_route());
    remove();
    let last = u128::from(bed.spec.groups.values().map(|g| g.branches[0].next_hop).next().unwrap());
    bed.spec.groups.for_each_mut(|g| g.branches[0].next_hop = (last + u128::from(g.group_id.get() == 3)).into());
    assert_eq!(bed.follow(Scope::Spec), []);
    assert!(has_route(), "a group has another next hop");
    // That hop does not answer, so that everything is compared until it does.
    bed.spec.groups.for_each_mut(|g| g.branches[0].next_hop = last.into());
    assert_eq!(bed.follow(Scope::Spec), []);
    remove();
    bed.spec.base_mut().path_links.clear();
    assert_eq!(bed.follow(Scope::Spec), []);
    assert!(has_route(), "the base is another");
}

/// Catches a failed group that is forgotten when another one changes, one that makes each change an audit, and one that is never tried
/// again.
#[test]
fn a_group_that_failed_stays_failed_until_it_is_tried_again() {
    let mut bed = four();
    assert!(std::process::Command::new("ip").args(["link", "del", "d1"]).status().unwrap().success());
    let failed = |bed: &mut Testbed, scope| {
        let errors = bed.follow(scope);
        let of_groups = errors.into_iter().filter(|e| e.kind == ItemKind::Group);
        of_groups.filter_map(|e| Some(e.group?.get())).collect::<Vec<_>>()
    };
    assert_eq!(failed(&mut bed, Scope::Network), [2, 3]);
    bed.datapath.bpf.qpns().delete(&0x1004).unwrap();
    assert_eq!(failed(&mut bed, Scope::Spec), [2, 3]);
    assert_eq!(change(&mut bed, 1, Scope::Spec).iter().filter(|(kind, _)| *kind == ItemKind::Group).count(), 2);
    assert_eq!(epoch(&bed, 1), 2);
    assert_eq!(bed.datapath.bpf.qpns().get(&0x1004).unwrap(), None, "no audit");
    // Its program is another one: what the maps have of it is read again.
    bed.spec.groups.for_each_mut(|g| g.epoch += u32::from(g.group_id.get() == 2));
    let errors = bed.follow(Scope::Spec);
    assert_eq!(errors.iter().filter(|e| e.kind == ItemKind::Group).count(), 2, "{errors:#?}");
    assert!(bed.datapath.bpf.qpns().get(&0x1004).unwrap().is_some());
    bed.spec.groups.for_each_mut(|g| g.branches.truncate(1));
    assert_eq!(failed(&mut bed, Scope::Spec), [0u32; 0]);
}
