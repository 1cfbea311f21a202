// SPDX-License-Identifier: Apache-2.0
//! Hosts attack the SRv6 domain from their own ports, with frames that scapy makes; filters are deleted under an agent that is stopped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use canopy_e2e::{Bed, up};
use canopy_lab::TransferSpec;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A restored filter, rule or sysctl.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often each frame is sent.
const COUNT: u64 = 3;
/// Every attack from an edge port.
const FROM_HOSTS: [&str; 8] =
    ["encapsulation", "steering", "names_of_others", "nodes", "proxy", "chains", "discovery", "too_big"];
/// Hosts that attack, each with its node, its port and its prefix's third group.
const ATTACKERS: [(&str, &str, &str, &str); 4] =
    [("r5", "n3", "eth3", "5"), ("r1", "n1", "eth2", "1"), ("r4", "n3", "eth2", "4"), ("s1", "n6", "eth1", "100")];

/// Packets dropped at the boundary of a node, by port and reason.
fn boundary_drops(bed: &Bed, node: &str) -> BTreeMap<(String, String), u64> {
    let (status, body) = bed.lab.rest("GET", &format!("/api/v1/nodes/{node}/telemetry"), None).unwrap();
    assert_eq!(status, 200, "{body}");
    let of = |d: &Value| Some(((d["port"].as_str()?.into(), d["name"].as_str()?.into()), d["packets"].as_u64()?));
    body["drops"].as_array().unwrap().iter().filter_map(of).collect()
}

fn output(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn ip(bed: &Bed, device: &str, args: &str) -> String {
    output(bed.lab.command(device, "ip").unwrap().args(args.split(' ')))
}

fn mac(bed: &Bed, device: &str, interface: &str) -> String {
    let links: Value = serde_json::from_str(&ip(bed, device, &format!("-j link show dev {interface}"))).unwrap();
    links[0]["address"].as_str().unwrap().into()
}

/// What the attacks need to know, which a hostile host can learn or guess.
fn targets(bed: &Bed, group: &str) -> Value {
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
        "count": COUNT,
    })
}

/// Sends the attacks from `device`; returns the frames by expected drop reason.
fn attack(bed: &Bed, device: &str, what: &Value) -> BTreeMap<String, u64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks/boundary.py");
    let mut scapy = bed.lab.command(device, "python3").unwrap();
    scapy.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = scapy.spawn().unwrap();
    child.stdin.take().unwrap().write_all(what.to_string().as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "scapy: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Waits until the drops of `port` have grown by `sent`, no more and no less.
fn wait_counted(
    bed: &Bed,
    node: &str,
    port: &str,
    before: &BTreeMap<(String, String), u64>,
    sent: &BTreeMap<String, u64>,
) {
    let mut grown = BTreeMap::new();
    let counted = bed.lab.wait(&format!("the frames to be counted at {node}/{port}"), |_| {
        let now = boundary_drops(bed, node).into_iter();
        let here = now.filter(|((at, reason), _)| at == port && reason != "edge_link_local");
        grown = here
            .map(|(k, n)| (k.1.clone(), n - before.get(&k).copied().unwrap_or(0)))
            .filter(|(_, n)| *n > 0)
            .collect();
        Ok(grown == *sent)
    });
    assert!(counted.is_ok(), "at {node}/{port}: {grown:?}, sent {sent:?}");
}

#[test]
fn hosts_cannot_send_as_the_domain_and_are_counted_at_their_ports() {
    let bed = up("figure1").unwrap();
    for group in ["g", "h"] {
        bed.lab.create_group(group, json!({"pathMtu": 1024})).unwrap();
    }
    // r4 is a member of another group, r5 of none.
    let spec = |group: &str, receivers: &[&str], bytes| TransferSpec {
        leave: false,
        timeout: Duration::from_secs(300),
        ..TransferSpec::new(group, "s1", receivers, bytes)
    };
    bed.lab.transfer(spec("h", &["r4"], 1 << 20)).unwrap();
    let transfer = bed.lab.start_transfer(spec("g", &["r1", "r2", "r3"], 192 << 20)).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    let targets = targets(&bed, "g");
    for (host, node, port, network) in ATTACKERS {
        let before = boundary_drops(&bed, node);
        let mut what = targets.clone();
        let own: Value = serde_json::from_str(&ip(&bed, node, &format!("-j -6 addr show dev {port}"))).unwrap();
        let of_port = |a: &&Value| a["local"] != "fe80::1";
        what["attacks"] = json!(FROM_HOSTS);
        what["interface"] = json!("eth0");
        what["mac"] = json!(mac(&bed, node, port));
        what["host"] = json!(format!("2001:db8:0:{network}::1"));
        what["link_local"] = json!("fe80::abcd");
        // Another member of the group.
        what["peer"] = json!("2001:db8:0:2::1");
        what["port"] = own[0]["addr_info"].as_array().unwrap().iter().find(of_port).unwrap()["local"].clone();
        if host == "s1" {
            // Its own name is the source's.
            what["source"] = json!("2001:db8:0:3::1");
        }
        let sent = attack(&bed, host, &what);
        assert!(sent.len() == 9 && sent.values().sum::<u64>() > 500, "{sent:?}");
        wait_counted(&bed, node, port, &before, &sent);
    }

    // The source's own host, in its own name: a packet of a connection that is gone.
    let before = boundary_drops(&bed, "n6");
    let mut what = targets.clone();
    (what["attacks"], what["interface"], what["mac"]) =
        (json!(["strays"]), json!("eth0"), json!(mac(&bed, "n6", "eth1")));
    let mut sent = attack(&bed, "s1", &what);
    let strays = sent.remove("psn_flight").unwrap();
    wait_counted(&bed, "n6", "eth1", &before, &sent);
    let counted = vec![("n6".to_owned(), "psn_flight".to_owned(), strays)];
    bed.lab.wait("the strays to be counted", |_| Ok(bed.drops("g")? == counted)).unwrap();

    // An interface of n1 that the topology does not have.
    let inside = bed.lab.state().instance.namespace("n1");
    ip(&bed, "r5", &format!("link add x1 type veth peer name x0 netns {inside}"));
    ip(&bed, "r5", "link set x1 up");
    ip(&bed, "n1", "link set x0 up");
    let filtered = |_: &canopy_lab::Lab| {
        let show = bed.lab.command("n1", "tc")?.args(["filter", "show", "dev", "x0", "ingress"]).output()?;
        Ok(String::from_utf8_lossy(&show.stdout).contains("canopy_dispatch"))
    };
    bed.lab.wait("the boundary on the new interface", filtered).unwrap();
    let before = boundary_drops(&bed, "n1");
    let mut what = targets;
    what["attacks"] = json!(["outside"]);
    what["interface"] = json!("x1");
    what["mac"] = json!(mac(&bed, "n1", "x0"));
    what["host"] = json!("2001:db8:99::1");
    let sent = attack(&bed, "r5", &what);
    wait_counted(&bed, "n1", "x0", &before, &sent);

    // Nothing of it reached a group, and the transfer beside it did not notice.
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!((bed.drops("g").unwrap(), bed.drops("h").unwrap()), (counted, vec![]));
    ip(&bed, "r5", "link del x1");
}

/// A stopped process, which continues when dropped.
struct Stopped(Pid);

impl Stopped {
    fn agent(bed: &Bed, node: &str) -> Self {
        let pid = Pid::from_raw(bed.lab.state().processes[&format!("agent-{node}")].pid);
        kill(pid, Signal::SIGSTOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The agent may have ended meanwhile, which the test reports elsewhere.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

fn reaches(bed: &Bed, from: &str, to: &str) -> bool {
    let mut ping = bed.lab.command(from, "ping").unwrap();
    ping.args(["-6", "-c", "3", "-i", "0.1", "-W", "1", to]).output().unwrap().status.success()
}

#[test]
fn nothing_is_forwarded_without_the_filter_and_the_agent_restores_what_goes_away() {
    let bed = up("figure1").unwrap();
    let (r1, r4) = ("2001:db8:0:1::1", "2001:db8:0:4::1");
    bed.lab.wait("r1 to reach r4", |_| Ok(reaches(&bed, "r1", r4))).unwrap();
    let tc = |args: &str| output(bed.lab.command("n1", "tc").unwrap().args(args.split(' ')));
    {
        let _stopped = Stopped::agent(&bed, "n1");
        tc("qdisc del dev eth2 clsact");
        assert!(!reaches(&bed, "r1", r4), "a host without a filter at its port reaches the fabric");
        assert!(!reaches(&bed, "r4", r1), "the answer has no filter to pass");
        assert!(reaches(&bed, "r2", r4), "the other host of the node is not concerned");
    }
    let restored = |what: &str, is: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is() {
            assert!(start.elapsed() < PATIENCE, "{what} is not restored");
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("{what}: restored after {:?}", start.elapsed());
    };
    restored("the filter of r1's port", &|| reaches(&bed, "r1", r4));

    tc("qdisc del dev eth2 clsact");
    restored("clsact", &|| tc("filter show dev eth2 ingress").contains("canopy_dispatch"));
    tc("filter del dev eth2 ingress");
    restored("the ingress filter", &|| tc("filter show dev eth2 ingress").contains("canopy_dispatch"));
    tc("filter del dev eth1 egress");
    restored("the egress filter", &|| tc("filter show dev eth1 egress").contains("canopy_egress"));
    for priority in [4791, 4792, 4793] {
        ip(&bed, "n1", &format!("-6 rule del priority {priority}"));
        restored(&format!("rule {priority}"), &|| ip(&bed, "n1", "-6 rule show").contains(&format!("{priority}:")));
    }
    output(bed.lab.command("n1", "sysctl").unwrap().args(["-q", "-w", "net.ipv6.conf.all.forwarding=0"]));
    let forwards = || output(bed.lab.command("n1", "sysctl").unwrap().args(["-n", "net.ipv6.conf.all.forwarding"]));
    restored("forwarding", &|| forwards().trim() == "1");
    restored("the way from r1 to r4", &|| reaches(&bed, "r1", r4));
    // Events travel with the agent's next sample.
    for what in ["TC filter of port eth2", "TC filter of port eth1", "priority 4791", "priority 4793", "forwarding"] {
        let named =
            |e: &Value| e["code"] == "BoundaryRestored" && e["detail"].as_str().is_some_and(|d| d.contains(what));
        let reported = |lab: &canopy_lab::Lab| {
            let (_, events) = lab.rest("GET", "/api/v1/events?node=n1", None)?;
            Ok(events["items"].as_array().is_some_and(|all| all.iter().any(named)))
        };
        bed.lab.wait(&format!("an event about {what}"), reported).unwrap();
    }
}
