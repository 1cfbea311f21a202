// SPDX-License-Identifier: Apache-2.0
//! Degraded: data reaches every receiver that takes part, slower or later than it should.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use canopy_e2e::{Starved, clock};
use serde_json::{Value, json};

use super::bench::{Fault, Made, Watched, in_device, link_to, put_links};

/// All but r5 are receivers of `g`.
pub(super) const RECEIVERS: [&str; 4] = ["r1", "r2", "r3", "r4"];

pub(super) const FAULTS: [Fault; 6] = [
    Fault { name: "one slow receiver", make: slow_receiver },
    Fault { name: "congested link", make: congested },
    Fault { name: "flow table full", make: flow_table_full },
    Fault { name: "late receiver that is not ready", make: not_ready },
    Fault { name: "clock of a node", make: clock_of_a_node },
    Fault { name: "clock of the controller", make: clock_of_the_controller },
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

/// A link that takes less than the source sends: the source's window waits in its queue, above K_max.
struct Congested {
    node: String,
    port: String,
    /// The command that gives it its rate back.
    mends: String,
}

fn congest(w: &mut Watched) -> Congested {
    // A queue that is measured as a long path would raise K_max.
    put_links(&w.bed, |link| link["rttUs"] = json!(100));
    let (_, port) = link_to(&w.bed, "n2");
    let (node, interface) = port.split_once('/').map(|(n, i)| (n.to_owned(), i.to_owned())).unwrap();
    let slow =
        |rate: u32| format!("tc qdisc change dev {interface} root tbf rate {rate}mbit burst 125000 limit 4000000");
    let (makes, mends) = (slow(20), slow(1000));
    in_device(&w.bed, &node, &makes);
    Congested { node, port, mends }
}

fn congested(w: &mut Watched) -> Made {
    let Congested { node, port, mends } = congest(w);
    Made::new(format!("LinkCongested port/{port}"), &format!("node {node}"), "K_max is")
        .mended_by(move |w| in_device(&w.bed, &node, &mends))
}

/// The table of announced flows has no room when the group's copies meet a queue above K_min.
fn flow_table_full(w: &mut Watched) -> Made {
    let (node, _) = link_to(&w.bed, "n2").1.split_once('/').map(|(n, i)| (n.to_owned(), i.to_owned())).unwrap();
    let full = FullTable::of(w.bed.pins(&node).unwrap().join("eg_kept"));
    let Congested { port, mends, .. } = congest(w);
    let causes = vec![format!("FlowTableFull node/{node}"), format!("LinkCongested port/{port}")];
    let made = Made::new("", &format!("node {node}"), "flow_uncounted");
    Made { causes, ..made }.mended_by(move |w| {
        assert_eq!(w.phase(), "Ready", "data is forwarded");
        drop(full);
        in_device(&w.bed, &node, &mends);
    })
}

/// A map of the kernel with entries of no flow in place of all others, until this is dropped.
struct FullTable {
    map: PathBuf,
    keys: Vec<String>,
}

impl FullTable {
    fn of(map: PathBuf) -> Self {
        let shown = bpftool(&["-j", "map", "show", "pinned", map.to_str().unwrap()]);
        let number = |field: &str| shown[field].as_u64().unwrap() as usize;
        let (key, value) = (number("bytes_key"), number("bytes_value"));
        let hex = |octets: &[u8]| octets.iter().map(|o| format!("{o:02x}")).collect::<Vec<_>>().join(" ");
        let of = |n: usize| {
            let mut octets = vec![0; key];
            octets[..4].copy_from_slice(&(n as u32).to_be_bytes());
            hex(&octets)
        };
        let there = bpftool(&["-j", "map", "dump", "pinned", map.to_str().unwrap()]);
        let octets = |entry: &Value| {
            let all = entry["key"].as_array().unwrap().iter();
            all.map(|o| o.as_str().unwrap().trim_start_matches("0x").to_owned()).collect::<Vec<_>>().join(" ")
        };
        let there: Vec<String> = there.as_array().unwrap().iter().map(octets).collect();
        let full = Self { map, keys: (0..number("max_entries")).map(of).collect() };
        full.batch(&there, "delete", "");
        full.batch(&full.keys, "update", &format!(" value hex {}", hex(&vec![0; value])));
        full
    }

    fn batch(&self, keys: &[String], change: &str, rest: &str) {
        let map = self.map.display();
        let lines = keys.iter().map(|key| format!("map {change} pinned {map} key hex {key}{rest}\n"));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.collect::<String>().as_bytes()).unwrap();
        let out = Command::new("bpftool").args(["batch", "file"]).arg(file.path()).output().unwrap();
        assert!(out.status.success(), "{change}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

impl Drop for FullTable {
    fn drop(&mut self) {
        self.batch(&self.keys, "delete", "");
    }
}

fn bpftool(args: &[&str]) -> Value {
    let out = Command::new("bpftool").args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn clock_of_a_node(w: &mut Watched) -> Made {
    clock::start(&mut w.bed, Some("n4"), -600).unwrap();
    Made::new("ClockDiffers node/n4", "node n4", "behind the controller's").mended_by(|w| {
        assert_eq!(w.phase(), "Ready", "data does not suffer");
        clock::set(&w.bed, Some("n4"), 0).unwrap();
    })
}

/// Every node differs from it: it is the one that is wrong.
fn clock_of_the_controller(w: &mut Watched) -> Made {
    clock::start(&mut w.bed, None, 600).unwrap();
    w.bed.lab.wait_synced().unwrap();
    Made::new("ControllerClockDiffers controller/controller", "node n4", "it is ahead of the clocks of")
        .mended_by(|w| clock::set(&w.bed, None, 0).unwrap())
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
