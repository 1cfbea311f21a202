// SPDX-License-Identifier: Apache-2.0
//! Filters of lists: labels, fields and phases, in pages.

use serde_json::{Value, json};

use crate::support::{Answer, Api, group, member};

fn named(answer: &Answer) -> Vec<String> {
    let list = answer.json();
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The names of all pages, two a page.
async fn paged(api: &Api, kind: &str, filter: &str) -> String {
    let (mut all, mut path) = (Vec::new(), format!("/api/v1/{kind}?limit=2&{filter}"));
    loop {
        let page = api.get(&path).await;
        all.extend(named(&page));
        match page.json()["metadata"]["continue"].as_str() {
            Some(next) => path = format!("/api/v1/{kind}?limit=2&{filter}&continue={next}"),
            None => return all.join(" "),
        }
    }
}

fn labelled(name: &str, labels: Value) -> Value {
    let mut group = group(name);
    group["metadata"]["labels"] = labels;
    group
}

#[tokio::test]
async fn groups_are_selected_by_label_field_and_phase() {
    let api = Api::prepared().await;
    for (i, team) in ["a", "b", "c", "a", "b"].into_iter().enumerate() {
        let name = format!("t{i}");
        let group = labelled(&name, json!({"team": team, "n": i.to_string()}));
        assert_eq!(api.put(&format!("/api/v1/groups/{name}"), &group).await.status, 201);
    }
    api.post("/api/v1/groups/g1/members", &member("s1", "source", 18)).await;
    api.post("/api/v1/groups/g1/members", &member("r1", "receiver", 17)).await;
    let phase = api.get("/api/v1/groups/g1").await.json()["status"]["phase"].clone();
    assert_eq!(phase, "Programming");
    for (filter, names) in [
        ("labelSelector=team%20in%20(a,c)", "t0 t2 t3"),
        ("labelSelector=team%20notin%20(a,c)", "g1 t1 t4"),
        ("labelSelector=!team", "g1"),
        ("labelSelector=team%3Da,n!%3D0", "t3"),
        ("labelSelector=team%3Da&phase=Pending", "t0 t3"),
        ("labelSelector=team%3Da&phase=Ready", ""),
        ("labelSelector=team!%3Da&phase=Pending", "t1 t2 t4"),
        ("phase=Programming", "g1"),
        ("namePrefix=t", "t0 t1 t2 t3 t4"),
        ("namePrefix=t3", "t3"),
        ("namePrefix=s", ""),
        ("namePrefix=t&labelSelector=team%3Da", "t0 t3"),
        ("namePrefix=t&phase=Pending&labelSelector=team!%3Da", "t1 t2 t4"),
        ("namePrefix=g&phase=Pending", ""),
        ("namePrefix=g&fieldSelector=phase!%3DPending", "g1"),
        ("phase=Pending", "t0 t1 t2 t3 t4"),
        ("fieldSelector=phase%3DPending", "t0 t1 t2 t3 t4"),
        ("fieldSelector=phase!%3DPending", "g1"),
        ("fieldSelector=phase%3DPending&phase=Programming", ""),
        ("fieldSelector=source%3Ds1", "g1"),
        ("fieldSelector=source%3D,name!%3Dt1", "t0 t2 t3 t4"),
        ("fieldSelector=tenant%3Ddefault,name%3Dt1", "t1"),
        ("fieldSelector=tenant%3Dother", ""),
    ] {
        assert_eq!(paged(&api, "groups", filter).await, names, "{filter}");
    }
    // The index follows what becomes of a group.
    assert_eq!(api.delete("/api/v1/groups/t2").await.status, 204);
    api.delete("/api/v1/groups/g1/members/r1").await;
    assert_eq!(paged(&api, "groups", "phase=Pending").await, "g1 t0 t1 t3 t4");
    assert_eq!(paged(&api, "groups", "phase=Programming").await, "");
}

#[tokio::test]
async fn other_lists_are_selected_by_their_fields() {
    let api = Api::prepared().await;
    let drain = |name: &str, node: &str| {
        json!({"apiVersion": "canopy/v1", "kind": "Drain", "metadata": {"name": name, "labels": {"for": name}},
            "spec": {"node": node, "reason": "fans", "acceptLoss": true}})
    };
    for (name, node) in [("d1", "n1"), ("d2", "n2")] {
        assert_eq!(api.post("/api/v1/drains", &drain(name, node)).await.status, 201);
    }
    let _watched = api.controller.watch_node("n2");
    let _connected = api.controller.agent_connected("n2");
    for (path, names) in [
        ("drains?labelSelector=for%20in%20(d2,d3)", vec!["d2"]),
        ("drains?fieldSelector=node%3Dn1", vec!["d1"]),
        ("drains?fieldSelector=node!%3Dn1,link%3D", vec!["d2"]),
        ("nodes?fieldSelector=connected%3Dtrue", vec!["n2"]),
        ("nodes?fieldSelector=synced%3Dfalse,name!%3Dn2", vec!["n1"]),
        ("nodes?fieldSelector=state%3DNotReported", vec!["n2"]),
        ("nodes?nameContains=1", vec!["n1"]),
        ("hosts?nameContains=r&fieldSelector=name!%3Dr1", vec!["r2"]),
        ("links?fieldSelector=queue%3DAboveKMax", vec![]),
        ("hosts?fieldSelector=node%3Dn1", vec!["s1"]),
        ("hosts?fieldSelector=port%3DUp", vec![]),
        ("links?fieldSelector=drained%3Dfalse,node%3Dn2", vec!["n2/eth2", "n2/eth3"]),
    ] {
        assert_eq!(named(&api.get(&format!("/api/v1/{path}")).await), names, "{path}");
    }
    let all = named(&api.get("/api/v1/links").await);
    let of_n1 = named(&api.get("/api/v1/links?fieldSelector=node%3Dn1,drained%3Dtrue").await);
    assert!(!of_n1.is_empty() && of_n1.len() < all.len(), "{of_n1:?} of {all:?}");
    assert!(of_n1.iter().all(|name| name.starts_with("n1/")), "{of_n1:?}");
    // Pages are short, and have every direction once, in the order of node and port.
    assert_eq!(paged(&api, "links", "").await, all.join(" "));
    assert_eq!(paged(&api, "links", "fieldSelector=state!%3DInService").await, all.join(" "), "all nodes are drained");
    assert!(all.is_sorted(), "{all:?}");
    assert_eq!(paged(&api, "nodes", "summary=true").await, "n1 n2");
    let ports =
        |node: &Value| (node["spec"]["ports"].as_array().unwrap().len() as u64, node["spec"]["portCount"].clone());
    let [whole, summary] = ["", "?summary=true"].map(|query| format!("/api/v1/nodes{query}"));
    let (whole, summary) = (api.get(&whole).await.json(), api.get(&summary).await.json());
    let (count, without) = (ports(&whole["items"][0]), ports(&summary["items"][0]));
    assert!(count.0 > 0 && count.1 == json!(count.0) && without == (0, count.1.clone()), "{count:?} {without:?}");
    let to = api.get("/api/v1/links").await.json()["items"][0]["spec"]["to"].as_str().unwrap().to_owned();
    assert_eq!(named(&api.get(&format!("/api/v1/links?fieldSelector=to%3D{to}")).await).len(), 1);
}

/// Catches a filter that is ignored where it is wrong, and an answer that does not have what is possible.
#[tokio::test]
async fn a_wrong_selector_is_refused_with_position_and_what_is_possible() {
    let api = Api::prepared().await;
    for (path, parts) in [
        ("groups?labelSelector=a%20in%20b", ["labelSelector: ", "character 6", "key in (a,b)"]),
        ("drains?labelSelector=%3Db", ["labelSelector: ", "character 1", "!key"]),
        ("groups?fieldSelector=phse%3DReady", ["fieldSelector: ", "character 1", "name, phase, source, tenant"]),
        ("groups?fieldSelector=phase%3Dready", ["fieldSelector: ", "character 7", "Pending, Programming, Ready"]),
        ("groups?phase=ready", ["phase: ", "`ready`", "`Ready`"]),
        ("nodes?fieldSelector=connected%3Dyes", ["fieldSelector: ", "character 11", "true, false"]),
        ("hosts?fieldSelector=phase%3DReady", ["fieldSelector: ", "character 1", "name, node, port"]),
        (
            "links?fieldSelector=drained",
            ["fieldSelector: ", "character 8", "drained, link, name, node, queue, state, to"],
        ),
        ("problems?fieldSelector=severity%3Dbad", ["fieldSelector: ", "character 10", "critical, warning, info"]),
        ("groups?watch=true&phase=Ready", ["phase: ", "watch=true", "a stream has everything"]),
        ("nodes?watch=true&fieldSelector=name%3Da", ["fieldSelector: ", "watch=true", "a stream has everything"]),
    ] {
        let (status, _, errors) = api.get(&format!("/api/v1/{path}")).await.problem();
        assert_eq!(status, 400, "{path}");
        assert!(parts.iter().all(|part| errors[0].contains(part)), "{path}: {errors:?}");
    }
    for path in ["links?labelSelector=a", "hosts?labelSelector=a", "drains?limit=1"] {
        assert_eq!(api.get(&format!("/api/v1/{path}")).await.problem().0, 400, "{path}");
    }
}
