// SPDX-License-Identifier: Apache-2.0
//! Requester and responder wired together, octet by octet, through a seeded network that loses, duplicates, reorders,
//! damages and marks in both directions. At every acknowledgement the oracle checks the responder: what the requester
//! counts as acknowledged must have been delivered (invariant I1 of one branch).

#![allow(clippy::unwrap_used)] // A test that cannot continue panics.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use canopy_packet::EmitError;
use canopy_rc::connection::{Connection, Ingress};
use canopy_rc::content::Content;
use canopy_rc::requester::{self, Requester};
use canopy_rc::responder::{self, Place, Responder};
use canopy_rc::transfer::{Operation, Region, Transfer};
use canopy_rc::wire::{DATAGRAM_MAX, Headers};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1);
const RECEIVER: Ipv6Addr = Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 1);
const REGION: Region = Region { va: 0xffff_0000_0000_1234, rkey: 0xdead_beef, length: 1 << 20 };

/// Faults of the network, in packets of 1000.
#[derive(Clone, Copy, Default, Debug)]
struct Faults {
    loss: u64,
    duplicate: u64,
    reorder: u64,
    damage: u64,
    mark: u64,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    start_psn: u32,
    bytes: u64,
    message_size: u64,
    mtu: u32,
    write: bool,
    immediate: bool,
    rnr_every: u64,
    faults: Faults,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            seed: 1,
            start_psn: 0,
            bytes: 300_001,
            message_size: 10_000,
            mtu: 1024,
            write: false,
            immediate: false,
            rnr_every: 0,
            faults: Faults::default(),
        }
    }
}

struct Random(ChaCha8Rng);

impl Random {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn hits(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

struct Flight {
    to_receiver: bool,
    datagram: Vec<u8>,
    marked: bool,
}

/// Packets in transit, by arrival time and order of sending.
struct Network {
    random: Random,
    faults: Faults,
    under_way: BTreeMap<(Duration, u64), Flight>,
    sent: u64,
}

impl Network {
    fn send(&mut self, now: Duration, to_receiver: bool, datagram: &[u8]) {
        if self.random.hits(self.faults.loss) {
            return;
        }
        let copies = 1 + u64::from(self.random.hits(self.faults.duplicate));
        for _ in 0..copies {
            let late = if self.random.hits(self.faults.reorder) { self.random.below(3000) } else { 0 };
            let mut datagram = datagram.to_vec();
            if self.random.hits(self.faults.damage) {
                // Any octet behind the ports except those that the ICRC masks: they are not protected.
                let at = 20 + self.random.below(datagram.len() as u64 - 20) as usize;
                datagram[at] ^= 1 << self.random.below(8);
            }
            let marked = to_receiver && self.random.hits(self.faults.mark);
            self.sent += 1;
            let arrival = now + Duration::from_micros(50 + late);
            self.under_way.insert((arrival, self.sent), Flight { to_receiver, datagram, marked });
        }
    }
}

/// The final state of both ends.
struct Outcome {
    requester: requester::Counters,
    responder: responder::Counters,
    ingress: [Ingress; 2],
    took: Duration,
}

fn octets(from: &Connection, headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; DATAGRAM_MAX];
    let fill = |to: &mut [u8]| -> Result<(), EmitError> {
        to.copy_from_slice(payload);
        Ok(())
    };
    let len = from.emit(headers, payload.len(), fill, &mut out).unwrap();
    out.truncate(len);
    out
}

fn run(case: Case) -> Outcome {
    let content = Content::Random(case.seed);
    let mut expected = vec![0; case.bytes as usize];
    content.fill(0, &mut expected).unwrap();
    let operation = if case.write { Operation::Write(REGION) } else { Operation::Send };
    let transfer = Transfer::new(case.bytes, case.message_size, case.mtu, operation, case.immediate).unwrap();
    let (packets, messages) = (transfer.packets(), transfer.messages());
    let settings = requester::Settings::new(128, 16, Duration::from_millis(5), 0).unwrap();
    let mut requester = Requester::new(transfer, settings, case.start_psn);
    let settings =
        responder::Settings { region: Some(REGION), rnr_every: case.rnr_every, ..responder::Settings::new(case.mtu) };
    let mut responder = Responder::new(settings, case.start_psn);
    let near = Connection {
        local: SOURCE,
        local_qpn: 0x11,
        peer: RECEIVER,
        peer_qpn: 0x22,
        start_psn: case.start_psn,
        mtu: case.mtu,
    };
    let far = Connection { local: RECEIVER, local_qpn: 0x22, peer: SOURCE, peer_qpn: 0x11, ..near.clone() };
    let mut ingress = [Ingress::default(), Ingress::default()];
    let mut network =
        Network { random: Random::new(case.seed), faults: case.faults, under_way: BTreeMap::new(), sent: 0 };
    let epoch = Instant::now();
    let mut now = Duration::ZERO;
    let mut stream = Vec::new();
    let mut memory = vec![0; REGION.length as usize];
    let mut immediates = Vec::new();
    while !requester.is_complete() {
        assert_eq!(requester.failure(), None, "{case:?}");
        assert_eq!(responder.failure(), None, "{case:?}");
        assert!(now < Duration::from_secs(120), "stalled at {}: {case:?}", requester.bytes_acked());
        while let Some(request) = requester.next_packet(epoch + now) {
            let segment = request.segment;
            let mut headers = Headers::new(segment.opcode, near.peer_qpn, request.psn);
            headers.bth.ack_req = request.ack_req;
            headers.reth = segment.reth;
            headers.immediate = segment.immediate;
            let mut payload = vec![0; segment.len];
            content.fill(segment.offset, &mut payload).unwrap();
            network.send(now, true, &octets(&near, &headers, &payload));
        }
        let timer = requester.poll_timeout().map(|at| at.saturating_duration_since(epoch));
        let arrival = network.under_way.first_key_value().map(|(&(at, _), _)| at);
        let due = match (timer, arrival) {
            (Some(timer), Some(arrival)) => timer.min(arrival),
            (one, other) => one.or(other).expect("neither a timer nor a packet: stalled for ever"),
        };
        now = due.max(now);
        if arrival != Some(due) {
            requester.handle_timeout(epoch + now);
            continue;
        }
        let (_, flight) = network.under_way.pop_first().unwrap();
        if flight.to_receiver {
            let Some(packet) = ingress[1].accept(&far, SOURCE, &flight.datagram) else { continue };
            if let Some(delivery) = responder.handle(&packet, flight.marked, epoch + now) {
                immediates.extend(delivery.immediate);
                if let Place::Memory(offset) = delivery.place {
                    memory[offset as usize..][..delivery.payload.len()].copy_from_slice(delivery.payload);
                }
                stream.extend_from_slice(delivery.payload);
            }
            while let Some(answer) = responder.next_packet() {
                let payload = vec![0; answer.payload_len()];
                network.send(now, false, &octets(&far, &answer.headers(far.peer_qpn), &payload));
            }
        } else if let Some(packet) = ingress[0].accept(&near, RECEIVER, &flight.datagram) {
            requester.handle(&packet, epoch + now);
            let (acked, delivered) = (requester.bytes_acked(), responder.counters().bytes);
            assert!(acked <= delivered, "{acked} bytes acknowledged, {delivered} delivered: {case:?}");
        }
    }
    assert!(stream == expected, "the stream differs: {case:?}");
    if case.write {
        assert!(memory[..expected.len()] == expected, "the memory differs: {case:?}");
    }
    let all: Vec<u32> = (0..messages as u32).collect();
    assert_eq!(immediates, if case.immediate { all } else { Vec::new() });
    let (near, far) = (requester.counters().clone(), responder.counters().clone());
    assert_eq!(near.false_acks, 0, "{case:?}");
    assert_eq!(near.unexpected, 0, "{case:?}");
    assert_eq!(far.messages, messages);
    assert_eq!(near.packets_sent - near.retransmitted, packets);
    assert_eq!(ingress.iter().map(|i| i.malformed + i.wrong_qp + i.wrong_source).sum::<u64>(), 0);
    Outcome { requester: near, responder: far, ingress, took: now }
}

const STARTS: [u32; 5] = [0, 0xff_fff0, 0x7f_ffff, 0x80_0000, 0x5b_3a19];

#[test]
fn a_perfect_network_needs_no_repetition_and_one_ack_per_ack_req() {
    for start_psn in STARTS {
        let outcome = run(Case { start_psn, ..Case::default() });
        assert_eq!(outcome.requester.retransmitted, 0);
        assert_eq!(outcome.requester.timeouts, 0);
        assert_eq!(outcome.responder.naks_sent, 0);
        assert_eq!(outcome.requester.acks_received, outcome.responder.acks_sent);
        assert_eq!(outcome.requester.duplicate_acks, 0);
    }
}

#[test]
fn all_lengths_near_a_packet_border_arrive_by_send_and_write() {
    for (write, immediate) in [(false, false), (false, true), (true, false), (true, true)] {
        for mtu in [256, 1024, 4096] {
            let mtu_bytes = u64::from(mtu);
            for message_size in (1..6).chain(mtu_bytes - 3..mtu_bytes + 5).chain([3 * mtu_bytes]) {
                let bytes = 2 * message_size + 1;
                run(Case { bytes, message_size, mtu, write, immediate, ..Case::default() });
            }
        }
    }
}

#[test]
fn any_mixture_of_faults_in_both_directions_ends_byte_equal() {
    for seed in 0..60 {
        let mut random = Random::new(seed ^ 0xfa17);
        let faults = Faults {
            loss: random.below(120),
            duplicate: random.below(100),
            reorder: random.below(200),
            damage: random.below(30),
            mark: 0,
        };
        let write = random.hits(500);
        let immediate = random.hits(500);
        let message_size = 1 + random.below(20_000);
        let start_psn = match random.below(6) as usize {
            index if index < STARTS.len() => STARTS[index],
            _ => random.below(1 << 24) as u32,
        };
        let bytes = 1 + random.below(400_000);
        run(Case { seed, start_psn, bytes, message_size, write, immediate, faults, ..Case::default() });
    }
}

#[test]
fn loss_alone_is_mended_by_naks_and_lost_acks_by_timers() {
    let faults = Faults { loss: 200, ..Faults::default() };
    let outcome = run(Case { seed: 7, start_psn: 0xff_fff0, faults, ..Case::default() });
    assert!(outcome.responder.naks_sent > 0);
    assert!(outcome.requester.timeouts > 0);
    assert!(outcome.responder.duplicates > 0);
}

#[test]
fn damage_is_seen_at_both_ends_and_never_delivered() {
    let faults = Faults { damage: 200, ..Faults::default() };
    let outcome = run(Case { seed: 8, faults, ..Case::default() });
    assert!(outcome.ingress.iter().all(|ingress| ingress.bad_icrc > 0));
}

#[test]
fn reordering_alone_costs_repetition_but_no_byte() {
    let faults = Faults { reorder: 100, ..Faults::default() };
    let outcome = run(Case { seed: 9, start_psn: 0x7f_ffff, faults, ..Case::default() });
    assert!(outcome.requester.retransmitted > 0);
    assert!(outcome.requester.ack_out_of_window + outcome.requester.duplicate_acks > 0);
}

#[test]
fn a_responder_that_is_often_not_ready_only_takes_longer() {
    let faults = Faults { loss: 20, ..Faults::default() };
    let patient = run(Case { seed: 10, faults, ..Case::default() });
    let outcome = run(Case { seed: 10, rnr_every: 2, faults, ..Case::default() });
    assert!(outcome.responder.rnr_sent >= 15);
    assert!(outcome.requester.rnr_received > 0);
    assert!(outcome.took > patient.took);
}

#[test]
fn marked_packets_bring_cnps_and_slow_the_requester_down() {
    let faults = Faults { mark: 300, ..Faults::default() };
    let bytes = 1_000_000;
    let free = run(Case { seed: 11, bytes, ..Case::default() });
    let outcome = run(Case { seed: 11, bytes, faults, ..Case::default() });
    assert!(outcome.responder.cnps_sent > 0);
    assert_eq!(outcome.requester.cnps_received, outcome.responder.cnps_sent);
    assert!(outcome.responder.ce_marked > outcome.responder.cnps_sent);
    assert_eq!(outcome.requester.retransmitted, 0);
    assert!(outcome.took > free.took);
}
