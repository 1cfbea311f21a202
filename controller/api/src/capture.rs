// SPDX-License-Identifier: Apache-2.0
//! One packet of a group, as every node of its tree saw it.

use std::net::Ipv6Addr;

use canopy_controller_core::capture as core;
use canopy_model::capture as model;
use canopy_units::nanos;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{ApiVersion, Kind};

/// What to capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CaptureRequest {
    /// PSN of the packet, as the source sends it. Left out: one that the source is about to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psn: Option<u32>,
    /// How long the packet is waited for, 1 to 5 seconds; 5 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<u32>,
}

/// How a capture is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct CaptureQuery {
    /// `json` when left out; `pcapng` has an interface for each node, port and direction.
    #[serde(default)]
    #[param(inline)]
    pub format: CaptureFormat,
}

/// Form of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum CaptureFormat {
    /// What was seen, and what each node changed.
    #[default]
    Json,
    /// The frames, for Wireshark and tshark.
    Pcapng,
}

/// One packet of a group, as every node of its tree saw it. Kept in memory only, the last 32.
///
/// A frame is captured up to the end of its BTH, at most 192 octets: never of the payload, and no RETH with its R_Key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Capture`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Names the capture.
    pub id: String,
    /// The group.
    pub group: String,
    /// PSN of the packet, as the source sends it.
    pub psn: u32,
    /// How far it is.
    pub state: CaptureState,
    /// Who armed it.
    pub by: String,
    /// When, nanoseconds since the Unix epoch.
    pub armed_unix_ns: u64,
    /// How long the packet is waited for, in nanoseconds.
    pub within_ns: u64,
    /// PSNs that the source sent since then, as the headend reports it; `null` while it does not.
    pub sent: Option<u64>,
    /// Every place of the tree in its order, headend first: at each node the arrival, then the copies.
    pub hops: Vec<CaptureHop>,
    /// Nodes that do not capture: their agent is not connected, or of an earlier version.
    pub unable: Vec<String>,
    /// Places and frames beyond the first 4096.
    pub left: u64,
}

/// How far a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum CaptureState {
    /// Frames are waited for.
    Armed,
    /// Every frame is there.
    Complete,
    /// The time has passed, and frames are missing.
    Expired,
}

/// Whether a frame arrived or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum CaptureDirection {
    /// As it arrived, before the node changed it.
    In,
    /// A copy, as it left.
    Out,
}

/// A place where the packet is to be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptureHop {
    /// The node.
    pub node: String,
    /// Whether it arrives there or leaves.
    pub direction: CaptureDirection,
    /// The port.
    pub port: String,
    /// Node or host at the far end; `null` for a frame that the tree has no place for.
    pub peer: Option<String>,
    /// What was seen; `null` if nothing was.
    pub frame: Option<CaptureFrame>,
}

/// A frame that a node saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptureFrame {
    /// When, on the node's clock, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Octets of the whole frame.
    pub length_bytes: u32,
    /// The first octets up to the end of the BTH, at most 192, in hexadecimal digits.
    pub head: String,
    /// Where the innermost IPv6 header is in the frame.
    pub inner_at: u32,
    /// The innermost headers (IPv6, UDP, BTH), which may be behind the first 192 octets, in hexadecimal digits.
    pub inner: String,
    /// The encapsulation; `null` of a plain frame.
    pub outer: Option<CaptureOuter>,
    /// Innermost Source Address.
    #[schema(value_type = String)]
    pub source: Ipv6Addr,
    /// Innermost Destination Address.
    #[schema(value_type = String)]
    pub destination: Ipv6Addr,
    /// Its Hop Limit.
    pub hop_limit: u8,
    /// Its Traffic Class, with the ECN field.
    pub traffic_class: u8,
    /// OpCode of the BTH.
    pub opcode: u8,
    /// Destination QP.
    pub dest_qp: u32,
    /// PSN.
    pub psn: u32,
    /// What is different from the place before: from the node's own arrival, or from what the parent sent.
    pub changes: Vec<CaptureChange>,
    /// What is not as the programs of the nodes have it.
    pub unexpected: Vec<CaptureDifference>,
}

/// The encapsulation of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptureOuter {
    /// Outer Source Address.
    #[schema(value_type = String)]
    pub source: Ipv6Addr,
    /// Outer Destination Address.
    #[schema(value_type = String)]
    pub destination: Ipv6Addr,
    /// Outer Hop Limit.
    pub hop_limit: u8,
    /// Outer Traffic Class.
    pub traffic_class: u8,
    /// Segments Left of the SRH.
    pub segments_left: u8,
}

/// A field that is different from the place before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptureChange {
    /// The field, or headers as a whole.
    #[schema(value_type = String)]
    pub field: core::CapturedField,
    /// Where it is in this frame.
    pub at: u32,
    /// What it was, in hexadecimal digits; empty where it is new.
    pub before: String,
    /// What it is; empty where it is gone.
    pub after: String,
    /// Who changed it, and why.
    pub why: String,
}

/// A field that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptureDifference {
    /// The field, or headers as a whole.
    #[schema(value_type = String)]
    pub field: core::CapturedField,
    /// Where it is in this frame.
    pub at: u32,
    /// What it has to be.
    pub expected: String,
}

/// A capture in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaptureItem {
    /// Names the capture.
    pub id: String,
    /// PSN of the packet, as the source sends it.
    pub psn: u32,
    /// How far it is.
    pub state: CaptureState,
    /// Who armed it.
    pub by: String,
    /// When, nanoseconds since the Unix epoch.
    pub armed_unix_ns: u64,
    /// Frames that were seen.
    pub seen: u64,
    /// Places where it is to be seen.
    pub places: u64,
}

/// A packet of a group as it has to be at every place, from the programs of its nodes: no packet is captured for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedPacket {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `ExpectedPacket`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// The group.
    pub group: String,
    /// Every place of the tree in its order, headend first: at each node the arrival, then the copies. None without a tree.
    pub hops: Vec<ExpectedHop>,
    /// Places beyond the first 4096.
    pub left: u64,
}

/// A place, and the packet there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedHop {
    /// The node.
    pub node: String,
    /// Whether it arrives there or leaves.
    pub direction: CaptureDirection,
    /// The port.
    pub port: String,
    /// Node or host at the far end.
    pub peer: String,
    /// The fields behind the link-layer addresses, in the order of the frame.
    pub fields: Vec<ExpectedField>,
}

/// A field as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedField {
    /// The field.
    #[schema(value_type = String)]
    pub field: core::CapturedField,
    /// Where it is in the frame.
    pub at: u32,
    /// Its octets in hexadecimal digits, with a dot for each digit that the packet decides.
    pub octets: String,
    /// What that is.
    pub value: String,
    /// Which node makes it other than at the place before, and why; empty where it stays.
    pub why: String,
}

impl ExpectedPacket {
    /// The packet of a group; `plan`: none without a tree.
    pub fn new(group: String, plan: Option<&core::CapturePlan>) -> Self {
        let hops = plan.into_iter().flat_map(core::CapturePlan::expected).map(|(place, fields)| ExpectedHop {
            node: place.node.clone(),
            direction: place.direction().into(),
            port: place.port.clone(),
            peer: place.peer.clone(),
            fields: fields.into_iter().map(Into::into).collect(),
        });
        let left = plan.map_or(0, |plan| plan.left_out);
        Self { api_version: ApiVersion, kind: Kind::ExpectedPacket, group, hops: hops.collect(), left }
    }
}

impl CaptureItem {
    /// The capture as it is now.
    pub fn new(of: &core::Capture, state: core::CaptureState) -> Self {
        Self {
            id: format!("{:08x}", of.id),
            psn: of.psn.get(),
            state: state.into(),
            by: of.by.to_string(),
            armed_unix_ns: of.armed.nanos(),
            seen: of.seen() as u64,
            places: of.plan.places.len() as u64,
        }
    }
}

impl Capture {
    /// The capture as it is now.
    pub fn new(of: &core::Capture, state: core::CaptureState, sent: Option<u64>) -> Self {
        Self {
            api_version: ApiVersion,
            kind: Kind::Capture,
            id: format!("{:08x}", of.id),
            group: of.plan.group.clone(),
            psn: of.psn.get(),
            state: state.into(),
            by: of.by.to_string(),
            armed_unix_ns: of.armed.nanos(),
            within_ns: nanos(of.within),
            sent,
            hops: of.hops().into_iter().map(Into::into).collect(),
            unable: of.plan.unable.clone(),
            left: of.left_out,
        }
    }
}

impl From<core::CaptureState> for CaptureState {
    fn from(state: core::CaptureState) -> Self {
        match state {
            core::CaptureState::Armed => Self::Armed,
            core::CaptureState::Complete => Self::Complete,
            core::CaptureState::Expired => Self::Expired,
        }
    }
}

impl From<model::CaptureDirection> for CaptureDirection {
    fn from(direction: model::CaptureDirection) -> Self {
        match direction {
            model::CaptureDirection::In => Self::In,
            model::CaptureDirection::Out => Self::Out,
        }
    }
}

impl From<core::ExpectedField> for ExpectedField {
    fn from(of: core::ExpectedField) -> Self {
        let core::ExpectedField { field, at, octets, value, why } = of;
        Self { field, at, octets, value, why }
    }
}

impl From<core::Hop> for CaptureHop {
    fn from(hop: core::Hop) -> Self {
        let direction = hop.direction.into();
        Self { node: hop.node, direction, port: hop.port, peer: hop.peer, frame: hop.frame.map(Into::into) }
    }
}

impl From<core::HopFrame> for CaptureFrame {
    fn from(frame: core::HopFrame) -> Self {
        let core::HopFrame { raw, outer, inner, changes, unexpected } = frame;
        Self {
            time_unix_ns: raw.time.nanos(),
            length_bytes: raw.length,
            head: hex(&raw.head),
            inner_at: raw.inner_at,
            inner: hex(&raw.inner),
            outer: outer.map(Into::into),
            source: inner.source,
            destination: inner.destination,
            hop_limit: inner.hop_limit,
            traffic_class: inner.traffic_class,
            opcode: inner.opcode,
            dest_qp: inner.dest_qp,
            psn: inner.psn,
            changes: changes.into_iter().map(Into::into).collect(),
            unexpected: unexpected.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<core::Difference> for CaptureDifference {
    fn from(of: core::Difference) -> Self {
        let core::Difference { field, at, expected } = of;
        Self { field, at, expected }
    }
}

impl From<core::OuterHeaders> for CaptureOuter {
    fn from(outer: core::OuterHeaders) -> Self {
        let core::OuterHeaders { source, destination, hop_limit, traffic_class, segments_left } = outer;
        Self { source, destination, hop_limit, traffic_class, segments_left }
    }
}

impl From<core::FieldChange> for CaptureChange {
    fn from(change: core::FieldChange) -> Self {
        let core::FieldChange { field, at, before, after, why } = change;
        Self { field, at, before: hex(&before), after: hex(&after), why }
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
