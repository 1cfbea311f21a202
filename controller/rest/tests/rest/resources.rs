// SPDX-License-Identifier: Apache-2.0
//! Responses of the API to valid requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use canopy_controller_actor::telemetry::NodeTelemetry;
use canopy_model::rfc3339;
use canopy_model::status::NodeStatus;
use canopy_model::telemetry::{BranchTelemetry, DropCount, GroupTelemetry};
use canopy_store::{MemStore, Op, Recovery, Revision, Snapshot, Store, StoreError};
use canopy_units::UnixTime;
use serde_json::{Value, json};

use crate::support::{Api, group, member, topology, with};

#[tokio::test]
async fn resources_have_the_shape_that_kubernetes_users_know() {
    let api = Api::start().await;
    api.put("/api/v1/topology", &topology()).await;
    let created =
        api.post("/api/v1/groups", &with(group("g1"), |g| g["metadata"]["labels"] = json!({"job": "llm"}))).await;
    assert_eq!((created.status.as_u16(), created.header("location")), (201, "/api/v1/groups/g1"));
    let g = created.json();
    assert_eq!((&g["apiVersion"], &g["kind"]), (&json!("canopy/v1"), &json!("Group")));
    let metadata = g["metadata"].as_object().unwrap();
    let known = ["name", "tenant", "labels", "generation"].map(|field| metadata[field].clone());
    assert_eq!(known, [json!("g1"), json!("default"), json!({"job": "llm"}), json!(1)]);
    let fields: Vec<&str> = metadata.keys().map(String::as_str).collect();
    let expected = ["createdUnixNs", "generation", "labels", "name", "tenant", "uid", "writtenBy", "writtenUnixNs"];
    assert_eq!(fields, expected);
    assert_eq!(g["spec"]["pathMtu"], 4096);
    assert_eq!(g["status"]["phase"], "Pending");
    let joined = api.post("/api/v1/groups/g1/members", &member("r1", "receiver", 17)).await;
    assert_eq!((joined.status.as_u16(), joined.header("location")), (201, "/api/v1/groups/g1/members/r1"));
    let m = joined.json();
    assert_eq!(
        (&m["kind"], &m["metadata"]["name"], &m["metadata"]["group"]),
        (&json!("Member"), &json!("r1"), &json!("g1"))
    );
    assert_eq!(m["status"]["address"], "2001:db8:2::1");
    let n = api.get("/api/v1/nodes/n2").await.json();
    assert_eq!(
        (&n["kind"], &n["metadata"]["name"], &n["spec"]["un"]),
        (&json!("Node"), &json!("n2"), &json!("5f00:0:2::/48"))
    );
    assert_eq!(api.get("/api/v1/nodes").await.json()["items"].as_array().unwrap().len(), 2);
    // A resource that was read can be sent back unchanged.
    for (path, value) in [
        ("/api/v1/groups/g1", api.get("/api/v1/groups/g1").await),
        ("/api/v1/groups/g1/members/r1", joined),
        ("/api/v1/topology", api.get("/api/v1/topology").await),
    ] {
        let again = api.put(path, &value.json()).await;
        assert_eq!(
            (again.status.as_u16(), again.json()["metadata"].clone()),
            (200, value.json()["metadata"].clone()),
            "{path}: {}",
            again.text
        );
    }
    assert_eq!(api.delete("/api/v1/groups/g1/members/r1").await.status, 204);
    assert_eq!(api.delete("/api/v1/groups/g1").await.status, 204);
    assert_eq!(api.get("/api/v1/groups/g1").await.status, 404);
}

#[tokio::test]
async fn dry_runs_report_the_outcome_and_change_nothing() {
    let api = Api::start().await;
    api.put("/api/v1/topology", &topology()).await;
    api.put("/api/v1/groups/g1", &group("g1")).await;
    let outcome =
        |a: &crate::support::Answer| (a.status.as_u16(), a.json()["kind"].clone(), a.json()["outcome"].clone());
    assert_eq!(
        outcome(&api.put("/api/v1/groups/g2?dryRun=true", &group("g2")).await),
        (200, json!("DryRun"), json!("created"))
    );
    assert_eq!(outcome(&api.post("/api/v1/groups?dryRun=true", &group("g2")).await).2, "created");
    assert_eq!(outcome(&api.put("/api/v1/groups/g1?dryRun=true", &group("g1")).await).2, "unchanged");
    assert_eq!(
        outcome(&api.post("/api/v1/groups/g1/members?dryRun=true", &member("r1", "receiver", 17)).await).2,
        "created"
    );
    assert_eq!(outcome(&api.delete("/api/v1/groups/g1?dryRun=true").await).2, "deleted");
    assert_eq!(
        outcome(
            &api.put(
                "/api/v1/topology?dryRun=true",
                &with(topology(), |t| t["metadata"]["labels"] = json!({"a": "b"}))
            )
            .await
        )
        .2,
        "updated"
    );
    assert_eq!(api.post("/api/v1/groups?dryRun=true", &group("g1")).await.problem().0, 409);
    assert_eq!(api.put("/api/v1/groups/g2?dryRun=maybe", &group("g2")).await.problem().0, 400);
    assert_eq!(api.get("/api/v1/groups").await.json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(api.get("/api/v1/topology").await.json()["metadata"]["generation"], 1);
    assert_eq!(api.get("/api/v1/groups/g1/members").await.json()["items"], json!([]));
}

#[tokio::test]
async fn lists_continue_where_they_ended_and_select_by_label() {
    let api = Api::start().await;
    for i in 0..7 {
        let g = with(group(&format!("g{i}")), |g| {
            g["metadata"]["labels"] = json!({"parity": if i % 2 == 0 { "even" } else { "odd" }})
        });
        api.put(&format!("/api/v1/groups/g{i}"), &g).await;
    }
    let names = |v: &Value| {
        v["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|g| g["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (mut all, mut path, mut pages) = (Vec::new(), "/api/v1/groups?limit=3".to_owned(), 0);
    loop {
        let page = api.get(&path).await.json();
        all.extend(names(&page));
        pages += 1;
        match page["metadata"]["continue"].as_str() {
            Some(next) => path = format!("/api/v1/groups?limit=3&continue={next}"),
            None => break,
        }
    }
    assert_eq!((all.join(" "), pages), ("g0 g1 g2 g3 g4 g5 g6".to_owned(), 3));
    let odd = api.get("/api/v1/groups?labelSelector=parity%3Dodd").await.json();
    assert_eq!(names(&odd), ["g1", "g3", "g5"]);
    for (bad, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("continue=zz", "continue"),
        ("labelSelector=%3D", "labelSelector"),
    ] {
        let (status, _, errors) = api.get(&format!("/api/v1/groups?{bad}")).await.problem();
        assert!(status == 400 && errors[0].starts_with(field), "{bad}: {errors:?}");
    }
}

#[tokio::test]
async fn a_file_of_resources_is_judged_as_a_whole() {
    let api = Api::start().await;
    let in_group = |m: Value| with(m, |m| m["metadata"]["group"] = json!("g1"));
    let items =
        |last: Value| json!({"items": [topology(), group("g1"), in_group(member("s1", "source", 18)), in_group(last)]});
    let good = api.post("/api/v1/validate", &items(member("r1", "receiver", 17))).await;
    assert_eq!(good.json()["outcomes"], json!(["created", "created", "created", "created"]), "{}", good.text);
    let (status, _, errors) = api
        .post("/api/v1/validate", &items(with(member("r1", "receiver", 17), |m| m["spec"]["address"] = json!("::1"))))
        .await
        .problem();
    assert!(status == 422 && errors[0].starts_with("items[3].spec.address: "), "{errors:?}");
    let two_sources = api.post("/api/v1/validate", &items(member("r1", "source", 17))).await;
    assert!(two_sources.status == 409 || two_sources.status == 422, "{}", two_sources.text);
    assert!(two_sources.json()["detail"].as_str().unwrap().starts_with("items[3]: "), "{}", two_sources.text);
    let (_, _, errors) = api
        .post("/api/v1/validate", &json!({"items": [with(group("g"), |g| g["spec"]["x"] = json!(1))]}))
        .await
        .problem();
    assert!(errors[0].starts_with("items[0].spec.x: unknown field"), "{errors:?}");
    assert_eq!(api.get("/api/v1/topology").await.status, 404);
    assert_eq!(api.get("/api/v1/groups").await.json()["items"], json!([]));
}

async fn with_telemetry() -> Api {
    let api = Api::prepared().await;
    api.post("/api/v1/groups/g1/members", &member("s1", "source", 18)).await;
    api.post("/api/v1/groups/g1/members", &member("r1", "receiver", 17)).await;
    let group_id = api.controller.read(|d| d.group("g1").unwrap().status.group_id);
    let branch = BranchTelemetry {
        address: "2001:db8:2::1".parse().unwrap(),
        next: Some(canopy_units::UnwrappedPsn(101)),
        unconfirmed: false,
        ack_psn: Some(100),
        epsn: None,
        fatal: None,
        late: None,
        start: None,
        ccount: 2,
        last_feedback: Some(std::time::Duration::from_millis(1_500)),
        packets: 7,
        octets: canopy_units::Octets(7000),
        completed_min: Some(30),
    };
    let drop = |reason, name: &str, packets| DropCount { reason, name: name.into(), packets, port: None };
    let counters = GroupTelemetry {
        group_id,
        epoch: 3,
        high: canopy_units::UnwrappedPsn(110),
        min_next: Some(canopy_units::UnwrappedPsn(101)),
        acks_in: 11,
        acks_out: 5,
        naks_in: 1,
        naks_out: 1,
        cnps_in: 4,
        cnps_out: 2,
        data_packets: 42,
        fresh_packets: Some(40),
        data_octets: canopy_units::Octets(42_000),
        branches: vec![branch],
        drops: vec![drop(7, "branch_unknown", 3)],
    };
    let sample = NodeTelemetry {
        time: canopy_units::UnixTime::from_nanos(5),
        groups: [(group_id, counters)].into(),
        drops: vec![drop(1, "not_ours", 9)],
    };
    api.controller.telemetry().record("n2", sample, |_| true);
    api
}

#[tokio::test]
async fn telemetry_is_shown_by_group_and_by_node() {
    let api = with_telemetry().await;
    let of_group = api.get("/api/v1/groups/g1/telemetry").await.json();
    assert_eq!(of_group["items"].as_array().unwrap().len(), 1);
    let sample = &of_group["items"][0];
    assert_eq!(
        (&sample["node"], &sample["dataPackets"], &sample["branches"][0]["ackPsn"]),
        (&json!("n2"), &json!(42), &json!(100))
    );
    let of_node = api.get("/api/v1/nodes/n2/telemetry").await.json();
    assert_eq!((&of_node["groups"][0]["group"], &of_node["drops"][0]["name"]), (&json!("g1"), &json!("not_ours")));
    assert_eq!(api.get("/api/v1/nodes/n1/telemetry").await.json()["timeUnixNs"], json!(null));
}

#[tokio::test]
async fn metrics_are_what_the_controller_alone_knows() {
    let api = with_telemetry().await;
    let open = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let answer = api.send("GET", "/metrics", &[("accept", open)], "").await;
    assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    for line in [
        "# TYPE canopy_controller_build info",
        "# TYPE canopy_intent_unmeasured_changes counter",
        "canopy_intent_unmeasured_changes_total 0",
        "canopy_groups{phase=\"Programming\"} 1",
        "canopy_groups{phase=\"Failed\"} 0",
        "canopy_node_connected{node=\"n1\"} 0",
        "canopy_controller_series_left_out 0",
    ] {
        assert!(answer.text.lines().any(|l| l == line), "{line} is not in\n{}", answer.text);
    }
    assert!(answer.text.ends_with("# EOF\n"));
    // What kernels count, agents export.
    for family in ["canopy_group_", "canopy_branch_", "canopy_drops", "canopy_link_packets"] {
        assert!(!answer.text.contains(family), "{family} is in\n{}", answer.text);
    }
    let text = api.get("/metrics").await;
    assert_eq!(text.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    for line in ["# TYPE canopy_controller_build_info gauge", "# TYPE canopy_intent_unmeasured_changes_total counter"] {
        assert!(text.text.lines().any(|l| l == line), "{line} is not in\n{}", text.text);
    }
    assert!(!text.text.contains("# EOF"), "{}", text.text);
    let bucket = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("canopy_intent_to_kernel_seconds_{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse::<f64>().unwrap()
    };
    // A change of a topology of two nodes waits for both, and is measured when the second confirms.
    assert_eq!(bucket(&text.text, "count"), 0.0);
    let confirm = |node: &str, metrics_address: &str| {
        let (observed_term, generation) = api.controller.read(|d| (d.term(), d.node_spec(node).unwrap().generation));
        let (node, metrics_address) = (node.to_owned(), metrics_address.to_owned());
        let report = NodeStatus {
            node,
            observed_term,
            observed_generation: generation,
            metrics_address,
            ..NodeStatus::default()
        };
        api.controller.report(report).unwrap();
    };
    confirm("n2", "[2001:db8::2]:9464");
    assert_eq!(bucket(&api.get("/metrics").await.text, "count"), 0.0);
    confirm("n1", "");
    let after = api.get("/metrics").await.text;
    assert!(
        bucket(&after, "count") >= 1.0 && bucket(&after, "bucket{le=\"+Inf\"}") == bucket(&after, "count"),
        "{after}"
    );
    assert!(after.contains("\ncanopy_intent_unconfirmed_changes 0\n"), "{after}");
    let targets = api.get("/api/v1/prometheus/targets").await.json();
    assert_eq!(targets, json!([{"targets": ["[2001:db8::2]:9464"], "labels": {"node": "n2"}}]));
}

#[tokio::test]
async fn operators_see_health_version_events_and_a_page() {
    let api = with_telemetry().await;
    assert_eq!(api.get("/livez").await.text, "ok\n");
    assert_eq!(api.get("/readyz").await.text, "ok\n");
    assert!(api.get("/readyz?verbose").await.text.contains("[+] store: revision"));
    assert_eq!(api.get("/version").await.json()["apiVersion"], "canopy/v1");
    let events = api.get("/api/v1/events?group=g1").await.json();
    let details: Vec<&str> =
        events["items"].as_array().unwrap().iter().map(|e| e["detail"].as_str().unwrap()).collect();
    assert!(details.iter().any(|d| d.starts_with("Programming")), "{details:?}");
    assert_eq!(api.get("/api/v1/events?limit=1").await.json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(api.get("/api/v1/events?node=n9").await.json()["items"], json!([]));
    let page = api.get("/plain").await;
    assert!(
        page.header("content-type").starts_with("text/html")
            && page.header("content-security-policy").contains("default-src 'none'")
    );
    // A browser that follows such a link has no session.
    assert!(!page.text.contains("href=\"/api/"), "{}", page.text);
    let group = api.get("/api/v1/groups/g1").await.json();
    let proxy = group["status"]["connection"]["proxyAddress"].as_str().unwrap();
    assert!(proxy.starts_with("fcfe::"), "{proxy}");
    for text in ["g1", "Programming", proxy, "n1", "not connected", "2 nodes (0 connected"] {
        assert!(page.text.contains(text), "{text} is not on the page");
    }
}

/// A store that has lost commits, and whose disk may be full.
#[derive(Default)]
struct Troubled {
    inner: MemStore,
    is_full: AtomicBool,
    /// A commit takes until this is false again.
    is_slow: AtomicBool,
}

impl Store for Troubled {
    fn revision(&self) -> Result<Revision, StoreError> {
        self.inner.revision()
    }

    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        self.ready()?;
        while self.is_slow.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        self.inner.commit(expected, ops)
    }

    fn scan(&self, prefix: &str) -> Result<Snapshot, StoreError> {
        self.inner.scan(prefix)
    }

    fn newest(&self, prefix: &str, below: Option<&str>, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.inner.newest(prefix, below, limit)
    }

    fn import(&self, snapshot: &Snapshot) -> Result<Revision, StoreError> {
        self.inner.import(snapshot)
    }

    fn ready(&self) -> Result<(), StoreError> {
        let is_full = self.is_full.load(Ordering::SeqCst);
        if is_full { Err(StoreError::Full { path: "/store".into() }) } else { Ok(()) }
    }

    fn recovery(&self) -> Option<Recovery> {
        let (quarantined, restored_from) = (None, None);
        Some(Recovery { time: 1, quarantined, restored_from, restored_revision: 41, detail: "it was cut".into() })
    }
}

#[tokio::test]
async fn a_loss_and_a_full_disk_are_shown_and_reading_works() {
    let store = Arc::new(Troubled::default());
    let api = Api::start_on(store.clone()).await;
    let lost = api.get("/readyz").await;
    assert_eq!(lost.status, 200);
    let line = "[!] lost: changes after revision 41 are lost, make them again: it was cut; `canopy-controller store acknowledge`";
    assert!(lost.text.contains(line) && lost.text.contains("[+] store: revision"), "{}", lost.text);
    let metrics = api.get("/metrics").await.text;
    assert!(
        metrics.contains("\ncanopy_store_lost_commits 1\n") && metrics.contains("\ncanopy_store_writable 1\n"),
        "{metrics}"
    );
    let deadline = Instant::now() + Duration::from_secs(30);
    while !api.get("/api/v1/problems").await.text.contains("StoreLostCommits") {
        assert!(Instant::now() < deadline, "the loss is no problem");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.is_full.store(true, Ordering::SeqCst);
    let (status, code, _) = api.put("/api/v1/groups/g1", &group("g1")).await.problem();
    assert_eq!((status, code.as_str()), (507, "StoreFull"));
    assert_eq!(api.get("/api/v1/groups/g1").await.status, 404, "it changed nothing");
    let full = api.get("/readyz").await;
    assert!(full.status == 200 && full.text.contains("read-only: the disk of /store is full"), "{}", full.text);
    let metrics = api.get("/metrics").await.text;
    assert!(metrics.contains("\ncanopy_store_writable 0\n"), "{metrics}");
    store.is_full.store(false, Ordering::SeqCst);
    assert_eq!(api.put("/api/v1/groups/g1", &group("g1")).await.status, 201);
    let events = api.get("/api/v1/events").await.json();
    let codes = events["items"].as_array().unwrap().iter().map(|e| e["code"].as_str().unwrap());
    let codes: Vec<&str> = codes.filter(|code| code.starts_with("Store")).collect();
    assert_eq!(codes, ["StoreRecovered", "StoreReadOnly", "StoreWritable"], "{codes:?}");
}

/// A liveness probe that waited for the disk would have the controller restarted for it.
#[tokio::test]
async fn what_is_not_durable_is_not_shown_and_the_process_is_alive_meanwhile() {
    let store = Arc::new(Troubled::default());
    let api = Api::start_on(store.clone()).await;
    store.is_slow.store(true, Ordering::SeqCst);
    let is_shown = AtomicBool::new(false);
    let show = async {
        // Of three that wait, the first two are applied before the commit.
        while api.controller.read(|d| d.group("g2").is_none()) {
            tokio::task::yield_now().await;
        }
        let shown = api.get("/api/v1/groups/g2").await;
        is_shown.store(true, Ordering::SeqCst);
        shown.status
    };
    let stream = async {
        while api.controller.read(|d| d.group("g2").is_none()) {
            tokio::task::yield_now().await;
        }
        let first = api.watch("groups", "").await.next().await;
        is_shown.store(true, Ordering::SeqCst);
        first.name
    };
    let live = async {
        while api.controller.read(|d| d.group("g2").is_none()) {
            tokio::task::yield_now().await;
        }
        let status = api.get("/livez").await.status;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // The web UI needs no store.
        assert_eq!(api.send("GET", "/groups/g2", &[("accept", "text/html")], "").await.status, 200);
        let was_shown = is_shown.load(Ordering::SeqCst);
        store.is_slow.store(false, Ordering::SeqCst);
        (status, was_shown)
    };
    let (g1, g2, g3) = (group("g1"), group("g2"), group("g3"));
    let puts = async {
        tokio::join!(
            api.put("/api/v1/groups/g1", &g1),
            api.put("/api/v1/groups/g2", &g2),
            api.put("/api/v1/groups/g3", &g3)
        )
    };
    let (puts, shown, streamed, (live, was_shown)) = tokio::join!(puts, show, stream, live);
    assert_eq!(streamed, "added");
    assert_eq!([puts.0.status, puts.1.status, puts.2.status], [201; 3]);
    assert!(shown == 200 && live == 200 && !was_shown);
}

#[tokio::test]
async fn a_stopping_controller_is_not_ready_and_reports_it() {
    let api = Api::prepared().await;
    api.controller.stop().await;
    let (status, code, _) = loop {
        // The task ends a moment after `stop`.
        let answer = api.put("/api/v1/groups/g2", &group("g2")).await;
        if answer.status != 201 && answer.status != 200 {
            break answer.problem();
        }
    };
    assert_eq!((status, code.as_str()), (503, "Stopping"));
    assert_eq!(api.get("/readyz").await.status, 503);
    assert_eq!(api.get("/livez").await.status, 200);
}

#[tokio::test]
async fn a_drain_is_created_read_changed_and_removed() {
    let api = Api::prepared().await;
    let drain = |node: &str, reason: &str| json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "x"}, "spec": {"node": node, "reason": reason}});
    let checked = api.post("/api/v1/drains?dryRun=true", &drain("n1", "kernel")).await;
    assert_eq!(
        (checked.status.as_u16(), checked.json()["outcome"].as_str()),
        (200, Some("created")),
        "{}",
        checked.text
    );
    let created = api.post("/api/v1/drains", &drain("n1", "kernel")).await;
    assert_eq!((created.status.as_u16(), created.header("location")), (201, "/api/v1/drains/x"), "{}", created.text);
    assert_eq!(created.json()["status"], json!({"links": ["n1/eth1--n2/eth1"], "groups": 0, "hosts": []}));
    assert_eq!(api.post("/api/v1/drains", &drain("n2", "fans")).await.problem().0, 409);
    let tag = created.header("etag").to_owned();
    let path = "/api/v1/drains/x";
    let json_with = |tag: &str| {
        [("content-type".to_owned(), "application/json".to_owned()), ("if-match".to_owned(), tag.to_owned())]
    };
    for (tag, status) in [("\"9\"", 412), (tag.as_str(), 200)] {
        let headers = json_with(tag);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let answer = api.send("PUT", path, &headers, drain("n1", "fans").to_string()).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let list = api.get("/api/v1/drains").await.json();
    assert_eq!((&list["kind"], &list["items"][0]["spec"]["reason"]), (&json!("DrainList"), &json!("fans")));
    let link = api.get("/api/v1/links/n1/eth1").await.json();
    assert_eq!(link["spec"]["drained"], json!(true));
    let bad = api.put("/api/v1/drains/y", &json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "y"}, "spec": {"link": "n1/eth2", "reason": "x"}})).await;
    assert_eq!(bad.problem().0, 422);
    assert_eq!(api.delete(path).await.status, 204);
    assert_eq!(api.get(path).await.problem().0, 404);
}

#[tokio::test]
async fn hosts_are_listed_in_pages_and_shown_with_their_groups() {
    let api = Api::start().await;
    let empty = api.get("/api/v1/hosts").await.json();
    assert_eq!((&empty["kind"], &empty["items"]), (&json!("HostList"), &json!([])));
    let api = Api::prepared().await;
    for (host, role) in [("s1", "source"), ("r1", "receiver")] {
        let joined = api.put(&format!("/api/v1/groups/g1/members/{host}"), &member(host, role, 17)).await;
        assert_eq!(joined.status, 201, "{}", joined.text);
    }
    let host = api.get("/api/v1/hosts/r1").await.json();
    let spec = json!({"node": "n2", "port": "eth2", "prefix": "2001:db8:2::/64", "address": "2001:db8:2::1", "mtu": 9000, "pathPrograms": false,
        "links": [{"node": "n2", "port": "eth2", "mtu": 9000}]});
    let status = json!({"port": "Unknown", "reason": "the agent of n2 is not connected", "agent": "OfNode", "sources": 0, "receivers": 1,
        "groups": [{"name": "g1", "role": "receiver", "ended": false}],
        "links": [{"node": "n2", "port": "eth2", "state": "Unknown", "reason": "the agent of n2 is not connected"}]});
    assert_eq!((&host["kind"], &host["metadata"]["generation"]), (&json!("Host"), &json!(1)));
    assert_eq!((&host["spec"], &host["status"]), (&spec, &status));
    assert_eq!(api.get("/api/v1/hosts/r9").await.problem().0, 404);

    let mut path = "/api/v1/hosts?limit=2".to_owned();
    let mut listed = Vec::new();
    for _ in 0..2 {
        let page = api.get(&path).await.json();
        for item in page["items"].as_array().unwrap() {
            assert_eq!(item["status"]["groups"], json!([]));
            listed.push((item["metadata"]["name"].clone(), item["status"]["sources"].clone()));
        }
        path = format!("/api/v1/hosts?limit=2&continue={}", page["metadata"]["continue"].as_str().unwrap_or_default());
    }
    assert_eq!(listed, [(json!("r1"), json!(0)), (json!("r2"), json!(0)), (json!("s1"), json!(1))]);
    assert!(path.ends_with("continue="), "there are two pages: {path}");
    for bad in ["limit=0", "limit=501", "continue=zz", "labelSelector=a"] {
        assert_eq!(api.get(&format!("/api/v1/hosts?{bad}")).await.problem().0, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_drain_has_an_end_in_utc_and_a_wrong_one_is_named() {
    let api = Api::prepared().await;
    let drain = |until: &str| json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "x"}, "spec": {"node": "n1", "reason": "fans", "until": until}});
    // In whole seconds, as operators write it.
    let now = UnixTime::now().nanos() / 1_000_000_000;
    let text = |seconds: u64| rfc3339::format(UnixTime::from_nanos((now + seconds) * 1_000_000_000));
    let soon = text(3600);
    let east = soon.replace('Z', "-00:00");
    let created = api.post("/api/v1/drains", &drain(&east)).await;
    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(created.json()["spec"]["until"], json!(soon));
    assert_eq!(api.put("/api/v1/drains/x", &drain(&soon)).await.header("etag"), created.header("etag"));
    let later = text(7200);
    let changed = api.put("/api/v1/drains/x", &drain(&later)).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["spec"]["until"]), (200, &json!(later)));
    for (until, why) in [
        ("2020-01-01T00:00:00Z", "in the past"),
        (text(400 * 86_400).as_str(), "more than 366 days"),
        ("2h", "is not a time"),
    ] {
        for answer in [
            api.put("/api/v1/drains/x", &drain(until)).await,
            api.post("/api/v1/drains?dryRun=true", &drain(until)).await,
        ] {
            let (status, code, errors) = answer.problem();
            assert_eq!((status, code.as_str(), errors.len()), (422, "Invalid", 1), "{errors:?}");
            assert!(errors[0].starts_with("spec.until: ") && errors[0].contains(why), "{errors:?}");
        }
        let (status, _, errors) = api.post("/api/v1/validate", &json!({"items": [drain(until)]})).await.problem();
        assert!(status == 422 && errors[0].starts_with("items[0].spec.until: "), "{errors:?}");
    }
    assert_eq!(api.get("/api/v1/drains/x").await.json()["spec"]["until"], json!(later));
}
