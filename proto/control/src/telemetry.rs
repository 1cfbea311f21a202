// SPDX-License-Identifier: Apache-2.0
//! Counters, aggregation state and events.

use std::time::Duration;

use canopy_model::FieldError;
use canopy_model::ids::{GroupId, PortIndex, Psn};
use canopy_model::reach::{EchoTally, HostReach};
use canopy_model::telemetry::{
    BranchTelemetry, DropCount, Event, EventCode, FatalNak, GroupTelemetry, LateState, LinkLoss, LinkRtt,
};
use canopy_model::topology::MAX_LINK_RTT;
use canopy_units::{Octets, UnixTime, UnwrappedPsn, nanos};

use crate::field::{address, each, octets, optional_address, optional_octets, required, within};
use crate::pb;
use crate::status::{group_or_zero, optional_group};

impl TryFrom<pb::GroupTelemetry> for GroupTelemetry {
    type Error = FieldError;
    fn try_from(wire: pb::GroupTelemetry) -> Result<Self, FieldError> {
        Ok(Self {
            group_id: GroupId::new("group_id", wire.group_id.into())?,
            epoch: wire.epoch,
            high: UnwrappedPsn(wire.high),
            min_next: wire.min_next.map(UnwrappedPsn),
            acks_in: wire.acks_in,
            acks_out: wire.acks_out,
            naks_in: wire.naks_in,
            naks_out: wire.naks_out,
            cnps_in: wire.cnps_in,
            cnps_out: wire.cnps_out,
            data_packets: wire.data_packets,
            fresh_packets: wire.fresh_packets,
            data_octets: Octets(wire.data_bytes),
            branches: each("branches", wire.branches)?,
            drops: wire.drops.into_iter().map(Into::into).collect(),
        })
    }
}

impl From<&GroupTelemetry> for pb::GroupTelemetry {
    fn from(t: &GroupTelemetry) -> Self {
        Self {
            group_id: t.group_id.get(),
            epoch: t.epoch,
            high: t.high.get(),
            min_next: t.min_next.map(UnwrappedPsn::get),
            acks_in: t.acks_in,
            acks_out: t.acks_out,
            naks_in: t.naks_in,
            naks_out: t.naks_out,
            cnps_in: t.cnps_in,
            cnps_out: t.cnps_out,
            data_packets: t.data_packets,
            fresh_packets: t.fresh_packets,
            data_bytes: t.data_octets.get(),
            branches: t.branches.iter().map(Into::into).collect(),
            drops: t.drops.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::BranchTelemetry> for BranchTelemetry {
    type Error = FieldError;
    fn try_from(wire: pb::BranchTelemetry) -> Result<Self, FieldError> {
        let psn = |field: &str, value: Option<u32>| value.map(|v| Psn::new(field, v.into()).map(Psn::get)).transpose();
        Ok(Self {
            address: address("address", &wire.address)?,
            next: wire.next.map(UnwrappedPsn),
            unconfirmed: wire.unconfirmed,
            ack_psn: psn("ack_psn", wire.ack_psn)?,
            epsn: psn("epsn", wire.epsn)?,
            late: late_from_wire(wire.late()),
            start: wire.start.map(|start| within("start", start.try_into())).transpose()?,
            fatal: wire.fatal.map(TryInto::try_into).transpose()?,
            ccount: wire.ccount,
            last_feedback: wire.last_feedback_ns.map(Duration::from_nanos),
            packets: wire.packets,
            octets: Octets(wire.bytes),
            completed_min: wire.completed_min,
        })
    }
}

impl From<&BranchTelemetry> for pb::BranchTelemetry {
    fn from(b: &BranchTelemetry) -> Self {
        Self {
            address: octets(b.address),
            next: b.next.map(UnwrappedPsn::get),
            unconfirmed: b.unconfirmed,
            ack_psn: b.ack_psn,
            epsn: b.epsn,
            fatal: b.fatal.map(Into::into),
            late: b.late.map_or(pb::LateState::Unspecified, Into::into).into(),
            start: b.start.map(Into::into),
            ccount: b.ccount,
            last_feedback_ns: b.last_feedback.map(nanos),
            packets: b.packets,
            bytes: b.octets.get(),
            completed_min: b.completed_min,
        }
    }
}

/// A state of a later version is none.
fn late_from_wire(state: pb::LateState) -> Option<LateState> {
    Some(match state {
        pb::LateState::Probing => LateState::Probing,
        pb::LateState::Pending => LateState::Pending,
        pb::LateState::Started => LateState::Started,
        pb::LateState::NotFresh => LateState::NotFresh,
        pb::LateState::Lost => LateState::Lost,
        pb::LateState::Unspecified => return None,
    })
}

impl From<LateState> for pb::LateState {
    fn from(state: LateState) -> Self {
        match state {
            LateState::Probing => Self::Probing,
            LateState::Pending => Self::Pending,
            LateState::Started => Self::Started,
            LateState::NotFresh => Self::NotFresh,
            LateState::Lost => Self::Lost,
        }
    }
}

impl TryFrom<pb::FatalNak> for FatalNak {
    type Error = FieldError;
    fn try_from(wire: pb::FatalNak) -> Result<Self, FieldError> {
        let fatal = |syndrome: &u8| (0x61..=0x64).contains(syndrome);
        let syndrome = u8::try_from(wire.syndrome).ok().filter(fatal);
        let syndrome = syndrome.ok_or_else(|| FieldError::new("fatal.syndrome", "must be 97..=100".to_owned()))?;
        Ok(Self { syndrome, psn: Psn::new("fatal.psn", wire.psn.into())?.get() })
    }
}

impl From<FatalNak> for pb::FatalNak {
    fn from(nak: FatalNak) -> Self {
        Self { syndrome: nak.syndrome.into(), psn: nak.psn }
    }
}

impl From<pb::DropCount> for DropCount {
    fn from(wire: pb::DropCount) -> Self {
        Self {
            reason: wire.reason,
            name: wire.name,
            packets: wire.packets,
            port: Some(wire.port).filter(|p| !p.is_empty()),
        }
    }
}

impl From<&DropCount> for pb::DropCount {
    fn from(d: &DropCount) -> Self {
        Self { reason: d.reason, name: d.name.clone(), packets: d.packets, port: d.port.clone().unwrap_or_default() }
    }
}

impl TryFrom<pb::LinkRtt> for LinkRtt {
    type Error = FieldError;
    fn try_from(wire: pb::LinkRtt) -> Result<Self, FieldError> {
        let pb::LinkRtt { port, rtt_ns, samples, lost } = wire;
        let longest = nanos(MAX_LINK_RTT);
        if let Some(rtt_ns) = rtt_ns.filter(|rtt| !(1..=longest).contains(rtt)) {
            let why = format!("{rtt_ns} is not a round-trip time: use 1..={longest} ns");
            return Err(FieldError::new("rtt_ns", why));
        }
        Ok(Self { port: PortIndex::new("port", port.into())?, rtt: rtt_ns.map(Duration::from_nanos), samples, lost })
    }
}

impl From<&LinkRtt> for pb::LinkRtt {
    fn from(link: &LinkRtt) -> Self {
        Self { port: link.port.get().into(), rtt_ns: link.rtt.map(nanos), samples: link.samples, lost: link.lost }
    }
}

impl TryFrom<pb::LinkLoss> for LinkLoss {
    type Error = FieldError;
    fn try_from(wire: pb::LinkLoss) -> Result<Self, FieldError> {
        let pb::LinkLoss { port, requests, lost, queue_drops } = wire;
        if lost > requests {
            return Err(FieldError::new("lost", format!("{lost} is more than the {requests} requests")));
        }
        Ok(Self { port: PortIndex::new("port", port.into())?, requests, lost, queue_drops })
    }
}

impl From<&LinkLoss> for pb::LinkLoss {
    fn from(link: &LinkLoss) -> Self {
        let LinkLoss { port, requests, lost, queue_drops } = *link;
        Self { port: port.get().into(), requests, lost, queue_drops }
    }
}

impl TryFrom<pb::Event> for Event {
    type Error = FieldError;
    fn try_from(wire: pb::Event) -> Result<Self, FieldError> {
        Ok(Self {
            time: UnixTime::from_nanos(wire.time_unix_ns),
            code: event_code(wire.code)?,
            group: optional_group("group_id", wire.group_id)?,
            branch: optional_address("branch", &wire.branch)?,
            epoch: wire.epoch,
            detail: wire.detail,
            reach: wire.reach.map(|reach| within("reach", reach.try_into())).transpose()?,
        })
    }
}

impl From<&Event> for pb::Event {
    fn from(e: &Event) -> Self {
        Self {
            time_unix_ns: e.time.nanos(),
            code: event_code_to_wire(e.code).into(),
            group_id: group_or_zero(e.group),
            branch: optional_octets(e.branch),
            epoch: e.epoch,
            detail: e.detail.clone(),
            reach: e.reach.map(Into::into),
        }
    }
}

impl TryFrom<pb::HostReach> for HostReach {
    type Error = FieldError;
    fn try_from(wire: pb::HostReach) -> Result<Self, FieldError> {
        Self::new(
            within("small", required("small", wire.small)?.try_into())?,
            within("large", required("large", wire.large)?.try_into())?,
        )
    }
}

impl From<HostReach> for pb::HostReach {
    fn from(HostReach { small, large }: HostReach) -> Self {
        Self { small: Some(small.into()), large: Some(large.into()) }
    }
}

impl TryFrom<pb::EchoTally> for EchoTally {
    type Error = FieldError;
    fn try_from(wire: pb::EchoTally) -> Result<Self, FieldError> {
        let of_8_bits = |field: &str, value: u32| {
            u8::try_from(value).map_err(|_| FieldError::new(field, format!("{value} is more than 255")))
        };
        let bytes = u16::try_from(wire.bytes)
            .map_err(|_| FieldError::new("bytes", format!("{} is more than 65535", wire.bytes)))?;
        Ok(Self {
            bytes,
            requests: of_8_bits("requests", wire.requests)?,
            replies: of_8_bits("replies", wire.replies)?,
        })
    }
}

impl From<EchoTally> for pb::EchoTally {
    fn from(EchoTally { bytes, requests, replies }: EchoTally) -> Self {
        Self { bytes: bytes.into(), requests: requests.into(), replies: replies.into() }
    }
}

/// A code that this version does not know is of a later one.
fn event_code(wire: i32) -> Result<EventCode, FieldError> {
    Ok(match pb::EventCode::try_from(wire) {
        Ok(pb::EventCode::Unspecified) => return Err(FieldError::new("code", "is missing")),
        Ok(pb::EventCode::BranchStalled) => EventCode::BranchStalled,
        Ok(pb::EventCode::BranchRecovered) => EventCode::BranchRecovered,
        Ok(pb::EventCode::FatalNak) => EventCode::FatalNak,
        Ok(pb::EventCode::FirstData) => EventCode::FirstData,
        Ok(pb::EventCode::SpecRefused) => EventCode::SpecRefused,
        Ok(pb::EventCode::SampleFailed) => EventCode::SampleFailed,
        Ok(pb::EventCode::TelemetryDropped) => EventCode::TelemetryDropped,
        Ok(pb::EventCode::BoundaryRestored) => EventCode::BoundaryRestored,
        Ok(pb::EventCode::HostProbed) => EventCode::HostProbed,
        Err(_) => EventCode::Unknown,
    })
}

fn event_code_to_wire(code: EventCode) -> pb::EventCode {
    match code {
        EventCode::BranchStalled => pb::EventCode::BranchStalled,
        EventCode::BranchRecovered => pb::EventCode::BranchRecovered,
        EventCode::FatalNak => pb::EventCode::FatalNak,
        EventCode::FirstData => pb::EventCode::FirstData,
        EventCode::SpecRefused => pb::EventCode::SpecRefused,
        EventCode::SampleFailed => pb::EventCode::SampleFailed,
        EventCode::TelemetryDropped => pb::EventCode::TelemetryDropped,
        EventCode::BoundaryRestored => pb::EventCode::BoundaryRestored,
        EventCode::HostProbed => pb::EventCode::HostProbed,
        // The number of a later version is not kept, and no other code is true.
        EventCode::Unknown => pb::EventCode::Unspecified,
    }
}

#[cfg(test)]
mod tests {
    use canopy_model::member::LateStart;

    use super::*;

    fn sample() -> GroupTelemetry {
        let branch = |next: Option<u64>, ack_psn, last_feedback_ns: Option<u64>| BranchTelemetry {
            address: "2001:db8::7".parse().unwrap(),
            next: next.map(UnwrappedPsn),
            unconfirmed: false,
            ack_psn,
            epsn: Some(0xFF_FFFF),
            fatal: Some(FatalNak { syndrome: 0x62, psn: 0xAB_CDEF }),
            late: Some(LateState::NotFresh),
            start: Some(LateStart { shift: 0xFF_FFFF, msn_base: 0x12_3456 }),
            ccount: 3,
            last_feedback: last_feedback_ns.map(Duration::from_nanos),
            packets: 4,
            octets: Octets(5),
            completed_min: next,
        };
        GroupTelemetry {
            group_id: GroupId::new("g", 1).unwrap(),
            epoch: 2,
            high: UnwrappedPsn(3),
            min_next: Some(UnwrappedPsn(0)),
            acks_in: 4,
            acks_out: 5,
            naks_in: 6,
            naks_out: 7,
            cnps_in: 8,
            cnps_out: 9,
            data_packets: 10,
            fresh_packets: Some(0),
            data_octets: Octets(11),
            branches: vec![branch(None, None, None), branch(Some(0), Some(0), Some(0))],
            drops: vec![
                DropCount { reason: 1, name: "branch_unknown".into(), packets: 2, port: None },
                DropCount { reason: 34, name: "edge_source".into(), packets: 3, port: Some("eth1".into()) },
            ],
        }
    }

    #[test]
    fn absent_and_zero_stay_apart_on_the_wire() {
        assert_eq!(GroupTelemetry::try_from(pb::GroupTelemetry::from(&sample())).unwrap(), sample());
        let mut wire = pb::GroupTelemetry::from(&sample());
        wire.branches[1].ack_psn = Some(1 << 24);
        assert!(
            GroupTelemetry::try_from(wire)
                .unwrap_err()
                .to_string()
                .starts_with("branches[1].ack_psn: 16777216 is not a PSN")
        );
    }

    #[test]
    fn round_trip_times_survive_the_wire_and_impossible_ones_do_not() {
        let link = |rtt_ns: Option<u64>| LinkRtt {
            port: PortIndex::new("p", 3).unwrap(),
            rtt: rtt_ns.map(Duration::from_nanos),
            samples: u64::MAX,
            lost: 2,
        };
        for good in [link(None), link(Some(1)), link(Some(10_000_000_000))] {
            assert_eq!(LinkRtt::try_from(pb::LinkRtt::from(&good)).unwrap(), good);
        }
        for bad in [link(Some(0)), link(Some(10_000_000_001))] {
            assert_eq!(LinkRtt::try_from(pb::LinkRtt::from(&bad)).unwrap_err().field, "rtt_ns");
        }
        assert_eq!(LinkRtt::try_from(pb::LinkRtt::default()).unwrap_err().field, "port");
    }

    #[test]
    fn losses_survive_the_wire_and_nonsense_is_refused_by_field() {
        let good = LinkLoss { port: PortIndex::new("port", 3).unwrap(), requests: 7, lost: 7, queue_drops: u64::MAX };
        let wire = pb::LinkLoss::from(&good);
        assert_eq!(LinkLoss::try_from(wire).unwrap(), good);
        assert_eq!(LinkLoss::try_from(pb::LinkLoss { lost: 8, ..wire }).unwrap_err().field, "lost");
        assert_eq!(LinkLoss::try_from(pb::LinkLoss { port: 0, ..wire }).unwrap_err().field, "port");
    }

    #[test]
    fn events_survive_the_wire() {
        let event = |group, branch| Event {
            time: UnixTime::from_nanos(1),
            code: EventCode::FatalNak,
            group,
            branch,
            epoch: branch.map(|_| 7),
            detail: "x".into(),
            reach: None,
        };
        for e in [event(None, None), event(GroupId::new("g", 5).ok(), Some("::1".parse().unwrap()))] {
            assert_eq!(Event::try_from(pb::Event::from(&e)).unwrap(), e);
        }
        assert!(Event::try_from(pb::Event::default()).unwrap_err().to_string().starts_with("code: "));
        let later = pb::Event { code: 99, ..pb::Event::default() };
        let later = Event::try_from(later).unwrap();
        assert_eq!(later.code, EventCode::Unknown, "of a later version");
        assert_eq!(pb::Event::from(&later).code(), pb::EventCode::Unspecified, "not another code");
    }

    #[test]
    fn what_a_host_answers_survives_the_wire_and_nonsense_is_refused_by_field() {
        let tally = |bytes, requests, replies| EchoTally { bytes, requests, replies };
        let reach = HostReach::new(tally(64, 1, 1), tally(4180, 2, 0)).unwrap();
        let wire = pb::HostReach::from(reach);
        assert_eq!(HostReach::try_from(wire), Ok(reach));
        let event = pb::Event { code: 9, time_unix_ns: 1, reach: Some(wire), ..pb::Event::default() };
        let parsed = Event::try_from(event.clone()).unwrap();
        assert_eq!((parsed.code, parsed.reach), (EventCode::HostProbed, Some(reach)));
        assert_eq!(pb::Event::from(&parsed), event);
        let field = |large| {
            let reach = Some(pb::HostReach { large, ..wire });
            Event::try_from(pb::Event { reach, ..event.clone() }).unwrap_err().field
        };
        assert_eq!(field(None), "reach.large");
        let large = |bytes, requests, replies| Some(pb::EchoTally { bytes, requests, replies });
        assert_eq!(field(large(65_536, 1, 0)), "reach.large.bytes");
        assert_eq!(field(large(1, 256, 0)), "reach.large.requests");
        assert_eq!(field(large(1, 1, 256)), "reach.large.replies");
        assert_eq!(field(large(1, 1, 2)), "reach.large.replies");
        assert_eq!(field(large(1, 3, 0)), "reach.large.requests");
    }

    /// A controller of an earlier version does not know the code: it shows the text, and nothing else becomes of it. An agent of an
    /// earlier version sends none.
    #[test]
    fn an_event_of_an_earlier_agent_has_no_reach() {
        let wire = pb::Event { code: 1, ..pb::Event::default() };
        assert_eq!(Event::try_from(wire).unwrap().reach, None);
    }
}
