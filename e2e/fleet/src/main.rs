// SPDX-License-Identifier: Apache-2.0
//! `canopy-fleet`: the controller's program with a store on disk, and an agent without a kernel for each node of a large fabric, each with the
//! real link. What is measured is printed as a table, beside what is to be reached.
//!
//! Agents and controller share the machine: `controller` is how long the controller's threads ran.

mod controller;
mod counted;
mod fabric;
mod fleet;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::{Value, json};

use crate::controller::Controller;
use crate::fabric::Fabric;
use crate::fleet::Fleet;

/// Resources of a change set at most.
const SET: usize = 10_000;
/// Joins, one after the other, of which each is waited for.
const JOINS: usize = 300;
/// Requests of each page.
const REQUESTS: usize = 100;

/// Measures a controller with agents of a large fabric, which have no kernels.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Nodes, each with an agent; a fabric has 24 more at a time.
    #[arg(long, default_value_t = 1_000)]
    agents: usize,
    /// Groups.
    #[arg(long, default_value_t = 10_000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    groups: usize,
    /// Receivers of each group.
    #[arg(long, default_value_t = 8)]
    receivers: usize,
    /// The controller's program; that beside this one if left out.
    #[arg(long)]
    controller: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure(options))
}

async fn measure(options: Options) -> Result<()> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("canopy-controller"));
    let program = options.controller.clone().or_else(beside).context("no --controller")?;
    let directory = tempfile::tempdir()?;
    let fabric = Fabric::of(options.agents);
    let controller = Controller::start(&program, directory.path()).await?;
    println!("| what | measured | controller | to reach |\n| --- | --- | --- | --- |");

    let topology =
        json!({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": fabric.spec});
    let timed = Timed::begin(&controller)?;
    controller.put("/api/v1/topology", &topology).await?;
    timed.row(
        &controller,
        &format!("a topology of {} nodes and {} hosts", fabric.nodes.len(), fabric.hosts.len()),
        "",
        "-",
    )?;

    let mut draw = Draw::default();
    let groups: Vec<Value> = (0..options.groups).map(|at| group(&name(at))).collect();
    let members: Vec<Vec<Value>> =
        (0..options.groups).map(|at| draw.members(&fabric, &name(at), options.receivers)).collect();
    changed(&controller, "groups created", groups).await?;
    changed(&controller, "members joined, no agent connected", members.concat()).await?;
    println!("| memory | {} MB | | - |", controller.memory()?);

    let timed = Timed::begin(&controller)?;
    let nodes = fabric.nodes.iter().map(|node| (node.clone(), None));
    let mut fleet = Fleet::start(&controller.socket(), nodes);
    controller.synced(&fleet, 1).await?;
    let what = format!("{} agents connect with {} groups", fabric.nodes.len(), options.groups);
    timed.row(&controller, &what, &format!(", {}", megabytes(fleet.octets())), "5 s")?;

    let timed = Timed::begin(&controller)?;
    fleet = fleet.restart().await;
    controller.synced(&fleet, 1).await?;
    let what = format!("{} agents connect again, nothing has changed", fabric.nodes.len());
    timed.row(&controller, &what, &format!(", {}", megabytes(fleet.octets())), "10 MB for 10,000")?;

    joins(&options, &fabric, &mut draw, &controller, &mut fleet).await?;
    let more: Vec<Value> = (0..options.groups).flat_map(|at| draw.receivers(&fabric, &name(at), 1)).take(SET).collect();
    changed(&controller, "members joined, all agents connected", more).await?;
    let timed = Timed::begin(&controller)?;
    controller.synced(&fleet, 1).await?;
    timed.row(&controller, "after that, until all nodes are in sync", "", "-")?;
    pages(&controller, &options).await?;

    let before = fleet.octets();
    let (again, ready) = controller.restart().await?;
    let begun = Instant::now();
    again.get(&format!("/api/v1/groups/{}", name(0))).await?;
    let read = begun.elapsed();
    println!(
        "| killed and started: until ready, and the first read | {ready:.1?}, {read:.1?} | | 10 s for 1,000,000 groups |"
    );
    let timed = Timed::begin(&again)?;
    again.synced(&fleet, 2).await?;
    timed.row(
        &again,
        "after that, until all nodes are in sync",
        &format!(", {}", megabytes(fleet.octets() - before)),
        "30 s, 10 MB for 10,000",
    )?;
    println!("| memory | {} MB | | - |", again.memory()?);
    Ok(())
}

/// Joins, one after the other: how long until the last node that one changes has its program.
async fn joins(
    options: &Options,
    fabric: &Fabric,
    draw: &mut Draw,
    controller: &Controller,
    fleet: &mut Fleet,
) -> Result<()> {
    let (mut all, mut answers, mut nodes): (Vec<Duration>, Vec<Duration>, usize) = Default::default();
    let timed = Timed::begin(controller)?;
    for at in 0..JOINS {
        let group = name(at * 31 % options.groups);
        let [member] = &draw.receivers(fabric, &group, 1)[..] else { continue };
        let path =
            format!("/api/v1/groups/{group}/members/{}", member["metadata"]["name"].as_str().unwrap_or_default());
        fleet.arrivals();
        let begun = Instant::now();
        controller.put(&path, member).await?;
        answers.push(begun.elapsed());
        controller.programmed(&group).await?;
        let arrivals = fleet.arrivals();
        nodes += arrivals.len();
        all.extend(arrivals.into_iter().max().map(|last| last - begun));
    }
    ensure!(!all.is_empty(), "no join reaches a node");
    println!("| a join: until it is answered | {} | | - |", spread(&mut answers));
    println!(
        "| a join: until the last of {:.1} nodes has it | {} | | 20 ms at the 99th |",
        nodes as f64 / all.len() as f64,
        spread(&mut all)
    );
    timed.row(controller, &format!("{JOINS} joins"), "", "-")
}

/// How long pages take.
async fn pages(controller: &Controller, options: &Options) -> Result<()> {
    let group = name(options.groups / 2);
    let paths = [
        "/api/v1/status".to_owned(),
        "/api/v1/groups?limit=100".to_owned(),
        format!("/api/v1/groups/{group}"),
        format!("/api/v1/groups/{group}/members"),
        "/api/v1/nodes?limit=100".to_owned(),
        "/api/v1/hosts?limit=100".to_owned(),
        "/api/v1/links?limit=100".to_owned(),
        "/api/v1/map".to_owned(),
        "/api/v1/problems".to_owned(),
        "/api/v1/events".to_owned(),
        "/api/v1/audit".to_owned(),
    ];
    for path in paths {
        let mut all = Vec::new();
        for _ in 0..REQUESTS {
            let begun = Instant::now();
            controller.get(&path).await?;
            all.push(begun.elapsed());
        }
        println!("| {path} | {} | | 100 ms at the 99th |", spread(&mut all));
    }
    Ok(())
}

/// Applies resources by change sets, and prints how many are durable in a second.
async fn changed(controller: &Controller, what: &str, items: Vec<Value>) -> Result<()> {
    let timed = Timed::begin(controller)?;
    let begun = Instant::now();
    let mut taken = Duration::ZERO;
    for part in items.chunks(SET) {
        let sent = Instant::now();
        let set = controller.post("/api/v1/change-sets", &json!({"items": part})).await?;
        let path = format!("/api/v1/change-sets/{}", set["id"].as_str().context("a change set without id")?);
        taken += sent.elapsed();
        loop {
            let set = controller.get(&path).await?;
            match set["phase"].as_str() {
                Some("Applying") => tokio::time::sleep(Duration::from_millis(5)).await,
                Some("Applied") => break,
                _ => anyhow::bail!("a change set is not applied: {set}"),
            }
        }
    }
    let rate = items.len() as f64 / begun.elapsed().as_secs_f64();
    timed.row(
        controller,
        &format!("{} {what}", items.len()),
        &format!(", {rate:.0} /s; {taken:.1?} until the sets are taken"),
        "10,000 /s",
    )
}

/// Something that is being measured.
struct Timed {
    begun: Instant,
    worked: Duration,
}

impl Timed {
    fn begin(controller: &Controller) -> Result<Self> {
        Ok(Self { begun: Instant::now(), worked: controller.worked()? })
    }

    fn row(self, controller: &Controller, what: &str, more: &str, to_reach: &str) -> Result<()> {
        let (took, worked) = (self.begun.elapsed(), controller.worked()?.saturating_sub(self.worked));
        println!("| {what} | {took:.1?}{more} | {worked:.1?} | {to_reach} |");
        Ok(())
    }
}

/// Which hosts join, as if drawn, the same in each run: none joins a group twice.
#[derive(Default)]
struct Draw {
    last: u64,
    joined: HashMap<String, BTreeSet<usize>>,
}

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.last = self.last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.last >> 33) as usize % end
    }

    /// So many more receivers of a group.
    fn receivers(&mut self, fabric: &Fabric, group: &str, count: usize) -> Vec<Value> {
        let mut joined = self.joined.remove(group).unwrap_or_default();
        let mut all = Vec::with_capacity(count);
        while all.len() < count && joined.len() < fabric.hosts.len() {
            let at = self.below(fabric.hosts.len());
            if joined.insert(at) {
                all.push(receiver(group, &fabric.hosts[at]));
            }
        }
        self.joined.insert(group.to_owned(), joined);
        all
    }

    /// A source and so many receivers of a group, the source last.
    fn members(&mut self, fabric: &Fabric, group: &str, receivers: usize) -> Vec<Value> {
        let mut all = self.receivers(fabric, group, receivers + 1);
        if let Some(source) = all.last_mut() {
            source["spec"]["role"] = "source".into();
        }
        all
    }
}

fn name(at: usize) -> String {
    format!("g{at:06}")
}

fn group(name: &str) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": name}, "spec": {}})
}

fn receiver(group: &str, host: &str) -> Value {
    json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": host, "group": group}, "spec": {"host": host, "role": "receiver", "qpn": 0x22}})
}

fn spread(all: &mut [Duration]) -> String {
    all.sort_unstable();
    let at = |share: usize| all.get((all.len().saturating_sub(1)) * share / 100).copied().unwrap_or_default();
    format!("median {:.1?}, 99th {:.1?} ({:.1?} to {:.1?})", at(50), at(99), at(0), at(100))
}

fn megabytes(octets: u64) -> String {
    format!("{:.1} MB", octets as f64 / 1e6)
}
