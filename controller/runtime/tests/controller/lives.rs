// SPDX-License-Identifier: Apache-2.0
//! Agents that saw another life of the controller's store, or broke off: terms, digests and pages decide, never bare numbers.

use canopy_control::HeldSpec;
use canopy_control::pb::watch_response::Update;
use canopy_control::pb::{ReportRequest, SnapshotPosition, WatchRequest};
use canopy_model::node_spec::NodeSpec;
use tonic::Code;

use crate::support::{Agent, Controller, DEADLINE, LAB};

async fn synced(controller: &Controller, node: &str) -> String {
    let node = controller.get(&["nodes", node]).await;
    let conditions = node["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|c| c["type"] == "Synced").unwrap()["reason"].as_str().unwrap().to_owned()
}

/// An older store was put back: its agents have accepted a higher term and generation, and follow all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_older_than_what_agents_saw_takes_a_higher_term_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let mut agent = Agent::connect(&controller, "n2", None).await.unwrap();
    agent.next().await.unwrap();
    let held = agent.held.take().unwrap();
    drop(agent);
    // What the agent saw in the life that the store does not know: the same content, and another one.
    let ahead = NodeSpec { term: held.spec().term + 1_000, generation: 999_999, ..held.spec().clone() };
    let mut other = NodeSpec { term: ahead.term + 1_000, ..ahead.clone() };
    other.groups.clear();
    // The same term, in which this life has not got as far.
    let same_term = NodeSpec { generation: held.spec().generation + 1, ..held.spec().clone() };
    let mut elder = Agent::connect(&controller, "n1", None).await.unwrap();
    elder.next().await.unwrap();
    for (seen, resent) in [(same_term, false), (ahead, false), (other, true)] {
        let mut agent = Agent::connect(&controller, "n2", Some(HeldSpec::encode(seen.clone()))).await.unwrap();
        let first = agent.next().await.unwrap().unwrap();
        assert!(first.term > seen.term, "term {} after {}", first.term, seen.term);
        assert_eq!(matches!(first.update, Some(Update::Page(_))), resent, "only another content is sent again");
        agent.report().await;
        assert_eq!(synced(&controller, "n2").await, "Reconciled");
        // Agents that were connected before get the new term, and nothing else.
        let followed = elder.next().await.unwrap().unwrap();
        assert_eq!(followed.term, first.term);
        assert!(matches!(followed.update, Some(Update::Delta(d)) if d.upserted_groups.is_empty() && d.base.is_none()));
    }
    let term = elder.held.take().unwrap().spec().term;
    controller.stop().await;
    // The higher term is durable.
    let controller = Controller::start(dir.path()).await;
    let mut agent = Agent::connect(&controller, "n1", None).await.unwrap();
    assert!(agent.next().await.unwrap().unwrap().term > term);
    controller.stop().await;
}

#[tokio::test]
async fn a_term_that_no_store_can_have_had_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let request = WatchRequest { node: "n1".into(), known_term: u64::MAX, ..WatchRequest::default() };
    let refused = controller.nodes().await.watch(request).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().starts_with("known_term: "), "{refused}");
    controller.stop().await;
}

#[tokio::test]
async fn equal_numbers_of_another_life_confirm_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let mut agent = Agent::connect(&controller, "n2", None).await.unwrap();
    agent.next().await.unwrap();
    let held = agent.held.clone().unwrap();
    let report = ReportRequest {
        node: "n2".into(),
        observed_term: held.spec().term,
        observed_generation: held.spec().generation,
        observed_digest: held.digest().into(),
        agent_version: "test".into(),
        kernel: "test".into(),
        ..ReportRequest::default()
    };
    let mut nodes = controller.nodes().await;
    let other_term = ReportRequest { observed_term: held.spec().term - 1, ..report.clone() };
    let other_content = ReportRequest { observed_digest: vec![7; 32], ..report.clone() };
    for foreign in [other_term, other_content] {
        nodes.report(foreign).await.unwrap();
        assert_eq!(synced(&controller, "n2").await, "OtherTerm");
    }
    nodes.report(report).await.unwrap();
    assert_eq!(synced(&controller, "n2").await, "Reconciled");
    controller.stop().await;
}

#[tokio::test]
async fn a_snapshot_that_broke_off_continues_behind_what_the_agent_has() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let mut agent = Agent::connect(&controller, "n2", None).await.unwrap();
    let first = agent.next().await.unwrap().unwrap();
    let items = agent.held.as_ref().unwrap().items().clone();
    let resume = |digest: Vec<u8>| SnapshotPosition { digest, base_octets: items.base().len() as u64, after_group: 0 };
    for (digest, continues) in [(first.digest.clone(), true), (vec![9; 32], false)] {
        let request = WatchRequest { node: "n2".into(), resume: Some(resume(digest)), ..WatchRequest::default() };
        let mut stream = controller.nodes().await.watch(request).await.unwrap().into_inner();
        let Some(Update::Page(page)) = stream.message().await.unwrap().unwrap().update else { panic!() };
        assert_eq!((page.first, page.base.is_empty(), page.groups.len()), (!continues, continues, 1));
    }
    controller.stop().await;
}

/// What a controller has seen of a night is there in the morning, whatever became of that controller; files that are damaged take nothing
/// else with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incidents_outlive_the_controller_that_saw_them() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let incidents = async |controller: &Controller| -> serde_json::Value {
        serde_json::from_str(&controller.ctl(&["get", "incidents", "-o", "json"]).await.unwrap()).unwrap()
    };
    let both = async {
        loop {
            let list = incidents(&controller).await;
            if list["items"].as_array().unwrap().len() == 2 {
                return list;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let listed = tokio::time::timeout(DEADLINE, both).await.expect("no agent connects, and no incident begins");
    controller.stop().await;
    let files = dir.path().join("store/incidents");
    std::fs::write(files.join("1764171000-00c0ffee00c0ffee.json"), "{").unwrap();
    let controller = Controller::start(dir.path()).await;
    let again = incidents(&controller).await;
    for before in listed["items"].as_array().unwrap() {
        let id = before["id"].as_str().unwrap();
        let found = again["items"].as_array().unwrap().iter().find(|i| i["id"] == id);
        assert_eq!(found.unwrap()["evidence"], before["evidence"]);
        let drawn = controller.ctl(&["chart", "--incident", id]).await.unwrap();
        assert!(drawn.starts_with("CRITICAL: node n") && drawn.contains("AgentDisconnected"), "{drawn}");
        assert!(drawn.ends_with("nothing was measured of it around that time\n"), "{drawn}");
    }
    let (code, refused) = controller.ctl(&["chart", "--incident", "1764171000-00c0ffee00c0ffee"]).await.unwrap_err();
    assert!(code != 0 && refused.contains("incident"), "{refused}");
    controller.stop().await;
}
