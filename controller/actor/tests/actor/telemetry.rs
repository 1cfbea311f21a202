// SPDX-License-Identifier: Apache-2.0
//! Counters of groups at nodes: those of a group that left a node are gone.

use canopy_controller_actor::telemetry::NodeTelemetry;
use canopy_controller_actor::{Controller, start};
use canopy_controller_core::Command;
use canopy_controller_core::metadata::Labels;
use canopy_model::group::GroupSpec;
use canopy_model::ids::GroupId;
use canopy_model::topology::TopologySpec;
use canopy_store::MemStore;
use canopy_units::{Octets, UnixTime, UnwrappedPsn};
use serde_json::json;

async fn run(controller: &Controller, command: Command) {
    controller.execute(command, None, false).await.unwrap();
}

fn join(host: &str, role: &str, qpn: u32) -> Command {
    let spec = serde_json::from_value(json!({"host": host, "role": role, "qpn": qpn})).unwrap();
    Command::PutMember { group: "g".into(), spec, create_only: true, instance: None, lease: None }
}

/// What a node has that counted packets of a group.
fn sample(group_id: GroupId) -> NodeTelemetry {
    let group = canopy_model::telemetry::GroupTelemetry {
        group_id,
        epoch: 1,
        high: UnwrappedPsn::ZERO,
        min_next: None,
        acks_in: 0,
        acks_out: 0,
        naks_in: 0,
        naks_out: 0,
        cnps_in: 0,
        cnps_out: 0,
        data_packets: 1,
        fresh_packets: None,
        data_octets: Octets(1),
        branches: vec![],
        drops: vec![],
    };
    NodeTelemetry { time: UnixTime::from_nanos(1), groups: [(group_id, group)].into(), drops: vec![] }
}

/// Catches counters that stay for ever: where an agent watches, where none does, and where one begins to.
#[tokio::test]
async fn counters_of_a_group_that_left_a_node_are_gone() {
    for watches in [true, false] {
        let running = start(std::sync::Arc::new(MemStore::new()), Default::default()).await.unwrap();
        let controller = &running.controller;
        let spec: TopologySpec = serde_json::from_value(json!({
            "nodes": [{"name": "n1", "id": 1}],
            "hosts": [
                {"name": "s1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"},
                {"name": "r1", "prefix": "2001:db8:2::/64", "address": "2001:db8:2::1"},
            ],
            "links": [{"a": "n1/eth1", "b": "s1/eth0"}, {"a": "n1/eth2", "b": "r1/eth0"}],
        }))
        .unwrap();
        run(controller, Command::PutTopology { labels: Labels::new(), spec: spec.into(), if_match: None }).await;
        let (name, labels, spec) = ("g".to_owned(), Labels::new(), GroupSpec::default());
        run(controller, Command::PutGroup { tenant: None, name, labels, spec, if_match: None, create_only: false })
            .await;
        run(controller, join("s1", "source", 17)).await;
        run(controller, join("r1", "receiver", 18)).await;
        let id = *controller.read(|d| d.node_spec("n1")).unwrap().groups.keys().next().unwrap();
        let watch = watches.then(|| controller.watch_node("n1").unwrap());
        let counted = || controller.telemetry().node("n1").unwrap().groups.len();
        controller.telemetry().record("n1", sample(id), |_| true);
        assert_eq!(counted(), 1);
        run(controller, Command::DeleteMember { group: "g".into(), host: "r1".into() }).await;
        assert!(controller.read(|d| d.node_spec("n1")).unwrap().groups.is_empty());
        assert_eq!(counted(), 0, "{watches}");
        drop(watch);
        if !watches {
            // A sample that was under way while the group left.
            controller.telemetry().record("n1", sample(id), |_| true);
            drop(controller.watch_node("n1"));
            assert_eq!(counted(), 0);
        }
        running.controller.stop().await;
    }
}
