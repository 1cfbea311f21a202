// SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

use canopy_packet::stamp::{LEN, ReflectorPacket, SenderPacket};
use canopy_units::{Monotonic, UnixTime};
use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Some day, in nanoseconds since 1970.
const DAY: u64 = 1_700_000_000 * S;
const SETTINGS: SessionSettings = SessionSettings { interval: Duration::from_nanos(S) };

/// A time of a test, in nanoseconds.
fn instant(ns: u64) -> Monotonic {
    Monotonic::from_nanos(ns)
}

/// The same for a span.
fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

fn neighbour() -> Ipv6Addr {
    "fe80::2:1".parse().unwrap()
}

fn port() -> PortIndex {
    PortIndex::new("port", 3).unwrap()
}

fn at(now_ns: u64) -> Timestamp {
    Timestamp::from_unix(UnixTime::from_nanos(DAY + now_ns))
}

fn session() -> Session {
    Session::new(SETTINGS, instant(0), None)
}

fn send(session: &mut Session, now_ns: u64) -> Option<SenderPacket> {
    session.handle_timeout(instant(now_ns), at(now_ns))
}

fn bytes(packet: SenderPacket) -> [u8; LEN] {
    let mut out = [0; LEN];
    packet.emit(&mut out).unwrap();
    out
}

/// The answer of a reflector whose clock is `ahead_ns` ahead.
fn reflect(packet: SenderPacket, received_ns: u64, sent_ns: u64, ahead_ns: u64) -> ReflectorPacket {
    let clock = |now_ns| at(now_ns + ahead_ns);
    let mut reflector = Reflector::new(neighbour());
    let answer = reflector.handle(neighbour(), &bytes(packet), 255, clock(received_ns), instant(received_ns)).unwrap();
    answer.packet(clock(sent_ns))
}

#[test]
fn timestamps_have_ntp_format() {
    // 1970 is 2208988800 s after 1900; half a second is half of 2^32.
    assert_eq!(Timestamp::from_unix(UnixTime::from_nanos(500_000_000)).0, 2_208_988_800 << 32 | 1 << 31);
    assert_eq!(at(40 * MS).since(at(0)), Some(span(40 * MS)));
    assert_eq!(at(0).since(at(1)), None, "time does not go back");
    // 2036-02-07T06:28:16Z: the seconds wrap.
    let wrap = (1 << 32) - 2_208_988_800;
    let (before, after) = (
        Timestamp::from_unix(UnixTime::from_nanos(wrap * S - 1)),
        Timestamp::from_unix(UnixTime::from_nanos(wrap * S + 7)),
    );
    assert!(after.0 < before.0);
    assert_eq!(after.since(before), Some(span(8)));
}

#[test]
fn a_round_trip_time_excludes_the_reflectors_delay_and_does_not_depend_on_its_clock() {
    for ahead_ns in [0, 3_600 * S] {
        let mut s = session();
        let packet = send(&mut s, 0).unwrap();
        // 15 ms there, 500 ms inside, 25 ms back.
        let answer = reflect(packet, 15 * MS, 515 * MS, ahead_ns);
        assert_eq!(s.handle_answer(&answer, at(540 * MS)), Some(span(40 * MS)), "{ahead_ns}");
        assert_eq!(s.take(port()), LinkRtt { port: port(), rtt: Some(span(40 * MS)), samples: 1, lost: 0 });
        assert_eq!(s.take(port()).rtt, None, "a sample is returned once");
    }
}

/// A clock of PTP format writes nanoseconds where NTP has fractions (RFC 8762 section 4.2.1).
#[test]
fn the_delay_of_a_reflector_with_ptp_timestamps_is_excluded_too() {
    let mut s = session();
    let packet = send(&mut s, 0).unwrap();
    let mut answer = reflect(packet, 15 * MS, 515 * MS, 0);
    answer.error_estimate.ptp = true;
    (answer.receive_timestamp, answer.timestamp) = (5 << 32 | 900_000_000, 6 << 32 | 400_000_000);
    assert_eq!(s.handle_answer(&answer, at(540 * MS)), Some(span(40 * MS)));
}

#[test]
fn only_the_answer_to_an_outstanding_packet_counts_and_only_once() {
    let mut s = session();
    let packet = send(&mut s, 0).unwrap();
    let good = reflect(packet, MS, MS, 0);
    let changed = |change: fn(&mut ReflectorPacket)| {
        let mut answer = good;
        change(&mut answer);
        answer
    };
    for (what, bad) in [
        ("another sequence number", changed(|a| a.sender.sequence = 1)),
        ("another timestamp: guessed, or of an earlier session", changed(|a| a.sender.timestamp ^= 1)),
        ("sent before it was received", changed(|a| a.receive_timestamp = a.timestamp + 1)),
        ("longer inside than on its way", changed(|a| a.receive_timestamp -= 1 << 32)),
    ] {
        assert_eq!(s.handle_answer(&bad, at(2 * MS)), None, "{what}");
    }
    assert_eq!(s.handle_answer(&good, Timestamp(at(0).0 - 1)), None, "before it was sent");
    assert_eq!(s.refused(), 5);
    assert_eq!(s.handle_answer(&good, at(2 * MS)), Some(span(2 * MS)));
    assert_eq!(s.handle_answer(&good, at(2 * MS)), None, "a duplicate");
    assert_eq!(s.take(port()).samples, 1);
}

#[test]
fn sequence_numbers_count_up_one_a_second_and_a_missing_answer_is_a_loss() {
    let mut s = session();
    let mut sent = Vec::new();
    let mut now = 0;
    while now <= 30 * S {
        if let Some(packet) = send(&mut s, now) {
            sent.push((now, packet.sequence));
            // Every second packet is answered after 9 s: late, but not lost.
            if packet.sequence % 2 == 0 {
                let mut copy = s.clone();
                assert!(copy.handle_answer(&reflect(packet, now, now, 0), at(now + 9 * S)).is_some());
                s = copy;
            }
        }
        now = s.poll_timeout().max(instant(now + 1)).nanos();
    }
    assert_eq!(sent, (0..=30).map(|n| (n * S, n as u32)).collect::<Vec<_>>());
    // 1, 3, ..., 19 have waited 10 s by 30 s (21 is sent at 21 s).
    let taken = s.take(port());
    assert_eq!((taken.samples, taken.lost), (16, 10));
    let later = Session::new(SETTINGS, instant(now), Some(&taken)).take(port());
    assert_eq!((later.samples, later.lost), (16, 10), "a new session of the port continues the counters");
}

#[test]
fn a_delayed_sender_sends_one_packet_not_many() {
    let mut s = session();
    assert!(send(&mut s, 0).is_some());
    assert!(send(&mut s, 100 * S).is_some());
    assert!(send(&mut s, 100 * S + 1).is_none());
    assert_eq!(s.poll_timeout(), instant(101 * S));
    // A packet that is late is followed by one at its own time; one that is due already is left out.
    for (now, due) in [(101_500, 102_000), (103_000, 104_000), (104_999, 105_000)] {
        assert!(send(&mut s, now * MS).is_some());
        assert_eq!(s.poll_timeout(), instant(due * MS));
    }
}

#[test]
fn links_to_nodes_are_measured_and_links_to_hosts_are_not() {
    let host = Peer::Host {
        name: "h".into(),
        prefix: "2001:db8::/64".parse().unwrap(),
        gateway: "2001:db8::1".parse().unwrap(),
        address: "2001:db8::2".parse().unwrap(),
    };
    let [one, two, mut three] = [1, 2, 3].map(crate::testing::port);
    three.peer = Peer::Node { name: "n3".into(), link_local: neighbour() };
    let ports = vec![one, canopy_model::node_spec::Port { peer: host, ..two }, three];
    let spec =
        NodeSpec { term: 1, generation: 1, base: crate::testing::base(ports).into(), groups: Default::default() };
    let found = stamp_links(&spec);
    let link = |n: u64, neighbour| StampLink {
        port: crate::testing::index(n),
        interface: format!("eth{n}"),
        own: crate::testing::any(),
        neighbour,
    };
    assert_eq!(found, [link(1, crate::testing::any()), link(3, neighbour())]);
}

#[test]
fn a_reflector_answers_its_neighbour_with_the_fields_of_the_test_packet() {
    let mut r = Reflector::new(neighbour());
    let mut s = session();
    let packet = send(&mut s, 0).unwrap();
    let answer = r.handle(neighbour(), &bytes(packet), 64, at(MS), instant(0)).unwrap().packet(at(2 * MS));
    assert_eq!((answer.sequence, answer.sender, answer.sender_ttl), (0, packet, 64));
    assert_eq!((answer.receive_timestamp, answer.timestamp), (at(MS).0, at(2 * MS).0));
    assert_eq!(answer.error_estimate, ERROR_ESTIMATE);
    let stranger: Ipv6Addr = "fe80::bad".parse().unwrap();
    assert_eq!(r.handle(stranger, &bytes(packet), 64, at(0), instant(0)), Err(Refused::Stranger(stranger)));
    let short = r.handle(neighbour(), &bytes(packet)[..LEN - 1], 64, at(0), instant(0));
    assert!(matches!(short, Err(Refused::Malformed(_))));
    let mut corrupt = bytes(packet);
    corrupt[13] = 0;
    assert!(matches!(r.handle(neighbour(), &corrupt, 64, at(0), instant(0)), Err(Refused::Malformed(_))));
    assert_eq!(r.counts(), (1, 3));
}

#[test]
fn a_flood_is_answered_200_times_a_second_and_other_sources_do_not_use_the_limit() {
    let mut r = Reflector::new(neighbour());
    let packet = bytes(send(&mut session(), 0).unwrap());
    let mut answered = 0;
    for n in 0..100_000 {
        let now_ns = n * 100_000;
        _ = r.handle("fe80::bad".parse().unwrap(), &packet, 64, at(0), instant(now_ns));
        answered += u32::from(r.handle(neighbour(), &packet, 64, at(0), instant(now_ns)).is_ok());
    }
    // 10 s: 50 at once, and 200 a second.
    assert!((2_040..=2_060).contains(&answered), "{answered}");
}

proptest! {
    /// Random answers change nothing: state stays bounded and no sample is taken.
    #[test]
    fn random_answers_leave_no_state(
        steps in prop::collection::vec((0_u64..60 * MS, any::<u32>(), any::<u64>(), any::<[u64; 2]>()), 1..300),
    ) {
        let mut s = Session::new(SessionSettings { interval: span(MS) }, instant(0), None);
        let mut now = 0;
        for (pause, sequence, timestamp, [receive_timestamp, sent]) in steps {
            now += pause;
            send(&mut s, now);
            let sender = SenderPacket { sequence: sequence % 400, timestamp, error_estimate: ERROR_ESTIMATE };
            let answer = ReflectorPacket {
                sequence, timestamp: sent, error_estimate: ERROR_ESTIMATE, receive_timestamp, sender, sender_ttl: 1,
            };
            prop_assert_eq!(s.handle_answer(&answer, at(now)), None);
            prop_assert!(s.waiting_len() <= 128);
        }
        prop_assert_eq!(s.take(port()).samples, 0);
    }

    #[test]
    fn nanoseconds_are_preserved(a in 0_u64..u64::MAX / 4, rtt in 0_u64..10 * S) {
        let found = Timestamp::from_unix(UnixTime::from_nanos(a + rtt)).since(Timestamp::from_unix(UnixTime::from_nanos(a))).unwrap();
        prop_assert!(found.abs_diff(span(rtt)) <= span(1));
    }
}
