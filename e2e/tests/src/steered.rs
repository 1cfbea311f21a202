// SPDX-License-Identifier: Apache-2.0
//! Hosts that `canopy-steer` gives path programs, and datagrams between them.

use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{Bed, up_with_host_agents};

/// Sends datagrams to a port that is closed: the receiver's kernel counts each of them as such. Flows, of source ports that the kernel chooses, in turn.
const SEND: &str = "
import socket, sys, time
to, (flows, count, size, rate) = sys.argv[1], map(int, sys.argv[2:])
out = [socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for _ in range(flows)]
start, what = time.monotonic(), bytes(size)
for n in range(count):
    ahead = start + n / rate - time.monotonic()
    if ahead > 0.0002:
        time.sleep(ahead)
    out[n % flows].sendto(what, (to, 9))
";

/// What a host sends.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams {
    /// Flows, which take turns.
    pub flows: u64,
    /// In all.
    pub count: u64,
    /// Octets of each.
    pub size: u64,
    /// Datagrams a second.
    pub rate: u64,
}

/// A path as `canopy-steer` has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Name of its second node.
    pub spine: String,
    /// Of 64.
    pub slots: u64,
    /// 1 without congestion.
    pub weight: f64,
    /// As printed.
    pub fault: Value,
    /// That have taken it.
    pub packets: u64,
}

impl Bed {
    /// Brings a topology up with agents on hosts and `canopy-steer` on some, until each has all nodes and every link carries packets.
    ///
    /// # Errors
    /// Not in time.
    pub fn steered(topology: &str, hosts: &[&str], settings: &str) -> Result<Self> {
        let mut bed = up_with_host_agents(topology)?;
        let nodes = format!("\"nodes\":{}", bed.wait_measured()?.len());
        for host in hosts {
            bed.lab.start_steer(host, settings)?;
            bed.lab.wait("canopy-steer to have the fabric", |lab| {
                Ok(lab.steer(host, "status", &["--json"]).is_ok_and(|printed| printed.contains(&nodes)))
            })?;
        }
        Ok(bed)
    }

    /// The paths from a host to an address, by their second nodes.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn steered_paths(&self, from: &str, to: &str) -> Result<Vec<Path>> {
        let shown: Value = serde_json::from_str(&self.lab.steer(from, "paths", &["--json", to])?)?;
        let of = |path: &Value| {
            Some(Path {
                spine: path["nodes"][1].as_str()?.to_owned(),
                slots: path["slots"].as_u64()?,
                weight: path["weight"].as_f64()?,
                fault: path["fault"].clone(),
                packets: path["packets"].as_u64()?,
            })
        };
        let paths: Option<Vec<Path>> = shown["paths"].as_array().context("paths")?.iter().map(of).collect();
        let mut paths = paths.with_context(|| format!("{shown}"))?;
        paths.sort_by(|a, b| a.spine.cmp(&b.spine));
        Ok(paths)
    }

    /// Starts to send datagrams from a host to an address of another one.
    ///
    /// # Errors
    /// The sender does not start.
    pub fn send(&self, from: &str, to: &str, Datagrams { flows, count, size, rate }: Datagrams) -> Result<Child> {
        let mut python = self.lab.command(from, "python3")?;
        python.args(["-c", SEND, to]).args([flows, count, size, rate].map(|number| number.to_string()));
        Ok(python.stdin(Stdio::null()).spawn()?)
    }

    /// Datagrams that have come to a host.
    ///
    /// # Errors
    /// Its counters cannot be read.
    pub fn arrived(&self, host: &str) -> Result<u64> {
        let out = self.lab.command(host, "cat")?.arg("/proc/net/snmp6").output()?;
        let counts = String::from_utf8(out.stdout)?;
        let count = counts.lines().find_map(|line| line.strip_prefix("Udp6NoPorts"));
        Ok(count.context("Udp6NoPorts")?.trim().parse()?)
    }

    /// Gives a port of a node another rate, with room in its queue for so many octets.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn shape(&self, node: &str, interface: &str, rate: &str, room: u64) -> Result<()> {
        let args = format!("qdisc change dev {interface} root tbf rate {rate} burst 125000 limit {room}");
        let out = self.lab.command(node, "tc")?.args(args.split(' ')).output()?;
        ensure!(out.status.success(), "{args} at {node}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(())
    }
}
