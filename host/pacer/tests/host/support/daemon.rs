// SPDX-License-Identifier: Apache-2.0
//! The real daemon, its client and its log.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use canopy_host::pacing::{Client, OpenOptions, Qp, Status};
use serde_json::Value;

use super::{PEER, Wire, at, wait};

/// Rate of the wire: slow enough for any machine.
pub(crate) const LINE_BPS: u64 = 20_000_000;

/// Parameters of a daemon.
#[derive(Default)]
pub(crate) struct Settings<'a> {
    /// `edt` or `htb`.
    pub(crate) pacing: &'a str,
    /// More arguments.
    pub(crate) more: Vec<String>,
}

/// A daemon on a wire's host; it ends when dropped.
pub(crate) struct Daemon {
    child: Child,
    dir: tempfile::TempDir,
    log: Arc<Mutex<Vec<String>>>,
}

/// The binary; CANOPY_PACER on a machine other than the one that built the tests.
fn binary() -> PathBuf {
    std::env::var_os("CANOPY_PACER").map_or_else(|| env!("CARGO_BIN_EXE_canopy-pacer").into(), PathBuf::from)
}

impl Daemon {
    /// Starts it and waits until it answers.
    pub(crate) fn start(wire: &Wire, settings: &Settings<'_>) -> Self {
        let mut daemon = Self::spawn(wire, settings);
        let client = wait("the daemon answers", || {
            assert!(daemon.child.try_wait().unwrap().is_none(), "the daemon ended: {:?}", daemon.log.lock());
            daemon.try_client()
        });
        assert_eq!(client.status().unwrap().line_rate.bps(), LINE_BPS);
        daemon
    }

    /// Starts it.
    pub(crate) fn spawn(wire: &Wire, settings: &Settings<'_>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // As in the lab: /sys is not that of the namespace.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", wire.host())).arg("--").arg(binary());
        command.args([
            "run",
            "--interface",
            "eth0",
            "--line-rate",
            "20M",
            "--log-level",
            "info,canopy_pacer=debug",
            "--socket",
        ]);
        command.arg(dir.path().join("s"));
        if !settings.pacing.is_empty() {
            command.args(["--pacing", settings.pacing]);
        }
        command.args(&settings.more).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (lines, shared) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| shared.lock().unwrap().push(line)));
        Self { child, dir, log }
    }

    fn try_client(&self) -> Option<Client> {
        Client::connect(self.dir.path().join("s")).ok().filter(|client| client.status().is_ok())
    }

    pub(crate) fn client(&self) -> Client {
        self.try_client().unwrap()
    }

    pub(crate) fn status(&self) -> Status {
        self.client().status().unwrap()
    }

    /// The state of a QP.
    pub(crate) fn qp(&self, qpn: u32) -> Option<Qp> {
        self.status().qps.into_iter().find(|qp| qp.qpn == qpn)
    }

    /// Registers a QP.
    pub(crate) fn open(&self, qpn: u32, dest_qpn: u32, rtt_ms: u64) {
        let rtt = Some(std::time::Duration::from_millis(rtt_ms));
        self.client().open(OpenOptions { rtt, ..OpenOptions::new(qpn, at(PEER), dest_qpn) }).unwrap();
    }

    /// A counter of `status`.
    pub(crate) fn outcome(&self, name: &str) -> u64 {
        count(&self.status().outcomes, name)
    }

    /// How often QPs changed for this cause.
    pub(crate) fn actions(&self, name: &str) -> u64 {
        count(&self.status().actions, name)
    }

    /// Output of the same binary as a client; panics if it fails.
    pub(crate) fn command(&self, args: &[&str]) -> String {
        let done = Command::new(binary()).args(args).arg("--socket").arg(self.dir.path().join("s")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// `watch --json`, line by line, after the initial state, which must have `qps` lines.
    pub(crate) fn watch(&self, qps: usize) -> impl Iterator<Item = Value> + use<> {
        let mut command = Command::new(binary());
        command.args(["watch", "--json", "--socket"]).arg(self.dir.path().join("s"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let guard = Killed(child);
        let mut lines = lines.map(move |line| {
            _ = &guard;
            serde_json::from_str::<Value>(&line.unwrap()).unwrap()
        });
        for _ in 0..qps {
            assert_eq!(lines.next().unwrap()["action"], "state");
        }
        lines
    }

    /// Stops the daemon with SIGTERM and waits for it; returns its log.
    pub(crate) fn stop(mut self) -> String {
        // `nsenter` without --fork becomes the program.
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "{:?}", self.log.lock());
        self.log.lock().unwrap().join("\n")
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has failed; returns its log.
    pub(crate) fn failure(mut self) -> String {
        assert!(!self.child.wait().unwrap().success());
        wait("the error message", || {
            let log = self.log.lock().unwrap().join("\n");
            log.contains("canopy-pacer: ").then_some(log)
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log.lock().unwrap().join("\n"));
        }
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn count(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(n, _)| n == name).map_or(0, |(_, value)| *value)
}
