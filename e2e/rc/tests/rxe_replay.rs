// SPDX-License-Identifier: Apache-2.0
//! The kernel's own responder (rdma_rxe) as the reference: our responder must give its captured answers.
//!
//! The captures were taken at the requester, so where packets were lost they show all requests but not which of them
//! arrived. A search over the possible losses closes that gap: there must be a pattern of losses under which our
//! responder gives exactly the kernel's answers (OpCode, PSN, syndrome, MSN, in order), each to a request captured
//! before it, and the cheapest such pattern must lose about as much as the network did. Without losses there is
//! nothing to search: every request arrives. Answers to requests at the very end of a capture may be missing from it.
//!
//! Not replayed: READ and atomics, which this responder rejects by design. Not in any capture, and so tested only
//! against the specification: duplicate requests (perftest's losses never cost an acknowledgement), RNR NAKs, CNPs.

#![allow(clippy::unwrap_used)] // A test that cannot continue panics.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::Ipv6Addr;
use std::time::Instant;

use canopy_packet::bth::Opcode;
use canopy_packet::ipv6::{Ipv6, Ipv6View};
use canopy_rc::connection::{Connection, Ingress};
use canopy_rc::responder::{Answer, Responder, Settings};
use canopy_rc::transfer::Region;
use canopy_rc::wire::{self, Packet};
use canopy_testkit::captures;

fn endpoints(frame: &[u8]) -> (Ipv6Addr, Ipv6Addr) {
    let ipv6 = Ipv6View::parse(frame).unwrap();
    (ipv6.src(), ipv6.dst())
}

/// A RoCEv2 packet, its ICRC checked.
fn packet(frame: &[u8]) -> Packet<'_> {
    let (src, dst) = endpoints(frame);
    wire::parse(src, dst, &frame[Ipv6::LEN..]).unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ack {
    psn: u32,
    syndrome: u8,
    msn: u32,
}

/// A capture: requests, and answers with the number of requests captured before each.
struct Replay<'a> {
    requests: Vec<Packet<'a>>,
    answers: Vec<(usize, Ack)>,
    responder: Responder,
}

impl<'a> Replay<'a> {
    fn new(frames: &'a [Vec<u8>], mtu: u32) -> Self {
        let (requester, _) = endpoints(&frames[0]);
        let (mut requests, mut answers) = (Vec::new(), Vec::new());
        for frame in frames {
            let packet = packet(frame);
            let bth = packet.headers.bth;
            if endpoints(frame).0 == requester {
                requests.push(packet);
            } else {
                assert_eq!(bth.opcode, Opcode::ACKNOWLEDGE);
                let aeth = packet.headers.aeth.unwrap();
                let ack = Ack { psn: bth.psn, syndrome: aeth.syndrome.0, msn: aeth.msn };
                answers.push((requests.len(), ack));
            }
        }
        // perftest exchanged address and key beforehand; the first WRITE carries them.
        let region = requests[0].headers.reth.map(|reth| Region {
            va: reth.va,
            rkey: reth.rkey,
            length: u64::from(reth.dma_len),
        });
        let settings = Settings { region, ..Settings::new(mtu) };
        let responder = Responder::new(settings, requests[0].headers.bth.psn);
        Self { requests, answers, responder }
    }

    /// Hands request `index` to `responder`, which has given `given` of the answers; returns how many it has given
    /// then, or `None` if it gives an answer that the kernel did not.
    fn deliver(&self, responder: &mut Responder, index: usize, given: usize) -> Option<usize> {
        responder.handle(&self.requests[index], false, Instant::now());
        assert_eq!(responder.failure(), None);
        let mut given = given;
        while let Some(answer) = responder.next_packet() {
            let Answer::Acknowledge { psn, aeth } = answer else { return None };
            let ack = Ack { psn, syndrome: aeth.syndrome.0, msn: aeth.msn };
            match self.answers.get(given) {
                Some(&(captured_after, expected)) if expected == ack && captured_after > index => {}
                // The capture ended before this answer.
                None => {}
                Some(_) => return None,
            }
            given += 1;
        }
        Some(given)
    }

    /// Fewest losses that explain all answers: Dijkstra over (requests seen, answers given, responder's state).
    fn fewest_losses(&self) -> Option<usize> {
        let mut queue = BinaryHeap::new();
        let mut states = vec![(0, 0, self.responder.clone())];
        let mut seen = HashMap::new();
        queue.push(Reverse((0, 0)));
        while let Some(Reverse((losses, state))) = queue.pop() {
            let (index, given, responder) = states[state].clone();
            if index == self.requests.len() {
                if given >= self.answers.len() {
                    return Some(losses);
                }
                continue;
            }
            let mut reach = |losses: usize, given: usize, responder: Responder| {
                let counters = responder.counters();
                // With the answers given, what was delivered and reported determines the state.
                let key = (index + 1, given, counters.bytes, counters.naks_sent, counters.messages);
                let best = seen.entry(key).or_insert(usize::MAX);
                if losses < *best {
                    *best = losses;
                    states.push((index + 1, given, responder));
                    queue.push(Reverse((losses, states.len() - 1)));
                }
            };
            let mut arrived = responder.clone();
            if let Some(given) = self.deliver(&mut arrived, index, given) {
                reach(losses, given, arrived);
            }
            reach(losses + 1, given, responder);
        }
        None
    }
}

#[test]
fn without_loss_every_answer_is_the_kernels() {
    for (name, mtu) in
        [("send-1024.pcap", 1024), ("send-4096.pcap", 4096), ("write-4096.pcap", 4096), ("write-odd-1024.pcap", 1024)]
    {
        let frames = captures::packets(name);
        let replay = Replay::new(&frames, mtu);
        let mut responder = replay.responder.clone();
        let mut given = 0;
        for index in 0..replay.requests.len() {
            given = replay
                .deliver(&mut responder, index, given)
                .unwrap_or_else(|| panic!("{name}: request {index} was answered differently"));
        }
        assert!(given >= replay.answers.len(), "{name}: the kernel gave more answers");
        assert!(replay.answers.len() >= 5, "{name}: a capture without answers proves nothing");
    }
}

#[test]
fn with_loss_a_plausible_pattern_of_losses_explains_every_answer_of_the_kernel() {
    for name in ["send-loss-1024.pcap", "write-loss-1024.pcap"] {
        let frames = captures::packets(name);
        let replay = Replay::new(&frames, 1024);
        let losses = replay.fewest_losses().unwrap_or_else(|| panic!("{name}: nothing explains it"));
        let naks = replay.answers.iter().filter(|(_, ack)| ack.syndrome == 0x60).count();
        assert!(naks >= 5, "{name}");
        // 8 of 100 were lost; packets lost behind a gap leave no trace, so the least explanation has fewer.
        assert!(losses >= naks, "{name}: {losses} losses cannot cause {naks} NAKs");
        assert!(losses * 100 <= replay.requests.len() * 10, "{name}: {losses} losses");
    }
}

/// Changed answers must not be explainable by losses. (The PSN of a NAK is not varied: losing another packet there is
/// as good an explanation.)
#[test]
fn a_responder_that_differed_from_the_kernel_would_be_found_out() {
    let frames = captures::packets("send-loss-1024.pcap");
    let answers = Replay::new(&frames, 1024).answers;
    let explained = |answers| {
        let replay = Replay { answers, ..Replay::new(&frames, 1024) };
        let plausible = replay.requests.len() / 10;
        replay.fewest_losses().is_some_and(|losses| losses <= plausible)
    };
    for (index, &(captured_after, ack)) in answers.iter().enumerate() {
        let is_nak = ack.syndrome == 0x60;
        let mut wrong = vec![
            Ack { syndrome: ack.syndrome ^ 0x60, ..ack },
            Ack { syndrome: ack.syndrome ^ 0x01, ..ack },
            Ack { msn: ack.msn + 1, ..ack },
        ];
        if !is_nak {
            wrong.push(Ack { psn: (ack.psn + 1) & 0xff_ffff, ..ack });
            wrong.push(Ack { psn: (ack.psn - 1) & 0xff_ffff, ..ack });
        }
        for wrong in wrong {
            let mut answers = answers.clone();
            answers[index].1 = wrong;
            assert!(!explained(answers), "answer {index} may as well be {wrong:?}");
        }
        if is_nak {
            let mut answers = answers.clone();
            answers.insert(index, (captured_after, ack));
            assert!(!explained(answers), "two NAKs for the gap of answer {index}");
        }
    }
    assert!(explained(answers));
}

#[test]
fn the_kernels_packets_pass_every_check_of_a_connection() {
    for name in ["send-1024.pcap", "write-odd-1024.pcap"] {
        let frames = captures::packets(name);
        let (src, dst) = endpoints(&frames[0]);
        let local_qpn = packet(&frames[0]).headers.bth.dest_qp;
        let connection = Connection { local: dst, local_qpn, peer: src, peer_qpn: 1, start_psn: 0, mtu: 1024 };
        let mut ingress = Ingress::default();
        for frame in frames.iter().filter(|frame| endpoints(frame) == (src, dst)) {
            assert!(ingress.accept(&connection, src, &frame[Ipv6::LEN..]).is_some());
        }
        assert_eq!(ingress, Ingress::default());
    }
}
