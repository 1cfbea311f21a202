// SPDX-License-Identifier: Apache-2.0
//! Degraded: data reaches every receiver that takes part, slower or later than it should.

use canopy_e2e::Starved;
use serde_json::json;

use super::bench::{Fault, Made, Watched, in_device, link_to, put_links};

/// All but r5 are receivers of `g`.
pub(super) const RECEIVERS: [&str; 4] = ["r1", "r2", "r3", "r4"];

pub(super) const FAULTS: [Fault; 3] = [
    Fault { name: "one slow receiver", make: slow_receiver },
    Fault { name: "congested link", make: congested },
    Fault { name: "late receiver that is not ready", make: not_ready },
];

/// Its process gets the CPU for a twentieth of the time: every other receiver acknowledges before it.
fn slow_receiver(w: &mut Watched) -> Made {
    let starved = Starved::process(w.load.pid("r3").unwrap());
    Made::new("ReceiverSlow member/g/r3", "group g", "The source waits for r3 behind").mended_by(move |w| {
        let first =
            || w.bed.lab.rest("GET", "/api/v1/groups/g/waited-for?limit=1", None).unwrap().1["receivers"][0].clone();
        let is_it = |_: &_| Ok(first()["host"] == "r3" && first()["sharePpm"].as_u64() >= Some(900_000));
        w.bed.lab.wait("r3 to have nine tenths of the shares", is_it).unwrap();
        let top = w.canopyctl(&["top", "group", "g"]);
        println!("{top}");
        assert!(top.lines().nth(2).is_some_and(|row| row.starts_with("r3 ")), "{top}");
        drop(starved);
    })
}

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
