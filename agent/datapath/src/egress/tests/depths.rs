// SPDX-License-Identifier: Apache-2.0
//! Both methods to read a queue's depth give the same value.

use super::*;
use crate::egress::queues::Queues;

#[test]
fn netlink_and_the_program_see_the_same_depth_and_other_ports_have_none() {
    let bed = Bed::new();
    bed.queue("1kbit");
    bed.fill(50);
    let queues = Queues::open().unwrap();
    // The queue drains one octet in 8 ms: if two netlink readings are equal, the program's reading between them must be too.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let (by_netlink, by_program) = loop {
        let before = queues.depths().unwrap();
        bed.run(&packet(1, ECT0, 1, b"abcd"));
        let state = bed.stats();
        if before == queues.depths().unwrap() {
            break (before, state.depth);
        }
        assert!(std::time::Instant::now() < deadline, "the depth was never stable");
    };
    assert!(by_program > 40_000, "{by_program}");
    assert_eq!(by_netlink.get(&bed.port), Some(&by_program));
    let idle = bed.bed.ifindex("u0");
    assert_eq!(by_netlink.get(&idle).copied().unwrap_or(0), 0);
}
