// SPDX-License-Identifier: Apache-2.0
//! Which packets the node sends, and when it sends none.

use super::*;

/// A node with one port, sampled every millisecond.
pub(super) struct Lab {
    pub(super) node: Node,
    pub(super) now: u64,
    /// Packets marked CE so far.
    ce: u64,
}

impl Lab {
    pub(super) fn new(settings: Settings) -> Self {
        let mut node = Node::new(settings);
        node.handle(Input::Port(port(), limits()), instant(0)).unwrap();
        Self { node, now: 0, ce: 0 }
    }

    /// Flow 1 is provisioned.
    pub(super) fn with_flow() -> Self {
        let mut lab = Self::new(Settings::default());
        lab.provision(1, false);
        lab
    }

    fn provision(&mut self, n: u32, accepts_roce: bool) {
        let input = Input::Flow { flow: flow(n), origin: Origin::Provisioned, accepts_roce };
        self.node.handle(input, instant(self.now)).unwrap();
    }

    /// Runs one millisecond in which these flows sent so many octets and the queue reached this depth.
    pub(super) fn step(&mut self, queue_bytes: u64, flows: &[(u32, u64)]) -> Vec<Command> {
        self.step_marked(queue_bytes, 0, flows)
    }

    /// The same; of the thousand packets that the port sent, so many were marked CE.
    fn step_marked(&mut self, queue_bytes: u64, ce: u64, flows: &[(u32, u64)]) -> Vec<Command> {
        self.now += MS;
        self.ce += ce;
        for (n, bytes) in flows {
            self.node.handle(Input::Arrived(port(), key(*n), Octets(*bytes)), instant(self.now)).unwrap();
        }
        let counters = Counters { queue: Octets(queue_bytes), packets: self.now / MS * 1_000, ce_packets: self.ce };
        self.node.handle(Input::Sample(port(), counters), instant(self.now)).unwrap();
        std::iter::from_fn(|| self.node.next_command()).collect()
    }

    pub(super) fn steps(&mut self, count: u64, queue_bytes: u64, flows: &[(u32, u64)]) -> Vec<(u64, Command)> {
        (0..count)
            .flat_map(|_| self.step(queue_bytes, flows).into_iter().map(|c| (self.now / MS, c)).collect::<Vec<_>>())
            .collect()
    }
}

fn actions(commands: &[(u64, Command)]) -> Vec<(u64, Action)> {
    commands.iter().map(|(at, command)| (*at, command.action)).collect()
}

/// Section 7: nothing at 70 MB, 30 % at 130 MB, and a Resume of 50 % after one RTT at 30 MB.
#[test]
fn the_drafts_example_from_end_to_end() {
    let mut lab = Lab::with_flow();
    lab.steps(5, 70 * MB, &[(1, 9_000)]);
    assert!(lab.node.assessment(port()).unwrap().first);
    // A jump of 60 MB in a millisecond is reported as growth; below, the queue grows step by step.
    let commands = lab.step(130 * MB, &[(1, 9_000)]);
    let expected = Command {
        port: port(),
        flow: flow(1),
        level: 255,
        action: Action::RateReduce(percent(80)),
        metric: Metric::QueueDepth(130_000),
        format: Format::Icmpv6,
    };
    assert_eq!(commands, [expected], "60 MB in a millisecond: the growth makes the level");
    let mut lab = Lab::with_flow();
    let mut commands = Vec::new();
    for queue in (70..=130).step_by(5) {
        commands.extend(lab.steps(1, queue * MB, &[(1, 9_000)]));
    }
    let slow = Command { level: 180, action: Action::RateReduce(percent(30)), ..expected };
    assert_eq!(commands, [(13, slow)]);
    let commands = lab.steps(30, 30 * MB, &[(1, 6_300)]);
    let resume = Command { level: 20, action: Action::Resume(percent(50)), metric: Metric::QueueDepth(30_000), ..slow };
    assert_eq!(commands, [(24, resume)], "10 ms after the first sample below K_min, and once");
}

#[test]
fn one_packet_per_flow_and_rtt_and_a_lower_level_at_rest() {
    let mut lab = Lab::with_flow();
    lab.steps(2, 126 * MB, &[(1, 9_000)]);
    let commands = lab.steps(40, 126 * MB, &[(1, 9_000)]);
    let times: Vec<_> = commands.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [12, 22, 32, 42]);
    assert!(lab.node.counts().rate_limited_flow >= 36);
}

/// Growth and marks show a congestion before the queue is above K_min.
#[test]
fn a_growth_rate_alone_and_a_marking_rate_alone_are_notified() {
    let sent = |commands: Vec<Command>| commands.into_iter().map(|c| (c.action, c.metric)).collect::<Vec<_>>();
    let mut lab = Lab::with_flow();
    assert_eq!(lab.step(MB, &[(1, 9_000)]), []);
    assert_eq!(sent(lab.step(MB + 6_250_000, &[(1, 9_000)])), [], "as fast as V_growth is not above it");
    let grown = lab.step(MB + 6_250_000 + 7 * MB, &[(1, 9_000)]);
    assert_eq!(sent(grown), [(Action::Notify, Metric::QueueGrowthRate(7_000))]);
    let mut lab = Lab::with_flow();
    assert_eq!(lab.step_marked(MB, 900, &[(1, 9_000)]), []);
    assert_eq!(sent(lab.step_marked(MB, 500, &[(1, 9_000)])), [], "V_ecn is not above it");
    assert_eq!(sent(lab.step_marked(MB, 510, &[(1, 9_000)])), [(Action::Notify, Metric::EcnMarkingRate(percent(51)))]);
}

/// The queue is short, but most of what leaves is marked: the congestion has not ended.
#[test]
fn there_is_no_resume_while_another_trigger_stands() {
    let mut lab = Lab::with_flow();
    assert_eq!(actions(&lab.steps(3, 130 * MB, &[(1, 9_000)])).len(), 1);
    for _ in 0..30 {
        assert_eq!(lab.step_marked(30 * MB, 600, &[]), []);
    }
    // The first sample without marks is that of 34 ms.
    assert_eq!(actions(&lab.steps(30, 30 * MB, &[])), [(44, Action::Resume(percent(50)))]);
}

/// The queue hovers around K_min: no Resume before a whole RTT below it.
#[test]
fn a_resume_needs_an_unbroken_rtt_below_k_min() {
    let mut lab = Lab::with_flow();
    lab.steps(3, 130 * MB, &[(1, 9_000)]);
    for _ in 0..5 {
        assert_eq!(actions(&lab.steps(9, 62 * MB, &[(1, 9_000)])), []);
        assert_eq!(actions(&lab.steps(1, 62_500_000, &[(1, 9_000)])), [], "at K_min is not below");
    }
    assert_eq!(actions(&lab.steps(30, 62 * MB, &[(1, 9_000)])), [(64, Action::Resume(percent(50)))]);
}

#[test]
fn the_heaviest_flows_are_notified_and_the_small_ones_are_not() {
    let mut lab = Lab::new(Settings::default());
    (1..=20).for_each(|n| lab.provision(n, false));
    let mice: Vec<_> = (3..=20).map(|n| (n, 100)).collect();
    let flows = [&[(1, 5_000), (2, 4_000)][..], &mice].concat();
    lab.steps(1, 126 * MB, &flows);
    let commands = lab.step(126 * MB, &flows);
    // 5000 of 10800 are less than half, 9000 are more.
    assert_eq!(commands.iter().map(|c| c.flow.key).collect::<Vec<_>>(), [key(1), key(2)]);
}

#[test]
fn a_port_has_a_limit_for_all_flows_together() {
    let settings = Settings { port_per_second: 100, port_burst: 3, ..Settings::default() };
    let mut lab = Lab::new(settings);
    (1..=30).for_each(|n| lab.provision(n, false));
    let flows: Vec<_> = (1..=30).map(|n| (n, 1_000)).collect();
    let commands = lab.steps(1_001, 126 * MB, &flows);
    // A burst of 3, then one each 10 ms.
    assert!((100..=103).contains(&commands.len()), "{}", commands.len());
    assert!(commands.iter().filter(|(at, _)| *at == 2).count() == 3);
    assert!(lab.node.counts().rate_limited_port > 0);
    assert_eq!(lab.node.counts().cnps.sent(), commands.len() as u64);
}

/// The source follows a node upstream: the rate fell by half. The node defers for an RTT; then it sends a plain instruction if
/// the queue is unchanged, an escalation if it is longer, and nothing if it is short.
#[test]
fn a_flow_whose_rate_fell_gets_no_packet_for_an_rtt_and_then_what_the_metrics_require() {
    let same = (126 * MB, Some((177, Action::RateReduce(percent(28)))));
    let worse = (140 * MB, Some((186, Action::Pause { micros: 10_000 })));
    for (later, expected) in [same, worse, (100 * MB, None)] {
        let mut lab = Lab::with_flow();
        let depth_only = Limits { v_growth_per_ms: Octets::MAX, ..limits() };
        lab.node.handle(Input::Port(port(), depth_only), instant(0)).unwrap();
        assert_eq!(lab.steps(15, 60 * MB, &[(1, 10_000)]), []);
        assert_eq!(lab.steps(6, 60 * MB, &[(1, 5_000)]), []);
        assert_eq!(lab.steps(1, 126 * MB, &[(1, 5_000)]), [], "the rate fell");
        assert_eq!(lab.node.counts().suppressed, 1);
        let commands = lab.steps(10, later, &[(1, 5_000)]);
        // The fall is detected after 21 ms, so the node defers until 31 ms.
        let found: Vec<_> = commands.iter().map(|(at, command)| (*at, command.level, command.action)).collect();
        assert_eq!(found, Vec::from_iter(expected.map(|(level, action)| (31, level, action))));
    }
}

#[test]
fn an_unknown_source_qp_is_counted_and_notified_as_soon_as_it_is_known() {
    let mut lab = Lab::new(Settings::default());
    assert_eq!(lab.steps(5, 126 * MB, &[(1, 9_000)]), []);
    assert_eq!(lab.node.counts().unknown_source_qp, 4);
    let learned = Input::Flow { flow: flow(1), origin: Origin::Learned, accepts_roce: true };
    lab.node.handle(learned, instant(lab.now)).unwrap();
    let commands = lab.step(126 * MB, &[(1, 9_000)]);
    assert_eq!(commands.iter().map(|c| (c.flow, c.format)).collect::<Vec<_>>(), [(flow(1), Format::Icmpv6)]);
}

#[test]
fn the_rocev2_format_goes_only_to_endpoints_registered_for_it() {
    let mut lab = Lab::new(Settings { disclose: false, ..Settings::default() });
    lab.provision(1, true);
    lab.steps(1, 126 * MB, &[(1, 9_000)]);
    let commands = lab.step(126 * MB, &[(1, 9_000)]);
    assert_eq!((commands[0].format, commands[0].metric), (Format::RoceV2, Metric::Undisclosed));
    assert!(matches!(commands[0].action, Action::RateReduce(_)), "the action is sent without the metric");
}

#[test]
fn a_removed_flow_is_forgotten_everywhere_and_a_removed_port_sends_nothing() {
    let mut lab = Lab::new(Settings { flows: 2, age: span(50 * MS), ..Settings::default() });
    lab.provision(1, false);
    lab.steps(3, 126 * MB, &[(1, 9_000)]);
    lab.node.handle(Input::FlowGone(key(1)), instant(lab.now)).unwrap();
    assert_eq!(lab.steps(40, MB, &[]), [], "no Resume for a removed flow");
    for n in 10..1_000 {
        lab.step(126 * MB, &[(n, 1_000)]);
        assert!(lab.node.flows() <= 2);
    }
    assert_eq!(lab.node.evicted(), 988);
    assert_eq!(lab.node.poll_timeout(), Some(instant(lab.now - MS + 50 * MS)));
    lab.node.handle_timeout(instant(lab.now + 50 * MS));
    assert_eq!((lab.node.flows(), lab.node.poll_timeout()), (0, None));
    lab.node.handle(Input::PortGone(port()), instant(lab.now)).unwrap();
    assert_eq!((lab.step(300 * MB, &[(1, 1)]), lab.node.flows()), (vec![], 0));
    assert_eq!(lab.node.assessment(port()), None);
}
