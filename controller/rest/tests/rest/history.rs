// SPDX-License-Identifier: Apache-2.0
//! Dry runs with their effects, plans, versions and the audit, over the real router.

use serde_json::{Value, json};

use crate::support::{Api, group, member, with};

fn items(answer: &crate::support::Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_dry_run_has_fields_and_effects_and_its_plan_is_a_condition() {
    let api = Api::prepared().await;
    let created = api.put("/api/v1/groups/g2?dryRun=true", &group("g2")).await.json();
    assert_eq!(
        (&created["outcome"], &created["summary"]),
        (&json!("created"), &json!("created; no node or tree changes"))
    );
    assert_eq!(created["changes"][0]["pointer"], "");
    assert_eq!(created["changes"][0]["new"]["spec"]["pathMtu"], 4096);
    let changed = with(group("g1"), |g| g["spec"]["pathMtu"] = json!(1024));
    let dry = api.put("/api/v1/groups/g1?dryRun=true", &changed).await.json();
    assert_eq!(dry["changes"], json!([{"pointer": "/spec/pathMtu", "old": 4096, "new": 1024}]));
    assert_eq!(
        (&dry["summary"], &dry["effects"], &dry["moreEffects"]),
        (&json!("updated: 1 field; no node or tree changes"), &json!([]), &json!(0))
    );
    let unchanged = api.put("/api/v1/groups/g1?dryRun=true", &group("g1")).await.json();
    assert_eq!((&unchanged["summary"], &unchanged["changes"]), (&json!("unchanged"), &json!([])));
    let put = async |plan: &str, body: &Value| {
        let headers = [("content-type", "application/json"), ("if-plan-match", plan)];
        api.send("PUT", "/api/v1/groups/g1", &headers, body.to_string()).await
    };
    let plan = dry["plan"].as_str().unwrap();
    let (status, code, _) = put(plan, &with(group("g1"), |g| g["spec"]["pathMtu"] = json!(512))).await.problem();
    assert_eq!((status, code.as_str()), (412, "PlanChanged"));
    assert_eq!(put(plan, &changed).await.status, 200);
    // It has no effect any more.
    assert_eq!(put(plan, &changed).await.problem().0, 412);
    api.post("/api/v1/groups/g1/members", &member("s1", "source", 17)).await;
    let join = api.post("/api/v1/groups/g1/members?dryRun=true", &member("r1", "receiver", 18)).await.json();
    assert_eq!((&join["effects"][0]["type"], &join["effects"][0]["name"]), (&json!("treeStarts"), &json!("g1")));
    assert!(join["summary"].as_str().unwrap().ends_with("; 1 tree starts"), "{join}");
    api.post("/api/v1/groups/g1/members", &member("r1", "receiver", 18)).await;
    let delete = api.send("DELETE", "/api/v1/groups/g1?dryRun=true", &[], "").await.json();
    assert_eq!(
        delete["effects"],
        json!([{"type": "groupDeleted", "object": "Group", "name": "g1", "from": "2 members", "lossless": false}])
    );
    assert_eq!(delete["changes"][0]["old"]["spec"]["pathMtu"], 1024);
}

#[tokio::test]
async fn versions_and_the_audit_have_what_was_and_who_wrote_it() {
    let api = Api::prepared().await;
    let changed = with(group("g1"), |g| g["metadata"]["labels"] = json!({"job": "llm"}));
    let now = api.put("/api/v1/groups/g1", &changed).await.json();
    let versions = items(&api.get("/api/v1/versions?kind=Group&name=g1").await);
    assert_eq!(versions.len(), 2);
    let of = |version: &Value| {
        (
            version["generation"].clone(),
            version["labels"].clone(),
            version["deleted"].clone(),
            version["endedUnixNs"].is_u64(),
        )
    };
    assert_eq!(of(&versions[0]), (json!(2), json!({"job": "llm"}), json!(false), false));
    assert_eq!(of(&versions[1]), (json!(1), json!({}), json!(false), true));
    assert_eq!((&versions[0]["uid"], &versions[1]["uid"]), (&now["metadata"]["uid"], &now["metadata"]["uid"]));
    assert_eq!(versions[0]["spec"], now["spec"]);
    assert_eq!(versions[1]["endedUnixNs"], versions[0]["writtenUnixNs"]);
    let audit = items(&api.get("/api/v1/audit?limit=2").await);
    let listed: Vec<_> = audit.iter().map(|e| [&e["action"], &e["kind"], &e["name"], &e["fields"]]).collect();
    assert_eq!(
        listed,
        [
            [&json!("update"), &json!("Group"), &json!("g1"), &json!(["/metadata/labels/job"])],
            [&json!("create"), &json!("Group"), &json!("g1"), &json!([])]
        ]
    );
    assert_eq!(audit[0]["by"], json!({"kind": "operator"}));
    let page = api.get("/api/v1/audit?limit=2").await.json();
    let next = page["metadata"]["continue"].as_str().unwrap();
    let rest = items(&api.get(&format!("/api/v1/audit?limit=2&continue={next}")).await);
    assert_eq!((rest.len(), &rest[0]["kind"]), (1, &json!("Topology")));
    assert_eq!(items(&api.get("/api/v1/audit?kind=Drain").await).len(), 0);
    let request = audit[1]["requestId"].as_str().unwrap();
    assert_eq!(items(&api.get(&format!("/api/v1/audit?request={request}")).await), audit[1..2]);
    assert_eq!(items(&api.get("/api/v1/audit?action=update&withinSeconds=3600").await).len(), 1);

    for (path, status, field) in [
        ("/api/v1/versions?kind=Group&name=never", 404, ""),
        ("/api/v1/versions?kind=Member&name=g1", 400, "kind: "),
        ("/api/v1/versions?kind=Group", 400, "query: "),
        ("/api/v1/audit?limit=0", 400, "limit: "),
        ("/api/v1/audit?continue=x", 400, "continue: "),
        ("/api/v1/audit?request=x", 400, "request: "),
        ("/api/v1/audit?kind=Pod", 400, "kind: "),
        ("/api/v1/audit?action=write", 400, "action: "),
        ("/api/v1/audit?withinSeconds=-1", 400, "withinSeconds: "),
    ] {
        let (found, _, errors) = api.get(path).await.problem();
        assert_eq!(found, status, "{path}");
        assert!(field.is_empty() || errors[0].starts_with(field), "{path}: {errors:?}");
    }
}
