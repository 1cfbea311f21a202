// SPDX-License-Identifier: Apache-2.0
//! From `canopyctl apply` to Ready and back, with the real controller, store and sockets; only the agents are
//! simulated.

use canopy_control::HeldSpec;
use canopy_control::pb::watch_response::Update;
use canopy_control::pb::{BranchTelemetry, DropCount, Event, EventCode, GroupTelemetry, StreamTelemetryRequest};
use tonic::Code;

use crate::support::{Agent, Controller, LAB};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_becomes_ready_and_is_described() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    let applied = controller.apply(LAB).await.unwrap();
    assert_eq!(applied, "topology/default created\ngroup/g1 created\nmember/g1/r1 created\nmember/g1/s1 created\n");
    assert!(controller.apply(LAB).await.unwrap().lines().all(|l| l.ends_with(" unchanged")));
    let (code, late) = controller.ctl(&["wait", "group", "g1", "--timeout", "1ms"]).await.unwrap_err();
    assert!(code == 5 && late.contains("Programming") && late.contains("n1"), "{late}");

    let agents = [
        Agent::connect(&controller, "n1", None).await.unwrap().apply_all(),
        Agent::connect(&controller, "n2", None).await.unwrap().apply_all(),
    ];
    controller.ctl(&["wait", "group", "g1", "--for", "ready", "--timeout", "30s"]).await.unwrap();
    let listed = async |args: &[&str]| controller.ctl(&[&["get"], args, &["-o", "name"]].concat()).await;
    for (args, names) in [
        (&["groups", "--phase", "ready", "-l", "!team"][..], "group/g1\n"),
        (&["groups", "--phase", "Stalled"], ""),
        (&["groups", "--field-selector", "source=s1,phase!=Pending"], "group/g1\n"),
        (&["nodes", "--field-selector", "synced=true,name!=n1"], "node/n2\n"),
        (&["hosts", "--field-selector", "node=n1"], "host/s1\n"),
    ] {
        assert_eq!(listed(args).await.as_deref(), Ok(names), "{args:?}");
    }
    for (args, exit, why) in [
        (&["groups", "-l", "a in b"][..], 1, "character 6"),
        (&["groups", "--phase", "fine"], 2, "Pending, Programming, Ready"),
        (&["links", "-l", "a"], 2, "have no labels"),
        (&["group", "g1", "--phase", "Ready"], 2, "leave NAME out"),
    ] {
        let (code, error) = listed(args).await.unwrap_err();
        assert!(code == exit && error.contains(why), "{args:?}: {code} {error}");
    }
    let text = controller.ctl(&["get", "controllers"]).await.unwrap();
    assert!(text.starts_with("NAME        VERSION") && text.contains(" sled ") && text.contains(" ms "), "{text}");
    let shown = controller.get(&["controllers"]).await;
    let store = &shown["items"][0]["status"]["store"];
    assert!(store["octets"].as_u64().unwrap() > 1000 && store["measuredCommits"].as_u64().unwrap() > 3, "{shown}");
    assert!(store["commitP50Ns"].as_u64().unwrap() <= store["commitP99Ns"].as_u64().unwrap(), "{shown}");
    let explained = controller.ctl(&["explain", "group.spec.pathMtu"]).await.unwrap();
    assert!(explained.contains("values:   256, 512, 1024, 2048, 4096\ndefault:  4096"), "{explained}");
    for kind in [
        "topology",
        "controllers",
        "drains",
        "node",
        "link",
        "host",
        "flow",
        "member",
        "event",
        "problem",
        "incident",
        "commit",
        "audit",
    ] {
        let text = controller.ctl(&["explain", kind]).await.unwrap();
        assert!(text.lines().count() > 6 && text.contains("\nFIELD"), "{text}");
    }
    let (code, unknown) = controller.ctl(&["explain", "group.spec.mtu"]).await.unwrap_err();
    assert!(code == 3 && unknown.contains("pathMtu"), "{unknown}");
    // A change is a new generation that every node has to apply again.
    let join =
        "{apiVersion: canopy/v1, kind: Member, metadata: {group: g1}, spec: {host: r2, role: receiver, qpn: 19}}";
    controller.apply(&format!("---\n{join}")).await.unwrap();
    controller.ctl(&["wait", "group", "g1", "--timeout", "30s"]).await.unwrap();
    assert_eq!(controller.get(&["groups", "g1"]).await["status"]["receivers"], 2);

    send_telemetry(&controller).await;
    let text = controller.ctl(&["describe", "group", "g1"]).await.unwrap();
    for line in [
        "Phase:              Ready",
        "Proxy Address:",
        "Segment [1]:",
        "End.MT TLVs:      edge n2: 2001:db8:2::1 QPN 17, 2001:db8:3::1 QPN 19",
        "└─ r2 2001:db8:3::1 via eth3, QPN 19",
        "branch_unknown",
        "FatalNak",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let row = text.lines().find(|l| l.contains("1.5 s ago")).unwrap_or_else(|| panic!("no branch in\n{text}"));
    assert_eq!(row.split_whitespace().take(4).collect::<Vec<_>>(), ["n2", "r1", "100", "-"]);
    let node = controller.ctl(&["describe", "node", "n2"]).await.unwrap();
    assert!(node.contains("Connected:          yes") && node.contains("not_ours"), "{node}");

    controller.stop().await;
    for agent in agents {
        let (_, status) = agent.await.unwrap();
        assert_eq!(status.map(|s| s.code()), Some(Code::Unavailable));
    }
}

async fn send_telemetry(controller: &Controller) {
    let group_id = controller.get(&["groups", "g1"]).await["status"]["groupId"].as_u64().unwrap() as u32;
    let branch = BranchTelemetry {
        address: "2001:db8:2::1".parse::<std::net::Ipv6Addr>().unwrap().octets().into(),
        next: Some(101),
        unconfirmed: false,
        ack_psn: Some(100),
        last_feedback_ns: Some(1_500_000_000),
        ..Default::default()
    };
    let drop = |reason, name: &str| DropCount { reason, name: name.into(), packets: 3, port: String::new() };
    let counters = GroupTelemetry {
        group_id,
        epoch: 1,
        branches: vec![branch],
        drops: vec![drop(7, "branch_unknown")],
        ..Default::default()
    };
    // A group that the node has no program for: ignored in a node's telemetry.
    let stranger = GroupTelemetry { group_id: 4_000_000, ..Default::default() };
    let event = Event {
        time_unix_ns: 1,
        code: EventCode::FatalNak.into(),
        group_id,
        branch: vec![],
        detail: "remote access error".into(),
        epoch: None,
        reach: None,
    };
    let sample = StreamTelemetryRequest {
        node: "n2".into(),
        time_unix_ns: 1,
        groups: vec![counters, stranger],
        events: vec![event],
        node_drops: vec![drop(1, "not_ours")],
        ..Default::default()
    };
    let mut nodes = controller.nodes().await;
    nodes.stream_telemetry(tokio_stream::iter([sample])).await.unwrap();
    let unknown = StreamTelemetryRequest { node: "n9".into(), ..Default::default() };
    let status = nodes.stream_telemetry(tokio_stream::iter([unknown])).await.unwrap_err();
    assert!(status.code() == Code::NotFound && status.message().contains("n9"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_changes_nothing_and_resends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let mut agent = Agent::connect(&controller, "n2", None).await.unwrap();
    let first = agent.next().await.unwrap().unwrap();
    assert!(matches!(first.update, Some(Update::Page(_))));
    agent.report().await;
    let connection = controller.get(&["groups", "g1"]).await["status"]["connection"].clone();
    let held = agent.held.take();
    drop(agent);
    controller.stop().await;

    let controller = Controller::start(dir.path()).await;
    assert_eq!(controller.get(&["groups", "g1"]).await["status"]["connection"], connection);
    let mut agent = Agent::connect(&controller, "n2", held.clone()).await.unwrap();
    let again = agent.next().await.unwrap().unwrap();
    assert!(again.term > first.term, "term {} after {}", again.term, first.term);
    assert_eq!((again.generation, &again.digest), (first.generation, &first.digest));
    assert!(
        matches!(&again.update, Some(Update::Delta(d)) if d.upserted_groups.is_empty() && d.base.is_none()),
        "state that the node already has is sent again"
    );
    // A node with other state gets a full snapshot.
    let mut wrong = held.unwrap().spec().clone();
    wrong.groups.clear();
    let mut other = Agent::connect(&controller, "n2", Some(HeldSpec::encode(wrong))).await.unwrap();
    assert!(matches!(other.next().await.unwrap().unwrap().update, Some(Update::Page(_))));
    // Later generations are larger, and are sent as deltas.
    controller.ctl(&["delete", "member", "r1", "-g", "g1"]).await.unwrap();
    let delta = agent.next().await.unwrap().unwrap();
    assert!(delta.generation > again.generation);
    assert!(
        matches!(delta.update, Some(Update::Delta(d)) if d.from_digest == again.digest && d.removed_groups.len() == 1)
    );
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_groups_come_and_go_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    controller.ctl(&["delete", "group", "g1"]).await.unwrap();
    let agent = Agent::connect(&controller, "n2", None).await.unwrap().apply_all();
    let file = |i: usize| LAB.split("---").take(3).collect::<Vec<_>>().join("---").replace("g1", &format!("job-{i}"));
    for i in 0..200 {
        controller.apply(&file(i)).await.unwrap();
        controller.ctl(&["delete", "group", &format!("job-{i}")]).await.unwrap();
    }
    for prefix in ["group/", "member/"] {
        assert_eq!(controller.store.scan(prefix).unwrap().entries, vec![], "{prefix}");
    }
    let node = controller.get(&["nodes", "n2"]).await;
    assert_eq!(node["spec"]["groups"], 0);
    assert_eq!(controller.get(&["groups"]).await["items"].as_array().unwrap().len(), 0);
    // The node follows: its last generation has no group.
    let deadline = tokio::time::Instant::now() + crate::support::DEADLINE;
    while controller.get(&["nodes", "n2"]).await["status"]["observedGeneration"] != node["spec"]["generation"] {
        assert!(tokio::time::Instant::now() < deadline, "the agent does not follow");
    }
    controller.stop().await;
    assert!(agent.await.unwrap().0.unwrap().spec().groups.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_one_fault_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    let (code, text) = controller.apply(&LAB.replace("qpn: 18", "qpn: 16777216")).await.unwrap_err();
    assert_eq!(code, 1);
    assert!(
        text.contains("member/g1/s1")
            && text.contains("document 2")
            && text.contains("spec.qpn")
            && text.contains("24 bits"),
        "{text}"
    );
    assert_eq!(controller.ctl(&["get", "topology"]).await.unwrap_err().0, 3);
    assert_eq!(controller.get(&["groups"]).await["items"].as_array().unwrap().len(), 0);
    // Exit codes that scripts rely on.
    controller.apply(LAB).await.unwrap();
    assert_eq!(controller.ctl(&["describe", "group", "g9"]).await.unwrap_err().0, 3);
    assert_eq!(controller.ctl(&["get", "members"]).await.unwrap_err().0, 2);
    assert_eq!(controller.ctl(&["delete", "topology"]).await.unwrap_err().0, 4);
    assert_eq!(controller.ctl(&["delete", "group", "g9", "--ignore-not-found"]).await.unwrap(), "group/g9 not found\n");
    assert_eq!(controller.ctl(&["get", "groups", "-o", "name"]).await.unwrap(), "group/g1\n");
    // The output of get is valid input of apply.
    let yaml = controller.ctl(&["get", "groups", "-o", "yaml"]).await.unwrap();
    assert_eq!(controller.apply(&yaml).await.unwrap(), "group/g1 unchanged\n");
    let file = dir.path().join("apply.yaml");
    std::fs::write(&file, LAB).unwrap();
    let deleted = controller.ctl(&["delete", "-f", file.to_str().unwrap()]).await.unwrap();
    assert_eq!(deleted.lines().last(), Some("topology/default deleted"));
    controller.stop().await;
}

/// From the command line over a real socket: what would change, what was, who wrote it, and back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_compared_listed_and_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let file = dir.path().join("g1.yaml");
    let group = "---\n{apiVersion: canopy/v1, kind: Group, metadata: {name: g1, labels: {job: llm}}, spec: {stallPolicy: evict}}";
    std::fs::write(&file, group).unwrap();
    let file = file.to_str().unwrap();
    let diff = controller.ctl(&["diff", "-f", file]).await.unwrap();
    assert!(diff.starts_with("group/g1 would be updated: 2 fields; "), "{diff}");
    for line in ["  + /metadata/labels/job: \"llm\"\n", "  ~ /spec/stallPolicy: \"wait\" -> \"evict\"\n"] {
        assert!(diff.contains(line), "{line:?} is not in\n{diff}");
    }
    let policy = async || controller.get(&["groups", "g1"]).await["spec"]["stallPolicy"].clone();
    assert_eq!(policy().await, "wait");
    controller.ctl(&["apply", "-f", file]).await.unwrap();
    assert_eq!(policy().await, "evict");

    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let history = controller.ctl(&["history", "group", "g1"]).await.unwrap();
    let rows: Vec<Vec<&str>> = history.lines().skip(1).map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(
        rows.iter().map(|r| (r[0], r[2], *r.last().unwrap())).collect::<Vec<_>>(),
        [("2", user.as_str(), "force"), ("1", user.as_str(), "replaced")]
    );
    let audit = controller.ctl(&["audit", "--kind", "group"]).await.unwrap();
    let newest: Vec<&str> = audit.lines().nth(1).unwrap().split_whitespace().skip(1).collect();
    assert_eq!(newest, [user.as_str(), "update", "group/g1", "2", "/metadata/labels/job", "/spec/stallPolicy"]);

    let shown = controller.ctl(&["undo", "group", "g1", "--dry-run"]).await.unwrap();
    assert!(shown.contains("- /metadata/labels/job: \"llm\""), "{shown}");
    assert_eq!(policy().await, "evict");
    let undone = controller.ctl(&["undo", "group", "g1"]).await.unwrap();
    assert_eq!(undone, "group/g1 is as in generation 1 again; `canopyctl undo` once more takes this back\n");
    assert_eq!(policy().await, "wait");
    controller.ctl(&["undo", "group", "g1"]).await.unwrap();
    assert_eq!(policy().await, "evict");
    controller.ctl(&["undo", "group", "g1", "--to", "1"]).await.unwrap();
    assert_eq!(policy().await, "wait");
    let (code, none) = controller.ctl(&["undo", "group", "g1", "--to", "9"]).await.unwrap_err();
    assert!(code == 3 && none.contains("no earlier generation 9"), "{none}");

    // A resource that was deleted comes back as it was, without its members.
    controller.ctl(&["delete", "group", "g1"]).await.unwrap();
    let undone = controller.ctl(&["undo", "group", "g1"]).await.unwrap();
    assert_eq!(undone, "group/g1 was deleted, and is there again as in generation 5\n");
    assert_eq!(controller.get(&["groups", "g1"]).await["status"]["receivers"], 0);
    // A file with the uid and generation that it was read with replaces that and nothing later.
    let read = controller.ctl(&["get", "group", "g1", "-o", "yaml"]).await.unwrap();
    let again = read.replace("stallPolicy: wait", "stallPolicy: evict");
    let applied = controller.apply(&again).await.unwrap();
    assert_eq!(applied, "group/g1 updated\n");
    let (code, stale) = controller.apply(&read).await.unwrap_err();
    assert!(code == 4 && stale.contains("read it again, or remove both"), "{stale}");
    assert_eq!(policy().await, "evict");
    let (code, none) = controller.ctl(&["history", "drain", "never"]).await.unwrap_err();
    assert!(code == 3, "{none}");
    let drain = controller.ctl(&["drain", "link", "n1/eth1", "-r", "x", "--dry-run"]).await.unwrap();
    assert!(drain.starts_with("drain/n1-eth1 would be created; "), "{drain}");
    controller.stop().await;
}
