// SPDX-License-Identifier: Apache-2.0
//! Each rule of the requester on its own; `tests/simulation.rs` tests it against a responder.

use super::*;
use crate::transfer::Operation;
use crate::wire::{Headers, Packet};
use canopy_packet::aeth::{Aeth, Syndrome};
use canopy_packet::bth::Opcode;

const START: u32 = 0xff_fffa;
const TIMEOUT: Duration = Duration::from_millis(20);

struct Bench {
    requester: Requester,
    now: Instant,
}

/// 100 packets of 256 bytes in messages of 10 packets.
fn bench(window: u32, ack_every: u32, retries: u32) -> Bench {
    let transfer = Transfer::new(25_600, 2560, 256, Operation::Send, false).unwrap();
    let settings = Settings::new(window, ack_every, TIMEOUT, retries).unwrap();
    Bench { requester: Requester::new(transfer, settings, START), now: Instant::now() }
}

impl Bench {
    /// All packets that may be sent now: packet number and AckReq.
    fn send(&mut self) -> Vec<(u64, bool)> {
        let requests = std::iter::from_fn(|| self.requester.next_packet(self.now));
        requests.map(|r| (psn::distance(START, r.psn) as u64, r.ack_req)).collect()
    }

    fn numbers(&mut self) -> Vec<u64> {
        self.send().into_iter().map(|(number, _)| number).collect()
    }

    fn answer(&mut self, number: i64, syndrome: Syndrome) {
        let psn = psn::add(START, number as u64);
        let mut headers = Headers::new(Opcode::ACKNOWLEDGE, 1, psn);
        headers.aeth = Some(Aeth { syndrome, msn: 0 });
        self.requester.handle(&Packet { headers, payload: &[] }, self.now);
    }

    fn ack(&mut self, number: i64) {
        self.answer(number, Syndrome::ack(31));
    }

    fn nak(&mut self, number: i64) {
        self.answer(number, Syndrome::NAK_PSN_SEQUENCE);
    }

    fn cnp(&mut self) {
        let headers = Headers::new(Opcode::CNP, 1, 0);
        self.requester.handle(&Packet { headers, payload: &[0; 16] }, self.now);
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.requester.handle_timeout(self.now);
    }

    fn counters(&self) -> Counters {
        self.requester.counters().clone()
    }
}

#[test]
fn ack_req_is_set_every_n_packets_at_the_end_of_messages_and_of_the_window() {
    let mut bench = bench(15, 4, 0);
    let asking: Vec<u64> = bench.send().into_iter().filter_map(|(number, ask)| ask.then_some(number)).collect();
    assert_eq!(asking, [3, 7, 9, 13, 14]);
}

#[test]
fn a_nak_acknowledges_all_before_it_and_goes_back_to_it_asking() {
    let mut bench = bench(15, 15, 0);
    assert_eq!(bench.numbers(), (0..15).collect::<Vec<_>>());
    bench.nak(6);
    assert_eq!(bench.requester.bytes_acked(), 6 * 256);
    let again = bench.send();
    assert_eq!(again[0], (6, true));
    assert_eq!(again.last().unwrap().0, 20);
    assert_eq!(bench.counters().retransmitted, 9);
}

#[test]
fn an_ack_behind_a_retransmission_in_progress_skips_what_it_acknowledges() {
    let mut bench = bench(10, 10, 0);
    bench.send();
    bench.nak(2);
    let now = bench.now;
    assert_eq!(bench.requester.next_packet(now).unwrap().psn, psn::add(START, 2));
    bench.ack(7);
    assert_eq!(bench.numbers(), (8..18).collect::<Vec<_>>());
}

#[test]
fn the_retry_timer_doubles_up_to_eightfold_and_progress_resets_it() {
    let mut bench = bench(4, 4, 0);
    bench.send();
    for factor in [1, 2, 4, 8, 8, 8] {
        bench.wait(TIMEOUT * factor - Duration::from_nanos(1));
        assert_eq!(bench.numbers(), [] as [u64; 0], "factor {factor}");
        bench.wait(Duration::from_nanos(1));
        assert_eq!(bench.send()[0], (0, true), "factor {factor}");
    }
    assert_eq!(bench.counters().timeouts, 6);
    bench.ack(0);
    bench.wait(TIMEOUT);
    assert_eq!(bench.numbers()[0], 1);
}

#[test]
fn without_anything_in_flight_there_is_no_timer() {
    let mut bench = bench(4, 4, 0);
    assert_eq!(bench.requester.poll_timeout(), None);
    bench.send();
    assert_eq!(bench.requester.poll_timeout(), Some(bench.now + TIMEOUT));
    bench.ack(3);
    assert_eq!(bench.requester.poll_timeout(), None);
}

#[test]
fn retries_in_a_row_are_limited_and_progress_renews_them() {
    let mut bench = bench(4, 4, 2);
    bench.send();
    let lose = |bench: &mut Bench| {
        bench.wait(TIMEOUT * BACKOFF_MAX);
        bench.send();
    };
    lose(&mut bench);
    lose(&mut bench);
    bench.ack(0);
    bench.send();
    lose(&mut bench);
    lose(&mut bench);
    assert_eq!(bench.requester.failure(), None);
    lose(&mut bench);
    let psn = psn::add(START, 1);
    let expected = Failure::RetriesExceeded { psn, attempts: 2 };
    assert_eq!(bench.requester.failure(), Some(expected));
    assert_eq!(bench.numbers(), [] as [u64; 0]);
}

#[test]
fn an_rnr_nak_holds_everything_until_its_time_has_passed() {
    let mut bench = bench(8, 8, 0);
    bench.send();
    bench.answer(3, Syndrome::rnr_nak(12));
    assert_eq!(bench.requester.bytes_acked(), 3 * 256);
    bench.wait(Duration::from_micros(639));
    // The gap behind the packet that was not ready does not end its wait early.
    bench.nak(3);
    assert_eq!(bench.numbers(), [] as [u64; 0]);
    bench.wait(Duration::from_micros(1));
    assert_eq!(bench.numbers(), (3..11).collect::<Vec<_>>());
    assert_eq!(bench.counters().timeouts, 0);
    assert_eq!(bench.counters().rnr_received, 1);
}

#[test]
fn an_ack_of_the_refused_packet_ends_the_wait() {
    let mut bench = bench(8, 8, 0);
    bench.send();
    bench.answer(3, Syndrome::rnr_nak(0));
    bench.ack(3);
    assert_eq!(bench.numbers()[0], 8);
}

#[test]
fn a_fatal_nak_ends_the_transfer() {
    let mut bench = bench(8, 8, 0);
    bench.send();
    bench.answer(2, Syndrome::NAK_REMOTE_ACCESS);
    let (code, psn) = (NakCode::RemoteAccess, psn::add(START, 2));
    assert_eq!(bench.requester.failure(), Some(Failure::Refused { code, psn }));
    assert_eq!(bench.numbers(), [] as [u64; 0]);
}

#[test]
fn answers_about_anything_but_packets_in_flight_change_nothing_and_are_counted() {
    let mut bench = bench(8, 8, 0);
    bench.send();
    bench.ack(3);
    bench.send();
    let before = bench.requester.bytes_acked();
    bench.ack(3); // again
    bench.ack(2); // ghost
    bench.ack(-1); // ghost from before the start
    bench.ack(12); // never sent
    bench.nak(3); // ghosts
    bench.nak(0);
    bench.nak(12); // never sent
    bench.answer(12, Syndrome::NAK_INVALID_REQUEST); // never sent
    bench.answer(0, Syndrome::NAK_INVALID_REQUEST); // ghost
    bench.answer(5, Syndrome(0xff)); // reserved
    assert_eq!(bench.requester.bytes_acked(), before);
    assert_eq!(bench.requester.failure(), None);
    assert_eq!(bench.numbers(), [] as [u64; 0]);
    let counters = bench.counters();
    assert_eq!(counters.duplicate_acks, 1);
    assert_eq!(counters.ack_out_of_window, 3);
    assert_eq!(counters.false_acks, 3);
    assert_eq!(counters.ghost_naks, 3);
    assert_eq!(counters.unexpected, 1);
}

#[test]
fn before_the_first_packet_every_ack_of_data_is_false() {
    let mut bench = bench(8, 8, 0);
    bench.ack(0);
    assert_eq!((bench.counters().false_acks, bench.requester.bytes_acked()), (1, 0));
}

#[test]
fn going_back_does_not_make_acks_of_what_was_sent_false() {
    let mut bench = bench(8, 8, 0);
    bench.send();
    bench.nak(1);
    bench.ack(7);
    assert_eq!(bench.requester.bytes_acked(), 8 * 256);
    assert_eq!(bench.counters().false_acks, 0);
}

#[test]
fn a_requester_paced_from_outside_counts_cnps_and_keeps_the_window() {
    let mut bench = bench(32, 8, 0);
    bench.requester.settings = bench.requester.settings.clone().ignoring_cnps();
    bench.cnp();
    assert_eq!((bench.requester.window.packets(), bench.requester.counters().cnps_received), (32, 1));
}

#[test]
fn a_cnp_halves_the_window_and_what_is_in_flight_still_asks_for_acks() {
    let mut bench = bench(32, 8, 0);
    bench.send();
    bench.cnp();
    assert_eq!(bench.requester.window.packets(), 16);
    // Acknowledge only where AckReq is set; the transfer must end without a timeout.
    let mut asked = 31;
    while !bench.requester.is_complete() {
        bench.ack(asked);
        bench.cnp();
        if let Some(&(number, _)) = bench.send().iter().rev().find(|(_, ask)| *ask) {
            asked = number as i64;
        } else {
            assert!(bench.requester.is_complete(), "stalled behind {asked}");
        }
    }
    assert!(bench.requester.window.packets() >= 8);
}

#[test]
fn the_last_ack_completes_and_nothing_follows() {
    let mut bench = bench(128, 16, 0);
    assert_eq!(bench.send().len(), 100);
    bench.ack(98);
    assert!(!bench.requester.is_complete());
    bench.ack(99);
    assert!(bench.requester.is_complete());
    assert_eq!(bench.requester.bytes_acked(), 25_600);
    assert_eq!(bench.requester.poll_timeout(), None);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let new = |window, ack_every, timeout| Settings::new(window, ack_every, timeout, 0).unwrap_err();
    assert_eq!(new(0, 1, TIMEOUT), SettingsError::Window(0));
    assert_eq!(new(WINDOW_MAX + 1, 1, TIMEOUT), SettingsError::Window(WINDOW_MAX + 1));
    assert_eq!(new(1, 0, TIMEOUT), SettingsError::AckEvery);
    assert_eq!(new(1, 1, Duration::ZERO), SettingsError::Timeout);
}
