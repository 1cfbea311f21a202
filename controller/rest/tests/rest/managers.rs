// SPDX-License-Identifier: Apache-2.0
//! Resources that one writer manages: others are refused, whatever the way, and may take them over.

use serde_json::{Value, json};

use crate::support::{Answer, Api, group, topology, with};

const MANAGER: &str = "kubernetes.prod.0e9a3b52-9c8b-4a3c-8f0e-1f2a3b4c5d6e";

async fn put(api: &Api, path: &str, body: &Value, manager: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("canopy-manager", manager)];
    api.send("PUT", path, &headers, body.to_string()).await
}

fn managed(body: Value) -> Value {
    with(body, |of| of["metadata"]["labels"] = json!({"canopy/managed-by": MANAGER, "team": "a"}))
}

/// Catches a second writer of a group that the first one's next write undoes: by REST, by a dry run, by a deletion, with or without the label.
#[tokio::test]
async fn one_manager_writes_a_group_and_others_are_refused_with_its_command() {
    let api = Api::prepared().await;
    let path = "/api/v1/groups/weights";
    let own = managed(group("weights"));
    // A label alone makes no manager.
    let (status, _, errors) = api.put(path, &own).await.problem();
    assert_eq!(status, 422);
    assert!(errors[0].starts_with("metadata.labels[canopy/managed-by]"), "{errors:?}");
    assert_eq!(put(&api, path, &own, MANAGER).await.status, 201);
    let changed = with(own.clone(), |of| of["spec"]["pathMtu"] = json!(1024));
    assert_eq!(put(&api, path, &changed, MANAGER).await.status, 200);

    let by_hand = with(group("weights"), |of| of["spec"]["pathMtu"] = json!(2048));
    for body in [&by_hand, &own] {
        let refused = api.put(path, body).await;
        assert_eq!((refused.problem().0, refused.problem().1.as_str()), (409, "ManagedBy"), "{}", refused.text);
        assert!(refused.text.contains("kubectl --namespace default edit multicastgroup weights"), "{}", refused.text);
    }
    let code = |answer: &Answer| (answer.problem().0, answer.problem().1);
    assert_eq!(code(&put(&api, path, &by_hand, "kubernetes.other.x").await), (409, "ManagedBy".into()));
    assert_eq!(code(&api.put(&format!("{path}?dryRun=true"), &by_hand).await), (409, "ManagedBy".into()));
    assert_eq!(code(&api.send("DELETE", path, &[], "").await), (409, "ManagedBy".into()));
    let kept = api.get(path).await.json();
    assert_eq!((&kept["spec"]["pathMtu"], &kept["metadata"]["labels"]["team"]), (&json!(1024), &json!("a")));
    // Its members are of its hosts.
    let join = crate::support::member("s1", "source", 17);
    assert_eq!(api.put(&format!("{path}/members/s1"), &join).await.status, 201);

    // Taken over, it has no manager.
    assert_eq!(put(&api, path, &own, "take-over").await.problem().0, 422, "still with the label");
    let same = with(group("weights"), |of| of["spec"]["pathMtu"] = json!(1024));
    assert_eq!(put(&api, path, &same, "take-over").await.status, 200);
    assert_eq!(api.get(path).await.json()["metadata"]["labels"], json!({}));
    assert_eq!(api.put(path, &same).await.status, 200);
    // And the manager may have it again, by its own write.
    assert_eq!(put(&api, path, &changed, MANAGER).await.status, 200);
    let headers = [("canopy-manager", MANAGER)];
    assert!(api.send("DELETE", path, &headers, "").await.status.is_success());
}

#[tokio::test]
async fn the_topology_has_one_manager_too() {
    let api = Api::prepared().await;
    let own = managed(topology());
    assert_eq!(put(&api, "/api/v1/topology", &own, MANAGER).await.status, 200);
    let refused = api.put("/api/v1/topology", &topology()).await;
    assert_eq!((refused.problem().0, refused.problem().1.as_str()), (409, "ManagedBy"));
    assert!(refused.text.contains("kubectl edit topology default"), "{}", refused.text);
    assert_eq!(api.send("DELETE", "/api/v1/topology", &[], "").await.problem().1, "ManagedBy");
    // A drain is a record of its own.
    let drain = json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "d"}, "spec": {"node": "n2", "reason": "x"}});
    assert!(api.put("/api/v1/drains/d", &drain).await.status.is_success());
    assert_eq!(put(&api, "/api/v1/topology", &topology(), "take-over").await.status, 200);
}

/// Catches an operator who ends what `kubectl cordon` has begun, and gets it again a second later.
#[tokio::test]
async fn a_drain_of_a_cordoned_node_is_ended_by_its_manager() {
    let api = Api::prepared().await;
    let drain = |labels: Value| json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "cordon-n2", "labels": labels}, "spec": {"node": "n2", "reason": "cordoned"}});
    let (path, own) = ("/api/v1/drains/cordon-n2", drain(json!({"canopy/managed-by": MANAGER})));
    assert_eq!(api.put(path, &own).await.problem().0, 422, "a label alone makes no manager");
    assert_eq!(put(&api, path, &own, MANAGER).await.status, 201);
    let refused = api.send("DELETE", path, &[], "").await;
    assert_eq!((refused.problem().0, refused.problem().1.as_str()), (409, "ManagedBy"));
    assert!(refused.text.contains("kubectl uncordon n2"), "{}", refused.text);
    assert_eq!(api.put(path, &drain(json!({}))).await.problem().1, "ManagedBy");
    // Drains of operators have none.
    let by_hand = json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": "d"}, "spec": {"node": "n2", "reason": "x"}});
    assert_eq!(put(&api, "/api/v1/drains/d", &by_hand, MANAGER).await.status, 201);
    assert!(api.send("DELETE", "/api/v1/drains/d", &[], "").await.status.is_success());
    assert!(api.send("DELETE", path, &[("canopy-manager", MANAGER)], "").await.status.is_success());
}
