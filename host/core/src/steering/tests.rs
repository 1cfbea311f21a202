// SPDX-License-Identifier: Apache-2.0

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::ids::{NodeId, PortIndex};
use canopy_model::usid::UsidBlock;

use super::*;
use crate::probing::{Answer, Counts, OfLate, Probing, WayNumber};

mod choice;

const SETTINGS: Settings =
    Settings { mode: Mode::Pinned, gap: Duration::from_micros(500), paths: 4, idle: Duration::from_secs(600) };

fn port(node: u64, port: u64) -> PortOf {
    PortOf { node: NodeId::new("node", node).unwrap(), port: PortIndex::new("port", port).unwrap() }
}

/// Leaves 1 ..= leaves with two hosts each, spines 101 ..= 100 + spines; host h of leaf l has 2001:db8:l:h::/64. This host is host 1 of leaf 1.
fn clos(leaves: u64, spines: u64) -> Arc<Map> {
    let block = UsidBlock::at_front("5f00::".parse().unwrap());
    let mut links = Vec::new();
    let mut hosts = Vec::new();
    let mut names = BTreeMap::new();
    for leaf in 1..=leaves {
        names.insert(port(leaf, 1).node, format!("leaf{leaf}"));
        for host in 1..=2 {
            let prefix = format!("2001:db8:{leaf:x}:{host:x}::/64").parse().unwrap();
            hosts.push(MapHost { prefix, port: port(leaf, host), mtu: 9000 });
        }
        for spine in 1..=spines {
            names.insert(port(100 + spine, 1).node, format!("spine{spine}"));
            links.push(MapLink { a: port(leaf, 10 + spine), b: port(100 + spine, leaf), mtu: 9100 });
        }
    }
    Arc::new(Map::new(block, names, &links, &hosts, port(1, 1), 5).unwrap())
}

fn host(leaf: u64, host: u64) -> Ipv6Addr {
    format!("2001:db8:{leaf:x}:{host:x}::9").parse().unwrap()
}

/// What a datapath has after the commands, which fails where one names what is not there.
#[derive(Debug, Default)]
struct Kernel {
    programs: BTreeMap<PathId, (Header, u32)>,
    destinations: BTreeMap<Ipv6Net, ([PathId; SLOTS], bool)>,
    ever: BTreeMap<PathId, Header>,
    left: BTreeSet<PathId>,
}

impl Kernel {
    fn carry_out(&mut self, steering: &mut Steering) {
        while let Some(command) = steering.next_command() {
            match command {
                Command::Program { id, header, most } => {
                    assert!(!self.destinations.values().any(|(slots, _)| slots.contains(&id)), "{id} is in use");
                    self.ever.insert(id, header.clone());
                    assert_eq!(self.programs.insert(id, (header, most)), None, "{id} was not cleared");
                }
                Command::Destination { prefix, slots, is_pinned } => {
                    slots.iter().for_each(|id| assert!(self.programs.contains_key(id), "{id} has no program"));
                    self.destinations.insert(prefix, (*slots, is_pinned));
                }
                Command::Leave(id) => {
                    assert!(!self.destinations.values().any(|(slots, _)| slots.contains(&id)), "{id} is in use");
                    self.left.insert(id);
                }
                Command::Forget(prefix) => assert!(self.destinations.remove(&prefix).is_some()),
                Command::Clear(id) => {
                    assert!(!self.destinations.values().any(|(slots, _)| slots.contains(&id)), "{id} is in use");
                    assert!(self.programs.remove(&id).is_some() && self.left.remove(&id), "flowlets may be on {id}");
                }
            }
        }
    }

    fn addresses(&self, to: Ipv6Addr) -> BTreeMap<String, usize> {
        let (_, (slots, _)) = self.destinations.iter().find(|(prefix, _)| prefix.contains(&to)).unwrap();
        let mut shares = BTreeMap::new();
        slots.iter().for_each(|id| *shares.entry(self.programs[id].0.destination.to_string()).or_insert(0) += 1);
        shares
    }

    fn restored(&self) -> (Vec<Restored>, BTreeSet<PathId>) {
        let of = |(prefix, (slots, is_pinned)): (&Ipv6Net, &([PathId; SLOTS], bool))| {
            let programs = slots.iter().map(|id| (*id, self.programs[id].clone())).collect();
            Restored { prefix: *prefix, slots: Box::new(*slots), programs, is_pinned: *is_pinned }
        };
        let is_unused = |id: &&PathId| !self.destinations.values().any(|(slots, _)| slots.contains(id));
        (self.destinations.iter().map(of).collect(), self.programs.keys().filter(is_unused).copied().collect())
    }
}

fn steering(map: &Arc<Map>) -> (Steering, Kernel) {
    let mut steering = Steering::new(SETTINGS);
    assert_eq!(steering.set_map(Some(Arc::clone(map)), BTreeSet::new(), at(0)), []);
    (steering, Kernel::default())
}

fn at(secs: u64) -> Monotonic {
    Monotonic::START + Duration::from_secs(secs)
}

/// The addresses are worked out by hand from the draft's section 7.
#[test]
fn a_destination_has_the_programs_of_all_spines_in_even_shares() {
    let (mut steering, mut kernel) = steering(&clos(3, 4));
    assert_eq!(steering.add(host(3, 2), at(1)).unwrap().to_string(), "2001:db8:3:2::/64");
    kernel.carry_out(&mut steering);
    let expected = (0x65..=0x68).map(|spine| (format!("5f00:0:1:{spine:x}:3::"), 16)).collect();
    assert_eq!(kernel.addresses(host(3, 2)), expected);
    let ids: BTreeSet<PathId> = kernel.programs.keys().copied().collect();
    assert_eq!(ids.len(), 4);
    assert!(kernel.programs.values().all(|(_, most)| *most == 8960), "{kernel:?}");
    // The same leaf: no spine.
    steering.asked(host(1, 2), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(host(1, 2)), BTreeMap::from([("5f00:0:1::".to_owned(), 64)]));
    // Once more: nothing to do.
    steering.asked(host(3, 2), at(2)).unwrap();
    assert_eq!(steering.next_command(), None);
}

fn ways(steering: &mut Steering) -> BTreeMap<String, Option<Wanted>> {
    std::iter::from_fn(|| steering.next_way()).map(|(way, wanted)| (way.destination.to_string(), wanted)).collect()
}

fn way(spine: u16, leaf: u16) -> Header {
    let destination = [0x5f00, 0, 1, 100 + spine, leaf, 100 + spine, 1, 0].into();
    Header { destination, segments: Vec::new(), segments_left: 0 }
}

/// Without anything that probes have shown of late.
fn set_fault(steering: &mut Steering, way: Header, fault: Option<Fault>, now: Monotonic) {
    assert_eq!(steering.set_faults([(way, fault)], |_| None, now), []);
}

/// The addresses are worked out by hand from decision 5.6: 5 uSIDs. Catches a way that is probed once for each host behind it, one that is probed
/// on when the last one is forgotten, and a role that does not follow the slots.
#[test]
fn each_path_to_an_edge_is_probed_once_there_and_back() {
    let (mut steering, mut kernel) = steering(&clos(3, 6));
    steering.add(host(3, 1), at(1)).unwrap();
    let all = ways(&mut steering);
    // Four of the six are in use.
    let expected = |role: Role| Some(Wanted { role, most: 8960 });
    let name = |spine: u64| format!("5f00:0:1:{:x}:3:{:x}:1:0", 100 + spine, 100 + spine);
    assert_eq!(all.keys().cloned().collect::<Vec<_>>(), (1..=6).map(name).collect::<Vec<_>>());
    assert_eq!(all.values().filter(|wanted| **wanted == expected(Role::Active)).count(), 4);
    assert_eq!(all.values().filter(|wanted| **wanted == expected(Role::Standby)).count(), 2);
    steering.add(host(3, 2), at(1)).unwrap();
    assert_eq!(ways(&mut steering), all, "the same ones, as they were");
    // This leaf: no link, no probe.
    steering.add(host(1, 2), at(1)).unwrap();
    assert_eq!(ways(&mut steering), BTreeMap::new());
    kernel.carry_out(&mut steering);
    // A pin to one that waits: for the other host it still waits, and so it is in use.
    let standby: Vec<&String> =
        all.iter().filter(|(_, wanted)| **wanted == expected(Role::Standby)).map(|(way, _)| way).collect();
    let of = |path: &CandidateView<'_>| path.probe.unwrap().destination.to_string() == *standby[0];
    let number = steering.destination(host(3, 1)).unwrap().paths.iter().find(|path| of(path)).unwrap().number;
    steering.pin(host(3, 1), Some(number), at(2)).unwrap();
    assert_eq!(ways(&mut steering)[standby[0]], expected(Role::Active));
    steering.pin(host(3, 1), None, at(2)).unwrap();
    assert_eq!(ways(&mut steering)[standby[0]], expected(Role::Standby));
    // A fabric with a spine less.
    assert_eq!(steering.set_map(Some(clos(3, 5)), BTreeSet::new(), at(3)), []);
    assert_eq!(ways(&mut steering)[&name(6)], None);
    kernel.carry_out(&mut steering);
    [3, 700].into_iter().for_each(|time| steering.used(|_| 0, at(time)));
    assert_eq!(ways(&mut steering).values().filter(|wanted| wanted.is_none()).count(), 5);
}

/// Catches a fault that moves the packets of one host alone, or of another edge, and one that stays when its way is gone.
#[test]
fn a_fault_moves_the_slots_of_its_way_to_every_host_behind_the_edge() {
    let (mut steering, mut kernel) = steering(&clos(3, 4));
    let to = [host(2, 1), host(3, 1), host(3, 2)];
    to.iter().for_each(|to| _ = steering.add(*to, at(1)).unwrap());
    kernel.carry_out(&mut steering);
    let before = to.map(|to| kernel.addresses(to));
    set_fault(&mut steering, way(2, 3), Some(Fault::BlackHole), at(2));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(to[0]), before[0]);
    for to in &to[1..] {
        let now = kernel.addresses(*to);
        assert!(now.len() == 3 && !now.contains_key("5f00:0:1:66:3::"), "{now:?}");
    }
    let shown = steering.destination(to[1]).unwrap();
    let faulty: Vec<_> = shown.paths.iter().filter(|path| path.fault == Some(Fault::BlackHole)).collect();
    assert!(faulty.len() == 1 && faulty[0].share.is_none() && !faulty[0].is_out);
    assert_eq!(steering.path_of(&way(2, 3)), Some(faulty[0].path));
    // The link of the spine to the leaf, and of this leaf to the spine: the first one alone explains it, as the way to leaf 2 is sound.
    let lost = |of: &Header| Some(OfLate { lost: if *of == way(2, 3) { 9.0 } else { 0.0 }, back: 20.0 });
    let [suspect] = steering.suspects(lost)[..] else { panic!("{:?}", steering.suspects(lost)) };
    assert!(!suspect.is_directed);
    assert_eq!((suspect.ends, suspect.faulty, suspect.of), (Some((port(3, 12), port(102, 3))), 1, 1));
    assert!(suspect.confidence > 0.99);
    // All of them: what is least bad stays, and more of it than one.
    for (spine, fault) in [(1, Fault::Loss), (3, Fault::BlackHole), (4, Fault::Loss)] {
        set_fault(&mut steering, way(spine, 3), Some(fault), at(3));
    }
    kernel.carry_out(&mut steering);
    let least: Vec<String> = [0x65, 0x68].map(|spine| format!("5f00:0:1:{spine:x}:3::")).into();
    assert_eq!(kernel.addresses(to[1]).into_keys().collect::<Vec<_>>(), least);
    // Out of service is better than a black hole, and worse than loss.
    let links = steering.map().unwrap().links_at(&[port(101, 3), port(104, 3)].into());
    steering.set_unusable(links, at(4));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(to[1]).into_keys().collect::<Vec<_>>(), least);
    set_fault(&mut steering, way(2, 3), Some(Fault::Loss), at(5));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(to[1]).into_keys().collect::<Vec<_>>(), ["5f00:0:1:66:3::"]);
    // It ends.
    (1..=4).for_each(|spine| set_fault(&mut steering, way(spine, 3), None, at(6)));
    steering.set_unusable(BTreeSet::new(), at(6));
    kernel.carry_out(&mut steering);
    assert_eq!(to.map(|to| kernel.addresses(to).len()), [4, 4, 4]);
    // Of a way that is not there: nothing.
    set_fault(&mut steering, way(9, 3), Some(Fault::Loss), at(7));
    // A fault ends with its way.
    set_fault(&mut steering, way(1, 2), Some(Fault::Loss), at(7));
    steering.set_map(None, BTreeSet::new(), at(8));
    steering.set_map(Some(clos(3, 4)), BTreeSet::new(), at(8));
    steering.add(to[0], at(8)).unwrap();
    assert!(steering.destination(to[0]).unwrap().paths.iter().all(|path| path.fault.is_none()));
}

/// Catches packets of all hosts on one path, because all paths lose as much on this host's own link; and a dead link that is used again because probes
/// are lost everywhere.
#[test]
fn losses_that_all_ways_have_in_common_move_nothing() {
    let (mut steering, mut kernel) = steering(&clos(4, 4));
    let to = [host(2, 1), host(3, 1), host(4, 1)];
    to.iter().for_each(|to| _ = steering.add(*to, at(1)).unwrap());
    steering.set_unusable(steering.map().unwrap().links_at(&[port(104, 4)].into()), at(1));
    kernel.carry_out(&mut steering);
    let before = kernel.destinations.clone();
    let all: Vec<Header> = (2..=4).flat_map(|leaf| (1..=4).map(move |spine| way(spine, leaf))).collect();
    let lossy = |_: &Header| Some(OfLate { lost: 9.0, back: 200.0 });
    for faulty in &all[..5] {
        assert_eq!(steering.set_faults([(faulty.clone(), Some(Fault::Loss))], lossy, at(2)), []);
    }
    let gone = |_: &Header| Some(OfLate { lost: 9.0, back: 0.0 });
    steering.set_faults(all.iter().map(|way| (way.clone(), Some(Fault::BlackHole))), gone, at(3));
    assert!(steering.is_own());
    let [own] = &steering.suspects(gone)[..] else { panic!("{:?}", steering.suspects(gone)) };
    assert_eq!((own.ends, own.faulty, own.of, own.is_directed), (None, 12, 12, false));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.destinations, before);
    let shown = steering.destination(to[0]).unwrap();
    assert!(shown.paths.iter().all(|path| path.fault == Some(Fault::BlackHole)), "it is shown all the same");
    // Nothing has changed but what probes show: the faults are those of one spine's links now, and are avoided.
    let spine_of = |of: &Header| of.destination.segments()[3] == 102;
    let of_a_spine = |of: &Header| {
        Some(if spine_of(of) { OfLate { lost: 99.0, back: 0.0 } } else { OfLate { lost: 0.0, back: 200.0 } })
    };
    steering.set_faults([], of_a_spine, at(3));
    assert!(!steering.is_own());
    steering.set_faults([], gone, at(3));
    assert!(steering.is_own());
    // All but those over one spine are sound again: now it is that spine's.
    let spine = |of: &Header| of.destination.segments()[3] == 102;
    let of_one = |of: &Header| {
        Some(OfLate { lost: if spine(of) { 9.0 } else { 0.0 }, back: if spine(of) { 0.0 } else { 200.0 } })
    };
    steering.set_faults(all.iter().filter(|way| !spine(way)).map(|way| (way.clone(), None)), of_one, at(4));
    assert!(!steering.is_own());
    kernel.carry_out(&mut steering);
    assert!(to.iter().all(|to| kernel.addresses(*to).keys().all(|address| !address.contains(":66:"))));
    // Black holes everywhere, and no common cause in sight: the dead link is the last one to be used.
    steering.set_faults(all.iter().map(|way| (way.clone(), Some(Fault::BlackHole))), |_| None, at(5));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(to[2]).len(), 3);
}

/// Catches a direction that is not probed when a sound way comes, or that is probed over a way that has a fault itself.
#[test]
fn the_direction_of_a_fault_is_probed_by_a_sound_way() {
    let (mut steering, _) = steering(&clos(3, 3));
    steering.add(host(3, 1), at(1)).unwrap();
    ways(&mut steering);
    let mixed = |there: u16, back: u16| format!("5f00:0:1:{:x}:3:{:x}:1:0", 100 + there, 100 + back);
    let changes = |steering: &mut Steering| -> BTreeMap<String, bool> {
        let of_one = |name: &String| name.split(':').nth(3) == name.split(':').nth(5);
        let all = ways(steering).into_iter().filter(|(name, _)| !of_one(name));
        all.map(|(name, wanted)| (name, wanted.is_some())).collect()
    };
    let expect = |of: &[(u16, u16, bool)]| -> BTreeMap<String, bool> {
        of.iter().map(|(there, back, is_probed)| (mixed(*there, *back), *is_probed)).collect()
    };
    set_fault(&mut steering, way(1, 3), Some(Fault::Loss), at(2));
    let over = |sound: u16| [(1, sound, true), (sound, 1, true)];
    let first = changes(&mut steering);
    let sound = if first == expect(&over(2)) { 2 } else { 3 };
    assert_eq!(first, expect(&over(sound)));
    let other = 5 - sound;
    // The sound one has a fault, too: both take the other one.
    set_fault(&mut steering, way(sound, 3), Some(Fault::Loss), at(2));
    assert_eq!(
        changes(&mut steering),
        expect(&[
            (1, sound, false),
            (sound, 1, false),
            (1, other, true),
            (other, 1, true),
            (sound, other, true),
            (other, sound, true)
        ])
    );
    // None is left, and then one again.
    set_fault(&mut steering, way(other, 3), Some(Fault::BlackHole), at(2));
    let none = [(1, other, false), (other, 1, false), (sound, other, false), (other, sound, false)];
    assert_eq!(changes(&mut steering), expect(&none));
    set_fault(&mut steering, way(other, 3), None, at(3));
    assert_eq!(changes(&mut steering), expect(&none.map(|(there, back, _)| (there, back, true))));
    // The destination goes: nothing is probed any more.
    steering.set_map(None, BTreeSet::new(), at(4));
    assert_eq!(changes(&mut steering), expect(&none));
}

/// Catches one direction that is named where two ways over a link have their faults in different ones.
#[test]
fn ways_that_disagree_name_no_direction() {
    let (mut steering, _) = steering(&clos(3, 2));
    [host(2, 1), host(3, 1)].iter().for_each(|to| _ = steering.add(*to, at(1)).unwrap());
    let of_late = |of: &Header| {
        let is_faulty = of.destination.segments()[3] == 101;
        Some(OfLate { lost: if is_faulty { 50.0 } else { 0.0 }, back: 200.0 })
    };
    let mixed = |there: u16, leaf: u16, back: u16| Header {
        destination: [0x5f00, 0, 1, 100 + there, leaf, 100 + back, 1, 0].into(),
        ..way(1, leaf)
    };
    let set = |steering: &mut Steering, of: Header| _ = steering.set_faults([(of, Some(Fault::Loss))], of_late, at(2));
    let directed = |steering: &Steering| steering.suspects(of_late)[0].is_directed;
    set(&mut steering, way(1, 2));
    set(&mut steering, way(1, 3));
    assert!(!directed(&steering), "not known");
    set(&mut steering, mixed(1, 2, 2));
    assert!(!directed(&steering), "known of one way alone");
    set(&mut steering, mixed(2, 3, 1));
    assert!(!directed(&steering), "the one there, the other back");
    set(&mut steering, mixed(1, 3, 2));
    set(&mut steering, mixed(2, 2, 1));
    assert!(!directed(&steering), "both ways in both");
}

/// A pure fabric of leaves and spines that carries probes: a link drops what crosses it in one direction.
struct Fabric {
    steering: Steering,
    probing: Probing,
    flying: BTreeMap<(WayNumber, u32), (Monotonic, bool)>,
    /// Nodes that a link leads from and to, and the part that it loses.
    faulty: Option<((u16, u16), f64)>,
    random: u64,
    probes: u64,
}

impl Fabric {
    fn new(leaves: u64, spines: u64, seed: u64) -> Self {
        let (mut steering, _) = steering(&clos(leaves, spines));
        steering.settings.paths = 64;
        (2..=leaves).for_each(|leaf| _ = steering.add(host(leaf, 1), at(1)).unwrap());
        let probing = Probing::new(crate::probing::Settings { interval: Duration::from_millis(1), rate: 1_000_000 }, 0);
        Self { steering, probing, flying: BTreeMap::new(), faulty: None, random: seed, probes: 0 }
    }

    /// The first suspect in one direction that is nine times as likely as all others: the nodes that the link leads from and to.
    fn named(&self) -> Option<(u16, u16)> {
        let suspects = self.steering.suspects(|way| Some(self.probing.way(way)?.of_late));
        let first = suspects.first().filter(|of| of.is_directed && of.confidence >= 0.9)?;
        let (from, to) = first.ends?;
        Some((from.node.get(), to.node.get()))
    }

    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Whether a probe comes back: its uSIDs are read as nodes read them.
    fn carries(&mut self, header: &Header) -> bool {
        let nodes: Vec<u16> = header.destination.segments()[2..].iter().copied().filter(|usid| *usid > 0).collect();
        assert_eq!((nodes[0], nodes.last()), (1, Some(&1)));
        let Some((link, loss)) = self.faulty else { return true };
        !nodes.windows(2).any(|two| (two[0], two[1]) == link && self.draw() < loss)
    }

    /// Until `is_done`, or the time has come.
    fn run(&mut self, from: Monotonic, time: Duration, is_done: impl Fn(&Self) -> bool) -> Monotonic {
        let (mut now, mut has_changed) = (from, true);
        loop {
            while let Some((way, wanted)) = self.steering.next_way() {
                self.probing.set(&way, wanted.as_ref(), now);
            }
            if std::mem::take(&mut has_changed) && is_done(self) {
                return now;
            }
            let Some(turn) = self.probing.poll_timeout().filter(|turn| *turn <= from + time) else {
                return from + time;
            };
            now = now.max(turn);
            let flying = &self.flying;
            self.probing.handle_timeout(now, |way, sequence| match flying.get(&(way, sequence)) {
                Some((sent, true)) if now.since(*sent) >= DELAY => Answer::Back { after: DELAY, is_marked: false },
                Some((sent, _)) => Answer::OnItsWay { left: *sent },
                None => Answer::NotSent,
            });
            while let Some(probe) = self.probing.next_probe() {
                self.probes += 1;
                let is_back = self.carries(&probe.header);
                self.flying.insert((probe.way, probe.sequence), (now, is_back));
            }
            while let Some(change) = self.probing.next_change() {
                let probing = &self.probing;
                self.steering.set_faults([change], |way| Some(probing.way(way)?.of_late), now);
                has_changed = true;
            }
        }
    }
}

const DELAY: Duration = Duration::from_micros(50);

/// A link between a leaf and a spine of a fabric, in one of its directions.
fn link_of(leaves: u16, spines: u16, number: u16) -> (u16, u16) {
    let (up, spine, is_up) = (number / 2 / spines % leaves, number / 2 % spines, number.is_multiple_of(2));
    if is_up { (1 + up, 101 + spine) } else { (101 + spine, 1 + up) }
}

/// The bounds of the issue: the right link and direction in 99 % of 1,000 trials, within the probes that are stated: 4 and 5 of each way for a black hole.
/// The peers are not there at all. Catches a direction that is turned round, and a link that other faults explain as well.
#[test]
fn single_black_holes_are_named_with_their_direction() {
    let (leaves, spines) = (16, 8);
    let mut right = 0;
    for trial in 0..1000u16 {
        let mut fabric = Fabric::new(leaves.into(), spines.into(), u64::from(trial) * 77 + 5);
        let warm = fabric.run(at(1), Duration::from_millis(4), |_| false);
        let link = link_of(leaves, spines, trial * 37);
        fabric.faulty = Some((link, 1.0));
        let time = Duration::from_millis(11);
        let end = fabric.run(warm, time, |fabric| fabric.named().is_some());
        right += u32::from(end < warm + time && fabric.named() == Some(link));
    }
    assert!(right >= 990, "{right} of 1000 named");
}

/// The same for a loss of 5 %, with 600 probes of each way: 300 for the fault and as many for its direction.
#[test]
fn single_losses_are_named_with_their_direction() {
    let (leaves, spines) = (4, 4);
    let (mut right, mut wrong) = (0, 0);
    for trial in 0..300u16 {
        let mut fabric = Fabric::new(leaves.into(), spines.into(), u64::from(trial) * 991 + 3);
        let link = link_of(leaves, spines, trial * 7);
        fabric.faulty = Some((link, 0.05));
        let time = Duration::from_millis(600);
        let end = fabric.run(at(1), time, |fabric| fabric.named().is_some());
        right += u32::from(fabric.named() == Some(link) && end < at(1) + time);
        wrong += u32::from(fabric.named().is_some_and(|named| named != link));
    }
    assert!(right >= 290 && wrong <= 2, "{right} of 300 named, {wrong} wrong");
    let mut sound = Fabric::new(4, 4, 1);
    sound.run(at(1), Duration::from_secs(20), |_| false);
    assert_eq!((sound.steering.ways(), sound.named()), ((12, 0), None));
}

#[test]
fn what_is_no_host_of_the_fabric_is_refused() {
    let (mut steering, _) = steering(&clos(3, 2));
    let address: Ipv6Addr = "2001:db8:9::1".parse().unwrap();
    assert_eq!(steering.asked(address, at(1)), Err(None));
    assert_eq!(steering.add(address, at(1)), Err(Refused::NotAHost(address)));
    assert_eq!(Steering::new(SETTINGS).add(host(2, 1), at(1)), Err(Refused::NoFabric));
    assert_eq!(steering.next_command(), None);
}

/// The counts after `n` rounds of 16 probes, of which those over this spine met congestion.
fn congested(way: &Header, spine: &str, n: u64) -> Option<Counts> {
    let met = if way.destination.to_string().starts_with(spine) { 16 * n } else { 0 };
    Some(Counts { back: 16 * n, congested: met, ..Counts::default() })
}

/// Catches congestion that moves no packets, those of flows that keep their paths, those to other edges, or those that a user has pinned.
#[test]
fn congestion_leads_packets_to_other_paths_where_flows_may_take_them() {
    for (mode, moves) in [(Mode::Pinned, false), (Mode::Flowlet, true), (Mode::Spray, true)] {
        let mut steering = Steering::new(Settings { mode, ..SETTINGS });
        assert_eq!(steering.set_map(Some(clos(3, 4)), BTreeSet::new(), at(0)), []);
        let mut kernel = Kernel::default();
        [host(3, 1), host(3, 2), host(2, 1)].iter().for_each(|to| steering.asked(*to, at(1)).unwrap());
        steering.pin(host(3, 2), Some(2), at(1)).unwrap();
        kernel.carry_out(&mut steering);
        // Both edges, both over spine 102: only that of leaf 3 is congested.
        let spine = "5f00:0:1:66:3:";
        let balance = |steering: &mut Steering, counts: &dyn Fn(&Header) -> Option<Counts>| {
            if !steering.balances() {
                return;
            }
            let of = steering.compared().iter().map(|ways| ways.iter().map(counts).collect()).collect::<Vec<_>>();
            steering.balance(&of);
        };
        (0..=1).for_each(|n| balance(&mut steering, &|way| congested(way, spine, n)));
        kernel.carry_out(&mut steering);
        let share = |kernel: &Kernel, to| kernel.addresses(to)["5f00:0:1:66:3::"];
        assert_eq!(share(&kernel, host(3, 1)), if moves { 13 } else { 16 }, "{mode:?}");
        assert_eq!((share(&kernel, host(3, 2)), kernel.addresses(host(2, 1)).into_values().max()), (64, Some(16)));
        let view = steering.destination(host(3, 1)).unwrap();
        let weights: Vec<f64> = view.paths.iter().map(|path| path.weight).collect();
        assert_eq!(weights.iter().filter(|weight| **weight < 1.0).count(), usize::from(moves), "{weights:?}");
        // The ways of a destination that is forgotten are compared no more, and it begins anew. One that had a fault begins with the least weight.
        if moves {
            assert_eq!(steering.compared().iter().map(|ways| ways.len()).collect::<Vec<_>>(), [4, 4]);
            set_fault(&mut steering, way(1, 3), Some(Fault::BlackHole), at(2));
            assert_eq!(steering.compared().iter().map(|ways| ways.len()).collect::<Vec<_>>(), [4, 3]);
            set_fault(&mut steering, way(1, 3), None, at(3));
            kernel.carry_out(&mut steering);
            assert_eq!(kernel.addresses(host(3, 1))["5f00:0:1:65:3::"], 1);
            steering.pin(host(3, 2), None, at(2)).unwrap();
            assert_eq!(steering.compared().len(), 2);
            [2, 3600].iter().for_each(|now| steering.used(|_| 0, at(*now)));
            assert_eq!(steering.compared().len(), 0);
            [host(3, 1), host(2, 1)].iter().for_each(|to| steering.asked(*to, at(3600)).unwrap());
            kernel.carry_out(&mut steering);
            assert_eq!(kernel.addresses(host(3, 1)).into_values().collect::<Vec<_>>(), [16; 4]);
            continue;
        }
        [Some(Fault::BlackHole), None]
            .iter()
            .zip(2..)
            .for_each(|(fault, now)| set_fault(&mut steering, way(1, 3), *fault, at(now)));
        // 16 rounds without congestion give all back.
        (2..18).for_each(|n| {
            balance(&mut steering, &|way| Some(Counts { back: 16 * n, ..congested(way, spine, 1)? }));
        });
        kernel.carry_out(&mut steering);
        assert_eq!(kernel.addresses(host(3, 1)).into_values().collect::<Vec<_>>(), [16; 4], "{mode:?}");
    }
}

/// Catches a host that compares nothing after a restart, faults of its own link that leave shares uneven, and one by which it has a path pinned
/// that no user has chosen.
#[test]
fn shares_after_a_restart_and_of_the_hosts_own_link() {
    let (mut first, mut kernel) = steering(&clos(3, 4));
    first.pin(host(2, 1), Some(4), at(1)).unwrap();
    first.asked(host(3, 1), at(1)).unwrap();
    kernel.carry_out(&mut first);
    // The pinned path goes: others are in its place, and none of them is pinned.
    first.set_map(Some(clos(3, 3)), BTreeSet::new(), at(2));
    kernel.carry_out(&mut first);
    let to_2 = &"2001:db8:2:1::/64".parse().unwrap();
    assert_eq!((kernel.addresses(host(2, 1)).len(), kernel.destinations[to_2].1), (3, false));
    let mut next = Steering::new(Settings { mode: Mode::Spray, ..SETTINGS });
    let (restored, unused) = kernel.restored();
    next.restore(restored, unused, at(3));
    assert_eq!(next.compared().len(), 0);
    next.set_map(Some(clos(3, 3)), BTreeSet::new(), at(3));
    assert_eq!(next.compared().iter().map(|ways| ways.len()).collect::<Vec<_>>(), [3, 3]);
    // Losses of all alike.
    let alike = |_: &Header| Some(OfLate { lost: 9.0, back: 91.0 });
    let ways = [2, 3].iter().flat_map(|leaf| (1..=3).map(|spine| way(spine, *leaf)));
    for way in ways.take(5) {
        next.set_faults([(way, Some(Fault::Loss))], alike, at(4));
    }
    assert!(next.is_own());
    kernel.carry_out(&mut next);
    let shares: Vec<usize> =
        [host(2, 1), host(3, 1)].iter().flat_map(|to| kernel.addresses(*to).into_values()).collect();
    assert!(shares.len() == 6 && shares.iter().all(|share| (21..=22).contains(share)), "{shares:?}");
}

/// Catches slots of healthy paths that move, a program under an id that packets under way still have, and a path that never comes back.
#[test]
fn a_link_out_of_service_moves_the_slots_of_its_paths_alone_and_gets_them_back() {
    let map = clos(3, 4);
    let (mut steering, mut kernel) = steering(&map);
    steering.asked(host(3, 1), at(1)).unwrap();
    steering.asked(host(2, 1), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    let before = kernel.destinations.clone();
    // Spine 102 to leaf 3.
    let links = map.links_at(&BTreeSet::from([port(102, 3)]));
    assert_eq!(links.len(), 1);
    steering.set_unusable(links.clone(), at(2));
    kernel.carry_out(&mut steering);
    let shares = kernel.addresses(host(3, 1));
    assert!(!shares.contains_key("5f00:0:1:66:3::"), "{shares:?}");
    assert_eq!(shares.values().sum::<usize>(), 64);
    let (to_3, to_2) = (&"2001:db8:3:1::/64".parse().unwrap(), &"2001:db8:2:1::/64".parse().unwrap());
    let moved = before[to_3].0.iter().zip(&kernel.destinations[to_3].0).filter(|(old, new)| old != new).count();
    assert_eq!((moved, &before[to_2]), (16, &kernel.destinations[to_2]));
    let view = steering.destination(host(3, 1)).unwrap();
    let state: Vec<(bool, bool)> = view.paths.iter().map(|path| (!path.is_out, path.share.is_some())).collect();
    assert_eq!(state.iter().filter(|state| **state == (false, false)).count(), 1);
    // Its id rests.
    assert_eq!(kernel.programs.len(), 8);
    steering.handle_timeout(at(61));
    kernel.carry_out(&mut steering);
    assert_eq!((kernel.programs.len(), steering.poll_timeout()), (8, Some(at(62))));
    steering.handle_timeout(at(62));
    kernel.carry_out(&mut steering);
    assert_eq!((kernel.programs.len(), steering.poll_timeout()), (7, None));
    steering.set_unusable(BTreeSet::new(), at(70));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(host(3, 1)).values().copied().collect::<Vec<_>>(), [16; 4]);
}

#[test]
fn without_a_usable_path_all_stay_in_use() {
    let map = clos(2, 2);
    let (mut steering, mut kernel) = steering(&map);
    steering.asked(host(2, 1), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    let before = kernel.addresses(host(2, 1));
    steering.set_unusable(map.links_at(&BTreeSet::from([port(101, 2), port(102, 2)])), at(2));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(host(2, 1)), before);
}

/// Catches a restart that moves flows, and one that gives an id in use to another program.
#[test]
fn a_restart_keeps_slots_and_ids() {
    let map = clos(3, 4);
    let (mut steering, mut kernel) = steering(&map);
    steering.asked(host(2, 1), at(1)).unwrap();
    steering.asked(host(3, 1), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    let mut next = Steering::new(SETTINGS);
    let (restored, unused) = kernel.restored();
    next.restore(restored, unused, at(2));
    assert_eq!(next.destinations().count(), 2);
    // Until the fabric is known nothing changes, and it is asked for.
    assert_eq!(next.add(host(2, 2), at(2)), Err(Refused::NoFabric));
    next.set_map(Some(map), BTreeSet::new(), at(3));
    assert_eq!(next.next_command(), None);
    next.asked(host(2, 2), at(4)).unwrap();
    kernel.carry_out(&mut next);
    assert_eq!((kernel.destinations.len(), kernel.ever.len()), (3, 12));
}

#[test]
fn a_host_that_may_send_none_has_no_destinations() {
    let (mut steering, mut kernel) = steering(&clos(2, 2));
    steering.asked(host(2, 1), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!(steering.set_map(None, BTreeSet::new(), at(2)), []);
    kernel.carry_out(&mut steering);
    assert!(kernel.destinations.is_empty());
    assert_eq!(steering.add(host(2, 1), at(3)), Err(Refused::NoFabric));
}

#[test]
fn idle_destinations_are_forgotten_and_a_full_table_makes_room_for_traffic() {
    let map = clos(2, 1);
    let (mut steering, mut kernel) = steering(&map);
    steering.asked(host(2, 1), at(0)).unwrap();
    steering.asked(host(2, 2), at(0)).unwrap();
    kernel.carry_out(&mut steering);
    let busy = kernel.destinations[&"2001:db8:2:2::/64".parse().unwrap()].0[0];
    steering.used(|_| 0, at(1));
    for time in 2..=700 {
        steering.used(|id| if id == busy { time } else { 0 }, at(time));
    }
    kernel.carry_out(&mut steering);
    let left: Vec<String> = kernel.destinations.keys().map(ToString::to_string).collect();
    assert_eq!(left, ["2001:db8:2:2::/64"]);
}

/// Hosts behind one leaf: each destination takes one id of 16,383.
#[test]
fn the_number_of_destinations_is_bounded() {
    let block = UsidBlock::at_front("5f00::".parse().unwrap());
    let prefix = |n: u64| format!("2001:db8:0:{n:x}::/64").parse().unwrap();
    let hosts: Vec<MapHost> =
        (1..=4095).map(|n| MapHost { prefix: prefix(n), port: port(1 + n / 4000, n), mtu: 1500 }).collect();
    let more = (1..=10).map(|n| MapHost { prefix: prefix(0x8000 + n), port: port(3, n), mtu: 1500 });
    let hosts: Vec<MapHost> = hosts.into_iter().chain(more).collect();
    let names = (1..=3).map(|node| (port(node, 1).node, String::new())).collect();
    let links = [
        MapLink { a: port(1, 4095), b: port(2, 1), mtu: 1600 },
        MapLink { a: port(2, 2), b: port(3, 4000), mtu: 1600 },
    ];
    let map = Map::new(block, names, &links, &hosts, port(1, 1), 9).unwrap();
    let mut steering = Steering::new(SETTINGS);
    steering.set_map(Some(Arc::new(map)), BTreeSet::new(), at(0));
    let address = |prefix: Ipv6Net| prefix.addr();
    let mut refused = Vec::new();
    for (host, n) in hosts.iter().skip(1).zip(0u64..) {
        if let Err(why) = steering.asked(address(host.prefix), at(n / 1000)) {
            refused.push(why);
        }
    }
    assert_eq!((steering.destinations().count(), refused), (MAX_DESTINATIONS, vec![Some(Refused::Full); 8]));
    // The reason is returned once.
    assert_eq!(steering.asked(address(hosts[4104].prefix), at(30)), Err(None));
    // Half a minute later the oldest one makes room.
    steering.add(address(hosts[4104].prefix), at(30)).unwrap();
    assert_eq!(steering.destinations().count(), MAX_DESTINATIONS);
}

/// Catches a destination that loses its programs, or keeps a dead path, because no id is free for another one.
#[test]
fn without_free_ids_a_destination_makes_do_until_some_have_rested() {
    let map = clos(3, 4);
    let (mut steering, mut kernel) = steering(&map);
    let taken: BTreeSet<PathId> = (1..=PathId::LAST - 4).filter_map(PathId::new).collect();
    steering.ids.take(&taken);
    steering.asked(host(3, 1), at(1)).unwrap();
    kernel.carry_out(&mut steering);
    assert_eq!(steering.asked(host(2, 1), at(1)), Err(Some(Refused::NoIds)));
    assert_eq!(steering.next_command(), None);
    assert_eq!(steering.asked(host(2, 2), at(1)), Err(Some(Refused::NoIds)));
    assert_eq!(steering.destinations().count(), 1);
    // Other MTUs need other programs: with none free the destination keeps what it has.
    let links = |spines: u64| map.links_at(&(101..=100 + spines).map(|spine| port(spine, 3)).collect());
    steering.set_unusable(links(3), at(2));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(host(3, 1)), BTreeMap::from([("5f00:0:1:68:3::".to_owned(), 64)]));
    steering.set_unusable(BTreeSet::new(), at(3));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(host(3, 1)).len(), 1, "no id is free");
    steering.handle_timeout(at(62));
    kernel.carry_out(&mut steering);
    assert_eq!(kernel.addresses(host(3, 1)).len(), 4);
}

#[test]
fn only_what_may_be_a_host_is_asked_for() {
    assert_eq!(clos(3, 1).covering().unwrap().to_string(), "2001:db8::/46");
}
