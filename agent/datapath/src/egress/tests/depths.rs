// SPDX-License-Identifier: Apache-2.0
//! Both methods to read a queue's depth give the same value.

use super::*;
use crate::egress::queues::{Queue, Queues};

#[test]
fn netlink_and_the_program_see_the_same_depth_and_other_ports_have_none() {
    let bed = Bed::new();
    bed.queue("1kbit");
    bed.fill(50);
    let queues = Queues::open().unwrap();
    // The queue drains one octet in 8 ms: if two netlink readings are equal, the program's reading between them must be too.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let (by_netlink, by_program) = loop {
        let before = queues.read().unwrap();
        bed.run(&packet(1, ECT0, 1, b"abcd"));
        let state = bed.stats();
        if before == queues.read().unwrap() {
            break (before, state.depth);
        }
        assert!(std::time::Instant::now() < deadline, "the depth was never stable");
    };
    assert!(by_program > 40_000, "{by_program}");
    assert_eq!(by_netlink.get(&bed.port).map(|queue| queue.depth), Some(by_program));
    let idle = bed.bed.ifindex("u0");
    assert_eq!(by_netlink.get(&idle).copied().unwrap_or_default(), Queue::default());
}

/// Interface indexes below and above the end of the array of counters.
#[test]
fn a_port_is_counted_whatever_its_index_and_forgotten_when_it_leaves_the_topology() {
    let bed = Bed::new();
    let added =
        Command::new("ip").args("link add name far0 index 70000 type veth peer name far1".split(' ')).status().unwrap();
    assert!(added.success());
    let far = bed.bed.ifindex("far0");
    assert_eq!(far, 70_000);
    // As after a restart of the agent, which finds the counters of its predecessor.
    let restarted = || Egress::new(std::sync::Arc::clone(&bed.bed.datapath.bpf));
    let packets = || [bed.port, far].map(|port| bed.egress().stats(port).unwrap().packets);
    let before = packets();
    for port in [bed.port, far, far] {
        bed.egress().run(port, &frame(&packet(1, 0, 100, b"x")));
    }
    assert_eq!(packets(), [before[0] + 1, before[1] + 2]);
    restarted().keep_ports(&[bed.port].into()).unwrap();
    assert_eq!(packets(), [before[0] + 1, 0]);
    restarted().keep_ports(&[far].into()).unwrap();
    assert_eq!(packets(), [0, 0]);
    // Another time, by the same agent.
    bed.egress().run(bed.port, &frame(&packet(1, 0, 101, b"x")));
    let egress = restarted();
    egress.keep_ports(&[bed.port, far].into()).unwrap();
    egress.keep_ports(&[far].into()).unwrap();
    assert_eq!(packets(), [0, 0]);
}
