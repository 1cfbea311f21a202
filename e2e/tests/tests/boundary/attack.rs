// SPDX-License-Identifier: Apache-2.0
//! Attacks with frames that scapy makes, and where they are counted or captured.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use canopy_e2e::capture::{Capture, Way};
use canopy_e2e::{Bed, PortDrops};
use serde_json::{Value, json};

/// How often each frame is sent.
pub(super) const COUNT: u64 = 3;
/// Flow label of every header that scapy makes: by it a copy of a forged packet is found wherever it arrives.
const FLOW_LABEL: u64 = 0xBADBD;
/// Capture filter for such packets.
pub(super) const FORGED: &str = "(ip6 and ip6[0:4] & 0x000fffff = 0x000badbd)";

pub(super) fn output(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

pub(super) fn ip(bed: &Bed, device: &str, args: &str) -> String {
    output(bed.lab.command(device, "ip").unwrap().args(args.split(' ')))
}

pub(super) fn tc(bed: &Bed, device: &str, args: &str) -> String {
    output(bed.lab.command(device, "tc").unwrap().args(args.split(' ')))
}

pub(super) fn mac(bed: &Bed, device: &str, interface: &str) -> String {
    let links: Value = serde_json::from_str(&ip(bed, device, &format!("-j link show dev {interface}"))).unwrap();
    links[0]["address"].as_str().unwrap().into()
}

/// What the attacks need to know, which a hostile host can learn or guess.
pub(super) fn targets(bed: &Bed, group: &str) -> Value {
    let status = bed.group(group).unwrap();
    let (connection, tree) = (status["connection"].clone(), status["treeId"].as_u64().unwrap());
    let (high, low) = (tree >> 16, tree & 0xFFFF);
    let trees = [6, 4, 5].map(|n| format!("5f00:0:{n}:f002:{high:x}:{low:x}::"));
    let by_usids = format!("5f00:0:5:3:f002:{high:x}:{low:x}:0");
    let node = |n: u8| format!("fcff:0:0:{n}::1");
    json!({
        "proxy": connection["proxyAddress"],
        "dqpn": connection["designatedQpn"],
        "start": connection["startPsn"],
        "source": "2001:db8:0:100::1",
        "nodes": [node(1), node(3), node(4), node(6)],
        "end_mt": ["5f00:0:1:f001::", "5f00:0:3:f001::"],
        "trees": trees,
        // A list of uSIDs that ends in a Replication-SID and in an End.MT SID.
        "uns": ["5f00:0:4::", "5f00:0:6:4:1:f001::", by_usids],
        "multicast": "ff3e::8000:1",
        "gateway": "fe80::1",
        "link_local": "fe80::abcd",
        // A member of the group, and where an interface outside the topology leads to.
        "peer": "2001:db8:0:3::1",
        "beyond": "2001:db8:99::1",
        "count": COUNT,
        "label": FLOW_LABEL,
    })
}

/// The same for attacks of `attacks` from `host` behind `port` of `node`, in the network 2001:db8:0:`network`::/64.
pub(super) fn from_host(bed: &Bed, targets: &Value, attacks: &[&str], (host, node, port, network): Attacker) -> Value {
    let mut what = targets.clone();
    let own: Value = serde_json::from_str(&ip(bed, node, &format!("-j -6 addr show dev {port}"))).unwrap();
    let of_port = |a: &&Value| a["local"] != "fe80::1";
    what["attacks"] = json!(attacks);
    what["interface"] = json!("eth0");
    what["mac"] = json!(mac(bed, node, port));
    what["host"] = json!(format!("2001:db8:0:{network}::1"));
    what["port"] = own[0]["addr_info"].as_array().unwrap().iter().find(of_port).unwrap()["local"].clone();
    if host == "s1" {
        // Its own name is the source's.
        what["source"] = json!("2001:db8:0:3::1");
    }
    what
}

/// A host that attacks, its node and port, and its prefix's fourth group.
pub(super) type Attacker = (&'static str, &'static str, &'static str, &'static str);

/// Sends the attacks from `device`; returns the frames by expected drop reason, `none` where no filter counts them.
pub(super) fn attack(bed: &Bed, device: &str, what: &Value) -> BTreeMap<String, u64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks/boundary.py");
    let mut scapy = bed.lab.command(device, "python3").unwrap();
    scapy.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = scapy.spawn().unwrap();
    child.stdin.take().unwrap().write_all(what.to_string().as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "scapy: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Waits until the drops of `port` have grown by `sent`, no more and no less. The kernel of a host sends link-local packets of its own.
pub(super) fn wait_counted(bed: &Bed, node: &str, port: &str, before: &PortDrops, sent: &BTreeMap<String, u64>) {
    const OWN: &str = "edge_link_local";
    let mut grown = BTreeMap::new();
    let counted = bed.lab.wait(&format!("the frames to be counted at {node}/{port}"), |_| {
        let here = bed.port_drops(node).unwrap().into_iter().filter(|((at, _), _)| at == port);
        let more = here.map(|(k, n)| (k.1.clone(), n - before.get(&k).copied().unwrap_or(0)));
        grown = more.filter(|(_, n)| *n > 0).collect();
        let of_others = |all: &BTreeMap<String, u64>| {
            let mut all = all.clone();
            all.retain(|reason, _| reason != OWN && reason != "none");
            all
        };
        let own = |all: &BTreeMap<String, u64>| all.get(OWN).copied().unwrap_or(0);
        Ok(of_others(&grown) == of_others(sent) && own(&grown) >= own(sent))
    });
    assert!(counted.is_ok(), "at {node}/{port}: {grown:?}, sent {sent:?}");
}

/// Captures forged packets of one way.
pub(super) fn forged(bed: &Bed, way: Way, device: &str, interface: &str) -> Capture {
    Capture::start_one_way(&bed.lab, device, interface, way, FORGED).unwrap()
}

/// Interface `x0` of `node` leads to `x1` of `host`, and the topology does not know it.
pub(super) fn add_outside(bed: &Bed, node: &str, host: &str) {
    let inside = bed.lab.state().instance.namespace(node);
    ip(bed, host, &format!("link add x1 type veth peer name x0 netns {inside}"));
    ip(bed, host, "link set x1 up");
    ip(bed, host, "addr add 2001:db8:99::1/64 dev x1 nodad");
    ip(bed, node, "link set x0 up");
    ip(bed, node, "addr add 2001:db8:99::2/64 dev x0 nodad");
    bed.lab.wait("the boundary on the new interface", |_| Ok(is_filtered(bed, node, "x0", "ingress"))).unwrap();
}

/// Whether the agent's filter is at `direction` of an interface.
pub(super) fn is_filtered(bed: &Bed, node: &str, interface: &str, direction: &str) -> bool {
    let program = if direction == "ingress" { "canopy_dispatch" } else { "canopy_egress" };
    let show = bed.lab.command(node, "tc").unwrap().args(["filter", "show", "dev", interface, direction]).output();
    String::from_utf8_lossy(&show.unwrap().stdout).contains(program)
}

/// Octets that the source has sent.
pub(super) fn sent_by_source(bed: &Bed) -> u64 {
    let links = bed.lab.link_counters().unwrap();
    links.iter().find(|l| l.a.device == "s1").unwrap().a_to_b.passed_octets.get()
}
