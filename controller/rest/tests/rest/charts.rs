// SPDX-License-Identifier: Apache-2.0
//! Chart data over the real router: readings of a node in, points and refusals out.

use std::collections::BTreeMap;

use canopy_model::ids::{GroupId, PortIndex};
use canopy_model::telemetry::{GroupTelemetry, LinkLoss};
use canopy_units::UnixTime;
use serde_json::json;

use crate::support::{Api, member};

/// Catches a share that is not multiplied with those above it, one of another receiver, and a second without data that counts.
#[tokio::test]
async fn the_strip_of_a_group_has_the_shares_of_its_receivers_by_second() {
    let api = Api::prepared().await;
    for (host, role, qpn) in [("s1", "source", 17), ("r1", "receiver", 18), ("r2", "receiver", 19)] {
        assert_eq!(api.post("/api/v1/groups/g1/members", &member(host, role, qpn)).await.status, 201);
    }
    let path = "/api/v1/groups/g1/waited-for/strip";
    let empty = api.get(path).await.json();
    assert_eq!(empty["receivers"][0]["minutePpm"], serde_json::Value::Null);
    let id = api.controller.read(|d| d.group("g1")).unwrap().status.group_id;
    let edge = api.controller.read(|d| d.node("n2")).unwrap().spec.node_address.to_string();
    // PSNs by which each branch has raised the minimum of its node: r2 of three in four; nothing in the third second.
    let completed = |second: u64, of: &[(&str, u64)]| -> BTreeMap<GroupId, GroupTelemetry> {
        let moved = [0, 100, 200, 200][second as usize];
        let branch = |(address, each): &(&str, u64)| {
            json!({"address": address, "next": moved, "unconfirmed": false, "ackPsn": null, "epsn": null, "ccount": 0, "lastFeedbackNs": null,
                "packets": moved, "bytes": moved * 1000, "completedMin": moved * each / 4})
        };
        let sample = json!({"groupId": id, "epoch": 1, "high": moved, "minNext": moved, "acksIn": 0, "acksOut": 0, "naksIn": 0, "naksOut": 0,
            "cnpsIn": 0, "cnpsOut": 0, "dataPackets": moved, "dataBytes": moved * 1000, "drops": [],
            "branches": of.iter().map(branch).collect::<Vec<_>>()});
        BTreeMap::from([(id, serde_json::from_value(sample).unwrap())])
    };
    for second in 0..4 {
        let taken = UnixTime::from_nanos((50 + second) * 1_000_000_000);
        for (node, branches) in
            [("n1", &[(edge.as_str(), 4)][..]), ("n2", &[("2001:db8:2::1", 1), ("2001:db8:3::1", 3)][..])]
        {
            let sample = completed(second, branches);
            let progress = api.controller.telemetry().progress(node, &sample);
            api.controller.chart_groups(node, taken, &sample, &progress, false);
        }
    }
    let strip = api.get(path).await.json();
    let rows: Vec<_> =
        strip["receivers"].as_array().unwrap().iter().map(|r| (&r["host"], &r["node"], &r["minutePpm"])).collect();
    assert_eq!(json!(rows), json!([["r2", "n2", 750_000], ["r1", "n2", 250_000]]));
    assert_eq!(strip["receivers"][0]["sharesPpm"].as_array().unwrap().len(), 300);
    let one = api.get(&format!("{path}?limit=1")).await.json();
    assert_eq!((one["receivers"].as_array().unwrap().len(), &one["left"]), (1, &json!(1)));
    // Any numbers of an agent are taken.
    for second in 4..6 {
        let mut sample = completed(3, &[("2001:db8:2::1", 1), ("2001:db8:3::1", 3)]);
        sample.values_mut().flat_map(|s| &mut s.branches).for_each(|branch| branch.completed_min = Some(u64::MAX));
        api.controller.chart_groups(
            "n2",
            UnixTime::from_nanos((50 + second) * 1_000_000_000),
            &sample,
            &Default::default(),
            false,
        );
    }
    assert_eq!(api.get(path).await.status, 200);
    assert_eq!(api.get("/api/v1/groups/none/waited-for/strip").await.problem().0, 404);
    assert_eq!(api.get(&format!("{path}?limit=0")).await.problem().0, 400);
}

fn telemetry(id: GroupId, packets: u64) -> BTreeMap<GroupId, GroupTelemetry> {
    let sample = json!({"groupId": id, "epoch": 1, "high": packets, "minNext": packets - 5, "acksIn": 0, "acksOut": 0, "naksIn": 0, "naksOut": 0,
        "cnpsIn": 0, "cnpsOut": 0, "dataPackets": packets, "dataBytes": packets * 1000, "branches": [], "drops": []});
    BTreeMap::from([(id, serde_json::from_value(sample).unwrap())])
}

#[tokio::test]
async fn what_a_headend_counts_becomes_the_rates_of_its_group() {
    let api = Api::prepared().await;
    for (host, role, qpn) in [("s1", "source", 17), ("r1", "receiver", 18)] {
        assert_eq!(api.post("/api/v1/groups/g1/members", &member(host, role, qpn)).await.status, 201);
    }
    let (status, _, _) = api.get("/api/v1/charts?object=group/g1").await.problem();
    assert_eq!(status, 404);
    let id = api.controller.read(|d| d.group("g1")).unwrap().status.group_id;
    // The samples are a second apart by the node's clock, wherever the controller's is.
    for second in 0..3 {
        let sample = telemetry(id, 1000 + second * 100);
        let taken = UnixTime::from_nanos((50 + second) * 1_000_000_000);
        let progress = api.controller.telemetry().progress("n1", &sample);
        api.controller.chart_groups("n1", taken, &sample, &progress, false);
        let loss =
            LinkLoss { port: PortIndex::new("port", 1).unwrap(), requests: second * 10, lost: second, queue_drops: 0 };
        api.controller.chart_links("n1", taken, &[loss], &[], &[]);
    }
    let answer = api.get("/api/v1/charts?object=group/g1").await;
    assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (200, "no-store"), "{}", answer.text);
    let charts = answer.json();
    let all = charts["series"].as_array().unwrap();
    let last = |name: &str| {
        let series = all.iter().find(|s| s["series"] == name).unwrap_or_else(|| panic!("{name} in {charts}"));
        let points: Vec<_> = series["points"].as_array().unwrap().iter().filter(|p| !p.is_null()).cloned().collect();
        (series["unit"].as_str().unwrap().to_owned(), points.last().unwrap().clone())
    };
    assert_eq!(last("packets"), ("perSecond".to_owned(), json!([100.0, 100.0])));
    assert_eq!(last("bytes"), ("bytesPerSecond".to_owned(), json!([100_000.0, 100_000.0])));
    assert_eq!(last("goodput"), ("bytesPerSecond".to_owned(), json!([100_000.0, 100_000.0])));
    assert_eq!(last("outstanding"), ("packets".to_owned(), json!([5.0, 5.0])));
    assert!(all[0]["points"].as_array().unwrap().iter().filter(|p| p.is_null()).count() > 250, "gaps stay gaps");
    let loss = api.get("/api/v1/charts?object=link/n1/eth1&series=loss").await.json();
    assert_eq!((loss["series"].as_array().unwrap().len(), &loss["series"][0]["unit"]), (1, &json!("share")));

    for (query, field) in [
        ("", "query: "),
        ("?object=pod/x", "object: "),
        ("?object=group/g1&series=x", "series: "),
        ("?object=group/g1&step=0", "step: "),
        ("?object=group/g1&step=x", "step: "),
        ("?object=group/g1&from=18446744073709551615", "from: "),
        ("?object=group/g1&from=1", "step: "),
        ("?object=group/g1&to=0&from=9", "from: "),
        ("?object=group/g1&x=1", "x: "),
    ] {
        let (status, _, errors) = api.get(&format!("/api/v1/charts{query}")).await.problem();
        assert_eq!(status, 400, "{query}");
        assert!(errors[0].starts_with(field), "{query}: {errors:?}");
    }
    assert_eq!(api.delete("/api/v1/groups/g1").await.status, 204);
    assert_eq!(api.get("/api/v1/charts?object=group/g1").await.status, 404);
    let sample = telemetry(id, 5000);
    api.controller.chart_groups("n1", UnixTime::from_nanos(54_000_000_000), &sample, &Default::default(), false);
    assert_eq!(api.get("/api/v1/charts?object=group/g1").await.status, 404, "a late sample brings nothing back");
}
