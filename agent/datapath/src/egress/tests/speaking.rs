// SPDX-License-Identifier: Apache-2.0
//! The whole way: a burst, a queue above K_max, a Long-haul CNP at the host that sends, and a Resume when it has stopped.

use canopy_model::node_spec::PortThresholds;
use canopy_packet::long_haul_cnp::Action;
use canopy_packet::long_haul_cnp::extension::Object;
use canopy_packet::long_haul_cnp::icmp::Message;
use canopy_packet::long_haul_cnp::roce::RocePacket;

use super::host::Host;
use super::*;
use crate::egress::DepthSource;
use crate::testbed::{SOURCE_QPN, node, plan, proxy, receiver, receiver_qpn, source};

/// `d0` with a queue of 4 Mb/s and K_max 40 kB, and a receiver of the group behind it; the group's source behind `u0`.
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
            spec.base.ports[1].thresholds = Some(THRESHOLDS);
            spec.groups.values_mut().for_each(|g| g.source.accepts_roce = accepts_roce);
        });
        assert_eq!(errors, []);
        let socket = PacketSocket::open(bed.port);
        Self { bed, host, socket, sent: 0 }
    }

    /// Twenty copies on their way to the receiver.
    fn burst(socket: &PacketSocket, sent: &mut u32) {
        for _ in 0..20 {
            *sent += 1;
            socket.send(&frame(&copy(*sent & 0xFF_FFFF, &[1; 936])));
        }
    }
}

const THRESHOLDS: PortThresholds =
    PortThresholds { k_min_bytes: 20_000, k_max_bytes: 40_000, rtt_ns: 10_000_000, port_rate_bps: 4_000_000 };

/// What End.MT makes of a data packet for the receiver.
fn copy(psn: u32, payload: &[u8]) -> Vec<u8> {
    let mut b = RoceBuilder::new(proxy(), receiver(0), Opcode::SEND_MIDDLE, receiver_qpn(0), psn);
    b.traffic_class = ECT0;
    b.payload = payload;
    b.build().unwrap()
}

fn copies() -> FlowKey {
    FlowKey { src: proxy(), dst: receiver(0), dst_qp: Qpn::new("q", receiver_qpn(0).into()).unwrap() }
}

fn about_this_node(objects: &[Object]) {
    let [Object::Timestamp(ntp), Object::Device(device), Object::Path(path)] = objects else { panic!("{objects:?}") };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 2_208_988_800;
    assert!(now - (ntp >> 32) < 60, "{ntp:#x}");
    assert_eq!((device.as_str(), &path[..]), ("n1", &2u64.to_be_bytes()[..]));
}

#[test]
fn a_burst_is_answered_at_its_source_and_its_end_too() {
    let Scene { mut bed, host, socket, mut sent } = Scene::new(false);
    let (from, octets) = host.message(|| Scene::burst(&socket, &mut sent));
    let me = plan().node_address(node(1));
    assert_eq!(from, me);
    let message = Message::parse(me, source(), &octets).unwrap();
    assert_eq!(message.to_vec(me, source()).unwrap(), octets, "octet by octet what canopy-packet would send");
    assert_eq!(message.cnp.source_qp, SOURCE_QPN);
    assert!(!matches!(message.cnp.action, Action::Resume { .. }), "{:?}", message.cnp);
    about_this_node(&message.objects);
    // Silence: the queue drains, and whoever was asked for less hears that it may have more.
    let resumed = loop {
        let (_, octets) = host.message(|| ());
        let cnp = Message::parse(me, source(), &octets).unwrap().cnp;
        if let Action::Resume { percent } = cnp.action {
            break (percent, cnp.source_qp);
        }
    };
    assert_eq!(resumed, (50, SOURCE_QPN));

    // What was sent is counted after it was sent.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let report = loop {
        let report = bed.bed.datapath.congestion(1).unwrap();
        if report.ports[0].said.resume > 0 || std::time::Instant::now() > deadline {
            break report;
        }
        std::thread::yield_now();
    };
    let [port] = &report.ports[..] else { panic!("{report:?}") };
    assert_eq!((port.depth_source, port.packets), (Some(DepthSource::Kernel), u64::from(sent)));
    assert!(port.marked > 0 && port.marked == port.ce && port.not_ect == 0, "{port:?}");
    assert!(port.events > 0 && port.said.sent() > 1 && port.said.resume == 1 && port.said.failed == 0, "{port:?}");
    assert!(port.said.sent() <= report.counts.sent);
    let [top] = &report.flows[..] else { panic!("{report:?}") };
    assert_eq!((top.flow, top.packets, top.ce, top.said), (copies(), u64::from(sent), port.ce, port.said));
    // Without limits the port is left alone again.
    assert_eq!(bed.bed.reconcile(|spec| spec.base.ports[1].thresholds = None), []);
    bed.queue("1kbit");
    bed.fill(50);
    let p = copy(1, b"abcd");
    assert_eq!(bed.run(&p), p);
}

#[test]
fn an_endpoint_that_is_registered_for_it_gets_the_rocev2_format() {
    let Scene { bed: _bed, host, socket, mut sent } = Scene::new(true);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let wire = loop {
        assert!(std::time::Instant::now() < deadline, "no Long-haul CNP arrived");
        Scene::burst(&socket, &mut sent);
        std::thread::sleep(std::time::Duration::from_millis(1));
        if let Some(packet) = host.tap.try_next(|p| RocePacket::parse(p).is_ok()) {
            break packet;
        }
    };
    let packet = RocePacket::parse(&wire).unwrap();
    assert_eq!(packet.to_vec().unwrap(), wire, "octet by octet, its ICRC with it");
    assert_eq!((packet.src, packet.dst), (plan().node_address(node(1)), source()));
    assert_eq!(packet.cnp.source_qp, SOURCE_QPN);
    about_this_node(&packet.objects);
}
