// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;

use super::*;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
const FAST: Settings = Settings { interval: MS, rate: 100_000 };

fn header(number: u16) -> Header {
    Header { destination: [0x5f00, 0, 1, number, 3, number, 1, 0].into(), segments: Vec::new(), segments_left: 0 }
}

fn wanted(role: Role) -> Wanted {
    Wanted { role, most: 9000 }
}

fn at(time: Duration) -> Monotonic {
    Monotonic::START + time
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a way does with a probe.
#[derive(Clone, Copy)]
struct Link {
    delay: Duration,
    loss: f64,
    marks: bool,
}

const GOOD: Link = Link { delay: Duration::from_micros(50), loss: 0.0, marks: false };
const HOLE: Link = Link { loss: 1.0, ..GOOD };

/// A fabric of ways, and the time.
struct World {
    probing: Probing,
    links: BTreeMap<Header, Link>,
    random: Random,
    now: Monotonic,
    /// When each probe was sent, when it comes back, and whether it is marked.
    flying: BTreeMap<(WayNumber, u32), (Monotonic, Option<Monotonic>, bool)>,
    sent: BTreeMap<Header, Vec<Monotonic>>,
    changes: Vec<(Monotonic, Header, Option<Fault>)>,
}

impl World {
    fn new(settings: Settings, ways: u16) -> Self {
        let mut world = Self {
            probing: Probing::new(settings, u32::MAX - 100),
            links: BTreeMap::new(),
            random: Random(7),
            now: at(Duration::from_secs(1)),
            flying: BTreeMap::new(),
            sent: BTreeMap::new(),
            changes: Vec::new(),
        };
        for number in 1..=ways {
            world.links.insert(header(number), GOOD);
            world.probing.set(&header(number), Some(&wanted(Role::Active)), world.now);
        }
        world
    }

    fn turn(&mut self) {
        let (now, flying) = (self.now, &self.flying);
        self.probing.handle_timeout(now, |way, sequence| match flying.get(&(way, sequence)) {
            None => Answer::NotSent,
            Some((sent, Some(back), is_marked)) if *back <= now => {
                Answer::Back { after: back.since(*sent), is_marked: *is_marked }
            }
            Some((sent, ..)) => Answer::OnItsWay { left: *sent },
        });
        while let Some(probe) = self.probing.next_probe() {
            let link = self.links[&probe.header];
            let back = (self.random.next() >= link.loss).then(|| self.now + link.delay);
            self.flying.insert((probe.way, probe.sequence), (self.now, back, link.marks));
            self.sent.entry(probe.header).or_default().push(self.now);
        }
        while let Some((header, fault)) = self.probing.next_change() {
            self.changes.push((self.now, header, fault));
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(turn) = self.probing.poll_timeout().filter(|turn| *turn <= end) {
            self.now = self.now.max(turn);
            self.turn();
        }
        self.now = end;
    }

    fn sent(&self, number: u16) -> usize {
        self.sent.get(&header(number)).map_or(0, Vec::len)
    }

    fn view(&self, number: u16) -> WayView {
        self.probing.way(&header(number)).unwrap()
    }
}

/// Three intervals and a millisecond from any moment of the fault, of which the daemon has half a millisecond. Catches a loss that is judged only
/// when the next probe is due, a last probe that is waited for as long as the first one, and a fault of another way.
#[test]
fn a_silent_black_hole_is_found_within_three_intervals_and_a_millisecond() {
    for phase in 0..40 {
        let mut world = World::new(FAST, 4);
        world.run(50 * MS + phase * 25 * US);
        world.links.insert(header(2), HOLE);
        let fault = world.now;
        world.run(20 * MS);
        assert_eq!(world.changes.len(), 1, "{:?}", world.changes);
        let (found, way, what) = &world.changes[0];
        assert_eq!((way, what), (&header(2), &Some(Fault::BlackHole)));
        assert!(found.since(fault) <= 3 * MS + 500 * US, "{:?} in phase {phase}", found.since(fault));
        assert_eq!((world.view(2).since, world.view(1).fault), (Some(*found), None));
    }
}

/// Catches a slow way whose third probe is lost before it can be back.
#[test]
fn two_losses_on_a_slow_way_are_no_black_hole() {
    let mut world = World::new(FAST, 1);
    let slow = Link { delay: 320 * US, ..GOOD };
    world.links.insert(header(1), slow);
    world.run(50 * MS);
    let sent = world.sent(1);
    world.links.insert(header(1), HOLE);
    while world.sent(1) < sent + 2 {
        world.run(10 * US);
    }
    world.links.insert(header(1), slow);
    world.run(50 * MS);
    assert_eq!((world.changes.clone(), world.view(1).counts.lost), (Vec::new(), 2));
}

/// Catches congestion that is seen by marks or by delay alone, and delay that is no queue.
#[test]
fn probes_that_are_marked_or_wait_have_met_congestion() {
    // Of eight probes one is long, and may take longer.
    for (link, met) in [
        (Link { marks: true, ..GOOD }, 8),
        (Link { delay: 250 * US, ..GOOD }, 7),
        (Link { delay: 190 * US, ..GOOD }, 0),
    ] {
        let mut world = World::new(FAST, 1);
        world.run(50 * MS);
        let before = world.view(1).counts;
        assert_eq!(before.congested, 0);
        world.links.insert(header(1), link);
        world.run(50 * MS);
        let (back, congested) = (world.view(1).counts.back - before.back, world.view(1).counts.congested);
        assert!(back > 40 && congested.abs_diff(back * met / 8) <= 2, "{congested} of {back}");
    }
}

/// Catches a path that became longer and is congested for ever.
#[test]
fn a_longer_path_is_the_new_base_after_two_minutes() {
    let mut world = World::new(Settings { interval: 100 * MS, rate: 100_000 }, 1);
    world.run(Duration::from_secs(10));
    world.links.insert(header(1), Link { delay: MS, ..GOOD });
    world.run(Duration::from_secs(130));
    let before = world.view(1).counts.congested;
    assert!(before > 400, "{before}");
    world.run(Duration::from_secs(10));
    assert_eq!(world.view(1).counts.congested, before);
}

/// 5 % within 300 probes, false alarms below 0.1 %. Catches thresholds that are off by a loss.
#[test]
fn a_loss_of_5_percent_is_found_within_300_probes_and_none_is_not() {
    let (mut found, mut alarms) = (0, 0);
    for trial in 0..1000 {
        let mut world = World::new(FAST, 1);
        world.random = Random(trial * 31 + 1);
        world.links.insert(header(1), Link { loss: 0.05, ..GOOD });
        world.run(300 * MS);
        found += u32::from(!world.changes.is_empty());
        let mut world = World::new(FAST, 1);
        world.random = Random(trial * 31 + 1);
        world.links.insert(header(1), Link { loss: 0.001, ..GOOD });
        world.run(1000 * MS);
        alarms += u32::from(!world.changes.is_empty());
    }
    assert!(found >= 970, "{found} of 1000 found within 300 probes");
    assert!(alarms < 1000 / 1000 + 1, "{alarms} false alarms in 10^6 probes of ways that lose 0.1 %");
    let mut world = World::new(FAST, 3);
    world.run(Duration::from_secs(20));
    assert_eq!(world.changes, []);
    assert_eq!(world.view(1).counts.lost, 0);
}

/// Catches a way that comes back at its first answer, one that never does, and one that flaps for ever as often as at first.
#[test]
fn a_way_comes_back_when_it_has_proved_itself_and_later_after_each_relapse() {
    let mut world = World::new(FAST, 2);
    world.run(50 * MS);
    let mut away = Vec::new();
    for _ in 0..6 {
        world.links.insert(header(1), HOLE);
        world.run(Duration::from_secs(20));
        assert_eq!(world.view(1).fault, Some(Fault::BlackHole));
        let (before, mended) = (world.sent(1), world.now);
        world.links.insert(header(1), GOOD);
        while world.view(1).fault.is_some() {
            world.run(10 * MS);
        }
        assert!(world.sent(1) - before >= 92, "{} probes", world.sent(1) - before);
        assert_eq!(world.view(1).of_late.lost, 0.0, "losses of a fault that has ended");
        away.push(world.now.since(mended));
    }
    assert!(away.windows(2).all(|two| two[1] > two[0].mul_f64(1.5)), "{away:?}");
    // For ever, though seldom: once a second.
    world.links.insert(header(1), HOLE);
    for _ in 0..12 {
        world.run(Duration::from_secs(20));
        world.links.insert(header(1), GOOD);
        while world.view(1).fault.is_some() {
            world.run(Duration::from_secs(1));
        }
        world.links.insert(header(1), HOLE);
    }
    let before = world.sent(1);
    world.run(Duration::from_secs(100));
    assert!((95..=110).contains(&(world.sent(1) - before)), "{}", world.sent(1) - before);
    // After a minute without a fault it begins anew.
    world.links.insert(header(1), GOOD);
    world.run(Duration::from_secs(300));
    world.links.insert(header(1), HOLE);
    let before = world.sent(1);
    world.run(Duration::from_secs(10));
    assert!(world.sent(1) - before > 2000, "{}", world.sent(1) - before);
}

/// Catches a queue that is taken for a black hole: what comes back late takes the losses back.
#[test]
fn a_delay_that_steps_up_is_no_fault() {
    let mut world = World::new(Settings { interval: 10 * MS, rate: 1000 }, 1);
    world.run(Duration::from_secs(1));
    world.links.insert(header(1), Link { delay: 40 * MS, ..GOOD });
    world.run(Duration::from_secs(2));
    assert_eq!(world.view(1).fault, None, "{:?}", world.changes);
    assert!(world.changes.len() <= 2, "{:?}", world.changes);
    let counts = world.view(1).counts;
    assert!(counts.late > 0 && counts.lost == counts.late, "{counts:?}");
    assert!(world.view(1).rtt.unwrap() > 35 * MS && world.view(1).least.unwrap() == 50 * US);
}

/// Catches a stop of this process, or of its machine, that is charged to all ways.
#[test]
fn a_host_that_stands_still_loses_nothing() {
    let mut world = World::new(FAST, 8);
    // Five probes of each are under way.
    world.links.values_mut().for_each(|link| link.delay = 5 * MS);
    world.run(500 * MS);
    world.changes.clear();
    // They come back only after the stop.
    let end = world.now + 300 * MS;
    for (_, back, _) in world.flying.values_mut().filter(|(_, back, _)| back.is_some_and(|back| back > world.now)) {
        *back = Some(end + 500 * US);
    }
    world.now = end;
    world.run(100 * MS);
    assert_eq!(world.changes, []);
    assert_eq!((1..=8).map(|way| world.view(way).counts.lost).sum::<u64>(), 0);
}

/// Catches a loss that does not count against a way with a fault.
#[test]
fn a_way_that_loses_on_stays_out_of_use() {
    let mut world = World::new(FAST, 1);
    world.links.insert(header(1), Link { loss: 0.3, ..GOOD });
    world.run(Duration::from_secs(20));
    assert!(
        world.changes.len() <= 2 && world.changes.iter().all(|(.., fault)| fault.is_some()),
        "{}",
        world.changes.len()
    );
    assert_eq!(world.view(1).fault, Some(Fault::Loss));
    // Then it passes none, and then some again.
    world.links.insert(header(1), HOLE);
    world.run(Duration::from_secs(2));
    assert_eq!(world.view(1).fault, Some(Fault::BlackHole));
    world.links.insert(header(1), Link { loss: 0.3, ..GOOD });
    world.run(Duration::from_secs(2));
    assert_eq!(world.view(1).fault, Some(Fault::Loss));
}

/// Catches a deadline that only a prompt process meets, and one that a busy one never does.
#[test]
fn a_process_that_is_always_late_finds_a_black_hole() {
    let mut world = World::new(FAST, 2);
    world.run(50 * MS);
    world.links.insert(header(1), HOLE);
    let fault = world.now;
    while world.changes.is_empty() && world.now < fault + Duration::from_secs(1) {
        world.now = world.probing.poll_timeout().unwrap() + 6 * MS;
        world.turn();
    }
    assert!(world.now.since(fault) < 100 * MS, "{:?}", world.now.since(fault));
    assert_eq!(world.changes.len(), 1);
}

/// Catches ways that all send at the same moment after a stop, for ever.
#[test]
fn ways_keep_their_places_over_a_stop() {
    let mut world = World::new(Settings { interval: 100 * MS, rate: 1_000_000 }, 100);
    world.run(Duration::from_secs(1));
    world.now = world.now + Duration::from_millis(330);
    world.run(Duration::from_secs(1));
    world.sent.clear();
    world.run(Duration::from_secs(1));
    let mut times: Vec<Monotonic> = world.sent.values().flatten().copied().collect();
    times.sort_unstable();
    assert!(times.len() > 900 && times.chunk_by(|a, b| a == b).all(|burst| burst.len() <= 2));
}

/// Catches a path across a continent that is taken for a black hole, because probes are forgotten before they come back.
#[test]
fn a_long_way_is_no_fault_at_any_interval() {
    let mut world = World::new(FAST, 1);
    world.links.insert(header(1), Link { delay: 60 * MS, ..GOOD });
    world.run(Duration::from_secs(2));
    for delay in [70, 100, 200] {
        world.links.insert(header(1), Link { delay: delay * MS, ..GOOD });
        world.run(Duration::from_secs(5));
        world.changes.clear();
        world.run(Duration::from_secs(60));
        assert_eq!((world.changes.len(), world.view(1).fault), (0, None), "{delay} ms");
    }
}

#[test]
fn all_ways_together_are_not_probed_faster_than_the_rate() {
    let mut world = World::new(Settings { interval: MS, rate: 2000 }, 100);
    assert!((world.probing.stretch() - 50.0).abs() < 0.1);
    world.run(Duration::from_secs(10));
    let all: usize = (1..=100).map(|way| world.sent(way)).sum();
    assert!((19_500..=20_200).contains(&all), "{all}");
    let most = world.sent.values().flatten().fold(BTreeMap::<Monotonic, usize>::new(), |mut by, at| {
        *by.entry(*at).or_default() += 1;
        by
    });
    assert!(most.values().all(|burst| *burst <= 4), "bursts of {:?}", most.values().max());
    // Ways that begin at once do not send at once.
    let mut many = World::new(Settings { interval: 100 * MS, rate: 1_000_000 }, 100);
    many.run(Duration::from_secs(1));
    let mut times: Vec<Monotonic> = many.sent.values().flatten().copied().collect();
    times.sort_unstable();
    assert!(times.len() > 900 && times.chunk_by(|a, b| a == b).all(|burst| burst.len() <= 2));
    // Those that wait for their turn are probed a tenth as often.
    for way in 2..=100 {
        world.probing.set(&header(way), Some(&wanted(Role::Standby)), world.now);
    }
    let before = [world.sent(1), world.sent(2)];
    world.run(Duration::from_secs(10));
    let [active, standby] = [world.sent(1) - before[0], world.sent(2) - before[1]];
    assert!(active.abs_diff(10 * standby) <= active / 10, "{active} beside {standby}");
}

#[test]
fn a_way_that_is_removed_is_probed_no_more_and_leaves_its_number() {
    let mut world = World::new(FAST, 2);
    world.run(20 * MS);
    world.links.insert(header(1), HOLE);
    world.run(20 * MS);
    assert_eq!(world.changes.len(), 1);
    world.probing.set(&header(1), None, world.now);
    let before = world.sent(1);
    world.run(20 * MS);
    assert_eq!((world.sent(1), world.probing.way(&header(1))), (before, None));
    world.probing.set(&header(1), Some(&wanted(Role::Active)), world.now);
    assert_eq!(world.view(1).fault, None, "a new way");
    // A fault that was not taken yet, and a probe that was not sent yet, go with it.
    let mut probing = Probing::new(FAST, 0);
    probing.set(&header(1), Some(&wanted(Role::Active)), at(MS));
    while !probing.has_changes() {
        let now = probing.poll_timeout().unwrap();
        probing.handle_timeout(now, |_, _| Answer::OnItsWay { left: at(MS) });
    }
    probing.set(&header(1), None, at(MS));
    assert_eq!((probing.next_change(), probing.next_probe(), probing.poll_timeout()), (None, None, None));
    let mut crowd = World::new(FAST, MAX_WAYS as u16 + 3);
    assert_eq!((crowd.probing.left_out(), crowd.probing.ways().count()), (3, MAX_WAYS));
    crowd.probing.set(&header(9), None, crowd.now);
    assert_eq!((crowd.probing.left_out(), crowd.probing.ways().count()), (2, MAX_WAYS));
    crowd.probing.set(&header(MAX_WAYS as u16 + 3), None, crowd.now);
    assert_eq!(crowd.probing.left_out(), 1);
}

/// Catches a probe that waits in this host and is lost as soon as it has left.
#[test]
fn the_time_of_a_probe_begins_when_it_leaves() {
    let mut probing = Probing::new(FAST, 0);
    probing.set(&header(1), Some(&wanted(Role::Active)), at(MS));
    while let Some(now) = probing.poll_timeout().filter(|now| *now < at(50 * MS)) {
        // Some come back soon; later ones have left just now, however long ago they were made.
        probing.handle_timeout(now, |_, sequence| match sequence {
            0..10 => Answer::Back { after: 50 * US, is_marked: false },
            _ => Answer::OnItsWay { left: now },
        });
        while probing.next_probe().is_some() {}
    }
    let counts = probing.way(&header(1)).unwrap().counts;
    assert_eq!((counts.back, counts.lost), (10, 0));
}

/// Catches a number whose next way takes probes of the former one for its own, and a fault that only the prober knows.
#[test]
fn a_number_that_is_used_again_begins_behind_the_probes_of_its_former_way() {
    let mut probing = Probing::new(FAST, 1000);
    // All numbers but one are in use, so that it is the next one.
    for number in 1..=MAX_WAYS as u16 {
        probing.set(&header(number), Some(&wanted(Role::Active)), at(MS));
    }
    let mut sent = BTreeMap::new();
    let run = |probing: &mut Probing, sent: &mut BTreeMap<WayNumber, Vec<u32>>, until: Duration| {
        while let Some(now) = probing.poll_timeout().filter(|now| *now <= at(until)) {
            probing.handle_timeout(now, |_, _| Answer::OnItsWay { left: at(MS) });
            while let Some(probe) = probing.next_probe() {
                sent.entry(probe.way).or_default().push(probe.sequence);
            }
        }
    };
    run(&mut probing, &mut sent, 600 * MS);
    let known = probing.set(&header(9), Some(&wanted(Role::Active)), at(600 * MS));
    assert_eq!(known, Some(Fault::BlackHole), "who sets a way anew is given its fault");
    let last = sent[&9].iter().max().copied().unwrap();
    probing.set(&header(9), None, at(600 * MS));
    assert_eq!(probing.set(&header(5000), Some(&wanted(Role::Active)), at(600 * MS)), None);
    sent.clear();
    run(&mut probing, &mut sent, 900 * MS);
    let first = sent[&9].iter().min().copied().unwrap();
    assert!(first >= last + RING as u32, "{first} behind {last}");
}

/// Every eighth probe is as long as the path takes; sequence numbers wrap.
#[test]
fn one_probe_of_eight_is_long() {
    let mut probing = Probing::new(FAST, u32::MAX - 8);
    probing.set(&header(1), Some(&wanted(Role::Active)), at(MS));
    let mut long = Vec::new();
    for _ in 0..32 {
        let now = probing.poll_timeout().unwrap();
        probing.handle_timeout(now, |_, _| Answer::Back { after: 50 * US, is_marked: true });
        while let Some(probe) = probing.next_probe() {
            long.extend(probe.length.map(|length| (probe.sequence, length)));
        }
    }
    assert!(long.len() >= 3 && long.iter().all(|(sequence, length)| sequence % 8 == 7 && *length == 9000), "{long:?}");
    let counts = probing.way(&header(1)).unwrap().counts;
    assert!(counts.back > 20 && counts.marked == counts.back && counts.lost == 0);
}

/// A probe that this host could not send shows nothing of the way.
#[test]
fn what_was_not_sent_is_not_lost() {
    let mut probing = Probing::new(FAST, 0);
    probing.set(&header(1), Some(&wanted(Role::Active)), at(MS));
    for _ in 0..100 {
        let now = probing.poll_timeout().unwrap();
        probing.handle_timeout(now, |_, _| Answer::NotSent);
        while probing.next_probe().is_some() {}
    }
    let view = probing.way(&header(1)).unwrap();
    assert_eq!((view.fault, view.counts.lost), (None, 0));
    assert!(view.counts.not_sent > 10);
}
