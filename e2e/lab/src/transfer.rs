// SPDX-License-Identifier: Apache-2.0
//! One transfer from a source to receivers with `canopy-rc`.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::lab::Lab;
use crate::output::{OutputItem, read_lines};
use crate::report::{ReceiverReport, TransferReport};
use crate::wires::LinkCounters;

/// Capacity of the channel of output lines; a line is a rare event.
const QUEUE: usize = 1024;

/// RDMA operations that a group carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// SEND.
    #[default]
    Send,
    /// RDMA WRITE; every receiver registers memory for all bytes.
    Write,
}

/// A transfer to run: group, source, receivers, operation.
#[derive(Clone, Debug)]
pub struct TransferSpec {
    /// A group that exists.
    pub group: String,
    /// Host that sends.
    pub source: String,
    /// Hosts that receive.
    pub receivers: Vec<String>,
    /// Bytes to send.
    pub bytes: u64,
    /// RDMA operation.
    pub op: Op,
    /// Seed of the pseudo-random content.
    pub seed: u64,
    /// Time limit of the whole transfer.
    pub timeout: Duration,
    /// Leave the group at the end, so that it can be used again.
    pub leave: bool,
    /// Let the sender draw its progress on standard error.
    pub progress: bool,
    /// Additional options of `canopy-rc`, by host.
    pub args: BTreeMap<String, Vec<String>>,
    /// Receivers that are expected to die or to be evicted: not waited for and not in the report.
    pub lost: Vec<String>,
}

impl TransferSpec {
    /// `bytes` by SEND from `source` to `receivers` with seed 1 within two minutes; all leave the group at the end.
    pub fn new(group: &str, source: &str, receivers: &[&str], bytes: u64) -> Self {
        Self {
            group: group.into(),
            source: source.into(),
            receivers: receivers.iter().map(|&r| r.into()).collect(),
            bytes,
            op: Op::Send,
            seed: 1,
            timeout: Duration::from_secs(120),
            leave: true,
            progress: false,
            args: BTreeMap::new(),
            lost: Vec::new(),
        }
    }
}

/// A transfer in progress. Dropping it kills its processes.
#[derive(Debug)]
pub struct Transfer {
    spec: TransferSpec,
    children: BTreeMap<String, Child>,
    output: Receiver<(String, OutputItem)>,
    before: Vec<LinkCounters>,
    deadline: Instant,
    /// By host: the `complete` event, which is the report of the source.
    complete: BTreeMap<String, Value>,
    exit: BTreeMap<String, Value>,
    /// Processes that exited successfully.
    ended: BTreeMap<String, Value>,
}

impl Lab {
    /// Starts the receivers and the sender and waits for all of them.
    ///
    /// # Errors
    /// As [`Lab::start_transfer`] and [`Transfer::finish`].
    pub fn transfer(&self, spec: TransferSpec) -> Result<TransferReport> {
        self.start_transfer(spec)?.finish(self)
    }

    /// Starts the receivers and the sender, which waits until every receiver has joined.
    ///
    /// # Errors
    /// `canopy-rc` is not built, or a host is unknown.
    pub fn start_transfer(&self, spec: TransferSpec) -> Result<Transfer> {
        let (out, output) = sync_channel(QUEUE);
        let (before, deadline) = (self.link_counters()?, Instant::now() + spec.timeout);
        let mut transfer = Transfer {
            spec,
            children: BTreeMap::new(),
            output,
            before,
            deadline,
            complete: BTreeMap::new(),
            exit: BTreeMap::new(),
            ended: BTreeMap::new(),
        };
        let spec = transfer.spec.clone();
        let patience = format!("{}ms", spec.timeout.as_millis());
        for host in &spec.receivers {
            // Receivers stay in the group: one that left could not repeat an acknowledgement that the source still
            // needs.
            let mut c = self.rc("receive", host, &spec)?;
            c.args(["--linger", &patience]);
            transfer.spawn(self, host, c, out.clone())?;
        }
        let mut c = self.rc("send", &spec.source, &spec)?;
        c.args(["--seed", &spec.seed.to_string()]);
        if !spec.args.get(&spec.source).is_some_and(|args| args.iter().any(|arg| arg == "--wait-receivers")) {
            c.args(["--wait-receivers", &spec.receivers.len().to_string()]);
        }
        c.args(["--deadline", &patience, "--ready-timeout", &patience]);
        if spec.progress {
            c.arg("--progress");
        }
        transfer.spawn(self, &spec.source, c, out)?;
        Ok(transfer)
    }

    fn rc(&self, verb: &str, host: &str, spec: &TransferSpec) -> Result<Command> {
        let mut c = self.command(host, self.binary("canopy-rc")?)?;
        let socket =
            if self.state.host_agents { self.host_socket(host) } else { self.state.dir.join("controller.sock") };
        c.args([verb, "--controller", &format!("unix:{}", socket.display())]);
        c.args(["--group", &spec.group, "--host", host, "--bytes", &spec.bytes.to_string(), "--json"]);
        c.args(["--op", if spec.op == Op::Write { "write" } else { "send" }]);
        if spec.leave {
            c.arg("--leave");
        }
        c.args(spec.args.get(host).into_iter().flatten());
        Ok(c)
    }
}

impl Transfer {
    fn spawn(
        &mut self,
        lab: &Lab,
        host: &str,
        mut command: Command,
        out: SyncSender<(String, OutputItem)>,
    ) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        if !(self.spec.progress && host == self.spec.source) {
            let log = lab.dir().join("log").join(format!("rc-{host}.log"));
            command.stderr(
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&log)
                    .with_context(|| format!("opening {}", log.display()))?,
            );
        }
        let mut child = command.spawn().with_context(|| format!("starting canopy-rc at {host}"))?;
        let stdout = child.stdout.take().context("standard output of canopy-rc")?;
        self.children.insert(host.to_owned(), child);
        let host = host.to_owned();
        std::thread::spawn(move || read_lines(stdout, |item| out.send((host.clone(), item)).is_ok()));
        Ok(())
    }

    /// Process of the end at a host; `None` for a host without one, or after its end.
    pub fn pid(&self, host: &str) -> Option<u32> {
        self.children.get(host).filter(|_| !self.ended.contains_key(host)).map(Child::id)
    }

    /// Waits until the source and every receiver are done, ends the receivers, and collects the counters of all
    /// programs and links.
    ///
    /// # Errors
    /// A program exits early or prints something other than JSON, or the timeout expires; the error names the hosts
    /// that are not done.
    pub fn finish(mut self, lab: &Lab) -> Result<TransferReport> {
        let source = self.spec.source.clone();
        let receivers: Vec<String> =
            self.spec.receivers.iter().filter(|r| !self.spec.lost.contains(r)).cloned().collect();
        let all: Vec<String> = receivers.iter().chain([&source]).cloned().collect();
        self.gather(lab, &all, |t| &t.complete)?;
        let links = lab.link_counters_since(&self.before)?;
        for (_, child) in self.children.iter_mut().filter(|(host, _)| **host != source) {
            // `try_wait` skips children that were already reaped: their pid may have been reused.
            if let Ok(None) = child.try_wait() {
                kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM).context("ending a receiver")?;
            }
        }
        self.gather(lab, &receivers, |t| &t.exit)?;
        // A program leaves the group as its last step: the group can be used again only after that.
        self.gather(lab, &all, |t| &t.ended)?;

        let report = self.complete.remove(&source).unwrap_or_default();
        let source = serde_json::from_value(report)
            .with_context(|| format!("reading the report of canopy-rc send at {source}"))?;
        let mut reports = Vec::new();
        for host in receivers {
            let (complete, exit) =
                (self.complete.remove(&host).unwrap_or_default(), self.exit.remove(&host).unwrap_or_default());
            let mut report = ReceiverReport::from_events(&host, complete, exit)?;
            if self.spec.args.get(&host).is_some_and(|a| a.iter().any(|a| a == "--memory")) {
                // Memory that is written more than once does not hold the whole stream.
                report.memory_sha256 = None;
            }
            reports.push(report);
        }
        Ok(TransferReport { source, receivers: reports, links })
    }

    /// Processes output until `events` has an event of every host.
    fn gather(
        &mut self,
        lab: &Lab,
        hosts: &[String],
        events: impl Fn(&Self) -> &BTreeMap<String, Value>,
    ) -> Result<()> {
        loop {
            let missing: Vec<&str> =
                hosts.iter().map(String::as_str).filter(|&h| !events(self).contains_key(h)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            let waiting = missing.join(", ");
            self.process_output(lab).with_context(|| format!("waiting for canopy-rc at {waiting}"))?;
        }
    }

    /// Processes one item of a program's output.
    fn process_output(&mut self, lab: &Lab) -> Result<()> {
        let logs = lab.dir().join("log");
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (host, item) = match self.output.recv_timeout(left) {
            Ok(item) => item,
            Err(RecvTimeoutError::Timeout) => {
                bail!("not done within {} s; logs are in {}", self.spec.timeout.as_secs(), logs.display())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("every canopy-rc has ended; logs are in {}", logs.display()),
        };
        let lost = self.spec.lost.contains(&host);
        match item {
            OutputItem::Line(line) if line["error"].is_string() && !lost => {
                bail!("canopy-rc at {host}: {}", line["error"])
            }
            OutputItem::Line(line) if line["event"] == "complete" => drop(self.complete.insert(host, line)),
            OutputItem::Line(line) if line["event"] == "exit" => drop(self.exit.insert(host, line)),
            OutputItem::Line(_) => {}
            OutputItem::Garbage(text) => bail!("canopy-rc at {host} printed {text:?} instead of JSON"),
            OutputItem::End => {
                let child = self.children.get_mut(&host).context("an unknown process ended")?;
                let status = child.wait().context("waiting for canopy-rc")?;
                if !lost && !status.success() {
                    // The log goes with the lab.
                    let log = logs.join(format!("rc-{host}.log"));
                    let text = std::fs::read_to_string(&log).unwrap_or_default();
                    bail!("canopy-rc at {host} ended with {status}: {}; see {}", last_line(&text), log.display());
                }
                ensure!(lost || self.complete.contains_key(&host), "canopy-rc at {host} ended before it was done");
                self.ended.insert(host, Value::Null);
            }
        }
        Ok(())
    }
}

/// The last line that is not empty.
fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("its log is empty")
}

impl Drop for Transfer {
    fn drop(&mut self) {
        for child in self.children.values_mut() {
            // Already ended: nothing to do.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
