// SPDX-License-Identifier: Apache-2.0
//! The REST API does what its description has: schemathesis generates requests from it, valid and invalid ones, and checks every answer.
//!
//! The controller and its store are the real ones, with the topology of Figure 1; agents are not needed, since no check is about nodes. Every
//! operation takes part, also rotations of keys, drains and confirmed commits: what they change, later requests find changed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use canopy_e2e::{bin_dir, deep};
use canopy_lab::LabFile;
use serde_json::{Value, json};

/// Requests are the same for the same seed, as far as answers do not change what follows.
const SEED: u64 = 14;
/// Every operation has about 50 cases more from the phase that covers each keyword once.
const CASES: u64 = 5_000;

/// A controller that is killed, and its directory removed, when the test ends.
struct Controller {
    process: Child,
    dir: PathBuf,
    address: SocketAddr,
}

impl Drop for Controller {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
        _ = fs::remove_dir_all(&self.dir);
    }
}

impl Controller {
    fn start() -> Self {
        let dir = std::env::temp_dir().join(format!("canopy-description-{}", std::process::id()));
        _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        // Nothing else takes the port before the controller does, as a rule; if something did, the controller would exit.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let log = fs::File::create(dir.join("log")).unwrap();
        let process = Command::new(bin_dir().unwrap().join("canopy-controller"))
            .arg("--store-path")
            .arg(dir.join("store"))
            .arg("--grpc-listen")
            .arg(format!("unix:{}", dir.join("grpc.sock").display()))
            .env("CANOPY__HMAC__ENABLED", "true")
            .args(["--rest-listen", &address.to_string(), "--log-format", "json"])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut controller = Self { process, dir, address };
        controller.wait();
        controller
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(self.address).is_err() {
            assert!(self.process.try_wait().unwrap().is_none(), "the controller exited: {}", self.log());
            assert!(Instant::now() < deadline, "no controller at {}: {}", self.address, self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Status of the answer.
    fn put(&self, path: &str, body: &Value) -> u16 {
        let body = body.to_string();
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = BufReader::new(stream);
        let mut line = String::new();
        answer.read_line(&mut line).unwrap();
        answer.read_to_end(&mut Vec::new()).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

fn resource(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Figure 1 with two groups, one of which has members and so keeps the topology, and a drain.
fn prepare(controller: &Controller) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/figure1.yaml");
    let topology = serde_json::to_value(LabFile::read(&file).unwrap().topology()).unwrap();
    let mut all = vec![
        ("/api/v1/topology".to_owned(), resource("Topology", "default", topology)),
        ("/api/v1/groups/g1".to_owned(), resource("Group", "g1", json!({}))),
        ("/api/v1/groups/g2".to_owned(), resource("Group", "g2", json!({"pathMtu": 1024}))),
        ("/api/v1/drains/d1".to_owned(), resource("Drain", "d1", json!({"node": "n4", "reason": "optics"}))),
    ];
    for (host, role, qpn) in [("s1", "source", 17), ("r1", "receiver", 18), ("r2", "receiver", 19)] {
        let member = resource("Member", host, json!({"host": host, "role": role, "qpn": qpn}));
        all.push((format!("/api/v1/groups/g1/members/{host}"), member));
    }
    for (path, body) in all {
        assert_eq!(controller.put(&path, &body), 201, "{path} {body}");
    }
}

#[test]
fn every_answer_is_one_that_the_description_has() {
    let mut controller = Controller::start();
    prepare(&controller);
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("description");
    let server = format!("http://{}", controller.address);
    // Operations times examples, in both phases.
    let examples = if deep() { CASES / 40 } else { 4 };
    let report = controller.dir.join("report.json");
    let out = Command::new("schemathesis")
        .current_dir(&controller.dir)
        .env("PYTHONPATH", &hooks)
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("CANOPY_SERVER", &server)
        .arg("--config-file")
        .arg(hooks.join("schemathesis.toml"))
        .args(["run", &format!("{server}/api/v1/openapi.json"), "--url", &server])
        .args(["--checks", "all", "--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color"])
        .args(["--workers", "1"])
        .args(["--max-examples", &examples.to_string(), "--seed", &SEED.to_string(), "--request-timeout", "20"])
        .arg("--report-json-path")
        .arg(&report)
        .stdin(Stdio::null())
        .output()
        .expect("schemathesis is not installed: run `make tools`");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "seed {SEED}: {text}\n{}", String::from_utf8_lossy(&out.stderr));
    // It is still the controller that was started.
    assert!(controller.process.try_wait().unwrap().is_none(), "the controller exited: {}", controller.log());
    println!("{}", text.lines().rev().take(24).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n"));
    let cases = text.lines().find_map(|line| line.trim().split_once(" generated")?.0.parse::<u64>().ok());
    let least = if deep() { CASES } else { 1_000 };
    assert!(cases.is_some_and(|cases| cases >= least), "{cases:?} cases, at least {least} are wanted:\n{text}");
}
