// SPDX-License-Identifier: Apache-2.0

use canopy_model::addressing::AddressPlan;
use canopy_model::ids::NodeId;
use canopy_model::node_spec::{GroupProgram, Multicast};
use proptest::prelude::*;

use super::*;
use crate::testing;

fn flow(n: u16) -> Flow {
    let plan = AddressPlan::default();
    (plan.node_address(NodeId::new("n", 6).unwrap()), plan.multicast(n.into()).unwrap())
}

fn route(input: u32, outputs: &[u32]) -> Route {
    Route { input, outputs: outputs.iter().copied().collect() }
}

fn want(routes: &[(u16, Route)]) -> Desired {
    let routes: BTreeMap<_, _> = routes.iter().map(|(n, r)| (flow(*n), r.clone())).collect();
    Desired { ours: routes.keys().map(|f| f.1).collect(), routes, ..Desired::default() }
}

/// A kernel that applies all commands: routes keep their outputs by MIF, as in Linux.
#[derive(Clone, Debug, Default)]
struct Kernel {
    held: bool,
    mifs: BTreeMap<Mif, u32>,
    routes: BTreeMap<Flow, (Mif, BTreeSet<Mif>)>,
}

impl Kernel {
    fn observed(&self) -> Observed {
        let index = |m: &Mif| self.mifs.get(m).copied();
        let observed = |(input, outputs): &(Mif, BTreeSet<Mif>)| Route {
            input: index(input).unwrap_or(0),
            outputs: outputs.iter().filter_map(index).collect(),
        };
        Observed {
            held: self.held,
            interfaces: self.mifs.clone(),
            made: self.mifs.keys().copied().collect(),
            routes: self.routes.iter().map(|(f, r)| (*f, observed(r))).collect(),
        }
    }

    fn run(&mut self, commands: Vec<Command>) {
        let mif =
            |k: &Self, i: u32| *k.mifs.iter().find(|(_, x)| **x == i).expect("a route's interface is there first").0;
        for c in commands {
            match c {
                Command::Hold => assert!(!std::mem::replace(&mut self.held, true)),
                Command::Release => assert!(std::mem::replace(&mut self.held, false)),
                Command::AddInterface(m, i) => assert_eq!(self.mifs.insert(m, i), None, "MIF {m} is taken"),
                Command::RemoveInterface(m) => drop(self.mifs.remove(&m).expect("it was there")),
                Command::SetRoute(f, r) => {
                    let outputs = r.outputs.iter().map(|i| mif(self, *i)).collect();
                    self.routes.insert(f, (mif(self, r.input), outputs));
                }
                Command::RemoveRoute(f) => drop(self.routes.remove(&f).expect("it was there")),
            }
        }
    }

    fn reconcile(&mut self, desired: &Desired) {
        self.run(plan_before(desired, &self.observed()));
        self.run(plan_after(desired, &self.observed()));
    }
}

#[test]
fn a_route_is_added_and_removed_with_its_interfaces() {
    let mut k = Kernel::default();
    let d = want(&[(1, route(2, &[3, 4]))]);
    assert_eq!(plan_before(&d, &k.observed()), []);
    let commands = plan_after(&d, &k.observed());
    assert_eq!(commands.first(), Some(&Command::Hold));
    assert_eq!(commands.last(), Some(&Command::SetRoute(flow(1), route(2, &[3, 4]))));
    k.reconcile(&d);
    assert_eq!(k.observed().routes, d.routes);
    assert_eq!((plan_before(&d, &k.observed()), plan_after(&d, &k.observed())), (vec![], vec![]), "twice is once");
    // The group was removed from the spec; the programs' maps still record that the agent made its route.
    let gone = Desired { ours: d.ours, ..Desired::default() };
    assert_eq!(plan_before(&gone, &k.observed()), [Command::RemoveRoute(flow(1))]);
    k.reconcile(&gone);
    assert_eq!((k.held, k.mifs.len(), k.routes.len()), (false, 0, 0));
}

#[test]
fn a_childs_port_is_removed_first_and_added_last() {
    let mut k = Kernel::default();
    k.reconcile(&want(&[(1, route(2, &[3, 4]))]));
    let d = want(&[(1, route(2, &[4, 5]))]);
    assert_eq!(plan_before(&d, &k.observed()), [Command::SetRoute(flow(1), route(2, &[4]))]);
    k.run(plan_before(&d, &k.observed()));
    let after = plan_after(&d, &k.observed());
    assert_eq!(after.last(), Some(&Command::SetRoute(flow(1), route(2, &[4, 5]))));
    // Packets come from another parent: none may be forwarded by the old route meanwhile.
    let moved = want(&[(1, route(9, &[4, 5]))]);
    assert_eq!(plan_before(&moved, &k.observed()), [Command::RemoveRoute(flow(1))]);
}

#[test]
fn foreign_routes_and_interfaces_and_kept_groups_are_not_changed() {
    let mut k = Kernel::default();
    k.reconcile(&want(&[(1, route(2, &[3])), (7, route(2, &[8]))]));
    // Route 7 is foreign: it is not recorded. Its interfaces must stay too.
    let d = Desired { ours: BTreeSet::from([flow(1).1]), ..Desired::default() };
    let mut other = k.clone();
    other.reconcile(&d);
    assert_eq!(other.observed().routes.keys().copied().collect::<Vec<_>>(), [flow(7)]);
    assert_eq!(other.mifs.values().copied().collect::<BTreeSet<_>>(), BTreeSet::from([2, 8]));
    let kept = Desired { kept: BTreeSet::from([flow(1).1]), ..d };
    let before = k.clone();
    k.reconcile(&kept);
    assert_eq!((k.held, k.observed()), (true, before.observed()), "it stays unchanged");
    // The agent does not remove interfaces that something else made.
    let daemon = Observed { made: BTreeSet::new(), routes: BTreeMap::new(), ..k.observed() };
    assert!(!plan_after(&Desired::default(), &daemon).iter().any(|c| matches!(c, Command::RemoveInterface(_))));
}

#[test]
fn a_recreated_interface_gets_no_packets_of_other_groups() {
    let mut k = Kernel::default();
    let d = want(&[(1, route(2, &[3])), (2, route(2, &[4]))]);
    k.reconcile(&d);
    // The device with index 3 was recreated with another index: its MIF is free, but the route still has its bit.
    let mif = *k.mifs.iter().find(|(_, i)| **i == 3).unwrap().0;
    k.mifs.remove(&mif);
    let d = want(&[(1, route(2, &[4])), (2, route(2, &[4, 5]))]);
    k.reconcile(&d);
    assert_eq!(k.observed().routes, d.routes);
}

fn arb_desired() -> impl Strategy<Value = Vec<(u16, Route)>> {
    let route = (1u32..12, prop::collection::btree_set(12u32..24, 1..5));
    prop::collection::btree_map(1u16..6, route, 0..5)
        .prop_map(|m| m.into_iter().map(|(g, (input, outputs))| (g, Route { input, outputs })).collect())
}

proptest! {
    #[test]
    fn from_any_state_the_kernel_ends_as_desired_and_stable(steps in prop::collection::vec(arb_desired(), 1..6)) {
        let mut k = Kernel::default();
        let mut recorded = BTreeSet::new();
        for step in steps {
            let mut d = want(&step);
            recorded.extend(d.ours.iter().copied());
            d.ours = recorded.clone();
            k.run(plan_before(&d, &k.observed()));
            // Between the two parts, only wanted routes and outputs exist.
            for (f, have) in k.observed().routes {
                prop_assert!(d.routes.get(&f).is_some_and(|w| have.outputs.is_subset(&w.outputs)));
            }
            k.run(plan_after(&d, &k.observed()));
            let o = k.observed();
            prop_assert_eq!(&o.routes, &d.routes);
            prop_assert_eq!(o.held, !d.routes.is_empty());
            prop_assert_eq!((plan_before(&d, &o), plan_after(&d, &o)), (vec![], vec![]));
        }
    }
}

/// A node whose groups each have the source on port 1 and children on the given ports; ports have the interface indices from 101.
fn spec(groups: &[(u64, std::ops::Range<u64>)]) -> (NodeSpec, BTreeMap<String, Interface>) {
    let interfaces = (1..=50).map(|n| (format!("eth{n}"), Interface::alone(100 + n, 9000))).collect();
    let program = |(id, children): &(u64, std::ops::Range<u64>)| {
        let multicast = Some(Multicast { source: flow(1).0, group: flow(*id as u16).1 });
        let program = GroupProgram { multicast, ..testing::program(*id, children.clone()) };
        (program.group_id, program)
    };
    let base = testing::base((1..=50).map(testing::port).collect());
    (NodeSpec { term: 1, generation: 1, base: base.into(), groups: groups.iter().map(program).collect() }, interfaces)
}

#[test]
fn a_group_without_a_free_interface_is_reported_and_the_others_are_served() {
    let (spec, interfaces) = spec(&[(1, 2..30), (2, 28..40), (3, 10..33), (4, 2..2)]);
    let (d, errors) = desired(&spec, &interfaces, &BTreeMap::new(), &BTreeSet::new());
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].name == "g2" && errors[0].detail.contains("would need 39 multicast interfaces on n1"),
        "{}",
        errors[0].detail
    );
    assert_eq!(d.routes.keys().copied().collect::<Vec<_>>(), [flow(1), flow(3)], "g4 has no child node");
    assert_eq!(d.routes[&flow(3)], Route { input: 101, outputs: (110..133).collect() });
    // Kept groups: their numbers were refused elsewhere, so they stay unchanged.
    let recorded = BTreeMap::from([(flow(1).1, 1), (flow(9).1, 9)]);
    let (d, _) = desired(&spec, &interfaces, &recorded, &BTreeSet::from([1, 9]));
    assert_eq!(d.kept, BTreeSet::from([flow(1).1, flow(9).1]));
    assert!(d.ours.contains(&flow(9).1) && !d.routes.contains_key(&flow(1)));
}

#[test]
fn an_interface_whose_index_does_not_fit_into_mif6ctl_is_refused() {
    let (spec, mut interfaces) = spec(&[(1, 2..3)]);
    for (index, fits) in [(65_534, true), (65_535, true), (65_536, false), (u32::MAX, false)] {
        interfaces.insert("eth2".into(), Interface::alone(index, 9000));
        let (d, errors) = desired(&spec, &interfaces, &BTreeMap::new(), &BTreeSet::new());
        assert_eq!((d.routes.len(), errors.len()), if fits { (1, 0) } else { (0, 1) }, "{index}");
        assert!(errors.iter().all(|e| e.detail.contains(&format!("interface index {index} on n1"))), "{errors:?}");
    }
}
