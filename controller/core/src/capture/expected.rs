// SPDX-License-Identifier: Apache-2.0
//! What the headers of a group's packet have to be at a place, from the programs of its nodes, and where a captured frame differs.

use std::net::Ipv6Addr;

use canopy_model::capture::CapturedFrame;
use canopy_model::ids::Qpn;
use canopy_model::node_spec::{GroupProgram, NodeBase};
use canopy_packet::end_mt::EndMt;
use canopy_packet::ipv6::{NEXT_HEADER_IPV6, NEXT_HEADER_ROUTING, NEXT_HEADER_UDP};
use canopy_packet::srh::{Hmac, Srh, Tlv};
use canopy_packet::udp::ROCE_PORT;

use super::anatomy::{self, CapturedField as Field, ETHERNET, IPV6, OUTER, PLAIN};
use super::{CapturePlan, Place};

/// Octets of the digest in an HMAC TLV (RFC 8754 section 2.1.2.1, SHA-256).
const DIGEST: usize = 32;
/// Octets of an HMAC TLV.
const HMAC_TLV: usize = 8 + DIGEST;
/// Where the flags are in an SRH.
const FLAGS: usize = 5;
/// Of the outer header that a headend adds.
const OUTER_HOP_LIMIT: u8 = 64;

/// The headers of the packet at a place, as far as the programs decide them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The encapsulation; `None` of a plain frame.
    pub outer: Option<Outer>,
    /// Source Address.
    pub source: Ipv6Addr,
    /// Destination Address.
    pub destination: Ipv6Addr,
    /// Destination QP.
    pub dest_qp: Qpn,
    /// By how much the Hop Limit is less than the source's.
    pub hops: u8,
    /// The PSN is the source's; not at a receiver that joined late.
    pub is_psn_as_sent: bool,
}

/// The encapsulation at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Source Address.
    pub source: Ipv6Addr,
    /// Destination Address.
    pub destination: Ipv6Addr,
    /// Flow Label, one per group.
    pub flow_label: u32,
    /// Hop Limit; `None` where the kernel's multicast forwarding counts.
    pub hop_limit: Option<u8>,
    /// The SRH in hexadecimal digits, with a dot for each that is not known here.
    pub srh: String,
    /// What is in it, for people.
    pub srh_text: String,
}

/// A field as it has to be at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedField {
    /// Which.
    pub field: Field,
    /// Where it is in the frame.
    pub at: u32,
    /// Its octets in hexadecimal digits, with a dot for each that the packet decides.
    pub octets: String,
    /// What that is, for people.
    pub value: String,
    /// Which node makes it other than at the place before, and why; empty where it stays.
    pub why: String,
}

/// A field of a captured frame that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which.
    pub field: Field,
    /// Where it is in the frame.
    pub at: u32,
    /// What it has to be, for people.
    pub expected: String,
}

impl Headers {
    /// As the source sends the packet.
    pub fn sent(program: &GroupProgram) -> Self {
        let GroupProgram { source, proxy, designated_qpn, .. } = program;
        Self {
            outer: None,
            source: source.address,
            destination: *proxy,
            dest_qp: *designated_qpn,
            hops: 0,
            is_psn_as_sent: true,
        }
    }

    /// The copy for a child node with this SID. `base`: the node's own, which encapsulates the packet if it is the headend.
    pub fn to_node(&self, program: &GroupProgram, base: &NodeBase, sid: Ipv6Addr) -> Option<Self> {
        let counts = program.multicast.is_none();
        let Some(outer) = &self.outer else {
            let srh = srh(program, base)?;
            let outer = Outer {
                source: base.node_address,
                destination: sid,
                flow_label: program.designated_qpn.get() & 0xF_FFFF,
                hop_limit: counts.then_some(OUTER_HOP_LIMIT),
                srh_text: text_of(program, srh.len() / 2),
                srh,
            };
            return Some(Self { outer: Some(outer), hops: self.hops + 1, ..self.clone() });
        };
        let hop_limit = outer.hop_limit.filter(|_| counts).map(|limit| limit.saturating_sub(1));
        Some(Self { outer: Some(Outer { destination: sid, hop_limit, ..outer.clone() }), ..self.clone() })
    }

    /// The copy for a receiver.
    pub fn to_receiver(&self, program: &GroupProgram, address: Ipv6Addr, qpn: Qpn, is_late: bool) -> Self {
        Self {
            outer: None,
            source: program.proxy,
            destination: address,
            dest_qp: qpn,
            hops: self.hops + 1,
            is_psn_as_sent: !is_late,
        }
    }

    /// Every field but the link-layer addresses, in the order of the frame, without its cause.
    fn fields(&self) -> Vec<ExpectedField> {
        let mut all = Vec::new();
        let mut inner_at = ETHERNET;
        if let Some(outer) = &self.outer {
            inner_at += IPV6 + outer.srh.len() / 2;
            for (field, at) in OUTER {
                let (octets, value) = outer.field(field, at.len());
                all.push(ExpectedField { field, at: (ETHERNET + at.start) as u32, octets, value, why: String::new() });
            }
            let (octets, value) = (outer.srh.clone(), outer.srh_text.clone());
            let at = (ETHERNET + IPV6) as u32;
            all.push(ExpectedField { field: Field::Srh, at, octets, value, why: String::new() });
        }
        for (field, at) in PLAIN {
            let (octets, value) = self.field(field, at.len());
            all.push(ExpectedField { field, at: (inner_at + at.start) as u32, octets, value, why: String::new() });
        }
        all
    }

    fn field(&self, field: Field, length: usize) -> (String, String) {
        match field {
            Field::TrafficClass => version(),
            Field::NextHeader => decimal(&[NEXT_HEADER_UDP]),
            Field::HopLimit if self.hops > 0 => ("..".to_owned(), format!("{} less than sent", self.hops)),
            Field::Source => address(self.source),
            Field::Destination => address(self.destination),
            Field::UdpDestinationPort => decimal(&ROCE_PORT.to_be_bytes()),
            Field::DestQp => {
                let octets = hex(&self.dest_qp.get().to_be_bytes()[1..]);
                (octets.clone(), format!("0x{octets}"))
            }
            Field::Psn if !self.is_psn_as_sent => of_packet(length, "from its own start PSN on"),
            _ => of_packet(length, "from the packet"),
        }
    }
}

impl Outer {
    fn field(&self, field: Field, length: usize) -> (String, String) {
        match field {
            Field::OuterTrafficClass => version(),
            Field::OuterFlowLabel => {
                let octets = hex(&(self.flow_label as u16).to_be_bytes());
                (octets, format!("0x{:05x}", self.flow_label))
            }
            Field::OuterNextHeader => decimal(&[NEXT_HEADER_ROUTING]),
            Field::OuterHopLimit => match self.hop_limit {
                Some(limit) => decimal(&[limit]),
                None => of_packet(length, "one less at each node"),
            },
            Field::OuterSource => address(self.source),
            Field::OuterDestination => address(self.destination),
            _ => of_packet(length, "from the packet"),
        }
    }
}

/// The fields at a place, with what each node makes other than at the place before.
pub(super) fn fields(plan: &CapturePlan, place: &Place) -> Vec<ExpectedField> {
    let Some(headers) = &place.expected else { return Vec::new() };
    let before = place.before.and_then(|at| plan.places.get(at)?.expected.as_ref());
    let before = before.map(Headers::fields).unwrap_or_default();
    let mut all = headers.fields();
    for one in all.iter_mut().filter(|_| !before.is_empty()) {
        let old = before.iter().find(|old| old.field == one.field);
        if old.is_none_or(|old| (&old.octets, &old.value) != (&one.octets, &one.value)) {
            let field = if old.is_none() { Field::Outer } else { one.field };
            one.why = anatomy::why(field, plan, place);
        }
    }
    all
}

/// Where a frame is not as it has to be. `sent`: the frame as the source sent it, if that was seen. `psn`: the source's.
pub(super) fn differences(
    place: &Place,
    frame: &CapturedFrame,
    sent: Option<&CapturedFrame>,
    psn: u32,
) -> Vec<Difference> {
    let Some(headers) = &place.expected else { return Vec::new() };
    let is_plain = frame.inner_at as usize == ETHERNET;
    if headers.outer.is_some() == is_plain {
        let expected = if is_plain { "an outer header and an SRH" } else { "no outer header" };
        return vec![Difference { field: Field::Outer, at: ETHERNET as u32, expected: expected.to_owned() }];
    }
    let inner_at = frame.inner_at as usize;
    let differs = |one: ExpectedField| {
        let ExpectedField { field, mut octets, mut value, .. } = one;
        let seen = match PLAIN.iter().find(|(plain, _)| *plain == field) {
            Some((_, at)) => frame.inner.get(at.clone()),
            None => {
                let at = one.at as usize;
                frame.head.get(at..(at + octets.len() / 2).min(inner_at).min(frame.head.len()))
            }
        };
        match (field, sent) {
            (Field::HopLimit, Some(sent)) => {
                (octets, value) = decimal(&[anatomy::inner(sent).hop_limit.saturating_sub(headers.hops)]);
            }
            (Field::Psn, _) if headers.is_psn_as_sent => {
                (octets, value) = (hex(&psn.to_be_bytes()[1..]), psn.to_string());
            }
            _ => {}
        }
        let is_other = |(seen, wanted): (char, char)| wanted != '.' && seen != wanted;
        // Of an SRH, what was captured of it.
        let is_wrong = hex(seen.unwrap_or_default()).chars().zip(octets.chars()).any(is_other);
        let at = PLAIN.iter().find(|(plain, _)| *plain == field).map_or(one.at, |(_, at)| (inner_at + at.start) as u32);
        is_wrong.then_some(Difference { field, at, expected: value })
    };
    headers.fields().into_iter().filter_map(differs).collect()
}

/// The SRH that a headend adds, in hexadecimal digits. With an HMAC TLV its flags and that TLV are not known here: keys change.
fn srh(program: &GroupProgram, base: &NodeBase) -> Option<String> {
    let headend = program.headend.as_ref()?;
    let tlvs = headend.tlvs.iter().map(|t| {
        let receivers = t.receivers.iter().map(|(address, qpn)| (*address, qpn.get())).collect();
        Tlv::EndMt(EndMt { edge: t.edge, receivers })
    });
    let hmac = base.hmac.as_ref().map(|_| Hmac { d: false, key_id: 0, hmac: vec![0; DIGEST] });
    let has_hmac = hmac.is_some();
    let segments = headend.segments.clone();
    let srh =
        Srh { next_header: NEXT_HEADER_IPV6, segments_left: 1, flags: 0, tag: 0, segments, tlvs: tlvs.collect(), hmac };
    let mut digits = hex(&srh.to_vec().ok()?);
    if has_hmac {
        digits.replace_range(2 * FLAGS..2 * FLAGS + 2, "..");
        let from = digits.len().checked_sub(2 * HMAC_TLV)?;
        digits.replace_range(from.., &".".repeat(2 * HMAC_TLV));
    }
    Some(digits)
}

fn text_of(program: &GroupProgram, octets: usize) -> String {
    let Some(headend) = &program.headend else { return format!("{octets} octets") };
    let segments: Vec<String> = headend.segments.iter().map(ToString::to_string).collect();
    let receivers: usize = headend.tlvs.iter().map(|t| t.receivers.len()).sum();
    format!("{octets} octets: segments {}; receivers in End.MT TLVs: {receivers}", segments.join(", "))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn decimal(octets: &[u8]) -> (String, String) {
    let value = octets.iter().fold(0u32, |all, octet| all << 8 | u32::from(*octet));
    (hex(octets), value.to_string())
}

fn address(address: Ipv6Addr) -> (String, String) {
    (hex(&address.octets()), address.to_string())
}

/// Version 6, and a Traffic Class that the packet brings along.
fn version() -> (String, String) {
    ("6...".to_owned(), "from the packet".to_owned())
}

fn of_packet(octets: usize, value: &str) -> (String, String) {
    ("..".repeat(octets), value.to_owned())
}
