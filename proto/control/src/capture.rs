// SPDX-License-Identifier: Apache-2.0
//! Captures of one packet: what arms them, and the frames that nodes saw.

use std::time::Duration;

use canopy_model::FieldError;
use canopy_model::capture::{CaptureDirection, CaptureOrder, CapturedFrame, INNER, capture_id};
use canopy_units::{UnixTime, nanos};

use crate::pb;

impl TryFrom<pb::Capture> for CaptureOrder {
    type Error = FieldError;
    fn try_from(wire: pb::Capture) -> Result<Self, FieldError> {
        Self::new(wire.id, wire.group_id, wire.psn, Duration::from_nanos(wire.within_ns))
    }
}

impl From<&CaptureOrder> for pb::Capture {
    fn from(order: &CaptureOrder) -> Self {
        Self { id: order.id.get(), group_id: order.group.get(), psn: order.psn.get(), within_ns: nanos(order.within) }
    }
}

impl TryFrom<pb::CapturedFrame> for CapturedFrame {
    type Error = FieldError;
    fn try_from(wire: pb::CapturedFrame) -> Result<Self, FieldError> {
        let direction = match wire.direction() {
            pb::CaptureDirection::In => CaptureDirection::In,
            pb::CaptureDirection::Out => CaptureDirection::Out,
            pb::CaptureDirection::Unspecified => return Err(FieldError::new("direction", "is missing")),
        };
        let inner = <[u8; INNER]>::try_from(&wire.inner[..]);
        let inner = inner.map_err(|_| FieldError::new("inner", format!("{} octets, not {INNER}", wire.inner.len())))?;
        let frame = Self {
            id: capture_id(wire.id)?,
            direction,
            port: wire.port,
            time: UnixTime::from_nanos(wire.time_unix_ns),
            length: wire.length,
            inner_at: wire.inner_at,
            head: wire.head,
            inner,
        };
        frame.checked()
    }
}

impl From<&CapturedFrame> for pb::CapturedFrame {
    fn from(frame: &CapturedFrame) -> Self {
        let direction = match frame.direction {
            CaptureDirection::In => pb::CaptureDirection::In,
            CaptureDirection::Out => pb::CaptureDirection::Out,
        };
        Self {
            id: frame.id.get(),
            direction: direction.into(),
            port: frame.port.clone(),
            time_unix_ns: frame.time.nanos(),
            length: frame.length,
            inner_at: frame.inner_at,
            head: frame.head.clone(),
            inner: frame.inner.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> CapturedFrame {
        CapturedFrame {
            id: capture_id(7).unwrap(),
            direction: CaptureDirection::Out,
            port: "eth1".into(),
            time: UnixTime::from_nanos(5),
            length: 1100,
            inner_at: 200,
            head: vec![1; 192],
            inner: [2; INNER],
        }
    }

    #[test]
    fn orders_and_frames_come_back_as_they_were() {
        let order = CaptureOrder::new(7, 3, 0xFF_FFFF, Duration::from_secs(2)).unwrap();
        assert_eq!(CaptureOrder::try_from(pb::Capture::from(&order)).unwrap(), order);
        assert_eq!(CapturedFrame::try_from(pb::CapturedFrame::from(&frame())).unwrap(), frame());
        let short =
            CapturedFrame { length: 74, inner_at: 14, head: vec![1; 74], direction: CaptureDirection::In, ..frame() };
        assert_eq!(CapturedFrame::try_from(pb::CapturedFrame::from(&short)).unwrap(), short);
    }

    #[test]
    fn a_longer_time_than_the_longest_is_the_longest() {
        let order = CaptureOrder::new(7, 3, 1, Duration::from_secs(3600)).unwrap();
        assert_eq!(order.within, canopy_model::capture::MAX_WITHIN);
    }

    #[test]
    fn what_is_not_valid_is_named() {
        let refused = |change: fn(&mut pb::CapturedFrame)| {
            let mut wire = pb::CapturedFrame::from(&frame());
            change(&mut wire);
            CapturedFrame::try_from(wire).unwrap_err().field
        };
        assert_eq!(refused(|f| f.id = 0), "id");
        assert_eq!(refused(|f| f.direction = 9), "direction");
        assert_eq!(refused(|f| f.inner = vec![0; 61]), "inner");
        assert_eq!(refused(|f| f.head.push(0)), "head", "an octet behind the first 192");
        assert_eq!(refused(|f| f.length = 259), "inner_at", "headers end at 260");
        assert_eq!(refused(|f| f.port = "a b".into()), "port");
        assert_eq!(refused(|f| f.port = String::new()), "port");
    }
}
