// SPDX-License-Identifier: Apache-2.0
//! Restarts of agents through a whole controller, in simulated time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_actor::{Controller, Running, start};
use canopy_controller_core::Command;
use canopy_controller_core::condition::{ConditionKind, ConditionReason};
use canopy_controller_core::metadata::Labels;
use canopy_model::status::{BACK_WITHIN, ItemError, ItemKind, NodeStatus};
use canopy_store::MemStore;
use serde_json::json;

fn topology() -> Command {
    let spec = json!({
        "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
        "hosts": [],
        "links": [{"a": "n1/eth1", "b": "n2/eth1"}],
    });
    Command::PutTopology { labels: Labels::new(), spec: serde_json::from_value(spec).unwrap(), if_match: None }
}

fn status(node: &str) -> NodeStatus {
    NodeStatus { node: node.into(), ..NodeStatus::default() }
}

/// n2 does not answer over the link to n1.
fn silence() -> NodeStatus {
    let error = ItemError { kind: ItemKind::Silence, name: "eth1".into(), group: None, detail: "it is silent".into() };
    NodeStatus { errors: vec![error], ..status("n1") }
}

/// Why the agent of n2 is connected or not, and which ports of n1 trees avoid.
fn seen(controller: &Controller) -> (ConditionReason, BTreeSet<String>) {
    let node = controller.read(|d| d.node("n2")).unwrap();
    let connected = node.status.conditions.into_iter().find(|c| c.kind == ConditionKind::Connected).unwrap();
    (connected.reason, controller.read(|d| d.dead_ports("n1", controller.now())).unwrap().avoided)
}

#[tokio::test(start_paused = true)]
async fn the_silence_of_a_node_counts_once_its_agent_stays_away_or_is_back() {
    let (none, eth1) = (BTreeSet::new(), BTreeSet::from(["eth1".to_owned()]));
    for (announced, seconds) in [(Some(BACK_WITHIN), 60), (None, 10)] {
        for is_back in [false, true] {
            let Running { controller, .. } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
            controller.execute(topology(), None, false).await.unwrap();
            let specs = ["n1", "n2"].map(|node| controller.watch_node(node).unwrap());
            let [_n1, n2] = ["n1", "n2"].map(|node| controller.agent_connected(node));
            controller.report(NodeStatus { back_within: announced, ..status("n2") }).unwrap();
            drop(n2);
            controller.report(silence()).unwrap();
            tokio::time::sleep(Duration::from_secs(9)).await;
            assert_eq!(seen(&controller), (ConditionReason::Restarting, none.clone()), "{announced:?}");
            if is_back {
                let _n2 = controller.agent_connected("n2");
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert_eq!(seen(&controller), (ConditionReason::AgentConnected, eth1.clone()), "{announced:?}");
            } else {
                if announced.is_some() {
                    // After 10 s silence counts; the agent is waited for all the same.
                    tokio::time::sleep(Duration::from_secs(seconds - 10)).await;
                    assert_eq!(seen(&controller), (ConditionReason::Restarting, eth1.clone()), "{announced:?}");
                }
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert_eq!(seen(&controller), (ConditionReason::AgentNotConnected, eth1.clone()), "{announced:?}");
            }
            drop(specs);
        }
    }
}

/// Two nodes with a host each, and a group from one to the other.
async fn with_group(controller: &Controller) {
    let spec = json!({
        "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
        "hosts": [
            {"name": "h1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"},
            {"name": "h2", "prefix": "2001:db8:2::/64", "address": "2001:db8:2::1"},
        ],
        "links": [
            {"a": "n1/eth1", "b": "n2/eth1"}, {"a": "n1/eth2", "b": "h1/eth0"}, {"a": "n2/eth2", "b": "h2/eth0"},
        ],
    });
    let topology =
        Command::PutTopology { labels: Labels::new(), spec: serde_json::from_value(spec).unwrap(), if_match: None };
    let group = Command::PutGroup {
        tenant: None,
        name: "g".into(),
        labels: Labels::new(),
        spec: Default::default(),
        if_match: None,
        create_only: true,
    };
    let join = |host: &str, role: &str| Command::PutMember {
        group: "g".into(),
        spec: serde_json::from_value(json!({"host": host, "role": role, "qpn": 17})).unwrap(),
        create_only: true,
        instance: None,
        lease: None,
    };
    for command in [topology, group, join("h1", "source"), join("h2", "receiver")] {
        controller.execute(command, None, false).await.unwrap();
    }
}

/// Catches an agent that comes or goes without the groups of its node being assessed, one that has them assessed at once and alone, and
/// assessments that never end.
#[tokio::test(start_paused = true)]
async fn groups_are_assessed_when_agents_come_and_go() {
    let Running { controller, .. } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    with_group(&controller).await;
    let _specs = ["n1", "n2"].map(|node| controller.watch_node(node).unwrap());
    let (mut early, mut changed) = (controller.follow_groups(), controller.follow_groups());
    let mut assessed = async || {
        let mut assessed = 0;
        while tokio::time::timeout(Duration::from_secs(1), changed.changed()).await.is_ok_and(|names| names == ["g"]) {
            assessed += 1;
        }
        assessed
    };
    let mut is_early = async || tokio::time::timeout(Duration::from_millis(10), early.changed()).await.is_ok();
    let n1 = controller.agent_connected("n1");
    assert!(!is_early().await, "for the first agent alone");
    let n2 = controller.agent_connected("n2");
    assert_eq!(assessed().await, 1, "both agents came");
    drop(n1);
    drop(n2);
    assert_eq!(assessed().await, 1, "both agents went");
}
