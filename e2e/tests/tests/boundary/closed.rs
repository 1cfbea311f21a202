// SPDX-License-Identifier: Apache-2.0
//! Fail closed (decisions 6.4): where the filter is missing, nothing is forwarded; the agent restores what goes away within a second.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use canopy_e2e::capture::{Capture, Way};
use canopy_e2e::{Bed, Paused, up, up_changed};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

use super::attack::{
    Attacker, add_outside, attack, forged, from_host, ip, is_filtered, mac, output, sent_by_source, targets, tc,
};

/// From the change to its end, as issue 12 demands.
const RESTORED_WITHIN: Duration = Duration::from_secs(1);
const FROM_R1: Attacker = ("r1", "n1", "eth2", "1");
/// Every attack of a host.
const FROM_HOST: [&str; 10] = [
    "encapsulation",
    "steering",
    "names_of_others",
    "nodes",
    "proxy",
    "chains",
    "link_local",
    "discovery",
    "own_name",
    "fabric",
];

fn reaches(bed: &Bed, from: &str, to: &str) -> bool {
    let mut ping = bed.lab.command(from, "ping").unwrap();
    ping.args(["-6", "-c", "3", "-i", "0.1", "-W", "1", to]).output().unwrap().status.success()
}

/// Waits for what has just been removed.
fn restored(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < RESTORED_WITHIN, "{what} is not restored within {RESTORED_WITHIN:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{what}: restored after {:?}", start.elapsed());
}

/// Waits until n1 has reported an event about each of these.
fn wait_events(bed: &Bed, about: &[&str]) {
    // Events travel with the agent's next sample.
    for what in about {
        let named =
            |e: &Value| e["code"] == "BoundaryRestored" && e["detail"].as_str().is_some_and(|d| d.contains(what));
        let reported = |lab: &canopy_lab::Lab| {
            let (_, events) = lab.rest("GET", "/api/v1/events?node=n1", None)?;
            Ok(events["items"].as_array().is_some_and(|all| all.iter().any(named)))
        };
        bed.lab.wait(&format!("an event about {what}"), reported).unwrap();
    }
}

#[test]
fn nothing_is_forwarded_without_the_filter_and_the_agent_restores_what_goes_away() {
    let bed = up("figure1").unwrap();
    let (r1, r4) = ("2001:db8:0:1::1", "2001:db8:0:4::1");
    bed.lab.wait("r1 to reach r4", |_| Ok(reaches(&bed, "r1", r4))).unwrap();
    add_outside(&bed, "n1", "r5");
    let tc = |args: &str| tc(&bed, "n1", args);
    {
        let _paused = Paused::new(&bed, &["n1"]).unwrap();
        tc("qdisc del dev eth2 clsact");
        assert!(!reaches(&bed, "r1", r4), "a host without a filter at its port reaches the fabric");
        assert!(!reaches(&bed, "r4", r1), "the answer has no filter to pass");
        assert!(reaches(&bed, "r2", r4), "the other host of the node is not concerned");
    }
    restored("the filter of r1's port", || is_filtered(&bed, "n1", "eth2", "ingress"));
    bed.lab.wait("r1 to reach r4", |_| Ok(reaches(&bed, "r1", r4))).unwrap();

    for (interface, ways) in
        [("eth2", &["ingress", "egress"][..]), ("eth1", &["ingress", "egress"]), ("x0", &["ingress"])]
    {
        for way in ways {
            tc(&format!("filter del dev {interface} {way}"));
            restored(&format!("the {way} filter of {interface}"), || is_filtered(&bed, "n1", interface, way));
        }
        tc(&format!("qdisc del dev {interface} clsact"));
        restored(&format!("clsact of {interface}"), || ways.iter().all(|way| is_filtered(&bed, "n1", interface, way)));
    }
    for priority in [4791, 4792, 4793] {
        ip(&bed, "n1", &format!("-6 rule del priority {priority}"));
        restored(&format!("rule {priority}"), || ip(&bed, "n1", "-6 rule show").contains(&format!("{priority}:")));
    }
    for rule in ["4791: from all fwmark 0x1046 lookup main", "4792: from all iif eth2 unreachable"] {
        let shown = || {
            let lines = ip(&bed, "n1", "-6 mrule show");
            lines.lines().any(|line| line.split_whitespace().eq(rule.split_whitespace()))
        };
        assert!(shown(), "{}", ip(&bed, "n1", "-6 mrule show"));
        let (priority, selector) = (&rule[..4], rule.strip_prefix("4792: from all ").unwrap_or(""));
        ip(&bed, "n1", format!("-6 mrule del priority {priority} {selector}").trim_end());
        restored(&format!("multicast rule {rule}"), shown);
    }
    for name in ["all", "default", "eth2", "eth1"] {
        let sysctl = |args: &[&str]| output(bed.lab.command("n1", "sysctl").unwrap().args(args));
        let key = format!("net.ipv6.conf.{name}.forwarding");
        sysctl(&["-q", "-w", &format!("{key}=0")]);
        restored(&key, || sysctl(&["-n", &key]).trim() == "1");
    }
    bed.lab.wait("r1 to reach r4", |_| Ok(reaches(&bed, "r1", r4))).unwrap();
    wait_events(
        &bed,
        &[
            "TC filter of port eth2",
            "TC filter of port eth1",
            "TC filter of x0",
            "policy rule 4791 was removed",
            "policy rule 4792 was removed",
            "policy rule 4793 of user 0 was removed",
            "multicast rule 4791 was removed",
            "multicast rule 4792 of eth2 was removed",
            "conf.all.forwarding",
            "conf.default.forwarding",
            "conf.eth2.forwarding",
            "conf.eth1.forwarding",
        ],
    );
    ip(&bed, "r5", "link del x1");
}

/// Sends UDP from the node's own address as root and as user 65534, and prints the errors of both.
const AS_USERS: &str = "\
import errno, json, os, socket, sys
source, *targets = sys.argv[1:]
def send(to):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        s.bind((source, 0))
        try:
            s.sendto(b'x' * 28, (to, 4791))
        except OSError as e:
            return errno.errorcode[e.errno]
        return 'sent'
root = [send(to) for to in targets]
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(json.dumps([root, [send(to) for to in targets]]))";

#[test]
fn a_local_user_cannot_send_in_the_nodes_name() {
    let bed = up("figure1").unwrap();
    let group = bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let proxy = group["status"]["connection"]["proxyAddress"].as_str().unwrap().to_owned();
    // The parent of n4, its child, a host, and the SID of an edge.
    let targets = ["fcff:0:0:6::1", "fcff:0:0:1::1", "2001:db8:0:1::1", "5f00:0:1:f001::"];
    let mut python = bed.lab.command("n4", "python3").unwrap();
    python.args(["-c", AS_USERS, "fcff:0:0:4::1"]).args(targets).arg(&proxy);
    let [root, user]: [Vec<String>; 2] = serde_json::from_str(&output(&mut python)).unwrap();
    assert_eq!(root[..4], ["sent"; 4], "root has a way: this proves something");
    assert_eq!(user, ["ENETUNREACH"; 5]);
    let report = bed.lab.transfer(TransferSpec::new("g", "s1", &["r1", "r2", "r3"], 4 << 20)).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
}

/// Where copies of what an attacker at r1 sends would arrive.
fn captures(bed: &Bed) -> Vec<Capture> {
    let mut all: Vec<_> = ["r2", "r3", "r4", "r5", "s1"].map(|host| forged(bed, Way::In, host, "eth0")).into();
    all.push(forged(bed, Way::Out, "n1", "eth1"));
    all.push(forged(bed, Way::Out, "n1", "eth3"));
    all
}

fn assert_empty(captures: Vec<Capture>) {
    for capture in captures {
        let path = capture.path().to_owned();
        assert_eq!(capture.stop().unwrap().len(), 0, "{}", path.display());
    }
}

#[test]
fn after_a_reboot_nothing_is_forwarded_before_the_agent_starts() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let spec = |group: &str, receivers: &[&str]| TransferSpec {
        leave: false,
        ..TransferSpec::new(group, "s1", receivers, 4 << 20)
    };
    bed.lab.transfer(spec("g", &["r2", "r3"])).unwrap();
    let targets = targets(&bed, "g");
    let what = from_host(&bed, &targets, &FROM_HOST, FROM_R1);

    // The state of the kernel is that of a machine that has booted, except that it forwards already.
    bed.lab.kill_agent("n1").unwrap();
    let config = bed.lab.dir().join("agent-n1.toml");
    let agent = bed.lab.binary("canopy-agent").unwrap();
    output(bed.lab.command("n1", agent).unwrap().arg("--config").arg(config).arg("cleanup"));
    assert!(!is_filtered(&bed, "n1", "eth2", "ingress") && bed.pins("n1").is_err());
    assert!(!ip(&bed, "n1", "-6 rule show").contains("479") && !ip(&bed, "n1", "-6 mrule show").contains("479"));
    assert_eq!(ip(&bed, "n1", "-6 route show table all proto 201"), "");
    let forwarding = bed.lab.command("n1", "sysctl").unwrap().args(["-n", "net.ipv6.conf.all.forwarding"]).output();
    assert_eq!(String::from_utf8_lossy(&forwarding.unwrap().stdout).trim(), "1");

    let elsewhere = captures(&bed);
    let sent = attack(&bed, "r1", &what);
    assert!(sent.values().sum::<u64>() > 1000, "{sent:?}");
    assert_empty(elsewhere);

    // Nothing crosses the only link of n1: n4 finds that, and receivers behind n1 are refused until the link is in service again.
    let has_event = |code: &'static str| {
        move |lab: &canopy_lab::Lab| {
            let (_, events) = lab.rest("GET", "/api/v1/events?node=n4", None)?;
            let events = events["items"].as_array().context("no list of events")?;
            Ok(events.iter().any(|event| event["code"] == code))
        }
    };
    bed.lab.wait("n4 to find that n1 does not answer", has_event("LinkDown")).unwrap();
    bed.lab.start_agent("n1").unwrap();
    bed.lab.wait_synced().unwrap();
    bed.lab.wait("the link of n1 to be in service", has_event("LinkUp")).unwrap();
    bed.lab.create_group("h", json!({"pathMtu": 1024})).unwrap();
    let report = bed.lab.transfer(spec("h", &["r1", "r2", "r3"])).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
}

/// Removes clsact of a node's interface, whose agent is paused.
fn unfilter(bed: &Bed, node: &str, interface: &str) {
    tc(bed, node, &format!("qdisc del dev {interface} clsact"));
    assert!(!is_filtered(bed, node, interface, "ingress"));
}

#[test]
fn attacks_while_clsact_is_deleted_are_not_forwarded() {
    let bed = up_changed("figure1", |file| {
        file.spec.defaults.rate = Some("200Mbit".parse().map_err(anyhow::Error::msg)?);
        Ok(())
    })
    .unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    bed.lab.create_group("h", json!({"pathMtu": 1024})).unwrap();
    bed.lab.create_group("m", json!({"replication": "multicast", "pathMtu": 1024, "minReceivers": 2})).unwrap();
    let spec = |group: &str, receivers: &[&str], bytes| TransferSpec {
        leave: false,
        timeout: Duration::from_secs(300),
        ..TransferSpec::new(group, "s1", receivers, bytes)
    };
    // Groups that n4 replicates: h with SRv6, m with the kernel's multicast routes.
    bed.lab.transfer(spec("h", &["r1", "r2", "r3"], 1 << 20)).unwrap();
    bed.lab.transfer(spec("m", &["r1", "r2"], 1 << 20)).unwrap();
    let mut targets = targets(&bed, "h");
    targets["multicast"] = bed.group("m").unwrap()["encoding"]["segments"][1].clone();
    assert!(ip(&bed, "n4", "-6 mroute show").contains(targets["multicast"].as_str().unwrap()), "n4 replicates m");
    // A transfer elsewhere, by n5 and n3.
    let mut long = spec("g", &["r4", "r5"], 384 << 20);
    // Without ECN no receiver sends CNPs, of which a node drops those that come too fast.
    long.args.insert("s1".into(), ["--traffic-class", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(long).unwrap();
    bed.wait_phase("g", "Ready").unwrap();
    bed.lab.wait("the transfer to begin", |_| Ok(sent_by_source(&bed) > 4 << 20)).unwrap();

    let from_r1 = from_host(&bed, &targets, &FROM_HOST, FROM_R1);
    let mut from_n6 = targets.clone();
    (from_n6["attacks"], from_n6["interface"], from_n6["mac"]) =
        (json!(["fabric"]), json!("eth2"), json!(mac(&bed, "n4", "eth1")));
    let beyond_n4 = |bed: &Bed| {
        let mut all = captures(bed);
        all.push(forged(bed, Way::In, "r1", "eth0"));
        all.extend(["eth2", "eth3"].map(|port| forged(bed, Way::Out, "n4", port)));
        all
    };
    {
        let _paused = Paused::new(&bed, &["n1", "n4"]).unwrap();
        unfilter(&bed, "n1", "eth2");
        let elsewhere = captures(&bed);
        let sent = attack(&bed, "r1", &from_r1);
        assert!(sent.values().sum::<u64>() > 1000, "{sent:?}");
        assert_empty(elsewhere);

        unfilter(&bed, "n4", "eth1");
        let elsewhere = beyond_n4(&bed);
        attack(&bed, "n6", &from_n6);
        assert_empty(elsewhere);

        // Without the rules the same frames are forwarded: the attack is one.
        ip(&bed, "n4", "-6 mrule del priority 4792 iif eth1");
        ip(&bed, "n4", "-6 rule add priority 4790 iif eth1 lookup 4791");
        let ports = ["eth2", "eth3"].map(|port| forged(&bed, Way::Out, "n4", port));
        attack(&bed, "n6", &from_n6);
        let packets: Vec<_> = ports.into_iter().flat_map(|c| c.stop().unwrap()).collect();
        let is_multicast = |p: &&canopy_e2e::capture::Packet| p.bytes[24] == 0xFF;
        let multicast = packets.iter().filter(is_multicast).count();
        assert!(multicast > 0 && packets.len() > multicast, "{multicast} of {}: this proves nothing", packets.len());
        ip(&bed, "n4", "-6 rule del priority 4790");
    }
    for (node, port) in [("n1", "eth2"), ("n4", "eth1")] {
        restored(&format!("clsact of {node}/{port}"), || is_filtered(&bed, node, port, "ingress"));
    }
    let then = sent_by_source(&bed);
    bed.lab
        .wait("data to flow after the last attack: if the transfer has ended, this proves nothing", |_| {
            Ok(sent_by_source(&bed) > then + (1 << 20))
        })
        .unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
    assert_eq!(bed.drops("g").unwrap(), vec![]);
}
