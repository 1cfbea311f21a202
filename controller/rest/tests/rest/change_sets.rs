// SPDX-License-Identifier: Apache-2.0
//! Change sets over the real router.

use std::time::Duration;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_model::rfc3339;
use canopy_units::UnixTime;
use serde_json::{Value, json};

use crate::support::{Answer, Api, group, member, topology, with};

const PATH: &str = "/api/v1/change-sets";

async fn ended(api: &Api, begun: &Answer) -> Value {
    assert_eq!(begun.status, 202, "{}", begun.text);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let set = api.get(begun.header("location")).await.json();
        if set["endedUnixNs"].is_u64() {
            return set;
        }
        assert!(tokio::time::Instant::now() < deadline, "not within 60 s: {set}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Every kind of resource, in the order in which they depend on each other.
fn items() -> Vec<Value> {
    let spec = json!({"link": "n1/eth1", "reason": "optics"});
    let drain = json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "d"}, "spec": spec});
    let until = rfc3339::seconds(UnixTime::now() + Duration::from_secs(3600));
    let spec = json!({"node": "n1", "note": "maintenance", "until": until});
    let silence = json!({"apiVersion": "canopy/v1", "kind": "Silence", "metadata": {"name": "s"}, "spec": spec});
    let join = with(member("s1", "source", 17), |m| m["metadata"] = json!({"group": "g2"}));
    vec![topology(), drain, group("g2"), join, silence]
}

/// Catches a kind that cannot be written or taken back, and a set that is checked less than single writes.
#[tokio::test]
async fn all_kinds_are_written_in_their_order_and_taken_back() {
    let api = Api::start().await;
    assert_eq!(api.get(PATH).await.json()["items"], json!([]));
    // Once: the silence has an instant that is counted from now.
    let items = items();
    let alice = api.by(Principal::operator("alice", Some(1000)), Some(Role::Admin));
    let begun = alice.post(PATH, &json!({"items": items})).await;
    let set = ended(&api, &begun).await;
    let counts = ["items", "done", "created", "updated"].map(|field| set[field].as_u64().unwrap());
    assert_eq!((&set["phase"], counts, &set["refused"]), (&json!("Applied"), [5, 5, 5, 0], &json!([])), "{set}");
    assert_eq!((&set["by"]["name"], &set["requestId"]), (&json!("alice"), &json!(begun.header("canopy-request-id"))));
    assert_eq!(api.get("/api/v1/groups/g2").await.json()["metadata"]["writtenBy"]["name"], "alice");
    assert_eq!(api.get(PATH).await.json()["items"], json!([set]));
    let audit = api.get("/api/v1/audit").await.json();
    let kinds: Vec<&str> = audit["items"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Silence", "Member", "Group", "Drain", "Topology", "ChangeSet"]);
    let written_by = async |sent: &Answer| {
        let path = format!("/api/v1/audit?request={}", sent.header("canopy-request-id"));
        api.get(&path).await.json()["items"].as_array().unwrap().clone()
    };
    assert_eq!(json!(written_by(&begun).await), audit["items"]);

    // The same again changes nothing.
    let again = alice.post(PATH, &json!({"items": items})).await;
    let set = ended(&api, &again).await;
    // What a request wrote are the resources of its set, and nothing that others have written.
    assert!(written_by(&again).await.iter().all(|entry| entry["kind"] == "ChangeSet"));
    assert_eq!(written_by(&begun).await.len(), 6);
    assert_eq!(
        (&set["phase"], &set["done"], &set["created"], &set["updated"]),
        (&json!("Applied"), &json!(5), &json!(0), &json!(0))
    );

    let undone = ended(&api, &alice.post(&format!("{}/undo", begun.header("location")), &Value::Null).await).await;
    assert_eq!(
        (&undone["phase"], &undone["putBack"], &undone["refused"]),
        (&json!("Undone"), &json!(5), &json!([])),
        "{undone}"
    );
    for path in ["topology", "drains/d", "groups/g2", "silences/s"] {
        assert_eq!(api.get(&format!("/api/v1/{path}")).await.status, 404, "{path}");
    }
    let (status, code, _) = alice.post(&format!("{}/undo", begun.header("location")), &Value::Null).await.problem();
    assert_eq!((status, code.as_str()), (409, "ChangeSetUndone"));
    let (status, code, _) = alice.post(&format!("{PATH}/0123456789abcdef/undo"), &Value::Null).await.problem();
    assert_eq!((status, code.as_str()), (404, "NotFound"));
}

#[tokio::test]
async fn what_is_not_valid_is_refused_before_anything_is_written() {
    let api = Api::prepared().await;
    let bad = with(group("g3"), |g| g["spec"]["pathMtu"] = json!(7));
    let (status, _, errors) = api.post(PATH, &json!({"items": [group("g2"), bad]})).await.problem();
    assert_eq!((status, errors[0].split(':').next().unwrap()), (422, "items[1].spec.pathMtu"));
    let stray = with(member("s1", "source", 17), |m| m["metadata"] = json!({"group": "none"}));
    assert_eq!(api.post(PATH, &json!({"items": [group("g2"), stray]})).await.problem().0, 404);
    for (items, field) in [(json!([]), "items"), (json!(vec![group("g2"); 10_001]), "items")] {
        let (status, _, errors) = api.post(PATH, &json!({"items": items})).await.problem();
        assert_eq!((status, errors[0].split(':').next().unwrap()), (422, field));
    }
    let body = json!({"items": [group("g2")]});
    assert_eq!(api.post(&format!("{PATH}?dryRun=true"), &body).await.problem().0, 400);
    let headers = [("content-type", "application/json"), ("canopy-commit", "0123456789abcdef")];
    let (status, _, errors) = api.send("POST", PATH, &headers, body.to_string()).await.problem();
    assert_eq!((status, errors[0].split(':').next().unwrap()), (400, "Canopy-Commit"));
    assert_eq!(
        (api.get("/api/v1/groups/g2").await.status.as_u16(), api.get(PATH).await.json()["items"].clone()),
        (404, json!([]))
    );
}

/// Catches a set that overwrites what was written since its file was read.
#[tokio::test]
async fn a_resource_that_was_read_replaces_that_version_and_no_later_one() {
    let api = Api::prepared().await;
    let read = api.get("/api/v1/groups/g1").await.json();
    let relabelled = with(read.clone(), |g| g["metadata"]["labels"] = json!({"a": "b"}));
    let set = ended(&api, &api.post(PATH, &json!({"items": [group("g2"), relabelled]})).await).await;
    assert_eq!((&set["phase"], &set["updated"]), (&json!("Applied"), &json!(1)));
    let late = with(read, |g| g["metadata"]["labels"] = json!({"c": "d"}));
    let set = ended(&api, &api.post(PATH, &json!({"items": [group("g3"), late, group("g4")]})).await).await;
    assert_eq!((&set["phase"], &set["done"]), (&json!("Stopped"), &json!(1)));
    assert_eq!((&set["refused"][0]["kind"], &set["refused"][0]["name"]), (&json!("Group"), &json!("g1")));
    assert_eq!(api.get("/api/v1/groups/g1").await.json()["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(api.get("/api/v1/groups/g3").await.status, 200);
    assert_eq!(api.get("/api/v1/groups/g4").await.status, 404);
}

/// Catches a topology that an operator writes, or takes back, by way of a set.
#[tokio::test]
async fn a_set_with_a_topology_is_an_administrators() {
    let api = Api::start().await;
    let operator = api.by(Principal::operator("bob", Some(1001)), Some(Role::Operator));
    let (status, code, _) = operator.post(PATH, &json!({"items": [topology()]})).await.problem();
    assert_eq!((status, code.as_str()), (403, "RoleNeeded"));
    let begun = api.post(PATH, &json!({"items": [topology()]})).await;
    ended(&api, &begun).await;
    let undo = format!("{}/undo", begun.header("location"));
    assert_eq!(operator.post(&undo, &Value::Null).await.problem().1, "RoleNeeded");
    assert_eq!(api.post(&undo, &Value::Null).await.status, 202);
}

/// Catches a set that is carried out twice because its answer was lost, also when it would not pass the check any more.
#[tokio::test]
async fn a_set_that_is_sent_again_is_carried_out_once() {
    let api = Api::prepared().await;
    let join = with(member("r1", "receiver", 18), |m| m["metadata"] = json!({"group": "g1"}));
    let send = async |items: Value| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        api.send("POST", PATH, &headers, json!({"items": items}).to_string()).await
    };
    let first = send(json!([join])).await;
    ended(&api, &first).await;
    assert_eq!(api.delete("/api/v1/groups/g1").await.status, 204);
    let again = send(json!([join])).await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (202, "true"), "{}", again.text);
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(send(json!([group("g9")])).await.problem().1, "IdempotencyKeyReused");
    assert_eq!(api.post(PATH, &json!({"items": [join]})).await.problem().0, 404);
}

/// Catches a set, or its refusal, that a caller of another tenant sees.
#[tokio::test]
async fn a_set_of_a_tenant_is_seen_in_the_tenant_and_in_the_domain() {
    let api = Api::prepared().await;
    let acme = api.of_tenant("acme", Role::Operator);
    let own = with(group("acme-g"), |g| g["metadata"]["tenant"] = json!("acme"));
    let begun = acme.post(PATH, &json!({"items": [own]})).await;
    let set = ended(&acme, &begun).await;
    assert_eq!(set["phase"], "Applied");
    let others = api.of_tenant("other", Role::Operator);
    assert_eq!(others.get(PATH).await.json()["items"], json!([]));
    assert_eq!(others.get(begun.header("location")).await.problem().0, 404);
    assert_eq!(others.post(&format!("{}/undo", begun.header("location")), &Value::Null).await.problem().0, 404);
    let viewer = api.of_tenant("acme", Role::Viewer);
    assert_eq!(viewer.get(PATH).await.json()["items"], json!([set]));
    assert_eq!(viewer.post(&format!("{}/undo", begun.header("location")), &Value::Null).await.problem().0, 403);
    // What is another's, or the domain's, is refused before anything is written.
    assert_eq!(others.post(PATH, &json!({"items": [group("acme-g")]})).await.problem().1, "AlreadyExists");
    assert_eq!(others.post(PATH, &json!({"items": [topology()]})).await.problem().0, 403);
    assert_eq!(api.get(PATH).await.json()["items"], json!([set]));
}
