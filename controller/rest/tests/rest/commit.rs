// SPDX-License-Identifier: Apache-2.0
//! Confirmed commits over the real router.

use std::time::Duration;

use canopy_controller_actor::Order;
use canopy_controller_core::Command;
use canopy_controller_core::principal::Principal;
use serde_json::{Value, json};

use crate::support::{Answer, Api, group, member, topology, with};

const PATH: &str = "/api/v1/commit";

async fn put(api: &Api, path: &str, body: &Value, commit: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("canopy-commit", commit)];
    api.send("PUT", path, &headers, body.to_string()).await
}

#[tokio::test]
async fn a_commit_is_begun_shown_refuses_others_and_is_cancelled() {
    let api = Api::prepared().await;
    assert_eq!(api.get(PATH).await.problem().0, 404);
    let (status, _, errors) = api.post(PATH, &json!({"timeoutSeconds": 0})).await.problem();
    assert_eq!((status, errors[0].split(':').next().unwrap()), (422, "timeoutSeconds"));
    let dry = api.post(&format!("{PATH}?dryRun=true"), &json!({"timeoutSeconds": 600})).await;
    assert_eq!(
        (dry.problem().0, dry.problem().2),
        (400, vec!["dryRun: is not supported here: leave it out".to_owned()])
    );
    let begun = api.post(PATH, &json!({"timeoutSeconds": 600})).await;
    assert_eq!(begun.status, 201, "{}", begun.text);
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(api.post(PATH, &json!({"timeoutSeconds": 600})).await.problem().1, "CommitPending");

    let changed = with(group("g1"), |g| g["spec"]["pathMtu"] = json!(1024));
    let (status, code, _) = api.put("/api/v1/groups/g1", &changed).await.problem();
    assert_eq!((status, code.as_str()), (409, "CommitPending"));
    let (status, code, _) = put(&api, "/api/v1/groups/g1", &changed, "0000000000000000").await.problem();
    assert_eq!((status, code.as_str()), (409, "CommitEnded"));
    assert_eq!(put(&api, "/api/v1/groups/g1", &changed, &id).await.status, 200);
    assert_eq!(put(&api, "/api/v1/groups/g2", &group("g2"), &id).await.status, 201);
    let join = member("s1", "source", 17);
    assert_eq!(put(&api, "/api/v1/groups/g2/members/s1", &join, &id).await.status, 201);
    // Its members could not be put back.
    let headers = [("canopy-commit", id.as_str())];
    let (status, code, _) = api.send("DELETE", "/api/v1/groups/g2", &headers, "").await.problem();
    assert_eq!((status, code.as_str()), (409, "NotReversible"));

    let shown = api.get(&format!("{PATH}?check=true")).await.json();
    let changes = json!([
        {"kind": "Group", "name": "g1", "rollback": "putBack"},
        {"kind": "Group", "name": "g2", "rollback": "delete"},
        {"kind": "Member", "name": "g2/s1", "rollback": "delete"},
    ]);
    assert_eq!((&shown["phase"], &shown["changes"], &shown["refused"]), (&json!("Pending"), &changes, &json!([])));
    assert_eq!(api.get("/api/v1/status").await.json()["pendingCommit"]["changes"], 3);
    assert_eq!(api.post(&format!("{PATH}/confirm"), &json!({"id": "0"})).await.problem().1, "CommitEnded");
    let extend = json!({"id": id, "timeoutSeconds": 7200});
    let extended = api.post(&format!("{PATH}/extend"), &extend).await.json();
    assert!(extended["deadlineUnixNs"].as_u64() > shown["deadlineUnixNs"].as_u64(), "{extended}");

    let cancelled = api.post(&format!("{PATH}/cancel"), &json!({"id": id})).await.json();
    assert_eq!((&cancelled["phase"], &cancelled["changes"]), (&json!("Cancelled"), &json!([])));
    assert_eq!(api.get("/api/v1/groups/g1").await.json()["spec"]["pathMtu"], 4096);
    assert_eq!(api.get("/api/v1/groups/g2").await.status, 404);
    assert_eq!(api.get("/api/v1/status").await.json().get("pendingCommit"), None);
    assert_eq!(api.put("/api/v1/groups/g1", &changed).await.status, 200);
}

/// Catches a rollback that fails as a whole, or in silence, because of one resource.
#[tokio::test]
async fn what_cannot_be_put_back_is_named_and_the_rest_is() {
    let api = Api::start().await;
    let whole = topology();
    let without = with(whole.clone(), |t| {
        let is_r1 = |item: &Value| item.to_string().contains("\"r1");
        t["spec"]["hosts"].as_array_mut().unwrap().retain(|host| !is_r1(host));
        t["spec"]["links"].as_array_mut().unwrap().retain(|link| !is_r1(link));
    });
    assert_eq!(api.put("/api/v1/topology", &without).await.status, 201);
    for name in ["g1", "g2"] {
        assert_eq!(api.put(&format!("/api/v1/groups/{name}"), &group(name)).await.status, 201);
    }
    let id = api.post(PATH, &json!({"timeoutSeconds": 600})).await.json()["id"].as_str().unwrap().to_owned();
    let changed = with(group("g2"), |g| g["spec"]["pathMtu"] = json!(1024));
    assert_eq!(put(&api, "/api/v1/groups/g2", &changed, &id).await.status, 200);
    assert_eq!(put(&api, "/api/v1/topology", &whole, &id).await.status, 200);
    assert_eq!(api.get(&format!("{PATH}?check=true")).await.json()["refused"], json!([]));
    // The host that is new in it joins, as it may.
    let spec = serde_json::from_value(member("r1", "receiver", 18)["spec"].clone()).unwrap();
    let join = Command::PutMember { group: "g1".into(), spec, create_only: true, instance: None, lease: None };
    api.controller.carry_out(Order::new(join, Principal::host("r1"))).await.unwrap();
    let tried = api.get(&format!("{PATH}?check=true")).await.json();
    let done = api.post(&format!("{PATH}/cancel"), &json!({"id": id})).await.json();
    assert_eq!((&done["phase"], &done["refused"]), (&json!("Cancelled"), &tried["refused"]));
    let refused = done["refused"].as_array().unwrap();
    assert_eq!((refused.len(), &refused[0]["kind"], &refused[0]["name"]), (1, &json!("Topology"), &json!("default")));
    assert!(refused[0]["detail"].as_str().unwrap().contains("r1"), "{done}");
    let present = api.get("/api/v1/topology").await.json();
    assert_eq!(present["spec"]["hosts"].as_array().unwrap().len(), whole["spec"]["hosts"].as_array().unwrap().len());
    assert_eq!(api.get("/api/v1/groups/g2").await.json()["spec"]["pathMtu"], 4096);

    // A problem, until someone has written it.
    let evidence = wait_problem(&api, "RollbackRefused", true).await;
    assert!(evidence.contains("did not put Topology/default back: ") && evidence.contains("r1"), "{evidence}");
    let relabelled = with(whole, |t| t["metadata"]["labels"] = json!({"site": "b"}));
    assert_eq!(api.put("/api/v1/topology", &relabelled).await.status, 200);
    wait_problem(&api, "RollbackRefused", false).await;
}

/// The evidence of the controller's problem of this code, once it is open, or no longer.
async fn wait_problem(api: &Api, code: &str, is_open: bool) -> String {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let all = api.get("/api/v1/problems").await.json();
        let found = all["items"].as_array().unwrap().iter().find(|p| p["code"] == code);
        if found.is_some() == is_open {
            return found.map_or_else(String::new, |p| p["evidence"][0].as_str().unwrap().to_owned());
        }
        assert!(tokio::time::Instant::now() < deadline, "{code} is open: {is_open}: {all}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_about_to_be_rolled_back_is_a_problem_and_its_time_a_metric() {
    let api = Api::prepared().await;
    let metric = async |name: &str| {
        let text = api.get("/metrics").await.text;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    assert_eq!(
        (metric("canopy_commit_pending").await, metric("canopy_commit_rollback_seconds").await),
        (Some(0), None)
    );
    let id = api.post(PATH, &json!({"timeoutSeconds": 1000})).await.json()["id"].as_str().unwrap().to_owned();
    let has_problem = async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        api.get("/api/v1/problems").await.text.contains("CommitExpiring")
    };
    tokio::time::sleep(Duration::from_secs(790)).await;
    assert!(!has_problem().await);
    assert_eq!(metric("canopy_commit_pending").await, Some(1));
    let left = metric("canopy_commit_rollback_seconds").await.unwrap();
    assert!((200..210).contains(&left), "{left}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(has_problem().await);
    let evidence = wait_problem(&api, "CommitExpiring", true).await;
    assert!(
        evidence.starts_with(&format!("commit {id} of "))
            && evidence.contains("0 changed resources, is taken back at 20"),
        "{evidence}"
    );
    let extend = json!({"id": id, "timeoutSeconds": 1000});
    assert_eq!(api.post(&format!("{PATH}/extend"), &extend).await.status, 200);
    assert!(!has_problem().await);
}
