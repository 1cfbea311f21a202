// SPDX-License-Identifier: Apache-2.0
//! A path with one bottleneck and an RTT of 20 ms. A transfer through it shows how soon the source reduces its rate,
//! and how long the queue is above K_max, with Long-haul CNPs of the nodes and with CNPs of the receivers alone.
//!
//! ```text
//! s1 --- n1 === d ms === n2 (40 Mbit/s) === 10 - d ms === n3 --- r1, r2
//! ```

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use canopy_lab::TransferSpec;
use canopy_units::{Monotonic, Octets};
use serde_json::{Value, json};

use crate::pacer::Pacer;
use crate::queue::{Sampler, first_above, time_above};
use crate::{Bed, up_changed};

/// The group, and the source's queue pair in it.
pub const GROUP: &str = "g";
/// Initial rate of the source.
pub const LINE_RATE: &str = "120M";
const QPN: u32 = 0x1234;
const NEAR: &str = "n1/eth1--n2/eth1";
const FAR: &str = "n2/eth2--n3/eth1";
const ONE_WAY_MS: f64 = 10.0;
/// Octets that the bottleneck sends in a millisecond.
const OCTETS_PER_MS: f64 = 5_000.0;
const K_BASE: f64 = 64_000.0;

/// The path.
#[derive(Debug)]
pub struct Path {
    /// The lab, with the group.
    pub bed: Bed,
    /// Addresses of n1, n2 and n3.
    pub nodes: Vec<String>,
    /// K_min and K_max of the bottleneck.
    limits: (u64, u64),
}

/// Result of one transfer.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Time from when the queue is above K_min to the source's first lower rate.
    pub reaction_ms: f64,
    /// Total time with the queue above K_max.
    pub above_ms: f64,
    /// The whole transfer.
    pub seconds: f64,
    /// The sender of the first rate reduction: a node's address, or `peer`.
    pub caused_by: String,
}

impl Path {
    /// Brings the lab up with the bottleneck next to the source.
    ///
    /// # Errors
    /// The lab does not come up, or the thresholds do not follow.
    pub fn up() -> Result<Self> {
        let bed = up_changed("longhaul", |file| {
            file.spec.defaults.rate = None;
            for link in &mut file.spec.links {
                let between = link.a.device.starts_with('n') && link.b.device.starts_with('n');
                link.delay = between.then(|| "10ms".parse()).transpose().map_err(anyhow::Error::msg)?;
                let rate = match link.b.to_string().as_str() {
                    "n3/eth1" => Some("40Mbit"),
                    // The pacer queues the source's own packets.
                    _ if link.a.device == "s1" => None,
                    _ => Some("1Gbit"),
                };
                link.rate = rate.map(str::parse).transpose().map_err(anyhow::Error::msg)?;
            }
            Ok(())
        })?;
        bed.lab.create_group(GROUP, json!({"pathMtu": 4096, "cnpWindowUs": 1000}))?;
        let nodes = node_addresses(&bed)?;
        let mut path = Self { bed, nodes, limits: (0, 0) };
        path.move_bottleneck(0.0)?;
        Ok(path)
    }

    /// Moves the bottleneck `ms` away from the source, and waits until its thresholds have followed.
    ///
    /// # Errors
    /// They do not follow in time.
    pub fn move_bottleneck(&mut self, ms: f64) -> Result<()> {
        for (link, ms) in [(NEAR, ms), (FAR, ONE_WAY_MS - ms)] {
            self.bed.lab.set_delay(link, format!("{}us", ms * 1e3).parse().map_err(anyhow::Error::msg)?)?;
        }
        // The thresholds depend on a measurement and are not exact.
        let wanted = (OCTETS_PER_MS * 2.0 * (ONE_WAY_MS - ms)).max(K_BASE);
        let near = |k: u64| (k as f64) > wanted * 0.99 && (k as f64) < wanted * 1.15 + 2_000.0;
        let mut seen = None;
        let followed = self.bed.lab.wait(&format!("K_max of n2/eth2 to be about {wanted}"), |_| {
            seen = thresholds(&self.bed, "n2/eth2")?;
            Ok(seen.is_some_and(|(_, k_max)| near(k_max)))
        });
        followed.with_context(|| format!("{:#}", link(&self.bed, "n2/eth2").unwrap_or_default()))?;
        self.limits = seen.context("thresholds")?;
        Ok(())
    }

    /// A transfer from s1. The source applies its receivers' CNPs, and with `notified` also the nodes' Long-haul
    /// CNPs.
    ///
    /// # Errors
    /// Bytes differ, there was no congestion, or the source never reduced its rate.
    pub fn trial(&self, notified: bool) -> Result<Trial> {
        let pacer = start_pacer(&self.bed, if notified { &self.nodes } else { &[] })?;
        let sampler = Sampler::start(&self.bed.lab, "n2", "eth2")?;
        let report = self.bed.lab.transfer(transfer(&["r1", "r2"]))?;
        ensure!(report.mismatches().is_empty(), "other bytes at {:?}", report.mismatches());
        let depths = sampler.stop()?;
        let status = pacer.status()?;
        let actions = pacer.stop()?;
        let (k_min, k_max) = (Octets(self.limits.0), Octets(self.limits.1));
        let began = first_above(&depths, k_min).context("the queue was never above K_min")?;
        let first =
            first_slower(&actions, began).with_context(|| format!("the source was never slower: {status:#}"))?;
        Ok(Trial {
            reaction_ms: applied(first).context("appliedNs")?.since(began).as_secs_f64() * 1e3,
            above_ms: time_above(&depths, k_max).as_secs_f64() * 1e3,
            seconds: report.source.seconds,
            caused_by: first["limitedBy"].as_str().unwrap_or("none").to_owned(),
        })
    }
}

/// The first action that made the source slower; an increase on the way back to the line rate is none.
fn first_slower(actions: &[Value], began: Monotonic) -> Option<&Value> {
    // A node may detect the queue before the sampler measures it above K_min.
    let soon = |a: &Value| applied(a).is_some_and(|at| at + Duration::from_millis(20) > began);
    let line = actions.first()?["lineRateBps"].as_u64();
    let before = std::iter::once(line).chain(actions.iter().map(|a| a["rateBps"].as_u64()));
    let slower = before.zip(actions).filter(|(rate, a)| a["paused"] == true || a["rateBps"].as_u64() < *rate);
    slower.map(|(_, a)| a).find(|a| soon(a))
}

fn applied(action: &Value) -> Option<Monotonic> {
    action["appliedNs"].as_u64().map(Monotonic::from_nanos)
}

/// 8 MiB with more than rate x RTT in flight; only the pacer reduces the rate.
pub fn transfer(receivers: &[&str]) -> TransferSpec {
    let mut spec = TransferSpec::new(GROUP, "s1", receivers, 8 << 20);
    let qpn = QPN.to_string();
    let rc = ["--qpn", &qpn, "--window", "2048", "--timeout", "1s", "--ignore-cnps"];
    spec.args.insert("s1".into(), rc.map(String::from).into());
    spec
}

/// Starts canopy-pacer at s1, with the source's queue pair registered before its first packet.
///
/// # Errors
/// It does not start.
pub fn start_pacer(bed: &Bed, nodes: &[String]) -> Result<Pacer> {
    let args = ["--line-rate", LINE_RATE, "--rtt", "20ms", "--fixed-rtt"];
    let trusted = nodes.iter().flat_map(|node| ["--node", node]);
    let pacer = Pacer::start(&bed.lab, "s1", &args.into_iter().chain(trusted).collect::<Vec<_>>())?;
    let connection = bed.group(GROUP)?["connection"].clone();
    let dest_qpn = connection["designatedQpn"].as_u64().and_then(|q| u32::try_from(q).ok()).context("designatedQpn")?;
    pacer.open(QPN, connection["proxyAddress"].as_str().context("proxyAddress")?, dest_qpn)?;
    Ok(pacer)
}

/// The addresses of n1, n2 and n3.
///
/// # Errors
/// The controller does not answer.
pub fn node_addresses(bed: &Bed) -> Result<Vec<String>> {
    let address = |n| {
        let (_, node) = bed.lab.rest("GET", &format!("/api/v1/nodes/{n}"), None)?;
        Ok(node["spec"]["nodeAddress"].as_str().with_context(|| format!("{node:#}"))?.to_owned())
    };
    ["n1", "n2", "n3"].into_iter().map(address).collect()
}

/// A link direction in the REST API.
///
/// # Errors
/// The controller does not answer 200.
pub fn link(bed: &Bed, port: &str) -> Result<Value> {
    let (status, body) = bed.lab.rest("GET", &format!("/api/v1/links/{port}"), None)?;
    ensure!(status == 200, "GET link {port}: {status} {body}");
    Ok(body)
}

/// K_min and K_max of a port, if they are set.
///
/// # Errors
/// As [`link`].
pub fn thresholds(bed: &Bed, port: &str) -> Result<Option<(u64, u64)>> {
    let link = link(bed, port)?;
    let of = |name: &str| link["status"]["thresholds"][name].as_u64();
    Ok(of("kMinBytes").zip(of("kMaxBytes")))
}

/// The median.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_rate_reduction_long_before_is_not_a_reaction() {
        let action = |at: u64, rate: u64| json!({"appliedNs": at, "rateBps": rate, "lineRateBps": 10, "paused": false});
        let all =
            [action(1, 5), action(90_000_000, 7), action(95_000_000, 10), action(96_000_000, 9), action(99_000_000, 8)];
        let began = Monotonic::from_nanos(100_000_000);
        assert_eq!(first_slower(&all, began).unwrap()["rateBps"], 9);
        assert_eq!((median(vec![3.0, 1.0, 2.0]), first_slower(&[], Monotonic::START)), (2.0, None));
    }
}
