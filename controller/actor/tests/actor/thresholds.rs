// SPDX-License-Identifier: Apache-2.0
//! Measured round-trip times through a whole controller, in simulated time: what is stored, pushed and noted as an event.

use std::sync::Arc;
use std::time::Duration;

use canopy_controller_actor::events::{Code, Event};
use canopy_controller_actor::{AgentConnection, Controller, Running, start};
use canopy_controller_core::Command;
use canopy_controller_core::metadata::Labels;
use canopy_model::ids::PortIndex;
use canopy_model::telemetry::LinkRtt;
use canopy_store::{MemStore, Store};
use serde_json::json;

const NODES: [&str; 2] = ["n1", "n2"];

fn topology() -> Command {
    let spec = json!({
        "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
        "hosts": [{"name": "h1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"}],
        "links": [
            {"a": "n1/eth1", "b": "n2/eth1", "rateBps": 100_000_000_000_u64},
            {"a": "n1/eth2", "b": "h1/eth0", "rateBps": 100_000_000_000_u64},
        ],
    });
    Command::PutTopology { labels: Labels::new(), spec: serde_json::from_value(spec).unwrap(), if_match: None }
}

/// Both ends report, and what follows is committed; `above` is the delay of the test packets over that of the path.
async fn second(controller: &Controller, above_ns: u64) {
    tokio::time::advance(Duration::from_secs(1)).await;
    for node in NODES {
        controller.telemetry_received(node, canopy_units::UnixTime::now(), std::iter::empty());
        let rtt = Some(Duration::from_nanos(40_000 + above_ns));
        controller.link_rtts(node, &[LinkRtt { port: PortIndex::new("port", 1).unwrap(), rtt, samples: 1, lost: 0 }]);
    }
    settled(controller).await;
}

/// Waits until no threshold is to be pushed.
async fn settled(controller: &Controller) {
    while controller.read(|d| d.thresholds_are_due()) {
        tokio::task::yield_now().await;
    }
    // The queue is empty: the commit has been applied and published.
    controller.execute(Command::PushThresholds, None, true).await.unwrap();
}

/// The agents of both nodes connect.
fn connected(controller: &Controller) -> Vec<AgentConnection> {
    let connect = |node| {
        assert!(controller.watch_node(node).is_some());
        controller.agent_connected(node)
    };
    NODES.map(connect).into()
}

/// All but those about connections.
fn events(controller: &Controller) -> Vec<Event> {
    controller.events().newest(usize::MAX, |e| e.code != Code::AgentConnected)
}

fn specs(controller: &Controller) -> Vec<String> {
    ["n1", "n2"].map(|node| format!("{:?}", controller.read(|d| d.node_spec(node)).unwrap().base.ports)).into()
}

#[tokio::test(start_paused = true)]
async fn an_idle_domain_has_no_commit_and_no_event_for_an_hour_and_none_after_a_restart() {
    let store = Arc::new(MemStore::new());
    let Running { controller, task } = start(store.clone(), Default::default()).await.unwrap();
    controller.execute(topology(), None, false).await.unwrap();
    let agents = connected(&controller);
    // The delay of the first packets is that of a program that starts; later ones vary by more than 5 % too.
    for above in [3_000_000, 900_000, 60_000, 1_000, 500, 0] {
        for _ in 0..10 {
            second(&controller, above).await;
        }
    }
    let state = |controller: &Controller| {
        (store.scan("").unwrap().revision, controller.read(|d| d.revision()), specs(controller))
    };
    let before = state(&controller);
    for n in 0..3_600_u64 {
        second(&controller, n * 7_919 % 997 * 60).await;
    }
    assert_eq!(state(&controller), before);
    assert_eq!(events(&controller), []);
    drop(agents);
    controller.stop().await;
    task.await.unwrap().unwrap();

    let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
    let _agents = connected(&controller);
    settled(&controller).await;
    assert_eq!((controller.read(|d| d.revision()), specs(&controller)), (before.1, before.2), "as before the restart");
    let restarted = state(&controller);
    for n in 0..3_600_u64 {
        second(&controller, n * 6_007 % 997 * 60).await;
    }
    assert_eq!(state(&controller), restarted);
    assert_eq!(events(&controller), []);
}
