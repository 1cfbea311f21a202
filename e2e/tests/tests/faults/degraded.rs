// SPDX-License-Identifier: Apache-2.0
//! Degraded: data reaches every receiver that takes part, slower or later than it should.

use serde_json::json;

use super::bench::{Fault, Made, Watched, in_device, link_to, put_links};

/// All but r5 are receivers of `g`.
pub(super) const RECEIVERS: [&str; 4] = ["r1", "r2", "r3", "r4"];

pub(super) const FAULTS: [Fault; 2] = [
    Fault { name: "congested link", make: congested },
    Fault { name: "late receiver that is not ready", make: not_ready },
];

/// The link takes less than the source sends: the source's window waits in its queue, above K_max.
fn congested(w: &mut Watched) -> Made {
    // A queue that is measured as a long path would raise K_max.
    put_links(&w.bed, |link| link["rttUs"] = json!(100));
    let (_, port) = link_to(&w.bed, "n2");
    let (node, interface) = port.split_once('/').map(|(n, i)| (n.to_owned(), i.to_owned())).unwrap();
    let slow =
        |rate: u32| format!("tc qdisc change dev {interface} root tbf rate {rate}mbit burst 125000 limit 4000000");
    let (to, fro) = (slow(20), slow(1000));
    in_device(&w.bed, &node, &to);
    Made::new(format!("LinkCongested port/{port}"), &format!("node {node}"), "K_max is")
        .mended_by(move |w| in_device(&w.bed, &node, &fro))
}

/// It joins while data flows, and no queue pair of that number answers the edge's probe.
fn not_ready(w: &mut Watched) -> Made {
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r5"},
        "spec": {"host": "r5", "role": "receiver", "qpn": 0x77}});
    let (status, body) = w.bed.lab.rest("POST", "/api/v1/groups/g/members", Some(&member)).unwrap();
    assert_eq!(status, 201, "{body}");
    Made::new("ReceiverNotReady member/g/r5", "group g", "its edge probes the queue pair").mended_by(|w| {
        let (status, body) = w.bed.lab.rest("DELETE", "/api/v1/groups/g/members/r5", None).unwrap();
        assert!(status < 300, "{status}: {body}");
    })
}
