// SPDX-License-Identifier: Apache-2.0
//! A node that leaves for good, under traffic through it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::time::{Duration, Instant};

use canopy_e2e::{Bed, up_managed};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

/// The one that both transit nodes lead to.
const RECEIVERS: [&str; 1] = ["r3"];

fn node(bed: &Bed, node: &str) -> Value {
    bed.lab.rest("GET", &format!("/api/v1/nodes/{node}"), None).unwrap().1
}

fn step(bed: &Bed, name: &str) -> String {
    node(bed, name)["status"]["retirement"]["step"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the retirement waits for an agent that is away.
fn agent_is_waited_for(bed: &Bed, name: &str) {
    let waits = |_: &canopy_lab::Lab| Ok(waits_for(bed, name).starts_with("its agent, which is not connected"));
    bed.lab.wait("it to wait for the agent", waits).unwrap_or_else(|e| panic!("{e:#}: {}", waits_for(bed, name)));
}

fn waits_for(bed: &Bed, name: &str) -> String {
    node(bed, name)["status"]["retirement"]["waitsFor"].as_str().unwrap_or_default().to_owned()
}

/// Waits for what an agent does that ends by itself: [`canopy_lab::Lab::wait`] takes that for a crash.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn shown(bed: &Bed, node: &str, program: &str, args: &str) -> String {
    let out = bed.lab.command(node, program).unwrap().args(args.split_whitespace()).output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// What Canopy has in the kernel of a node: pins, filters, routes, rules, addresses. The qdiscs stay with the filters of the lab.
fn left(bed: &Bed, name: &str) -> Vec<String> {
    let mut all: Vec<String> = bed.pins(name).iter().map(|pins| pins.display().to_string()).collect();
    let lines = |text: String, of: &[&str]| -> Vec<String> {
        text.lines().filter(|line| of.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
    };
    for (port, hook) in ["eth1", "eth2", "eth3"].into_iter().flat_map(|p| [(p, "ingress"), (p, "egress")]) {
        // The lab's own filter loses packets.
        let filters = shown(bed, name, "tc", &format!("filter show dev {port} {hook}"));
        all.extend(
            filters.lines().filter(|line| line.contains("direct-action") && !line.contains("lose:")).map(str::to_owned),
        );
    }
    all.extend(lines(shown(bed, name, "ip", "-6 route show table all proto 201"), &[""]));
    all.extend(lines(shown(bed, name, "ip", "-6 rule show"), &["479"]));
    all.extend(lines(shown(bed, name, "ip", "-6 address show"), &["fcff:", "fe80::4:", "fe80::5:"]));
    all
}

/// The transit node leaves while data flows through it, over a restart of the controller in each step and of the agent while it cleans up.
/// Catches data that is cut, a retirement that a restart forgets or repeats, an agent that programs its node again, a certificate that
/// works on, and a refusal that has changed something.
#[test]
fn a_transit_node_leaves_under_traffic_and_leaves_nothing_behind() {
    let mut bed = up_managed("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 4096})).unwrap();
    bed.limit("s1", 40).unwrap();
    let bytes = 192 << 20;
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(300),
        leave: false,
        ..TransferSpec::new("g", "s1", &RECEIVERS, bytes)
    };
    // Longer than any pause of a busy machine: what is retransmitted was lost.
    spec.args.insert("s1".into(), ["--timeout", "20s"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("data to be acknowledged", |_| Ok(bed.group("g")?["delivery"]["state"] == "Flowing")).unwrap();
    let leaves = bed.parent("g", "n2").unwrap();
    assert!(["n4", "n5"].contains(&leaves.as_str()), "{leaves} is no transit node with another one beside it");

    // An edge with receivers is refused, and nothing has changed.
    let refused = bed.canopyctl(&["node", "retire", "n2"]).unwrap_err().to_string();
    assert!(refused.contains("members of groups") && refused.contains("--accept-loss"), "{refused}");
    let (_, drains) = bed.lab.rest("GET", "/api/v1/drains", None).unwrap();
    assert_eq!((drains["items"].as_array().unwrap().len(), step(&bed, "n2")), (0, String::new()));

    // Its agent is away: the retirement waits for it, and can be taken back.
    bed.lab.kill_agent(&leaves).unwrap();
    let body = json!({"reason": "old machine"});
    let (status, answer) = bed.lab.rest("POST", &format!("/api/v1/nodes/{leaves}/retire"), Some(&body)).unwrap();
    assert_eq!(status, 200, "{answer}");
    agent_is_waited_for(&bed, &leaves);
    assert!(bed.canopyctl(&["get", "nodes"]).unwrap().contains("Retiring (Draining)"));
    assert!(bed.canopyctl(&["undrain", &leaves]).is_err(), "a node that leaves was put back into service");
    bed.canopyctl(&["node", "retire", &leaves, "--cancel"]).unwrap();
    let (_, drains) = bed.lab.rest("GET", "/api/v1/drains", None).unwrap();
    assert_eq!((drains["items"].as_array().unwrap().len(), step(&bed, &leaves)), (0, String::new()));
    bed.lab.start_agent(&leaves).unwrap();
    bed.lab.wait_synced().unwrap();

    bed.lab.wait("the tree to be back", |_| Ok(bed.parent("g", "n2")? == leaves)).unwrap();

    // Drained, with its agent away; the controller restarts.
    bed.lab.kill_agent(&leaves).unwrap();
    bed.lab.rest("POST", &format!("/api/v1/nodes/{leaves}/retire"), Some(&body)).unwrap();
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    agent_is_waited_for(&bed, &leaves);
    assert_ne!(bed.parent("g", "n2").unwrap(), leaves, "data leads over it");
    assert_ne!(left(&bed, &leaves), Vec::<String>::new(), "an agent that is away removes nothing");

    // Its agent has the order, and the controller is gone before the report.
    bed.lab.start_agent(&leaves).unwrap();
    let mark = bed.lab.dir().join(format!("agents/{leaves}/retired"));
    until("the agent to begin", || mark.exists());
    bed.lab.kill_controller().unwrap();
    bed.lab.kill_agent(&leaves).unwrap();
    bed.lab.start_controller().unwrap();
    bed.lab.start_agent(&leaves).unwrap();
    until("the node to have left", || step(&bed, &leaves) == "Retired");
    assert_eq!(left(&bed, &leaves), Vec::<String>::new());
    assert!(fs::read_to_string(&mark).unwrap().starts_with("gone "));

    // It stays so: its agent ends again, with nothing done, and its certificate is refused.
    _ = bed.lab.kill_agent(&leaves);
    _ = bed.lab.start_agent(&leaves);
    let log = bed.lab.dir().join(format!("log/agent-{leaves}.log"));
    until("the agent to end", || fs::read_to_string(&log).unwrap().matches("its agent stays stopped").count() >= 2);
    _ = bed.lab.kill_agent(&leaves);
    assert_eq!(left(&bed, &leaves), Vec::<String>::new());
    let (_, revoked) = bed.lab.rest("GET", "/api/v1/revocations", None).unwrap();
    assert_eq!(revoked["items"][0]["subject"], format!("node/{leaves}"));
    let printed = bed.canopyctl(&["node", "retire", &leaves]).unwrap();
    assert!(
        printed.contains("retired: certificates that it had are revoked") && printed.contains("routes"),
        "{printed}"
    );
    let (_, problems) = bed.lab.rest("GET", "/api/v1/problems", None).unwrap();
    let about_it = |p: &&Value| p["object"]["name"].as_str().is_some_and(|name| name.contains(&leaves));
    assert_eq!(problems["items"].as_array().unwrap().iter().find(about_it), None);

    assert!(bed.sent_by("s1").unwrap() < bytes, "the transfer was over before: this proves nothing");
    bed.limit("s1", 900).unwrap();
    let report = transfer.finish(&bed.lab).unwrap();
    assert_eq!(report.mismatches(), Vec::<&str>::new());
    assert_eq!(report.source.more["retransmitted"], 0, "data was cut");

    // All others at once, as before Canopy is removed.
    let printed = bed.canopyctl(&["node", "retire", "--all", "--accept-loss", "--timeout", "2m"]).unwrap();
    assert!(printed.ends_with("all nodes have left\n"), "{printed}");
    for name in ["n1", "n2", "n3", "n4", "n5", "n6"] {
        assert_eq!((step(&bed, name), left(&bed, name)), ("Retired".to_owned(), vec![]), "{name}");
    }
}
