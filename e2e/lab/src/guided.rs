// SPDX-License-Identifier: Apache-2.0
//! Guided faults: a transfer that lasts, one thing in it that is broken, and what finds it.
//!
//! What is broken is written into the lab's directory before it is broken, so that another process mends it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use canopy_units::Rate;
use clap::ValueEnum;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::process::{Process, stop_all};
use crate::units::Loss;
use crate::{network, sh};

/// The group that is broken.
pub const GROUP: &str = "guided";
const FILE: &str = "guided.json";
/// Octets that no transfer ends with.
const ENDLESS: &str = "1099511627776";
/// How long the transfer lasts if it is not mended, and the lab not taken down.
const LASTS: &str = "24h";
/// Rate of the source: two cores carry it, with all copies.
const RATE: Rate = Rate::from_bps(50_000_000);
/// MTU of a host that takes no packet of the group.
const SMALL_MTU: u32 = 1280;
/// How long the ends of the transfer may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// What to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Breakable {
    /// A link of the group's tree carries nothing, and its carrier stays up.
    Link,
    /// The application of a receiver hangs.
    Receiver,
    /// The MTU of a receiver's host is too small.
    Mtu,
}

/// What is broken, and the transfer in which it is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Guided {
    broken: Option<Broken>,
    /// The host that sends, whose rate is limited.
    source: String,
    /// By host.
    processes: BTreeMap<String, Process>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Broken {
    /// By one of its ends, with the loss that it had.
    Link {
        end: String,
        before: Loss,
    },
    Receiver(String),
    Mtu {
        host: String,
        interface: String,
        before: u32,
    },
}

impl Lab {
    /// Starts a transfer in group `guided` and breaks something in it. Returns what to type to find it.
    ///
    /// # Errors
    /// Something is broken already, the lab has no two hosts or no controller, or the transfer does not start; nothing is broken then.
    pub fn break_guided(&self, what: Breakable) -> Result<String> {
        ensure!(
            self.read_guided()?.is_none(),
            "a guided fault is there already: find it, or take it back with `canopy-lab demo mend`"
        );
        let made = self.make(what);
        if made.is_err() {
            // Whatever part of it there is; the first error is what matters.
            _ = self.mend_guided();
        }
        made
    }

    /// Takes the guided fault back and ends its transfer; `false` if there is none.
    ///
    /// # Errors
    /// The kernel or the controller refuses something.
    pub fn mend_guided(&self) -> Result<bool> {
        let Some(guided) = self.read_guided()? else { return Ok(false) };
        match &guided.broken {
            Some(Broken::Link { end, before }) => self.set_loss(end, *before)?,
            Some(Broken::Receiver(host)) => {
                if let Some(process) = guided.processes.get(host) {
                    process.signal(Signal::SIGCONT)?;
                }
            }
            Some(Broken::Mtu { host, interface, before }) => self.set_mtu(host, interface, *before)?,
            None => {}
        }
        let processes: Vec<Process> = guided.processes.into_values().collect();
        stop_all(&processes, GRACE)?;
        let (status, answer) = self.rest("DELETE", &format!("/api/v1/groups/{GROUP}"), None)?;
        ensure!(
            (200..300).contains(&status) || status == 404,
            "the controller keeps group {GROUP} ({status}): {answer}"
        );
        self.limit(&guided.source, None)?;
        let path = self.guided_file();
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        Ok(true)
    }

    fn make(&self, what: Breakable) -> Result<String> {
        let hosts: Vec<String> = self.state().file.spec.hosts.iter().map(|h| h.name.clone()).collect();
        let source = hosts.iter().find(|h| *h == "s1").or(hosts.first()).context("the lab has no host")?.clone();
        let receivers: Vec<&String> = hosts.iter().filter(|h| **h != source).collect();
        let last = (*receivers.last().context("a fault needs a receiver: the lab has one host")?).clone();
        let mut guided = Guided { source: source.clone(), ..Guided::default() };
        self.write_guided(&guided)?;
        self.limit(&source, Some(RATE))?;
        // One that an interrupted command has left.
        self.rest("DELETE", &format!("/api/v1/groups/{GROUP}"), None)?;
        self.create_group(GROUP, json!({"pathMtu": 4096, "stallAfterMs": 500}))?;
        for host in &receivers {
            let process = self.end_of_transfer("receive", host, &["--linger", LASTS])?;
            guided.processes.insert((*host).clone(), process);
            self.write_guided(&guided)?;
        }
        let count = receivers.len().to_string();
        // It neither gives up nor slows down.
        let patience = ["--deadline", LASTS, "--ready-timeout", "60s", "--timeout", "200ms", "--retries", "0"];
        let args = [&["--wait-receivers", &count, "--ignore-cnps"][..], &patience].concat();
        guided.processes.insert(source.clone(), self.end_of_transfer("send", &source, &args)?);
        self.write_guided(&guided)?;
        self.wait("data of the guided group to be acknowledged", |lab| {
            for (host, process) in &guided.processes {
                ensure!(process.is_alive(), "canopy-rc at {host} ended: {}", process.log_tail());
            }
            Ok(lab.guided_group()?["status"]["delivery"]["state"] == "Flowing")
        })?;
        let broken = match what {
            Breakable::Link => {
                let end = self.inner_end()?;
                let link = self.links().into_iter().find(|l| l.a.to_string() == end || l.b.to_string() == end);
                let (before, _) = self.loss(&link.context("its link")?)?;
                Broken::Link { end, before }
            }
            Breakable::Receiver => Broken::Receiver(last),
            Breakable::Mtu => {
                let interface = self.interface_of(&last)?;
                let link = self.links().into_iter().find(|l| l.a.device == last || l.b.device == last);
                Broken::Mtu { host: last, interface, before: link.context("its link")?.mtu }
            }
        };
        guided.broken = Some(broken.clone());
        self.write_guided(&guided)?;
        match &broken {
            Broken::Link { end, .. } => {
                self.set_loss(end, "100%".parse().map_err(anyhow::Error::msg)?)?;
            }
            Broken::Receiver(host) => guided.processes[host].signal(Signal::SIGSTOP)?,
            Broken::Mtu { host, interface, .. } => self.set_mtu(host, interface, SMALL_MTU)?,
        }
        Ok(self.guide(what))
    }

    /// What a newcomer types; the place is for the product to name.
    fn guide(&self, what: Breakable) -> String {
        let url = format!("http://127.0.0.1:{}", self.state().rest_port.unwrap_or_default());
        let instance = &self.state().instance;
        let instance = if instance.is_default() { String::new() } else { format!(" --instance {}", instance.label()) };
        let (done, then) = match what {
            Breakable::Link => (
                "One link of the group's tree drops every packet now. Its carrier is up: only what crosses it shows that",
                "why link NAME              # the name that `status` shows; the trees have left it by now",
            ),
            Breakable::Receiver => (
                "The application of one receiver hangs now: its host is up and takes packets, and nothing answers them",
                "top group guided           # the receivers that the source waits for",
            ),
            Breakable::Mtu => (
                "The host of one receiver takes no packet of the group's size any more; small ones, as of ping, pass",
                "why host NAME              # the host that `status` shows: what the probes of its node found",
            ),
        };
        format!(
            "{done}.\nGroup {GROUP} sends to every host meanwhile, at 50 Mb/s. Find the place, and the cause:\n  \
             canopyctl --server {url} status                     # the cause first, within 5 s\n  \
             canopyctl --server {url} why group {GROUP}\n  canopyctl --server {url} {then}\n  \
             canopyctl --server {url} ui                         # the same on Overview\nThen\n  canopy-lab{instance} demo mend\n"
        )
    }

    fn end_of_transfer(&self, verb: &str, host: &str, args: &[&str]) -> Result<Process> {
        let mut command = self.command(host, self.binary("canopy-rc")?)?;
        command.args([verb, "--controller", &format!("unix:{}/controller.sock", self.dir().display())]);
        command.args(["--group", GROUP, "--host", host, "--bytes", ENDLESS, "--json"]).args(args);
        Process::spawn(&mut command, &self.dir().join("log").join(format!("guided-{host}.log")))
            .with_context(|| format!("starting canopy-rc at {host}"))
    }

    fn guided_group(&self) -> Result<Value> {
        let (status, group) = self.rest("GET", &format!("/api/v1/groups/{GROUP}"), None)?;
        ensure!(status == 200, "reading group {GROUP} ({status}): {group}");
        Ok(group)
    }

    /// The sending end of a link between two nodes of the group's tree.
    fn inner_end(&self) -> Result<String> {
        let nodes: BTreeSet<&str> = self.state().file.spec.nodes.iter().map(|n| n.name.as_str()).collect();
        let group = self.guided_group()?;
        for node in group["status"]["tree"].as_array().into_iter().flatten() {
            for branch in node["branches"].as_array().into_iter().flatten() {
                let is_inner = branch["name"].as_str().is_some_and(|name| nodes.contains(name));
                if let (true, Some(node), Some(port)) = (is_inner, node["node"].as_str(), branch["port"].as_str()) {
                    return Ok(format!("{node}/{port}"));
                }
            }
        }
        bail!("every receiver of the lab is at the source's node: there is no link between nodes to break")
    }

    fn interface_of(&self, host: &str) -> Result<String> {
        let ends = self.links().into_iter().flat_map(|link| [link.a, link.b]);
        let end = ends.into_iter().find(|end| end.device == host);
        end.map(|end| end.port).with_context(|| format!("host {host} has no link"))
    }

    fn set_mtu(&self, host: &str, interface: &str, mtu: u32) -> Result<()> {
        let mut command = self.command(host, "ip")?;
        command.args(["link", "set", interface, "mtu", &mtu.to_string()]);
        sh::run(&mut command).map(drop)
    }

    /// Limits what a host sends; `None` is the rate of its link in the lab file. A link without a rate there has no limit to change.
    fn limit(&self, host: &str, rate: Option<Rate>) -> Result<()> {
        let link = self.links().into_iter().find(|l| l.a.device == host || l.b.device == host);
        let Some((link, own)) = link.and_then(|link| link.rate.map(|rate| (link, rate.get()))) else { return Ok(()) };
        let mut command = self.command(host, "tc")?;
        command.args(["qdisc", "change", "dev", &self.interface_of(host)?, "root"]);
        command.args(network::bucket(&link, rate.unwrap_or(own)).split(' '));
        sh::run(&mut command).map(drop)
    }

    fn guided_file(&self) -> PathBuf {
        self.dir().join(FILE)
    }

    fn read_guided(&self) -> Result<Option<Guided>> {
        let path = self.guided_file();
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .with_context(|| format!("{} is not this program's", path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("reading {}", path.display())),
        }
    }

    fn write_guided(&self, guided: &Guided) -> Result<()> {
        let (path, new) = (self.guided_file(), self.dir().join("guided.json.new"));
        fs::write(&new, serde_json::to_vec_pretty(guided)?).with_context(|| format!("writing {}", new.display()))?;
        fs::rename(&new, &path).with_context(|| format!("writing {}", path.display()))
    }
}
