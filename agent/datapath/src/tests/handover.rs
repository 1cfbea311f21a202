// SPDX-License-Identifier: Apache-2.0
//! From programs and maps of another layout to these and back: a group that moves in the middle of its packets ends in the state of
//! one that stayed.

use std::sync::Arc;
use std::time::Duration;

use canopy_bpf::node::types;
use canopy_packet::aeth::{NakCode, Syndrome};
use canopy_packet::bth::Opcode;
use proptest::prelude::*;

use crate::egress::Egress;
use crate::testbed::*;

const RECEIVERS: u32 = 3;

/// What the source or a receiver sends.
#[derive(Clone, Copy, Debug)]
enum Step {
    Data,
    /// Receiver, and how many packets it is behind the last one.
    Ack(u32, u32),
    Nak(u32, u32),
}

fn bed() -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: RECEIVERS, ..Shape::default() });
    // Identical feedback is never merged by time.
    let errors = bed.reconcile(|s| {
        s.groups.for_each_mut(|g| {
            (g.params.nak_merge, g.params.reack_interval) = (Duration::ZERO, Duration::from_secs(3_600));
        });
    });
    assert_eq!(errors, []);
    bed
}

fn packet(step: Step, sent: &mut u32) -> (&'static str, Vec<u8>) {
    match step {
        Step::Data => {
            *sent += 1;
            ("u0", encapsulated(&data(Opcode::SEND_ONLY, 99 + *sent, &[7; 64]), end_mt(), list(0..RECEIVERS), 0))
        }
        Step::Ack(of, behind) => ("d0", answer(of, Syndrome::ack(31), (99 + *sent).saturating_sub(behind), 1)),
        Step::Nak(of, behind) => {
            let psn = (99 + *sent).saturating_sub(behind);
            ("d0", answer(of, Syndrome::nak(NakCode::PsnSequence), psn, 1))
        }
    }
}

/// What must not depend on a handover: the next PSN of every branch and its NAK, what was forwarded, who counts.
fn essence(s: &types::canopy_state) -> impl PartialEq + std::fmt::Debug + use<> {
    let leaves: Vec<_> = s.tree[1..].iter().enumerate().filter(|(_, m)| m.key != u64::MAX).collect();
    let leaves: Vec<_> = leaves.into_iter().map(|(i, m)| (i, m.key >> 6, m.key & 63, m.msn)).collect();
    let set = |s: &types::canopy_slots| s.word;
    let some = |s: &[u32; 128]| s[..RECEIVERS as usize].to_vec();
    (
        (leaves, s.high, s.position, s.data_packets, s.data_bytes, s.fresh_packets),
        (set(&s.active), set(&s.pending), set(&s.unconfirmed), set(&s.late), set(&s.receivers)),
        (s.acks_in, s.naks_in, some(&s.shift), some(&s.msn_base), some(&s.since), s.carrying),
    )
}

/// What happens to an agent in the middle of a handover.
#[derive(Clone, Copy, Debug)]
enum Accident {
    None,
    /// It dies before its programs work, and starts again.
    EndsBefore,
    /// It dies after that.
    EndsAfter,
    /// It dies after that, and one with the other layout is started instead.
    Reverted,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Data),
        (0..RECEIVERS, 0u32..4).prop_map(|(of, behind)| Step::Ack(of, behind)),
        (0..RECEIVERS, 0u32..4).prop_map(|(of, behind)| Step::Nak(of, behind)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Steps before another layout takes over, while it works, after these programs copied its state, while they work on what they
    /// have of it, and after the rest was merged.
    #[test]
    fn a_group_that_moves_ends_as_one_that_stays(
        steps in proptest::collection::vec(step(), 40),
        cuts in [0usize..11, 0..10, 0..10, 0..10],
        accident in prop_oneof![Just(Accident::None), Just(Accident::EndsBefore), Just(Accident::EndsAfter), Just(Accident::Reverted)],
    ) {
        let steps: Vec<_> = std::iter::repeat_n(Step::Data, 3).chain(steps).collect();
        let stays = bed();
        let mut moves = bed();
        let (mut sent, mut after) = (0, Vec::new());
        for step in &steps {
            let (port, packet) = packet(*step, &mut sent);
            stays.run(port, &packet);
            after.push((port, packet));
        }
        let mut cut = cuts.iter().scan(0, |at, n| { *at += n; Some(*at) });
        let [a, b, c, d] = [(); 4].map(|()| cut.next().unwrap());
        after[..a].iter().for_each(|(port, packet)| _ = moves.run(port, packet));
        let own = moves.layouts();
        let other = moves.through_another_layout();
        prop_assert_ne!(&own, &moves.layouts());
        after[a..b].iter().for_each(|(port, packet)| _ = moves.run_pinned(&other, port, packet));
        moves.reopen();
        after[b..c].iter().for_each(|(port, packet)| _ = moves.run_pinned(&other, port, packet));
        if let Accident::EndsBefore = accident {
            moves.reopen();
        }
        moves.begin_handover();
        after[c..d].iter().for_each(|(port, packet)| _ = moves.run_pinned(&other, port, packet));
        prop_assert_eq!(moves.state().carrying, 1);
        match accident {
            Accident::EndsAfter => moves.reopen(),
            Accident::Reverted => {
                moves.through_another_layout();
                moves.reopen();
            }
            _ => {}
        }
        prop_assert_eq!(moves.reconcile(|_| {}), []);
        prop_assert_eq!(moves.layouts(), own);
        after[d..].iter().for_each(|(port, packet)| _ = moves.run(port, packet));
        prop_assert_eq!(essence(&moves.state()), essence(&stays.state()));
        let counted = |bed: &Testbed| bed.branch_counters();
        prop_assert_eq!(counted(&moves), counted(&stays));
        // Which branch is the last one is not known while the group is carried.
        let completed = |bed: &Testbed| bed.state().stats[..RECEIVERS as usize].iter().map(|b| b.completed_min).collect::<Vec<_>>();
        let counts = completed(&moves).into_iter().zip(completed(&stays));
        prop_assert!(counts.clone().all(|(moves, stays)| moves <= stays), "{:?}", counts.collect::<Vec<_>>());
    }
}

/// While a group is carried, feedback beyond its highest PSN is accepted, because the old programs may have forwarded more. That must
/// not acknowledge what no programs forwarded, whichever branch it came from: here of one that joined again during the handover.
#[test]
fn no_branch_ends_with_more_than_was_forwarded() {
    let mut bed = bed();
    let mut sent = 0;
    for step in [Step::Data, Step::Data, Step::Ack(0, 0), Step::Ack(1, 0), Step::Ack(2, 0)] {
        let (port, packet) = packet(step, &mut sent);
        bed.run(port, &packet);
    }
    let other = bed.through_another_layout();
    bed.reopen();
    bed.begin_handover();
    let id = *bed.spec.groups.keys().next().unwrap();
    let mut state = bed.state();
    state.since[1] = 2;
    bed.datapath.bpf.states().put(&id.get(), &state).unwrap();
    bed.run_pinned(&other, "d0", &answer(1, Syndrome::ack(31), 99 + sent + 5, 1));
    let ahead = |s: &types::canopy_state| s.tree[128..131].iter().any(|m| m.key >> 6 > s.high);
    assert!(ahead(&bed.state()), "accepted for now");
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.branches[1].since = 2)), []);
    assert!(!ahead(&bed.state()), "{:?}", essence(&bed.state()));
}

/// Programs without the maps of the node's own addresses and of neighbours were there before, as they are in other versions.
#[test]
fn maps_that_only_these_programs_have_are_filled_before_their_filters_are_attached() {
    let mut bed = bed();
    let own = std::process::Command::new("ip").args(["-6", "addr", "add", "2001:db8:77::9/64", "dev", "lo"]).status();
    assert!(own.unwrap().success());
    bed.peers_answer();
    let other = bed.through_another_layout();
    assert!(!other.join("own_addresses").exists() && !other.join("neighbours").exists());
    bed.reopen();
    assert_eq!(bed.datapath.bpf.own_addresses().keys().len(), 0);
    assert_eq!(bed.reconcile(|_| {}), []);
    let own: Vec<_> = bed.datapath.bpf.own_addresses().keys().into_iter().map(std::net::Ipv6Addr::from).collect();
    assert!(own.contains(&"2001:db8:77::9".parse().unwrap()), "{own:?}");
    let back = bed.through_another_layout();
    assert!(back.join("own_elsewhere").exists() && !back.join("own_addresses").exists());
}

#[test]
fn the_counters_of_a_port_continue() {
    let mut bed = bed();
    let port = bed.ifindex("d0");
    let counted = |bed: &Testbed| {
        let stats = Egress::new(Arc::clone(&bed.datapath.bpf)).stats(port).unwrap();
        (stats.packets, stats.bytes)
    };
    let before = counted(&bed);
    let frame = [&[2; 12][..], &[0x86, 0xdd], &data(Opcode::SEND_ONLY, 100, b"x")].concat();
    bed.datapath.bpf.send(port, &frame, 0).unwrap();
    let after = counted(&bed);
    assert_eq!(after.0, before.0 + 1);
    bed.through_another_layout();
    bed.reopen();
    assert_eq!(bed.reconcile(|_| {}), []);
    assert_eq!(counted(&bed), after);
}
