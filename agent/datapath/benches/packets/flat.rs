// SPDX-License-Identifier: Apache-2.0
//! Cost of feedback by the number of branches of the group: the minimum is a tournament tree of 128 leaves, so a change of one
//! branch is log2(128) = 7 steps for any number of branches.
//!
//! All sizes are measured in turn in every round, and a ratio is of two medians of one round, so that other load on the machine
//! affects both. Feedback that is sent upstream, and repeated NAKs, come from one branch at a time; absorbed ACKs and CNPs come
//! from every branch in turn, so those rows include the cost of bringing the map entries of all branches into the cache.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use canopy_datapath::testbed::*;
use canopy_packet::aeth::{NakCode, Syndrome};
use canopy_packet::bth::Opcode;

use crate::quartiles;

const BRANCHES: [u32; 4] = [2, 8, 64, 128];
const ROUNDS: usize = 60;
/// Turns per round; every turn has another slowest branch.
const TURNS: u32 = 8;
/// ACKs of the slowest branch in a turn, and its NAKs.
const PACKETS: u32 = 32;
const HOUR: Duration = Duration::from_secs(3_600);
/// First PSN, as the test bed has it.
const START: u32 = 100;
const ENTRIES: [&str; 5] = ["ACK, absorbed", "ACK, upstream", "NAK, absorbed", "NAK, upstream", "CNP"];

/// Median nanoseconds of each entry, by round.
type Medians = Vec<[f64; ENTRIES.len()]>;

/// Prints the table.
pub(crate) fn run() {
    let all: [Medians; BRANCHES.len()] = thread::scope(|scope| {
        let groups = BRANCHES.map(|branches| {
            let (go, turns) = mpsc::channel();
            let (results, medians) = mpsc::channel();
            scope.spawn(move || measure(branches, &turns, &results));
            (go, medians)
        });
        let mut all = [const { Medians::new() }; BRANCHES.len()];
        // The first round is not counted: it fills the caches.
        for round in 0..=ROUNDS {
            for (of, (go, medians)) in all.iter_mut().zip(&groups) {
                // If a thread has panicked, the scope reports it.
                let Ok(measured) = go.send(()).map(|()| medians.recv()) else { return all };
                of.extend(measured.ok().filter(|_| round > 0));
            }
        }
        all
    });
    println!(
        "\n{:<16} {:>8} {:>8} {:>8} {:>8}   {:>6} {:>6} {:>6}",
        "feedback", "branches", "q1 ns", "median", "q3 ns", "q1", "ratio", "q3"
    );
    let mut worst: f64 = 0.0;
    for (e, entry) in ENTRIES.iter().enumerate() {
        for (b, branches) in BRANCHES.iter().enumerate() {
            let ns = quartiles(all[b].iter().map(|round| round[e]));
            let ratio = quartiles(all[b].iter().zip(&all[0]).map(|(round, least)| round[e] / least[e]));
            worst = worst.max(ratio[1]).max(1.0 / ratio[1]);
            println!(
                "{entry:<16} {branches:>8} {:>8.0} {:>8.0} {:>8.0}   {:>6.2} {:>6.2} {:>6.2}",
                ns[0], ns[1], ns[2], ratio[0], ratio[1], ratio[2]
            );
        }
    }
    println!("Ratios are to {} branches in the same round; the median furthest from 1 is {worst:.2}x.", BRANCHES[0]);
}

/// Measures a group of this many receivers, in a namespace of this thread's own, once per message from `turns`.
fn measure(branches: u32, turns: &mpsc::Receiver<()>, results: &mpsc::Sender<[f64; ENTRIES.len()]>) {
    let shape = Shape { receivers: branches, provisioned: true, start_psn: START, ..Shape::default() };
    let mut bed = Testbed::without_far_boundary(&shape);
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            (g.params.cnp_min_interval, g.params.cnp_window) = (Duration::ZERO, HOUR);
            g.params.nak_merge = HOUR;
        });
    });
    assert!(errors.is_empty(), "{errors:?}");
    // Two packets suffice to make all PSNs between them valid.
    for psn in [START, START + 1_000_000] {
        bed.run("u0", &encapsulated(&data(Opcode::SEND_ONLY, psn, b"x"), end_mt(), vec![], 0));
    }
    let mut psn = START;
    while turns.recv().is_ok() {
        if results.send(round(&bed, branches, &mut psn)).is_err() {
            return;
        }
    }
}

/// One round: one branch is behind all others and each of its ACKs raises the minimum, so that every group sends the same number
/// upstream.
fn round(bed: &Testbed, branches: u32, psn: &mut u32) -> [f64; ENTRIES.len()] {
    let mut ns: [Vec<f64>; ENTRIES.len()] = Default::default();
    let mut run = |entry: usize, packets: &[Vec<u8>], action: u32| {
        for packet in packets {
            let (did, _, took) = bed.run("d0", packet);
            assert_eq!(did, action, "{} of {branches} branches", ENTRIES[entry]);
            ns[entry].push(took.as_nanos() as f64);
        }
    };
    let nak = Syndrome::nak(NakCode::PsnSequence);
    for turn in 0..TURNS {
        let slow = turn % branches;
        let ahead: Vec<_> = (0..branches).filter(|b| *b != slow).collect();
        let (first, last) = (*psn + 1, *psn + 2 * PACKETS);
        let acks = |psn: u32| ahead.iter().map(move |b| answer(*b, Syndrome::ack(31), psn, psn));
        // The same number of absorbed ACKs in every group, from all branches that are ahead.
        let absorbed: Vec<_> = (last + 1..).flat_map(acks).take(128.max(ahead.len())).collect();
        run(0, &absorbed, SHOT);
        run(1, &(first..first + PACKETS).map(|p| answer(slow, Syndrome::ack(31), p, p)).collect::<Vec<_>>(), REDIRECT);
        let naks: Vec<_> = (first + PACKETS + 1..=last).map(|p| answer(slow, nak, p, p)).collect();
        run(3, &naks, REDIRECT);
        run(2, &vec![naks[naks.len() - 1].clone(); PACKETS as usize], SHOT);
        run(4, &(0..128).map(|i| congestion(i % branches)).collect::<Vec<_>>(), SHOT);
        // The slow branch catches up: the next turn starts after the last PSN of every branch.
        *psn = last + 1 + 128;
        (0..branches).for_each(|b| drop(bed.run("d0", &answer(b, Syndrome::ack(31), *psn, *psn))));
    }
    ns.map(|entry| quartiles(entry.into_iter())[1])
}
