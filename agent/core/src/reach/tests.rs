// SPDX-License-Identifier: Apache-2.0
//! What a host's answers show, that forged ones show nothing, and how many requests a node sends.

use canopy_model::ids::Qpn;
use canopy_model::reach::{HostVerdict, MAX_REQUESTS};
use proptest::prelude::*;

use super::*;
use crate::testing;

const LARGE: u16 = 4180;
const SECRET: EchoSecret = EchoSecret { identifier: 7, token: 9 };

fn at(ms: u64) -> Monotonic {
    Monotonic::START + Duration::from_millis(ms)
}

fn host(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 1)
}

fn target(n: u16) -> HostTarget {
    HostTarget { interface: format!("eth{n}"), own: host(0), host: host(n), large: LARGE }
}

fn branch(group: u64, n: u16) -> StalledBranch {
    (GroupId::new("group", group).unwrap(), host(n))
}

fn answer(request: EchoRequest) -> EchoAnswer {
    EchoAnswer { source: host(1), secret: SECRET, sequence: request.sequence, bytes: request.bytes.into() }
}

/// Runs a probe whose request `n` is answered at once if `answers(n, octets)`; returns what was found, when, and the sizes sent.
fn run(answers: impl Fn(usize, u16) -> bool) -> (HostReach, u64, Vec<u16>) {
    let mut probe = HostProbe::new(&target(1), SECRET, at(0));
    let mut sent = Vec::new();
    for ms in 0..10_000 {
        while let Some(request) = probe.next_request() {
            if answers(sent.len(), request.bytes) {
                probe.handle_answer(&answer(request));
            }
            sent.push(request.bytes);
        }
        if let Some(reach) = probe.found() {
            return (reach, ms, sent);
        }
        probe.handle_timeout(at(ms));
    }
    panic!("the probe does not end")
}

#[test]
fn a_host_that_answers_nothing_is_silent_after_two_waits() {
    let (reach, ms, sent) = run(|_, _| false);
    assert_eq!((reach.verdict(), sent), (HostVerdict::Silent, vec![SMALL, LARGE, SMALL]));
    assert!((1000..=1002).contains(&ms), "{ms} ms");
    assert_eq!((reach.small.requests, reach.large.requests), (2, 1));
}

#[test]
fn a_host_with_a_small_mtu_gets_the_large_request_twice() {
    let (reach, _, sent) = run(|_, bytes| bytes <= 1280);
    assert_eq!((reach.verdict(), sent), (HostVerdict::AnswersSmall, vec![SMALL, LARGE, LARGE]));
    // A large request that was lost by chance is answered the second time.
    let (reach, _, _) = run(|n, _| n != 1);
    assert_eq!((reach.verdict(), reach.large.replies), (HostVerdict::AnswersData, 1));
}

#[test]
fn a_host_that_answers_both_gets_no_third_request() {
    let (reach, ms, sent) = run(|_, _| true);
    assert_eq!((reach.verdict(), ms, sent), (HostVerdict::AnswersData, 0, vec![SMALL, LARGE]));
}

#[test]
fn a_host_that_answers_only_the_repetition_of_the_small_request_is_unclear() {
    let (reach, _, sent) = run(|n, _| n == 2);
    assert_eq!((reach.verdict(), sent), (HostVerdict::Unclear, vec![SMALL, LARGE, SMALL]));
}

/// The answer to the first small request takes longer than the wait: the host is not silent.
#[test]
fn a_late_answer_counts() {
    let mut probe = HostProbe::new(&target(1), SECRET, at(0));
    let small = probe.next_request().unwrap();
    while probe.next_request().is_some() {}
    probe.handle_timeout(at(500));
    assert_eq!(probe.next_request().map(|r| r.bytes), Some(SMALL));
    probe.handle_answer(&answer(small));
    probe.handle_timeout(at(999));
    assert_eq!(probe.found(), None);
    probe.handle_timeout(at(1000));
    assert_eq!(probe.found().map(|r| (r.small.replies, r.verdict())), Some((1, HostVerdict::Unclear)));
}

/// Each differs in one respect from the answer to a request that was sent.
#[test]
fn a_forged_answer_changes_nothing() {
    let mut probe = HostProbe::new(&target(1), SECRET, at(0));
    let early = EchoRequest { sequence: 0, bytes: SMALL };
    probe.handle_answer(&answer(early));
    let sent: Vec<EchoRequest> = std::iter::from_fn(|| probe.next_request()).collect();
    for request in sent {
        let good = answer(request);
        for forged in [
            EchoAnswer { source: host(2), ..good },
            EchoAnswer { secret: EchoSecret { identifier: 8, ..SECRET }, ..good },
            EchoAnswer { secret: EchoSecret { token: 8, ..SECRET }, ..good },
            EchoAnswer { sequence: 2, ..good },
            EchoAnswer { sequence: u16::MAX, ..good },
            EchoAnswer { bytes: good.bytes + 1, ..good },
            EchoAnswer { bytes: 1280, ..good },
        ] {
            probe.handle_answer(&forged);
        }
    }
    probe.handle_timeout(at(500));
    assert_eq!(probe.next_request().map(|r| r.bytes), Some(SMALL), "nothing was answered");
    probe.handle_timeout(at(1000));
    assert_eq!(probe.found().map(|r| r.verdict()), Some(HostVerdict::Silent));
}

#[test]
fn hosts_are_probed_one_after_another_and_once_for_all_groups_on_them() {
    let mut reach = Reach::default();
    for group in 1..=3 {
        assert_eq!(reach.stalled(branch(group, 1), target(1)), None);
    }
    reach.stalled(branch(1, 2), target(2));
    assert_eq!(reach.next_host(at(0)), Some(target(1)));
    assert_eq!((reach.next_host(at(99)), reach.poll_timeout()), (None, Some(at(100))));
    assert_eq!(reach.next_host(at(100)), Some(target(2)));
    assert_eq!((reach.next_host(at(500)), reach.poll_timeout()), (None, None));

    let (found, ..) = run(|_, _| true);
    reach.recovered(branch(2, 1));
    assert_eq!(reach.found(&target(1), Some(found)), [branch(1, 1), branch(3, 1)]);
    // Reported again, in a new session: what is known is repeated, and nothing is sent.
    assert_eq!(reach.stalled(branch(1, 1), target(1)), Some(found));
    assert_eq!(reach.poll_timeout(), None);
    // Another stall of the same receiver.
    reach.recovered(branch(1, 1));
    assert_eq!(reach.stalled(branch(1, 1), target(1)), None);
    assert_eq!(reach.next_host(at(1000)), Some(target(1)));
}

#[test]
fn a_stall_that_ends_before_its_turn_sends_nothing() {
    let mut reach = Reach::default();
    reach.stalled(branch(1, 1), target(1));
    reach.stalled(branch(1, 2), target(2));
    reach.stalled(branch(1, 3), target(3));
    reach.recovered(branch(1, 1));
    reach.retain(|stalled| stalled != branch(1, 2));
    assert_eq!(reach.next_host(at(0)), Some(target(3)));
    assert!(reach.hosts.len() == 1 && reach.stalls.len() == 1);
}

#[test]
fn a_probe_that_could_not_be_sent_is_made_when_the_stall_is_reported_again() {
    let mut reach = Reach::default();
    reach.stalled(branch(1, 1), target(1));
    assert_eq!(reach.next_host(at(0)), Some(target(1)));
    assert_eq!(reach.found(&target(1), None), []);
    assert_eq!((reach.stalled(branch(1, 1), target(1)), reach.next_host(at(100))), (None, Some(target(1))));
}

#[test]
fn what_waits_is_bounded() {
    let mut reach = Reach::default();
    for n in 0..1000 {
        reach.stalled(branch(1, n), target(n));
    }
    assert_eq!((reach.hosts.len(), reach.waiting.len(), reach.stalls.len()), (MAX_HOSTS, MAX_HOSTS, MAX_HOSTS));
    for group in 2..=20_000 {
        reach.stalled(branch(group, 1), target(1));
    }
    assert_eq!((reach.hosts.len(), reach.stalls.len()), (MAX_HOSTS, MAX_STALLS));
}

#[test]
fn only_receivers_behind_a_port_to_a_host_have_a_host() {
    let gateway: Ipv6Addr = "2001:db8:1::fe".parse().unwrap();
    let peer = Peer::Host { name: "r1".into(), prefix: "2001:db8:1::/64".parse().unwrap(), address: host(1), gateway };
    let ports = vec![testing::port(1), canopy_model::node_spec::Port { peer, ..testing::port(2) }];
    let mut program = testing::program(1, [1, 2]);
    let qpn = Qpn::new("qpn", 5).unwrap();
    program.branches[1].kind = BranchKind::Receiver { qpn, memory: None };
    let spec = |program: &canopy_model::node_spec::GroupProgram, largest_packet| NodeSpec {
        term: 1,
        generation: 1,
        base: testing::base(ports.clone()).into(),
        groups: [(program.group_id, canopy_model::node_spec::GroupProgram { largest_packet, ..program.clone() })]
            .into_iter()
            .collect(),
    };
    let [node, receiver] = [0, 1].map(|i: usize| (program.group_id, program.branches[i].address));
    let found = HostTarget::of(&spec(&program, 4180), receiver).unwrap();
    assert_eq!((found.interface.as_str(), found.own, found.host, found.large), ("eth2", gateway, receiver.1, 4180));
    assert_eq!(HostTarget::of(&spec(&program, 4180), node), None);
    for unknown in [0, 64, 65_536] {
        assert_eq!(HostTarget::of(&spec(&program, unknown), receiver), None, "{unknown} octets");
    }
    assert_eq!(HostTarget::of(&spec(&program, 4180), branch(2, 1)), None);
    program.branches[1].port = testing::index(1);
    assert_eq!(HostTarget::of(&spec(&program, 4180), receiver), None, "behind a port to a node");
}

proptest! {
    /// Whatever arrives and whenever, a probe ends in time with at most three requests, and counts no reply to what was not sent.
    #[test]
    fn a_probe_ends_with_at_most_three_requests(steps in prop::collection::vec((0_u64..700, 0_u16..5, 0_u8..4, any::<bool>()), 0..12)) {
        let mut probe = HostProbe::new(&target(1), SECRET, at(0));
        let (mut now, mut sent) = (0, Vec::new());
        let mut genuine = 0;
        for (ms, sequence, field, is_size_right) in steps {
            sent.extend(std::iter::from_fn(|| probe.next_request()));
            let of = sent.iter().find(|r| r.sequence == sequence);
            let bytes = usize::from(of.map_or(SMALL, |r| r.bytes)) + usize::from(!is_size_right);
            let mut reply = EchoAnswer { source: host(1), secret: SECRET, sequence, bytes };
            match field {
                1 => reply.source = host(2),
                2 => reply.secret.token += 1,
                3 => reply.secret.identifier += 1,
                _ => {}
            }
            genuine += usize::from(of.is_some() && field == 0 && is_size_right);
            probe.handle_answer(&reply);
            now += ms;
            probe.handle_timeout(at(now));
        }
        for _ in 0..3 {
            sent.extend(std::iter::from_fn(|| probe.next_request()));
            now += 500;
            probe.handle_timeout(at(now));
        }
        let reach = probe.found().unwrap();
        prop_assert!(sent.len() <= MAX_REQUESTS.into());
        prop_assert!(HostReach::new(reach.small, reach.large).is_ok(), "{reach:?}");
        let replies = usize::from(reach.small.replies + reach.large.replies);
        prop_assert!(replies <= genuine, "{reach:?}");
        prop_assert_eq!(replies == 0, genuine == 0);
    }

    /// However stalls come, go and are found, a node starts at most one probe every 100 ms, and forgets what has ended.
    #[test]
    fn probes_of_a_node_are_apart(steps in prop::collection::vec((0_u64..40, 0_u8..4, 1_u64..3, 0_u16..6), 0..200)) {
        let mut reach = Reach::default();
        let (mut now, mut last, mut running) = (0, None, Vec::new());
        let mut lasting = BTreeSet::new();
        let (found, ..) = run(|_, _| true);
        for (ms, act, group, n) in steps {
            now += ms;
            match act {
                0 | 1 => {
                    reach.stalled(branch(group, n), target(n));
                    lasting.insert(branch(group, n));
                }
                2 => {
                    reach.recovered(branch(group, n));
                    lasting.remove(&branch(group, n));
                }
                _ => {
                    if let Some(over) = running.pop() {
                        let explained = reach.found(&over, Some(found));
                        prop_assert!(explained.iter().all(|b| lasting.contains(b) && b.1 == over.host));
                    }
                }
            }
            if let Some(host) = reach.next_host(at(now)) {
                prop_assert!(last.is_none_or(|last| now - last >= 100));
                prop_assert!(!running.contains(&host), "one probe of a host at a time");
                last = Some(now);
                running.push(host);
            }
        }
        for over in running {
            reach.found(&over, Some(found));
        }
        while let Some(host) = reach.next_host(at(now + 100)) {
            reach.found(&host, Some(found));
            now += 100;
        }
        prop_assert!(reach.hosts.is_empty() && reach.waiting.is_empty());
        prop_assert_eq!(reach.stalls.keys().copied().collect::<BTreeSet<_>>(), lasting);
        prop_assert!(reach.stalls.values().all(Option::is_some));
    }
}
