// SPDX-License-Identifier: Apache-2.0
//! One transfer from a source to receivers with `canopy-rc`, and what everybody counted.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lab::Lab;
use crate::wires::LinkCounters;

/// No line that `canopy-rc` prints is longer, bytes.
const MAX_LINE: u64 = 1 << 20;
/// Lines that may wait to be read; a line is a rare event.
const QUEUE: usize = 1024;

/// What to send to whom.
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
    /// The content follows from it.
    pub seed: u64,
    /// More options for `canopy-rc send`.
    pub send_args: Vec<String>,
    /// More options for `canopy-rc receive`.
    pub receive_args: Vec<String>,
    /// How long everything may take.
    pub timeout: Duration,
    /// Let the sender draw its progress on standard error.
    pub progress: bool,
}

impl TransferSpec {
    /// `bytes` from `source` to `receivers` with seed 1 within two minutes.
    pub fn new(group: &str, source: &str, receivers: &[&str], bytes: u64) -> Self {
        Self {
            group: group.into(),
            source: source.into(),
            receivers: receivers.iter().map(|&r| r.into()).collect(),
            bytes,
            seed: 1,
            send_args: Vec::new(),
            receive_args: Vec::new(),
            timeout: Duration::from_secs(120),
            progress: false,
        }
    }
}

/// What the source counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Bytes sent and acknowledged.
    pub bytes: u64,
    /// SHA-256 of what was sent, hexadecimal.
    pub sha256: String,
    /// From the first packet to the last acknowledgement.
    pub seconds: f64,
    /// Bytes times eight by seconds.
    pub goodput_bps: f64,
    /// ACKs that arrived at the source.
    pub acks_received: u64,
    /// Everything else that `canopy-rc send` said.
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

/// What one receiver counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// Which host.
    pub host: String,
    /// Bytes received in order.
    pub bytes: u64,
    /// SHA-256 of what was received, hexadecimal.
    pub sha256: String,
    /// ACKs that it sent.
    pub acks_sent: u64,
    /// Its `complete` event, whole.
    pub complete: Value,
    /// Its `exit` event, whole.
    pub exit: Value,
}

/// A transfer that ended well: everybody completed. Whether the content is right is for the reader to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferReport {
    /// The source's side.
    pub source: SourceReport,
    /// The receivers, in the order of the specification.
    pub receivers: Vec<ReceiverReport>,
    /// What each link carried meanwhile, in the file's order.
    pub links: Vec<LinkCounters>,
}

impl TransferReport {
    /// Receivers whose content differs from the source's.
    pub fn mismatches(&self) -> Vec<&str> {
        self.receivers.iter().filter(|r| r.sha256 != self.source.sha256 || r.bytes != self.source.bytes).map(|r| r.host.as_str()).collect()
    }
}

/// A transfer under way. Dropping it ends its processes.
#[derive(Debug)]
pub struct Transfer {
    spec: TransferSpec,
    children: Vec<(String, Child)>,
    said: Receiver<(String, Said)>,
    before: Vec<LinkCounters>,
    deadline: Instant,
}

#[derive(Debug)]
enum Said {
    Line(Value),
    Garbage(String),
    End,
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
        let (out, said) = sync_channel(QUEUE);
        let before = self.link_counters()?;
        let deadline = Instant::now() + spec.timeout;
        let mut transfer = Transfer { spec, children: Vec::new(), said, before, deadline };
        let spec = transfer.spec.clone();
        for host in &spec.receivers {
            let mut c = self.rc("receive", host, &spec)?;
            c.args(&spec.receive_args);
            transfer.spawn(self, host, c, out.clone())?;
        }
        let mut c = self.rc("send", &spec.source, &spec)?;
        c.args(["--seed", &spec.seed.to_string(), "--wait-receivers", &spec.receivers.len().to_string()]).args(&spec.send_args);
        if spec.progress {
            c.arg("--progress");
        }
        transfer.spawn(self, &spec.source, c, out)?;
        Ok(transfer)
    }

    fn rc(&self, verb: &str, host: &str, spec: &TransferSpec) -> Result<Command> {
        let mut c = self.command(host, self.binary("canopy-rc")?)?;
        c.args([verb, "--controller", &format!("unix:{}/controller.sock", self.state.dir.display())]);
        c.args(["--group", &spec.group, "--host", host, "--bytes", &spec.bytes.to_string(), "--json"]);
        Ok(c)
    }
}

impl Transfer {
    fn spawn(&mut self, lab: &Lab, host: &str, mut command: Command, out: SyncSender<(String, Said)>) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        if !(self.spec.progress && host == self.spec.source) {
            let log = lab.dir().join("log").join(format!("rc-{host}.log"));
            command.stderr(OpenOptions::new().create(true).append(true).open(&log).with_context(|| format!("opening {}", log.display()))?);
        }
        let mut child = command.spawn().with_context(|| format!("starting canopy-rc at {host}"))?;
        let stdout = child.stdout.take().context("standard output of canopy-rc")?;
        self.children.push((host.to_owned(), child));
        let host = host.to_owned();
        std::thread::spawn(move || listen(stdout, |said| out.send((host.clone(), said)).is_ok()));
        Ok(())
    }

    /// Waits until the source and every receiver are done, ends the receivers, and gathers what all of them and the
    /// links counted.
    ///
    /// # Errors
    /// Somebody ended early or said something else than JSON, or the time is over; says who is not done.
    pub fn finish(mut self, lab: &Lab) -> Result<TransferReport> {
        let spec = self.spec.clone();
        let mut source: Option<SourceReport> = None;
        let mut complete: Vec<Option<Value>> = vec![None; spec.receivers.len()];
        while source.is_none() || complete.iter().any(Option::is_none) {
            let waiting = || {
                let receivers = spec.receivers.iter().zip(&complete).filter(|(_, c)| c.is_none()).map(|(h, _)| h.as_str());
                source.is_none().then_some(spec.source.as_str()).into_iter().chain(receivers).collect::<Vec<_>>().join(", ")
            };
            let (host, line) = self.next(lab).with_context(|| format!("waiting for {}", waiting()))?;
            if host == spec.source {
                // Other events of the sender carry no hash.
                source = serde_json::from_value(line).ok().or(source);
            } else if let Some(i) = spec.receivers.iter().position(|r| *r == host)
                && line["event"] == "complete"
            {
                complete[i] = Some(line);
            }
        }
        let links = lab.link_counters_since(&self.before)?;
        let receivers = self.end_receivers(lab, complete.into_iter().flatten())?;
        Ok(TransferReport { source: source.context("the source's report")?, receivers, links })
    }

    fn end_receivers(&mut self, lab: &Lab, complete: impl Iterator<Item = Value>) -> Result<Vec<ReceiverReport>> {
        let spec = self.spec.clone();
        for (_, child) in self.children.iter().filter(|(h, _)| spec.receivers.contains(h)) {
            kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM).context("ending a receiver")?;
        }
        let mut exits: Vec<Option<Value>> = vec![None; spec.receivers.len()];
        while exits.iter().any(Option::is_none) {
            let (host, line) = self.next(lab).context("waiting for the receivers' last words")?;
            if let Some(i) = spec.receivers.iter().position(|r| *r == host)
                && line["event"] == "exit"
            {
                exits[i] = Some(line);
            }
        }
        let report = |((host, complete), exit): ((String, Value), Value)| {
            let number = |v: &Value, field: &str| v[field].as_u64().with_context(|| format!("receiver {host} did not say {field:?}: {v}"));
            let sha256 = complete["sha256"].as_str().with_context(|| format!("receiver {host} did not say \"sha256\": {complete}"))?.to_owned();
            Ok(ReceiverReport { bytes: number(&complete, "bytes")?, acks_sent: number(&exit, "acks_sent")?, sha256, host, complete, exit })
        };
        spec.receivers.into_iter().zip(complete).zip(exits.into_iter().flatten()).map(report).collect()
    }

    /// The next line that anybody says. A process that is done says nothing more, so an end is an error only while
    /// something is still expected, which is whenever this is called, unless it was a good end of the sender.
    fn next(&mut self, lab: &Lab) -> Result<(String, Value)> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let (host, said) = match self.said.recv_timeout(left) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout) => bail!("not within {} s; logs are in {}", self.spec.timeout.as_secs(), lab.dir().join("log").display()),
                Err(RecvTimeoutError::Disconnected) => bail!("every canopy-rc has ended"),
            };
            match said {
                Said::Line(line) => return Ok((host, line)),
                Said::Garbage(text) => bail!("canopy-rc at {host} said {text:?} instead of JSON"),
                Said::End => {
                    let (_, child) = self.children.iter_mut().find(|(h, _)| *h == host).context("an unknown process ended")?;
                    let status = child.wait().context("waiting for canopy-rc")?;
                    ensure!(status.success(), "canopy-rc at {host} ended with {status}; see {}", lab.dir().join("log").join(format!("rc-{host}.log")).display());
                }
            }
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            // Already ended: nothing to do.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Turns lines into events until the end, or until nobody listens.
fn listen(stdout: impl Read, mut tell: impl FnMut(Said) -> bool) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let event = match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => Said::End,
            Ok(_) => serde_json::from_slice(&line).map_or_else(|_| Said::Garbage(String::from_utf8_lossy(&line).into_owned()), Said::Line),
        };
        let end = matches!(event, Said::End);
        if !tell(event) || end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_and_other_text_is_noticed() {
        let mut heard = Vec::new();
        listen("{\"event\":\"complete\"}\noops\n".as_bytes(), |s| {
            heard.push(format!("{s:?}"));
            true
        });
        assert_eq!(heard, ["Line(Object {\"event\": String(\"complete\")})", "Garbage(\"oops\\n\")", "End"]);
    }

    #[test]
    fn a_receiver_with_other_content_or_less_of_it_is_a_mismatch() {
        let source: SourceReport = serde_json::from_str(r#"{"bytes":9,"sha256":"ab","seconds":1.0,"goodput_bps":72.0,"acks_received":1,"naks":0}"#).unwrap();
        let receiver = |host: &str, bytes, sha256: &str| ReceiverReport { host: host.into(), bytes, sha256: sha256.into(), acks_sent: 1, complete: Value::Null, exit: Value::Null };
        let receivers = vec![receiver("r1", 9, "ab"), receiver("r2", 9, "ac"), receiver("r3", 8, "ab")];
        assert_eq!(TransferReport { source, receivers, links: vec![] }.mismatches(), ["r2", "r3"]);
    }
}
