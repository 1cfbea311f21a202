// SPDX-License-Identifier: Apache-2.0
//! Depth of a port's queue over time, as `tc` reads it, some thousand times a second.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use canopy_lab::Lab;
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// Between two looks.
const EVERY: Duration = Duration::from_micros(500);

/// CLOCK_MONOTONIC, nanoseconds: what `canopy-pacer watch --json` tells too.
pub fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| Duration::from(t).as_nanos() as u64)
}

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// Octets that wait.
    pub bytes: u64,
}

/// Looks at one queue until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Depth>>>,
}

impl Sampler {
    /// Begins with the root queue of `port` at `device`.
    ///
    /// # Errors
    /// No such device, or `tc` cannot be started.
    pub fn start(lab: &Lab, device: &str, port: &str) -> Result<Self> {
        let mut c: Command = lab.command(device, "tc")?;
        c.args(["-s", "-j", "-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = c.spawn().context("starting tc (apt-get install iproute2)")?;
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, port) = (Arc::clone(&stop), port.to_owned());
        Ok(Self { stop, thread: std::thread::spawn(move || look(child, &port, &flag)) })
    }

    /// All looks, in order.
    ///
    /// # Errors
    /// `tc` ended early, or said something else than a depth.
    pub fn stop(self) -> Result<Vec<Depth>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| bail!("the sampler panicked"))
    }
}

fn look(mut child: Child, port: &str, stop: &AtomicBool) -> Result<Vec<Depth>> {
    let mut ask = child.stdin.take().context("tc's standard input")?;
    let mut said = BufReader::new(child.stdout.take().context("tc's standard output")?);
    let (mut all, mut line) = (Vec::new(), String::new());
    while !stop.load(Ordering::Relaxed) {
        writeln!(ask, "qdisc show dev {port}")?;
        line.clear();
        if said.read_line(&mut line)? == 0 {
            bail!("tc ended: is there a queue at {port}?");
        }
        let bytes = octets(&line).with_context(|| format!("tc said {line:?}"))?;
        all.push(Depth { at_ns: monotonic_ns(), bytes });
        std::thread::sleep(EVERY);
    }
    drop(ask);
    child.wait()?;
    Ok(all)
}

/// Of the root queue.
fn octets(line: &str) -> Option<u64> {
    let queues: Vec<Value> = serde_json::from_str(line).ok()?;
    queues.iter().find(|q| q["root"] == true)?["backlog"].as_u64()
}

/// When a queue was first above `bytes`.
pub fn first_above(depths: &[Depth], bytes: u64) -> Option<u64> {
    depths.iter().find(|d| d.bytes > bytes).map(|d| d.at_ns)
}

/// How long it was above `bytes` altogether, nanoseconds.
pub fn above_ns(depths: &[Depth], bytes: u64) -> u64 {
    depths.windows(2).filter(|w| w[0].bytes > bytes).map(|w| w[1].at_ns - w[0].at_ns).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn depths_are_read_and_added_up() {
        let line = r#"[{"kind":"tbf","root":true,"backlog":4096},{"kind":"clsact","backlog":0}]"#;
        assert_eq!((octets(line), octets("[]"), octets("x")), (Some(4096), None, None));
        let depths = [(0, 5), (10, 20), (30, 21), (40, 3), (50, 9)].map(|(at_ns, bytes)| Depth { at_ns, bytes });
        assert_eq!((first_above(&depths, 10), above_ns(&depths, 10), above_ns(&depths, 30)), (Some(10), 30, 0));
    }
}
