// SPDX-License-Identifier: Apache-2.0
//! Second level: rate-limited events of packets that meet a queue above K_max. The program is loaded a second time with separate
//! maps, so that the agent's watcher does not read these events.

use std::cell::RefCell;

use libbpf_rs::{MapHandle, RingBufferBuilder};

use super::*;
use crate::egress::EgressBpf;
use crate::plain::read;

struct Congested {
    bed: Bed,
    program: EgressBpf,
}

impl Congested {
    /// A queue of some 50 kB that drains very slowly, and a K_max below it.
    fn new(rtt_ns: u64, at_once: u64) -> Self {
        let bed = Bed::new();
        bed.queue("1kbit");
        bed.fill(50);
        let own = bed.bed.pin("own");
        std::fs::create_dir(&own).unwrap();
        let congested = Self { program: EgressBpf::load(&own).unwrap(), bed };
        congested.limits(2_000, rtt_ns, at_once);
        congested
    }

    fn limits(&self, k_max: u64, rtt_ns: u64, at_once: u64) {
        let limits =
            types::canopy_limits { k_min: 1_000, k_max, rtt_ns, event_ns: HOUR_NS, event_burst_ns: at_once * HOUR_NS };
        self.program.set_limits(&BTreeMap::from([(self.bed.port, limits)])).unwrap();
    }

    fn run(&self, packet: &[u8]) {
        self.program.run(self.bed.port, &frame(packet));
    }

    fn stats(&self) -> types::canopy_port_stats {
        self.program.stats(self.bed.port).unwrap()
    }

    /// Reads the events from the ring buffer.
    fn events(&self) -> Vec<types::canopy_second_level> {
        let map = MapHandle::from_pinned_path(self.program.events_path()).unwrap();
        let all = RefCell::new(Vec::new());
        let mut builder = RingBufferBuilder::new();
        let keep = |data: &[u8]| {
            all.borrow_mut().push(read(data).unwrap());
            0
        };
        builder.add(&map, keep).unwrap();
        let ring = builder.build().unwrap();
        ring.consume().unwrap();
        drop(ring);
        all.into_inner()
    }
}

#[test]
fn one_flow_causes_one_event_per_rtt() {
    let bed = Congested::new(HOUR_NS, 1000);
    let p = packet(1, ECT0, 1, b"abcd");
    (0..50).for_each(|_| bed.run(&p));
    let events = bed.events();
    assert_eq!(events.len(), 1);
    assert_eq!((keys::flow(&events[0].flow), events[0].flow.ifindex), (Some(flow(1)), bed.bed.port));
    assert!(events[0].depth > 2_000 && events[0].time_ns > 0, "{}", events[0].depth);
    let stats = bed.stats();
    assert_eq!((stats.events, stats.flow_limited, stats.port_limited, stats.lost), (1, 49, 0, 0));
    // With an RTT of 1 ns every packet causes an event.
    bed.limits(2_000, 1, 1000);
    (0..5).for_each(|_| bed.run(&p));
    assert_eq!(bed.events().len(), 5);
}

#[test]
fn the_event_rate_of_a_port_is_limited_for_any_number_of_flows() {
    let bed = Congested::new(HOUR_NS, 10);
    (0..100).for_each(|n| bed.run(&packet(n, ECT0, 1, b"abcd")));
    let events: Vec<_> = bed.events().iter().map(|e| keys::flow(&e.flow).unwrap()).collect();
    assert_eq!(events, (0..10).map(flow).collect::<Vec<_>>());
    let stats = bed.stats();
    assert_eq!((stats.events, stats.flow_limited, stats.port_limited), (10, 0, 90));
    // Events suppressed by the port's limit did not count against the limits of the flows.
    bed.limits(2_000, HOUR_NS, 12);
    (0..100).for_each(|n| bed.run(&packet(n, ECT0, 2, b"abcd")));
    let events: Vec<_> = bed.events().iter().map(|e| keys::flow(&e.flow).unwrap()).collect();
    assert_eq!(events, [flow(10), flow(11)]);
}

#[test]
fn up_to_k_max_an_event_names_no_flow_and_packets_without_ecn_cause_events_too() {
    let bed = Congested::new(HOUR_NS, 1000);
    bed.run(&packet(1, 0, 1, b"abcd"));
    let depth = bed.events()[0].depth;
    bed.limits(depth, HOUR_NS, 1000);
    (0..5).for_each(|_| bed.run(&packet(2, ECT0, 1, b"abcd")));
    let events = bed.events();
    let [wake] = &events[..] else { panic!("expected one first-level event per RTT, got {}", events.len()) };
    assert_eq!((wake.depth, wake.flow.ifindex, wake.flow.qpn, wake.flow.src.hi), (depth, bed.bed.port, 0, 0));
    assert_eq!((bed.stats().events, bed.stats().marked), (1, 5));
}
