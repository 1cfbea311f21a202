// SPDX-License-Identifier: Apache-2.0
//! Long-haul CNPs, composed with `canopy-packet`.

use std::net::Ipv6Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_agent_core::congestion::{self as node, Command, Format};
use canopy_packet::EmitError;
use canopy_packet::ipv6::Ipv6;
use canopy_packet::long_haul_cnp::extension::Object;
use canopy_packet::long_haul_cnp::icmp::Message;
use canopy_packet::long_haul_cnp::roce::RocePacket;
use canopy_packet::long_haul_cnp::{Action, LongHaulCnp, Metric};

/// DSCP 48, the default of hosts for CNPs.
const TRAFFIC_CLASS: u8 = 48 << 2;
const HOP_LIMIT: u8 = 64;
const NEXT_HEADER_ICMPV6: u8 = 58;
const ROCE_SOURCE_PORT: u16 = 0xC000;
const DEFAULT_PKEY: u16 = 0xFFFF;
/// Seconds from 1900, the epoch of NTP, to 1970 (RFC 5905).
const NTP_UNIX: u64 = 2_208_988_800;

/// The node that sends a CNP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CnpSender<'a> {
    /// Source address.
    pub(crate) address: Ipv6Addr,
    /// Device Identifier: the node's name.
    pub(crate) device: &'a str,
    /// Timestamp: time since 1970.
    pub(crate) time: Duration,
}

/// Composes the CNP of a command to `dst`, from its IPv6 header on. The Path Identifier is the number of the congested egress port in
/// eight octets.
pub(crate) fn compose(command: &Command, dst: Ipv6Addr, sender: CnpSender<'_>) -> Result<Vec<u8>, EmitError> {
    let cnp = LongHaulCnp {
        level: command.level,
        action: action(command.action),
        source_qp: command.flow.src_qp.get(),
        metric: metric(command.metric),
    };
    let objects = vec![
        Object::Timestamp(ntp(sender.time)),
        Object::Device(sender.device.to_owned()),
        Object::Path(u64::from(command.port.get()).to_be_bytes().to_vec()),
    ];
    if command.format == Format::RoceV2 {
        let packet = RocePacket {
            traffic_class: TRAFFIC_CLASS,
            hop_limit: HOP_LIMIT,
            src: sender.address,
            dst,
            src_port: ROCE_SOURCE_PORT,
            pkey: DEFAULT_PKEY,
            cnp,
            objects,
        };
        return packet.to_vec();
    }
    let message = Message { cnp, objects }.to_vec(sender.address, dst)?;
    let ip = Ipv6 {
        traffic_class: TRAFFIC_CLASS,
        flow_label: 0,
        // Three short objects, far below 65535 octets.
        payload_len: message.len() as u16,
        next_header: NEXT_HEADER_ICMPV6,
        hop_limit: HOP_LIMIT,
        src: sender.address,
        dst,
    };
    let mut packet = vec![0; Ipv6::LEN];
    ip.emit(&mut packet)?;
    packet.extend(message);
    Ok(packet)
}

fn action(action: node::Action) -> Action {
    match action {
        node::Action::Notify => Action::Notify,
        node::Action::Pause { micros } => Action::Pause { micros },
        node::Action::RateReduce(by) => Action::RateReduce { percent: by.get() },
        node::Action::Resume(by) => Action::Resume { percent: by.get() },
    }
}

fn metric(metric: node::Metric) -> Metric {
    match metric {
        node::Metric::Undisclosed => Metric::UNDISCLOSED,
        node::Metric::QueueDepth(kilobytes) => Metric::QueueDepth(kilobytes),
        node::Metric::QueueGrowthRate(per_ms) => Metric::QueueGrowthRate(per_ms),
        node::Metric::EcnMarkingRate(percent) => Metric::EcnMarkingRate(percent.get()),
    }
}

fn ntp(since_1970: Duration) -> u64 {
    let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
    (since_1970.as_secs() + NTP_UNIX) << 32 | fraction
}

/// Wall clock: time since 1970.
pub(crate) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
