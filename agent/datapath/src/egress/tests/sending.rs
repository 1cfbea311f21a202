// SPDX-License-Identifier: Apache-2.0
//! End to end: a burst, a queue above K_max, a Long-haul CNP at the sending host, and a Resume after the burst.

use std::time::{Duration, Instant};

use canopy_model::congestion::{CnpsByAction, DepthSource, FlowOrigin, PortCongestion};
use canopy_model::node_spec::PortThresholds;
use canopy_packet::long_haul_cnp::Action;
use canopy_packet::long_haul_cnp::extension::Object;
use canopy_packet::long_haul_cnp::icmp::Message;
use canopy_packet::long_haul_cnp::roce::RocePacket;
use canopy_units::Rate;

use super::host::Host;
use super::*;
use crate::testbed::{SOURCE_QPN, node, plan, proxy, receiver, receiver_qpn, source};

/// `d0` with a queue of 4 Mb/s, K_max 40 kB and a receiver of the group; the group's source behind `u0`.
struct Scene {
    bed: Bed,
    host: Host,
    socket: PacketSocket,
    sent: u32,
}

impl Scene {
    fn new(accepts_roce: bool) -> Self {
        let bed = Testbed::new(&Shape { headend: true, receivers: 1, ..Shape::default() });
        let port = bed.ifindex("d0");
        let mut bed = Bed { bed, port };
        let host = Host::new("u0p", source());
        bed.queue("4mbit");
        let errors = bed.bed.reconcile(|spec| {
            spec.base_mut().ports[1].thresholds = Some(THRESHOLDS);
            spec.groups.for_each_mut(|g| g.source.accepts_roce = accepts_roce);
        });
        assert_eq!(errors, []);
        let socket = PacketSocket::open(bed.port);
        Self { bed, host, socket, sent: 0 }
    }

    /// Sends twenty copies to the receiver.
    fn burst(socket: &PacketSocket, sent: &mut u32) {
        for _ in 0..20 {
            *sent += 1;
            socket.send(&frame(&copy(*sent & 0xFF_FFFF, &[1; 936])));
        }
    }
}

const THRESHOLDS: PortThresholds = PortThresholds {
    k_min: Octets(20_000),
    k_max: Octets(40_000),
    rtt: Duration::from_millis(10),
    port_rate: Rate::from_bps(4_000_000),
    v_ecn_permille: 500,
    v_growth_per_ms: Octets(2_000),
};

/// The copy of a data packet that End.MT makes for the receiver.
fn copy(psn: u32, payload: &[u8]) -> Vec<u8> {
    let mut b = RoceBuilder::new(proxy(), receiver(0), Opcode::SEND_MIDDLE, receiver_qpn(0), psn);
    b.traffic_class = ECT0;
    b.payload = payload;
    b.build().unwrap()
}

fn copies() -> FlowKey {
    FlowKey { src: proxy(), dst: receiver(0), dst_qp: Qpn::new("q", receiver_qpn(0).into()).unwrap() }
}

fn assert_describes_this_node(objects: &[Object]) {
    let [Object::Timestamp(ntp), Object::Device(device), Object::Path(path)] = objects else { panic!("{objects:?}") };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 2_208_988_800;
    assert!(now - (ntp >> 32) < 60, "{ntp:#x}");
    assert_eq!((device.as_str(), &path[..]), ("n1", &2u64.to_be_bytes()[..]));
}

/// Samples the only port with limits until `condition` holds.
fn until(bed: &mut Testbed, condition: impl Fn(&PortCongestion) -> bool) -> PortCongestion {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let sample = bed.congestion();
        match &sample[..] {
            [port] if condition(port) => return port.clone(),
            _ if Instant::now() > deadline => panic!("timeout: {sample:?}"),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn count(counts: &mut CnpsByAction, action: Action) {
    *match action {
        Action::Notify => &mut counts.notify,
        Action::Pause { .. } => &mut counts.pause,
        Action::RateReduce { .. } => &mut counts.rate_reduce,
        Action::Resume { .. } => &mut counts.resume,
    } += 1;
}

/// The CNPs that are sent arrive, and telemetry counts exactly those.
#[test]
fn a_burst_is_answered_at_its_source_and_its_end_too() {
    let Scene { mut bed, host, socket, mut sent } = Scene::new(false);
    let quiet = until(&mut bed.bed, |_| true);
    assert_eq!((quiet.queue.packets, quiet.queue.counts.total(), &quiet.flows[..]), (0, 0, &[][..]));
    let (from, octets) = host.message(|| Scene::burst(&socket, &mut sent));
    let me = plan().node_address(node(1));
    assert_eq!(from, me);
    let message = Message::parse(me, source(), &octets).unwrap();
    assert_eq!(message.to_vec(me, source()).unwrap(), octets, "octet by octet what canopy-packet would send");
    assert_eq!(message.cnp.source_qp, SOURCE_QPN);
    assert!(!matches!(message.cnp.action, Action::Resume { .. }), "{:?}", message.cnp);
    assert_describes_this_node(&message.objects);
    let mut arrived = CnpsByAction::default();
    count(&mut arrived, message.cnp.action);
    let congested = until(&mut bed.bed, |port| port.queue.counts.cnps.sent() > 0 && port.queue.peak_level > 0);
    let queue = &congested.queue;
    assert!(queue.peak_level >= message.cnp.level && queue.peak_queue > Octets(20_000), "{congested:?}");
    // The burst ends and the queue drains: a source that was asked to reduce its rate gets a Resume.
    let resumed = loop {
        let (_, octets) = host.message(|| ());
        let cnp = Message::parse(me, source(), &octets).unwrap().cnp;
        count(&mut arrived, cnp.action);
        if let Action::Resume { percent } = cnp.action {
            break (percent, cnp.source_qp);
        }
    };
    assert_eq!(resumed, (50, SOURCE_QPN));

    let end = until(&mut bed.bed, |p| {
        p.queue.counts.cnps.resume > 0 && p.flows.first().is_some_and(|f| f.counts == p.queue.counts)
    });
    let queue = &end.queue;
    assert_eq!((end.port.get(), queue.depth_source, queue.packets), (2, Some(DepthSource::Kernel), u64::from(sent)));
    assert_eq!(queue.counts.cnps, arrived);
    assert!(queue.marked > 0 && queue.marked == queue.ce && queue.not_ect == 0, "{queue:?}");
    assert!(queue.queue <= Octets(20_000) && queue.level < message.cnp.level, "{queue:?}");
    let [flow] = &end.flows[..] else { panic!("{end:?}") };
    let FlowKey { src, dst, dst_qp } = copies();
    assert_eq!((flow.src, flow.dst, flow.dst_qp), (src, dst, dst_qp));
    assert_eq!((flow.packets, flow.octets, flow.ce), (queue.packets, queue.octets, queue.ce));
    assert_eq!((flow.src_qp.unwrap().get(), flow.origin), (SOURCE_QPN, FlowOrigin::Provisioned));
    // The only flow of a port has the share of the whole port.
    let alone = |port: &PortCongestion| port.flows.first().is_some_and(|flow| flow.rate > Rate::ZERO);
    Scene::burst(&socket, &mut sent);
    let [flow] = until(&mut bed.bed, alone).flows[..] else { panic!("one flow") };
    assert!((500..=1_000).contains(&flow.share_permille), "{flow:?}");
    // Without limits packets are not marked any more, and the port is not reported.
    assert_eq!(bed.bed.reconcile(|spec| spec.base_mut().ports[1].thresholds = None), []);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !bed.bed.congestion().is_empty() {
        assert!(Instant::now() < deadline, "the port is still reported");
        std::thread::sleep(Duration::from_millis(1));
    }
    bed.queue("1kbit");
    bed.fill(50);
    let p = copy(1, b"abcd");
    assert_eq!(bed.run(&p), p);
}

#[test]
fn an_endpoint_that_is_registered_for_it_gets_the_rocev2_format() {
    let Scene { bed: _bed, host, socket, mut sent } = Scene::new(true);
    let deadline = Instant::now() + Duration::from_secs(20);
    let wire = loop {
        assert!(Instant::now() < deadline, "no Long-haul CNP arrived");
        Scene::burst(&socket, &mut sent);
        std::thread::sleep(Duration::from_millis(1));
        if let Some(packet) = host.tap.try_next(|p| RocePacket::parse(p).is_ok()) {
            break packet;
        }
    };
    let packet = RocePacket::parse(&wire).unwrap();
    assert_eq!(packet.to_vec().unwrap(), wire, "octet by octet, its ICRC with it");
    assert_eq!((packet.src, packet.dst), (plan().node_address(node(1)), source()));
    assert_eq!(packet.cnp.source_qp, SOURCE_QPN);
    assert_describes_this_node(&packet.objects);
}
