// SPDX-License-Identifier: Apache-2.0
//! The catalogue of faults: each is made in the lab under load, named by its cause, and closed when it is mended.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use canopy_e2e::prometheus::Prometheus;
use canopy_e2e::{Bed, Paused, deep, up};
use canopy_lab::{Lab, Transfer, TransferSpec};
use serde_json::{Value, json};

/// Octets that no transfer of this test ends with.
const ENDLESS: u64 = 1 << 40;

/// `Code kind/name` of the open causes.
fn roots(bed: &Bed) -> BTreeSet<String> {
    let (status, body) = bed.lab.rest("GET", "/api/v1/status", None).unwrap();
    assert_eq!(status, 200, "{body}");
    let text = |p: &Value, pointer: &str| p.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    let name = |p: &Value| format!("{} {}/{}", text(p, "/code"), text(p, "/object/kind"), text(p, "/object/name"));
    body["problems"].as_array().unwrap().iter().map(name).collect()
}

fn canopyctl(bed: &Bed, args: &[&str]) -> String {
    bed.canopyctl(args).unwrap()
}

/// A lab whose controller is scraped.
struct Watched {
    bed: Bed,
    prometheus: Prometheus,
}

/// Figure 1 with group `g` under load.
fn watched() -> (Watched, Transfer) {
    let mut bed = up("figure1").unwrap();
    let prometheus = Prometheus::start(&mut bed.lab).unwrap();
    let transfer = start(&bed);
    (Watched { bed, prometheus }, transfer)
}

/// The only causes that are open are these, `canopyctl status` shows the first, and only their alerts fire.
fn named(watched: &Watched, fault: &str, since: Instant, wanted: &[&str]) {
    let bed = &watched.bed;
    let wanted: BTreeSet<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
    let mut seen = BTreeSet::new();
    let waited = bed.lab.wait(&format!("{fault}: {wanted:?}"), |_| {
        seen = roots(bed);
        Ok(seen == wanted)
    });
    waited.unwrap_or_else(|e| panic!("{e:#}: {seen:?}"));
    let seconds = since.elapsed().as_secs_f64();
    let screen = canopyctl(bed, &["status"]);
    println!("{fault}: named after {seconds:.1} s\n{screen}");
    let code = wanted.first().unwrap().split(' ').next().unwrap();
    assert!(screen.contains(code), "{screen}");
    let alert = |w: &String| {
        let (code, object) = w.split_once(' ').unwrap();
        format!("Canopy{code} {}", object.split_once('/').unwrap().1)
    };
    alerts(watched, fault, &wanted.iter().map(alert).collect());
    println!("{fault}: its alert alone fires after {:.1} s", since.elapsed().as_secs_f64());
}

fn alerts(Watched { bed, prometheus }: &Watched, fault: &str, wanted: &BTreeSet<String>) {
    let mut seen = BTreeSet::new();
    let waited = bed.lab.wait(&format!("the alerts of {fault}: {wanted:?}"), |_| {
        seen = prometheus.firing()?;
        Ok(seen == *wanted)
    });
    waited.unwrap_or_else(|e| panic!("{e:#}: {seen:?}"));
}

/// No problem is open.
fn closed(watched: &Watched, fault: &str, since: Instant) {
    let bed = &watched.bed;
    let mut seen = BTreeSet::new();
    let waited = bed.lab.wait(&format!("the end of {fault}"), |_| {
        seen = roots(bed);
        Ok(seen.is_empty())
    });
    waited.unwrap_or_else(|e| panic!("{e:#}: {seen:?}"));
    println!("{fault}: closed after {:.1} s", since.elapsed().as_secs_f64());
    assert!(canopyctl(bed, &["status"]).contains("No problem is open"));
    alerts(watched, &format!("the end of {fault}"), &BTreeSet::new());
}

/// `canopyctl why` has this text.
fn explained(bed: &Bed, fault: &str, of: &[&str], wanted: &str) {
    let (since, args, mut seen) = (Instant::now(), [&["why"], of].concat(), String::new());
    let waited = bed.lab.wait(&format!("why {of:?}: {wanted}"), |_| {
        seen = bed.canopyctl(&args)?;
        Ok(seen.contains(wanted))
    });
    waited.unwrap_or_else(|e| panic!("{fault}: {e:#}: {seen}"));
    println!("{fault}: explained {:.1} s later: {wanted}", since.elapsed().as_secs_f64());
}

/// Group `g` under a load that lasts until this is dropped.
fn start(bed: &Bed) -> Transfer {
    bed.lab.create_group("g", json!({"pathMtu": 4096, "stallAfterMs": 500})).unwrap();
    bed.limit("s1", 50).unwrap();
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(3600),
        leave: false,
        ..TransferSpec::new("g", "s1", &["r1", "r2", "r3", "r4", "r5"], ENDLESS)
    };
    spec.args.insert("s1".into(), ["--timeout", "200ms", "--retries", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    let flows = |_: &_| Ok(bed.group("g")?["delivery"]["state"] == "Flowing");
    bed.lab.wait("data to be acknowledged", flows).unwrap();
    transfer
}

fn in_host(bed: &Bed, host: &str, program: &str, args: &str) {
    let out = bed.lab.command(host, program).unwrap().args(args.split(' ')).output().unwrap();
    assert!(out.status.success(), "{host}: {program} {args}: {}", String::from_utf8_lossy(&out.stderr));
}

fn phase(bed: &Bed) -> String {
    bed.group("g").unwrap()["phase"].as_str().unwrap().to_owned()
}

/// The node and port that a host is attached to.
fn edge_of(bed: &Bed, host: &str) -> (String, String) {
    let (_, member) = bed.lab.rest("GET", &format!("/api/v1/groups/g/members/{host}"), None).unwrap();
    let text = |field: &str| member["status"][field].as_str().unwrap().to_owned();
    (text("node"), text("port"))
}

/// The link of the tree in force between `node` and its parent, as the topology names it, and its end at the parent.
fn link_to(bed: &Bed, node: &str) -> (String, String) {
    let parent = bed.parent("g", node).unwrap();
    let tree = bed.group("g").unwrap()["tree"].clone();
    let at = tree.as_array().unwrap().iter().find(|n| n["node"] == parent.as_str()).unwrap().clone();
    let branch = at["branches"].as_array().unwrap().iter().find(|b| b["name"] == node).unwrap().clone();
    let end = format!("{parent}/{}", branch["port"].as_str().unwrap());
    let (_, link) = bed.lab.rest("GET", &format!("/api/v1/links/{end}"), None).unwrap();
    (link["spec"]["link"].as_str().unwrap().to_owned(), end)
}

#[test]
fn receivers_that_do_not_acknowledge_are_named_and_nothing_else() {
    let (watched, transfer) = watched();
    let bed = &watched.bed;
    assert_eq!(roots(bed), BTreeSet::new());

    let since = Instant::now();
    let dead = Paused::process(transfer.pid("r3").unwrap()).unwrap();
    named(&watched, "a dead receiver", since, &["ReceiverStalled member/g/r3"]);
    bed.wait_phase("g", "Stalled").unwrap();
    let why = canopyctl(bed, &["why", "group", "g"]);
    assert!(why.contains("group g is Stalled: held up by receiver r3") && why.contains("GroupStalled"), "{why}");
    explained(bed, "a dead receiver", &["group", "g"], "or it is not ready to receive");
    let markdown = canopyctl(bed, &["why", "host", "r3", "-o", "markdown"]);
    assert!(markdown.contains("- **CRITICAL** receiver r3 of group g acknowledges nothing"), "{markdown}");
    let (mended, _) = (Instant::now(), drop(dead));
    closed(&watched, "a dead receiver", mended);
    bed.wait_phase("g", "Ready").unwrap();

    let since = Instant::now();
    in_host(bed, "r5", "ip", "link set eth0 mtu 1280");
    named(&watched, "host MTU", since, &["ReceiverStalled member/g/r5"]);
    let wanted = "r5 answers Echo Requests of 64 bytes but not of 4180: its MTU is too small";
    explained(bed, "host MTU", &["host", "r5"], wanted);
    let mended = Instant::now();
    in_host(bed, "r5", "ip", "link set eth0 mtu 9000");
    closed(&watched, "host MTU", mended);

    // Its carrier stays up: nothing but the probe shows that the host takes no packet.
    let since = Instant::now();
    bed.lab.set_loss("r4/eth0", "100%".parse().unwrap()).unwrap();
    named(&watched, "a host that takes nothing", since, &["ReceiverStalled member/g/r4"]);
    explained(
        bed,
        "a host that takes nothing",
        &["group", "g"],
        "r4 answers none of 3 Echo Requests: the host is down",
    );
    let mended = Instant::now();
    bed.lab.set_loss("r4/eth0", "0%".parse().unwrap()).unwrap();
    closed(&watched, "a host that takes nothing", mended);

    // From the start, in another group: its source and the other receiver are hosts of the first.
    bed.lab.create_group("q", json!({"pathMtu": 1024, "stallAfterMs": 500})).unwrap();
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r2"}, "spec": {"host": "r2", "role": "receiver", "qpn": 0x77}});
    let (status, body) = bed.lab.rest("POST", "/api/v1/groups/q/members", Some(&member)).unwrap();
    assert_eq!(status, 201, "{body}");
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(3600),
        leave: false,
        ..TransferSpec::new("q", "r5", &["r4"], 1 << 20)
    };
    spec.args.insert("r5".into(), ["--timeout", "200ms", "--retries", "0"].map(Into::into).into());
    let since = Instant::now();
    let stalled = bed.lab.start_transfer(spec).unwrap();
    named(&watched, "a wrong QPN", since, &["ReceiverStalled member/q/r2"]);
    let wanted =
        "r2 answers Echo Requests of 1108 bytes, so data reaches it: there is no queue pair 119, or it is not ready";
    explained(bed, "a wrong QPN", &["group", "q"], wanted);
    let mended = Instant::now();
    let (status, body) = bed.lab.rest("DELETE", "/api/v1/groups/q/members/r2", None).unwrap();
    assert!(status < 300, "{status}: {body}");
    closed(&watched, "a wrong QPN", mended);
    drop(stalled);
}

#[test]
fn links_and_ports_that_lose_packets_are_named_and_nothing_else() {
    let (watched, _transfer) = watched();
    let bed = &watched.bed;

    let (link, end) = link_to(bed, "n2");
    let since = Instant::now();
    bed.lab.set_loss(&end, "100%".parse().unwrap()).unwrap();
    named(&watched, "a black hole", since, &[&format!("LinkBlackHole link/{link}")]);
    bed.wait_phase("g", "Ready").unwrap();
    let mended = Instant::now();
    bed.lab.set_loss(&end, "0%".parse().unwrap()).unwrap();
    closed(&watched, "a black hole", mended);

    let (link, end) = link_to(bed, "n2");
    let since = Instant::now();
    bed.lab.set_loss(&end, "5%".parse().unwrap()).unwrap();
    named(&watched, "5 % loss", since, &[&format!("LinkLossy link/{link}")]);
    let mended = Instant::now();
    bed.lab.set_loss(&end, "0%".parse().unwrap()).unwrap();
    closed(&watched, "5 % loss", mended);

    let (node, port) = edge_of(bed, "r1");
    let since = Instant::now();
    in_host(bed, "r1", "ip", "link set eth0 down");
    named(&watched, "a host's interface that is down", since, &[&format!("PortDown port/{node}/{port}")]);
    bed.wait_phase("g", "Degraded").unwrap();
    let wanted = format!("because of port {node}/{port}");
    let is_explained = |_: &_| {
        let why = canopyctl(bed, &["why", "group", "g"]);
        Ok(why.contains("group g is Degraded: ") && why.contains(&wanted))
    };
    bed.lab.wait(&wanted, is_explained).unwrap();
}

#[test]
fn interfaces_that_are_not_as_the_topology_wants_them_are_named_and_nothing_else() {
    let (watched, _transfer) = watched();
    let bed = &watched.bed;

    let (_, end) = link_to(bed, "n2");
    let (node, port) = end.split_once('/').unwrap();
    let since = Instant::now();
    in_host(bed, node, "ip", &format!("link set {port} mtu 1500"));
    named(&watched, "node MTU", since, &[&format!("PortMisconfigured port/{end}")]);
    let mended = Instant::now();
    in_host(bed, node, "ip", &format!("link set {port} mtu 9000"));
    closed(&watched, "node MTU", mended);
    bed.wait_phase("g", "Ready").unwrap();

    let (link, end) = link_to(bed, "n2");
    let (node, port) = end.split_once('/').unwrap();
    let since = Instant::now();
    in_host(bed, node, "ip", &format!("link del {port}"));
    named(&watched, "an interface that is gone", since, &[&format!("LinkDown link/{link}")]);
    bed.wait_phase("g", "Ready").unwrap();
}

#[test]
fn hosts_that_send_what_they_must_not_are_named_and_nothing_else() {
    let (watched, _transfer) = watched();
    let bed = &watched.bed;
    let (node, port) = edge_of(bed, "r1");
    let refused = format!("HostRefused port/{node}/{port}");
    let send = |script: &str| {
        let mut python = bed.lab.command("r1", "python3").unwrap();
        python.args(["-c", script]).spawn().unwrap()
    };
    const FRAMES: &str = "import socket, time\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind(('eth0', 0))\n\
        while True:\n    s.send(bytes.fromhex('ffffffffffff020000000009') + HEAD + bytes(60))\n    time.sleep(0.05)\n";
    for (fault, head) in [("a wrong VLAN", "8100000786dd60"), ("a frame that is not IPv6", "080045")] {
        let since = Instant::now();
        let mut sender = send(&FRAMES.replace("HEAD", &format!("bytes.fromhex('{head}')")));
        named(&watched, fault, since, &[&refused]);
        assert_eq!(phase(bed), "Ready");
        sender.kill().unwrap();
        sender.wait().unwrap();
        closed(&watched, fault, Instant::now());
    }
}

#[test]
fn agents_that_are_gone_or_hang_are_named_and_nothing_else() {
    let (mut watched, _transfer) = watched();
    let headend = watched.bed.group("g").unwrap()["tree"][0]["node"].as_str().unwrap().to_owned();

    let since = Instant::now();
    let hung = Paused::new(&watched.bed, &[&headend]).unwrap();
    named(&watched, "an agent that hangs", since, &[&format!("AgentSilent node/{headend}")]);
    assert_eq!(phase(&watched.bed), "Unknown");
    let (mended, _) = (Instant::now(), drop(hung));
    closed(&watched, "an agent that hangs", mended);
    watched.bed.wait_phase("g", "Ready").unwrap();

    let since = Instant::now();
    watched.bed.lab.kill_agent("n2").unwrap();
    named(&watched, "an agent that was killed", since, &["AgentDisconnected node/n2"]);
    assert_eq!(phase(&watched.bed), "Ready");
    let mended = Instant::now();
    watched.bed.lab.start_agent("n2").unwrap();
    closed(&watched, "an agent that was killed", mended);

    // A controller that starts again finds nothing wrong.
    watched.bed.lab.kill_controller().unwrap();
    watched.bed.lab.start_controller().unwrap();
    closed(&watched, "a restart of the controller", Instant::now());
    watched.bed.wait_phase("g", "Ready").unwrap();
}

/// In `make test-deep`, for thirty minutes.
#[test]
fn load_and_a_rolling_restart_raise_no_alert() {
    let (Watched { mut bed, prometheus }, _transfer) = watched();
    let lasts = if deep() { Duration::from_secs(1800) } else { Duration::ZERO };
    let since = Instant::now();
    let mut late = BTreeSet::new();
    for n in 1..=6 {
        let node = format!("n{n}");
        let killed = Instant::now();
        bed.lab.kill_agent(&node).unwrap();
        bed.lab.start_agent(&node).unwrap();
        let is_back =
            |lab: &Lab| Ok(lab.rest("GET", &format!("/api/v1/nodes/{node}"), None)?.1["status"]["connected"] == true);
        bed.lab.wait("the agent to connect", is_back).unwrap();
        // On a machine that takes longer to start it, the alert is right.
        if killed.elapsed() > Duration::from_secs(2) {
            late.insert(node);
        }
    }
    bed.lab.wait_synced().unwrap();
    while since.elapsed() < lasts {
        std::thread::sleep(Duration::from_secs(1));
    }
    bed.wait_phase("g", "Ready").unwrap();
    // A problem that opens now is seen before the next scrapes.
    let scrapes = || {
        let found = prometheus.query("count_over_time(up{job=\"canopy-controller\"}[2h])").unwrap();
        found[0]["value"][1].as_str().unwrap().parse::<u64>().unwrap()
    };
    let before = scrapes();
    bed.lab.wait("six more scrapes", |_| Ok(scrapes() > before + 6)).unwrap();
    let fired = prometheus.query("max_over_time(ALERTS{alertstate=\"firing\"}[2h])").unwrap();
    let is_late = |a: &Value| a["metric"]["object"].as_str().is_some_and(|node| late.contains(node));
    let unexplained: Vec<&Value> = fired.iter().filter(|a| !is_late(a)).collect();
    println!("{} alerts in {:?}, agents that were back late: {late:?}", fired.len(), since.elapsed());
    assert!(unexplained.is_empty(), "{unexplained:?}");
}
