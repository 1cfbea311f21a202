// SPDX-License-Identifier: Apache-2.0
//! The map and its layers.

use canopy_model::congestion::{PortCongestion, QueueTelemetry};
use canopy_model::drain::DrainSpec;
use canopy_model::ids::PortIndex;
use canopy_model::telemetry::LinkLoss;
use canopy_units::UnixTime;

use super::*;
use crate::map::{Layer, NOT_MEASURED};
use crate::problem::ProblemCode;
use crate::states::{Trouble, Troubles};
use crate::testing::fabric;

const S: u64 = 1_000_000_000;

/// Two leaves with a host each, below one spine: links leaf1-spine1, leaf2-spine1, leaf1-h1-1, leaf2-h2-1 of 1 Mb/s.
fn world() -> World {
    let mut spec = fabric(2, 1, 1);
    spec.links.iter_mut().for_each(|link| link.rate = Rate::from_bps(1_000_000));
    spec.nodes[2].site = Some("ams".into());
    World::with(spec)
}

fn layer(w: &World, layer: Layer, now_s: u64) -> Vec<u8> {
    w.domain.map_layer(layer, &Troubles::new(), instant(now_s * S)).unwrap().values
}

#[test]
fn a_map_has_every_device_and_link_at_its_place() {
    assert_eq!(World::empty().domain.map(), None);
    assert_eq!(World::empty().domain.map_layer(Layer::State, &Troubles::new(), instant(0)), None);
    let mut w = world();
    let map = w.domain.map().unwrap();
    let nodes: Vec<_> = map.nodes.iter().map(|n| (n.name.as_str(), n.tier, n.site.as_deref())).collect();
    assert_eq!(nodes, [("leaf1", 1, None), ("leaf2", 1, None), ("spine1", 2, Some("ams"))]);
    let hosts: Vec<_> = map.hosts.iter().map(|h| (h.name.as_str(), h.node)).collect();
    assert_eq!(hosts, [("h1-1", 0), ("h2-1", 1)]);
    let links: Vec<_> = map.links.iter().map(|l| (l.a, l.a_port.as_str(), l.b, l.b_port.as_str())).collect();
    let expected = [(0, "up1", 2, "down1"), (1, "up1", 2, "down2"), (0, "host1", 3, "eth0"), (1, "host1", 4, "eth0")];
    assert_eq!(links, expected);
    // Another topology is another version; a drain is none.
    let of = |w: &World| w.domain.map().unwrap().version.to_string();
    let before = of(&w);
    w.run(drain("leaf1/up1")).unwrap();
    assert_eq!(of(&w), before);
    let mut spec = fabric(2, 1, 1);
    spec.nodes[0].tier = Some(3);
    w.run(topology(spec)).unwrap();
    assert_ne!(of(&w), before);
    assert_eq!(w.domain.map().unwrap().nodes[0].tier, 3);
}

fn drain(link: &str) -> Command {
    let link = Some(link.to_owned());
    let spec = DrainSpec { link, node: None, reason: "optics".into(), accept_loss: false, until: None };
    Command::PutDrain { name: "d".into(), labels: Labels::new(), spec, if_match: None, create_only: true }
}

/// Catches a link that is in service before its nodes have reported, a problem of one direction at both, and one that hides another.
#[test]
fn the_state_of_a_direction_is_the_worst_that_is_known_of_it() {
    let mut w = world();
    assert_eq!(layer(&w, Layer::State, 1), [1; 8]);
    w.confirm_all();
    assert_eq!(layer(&w, Layer::State, 1), [0; 8]);
    let (warning, critical, info) =
        (ProblemCode::LinkLossy, ProblemCode::NeighbourUnresolved, ProblemCode::ThresholdClamped);
    let problems: Troubles = [("leaf1/up1--spine1/down1", warning), ("spine1/down2", critical), ("spine1/down1", info)]
        .map(|(name, code)| (name.into(), Trouble { code, severity: code.info().severity }))
        .into();
    let state = w.domain.map_layer(Layer::State, &problems, instant(S)).unwrap().values;
    assert_eq!(state, [2, 2, 0, 3, 0, 0, 0, 0]);
    w.run(drain("leaf2/up1")).unwrap();
    let state = w.domain.map_layer(Layer::State, &problems, instant(S)).unwrap().values;
    assert_eq!(state, [2, 2, 1, 3, 0, 0, 0, 0]);
    // Nothing is known of links whose agent is away, and all is as it was while it restarts.
    w.domain.agent_gone("leaf1", instant(2 * S));
    assert_eq!(layer(&w, Layer::State, 2), [0, 0, 1, 1, 0, 0, 0, 0]);
    w.domain.expire_restarts(instant(60 * S));
    assert_eq!(layer(&w, Layer::State, 60), [1, 1, 1, 1, 1, 1, 0, 0]);
}

/// Catches a node that is in sync with errors, without a connection, or with what it had before.
#[test]
fn a_node_is_in_sync_when_it_has_what_it_was_given() {
    let mut w = world();
    assert_eq!(layer(&w, Layer::Nodes, 1), [3; 3]);
    w.domain.agent_connected("leaf1");
    assert_eq!(layer(&w, Layer::Nodes, 1), [1, 3, 3]);
    w.confirm();
    assert_eq!(layer(&w, Layer::Nodes, 1), [0; 3]);
    let generation = w.domain.node("leaf2").unwrap().spec.generation;
    let error = ItemError { kind: ItemKind::Route, name: "r".into(), group: None, detail: "no".into() };
    let with_errors = reported("leaf2", generation, vec![error]);
    w.domain.report(NodeStatus { observed_term: w.domain.term(), ..with_errors }).unwrap();
    let behind = reported("spine1", generation - 1, vec![]);
    w.domain.report(NodeStatus { observed_term: w.domain.term(), ..behind }).unwrap();
    w.domain.agent_gone("leaf1", instant(2 * S));
    assert_eq!(layer(&w, Layer::Nodes, 2), [1, 2, 1], "leaf1 restarts");
    w.domain.expire_restarts(instant(60 * S));
    assert_eq!(layer(&w, Layer::Nodes, 60), [3, 2, 1]);
}

/// Catches what was measured at another port, long ago, or not at all.
#[test]
fn loads_losses_and_queues_are_at_the_port_that_was_measured() {
    let mut w = world();
    w.confirm_all();
    for kind in [Layer::Load, Layer::Loss, Layer::Queue] {
        assert_eq!(layer(&w, kind, 1), [NOT_MEASURED; 8], "{kind:?}");
    }
    w.run(Command::PushThresholds).unwrap();
    let port = |n| PortIndex::new("port", n).unwrap();
    for second in 1..3 {
        let queue = QueueTelemetry { octets: Octets(second * 50_000), ..QueueTelemetry::default() };
        let reports = vec![PortCongestion { port: port(1), queue, flows: vec![] }];
        w.domain.queues("leaf1", reports, UnixTime::from_nanos(second * S), instant(second * S));
    }
    assert_eq!(layer(&w, Layer::Load, 2), [40, 255, 255, 255, 255, 255, 255, 255], "0.4 of 1 Mb/s");
    assert_eq!(layer(&w, Layer::Load, 63), [NOT_MEASURED; 8], "a minute ago");
    let loss = LinkLoss { port: port(1), requests: 100, lost: 0, queue_drops: 0 };
    w.domain.link_losses("leaf2", &[loss], instant(2 * S));
    assert_eq!(layer(&w, Layer::Loss, 2), [255, 255, 0, 255, 255, 255, 255, 255]);
}
