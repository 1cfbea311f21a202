// SPDX-License-Identifier: Apache-2.0
//! Egress queues and flows.

use std::time::Duration;

use canopy_model::FieldError;
use canopy_model::congestion::{
    CnpCounts, CnpsByAction, DepthSource, FlowOrigin, FlowTelemetry, PortCongestion, QueueTelemetry,
};
use canopy_model::ids::{PortIndex, Qpn};
use canopy_units::{Octets, Rate};

use crate::field::{address, each, octets, required};
use crate::pb;

impl TryFrom<pb::PortCongestion> for PortCongestion {
    type Error = FieldError;
    fn try_from(wire: pb::PortCongestion) -> Result<Self, FieldError> {
        let depth_source = match (wire.depth_source(), wire.sampled_every_ms) {
            (_, every_ms) if every_ms > 0 && wire.depth_source() != pb::DepthSource::Sampled => {
                let why = format!("{every_ms} and a depth_source that is not sampled: leave one of them out");
                return Err(FieldError::new("sampled_every_ms", why));
            }
            (pb::DepthSource::Unspecified, _) if wire.depth_source != 0 => {
                let why = format!("{} is no source of depths: use 0 (none yet), 1 or 2", wire.depth_source);
                return Err(FieldError::new("depth_source", why));
            }
            (pb::DepthSource::Unspecified, _) => None,
            (pb::DepthSource::Kernel, _) => Some(DepthSource::Kernel),
            (pb::DepthSource::Sampled, 0) => {
                return Err(FieldError::new("sampled_every_ms", "0 is no time between samples: use 1 and more"));
            }
            (pb::DepthSource::Sampled, every_ms) => {
                Some(DepthSource::Sampled { every: Duration::from_millis(every_ms.into()) })
            }
        };
        let level = |field: &str, value: u32| {
            u8::try_from(value)
                .map_err(|_| FieldError::new(field, format!("{value} is no Congestion Level: use 0..=255")))
        };
        Ok(Self {
            port: PortIndex::new("port", wire.port.into())?,
            queue: QueueTelemetry {
                queue: Octets(wire.queue_bytes),
                peak_queue: Octets(wire.peak_queue_bytes),
                depth_source,
                level: level("level", wire.level)?,
                peak_level: level("peak_level", wire.peak_level)?,
                emr_permille: permille("emr_permille", wire.emr_permille)?,
                qgr_per_ms: Octets(wire.qgr_bytes_per_ms),
                packets: wire.packets,
                octets: Octets(wire.bytes),
                marked: wire.marked,
                ce: wire.ce,
                not_ect: wire.not_ect,
                counts: required("counts", wire.counts)?.into(),
            },
            flows: each("flows", wire.flows)?,
        })
    }
}

impl From<&PortCongestion> for pb::PortCongestion {
    fn from(p: &PortCongestion) -> Self {
        let q = &p.queue;
        let (source, sampled_every_ms) = match q.depth_source {
            None => (pb::DepthSource::Unspecified, 0),
            Some(DepthSource::Kernel) => (pb::DepthSource::Kernel, 0),
            Some(DepthSource::Sampled { every }) => {
                (pb::DepthSource::Sampled, u32::try_from(every.as_millis()).unwrap_or(u32::MAX))
            }
        };
        Self {
            port: p.port.get().into(),
            queue_bytes: q.queue.get(),
            peak_queue_bytes: q.peak_queue.get(),
            depth_source: source.into(),
            sampled_every_ms,
            level: q.level.into(),
            peak_level: q.peak_level.into(),
            emr_permille: q.emr_permille.into(),
            qgr_bytes_per_ms: q.qgr_per_ms.get(),
            packets: q.packets,
            bytes: q.octets.get(),
            marked: q.marked,
            ce: q.ce,
            not_ect: q.not_ect,
            counts: Some(q.counts.into()),
            flows: p.flows.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::FlowCongestion> for FlowTelemetry {
    type Error = FieldError;
    fn try_from(wire: pb::FlowCongestion) -> Result<Self, FieldError> {
        let origin = match wire.origin() {
            pb::FlowOrigin::Unspecified if wire.origin != 0 => {
                let why = format!("{} is not an origin of source QPs: use 0 (unknown) to 3", wire.origin);
                return Err(FieldError::new("origin", why));
            }
            pb::FlowOrigin::Unspecified => FlowOrigin::Unknown,
            pb::FlowOrigin::Learned => FlowOrigin::Learned,
            pb::FlowOrigin::Cm => FlowOrigin::Cm,
            pb::FlowOrigin::Provisioned => FlowOrigin::Provisioned,
        };
        let src_qp = wire.src_qp.map(|qp| Qpn::new("src_qp", qp.into())).transpose()?;
        if src_qp.is_none() != (origin == FlowOrigin::Unknown) {
            return Err(FieldError::new(
                "src_qp",
                "goes with an origin, and an origin with a src_qp: send both or none",
            ));
        }
        Ok(Self {
            src: address("src", &wire.src)?,
            dst: address("dst", &wire.dst)?,
            dst_qp: Qpn::new("dst_qp", wire.dst_qp.into())?,
            src_qp,
            origin,
            packets: wire.packets,
            octets: Octets(wire.bytes),
            ce: wire.ce,
            rate: Rate::from_bps(wire.rate_bps),
            share_permille: permille("share_permille", wire.share_permille)?,
            counts: required("counts", wire.counts)?.into(),
        })
    }
}

impl From<&FlowTelemetry> for pb::FlowCongestion {
    fn from(f: &FlowTelemetry) -> Self {
        let origin = match f.origin {
            FlowOrigin::Unknown => pb::FlowOrigin::Unspecified,
            FlowOrigin::Learned => pb::FlowOrigin::Learned,
            FlowOrigin::Cm => pb::FlowOrigin::Cm,
            FlowOrigin::Provisioned => pb::FlowOrigin::Provisioned,
        };
        Self {
            src: octets(f.src),
            dst: octets(f.dst),
            dst_qp: f.dst_qp.get(),
            src_qp: f.src_qp.map(Qpn::get),
            origin: origin.into(),
            packets: f.packets,
            bytes: f.octets.get(),
            ce: f.ce,
            rate_bps: f.rate.bps(),
            share_permille: f.share_permille.into(),
            counts: Some(f.counts.into()),
        }
    }
}

impl From<pb::CnpCounts> for CnpCounts {
    fn from(wire: pb::CnpCounts) -> Self {
        let pb::CnpCounts { notify, pause, rate_reduce, resume, failed, .. } = wire;
        Self {
            cnps: CnpsByAction { notify, pause, rate_reduce, resume, failed },
            suppressed: wire.suppressed,
            rate_limited_flow: wire.rate_limited_flow,
            rate_limited_port: wire.rate_limited_port,
            unknown_source_qp: wire.unknown_source_qp,
        }
    }
}

impl From<CnpCounts> for pb::CnpCounts {
    fn from(c: CnpCounts) -> Self {
        let CnpsByAction { notify, pause, rate_reduce, resume, failed } = c.cnps;
        Self {
            notify,
            pause,
            rate_reduce,
            resume,
            failed,
            suppressed: c.suppressed,
            rate_limited_flow: c.rate_limited_flow,
            rate_limited_port: c.rate_limited_port,
            unknown_source_qp: c.unknown_source_qp,
        }
    }
}

/// A share of a thousand.
fn permille(field: &str, value: u32) -> Result<u16, FieldError> {
    let share = u16::try_from(value).ok().filter(|share| *share <= 1_000);
    share.ok_or_else(|| FieldError::new(field, format!("{value} is no share of a thousand: use 0..=1000")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::port_congestion;

    proptest! {
        #[test]
        fn queues_and_flows_survive_the_wire(sample in port_congestion()) {
            prop_assert_eq!(PortCongestion::try_from(pb::PortCongestion::from(&sample)).unwrap(), sample);
        }

        #[test]
        fn sources_of_depths_survive_text(sample in port_congestion()) {
            if let Some(source) = sample.queue.depth_source {
                prop_assert_eq!(source.to_string().parse::<DepthSource>().unwrap(), source);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        type Change = fn(&mut pb::PortCongestion);
        let changes: Vec<(&str, Change)> = vec![
            ("port", |p| p.port = 0),
            ("level", |p| p.level = 256),
            ("peak_level", |p| p.peak_level = 256),
            ("emr_permille", |p| p.emr_permille = 1_001),
            ("depth_source", |p| p.depth_source = 3),
            ("sampled_every_ms", |p| p.sampled_every_ms = 1),
            ("sampled_every_ms", |p| p.depth_source = pb::DepthSource::Sampled.into()),
            ("counts", |p| p.counts = None),
            ("flows[0].src", |p| _ = p.flows[0].src.pop()),
            ("flows[0].dst", |p| p.flows[0].dst.push(0)),
            ("flows[0].dst_qp", |p| p.flows[0].dst_qp = 1 << 24),
            ("flows[0].src_qp", |p| p.flows[0].src_qp = Some(1 << 24)),
            ("flows[0].src_qp", |p| p.flows[0].src_qp = None),
            ("flows[0].src_qp", |p| p.flows[0].origin = 0),
            ("flows[0].origin", |p| p.flows[0].origin = 4),
            ("flows[0].share_permille", |p| p.flows[0].share_permille = 1_001),
            ("flows[0].counts", |p| p.flows[0].counts = None),
        ];
        let flow = pb::FlowCongestion {
            src: vec![1; 16],
            dst: vec![2; 16],
            dst_qp: 17,
            src_qp: Some(18),
            origin: pb::FlowOrigin::Cm.into(),
            counts: Some(pb::CnpCounts::default()),
            ..Default::default()
        };
        let good = pb::PortCongestion {
            port: 1,
            depth_source: pb::DepthSource::Kernel.into(),
            counts: Some(pb::CnpCounts::default()),
            flows: vec![flow],
            ..Default::default()
        };
        PortCongestion::try_from(good.clone()).unwrap();
        for (field, change) in changes {
            let mut bad = good.clone();
            change(&mut bad);
            assert_eq!(PortCongestion::try_from(bad).unwrap_err().field, field);
        }
        assert_eq!("sampled, 0 ms".parse::<DepthSource>().unwrap_err().field, "depthSource");
    }
}
