// SPDX-License-Identifier: Apache-2.0
//! One group's part at one node.

use std::time::Duration;

use canopy_model::FieldError;
use canopy_model::group::{DEFAULT_FLIGHT, MAX_FLIGHT};
use canopy_model::ids::{GroupId, PortIndex, Psn, Qpn, TreeId, check_name};
use canopy_model::member::MemoryRegion;
use canopy_model::node_spec::{
    AggregationParams, Branch, BranchKind, EndMtList, GroupProgram, Headend, MAX_BRANCHES, MAX_RECEIVERS_PER_TLV,
    Multicast, SourceQp, Upstream,
};
use canopy_units::nanos;

use crate::field::{address, each, octets, optional_address, optional_octets, required, within};
use crate::pb;

/// First PSN distance that a 24-bit PSN cannot be unwrapped over (decisions 3.3).
const WINDOW_LIMIT: u32 = 1 << 22;

impl TryFrom<pb::GroupProgram> for GroupProgram {
    type Error = FieldError;
    fn try_from(wire: pb::GroupProgram) -> Result<Self, FieldError> {
        check_name("name", &wire.name)?;
        if wire.branches.len() > MAX_BRANCHES {
            return Err(FieldError::new(
                "branches",
                format!("{} branches, a node serves at most {MAX_BRANCHES} per group", wire.branches.len()),
            ));
        }
        Ok(Self {
            group_id: GroupId::new("group_id", wire.group_id.into())?,
            name: wire.name,
            epoch: wire.epoch,
            tree_id: TreeId::new("tree_id", wire.tree_id.into())?,
            proxy: address("proxy", &wire.proxy)?,
            designated_qpn: Qpn::new("designated_qpn", wire.designated_qpn.into())?,
            start_psn: Psn::new("start_psn", wire.start_psn.into())?,
            source: SourceQp {
                address: address("source_address", &wire.source_address)?,
                qpn: Qpn::new("source_qpn", wire.source_qpn.into())?,
                accepts_roce: wire.source_accepts_roce,
            },
            replication_sid: optional_address("replication_sid", &wire.replication_sid)?,
            multicast: wire.multicast.map(|m| within("multicast", m.try_into())).transpose()?,
            headend: wire.headend.map(|h| within("headend", h.try_into())).transpose()?,
            headend_address: optional_address("headend_address", &wire.headend_address)?,
            upstream: within("upstream", required("upstream", wire.upstream)?.try_into())?,
            alternate_upstream: (wire.alternate_upstream != 0)
                .then(|| PortIndex::new("alternate_upstream", wire.alternate_upstream.into()))
                .transpose()?,
            branches: each("branches", wire.branches)?,
            receivers_provisioned: wire.receivers_provisioned,
            write_base_va: wire.write_base_va,
            write_rkey: wire.write_rkey,
            params: within("params", required("params", wire.params)?.try_into())?,
            branch_metrics: wire.branch_metrics,
            largest_packet: wire.largest_packet,
        })
    }
}

impl From<&GroupProgram> for pb::GroupProgram {
    fn from(p: &GroupProgram) -> Self {
        Self {
            group_id: p.group_id.get(),
            name: p.name.clone(),
            epoch: p.epoch,
            tree_id: p.tree_id.get(),
            proxy: octets(p.proxy),
            designated_qpn: p.designated_qpn.get(),
            start_psn: p.start_psn.get(),
            source_address: octets(p.source.address),
            source_qpn: p.source.qpn.get(),
            source_accepts_roce: p.source.accepts_roce,
            replication_sid: optional_octets(p.replication_sid),
            multicast: p.multicast.map(Into::into),
            headend: p.headend.as_ref().map(Into::into),
            headend_address: optional_octets(p.headend_address),
            upstream: Some((&p.upstream).into()),
            alternate_upstream: p.alternate_upstream.map_or(0, |port| u32::from(port.get())),
            branches: p.branches.iter().map(Into::into).collect(),
            receivers_provisioned: p.receivers_provisioned,
            write_base_va: p.write_base_va,
            write_rkey: p.write_rkey,
            params: Some(p.params.into()),
            branch_metrics: p.branch_metrics,
            largest_packet: p.largest_packet,
        }
    }
}

impl TryFrom<pb::Multicast> for Multicast {
    type Error = FieldError;
    fn try_from(wire: pb::Multicast) -> Result<Self, FieldError> {
        let (source, group) = (address("source", &wire.source)?, address("group", &wire.group)?);
        if source.is_multicast() {
            return Err(FieldError::new("source", format!("{source} is a multicast address, a node's is unicast")));
        }
        if !group.is_multicast() {
            return Err(FieldError::new("group", format!("{group} is not a multicast address")));
        }
        Ok(Self { source, group })
    }
}

impl From<Multicast> for pb::Multicast {
    fn from(m: Multicast) -> Self {
        Self { source: octets(m.source), group: octets(m.group) }
    }
}

impl TryFrom<pb::Headend> for Headend {
    type Error = FieldError;
    fn try_from(wire: pb::Headend) -> Result<Self, FieldError> {
        // RFC 8754 section 2: a Segment List has at least one entry, and Last Entry is 8 bits.
        if wire.segments.is_empty() || wire.segments.len() > 127 {
            return Err(FieldError::new(
                "segments",
                format!("{} segments, a Segment List has 1..=127", wire.segments.len()),
            ));
        }
        let segments = wire
            .segments
            .iter()
            .enumerate()
            .map(|(i, s)| address(&format!("segments[{i}]"), s))
            .collect::<Result<_, _>>()?;
        let max_flight = if wire.max_flight == 0 { DEFAULT_FLIGHT } else { wire.max_flight };
        if max_flight > MAX_FLIGHT {
            return Err(FieldError::new("max_flight", format!("{max_flight} packets is outside 1..={MAX_FLIGHT}")));
        }
        Ok(Self {
            source_port: PortIndex::new("source_port", wire.source_port.into())?,
            segments,
            tlvs: each("tlvs", wire.tlvs)?,
            max_flight,
            open: !wire.closed,
            held: wire.held,
        })
    }
}

impl From<&Headend> for pb::Headend {
    fn from(h: &Headend) -> Self {
        Self {
            source_port: u32::from(h.source_port.get()),
            segments: h.segments.iter().copied().map(octets).collect(),
            tlvs: h.tlvs.iter().map(Into::into).collect(),
            max_flight: h.max_flight,
            closed: !h.open,
            held: h.held,
        }
    }
}

impl TryFrom<pb::EndMtList> for EndMtList {
    type Error = FieldError;
    fn try_from(wire: pb::EndMtList) -> Result<Self, FieldError> {
        if wire.receivers.is_empty() || wire.receivers.len() > MAX_RECEIVERS_PER_TLV {
            return Err(FieldError::new(
                "receivers",
                format!("{} receivers, one End.MT TLV holds 1..={MAX_RECEIVERS_PER_TLV}", wire.receivers.len()),
            ));
        }
        let receiver = |(i, r): (usize, &pb::ReceiverQp)| {
            Ok((
                address(&format!("receivers[{i}].address"), &r.address)?,
                Qpn::new(&format!("receivers[{i}].qpn"), r.qpn.into())?,
            ))
        };
        Ok(Self {
            edge: address("edge", &wire.edge)?,
            receivers: wire.receivers.iter().enumerate().map(receiver).collect::<Result<_, _>>()?,
        })
    }
}

impl From<&EndMtList> for pb::EndMtList {
    fn from(list: &EndMtList) -> Self {
        let receivers =
            list.receivers.iter().map(|(a, q)| pb::ReceiverQp { address: octets(*a), qpn: q.get() }).collect();
        Self { edge: octets(list.edge), receivers }
    }
}

impl TryFrom<pb::Upstream> for Upstream {
    type Error = FieldError;
    fn try_from(wire: pb::Upstream) -> Result<Self, FieldError> {
        Ok(Self {
            source_address: address("source_address", &wire.source_address)?,
            destination: address("destination", &wire.destination)?,
            dest_qp: Qpn::new("dest_qp", wire.dest_qp.into())?,
            port: PortIndex::new("port", wire.port.into())?,
            next_hop: address("next_hop", &wire.next_hop)?,
        })
    }
}

impl From<&Upstream> for pb::Upstream {
    fn from(u: &Upstream) -> Self {
        Self {
            source_address: octets(u.source_address),
            destination: octets(u.destination),
            dest_qp: u.dest_qp.get(),
            port: u32::from(u.port.get()),
            next_hop: octets(u.next_hop),
        }
    }
}

impl TryFrom<pb::Branch> for Branch {
    type Error = FieldError;
    fn try_from(wire: pb::Branch) -> Result<Self, FieldError> {
        let kind = match required("kind", wire.kind)? {
            pb::branch::Kind::Node(node) => BranchKind::Node { sid: address("node.sid", &node.sid)? },
            pb::branch::Kind::Receiver(receiver) => BranchKind::Receiver {
                qpn: Qpn::new("receiver.qpn", receiver.qpn.into())?,
                memory: receiver.memory.map(|m| within("receiver.memory", m.try_into())).transpose()?,
            },
        };
        Ok(Self {
            address: address("address", &wire.address)?,
            port: PortIndex::new("port", wire.port.into())?,
            next_hop: address("next_hop", &wire.next_hop)?,
            kind,
            at_boundary: wire.at_boundary,
            start: wire.start.map(|start| within("start", start.try_into())).transpose()?,
            since: wire.since,
            standby: wire.standby,
            lost: wire.lost,
        })
    }
}

impl From<&Branch> for pb::Branch {
    fn from(b: &Branch) -> Self {
        let kind = match b.kind {
            BranchKind::Node { sid } => pb::branch::Kind::Node(pb::BranchNode { sid: octets(sid) }),
            BranchKind::Receiver { qpn, memory } => {
                pb::branch::Kind::Receiver(pb::BranchReceiver { qpn: qpn.get(), memory: memory.map(Into::into) })
            }
        };
        Self {
            address: octets(b.address),
            port: u32::from(b.port.get()),
            next_hop: octets(b.next_hop),
            kind: Some(kind),
            at_boundary: b.at_boundary,
            start: b.start.map(Into::into),
            since: b.since,
            standby: b.standby,
            lost: b.lost,
        }
    }
}

impl TryFrom<pb::MemoryRegion> for MemoryRegion {
    type Error = FieldError;
    fn try_from(wire: pb::MemoryRegion) -> Result<Self, FieldError> {
        if wire.length == 0 || wire.va.checked_add(wire.length).is_none() {
            return Err(FieldError::new(
                "length",
                format!("{} bytes at {:#x} is empty or wraps the address space", wire.length, wire.va),
            ));
        }
        Ok(Self { va: wire.va, rkey: wire.rkey, length: wire.length })
    }
}

impl From<MemoryRegion> for pb::MemoryRegion {
    fn from(m: MemoryRegion) -> Self {
        Self { va: m.va, rkey: m.rkey, length: m.length }
    }
}

impl TryFrom<pb::AggregationParams> for AggregationParams {
    type Error = FieldError;
    fn try_from(wire: pb::AggregationParams) -> Result<Self, FieldError> {
        if wire.window == 0 || wire.window >= WINDOW_LIMIT {
            return Err(FieldError::new(
                "window",
                format!("{} packets is outside 1..={}", wire.window, WINDOW_LIMIT - 1),
            ));
        }
        if wire.cnp_window_ns == 0 {
            return Err(FieldError::new("cnp_window_ns", "0 ns is not a window"));
        }
        // A ledger of an older agent does not have it: static forwarding must survive the upgrade.
        let stall_after = match wire.stall_after_ns {
            0 => Self::default().stall_after,
            given => Duration::from_nanos(given),
        };
        Ok(Self {
            window: wire.window,
            reack_interval: Duration::from_nanos(wire.reack_interval_ns),
            nak_merge: Duration::from_nanos(wire.nak_merge_ns),
            cnp_window: Duration::from_nanos(wire.cnp_window_ns),
            cnp_min_interval: Duration::from_nanos(wire.cnp_min_interval_ns),
            stall_after,
        })
    }
}

impl From<AggregationParams> for pb::AggregationParams {
    fn from(p: AggregationParams) -> Self {
        Self {
            window: p.window,
            reack_interval_ns: nanos(p.reack_interval),
            nak_merge_ns: nanos(p.nak_merge),
            cnp_window_ns: nanos(p.cnp_window),
            cnp_min_interval_ns: nanos(p.cnp_min_interval),
            stall_after_ns: nanos(p.stall_after),
        }
    }
}
