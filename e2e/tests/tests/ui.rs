// SPDX-License-Identifier: Apache-2.0
//! The web UI in Chromium with the real controller, agents, kernel and traffic of Figure 1. The scenarios are those of `web/e2e/lab.ts`: each is
//! run by Node, and writes `do: ...` to its output for what has to happen outside of the browser.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_e2e::{Bed, Paused, Starved, up};
use canopy_lab::{Transfer, TransferSpec};
use canopy_testkit::browser;
use canopy_testkit::cases::{Case, run};
use serde_json::{Value, json};

const CASES: [Case; 4] = [
    Case { name: "a_group_is_made_led_around_a_fault_and_around_a_drain", run: || scenario("operate") },
    Case { name: "the_receiver_that_is_slow_has_the_strip", run: || scenario("slowReceiver") },
    Case { name: "an_agent_that_hangs_or_is_killed_is_shown_as_what_it_is", run: || scenario("hungAgent") },
    Case { name: "a_fault_drawn_by_seed_is_read_on_overview_alone", run: || scenario("drawnFault") },
];

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];

fn main() -> ExitCode {
    run(&CASES, browser::missing)
}

/// What a scenario acts on. What is dropped ends its part of the fault.
struct World {
    bed: Bed,
    transfer: Option<Transfer>,
    paused: Option<Paused>,
    starved: Option<Starved>,
    /// The port towards which everything is lost.
    lossy: Option<String>,
}

impl World {
    /// What the scenario is answered: one line.
    fn act(&mut self, what: &str) -> String {
        match what.split_once(' ').unwrap_or((what, "")) {
            ("sign", _) => return self.bed.canopyctl(&["ui", "--print"]).unwrap().trim_end().to_owned(),
            ("group", _) => {
                self.bed.lab.create_group("g", json!({"pathMtu": 4096, "stallAfterMs": 500})).unwrap();
            }
            ("send", of) => self.send(of),
            ("break", _) => return self.break_link(),
            ("starve", host) => self.starved = Some(Starved::process(self.pid(host))),
            ("hang", node) => self.paused = Some(Paused::new(&self.bed, &[node]).unwrap()),
            ("kill", node) => self.bed.lab.kill_agent(node).unwrap(),
            ("fault", _) => return self.fault(),
            ("status", _) => return json!(self.bed.canopyctl(&["status"]).unwrap()).to_string(),
            ("mend", _) => {
                (self.paused, self.starved) = (None, None);
                if let Some(port) = self.lossy.take() {
                    self.bed.lab.set_loss(&port, "0%".parse().unwrap()).unwrap();
                }
            }
            _ => panic!("a scenario wants {what:?}"),
        }
        "done".to_owned()
    }

    fn pid(&self, host: &str) -> u32 {
        self.transfer.as_ref().unwrap().pid(host).unwrap()
    }

    /// Data of `g` from s1 to these hosts, or to all, until the end.
    fn send(&mut self, to: &str) {
        self.bed.limit("s1", 50).unwrap();
        let receivers: Vec<&str> = if to.is_empty() { RECEIVERS.into() } else { to.split(' ').collect() };
        let args = ["--timeout", "200ms", "--retries", "0", "--ignore-cnps"].map(Into::into).into();
        let spec = TransferSpec {
            timeout: Duration::from_secs(3600),
            leave: false,
            // One is removed by the operator of a scenario.
            lost: receivers.iter().map(|&r| r.into()).collect(),
            args: [("s1".into(), args)].into(),
            ..TransferSpec::new("g", "s1", &receivers, 1 << 40)
        };
        self.transfer = Some(self.bed.lab.start_transfer(spec).unwrap());
    }

    /// Loses everything that the group's tree sends to n2; the answer is the link.
    fn break_link(&mut self) -> String {
        let parent = self.bed.parent("g", "n2").unwrap();
        let tree = self.bed.group("g").unwrap()["tree"].clone();
        let of = |list: &Value, field: &str, name: &str| {
            list.as_array().unwrap().iter().find(|n| n[field] == name).unwrap().clone()
        };
        let branch = of(&of(&tree, "node", &parent)["branches"], "name", "n2");
        let port = format!("{parent}/{}", branch["port"].as_str().unwrap());
        let (_, link) = self.bed.lab.rest("GET", &format!("/api/v1/links/{port}"), None).unwrap();
        self.bed.lab.set_loss(&port, "100%".parse().unwrap()).unwrap();
        self.lossy = Some(port);
        link["spec"]["link"].as_str().unwrap().to_owned()
    }

    /// One of four faults, by a seed that is printed: the answer is the kind and name of its culprit and its code.
    fn fault(&mut self) -> String {
        let seed = std::env::var("CANOPY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
        println!("the fault is that of CANOPY_SEED={seed}");
        match seed % 4 {
            0 => format!("LinkBlackHole link {}", self.break_link()),
            1 => {
                self.paused = Some(Paused::process(self.pid("r3")).unwrap());
                "ReceiverStalled receiver r3 of group g".into()
            }
            2 => {
                self.bed.lab.kill_agent("n2").unwrap();
                "AgentDisconnected node n2".into()
            }
            _ => {
                self.bed.lab.set_loss("r4/eth0", "100%".parse().unwrap()).unwrap();
                "ReceiverStalled receiver r4 of group g".into()
            }
        }
    }
}

fn scenario(name: &str) {
    let bed = up("figure1").unwrap();
    let url = format!("http://127.0.0.1:{}", bed.lab.rest_port().unwrap());
    let mut world = World { bed, transfer: None, paused: None, starved: None, lossy: None };
    let mut chromium = Command::new("npm")
        .args(["run", "--silent", "scenario", "--", name, &url])
        .current_dir(browser::web())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = chromium.stdin.take().unwrap();
    // It ends by itself: every wait of a scenario has a deadline.
    for line in BufReader::new(chromium.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        match line.strip_prefix("do: ") {
            Some(what) => writeln!(answers, "{}", world.act(what)).unwrap(),
            None => println!("{line}"),
        }
    }
    let status = chromium.wait().unwrap();
    assert!(status.success(), "{status}");
}
