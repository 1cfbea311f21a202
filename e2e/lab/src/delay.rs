// SPDX-License-Identifier: Apache-2.0
//! Link delay: by the kernel's `sch_netem` if it has one, otherwise by a delay line, between two additional veth
//! pairs.
//!
//! ```text
//! a === b                    plain
//! a === x [netem y] === b    kernel: what arrives at x is redirected to y, which sends it later; and back
//! a === x [line] y === b     user space
//! ```
//!
//! x and y are in a namespace of their own, so that the queue of a holds only frames that wait to be sent, not frames
//! in transit. The rate limit applies at the sending end. With netem an end does not see that the other is down.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use canopy_units::nanos;

use crate::file::Link;
use crate::line;
use crate::means::{Means, redirect};
use crate::process::{Process, beside_this_program};
use crate::state::State;
use crate::units::{Delay, Rate};
use crate::{netns, sh};

/// `tc` arguments of a netem that keeps the order when its delay changes: with a rate, here the highest that fits, a
/// packet never overtakes the one before.
pub(crate) fn netem(delay: Delay, link: &Link) -> String {
    let octets = line::limit(link.rate.map(Rate::get).unwrap_or_default(), delay.get());
    let limit = (octets.get() / u64::from(link.mtu.min(2048))).max(1000);
    // tc takes whole microseconds, converts them to ticks of 64 ns and prints microseconds again, each time rounded
    // down.
    let us = nanos(delay.get()).div_ceil(1_000) + 1;
    format!("root handle 1: netem delay {us}us limit {limit} rate 1000gbit")
}

/// Starts netem between the ends of every delayed link, inside the lines' namespace.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn start_netem(state: &State) -> Result<()> {
    let (mut ip, mut tc) = (Vec::new(), Vec::new());
    for (index, link) in state.delayed() {
        let [a, b] = interfaces(index);
        for (this, other) in [(&a, &b), (&b, &a)] {
            tc.push(format!("qdisc add dev {this} {}", netem(link.delay.unwrap_or_default(), &link)));
            tc.push(format!("qdisc add dev {this} clsact"));
            tc.push(redirect(this, other));
            ip.push(format!("link set dev {this} up"));
        }
    }
    sh::batch(Command::new("tc").args(["-batch", "-"]), &tc)?;
    sh::batch(Command::new("ip").args(["-batch", "-"]), &ip)
}

/// Names of the two interfaces of link `index` in the lines' namespace.
pub(crate) fn interfaces(index: usize) -> [String; 2] {
    [format!("d{index}a"), format!("d{index}b")]
}

/// The control socket of link `index`'s delay line.
pub(crate) fn socket(state: &State, index: usize) -> PathBuf {
    // sun_path holds 108 bytes, and the directory may have 90.
    state.dir.join(format!("d{index}.sock"))
}

/// Starts the line of every link that is delayed in user space and waits until they forward.
///
/// # Errors
/// `canopy-lab` or `ethtool` is missing, or a line ends.
pub(crate) fn start_lines(state: &mut State) -> Result<()> {
    let links: Vec<(usize, Link)> = state.delayed().collect();
    if state.delay_means != Some(Means::UserSpace) || links.is_empty() {
        return Ok(());
    }
    let mut program = state.bin_dir.join("canopy-lab");
    if !program.is_file() {
        program = beside_this_program()?.join("canopy-lab");
    }
    ensure!(program.is_file(), "{} does not exist: build it (cargo build -p canopy-lab)", program.display());
    let logs = state.dir.join("log");
    std::fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    for (index, link) in &links {
        let [a, b] = interfaces(*index);
        let mut c = in_time(&state.instance.lines_namespace(), &program);
        c.args(["delay-line", "--a", &a, "--b", &b, "--mtu", &link.mtu.to_string()]);
        c.args(["--delay", &link.delay.unwrap_or_default().to_string()]);
        if let Some(rate) = link.rate {
            c.args(["--rate", &rate.to_string()]);
        }
        c.arg("--socket").arg(socket(state, *index));
        let process = Process::spawn(&mut c, &logs.join(format!("delay-line-{index}.log")))?;
        state.processes.insert(format!("delay-line {}", link.label()), process);
        state.save()?;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    for (index, link) in &links {
        let process = &state.processes[&format!("delay-line {}", link.label())];
        while let Err(e) = line::ask(&socket(state, *index)) {
            if !process.is_alive() {
                bail!("the delay line of {} ended; its log: {}", link.label(), process.log_tail());
            }
            if Instant::now() >= deadline {
                return Err(e.context(format!("the delay line of {} is not ready", link.label())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// A command that is scheduled ahead of ordinary processes, if permitted (CAP_SYS_NICE): on a busy machine the line
/// would be late by milliseconds. It sleeps between frames, so it leaves CPU time to others.
fn in_time(ns: &str, program: &Path) -> Command {
    const PRIORITY: [&str; 2] = ["-r", "1"];
    if sh::run(Command::new("chrt").args(PRIORITY).arg("true")).is_err() {
        return netns::command(ns, program);
    }
    let mut c = netns::command(ns, "chrt");
    c.args(PRIORITY).arg(program);
    c
}

impl State {
    /// Links that have a delay, with their places in the file.
    pub(crate) fn delayed(&self) -> impl Iterator<Item = (usize, Link)> {
        self.file.links().enumerate().filter(|(_, l)| l.delay.is_some()).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::LabFile;

    #[test]
    fn netem_holds_what_is_under_way_and_keeps_the_order() {
        let file = LabFile::parse(include_str!("../../topologies/longhaul.yaml")).unwrap();
        let link = file.links().next().unwrap();
        let words = netem(link.delay.unwrap(), &link);
        assert!(words.starts_with("root handle 1: netem delay 10001us limit ") && words.ends_with(" rate 1000gbit"));
        let limit: u64 = words.split(' ').skip_while(|w| *w != "limit").nth(1).unwrap().parse().unwrap();
        // 500 Mbit/s x 10 ms of frames of 2 kB.
        assert!(limit > 500_000_000 / 100 / 8 / 2048, "{words}");
    }
}
