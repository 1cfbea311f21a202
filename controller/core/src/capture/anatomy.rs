// SPDX-License-Identifier: Apache-2.0
//! The headers of a captured frame, and what a node changed in them: every octet that differs belongs to one field.

use std::net::Ipv6Addr;
use std::ops::Range;

use canopy_model::capture::CapturedFrame;
use canopy_packet::ipv6::Ipv6View;
use serde::{Deserialize, Serialize};

use super::{CapturePlan, Listed, Place, Seen};

pub(super) const ETHERNET: usize = 14;
/// Both link-layer addresses.
const MACS: usize = 12;
pub(super) const IPV6: usize = 40;
const SEGMENTS_LEFT: usize = ETHERNET + IPV6 + 3;

/// The encapsulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuterHeaders {
    /// Outer Source Address.
    pub source: Ipv6Addr,
    /// Outer Destination Address.
    pub destination: Ipv6Addr,
    /// Outer Hop Limit.
    pub hop_limit: u8,
    /// Outer Traffic Class, with the ECN field.
    pub traffic_class: u8,
    /// Of the SRH.
    pub segments_left: u8,
}

/// The headers of the source's packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerHeaders {
    /// Source Address.
    pub source: Ipv6Addr,
    /// Destination Address.
    pub destination: Ipv6Addr,
    /// Hop Limit.
    pub hop_limit: u8,
    /// Traffic Class, with the ECN field.
    pub traffic_class: u8,
    /// OpCode of the BTH.
    pub opcode: u8,
    /// Destination QP.
    pub dest_qp: u32,
    /// PSN.
    pub psn: u32,
}

/// A field that is different from the place before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Which.
    pub field: CapturedField,
    /// Where it is in this frame.
    pub at: u32,
    /// What it was; empty where it is new.
    pub before: Vec<u8>,
    /// What it is; empty where it is gone.
    pub after: Vec<u8>,
    /// Who changed it, and why.
    pub why: String,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A field, or headers as a whole where they are new or gone.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum CapturedField { $($(#[$doc])* $name),* }

        impl CapturedField {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

fields! {
    /// Both link-layer addresses.
    Ethernet,
    /// The encapsulation: outer IPv6 header and SRH.
    Outer,
    /// Outer Traffic Class.
    OuterTrafficClass,
    /// Outer Flow Label.
    OuterFlowLabel,
    /// Outer Payload Length.
    OuterPayloadLength,
    /// Outer Next Header.
    OuterNextHeader,
    /// Outer Hop Limit.
    OuterHopLimit,
    /// Outer Source Address.
    OuterSource,
    /// Outer Destination Address.
    OuterDestination,
    /// The SRH, as far as it was captured.
    Srh,
    /// Traffic Class.
    TrafficClass,
    /// Flow Label.
    FlowLabel,
    /// Payload Length.
    PayloadLength,
    /// Next Header.
    NextHeader,
    /// Hop Limit.
    HopLimit,
    /// Source Address.
    Source,
    /// Destination Address.
    Destination,
    /// UDP source port.
    UdpSourcePort,
    /// UDP destination port.
    UdpDestinationPort,
    /// UDP length.
    UdpLength,
    /// UDP checksum.
    UdpChecksum,
    /// OpCode of the BTH.
    Opcode,
    /// SE, MigReq, PadCnt and TVer of the BTH.
    BthFlags,
    /// Partition key.
    PKey,
    /// FECN, BECN and reserved bits.
    BthReserved,
    /// Destination QP.
    DestQp,
    /// AckReq and reserved bits.
    AckRequest,
    /// PSN.
    Psn,
}

use CapturedField as Field;

/// Where the fields of an outer IPv6 header are, without a hole.
pub(super) const OUTER: [(Field, Range<usize>); 7] = [
    (Field::OuterTrafficClass, 0..2),
    (Field::OuterFlowLabel, 2..4),
    (Field::OuterPayloadLength, 4..6),
    (Field::OuterNextHeader, 6..7),
    (Field::OuterHopLimit, 7..8),
    (Field::OuterSource, 8..24),
    (Field::OuterDestination, 24..40),
];
/// Where the fields of IPv6, UDP and BTH are, without a hole.
pub(super) const PLAIN: [(Field, Range<usize>); 18] = [
    (Field::TrafficClass, 0..2),
    (Field::FlowLabel, 2..4),
    (Field::PayloadLength, 4..6),
    (Field::NextHeader, 6..7),
    (Field::HopLimit, 7..8),
    (Field::Source, 8..24),
    (Field::Destination, 24..40),
    (Field::UdpSourcePort, 40..42),
    (Field::UdpDestinationPort, 42..44),
    (Field::UdpLength, 44..46),
    (Field::UdpChecksum, 46..48),
    (Field::Opcode, 48..49),
    (Field::BthFlags, 49..50),
    (Field::PKey, 50..52),
    (Field::BthReserved, 52..53),
    (Field::DestQp, 53..56),
    (Field::AckRequest, 56..57),
    (Field::Psn, 57..60),
];

/// The encapsulation of a frame; `None` if it has none.
pub(super) fn outer(frame: &CapturedFrame) -> Option<OuterHeaders> {
    if frame.inner_at as usize == ETHERNET {
        return None;
    }
    let ip = Ipv6View::parse(frame.head.get(ETHERNET..)?).ok()?;
    Some(OuterHeaders {
        source: ip.src(),
        destination: ip.dst(),
        hop_limit: ip.hop_limit(),
        traffic_class: ip.traffic_class(),
        segments_left: *frame.head.get(SEGMENTS_LEFT)?,
    })
}

/// The headers of the source's packet.
pub(super) fn inner(frame: &CapturedFrame) -> InnerHeaders {
    let octets = &frame.inner;
    let address = |at: usize| -> Ipv6Addr {
        let mut address = [0; 16];
        address.copy_from_slice(&octets[at..at + 16]);
        address.into()
    };
    InnerHeaders {
        source: address(8),
        destination: address(24),
        hop_limit: octets[7],
        traffic_class: octets[0] << 4 | octets[1] >> 4,
        opcode: octets[48],
        dest_qp: u32::from_be_bytes([0, octets[53], octets[54], octets[55]]),
        psn: u32::from_be_bytes([0, octets[57], octets[58], octets[59]]),
    }
}

/// What is different at `place` from the frame before.
pub(super) fn changes(
    before: &CapturedFrame,
    after: &CapturedFrame,
    plan: &CapturePlan,
    place: &Place,
) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let mut compare = |field: Field, at: usize, from: &[u8], to: &[u8]| {
        if from != to {
            let why = why(field, plan, place);
            changes.push(FieldChange { field, at: at as u32, before: from.to_vec(), after: to.to_vec(), why });
        }
    };
    compare(Field::Ethernet, 0, macs(before), macs(after));
    let (from, to) = (outer_octets(before), outer_octets(after));
    if from.len() >= IPV6 && to.len() >= IPV6 {
        for (field, at) in OUTER {
            compare(field, ETHERNET + at.start, &from[at.clone()], &to[at]);
        }
        compare(Field::Srh, ETHERNET + IPV6, &from[IPV6..], &to[IPV6..]);
    } else {
        compare(Field::Outer, ETHERNET, from, to);
    }
    let inner_at = after.inner_at as usize;
    for (field, at) in PLAIN {
        compare(field, inner_at + at.start, &before.inner[at.clone()], &after.inner[at]);
    }
    changes
}

fn macs(frame: &CapturedFrame) -> &[u8] {
    frame.head.get(..MACS).unwrap_or_default()
}

/// The encapsulation, as far as it was captured.
fn outer_octets(frame: &CapturedFrame) -> &[u8] {
    frame.head.get(ETHERNET..(frame.inner_at as usize).min(frame.head.len())).unwrap_or_default()
}

/// Which node changes the field at this place, and why; or that nothing of Canopy does.
pub(super) fn why(field: Field, plan: &CapturePlan, place: &Place) -> String {
    let is_headend = place.node == plan.headend;
    let peer = &place.peer;
    match (&place.seen, field) {
        (Seen::Arrival, _) => format!("on the way from {peer}: by a switch, or by the port's own queue"),
        (_, Field::Ethernet) => "link-layer addresses of the next hop".to_owned(),
        (_, Field::OuterHopLimit | Field::HopLimit) => "forwarding: one hop less".to_owned(),
        (_, Field::OuterTrafficClass | Field::TrafficClass) => {
            "ECN: CE at a queue above K_min, or the outer field moved inward (RFC 6040)".to_owned()
        }
        (_, Field::UdpChecksum) => "covers addresses, DestQP and ICRC, which changed".to_owned(),
        (Seen::ToNode { .. }, Field::Outer) => "headend: outer IPv6 header and SRH of the group (RFC 8754)".to_owned(),
        (Seen::ToNode { .. }, Field::OuterDestination) => format!("End.Replicate: SID of {peer} (RFC 9524)"),
        (Seen::ToReceiver { .. }, Field::Outer) => "End.MT: decapsulation".to_owned(),
        (Seen::ToReceiver { .. }, Field::Source) => "End.MT: the group's Proxy Address".to_owned(),
        (Seen::ToReceiver { .. }, Field::DestQp) => format!("End.MT: QPN of {peer}"),
        (Seen::ToReceiver { .. }, Field::Psn) => format!("{peer} joined late: it counts from its own start PSN"),
        (Seen::ToReceiver { listed: Listed::Tlv(entry), .. }, Field::Destination) if !is_headend => {
            format!("End.MT: TLV entry {entry}, {peer}")
        }
        (Seen::ToReceiver { .. }, Field::Destination) => format!("End.MT: provisioned list, {peer}"),
        _ => "not expected: nothing of Canopy changes it here".to_owned(),
    }
}
