// SPDX-License-Identifier: Apache-2.0
//! Every kind of refusal, with its status, code and field. Catches a wrong mapping and an error that does not name the
//! field.

use serde_json::json;

use crate::support::{Api, group, member, topology, with};

#[tokio::test]
async fn what_is_not_there_is_404() {
    let api = Api::prepared().await;
    for path in [
        "/api/v1/nodes/n9",
        "/api/v1/nodes/n9/telemetry",
        "/api/v1/groups/g9",
        "/api/v1/groups/g9/members",
        "/api/v1/groups/g9/telemetry",
        "/api/v1/groups/g1/members/r1",
        "/api/v1/nowhere",
        "/x",
    ] {
        let (status, code, _) = api.get(path).await.problem();
        assert_eq!((status, code.as_str()), (404, "NotFound"), "{path}");
    }
    for path in ["/api/v1/groups/g9", "/api/v1/groups/g1/members/r1", "/api/v1/groups/g9/members/r1"] {
        assert_eq!(api.delete(path).await.problem().0, 404, "{path}");
    }
    assert_eq!(api.put("/api/v1/groups/g9/members/r1", &member("r1", "receiver", 17)).await.problem().0, 404);
    assert_eq!(Api::start().await.get("/api/v1/topology").await.problem().0, 404);
}

#[tokio::test]
async fn a_topology_that_makes_no_network_is_refused_whole() {
    let api = Api::start().await;
    let refused = async |change: fn(&mut serde_json::Value)| {
        let (status, code, errors) = api.put("/api/v1/topology", &with(topology(), change)).await.problem();
        assert_eq!((status, code.as_str()), (422, "Invalid"));
        errors.join("; ")
    };
    let e = refused(|t| _ = t["spec"]["links"].as_array_mut().unwrap().remove(0)).await;
    assert!(e.starts_with("spec.links: the topology does not connect: no path from \"n1\" to n2"), "{e}");
    let e = refused(|t| t["spec"]["links"][0]["b"] = json!("n9/eth1")).await;
    assert!(e.contains("spec.links[0].b: unknown node or host \"n9\""), "{e}");
    let e = refused(|t| t["spec"]["nodes"][1]["id"] = json!(57344)).await;
    assert!(e.starts_with("spec.nodes[1].id: ") && e.contains("57344"), "{e}");
    let e = refused(|t| t["spec"]["links"][0]["a"] = json!("n1")).await;
    assert!(e.starts_with("spec.links[0].a: ") && e.contains("device/port"), "{e}");
    assert_eq!(api.get("/api/v1/topology").await.status, 404);
}

#[tokio::test]
async fn members_that_make_no_sense_are_refused_by_field() {
    let api = Api::prepared().await;
    let refused = async |body: serde_json::Value| {
        let (status, _, errors) = api.post("/api/v1/groups/g1/members", &body).await.problem();
        assert!(status == 422 || status == 404, "{status}");
        errors.join("; ")
    };
    let e = refused(member("r1", "receiver", 0x100_0000)).await;
    assert!(e.starts_with("spec.qpn: ") && e.contains("24 bits"), "{e}");
    let e = refused(with(member("r1", "receiver", 17), |m| m["spec"]["address"] = json!("2001:db8:9::1"))).await;
    assert!(e.starts_with("spec.address: ") && e.contains("2001:db8:2::/64"), "{e}");
    let e = refused(member("h9", "receiver", 17)).await;
    assert!(e.starts_with("spec.host: ") && e.contains("h9"), "{e}");
    let e = refused(member("r1", "listener", 17)).await;
    assert!(e.starts_with("spec.role: ") && e.contains("listener"), "{e}");
    let e = refused(with(member("r1", "receiver", 17), |m| m["metadata"]["group"] = json!("g2"))).await;
    assert!(e.starts_with("metadata.group: "), "{e}");
    let (status, _, errors) = api.put("/api/v1/groups/g1/members/r2", &member("r1", "receiver", 17)).await.problem();
    assert!(status == 422 && errors[0].starts_with("spec.host: "), "{errors:?}");
    assert_eq!(api.get("/api/v1/groups/g1/members").await.json()["items"], json!([]));
}

#[tokio::test]
async fn joining_twice_is_a_success_only_with_the_same_content() {
    let api = Api::prepared().await;
    let path = "/api/v1/groups/g1/members";
    assert_eq!(api.post(path, &member("r1", "receiver", 17)).await.status, 201);
    assert_eq!(api.post(path, &member("r1", "receiver", 17)).await.status, 200);
    let (status, code, _) = api.post(path, &member("r1", "receiver", 18)).await.problem();
    assert_eq!((status, code.as_str()), (409, "AlreadyExists"));
    assert_eq!(api.get("/api/v1/groups/g1/members/r1").await.json()["spec"]["qpn"], 17);
    let (status, code, _) = api.post("/api/v1/groups", &group("g1")).await.problem();
    assert_eq!((status, code.as_str()), (409, "AlreadyExists"));
}

#[tokio::test]
async fn unknown_keys_are_errors_wherever_they_are() {
    let api = Api::prepared().await;
    let refused = async |change: fn(&mut serde_json::Value)| {
        let (status, code, errors) = api.put("/api/v1/groups/g2", &with(group("g2"), change)).await.problem();
        assert_eq!((status, code.as_str()), (422, "Invalid"));
        errors.join("; ")
    };
    let e = refused(|g| g["spec"]["pathMtux"] = json!(1024)).await;
    assert!(e.starts_with("spec.pathMtux: unknown field `pathMtux`"), "{e}");
    let e = refused(|g| g["metadata"]["nmae"] = json!("x")).await;
    assert!(e.starts_with("metadata.nmae: unknown field"), "{e}");
    let e = refused(|g| g["extra"] = json!(1)).await;
    assert!(e.starts_with("extra: unknown field"), "{e}");
    assert_eq!(
        refused(|g| g["spec"]["pathMtu"] = json!(1000)).await,
        "spec.pathMtu: 1000 is not an RDMA path MTU: use 256, 512, 1024, 2048 or 4096"
    );
    let e = refused(|g| g["kind"] = json!("Pod")).await;
    assert!(e.starts_with("kind: \"Pod\" does not belong here"), "{e}");
    let e = refused(|g| g["apiVersion"] = json!("v2")).await;
    assert!(e.starts_with("apiVersion: "), "{e}");
    let e = refused(|g| g["metadata"]["tenant"] = json!("No tenant")).await;
    assert!(e.starts_with("metadata.tenant: "), "{e}");
    let e = refused(|g| g["metadata"]["name"] = json!("g3")).await;
    assert!(e.starts_with("metadata.name: "), "{e}");
    let (status, code, errors) = api.get("/api/v1/groups?limt=3").await.problem();
    assert!((status, code.as_str()) == (400, "BadRequest") && errors[0].contains("limt"), "{errors:?}");
    assert_eq!(api.get("/api/v1/groups/g2").await.status, 404);
}

#[tokio::test]
async fn unreadable_bodies_are_refused_with_a_reason() {
    let api = Api::prepared().await;
    let json_type = [("content-type", "application/json")];
    for bad in ["{", "{\"apiVersion\": ", "nonsense", "", "{} {}"] {
        let answer = api.send("PUT", "/api/v1/groups/g2", &json_type, bad).await;
        assert!(answer.status == 400 || answer.status == 422, "{bad:?}: {}", answer.text);
        answer.problem();
    }
    let (status, code, _) = api.send("PUT", "/api/v1/groups/g2", &json_type, "{").await.problem();
    assert_eq!((status, code.as_str()), (400, "MalformedJson"));
    let large = vec![b' '; canopy_controller_rest::MAX_BODY_BYTES + 1];
    let (status, code, _) = api.send("PUT", "/api/v1/groups/g2", &json_type, large).await.problem();
    assert_eq!((status, code.as_str()), (413, "BodyTooLarge"));
    // A topology may be larger than all else.
    for (octets, wanted) in [
        (canopy_controller_rest::MAX_BODY_BYTES + 1, (400, "MalformedJson")),
        (canopy_controller_rest::MAX_TOPOLOGY_BYTES + 1, (413, "BodyTooLarge")),
    ] {
        let (status, code, _) = api.send("PUT", "/api/v1/topology", &json_type, vec![b' '; octets]).await.problem();
        assert_eq!((status, code.as_str()), wanted, "{octets}");
    }
    // Content types that a form on a web page can send without a preflight.
    for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let (status, code, _) = api
            .send("PUT", "/api/v1/groups/g2", &[("content-type", content_type)], group("g2").to_string())
            .await
            .problem();
        assert_eq!((status, code.as_str()), (415, "UnsupportedMediaType"));
    }
    let (status, code, _) = api.send("PATCH", "/api/v1/groups/g1", &json_type, "{}").await.problem();
    assert_eq!((status, code.as_str()), (405, "MethodNotAllowed"));
    assert_eq!(api.get("/api/v1/groups/g2").await.status, 404);
}

#[tokio::test]
async fn a_change_to_something_that_changed_meanwhile_is_412() {
    let api = Api::prepared().await;
    let tag = api.get("/api/v1/groups/g1").await.header("etag").to_owned();
    let change = with(group("g1"), |g| g["spec"]["pathMtu"] = json!(1024));
    let put = async |tag: &str, body: &serde_json::Value| {
        api.send(
            "PUT",
            "/api/v1/groups/g1",
            &[("content-type", "application/json"), ("if-match", tag)],
            body.to_string(),
        )
        .await
    };
    let changed = put(&tag, &change).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), tag);
    let (status, code, _) = put(&tag, &group("g1")).await.problem();
    assert_eq!((status, code.as_str()), (412, "PreconditionFailed"));
    assert_eq!(api.get("/api/v1/groups/g1").await.json()["spec"]["pathMtu"], 1024);
    let delete = async |path: &str, tag: &str| api.send("DELETE", path, &[("if-match", tag)], "").await.status.as_u16();
    assert_eq!(delete("/api/v1/groups/g1", &tag).await, 412);
    // A group that was deleted and created again with the same generation is another group.
    let old = api.put("/api/v1/groups/g3", &group("g3")).await.header("etag").to_owned();
    assert_eq!(api.delete("/api/v1/groups/g3").await.status, 204);
    assert_eq!(api.put("/api/v1/groups/g3", &group("g3")).await.status, 201);
    assert_eq!(delete("/api/v1/groups/g3", &old).await, 412);
    assert_eq!(delete("/api/v1/groups/g3", "*").await, 204);
    let (status, _, errors) = api.send("DELETE", "/api/v1/groups/g1", &[("if-match", "7")], "").await.problem();
    assert!(status == 400 && errors[0].starts_with("If-Match: "), "{errors:?}");
    // Creates, and never replaces.
    let create = async |tag: &str| {
        let headers = [("content-type", "application/json"), ("if-none-match", tag)];
        api.send("PUT", "/api/v1/groups/g4", &headers, group("g4").to_string()).await
    };
    let created = create("*").await;
    assert_eq!(created.status, 201);
    let metadata = &created.json()["metadata"];
    assert_eq!(created.header("etag"), format!("\"{}.1\"", metadata["uid"].as_str().unwrap()));
    assert!(
        metadata["createdUnixNs"].as_u64() > Some(1 << 60) && metadata["createdUnixNs"] == metadata["writtenUnixNs"]
    );
    assert_eq!(metadata["writtenBy"], json!({"kind": "operator"}));
    let (status, code, _) = create("*").await.problem();
    assert_eq!((status, code.as_str()), (412, "PreconditionFailed"));
    let (status, _, errors) = create("\"7\"").await.problem();
    assert!(status == 400 && errors[0].starts_with("If-None-Match: "), "{errors:?}");
    let topology_tag = api.get("/api/v1/topology").await.header("etag").to_owned();
    assert_eq!(delete("/api/v1/topology", "\"99\"").await, 412);
    assert_eq!(delete("/api/v1/topology", &topology_tag).await, 204);
}

#[tokio::test]
async fn a_topology_in_use_cannot_be_deleted() {
    let api = Api::prepared().await;
    api.post("/api/v1/groups/g1/members", &member("r1", "receiver", 17)).await;
    let (status, code, _) = api.delete("/api/v1/topology").await.problem();
    assert_eq!((status, code.as_str()), (409, "InUse"));
}
