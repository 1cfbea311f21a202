// SPDX-License-Identifier: Apache-2.0
//! Figures of steering at the source: how long after a decision a packet that enters still gets the program before, and what a packet costs.
//! `cargo bench -p canopy-bpf --bench steer`; needs root.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use canopy_bpf::choices::Choices;
use canopy_bpf::monotonic;
use canopy_bpf::steer::{Steer, types, unpin};
use canopy_units::Monotonic;

/// Changes of the path that are measured.
const SWITCHES: u64 = 5_000;
/// Taken in turn, so that the one before is not the one behind. They fit the flow label's last octet.
const PATHS: u32 = 100;
const WITH_SRH: u32 = 101;
/// Between two changes.
const PAUSE: Duration = Duration::from_micros(150);
/// Packets of each kind.
const PACKETS: usize = 20_000;
/// Of the destination among the choices.
const PLACE: u32 = 1;
const ETH: usize = 14;
const HOST: &str = "2001:db8:1::9";

fn main() {
    let dir = PathBuf::from(format!("/sys/fs/bpf/canopy-steer-bench-{}", std::process::id()));
    let steer = Steer::load(&dir);
    unpin(&dir).expect("the pins can be removed");
    let steer = steer.expect("the program can be loaded");
    let net = |prefix: &str, length: u32| types::canopy_net {
        address: address(prefix).into(),
        mask: Ipv6Addr::from(u128::MAX.checked_shl(128 - length).unwrap_or(0)).into(),
    };
    let (own, hosts, block) = (net("2001:db8:1::", 64), net("2001:db8::", 32), net("5f00::", 32));
    steer.set_control(&types::steer_control { own, block, hosts, is_on: 1, pad: 0 }).expect("control");
    (1..=PATHS).for_each(|id| steer.programs().put(&id, &program(id, 40)).expect("a program"));
    steer.programs().put(&WITH_SRH, &program(WITH_SRH, 80)).expect("a program with an SRH");
    let destination = types::steer_prefix { length: 64, address: address("2001:db8:3::").octets() };
    steer.destinations().put(&destination, &PLACE).expect("a destination");
    let choices = steer.choices().expect("the choices");
    switches(&steer, &choices);
    packets(&steer, &choices);
}

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn program(id: u32, length: u32) -> types::steer_program {
    let mut program = types::steer_program { length, most: 9000, ..types::steer_program::default() };
    program.header[..8].copy_from_slice(&[
        0x60,
        0,
        (id >> 8) as u8,
        id as u8,
        0,
        0,
        if length > 40 { 43 } else { 41 },
        64,
    ]);
    program.header[8..24].copy_from_slice(&address(HOST).octets());
    program.header[24..40].copy_from_slice(&address("5f00:0:100:500:300::").octets());
    program
}

fn direct(choices: &Choices, mode: types::steer_mode, id: u32) {
    choices.put(PLACE, &types::steer_choice { gap_ns: 500_000, mode: mode.0, slots: [id; 64], is_pinned: 0 });
}

/// A RoCEv2 packet of 1 KiB.
fn frame(source: &str) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x60, 0, 0, 0];
    frame.extend(1056u16.to_be_bytes());
    frame.extend([17, 64]);
    frame.extend(address(source).octets());
    frame.extend(address("2001:db8:3::7").octets());
    frame.extend([0xC0, 0, 0x12, 0xB7, 4, 32, 0, 0, 0x64, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 1]);
    frame.resize(ETH + 40 + 1056, 0x5a);
    frame
}

fn path(n: u64) -> u32 {
    1 + (n % u64::from(PATHS)) as u32
}

/// One thread sends, the other one changes the path.
fn switches(steer: &Steer, choices: &Choices) {
    let (frame, has_ended) = (frame(HOST), AtomicBool::new(false));
    let pinned = types::steer_mode::STEER_PINNED;
    direct(choices, pinned, 1);
    let (sent, decided) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent: Vec<(Monotonic, u8)> = Vec::new();
            while !has_ended.load(Ordering::Relaxed) {
                let entered = monotonic();
                sent.push((entered, steer.send(&frame).expect("a run").frame[ETH + 3]));
            }
            sent
        });
        let decide = |n: u64| {
            std::thread::sleep(PAUSE);
            let at = monotonic();
            direct(choices, pinned, path(n));
            (at, monotonic())
        };
        let decided: Vec<(Monotonic, Monotonic)> = (1..=SWITCHES).map(decide).collect();
        has_ended.store(true, Ordering::Relaxed);
        (sending.join().expect("the sender"), decided)
    });
    let ends = decided.iter().skip(1).map(|(at, ..)| *at).chain([monotonic()]);
    let (mut late, mut writes) = (Vec::new(), Vec::new());
    for (((at, written), end), before) in decided.iter().zip(ends).zip(0..) {
        let first = sent.partition_point(|(entered, _)| entered <= at);
        let behind = sent.partition_point(|(entered, _)| *entered < end);
        let of_before = sent[first..behind].iter().rfind(|(_, taken)| u32::from(*taken) == path(before));
        late.push(of_before.map_or(Duration::ZERO, |(entered, _)| entered.since(*at)));
        writes.push(written.since(*at));
    }
    let packets = sent.len() as u64 / SWITCHES;
    println!("{SWITCHES} changes of the path, {packets} packets for each:");
    row("the last packet with the program before entered, after the decision", &mut late);
    row("the write took", &mut writes);
}

fn row(what: &str, values: &mut [Duration]) {
    values.sort_unstable();
    let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    println!("  {what}: 50 % {:.1}, 99 % {:.1}, all {:.1} us", at(0.5), at(0.99), at(1.0));
}

/// What the program takes, one packet a run, in turns so that the machine is the same for all.
fn packets(steer: &Steer, choices: &Choices) {
    use types::steer_mode as Mode;
    let (steered, plain) = (frame(HOST), frame("2001:db8:2::9"));
    let kinds = [
        ("without a program: another source", Mode::STEER_PINNED, 1, &plain),
        ("a program, by flow", Mode::STEER_PINNED, 1, &steered),
        ("a program, by flowlet", Mode::STEER_FLOWLET, 1, &steered),
        ("a program with an SRH of two segments", Mode::STEER_PINNED, WITH_SRH, &steered),
    ];
    let mut took = kinds.map(|_| Vec::with_capacity(PACKETS));
    for _ in 0..PACKETS / 100 {
        for ((_, mode, id, frame), took) in kinds.iter().zip(&mut took) {
            direct(choices, *mode, *id);
            took.extend((0..100).map(|_| steer.send(frame).expect("a run").took));
        }
    }
    println!("ns for a packet of 1 KiB, {PACKETS} of each kind, with about 50 for the run itself:");
    for ((what, ..), took) in kinds.iter().zip(&mut took) {
        took.sort_unstable();
        let at = |share: f64| took[((PACKETS - 1) as f64 * share) as usize].as_nanos();
        println!("  {what}: {} (10 % {}, 90 % {})", at(0.5), at(0.1), at(0.9));
    }
}
