// SPDX-License-Identifier: Apache-2.0
//! What a change costs in a large domain. `make bench-scale` prints it; the ordinary run has a small domain and checks what is not time.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Instant;

use canopy_model::ids::GroupId;
use canopy_model::node_spec::GroupProgram;
use canopy_model::telemetry::{BranchTelemetry, GroupTelemetry};
use canopy_model::topology::Endpoint;
use canopy_units::{UnixTime, UnwrappedPsn};

use super::large::with_hosts;
use super::*;
use crate::principal::Written;
use crate::testing::clos::fat_tree;
use crate::testing::{branch_sample, group_sample};

/// Numbers as if drawn, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

struct Scale {
    w: World,
    hosts: usize,
    dice: Dice,
}

impl Scale {
    /// A sample of each node of the first groups' trees, without data yet.
    fn moving(&self, groups: u32) -> Vec<(String, Vec<GroupTelemetry>)> {
        let known: BTreeSet<GroupId> = (0..groups).filter_map(|i| self.w.domain.group_id(&format!("g{i}"))).collect();
        let sample = |program: &GroupProgram| GroupTelemetry {
            branches: program.branches.iter().map(|b| branch_sample(b.address)).collect(),
            ..group_sample(program.group_id, program.epoch)
        };
        let of_node = |node: &String| {
            let spec = self.w.domain.node_spec(node).unwrap();
            spec.groups.values().filter(|program| known.contains(&program.group_id)).map(sample).collect()
        };
        self.w.domain.node_names().into_iter().map(|node| (node.clone(), of_node(&node))).collect()
    }
}

/// Least and most of some times.
#[derive(Default)]
struct Spread(Vec<Duration>);

impl Spread {
    fn time<R>(&mut self, doing: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let done = doing();
        self.0.push(begun.elapsed());
        done
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = self.0.clone();
        all.sort_unstable();
        let at = |share: usize| all[(all.len() - 1) * share / 100];
        write!(f, "median {:.1?} ({:.1?} to {:.1?}, {} times)", at(50), at(0), at(100), all.len())
    }
}

/// The same sample after so many seconds.
fn moved(sample: &GroupTelemetry, seconds: u64) -> GroupTelemetry {
    let packets = 10_000 * seconds;
    let branch = |b: &BranchTelemetry| BranchTelemetry {
        next: Some(UnwrappedPsn(packets - 100)),
        completed_min: Some(packets / 100),
        packets,
        ..b.clone()
    };
    GroupTelemetry {
        high: UnwrappedPsn(packets),
        data_packets: packets,
        fresh_packets: Some(packets),
        branches: sample.branches.iter().map(branch).collect(),
        ..sample.clone()
    }
}

fn row(what: &str, measured: &dyn std::fmt::Display, to_reach: &str) {
    if is_bench() {
        println!("| {what} | {measured} | {to_reach} |");
    }
}

fn is_bench() -> bool {
    std::env::var_os("CANOPY_DEEP").is_some()
}

/// Memory of the process, octets.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

impl Scale {
    fn new() -> Self {
        let (ports, each) = if is_bench() { (48, 24) } else { (4, 8) };
        let t = with_hosts(fat_tree(ports), each);
        let hosts = t.hosts.len();
        let mut w = World::empty();
        w.execute(topology(t));
        Self { w, hosts, dice: Dice(7) }
    }

    fn host(&mut self) -> String {
        format!("h{}", self.dice.below(self.hosts))
    }

    /// A group whose source joins last: it is planned once, in the returned time.
    fn group(&mut self, name: &str, receivers: usize, planned: &mut Spread) {
        self.w.execute(group(name));
        let mut of_group = std::collections::BTreeSet::new();
        while of_group.len() <= receivers {
            of_group.insert(self.host());
        }
        let mut of_group = of_group.into_iter();
        let first = of_group.next().unwrap();
        of_group.for_each(|host| drop(self.w.execute(receiver(name, &host))));
        planned.time(|| self.w.execute(source(name, &first)));
    }
}

impl World {
    /// Without keeping what becomes durable.
    fn execute(&mut self, command: Command) -> Applied {
        // All by one: a controller has each operator, host, user and pod once.
        static WRITTEN: LazyLock<Written> = LazyLock::new(Written::default);
        let prepared = self.domain.prepare_as(command, &WRITTEN).unwrap();
        self.domain.apply(prepared, instant(0)).unwrap()
    }
}

#[test]
fn a_change_costs_what_it_changes() {
    let mut s = Scale::new();
    row("what", &"measured", "to reach");
    row("---", &"---", "---");
    let sizes: &[(usize, usize)] = if is_bench() { &[(64, 200), (1_024, 20)] } else { &[(8, 2)] };
    for (receivers, times) in sizes {
        let mut planned = Spread::default();
        (0..*times).for_each(|i| s.group(&format!("p{receivers}-{i}"), *receivers, &mut planned));
        let to_reach = if *receivers == 64 { "5 us" } else { "60 us" };
        row(&format!("plan one group of {receivers} receivers, {} hosts", s.hosts), &planned, to_reach);
    }

    let (groups, receivers) = if is_bench() { (5_000, 64) } else { (20, 8) };
    let before = resident();
    let mut planned = Spread::default();
    (0..groups).for_each(|i| s.group(&format!("g{i}"), receivers, &mut planned));
    let each = (resident().saturating_sub(before)) / groups;
    let all: Duration = planned.0.iter().sum();
    row(&format!("{groups} groups of {receivers}: all planned"), &format!("{all:.1?}"), "5 s for 1,000,000");
    row("memory of a group of 64", &format!("{each} octets"), "about 8,000");
    let (mut confirmed, mut opened) = (Spread::default(), Spread::default());
    s.w.confirm();
    for i in 0..groups {
        opened.time(|| s.w.execute(Command::OpenGroup { group: format!("g{i}") }));
    }
    confirmed.time(|| s.w.confirm());
    row(&format!("{groups} groups: their opening is confirmed by all nodes"), &confirmed, "-");
    row("a group opens", &opened, "-");

    // A receiver joins an open group: nodes whose programs are others. Their streams hold what was sent to them before.
    let all = s.w.domain.node_names().into_iter();
    let mut held: BTreeMap<_, _> = all.map(|node| (node.clone(), s.w.domain.desired(&node))).collect();
    let (mut joined, mut nodes, joins) = (Spread::default(), 0, 1_000.min(groups as usize));
    for i in 0..joins {
        let (name, host) = (format!("g{i}"), s.host());
        if s.w.domain.member(&name, &host).is_none() {
            let applied = joined.time(|| s.w.execute(receiver(&name, &host)));
            nodes += applied.nodes.len();
            held.extend(applied.nodes.into_iter().map(|node| (node.clone(), s.w.domain.desired(&node))));
        }
    }
    let mean = nodes as f64 / joined.0.len().max(1) as f64;
    row("nodes re-programmed by a join to a group of 64", &format!("{mean:.1}"), "4 in the mean");
    row("a join to an open group of 64", &joined, "-");
    assert!(mean <= 6., "{mean} nodes are re-programmed by a join");

    // Every node of the first groups' trees reports data that moves.
    let samples = s.moving(joins as u32);
    let all: usize = samples.iter().map(|(_, groups)| groups.len()).sum();
    let mut taken = Spread::default();
    for round in 1..=5_u64 {
        let at =
            samples.iter().map(|(node, groups)| (node, groups.iter().map(|sample| moved(sample, round)).collect()));
        let at: Vec<(&String, Vec<GroupTelemetry>)> = at.collect();
        let now = Monotonic::from_nanos(round * 1_000_000_000);
        let begun = Instant::now();
        for (node, groups) in &at {
            s.w.domain.data_samples(node, groups.iter(), false, now);
            s.w.domain.progress(node, groups.iter(), now, UnixTime::from_nanos(0));
        }
        taken.0.push(begun.elapsed() / u32::try_from(all).unwrap());
    }
    row("a sample of one group at one node", &taken, "20 % of a core for 10,000 moving groups, each at its headend");

    // The neighbours of a core switch report their ports to it one after the other.
    let dead = "core0";
    let names: Vec<String> = (0..groups).map(|i| format!("g{i}")).collect();
    let concerned = s.w.domain.node_spec(dead).unwrap().groups.len();
    let far = s.w.domain.declared_topology().unwrap().1.links.iter().filter(|l| l.b.device == dead);
    let far: Vec<Endpoint> = far.map(|l| l.a.clone()).collect();
    let (mut port, begun) = (Spread::default(), Instant::now());
    for at in &far {
        port.time(|| s.w.execute(ports_down(&at.device, &[&at.port])));
    }
    let (what, all) =
        (format!("a dead core with {concerned} of {groups} groups, {} reports", far.len()), begun.elapsed());
    row(&what, &format!("{all:.1?}; a report {port}"), "1 s for 200,000");
    assert!(names.iter().all(|name| s.w.domain.moving(name).is_none()));
    assert_eq!(s.w.domain.node_spec(dead).unwrap().groups.len(), 0, "trees lead over a dead switch");
}
