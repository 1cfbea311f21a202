// SPDX-License-Identifier: Apache-2.0
//! The controller's authority is replaced: the real controller, killed in each step, and real agents of hosts over TLS on this machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use canopy_e2e::{Running, bin_dir};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(60);

/// A controller with a directory of its own, on a port of loopback.
struct Site {
    directory: tempfile::TempDir,
    port: u16,
    controller: Option<Running>,
}

impl Site {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let settings = format!(
            "[store]\npath = \"{}\"\n[grpc]\nlisten = [\"unix:{}\", \"127.0.0.1:{port}\"]\n[rest]\nlisten = \"unix:{}\"\n\
             [identity]\ndirectory = \"{}\"\ncertificate_lifetime = \"60s\"\n",
            path("store"),
            path("grpc.sock"),
            path("rest.sock"),
            path("identity"),
        );
        fs::write(directory.path().join("controller.toml"), settings).unwrap();
        let mut site = Self { directory, port, controller: None };
        site.start_controller();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program whose output is in `NAME.log`.
    fn spawn(&self, name: &str, command: &mut Command) -> Running {
        let log = fs::File::options().create(true).append(true).open(self.path(&format!("{name}.log"))).unwrap();
        let started = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn();
        Running(started.unwrap())
    }

    fn start_controller(&mut self) {
        let mut command = Command::new(bin_dir().unwrap().join("canopy-controller"));
        command.arg("--config").arg(self.path("controller.toml"));
        self.controller = Some(self.spawn("controller", &mut command));
        wait("the controller", || self.ctl(&["ca", "status"]).is_ok());
    }

    /// With SIGKILL.
    fn kill_controller(&mut self) {
        drop(self.controller.take());
    }

    fn ctl(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(bin_dir().unwrap().join("canopyctl"));
        let done =
            command.arg("--server").arg(format!("unix:{}", self.path("rest.sock").display())).args(args).output();
        let done = done.unwrap();
        let text = |octets| String::from_utf8(octets).unwrap();
        if done.status.success() { Ok(text(done.stdout)) } else { Err(text(done.stderr)) }
    }

    fn agent(&self, host: &str) -> Command {
        let state = self.path(&format!("state-{host}"));
        fs::create_dir_all(&state).unwrap();
        let config = self.path(&format!("{host}.toml"));
        let settings = format!(
            "host = \"{host}\"\ncontroller = \"https://127.0.0.1:{}\"\nstate_dir = \"{}\"\n[host_socket]\npath = \"{}\"\n",
            self.port,
            state.display(),
            self.path(&format!("{host}.sock")).display()
        );
        fs::write(&config, settings).unwrap();
        let mut command = Command::new(bin_dir().unwrap().join("canopy-agent"));
        command.arg("host").arg("--config").arg(config);
        command
    }

    fn enroll(&self, host: &str) {
        let token = self.path("token");
        fs::write(&token, self.ctl(&["host", "enroll", host]).unwrap()).unwrap();
        let done = self.agent(host).arg("enroll").stdin(fs::File::open(&token).unwrap()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn start_agent(&self, host: &str) -> Running {
        self.spawn(host, &mut self.agent(host))
    }

    fn log(&self, program: &str) -> String {
        fs::read_to_string(self.path(&format!("{program}.log"))).unwrap()
    }

    /// What the controller knows of an agent.
    fn status(&self, host: &str) -> Value {
        let shown: Value = serde_json::from_str(&self.ctl(&["ca", "status", "--json"]).unwrap()).unwrap();
        let subject = format!("host/{host}");
        shown["agents"]
            .as_array()
            .unwrap()
            .iter()
            .find(|agent| agent["subject"] == *subject)
            .cloned()
            .unwrap_or_default()
    }

    /// Waits until each of the agents is connected and needs nothing more for the next step.
    fn wait_ready(&self, hosts: &[&str]) {
        let is_ready = |host: &&str| {
            let status = self.status(host);
            status["connected"] == true && status["ready"] == true
        };
        wait("the agents to be ready", || hosts.iter().all(is_ready));
    }
}

fn wait(what: &str, mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Catches a key that leaves its machine, and output that the next command of the documented line does not take.
#[test]
fn an_operators_certificate_is_made_by_one_line() {
    let site = Site::start();
    let rest = format!("unix:{}", site.path("rest.sock").display());
    let ctl = bin_dir().unwrap().join("canopyctl");
    let line = format!(
        "set -o pipefail; {0} certificate request --file laptop.pem | tee request.pem | {0} --server {rest} certificate create laptop --role viewer --for 1h \
         | tee answer.pem | {0} certificate store --file laptop.pem",
        ctl.display()
    );
    let made = Command::new("bash").args(["-c", &line]).current_dir(site.directory.path()).output().unwrap();
    let shown = String::from_utf8(made.stderr).unwrap();
    assert!(made.status.success() && shown.contains("operator/laptop until"), "{shown}");
    let text = |name: &str| fs::read_to_string(site.path(name)).unwrap();
    assert!(text("laptop.pem").contains("PRIVATE KEY"));
    assert!(["request.pem", "answer.pem"].iter().all(|name| !text(name).contains("PRIVATE KEY")));
    assert!(site.ctl(&["token", "list"]).unwrap().contains("certificate"));
    let again = site.ctl(&["certificate", "store", "--file", "/nonexistent/laptop.pem"]).unwrap_err();
    assert!(again.contains("standard input has to be a certificate"), "{again}");
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// Catches an agent that stores nothing of what it is sent, one that renews nothing, a kill that loses a step, one that was left behind and
/// cannot find the way back, and a restored store that takes back what was revoked or replaced.
#[test]
fn the_authority_is_replaced_under_agents_with_a_kill_in_each_step() {
    let mut site = Site::start();
    ["r1", "r2", "r3", "r4"].iter().for_each(|host| site.enroll(host));
    let _agents = ["r1", "r2", "r4"].map(|host| site.start_agent(host));
    site.wait_ready(&["r1", "r2", "r4"]);
    site.ctl(&["host", "revoke", "r4"]).unwrap();
    site.kill_controller();
    copy(&site.path("store"), &site.path("store-before"));
    site.start_controller();

    site.ctl(&["ca", "rotate"]).unwrap();
    site.kill_controller();
    site.start_controller();
    site.wait_ready(&["r1", "r2"]);
    let shown = site.ctl(&["ca", "status"]).unwrap();
    assert!(shown.contains("announced") && shown.contains("host/r3: away") && !shown.contains("r4"), "{shown}");
    let authorities = fs::read_to_string(site.path("state-r1/identity/authorities.pem")).unwrap();
    assert_eq!(authorities.matches("BEGIN CERTIFICATE").count(), 2);

    site.ctl(&["ca", "issue"]).unwrap();
    site.kill_controller();
    site.start_controller();
    site.wait_ready(&["r1", "r2"]);
    let refused = site.ctl(&["ca", "finish"]).unwrap_err();
    assert!(refused.contains("host/r3") && !refused.contains("r1") && !refused.contains("r4"), "{refused}");

    // What their connections were made with is worth nothing from now on; they have other certificates.
    site.ctl(&["ca", "finish", "--accept-loss", "host/r3"]).unwrap();
    let began = Instant::now();
    let mut gap = Duration::ZERO;
    wait("every agent to trust the new authority alone", || {
        let statuses = ["r1", "r2"].map(|host| site.status(host));
        if statuses.iter().any(|status| status["connected"] != true) {
            gap = began.elapsed();
        }
        let trusts_one = |host: &str| {
            let path = site.path(&format!("state-{host}/identity/authorities.pem"));
            fs::read_to_string(path).unwrap().matches("BEGIN CERTIFICATE").count() == 1
        };
        statuses.iter().all(|status| status["connected"] == true) && trusts_one("r1") && trusts_one("r2")
    });
    assert!(gap < Duration::from_secs(1), "agents were gone for {gap:?}");
    site.kill_controller();
    fs::remove_dir_all(site.path("store")).unwrap();
    copy(&site.path("store-before"), &site.path("store"));
    site.start_controller();
    site.wait_ready(&["r1", "r2"]);
    assert!(site.ctl(&["ca", "status"]).unwrap().contains("Replacement:  none"));
    assert_eq!(site.status("r4"), Value::Null, "what was revoked is not any more");

    let left_behind = site.start_agent("r3");
    wait("the agent to log the way back", || site.log("r3").contains("enroll this agent again"));
    assert_eq!(site.status("r3")["connected"], false);
    drop(left_behind);
    site.enroll("r3");
    let _back = site.start_agent("r3");
    site.wait_ready(&["r3"]);
    let secrets = ["controller", "r1"].map(|program| site.log(program));
    assert!(secrets.iter().all(|log| !log.contains("PRIVATE KEY")), "a key is in a log");
}
