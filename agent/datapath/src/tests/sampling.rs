// SPDX-License-Identifier: Apache-2.0
//! Samples read the states of groups that changed, and of no others.

use super::*;

/// Octets that the state of a group has, as the next sample reports them.
fn reported(bed: &mut Testbed, group: usize) -> u64 {
    bed.groups()[group].data_octets.get()
}

/// Changes the state behind the programs' back: counts octets, and with them packets.
fn tamper(bed: &Testbed, group: u32, octets: u64, packets: u64) {
    let states = bed.datapath.bpf.states();
    let mut state = states.get(&group).unwrap().unwrap();
    state.data_bytes += octets;
    state.data_packets += packets;
    states.put(&group, &state).unwrap();
}

#[test]
fn the_state_of_a_group_is_read_when_it_moved_and_once_more() {
    let mut bed = Testbed::new(&Shape::default());
    assert_eq!(bed.multiply(3), []);
    // All of them are new, and read once more.
    bed.groups();
    bed.groups();
    tamper(&bed, 2, 1, 0);
    assert_eq!(reported(&mut bed, 1), 0, "nothing moved");
    tamper(&bed, 2, 1, 1);
    assert_eq!([reported(&mut bed, 1), reported(&mut bed, 0)], [2, 0]);
    tamper(&bed, 2, 1, 0);
    assert_eq!(reported(&mut bed, 1), 2, "it was read once more above");
    // A packet that is counted, and whose octets follow after the sample.
    tamper(&bed, 2, 0, 1);
    assert_eq!(reported(&mut bed, 1), 3);
    tamper(&bed, 2, 1, 0);
    assert_eq!(reported(&mut bed, 1), 4);
    tamper(&bed, 2, 1, 0);
    assert_eq!(reported(&mut bed, 1), 4);
    // What is done to a group.
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.epoch += u32::from(g.group_id.get() == 2))), []);
    assert_eq!(reported(&mut bed, 1), 5);
    assert_eq!(bed.groups().iter().map(|g| g.epoch).collect::<Vec<_>>(), [1, 2, 1]);
}

/// Catches a sample that has the branches of a former program, whose epoch is the same: one that leaves brings no new epoch.
#[test]
fn a_branch_that_left_is_in_no_sample() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    let branches = |bed: &mut Testbed| bed.telemetry().branches.len();
    assert_eq!([branches(&mut bed), branches(&mut bed)], [2; 2]);
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| _ = g.branches.pop())), []);
    assert_eq!(branches(&mut bed), 1);
}

#[test]
fn a_group_that_is_gone_is_in_no_sample_and_one_with_its_number_has_nothing_of_it() {
    let mut bed = Testbed::new(&Shape::default());
    assert_eq!(bed.multiply(2), []);
    tamper(&bed, 2, 9, 1);
    assert_eq!(reported(&mut bed, 1), 9);
    assert_eq!(bed.multiply(1), []);
    assert_eq!(bed.groups().len(), 1);
    assert_eq!(bed.multiply(2), []);
    assert_eq!((reported(&mut bed, 1), bed.groups()[1].data_packets), (0, 0));
}

/// Catches a sample that has the branches of a group once it is known what the maps have, and none before.
#[test]
fn an_agent_that_has_just_started_reports_the_branches_of_groups_that_it_has_not_compared_yet() {
    let mut bed = Testbed::new(&Shape::default());
    send(&bed, 100..110, 1);
    let branches =
        |bed: &mut Testbed| bed.telemetry().branches.iter().map(|b| (b.address, b.packets)).collect::<Vec<_>>();
    let before = branches(&mut bed);
    assert_eq!(before.iter().map(|(_, packets)| *packets).collect::<Vec<_>>(), [10]);
    bed.reopen();
    assert_eq!(branches(&mut bed), before);
}

/// Catches a group that is taken to be at rest while something of it waits, or that is not while nothing does.
#[test]
fn a_group_is_at_rest_while_nothing_moves_and_nothing_waits() {
    let mut bed = Testbed::new(&Shape { receivers: 2, ..Shape::default() });
    bed.datapath.sampler.rest_at_once();
    let is_at_rest = |bed: &mut Testbed| [(); 3].map(|()| bed.at_rest() == [bed.group_id()]);
    // New, read once more and sent so, and at rest: no data has passed.
    assert_eq!(is_at_rest(&mut bed), [false, false, true]);
    send(&bed, 100..110, 2);
    assert_eq!(is_at_rest(&mut bed), [false; 3], "its data is not acknowledged");
    bed.run("d0", &answer(0, Syndrome::ack(31), 109, 1));
    assert_eq!(is_at_rest(&mut bed), [false; 3], "by one of two");
    let next = |bed: &mut Testbed| bed.telemetry().branches.iter().map(|b| b.next.is_some()).collect::<Vec<_>>();
    assert_eq!((next(&mut bed), bed.telemetry().acks_in), (vec![true, false], 1));
    bed.run("d0", &answer(1, Syndrome::ack(31), 109, 1));
    assert_eq!(is_at_rest(&mut bed), [false, false, true]);
    // A repeated one changes nothing but a counter.
    bed.run("d0", &answer(1, Syndrome::ack(31), 109, 1));
    assert_eq!(is_at_rest(&mut bed), [false, false, true]);
    assert_eq!(bed.reconcile(|s| s.groups.for_each_mut(|g| g.epoch += 1)), []);
    assert_eq!(is_at_rest(&mut bed), [false, false, true]);
    // What the controller has to act upon is in every sample until it has.
    bed.run("d0", &answer(0, Syndrome::nak(NakCode::RemoteAccess), 110, 1));
    assert_eq!(is_at_rest(&mut bed), [false; 3], "a fatal NAK");
    assert!(bed.telemetry().branches.iter().any(|b| b.fatal.is_some()));
}
