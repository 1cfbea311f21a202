// SPDX-License-Identifier: Apache-2.0
//! Agents that connect over TLS with certificates of the controller's authority: enrolled by tokens, renewed, revoked under traffic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::{Duration, Instant};

use canopy_e2e::{Bed, up_managed};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

fn is_connected(bed: &Bed, node: &str) -> bool {
    bed.lab.rest("GET", &format!("/api/v1/nodes/{node}"), None).unwrap().1["status"]["connected"] == true
}

fn log_of(bed: &Bed, program: &str) -> String {
    fs::read_to_string(bed.lab.dir().join(format!("log/{program}.log"))).unwrap()
}

fn events(bed: &Bed, code: &str) -> Vec<Value> {
    let (_, events) = bed.lab.rest("GET", &format!("/api/v1/events?limit=4000&code={code}"), None).unwrap();
    events["items"].as_array().unwrap().clone()
}

/// Catches an agent that falls back to another way to the controller, a revocation that stops forwarding or leaves a stream open, and an
/// agent that has to be restarted after it was enrolled again.
#[test]
fn a_node_that_is_revoked_under_traffic_forwards_and_comes_back_when_it_is_enrolled() {
    let bed = up_managed("figure1").unwrap();
    assert!(log_of(&bed, "controller").contains("node/n1 at 198.18."), "agents do not connect over TLS");
    assert_eq!(events(&bed, "Enrolled").len(), NODES.len());
    bed.lab.create_group("g", json!({"pathMtu": 4096})).unwrap();
    bed.limit("s1", 40).unwrap();
    let mut spec =
        TransferSpec { timeout: Duration::from_secs(300), ..TransferSpec::new("g", "s1", &RECEIVERS, 64 << 20) };
    // Longer than any pause of a busy machine: what is retransmitted was lost.
    spec.args.insert("s1".into(), ["--timeout", "20s"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("data to be acknowledged", |_| Ok(bed.group("g")?["delivery"]["state"] == "Flowing")).unwrap();

    let printed = bed.canopyctl(&["node", "revoke", "n4"]).unwrap();
    assert!(printed.contains("node n4"), "{printed}");
    bed.lab.wait("the revoked agent to be disconnected", |_| Ok(!is_connected(&bed, "n4"))).unwrap();
    bed.lab
        .wait("the agent to log why", |_| Ok(log_of(&bed, "agent-n4").contains("CertificateRevoked")))
        .unwrap_or_else(|e| panic!("{e:#}\n{}", log_of(&bed, "agent-n4")));
    for node in NODES.iter().filter(|node| **node != "n4") {
        assert!(is_connected(&bed, node), "{node} was not revoked");
    }
    // Enrolled again while it runs.
    bed.lab.enroll("n4").unwrap();
    bed.lab.wait("the agent to be connected again", |_| Ok(is_connected(&bed, "n4"))).unwrap();
    bed.lab.wait_synced().unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert_eq!(report.mismatches(), Vec::<&str>::new());
    assert_eq!(report.source.more["retransmitted"], 0, "the data path depends on the agent's certificate");

    // Over a restart of the controller what is revoked stays so, and the others connect by themselves.
    bed.canopyctl(&["node", "revoke", "n6"]).unwrap();
    let mut bed = bed;
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    bed.lab
        .wait("every other agent to be connected", |_| Ok(NODES[..5].iter().all(|n| is_connected(&bed, n))))
        .unwrap();
    assert!(!is_connected(&bed, "n6"));
}

/// Certificates that last a minute, for half an hour.
#[test]
#[ignore = "half an hour: `make test-deep`"]
fn certificates_of_a_minute_are_renewed_without_a_gap() {
    let mut bed = up_managed("figure1").unwrap();
    bed.lab.set_environment(None, &[("CANOPY__IDENTITY__CERTIFICATE_LIFETIME", "60s")]);
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    NODES.iter().for_each(|node| bed.lab.enroll(node).unwrap());
    for node in NODES {
        bed.lab.kill_agent(node).unwrap();
        bed.lab.start_agent(node).unwrap();
    }
    bed.lab.wait_synced().unwrap();
    let end = Instant::now() + Duration::from_secs(1800);
    let mut longest = Duration::ZERO;
    let mut since: [Option<Instant>; 6] = [None; 6];
    while Instant::now() < end {
        for (node, since) in NODES.iter().zip(&mut since) {
            match (is_connected(&bed, node), *since) {
                (true, _) => *since = None,
                (false, None) => *since = Some(Instant::now()),
                (false, Some(began)) => longest = longest.max(began.elapsed()),
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let renewals = log_of(&bed, "controller").matches("renewed a certificate").count();
    eprintln!("longest gap {longest:?}, {renewals} renewals");
    assert!(renewals >= 6 * 50, "{renewals} renewals");
    assert!(longest < Duration::from_secs(1), "a stream was gone for {longest:?}");
}
