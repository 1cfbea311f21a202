// SPDX-License-Identifier: Apache-2.0
//! What is derived from the groups change by change is what is derived from all of them at once.

use canopy_agent_core::hops::Hops;
use canopy_model::ids::{GroupId, PortIndex};
use canopy_model::programs::Programs;
use proptest::prelude::*;

use crate::egress::GroupFlows;
use crate::egress::config::KnownFlows;
use crate::testbed::*;

/// One version of a group of some: absent, or with so many receivers, on a port, with an epoch.
type Version = Option<(u32, u64, u32)>;

fn programs(versions: &[Version], from: &Programs) -> Programs {
    let mut all = from.clone();
    for (i, version) in versions.iter().enumerate() {
        let id = GroupId::new("id", 1 + i as u64).unwrap();
        let Some((receivers, port, epoch)) = *version else {
            all.remove(&id);
            continue;
        };
        let mut program =
            spec(&Shape { receivers, children: 1, ..Shape::default() }).groups.pop_first().unwrap().as_ref().clone();
        (program.group_id, program.epoch) = (id, epoch);
        program.proxy = std::net::Ipv6Addr::from(u128::from(program.proxy) + i as u128);
        program.branches.iter_mut().for_each(|b| b.port = PortIndex::new("p", port).unwrap());
        if all.get(&id) != Some(&program) {
            all.insert(id, program);
        }
    }
    all
}

fn flows_of(programs: &Programs) -> KnownFlows {
    GroupFlows::default().follow(programs)
}

fn version() -> impl Strategy<Value = Version> {
    proptest::option::of((0u32..4, 1u64..4, 1u32..3))
}

proptest! {
    #[test]
    fn following_changes_ends_where_a_fresh_start_does(steps in proptest::collection::vec(proptest::collection::vec(version(), 4), 1..8)) {
        let (mut now, mut hops, mut flows) = (Programs::default(), Hops::default(), GroupFlows::default());
        for step in steps {
            let next = programs(&step, &now);
            // With a common origin and without one, the same groups differ.
            let apart: Programs = next.iter().map(|(id, p)| (*id, p.clone())).collect();
            let differ: Vec<_> = next.changed_since(&now).map(|(id, p)| (id, p.cloned())).collect();
            prop_assert_eq!(&differ, &apart.changed_since(&now).map(|(id, p)| (id, p.cloned())).collect::<Vec<_>>());
            for (id, program) in &differ {
                prop_assert!(now.get(id) != program.as_ref() && next.get(id) == program.as_ref());
            }
            let same = now.keys().chain(next.keys()).filter(|id| differ.iter().all(|(of, _)| of != *id));
            for id in same {
                prop_assert_eq!(now.get(id), next.get(id));
            }
            now = next;
            hops.follow(&now);
            let mut fresh = Hops::default();
            fresh.follow(&apart);
            prop_assert!(hops.routes().eq(fresh.routes()) && hops.neighbours().eq(fresh.neighbours()), "{hops:?} {fresh:?}");
            prop_assert_eq!(flows.follow(&now), flows_of(&apart));
        }
    }
}
