// SPDX-License-Identifier: Apache-2.0
//! Every packet that is sent, suppressed or impossible to send is counted at its port and at its flow.

use canopy_model::congestion::CnpCounts;

use super::*;

const PORTS: [u64; 2] = [1, 2];

fn at(n: u64) -> PortIndex {
    PortIndex::new("port", n).unwrap()
}

fn fields(c: CnpCounts) -> [u64; 9] {
    let sent = c.cnps;
    let suppressed = [c.suppressed, c.rate_limited_flow, c.rate_limited_port, c.unknown_source_qp];
    let [a, b, d, e] = suppressed;
    [sent.notify, sent.pause, sent.rate_reduce, sent.resume, sent.failed, a, b, d, e]
}

fn sum(all: impl Iterator<Item = CnpCounts>) -> [u64; 9] {
    all.fold([0; 9], |sum, c| std::array::from_fn(|i| sum[i] + fields(c)[i]))
}

/// Flows 1..=6 through two ports, 5 and 6 of unknown source QP; a step of a millisecond each.
fn run(node: &mut Node, steps: std::ops::Range<u64>) -> Vec<Command> {
    let mut commands = Vec::new();
    for step in steps {
        let now = step * MS;
        for (port, n) in PORTS.into_iter().flat_map(|port| (1..=6).map(move |n| (port, n))) {
            // Some rates fall by half from time to time, not simultaneously.
            let bytes = 1_000 >> u64::from(step / (7 + u64::from(n)) % 2 == 0);
            node.handle(Input::Arrived(at(port), key(n), Octets(bytes)), instant(now)).unwrap();
        }
        for port in PORTS {
            let queue_bytes = if step % 90 < 40 { 30 * MB * port + step % 90 * 5 * MB } else { MB };
            node.handle(
                Input::Sample(at(port), Counters { queue: Octets(queue_bytes), packets: now, ce_packets: 0 }),
                instant(now),
            )
            .unwrap();
        }
        commands.extend(std::iter::from_fn(|| node.next_command()));
    }
    commands
}

fn node() -> Node {
    let mut node = Node::new(Settings { port_per_second: 200, port_burst: 2, ..Settings::default() });
    PORTS.into_iter().for_each(|port| node.handle(Input::Port(at(port), limits()), instant(0)).unwrap());
    for n in 1..=4 {
        let input = Input::Flow { flow: flow(n), origin: Origin::Provisioned, accepts_roce: false };
        node.handle(input, instant(0)).unwrap();
    }
    node
}

#[test]
fn flows_sum_to_their_port_and_ports_to_the_node() {
    let mut node = node();
    let commands = run(&mut node, 1..400);
    let all = node.counts();
    // Every count that is compared below is above zero.
    let [_, pauses, reduces, resumes, _, suppressed, of_flow, of_port, unknown] = fields(all);
    for count in [pauses, reduces, resumes, suppressed, of_flow, of_port, unknown] {
        assert!(count > 0, "{all:?}");
    }
    assert_eq!(all.cnps.sent(), commands.len() as u64);
    assert_eq!(sum(PORTS.into_iter().map(|port| node.port_counts(at(port)))), fields(all));
    for port in PORTS {
        let flows = node.flow_counts(at(port)).map(|(_, counts)| counts);
        assert_eq!(sum(flows), fields(node.port_counts(at(port))), "port {port}");
        for (key, counts) in node.flow_counts(at(port)) {
            let mine = commands.iter().filter(|c| (c.port, c.flow.key) == (at(port), key)).count();
            assert_eq!(counts.cnps.sent(), mine as u64);
            let provisioned = (1..=4).any(|n| key == self::key(n)).then_some((qp(100), Origin::Provisioned));
            assert_eq!(node.src_qp(&key), provisioned);
            assert!(counts.unknown_source_qp == 0 || provisioned.is_none());
        }
    }
}

/// Its source got an instruction of another port less than an RTT ago.
#[test]
fn a_resume_that_waits_for_the_limit_of_its_flow_is_counted_and_sent_later() {
    let mut node = node();
    let mut sent = Vec::new();
    for step in 1..=30 {
        let now = instant(step * MS);
        let is_long = [(1..=2).contains(&step), (11..=12).contains(&step)];
        for (port, is_long) in PORTS.into_iter().zip(is_long) {
            if is_long {
                node.handle(Input::Arrived(at(port), key(1), Octets(1_000)), now).unwrap();
            }
            let queue = Octets(if is_long { 126 * MB } else { MB });
            node.handle(Input::Sample(at(port), Counters { queue, packets: step, ce_packets: 0 }), now).unwrap();
        }
        sent.extend(std::iter::from_fn(|| node.next_command()).map(|c| (step, u64::from(c.port.get()), c.action)));
    }
    let reduce = Action::RateReduce(percent(28));
    assert_eq!(sent, [(2, 1, reduce), (12, 2, reduce), (22, 1, Action::Resume(percent(50)))]);
    assert_eq!(node.port_counts(at(1)).rate_limited_flow, 9, "13 to 21 ms");
}

#[test]
fn a_packet_that_could_not_be_sent_counts_as_failed_everywhere() {
    let mut node = node();
    let commands = run(&mut node, 1..100);
    let before = (node.counts(), node.port_counts(commands[0].port));
    node.not_sent(&commands[0]);
    for (before, after) in [(before.0, node.counts()), (before.1, node.port_counts(commands[0].port))] {
        assert_eq!((after.cnps.failed, after.cnps.sent(), after.total()), (1, before.cnps.sent() - 1, before.total()));
    }
    let (_, flow) = node.flow_counts(commands[0].port).find(|(key, _)| *key == commands[0].flow.key).unwrap();
    assert_eq!(flow.cnps.failed, 1);
}

#[test]
fn counts_of_a_flow_and_of_a_port_are_removed_with_it_and_those_of_the_node_stay() {
    let mut node = node();
    let commands = run(&mut node, 1..100);
    let all = node.counts();
    for n in 1..=4 {
        node.handle(Input::FlowGone(key(n)), instant(100 * MS)).unwrap();
    }
    let left: Vec<_> = node.flow_counts(at(1)).map(|(key, _)| key).collect();
    assert!(left.iter().all(|left| [key(5), key(6)].contains(left)), "{left:?}");
    // A packet in flight does not bring them back.
    commands.iter().for_each(|command| node.not_sent(command));
    assert!(node.flow_counts(at(1)).all(|(key, _)| left.contains(&key)));
    node.handle(Input::PortGone(at(1)), instant(100 * MS)).unwrap();
    assert_eq!((node.port_counts(at(1)), node.flow_counts(at(1)).count()), (CnpCounts::default(), 0));
    assert_eq!(node.counts().total(), all.total());
}
