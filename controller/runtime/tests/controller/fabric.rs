// SPDX-License-Identifier: Apache-2.0
//! What the agent of a host gets to compose path programs from, over restarts of its stream.

use canopy_control::fabric::{Held, Received};
use canopy_control::pb;
use canopy_control::pb::fabric_service_client::FabricServiceClient;
use tonic::{Code, Status, Streaming};

use crate::support::{Agent, Controller, DEADLINE, LAB};

/// With a link from n2 to n3, and s1 permitted to send programs.
fn lab() -> String {
    LAB.replace("{name: n2, id: 2}", "{name: n2, id: 2}, {name: n3, id: 3}")
        .replace("  links:\n", "  links:\n    - {a: n2/eth9, b: n3/eth1}\n")
        .replace("\"2001:db8:1::1\"", "\"2001:db8:1::1\", pathPrograms: true")
}

/// The stream of one host with what came of it.
struct Host {
    stream: Streaming<pb::WatchFabricResponse>,
    received: Received,
}

impl Host {
    async fn watch(controller: &Controller, host: &str, mut received: Received) -> Result<Self, Status> {
        let request = pb::WatchFabricRequest { host: host.into(), digest: received.digest() };
        let stream = FabricServiceClient::new(controller.channel().await).watch_fabric(request).await?.into_inner();
        Ok(Self { stream, received })
    }

    /// The next change: the numbers of the nodes that travelled, and what is in force then.
    async fn next(&mut self) -> Result<(Vec<u32>, Held), Status> {
        let mut nodes = Vec::new();
        loop {
            let page = tokio::time::timeout(DEADLINE, self.stream.message()).await.expect("no page comes")?;
            let page = page.expect("the stream has ended without a status");
            nodes.extend(page.nodes.iter().map(|item| item.node));
            if let Some(held) = self.received.apply(page).unwrap() {
                return Ok((nodes, held));
            }
        }
    }
}

fn unusable(held: &Held) -> Vec<(u16, u16)> {
    held.sender.unusable.iter().map(|(node, port)| (node.get(), port.get())).collect()
}

/// Catches nodes that travel although nothing of them changed, a change that a host never gets, and a stream that is woken for others.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_gets_the_fabric_once_and_then_what_changes() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    let unknown = Host::watch(&controller, "s1", Received::default()).await.err().unwrap();
    assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
    controller.apply(&lab()).await.unwrap();

    let mut s1 = Host::watch(&controller, "s1", Received::default()).await.unwrap();
    let (nodes, first) = s1.next().await.unwrap();
    assert_eq!(nodes, [1, 2, 3]);
    let names: Vec<&str> = first.fabric.nodes.values().map(|node| node.name.as_str()).collect();
    assert_eq!((names, unusable(&first)), (vec!["n1", "n2", "n3"], vec![]));
    let sender = &first.sender;
    assert_eq!((sender.permitted, sender.reason.as_str(), sender.edge.get()), (true, "", 1));
    assert_eq!(sender.address.to_string(), "2001:db8:1::1");
    let mut r1 = Host::watch(&controller, "r1", Received::default()).await.unwrap();
    assert!(!r1.next().await.unwrap().1.sender.permitted);

    // A group, which is no part of it, and then a drained link: the next that comes is of the link, without a node.
    controller.apply("apiVersion: canopy/v1\nkind: Group\nmetadata: {name: g2}\nspec: {}\n").await.unwrap();
    let drained = lab().replace("b: n2/eth1}", "b: n2/eth1, drained: true}");
    controller.apply(&drained).await.unwrap();
    for host in [&mut s1, &mut r1] {
        let (nodes, held) = host.next().await.unwrap();
        assert_eq!((nodes, unusable(&held).len()), (vec![], 1));
        assert_eq!(held.items.digest(), first.items.digest());
    }
    // Another MTU of a link: the node that has it.
    controller.apply(&drained.replace("b: n3/eth1}", "b: n3/eth1, mtu: 4000}")).await.unwrap();
    for host in [&mut s1, &mut r1] {
        assert_eq!(host.next().await.unwrap().0, [2]);
    }
    // Who has it all gets no node, who has something else all of them.
    let held = s1.received.held().cloned().unwrap();
    let again = Received::restore(held.to_octets()).unwrap();
    let mut again = Host::watch(&controller, "s1", again).await.unwrap();
    assert_eq!(again.next().await.unwrap(), (vec![], held));
    let mut outdated = Host::watch(&controller, "s1", Received::restore(first.to_octets()).unwrap()).await.unwrap();
    assert_eq!(outdated.next().await.unwrap().0, [1, 2, 3]);

    // Other permissions.
    controller.apply(&lab().replace(", pathPrograms: true", "")).await.unwrap();
    let withdrawn = loop {
        let (_, held) = s1.next().await.unwrap();
        if !held.sender.permitted {
            break held;
        }
    };
    assert!(withdrawn.sender.reason.contains("pathPrograms"), "{}", withdrawn.sender.reason);
    controller.stop().await;
}

/// Catches the contract of an agent that is reported and reaches no host, and a host that is gone and still watched.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_an_early_contract_is_a_reason_and_a_host_that_is_gone_ends_the_stream() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(&lab()).await.unwrap();
    let mut s1 = Host::watch(&controller, "s1", Received::default()).await.unwrap();
    assert_eq!(s1.next().await.unwrap().1.sender.reason, "");
    let report = |minor_version| pb::ReportRequest { node: "n1".into(), minor_version, ..Default::default() };
    let _agent = Agent::connect(&controller, "n1", None).await.unwrap();
    controller.nodes().await.report(report(9)).await.unwrap();
    let (nodes, held) = s1.next().await.unwrap();
    assert!(nodes.is_empty() && held.sender.reason.contains("edge n1 has contract 1.9"), "{}", held.sender.reason);
    controller.nodes().await.report(report(10)).await.unwrap();
    assert_eq!(s1.next().await.unwrap().1.sender.reason, "");

    let s1_line = "    - {name: s1, prefix: \"2001:db8:1::/64\", address: \"2001:db8:1::1\", pathPrograms: true}\n";
    let members = lab().split("kind: Topology").next().unwrap().len();
    let without = lab()[members - "apiVersion: canopy/v1\n".len()..]
        .replace(s1_line, "")
        .replace("    - {a: n1/eth2, b: s1/eth0}\n", "");
    controller
        .membership()
        .await
        .leave(pb::LeaveRequest { group: "g1".into(), host: "s1".into(), ..Default::default() })
        .await
        .unwrap();
    controller.apply(&without).await.unwrap();
    let ended = loop {
        match s1.next().await {
            Ok(_) => {}
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended.code(), Code::NotFound, "{ended}");
    controller.stop().await;
}
