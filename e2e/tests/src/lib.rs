// SPDX-License-Identifier: Apache-2.0
//! Shared code of the end-to-end tests: one lab at a time, captures, and access to the kernel's maps.
//!
//! Nothing is simulated: the controller, an agent per node, kernel datapath, and traffic. The tests need root, the
//! workspace's binaries (`make build`) and the tools of `make tools`; without them they fail.

pub mod capture;
pub mod clock;
pub mod cnps;
pub mod longhaul;
pub mod moves;
pub mod pacer;
mod paused;
pub mod prometheus;
pub mod queue;
mod running;
mod scapy;
pub mod steered;

pub use paused::{Paused, Starved};
pub use running::Running;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use canopy_lab::{Instance, Lab, LabFile, Options};

static ONE_LAB: Mutex<()> = Mutex::new(());

/// Packets dropped at the boundary of the domain, by interface and reason.
pub type PortDrops = BTreeMap<(String, String), u64>;

/// A lab that no other test of this process uses at the same time.
#[derive(Debug)]
pub struct Bed {
    /// The lab.
    pub lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

/// True in `make test-deep`.
pub fn deep() -> bool {
    std::env::var_os("CANOPY_DEEP").is_some()
}

/// Directory of the built binaries: that of the running test.
///
/// # Errors
/// The path of the running test is unknown.
pub fn bin_dir() -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let dir = me.ancestors().find(|d| d.join("canopy-controller").is_file());
    Ok(dir.context("canopy-controller is not built: run `make build` first")?.to_path_buf())
}

/// Brings `e2e/topologies/<name>.yaml` up.
///
/// # Errors
/// As [`Lab::up`].
pub fn up(name: &str) -> Result<Bed> {
    up_changed(name, |_| Ok(()))
}

/// Brings `e2e/topologies/<name>.yaml` up after `change` has modified it.
///
/// # Errors
/// As [`Lab::up`], and those of `change`.
pub fn up_changed(name: &str, change: impl FnOnce(&mut LabFile) -> Result<()>) -> Result<Bed> {
    up_with(name, Options::default(), change)
}

/// Brings `e2e/topologies/<name>.yaml` up with a management link.
///
/// # Errors
/// As [`Lab::up`].
pub fn up_managed(name: &str) -> Result<Bed> {
    up_with(name, Options { management: true, ..Options::default() }, |_| Ok(()))
}

/// Brings `e2e/topologies/<name>.yaml` up with a management link, and an agent on every host.
///
/// # Errors
/// As [`Lab::up`].
pub fn up_with_host_agents(name: &str) -> Result<Bed> {
    up_with(name, Options { management: true, host_agents: true, ..Options::default() }, |_| Ok(()))
}

fn up_with(name: &str, options: Options, change: impl FnOnce(&mut LabFile) -> Result<()>) -> Result<Bed> {
    let turn = ONE_LAB.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies").join(format!("{name}.yaml"));
    let mut file = LabFile::read(&path)?;
    change(&mut file)?;
    let instance = Instance::new(Some(format!("t{}", std::process::id() % 100_000)))?;
    let lab = Lab::up(file, Options { instance, bin_dir: Some(bin_dir()?), ..options })?;
    Ok(Bed { lab, _turn: turn })
}

impl Bed {
    /// `status` of a group in the REST API.
    ///
    /// # Errors
    /// The controller does not answer 200.
    pub fn group(&self, name: &str) -> Result<serde_json::Value> {
        let (status, body) = self.lab.rest("GET", &format!("/api/v1/groups/{name}"), None)?;
        ensure!(status == 200, "GET group {name}: {status} {body}");
        Ok(body["status"].clone())
    }

    /// Waits until the group's phase is `phase`.
    ///
    /// # Errors
    /// Not in time; the error contains the group's status.
    pub fn wait_phase(&self, name: &str, phase: &str) -> Result<()> {
        self.lab
            .wait(&format!("group {name} to be {phase}"), |_| Ok(self.group(name)?["phase"] == phase))
            .with_context(|| format!("{:#}", self.group(name).unwrap_or_default()))
    }

    /// Waits until every node is in sync and the round-trip time of each link between nodes is measured: since then packets cross each link
    /// in both directions. Returns the nodes as the REST API has them.
    ///
    /// # Errors
    /// Not in time.
    pub fn wait_measured(&self) -> Result<Vec<serde_json::Value>> {
        let ports = |node: &serde_json::Value| node["spec"]["ports"].as_array().cloned().unwrap_or_default();
        let is_measured = |node: &serde_json::Value| ports(node).iter().all(|port| !port["thresholds"].is_null());
        let mut nodes = Vec::new();
        self.lab.wait("every node to be in sync and every link to be measured", |_| {
            nodes = self.lab.rest("GET", "/api/v1/nodes", None)?.1["items"].as_array().cloned().unwrap_or_default();
            Ok(!nodes.is_empty() && nodes.iter().all(|node| node["status"]["state"] == "InSync" && is_measured(node)))
        })?;
        Ok(nodes)
    }

    /// What `canopyctl` prints.
    ///
    /// # Errors
    /// It fails; the error contains its message.
    pub fn canopyctl(&self, args: &[&str]) -> Result<String> {
        let server = format!("http://127.0.0.1:{}", self.lab.rest_port()?);
        let out = Command::new(bin_dir()?.join("canopyctl")).args(["--server", &server]).args(args).output()?;
        ensure!(out.status.success(), "canopyctl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8(out.stdout)?)
    }

    /// Limits what `host` sends from now on, evenly; the lab's file gives its link a rate.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn limit(&self, host: &str, mbit: u64) -> Result<()> {
        // 1 ms at the rate, and at least a few packets of a path MTU of 1024.
        let (rate, burst) = (format!("{mbit}mbit"), (mbit * 125).max(4096).to_string());
        let mut tc = self.lab.command(host, "tc")?;
        tc.args(["qdisc", "change", "dev", "eth0", "root", "tbf", "rate", &rate]);
        let out = tc.args(["burst", &burst, "limit", "1000000"]).output().context("tc")?;
        ensure!(out.status.success(), "{rate} at {host}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(())
    }

    /// Octets that `host` has sent.
    ///
    /// # Errors
    /// The counters of its link cannot be read.
    pub fn sent_by(&self, host: &str) -> Result<u64> {
        let links = self.lab.link_counters()?;
        let link = links.iter().find(|l| l.a.device == host).with_context(|| format!("{host} has no link"))?;
        Ok(link.a_to_b.passed_octets.get())
    }

    /// Where an agent's programs and maps are pinned.
    ///
    /// # Errors
    /// There are none, or those of two layouts.
    pub fn pins(&self, node: &str) -> Result<PathBuf> {
        let all = self.lab.state().instance.agent_pins().join(node);
        let layouts: Vec<_> = std::fs::read_dir(&all)?.collect::<Result<_, _>>()?;
        let [layout] = &layouts[..] else { bail!("{}: {layouts:?}", all.display()) };
        Ok(layout.path())
    }

    /// Number of entries in all configuration and state maps of a node, by `bpftool`.
    ///
    /// # Errors
    /// `bpftool` fails.
    pub fn map_entries(&self, node: &str) -> Result<usize> {
        let pins = self.pins(node)?;
        let mut total = 0;
        for map in
            ["groups", "proxies", "qpns", "trees", "outers", "hmacs", "branches", "peers", "states", "cnps", "drops"]
        {
            let out = Command::new("bpftool")
                .args(["-j", "map", "dump", "pinned"])
                .arg(pins.join(map))
                .output()
                .context("bpftool")?;
            ensure!(out.status.success(), "bpftool map dump {map} at {node}: {}", String::from_utf8_lossy(&out.stderr));
            let entries: serde_json::Value = serde_json::from_slice(&out.stdout)?;
            // Packets dropped before their group was known are counted for group 0.
            let of_no_group = |e: &serde_json::Value| map == "drops" && e["formatted"]["key"]["group_id"] == 0;
            total += entries.as_array().map_or(0, |a| a.iter().filter(|e| !of_no_group(e)).count());
        }
        Ok(total)
    }

    /// Drops of a group at all nodes by reason, from telemetry.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn drops(&self, group: &str) -> Result<Vec<(String, String, u64)>> {
        let (_, body) = self.lab.rest("GET", &format!("/api/v1/groups/{group}/telemetry"), None)?;
        let text = |v: &serde_json::Value| v.as_str().unwrap_or("?").to_owned();
        let mut out = Vec::new();
        for n in body["items"].as_array().context("telemetry without items")? {
            for d in n["drops"].as_array().with_context(|| format!("telemetry without drops: {n}"))? {
                out.push((
                    text(&n["node"]),
                    text(&d["name"]),
                    d["packets"].as_u64().context("a drop without packets")?,
                ));
            }
        }
        Ok(out)
    }

    /// Packets that a node dropped at the boundary of the domain, from telemetry.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn port_drops(&self, node: &str) -> Result<PortDrops> {
        let (status, body) = self.lab.rest("GET", &format!("/api/v1/nodes/{node}/telemetry"), None)?;
        ensure!(status == 200, "GET telemetry of {node}: {status} {body}");
        let of = |d: &serde_json::Value| {
            Some(((d["port"].as_str()?.into(), d["name"].as_str()?.into()), d["packets"].as_u64()?))
        };
        Ok(body["drops"]
            .as_array()
            .with_context(|| format!("telemetry without drops: {body}"))?
            .iter()
            .filter_map(of)
            .collect())
    }
}
