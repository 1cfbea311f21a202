// SPDX-License-Identifier: Apache-2.0
//! A topology that is built apart from the domain.

use super::*;
use crate::domain::BuiltTopology;
use crate::principal::Written;
use crate::testing::fabric;

/// Catches one that was built before a change and is put into force after it.
#[test]
fn a_topology_that_was_built_before_a_change_is_built_again() {
    let mut w = World::with(fabric(3, 2, 1));
    assert!(w.domain.draft_topology(&Arc::new(fabric(3, 2, 1))).is_none(), "it is the one that is declared");
    let mut spec = fabric(3, 2, 1);
    spec.links[0].mtu = 1500;
    let spec = Arc::new(spec);
    let build = |w: &World| w.domain.draft_topology(&spec).unwrap().build();
    let stale = build(&w);
    w.run(Command::PortsDown { node: "leaf2".into(), ports: ["up1".to_owned()].into() }).unwrap();
    let fresh = build(&w);
    let bases = |built: Option<BuiltTopology>| {
        let mut domain = w.domain.clone();
        let prepared = domain.prepare_built(topology(Arc::clone(&spec)), &Written::default(), built).unwrap();
        domain.apply(prepared, instant(0)).unwrap();
        let names = domain.node_names();
        names.iter().map(|name| (*domain.node_spec(name).unwrap().base).clone()).collect::<Vec<_>>()
    };
    let expected = bases(None);
    assert_ne!(stale.network.as_ref().unwrap().1, expected, "the change concerns it");
    assert_eq!(bases(Some(stale)), expected);
    assert_eq!(bases(Some(fresh)), expected);
}
