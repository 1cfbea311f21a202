// SPDX-License-Identifier: Apache-2.0
//! Whether a group's data is acknowledged, from the samples of its headend.
//!
//! ```text
//! NoData --data--> Flowing --nothing unacknowledged--> Idle --data--> Flowing
//!                  Flowing --AckPSN where it was for stallAfterMs--> Stalled --AckPSN advances--> Flowing or Idle
//! ```

use std::time::Duration;

use canopy_model::telemetry::GroupTelemetry;
use canopy_units::{Monotonic, UnixTime};

/// A source of which the headend has taken nothing for so long does not send again what is unacknowledged: the ACK timeouts that applications
/// set are at most some seconds, and RC retransmits after each (IBTA volume 1, section 9.7.6.1.3).
pub const SOURCE_GAVE_UP: Duration = Duration::from_secs(10);

/// How far the acknowledgements of a group's data are, as its headend reported last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryState {
    /// The source has sent nothing in this session, or no receiver gets data.
    #[default]
    NoData,
    /// Data is unacknowledged, and AckPSN has advanced within stallAfterMs.
    Flowing,
    /// All data is acknowledged.
    Idle,
    /// Data is unacknowledged, and AckPSN has not advanced for stallAfterMs.
    Stalled,
}

/// [`DeliveryState`] with what it was found by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The state.
    pub state: DeliveryState,
    /// When it began; for `Stalled`, when AckPSN last advanced.
    pub since: UnixTime,
    /// Packets that are not acknowledged.
    pub outstanding: u64,
    /// Whether it is `Stalled`, and the headend has taken no data packet of the source for [`SOURCE_GAVE_UP`].
    pub source_gave_up: bool,
    /// Data packets that the headend has taken, and when the number was first seen.
    received: Option<(u64, Monotonic)>,
    /// The smallest next PSN of the branches, and when it was first seen.
    next: Option<(u64, Monotonic, UnixTime)>,
}

impl Delivery {
    /// Adds a sample of the group's headend that arrived at `now`.
    pub(crate) fn add(&mut self, sample: &GroupTelemetry, stall_after: Duration, now: Monotonic, wall: UnixTime) {
        let high = sample.high.get();
        let next = sample.min_next.map(canopy_units::UnwrappedPsn::get).filter(|_| high != 0);
        self.outstanding = next.map_or(0, |next| high.saturating_sub(next));
        let advanced = match (self.next, next) {
            (Some((before, at, since)), Some(next)) if before == next && self.state != DeliveryState::Idle => {
                (at, since)
            }
            // What was idle waits from the first sample on that shows data.
            _ => (now, wall),
        };
        self.next = next.map(|next| (next, advanced.0, advanced.1));
        let state = match next {
            None => DeliveryState::NoData,
            Some(_) if self.outstanding == 0 => DeliveryState::Idle,
            Some(_) if now.since(advanced.0) >= stall_after => DeliveryState::Stalled,
            Some(_) => DeliveryState::Flowing,
        };
        let silent_since = match self.received {
            Some((packets, at)) if packets == sample.data_packets => at,
            _ => now,
        };
        self.received = Some((sample.data_packets, silent_since));
        self.source_gave_up = state == DeliveryState::Stalled && now.since(silent_since) >= SOURCE_GAVE_UP;
        if state != self.state {
            self.since = if state == DeliveryState::Stalled { advanced.1 } else { wall };
            self.state = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use canopy_model::ids::GroupId;
    use canopy_units::UnwrappedPsn;

    use super::*;
    use crate::testing::group_sample;

    const STALL_AFTER: Duration = Duration::from_millis(1500);

    fn sample(high: u64, min_next: Option<u64>) -> GroupTelemetry {
        let id = GroupId::new("g", 1).unwrap();
        GroupTelemetry { high: UnwrappedPsn(high), min_next: min_next.map(UnwrappedPsn), ..group_sample(id, 1) }
    }

    #[test]
    fn data_that_is_not_acknowledged_for_stall_after_is_a_stall_and_an_idle_group_is_none() {
        use DeliveryState::{Flowing, Idle, NoData, Stalled};
        let mut delivery = Delivery::default();
        let mut at = |ms: u64, high, next| {
            let (now, wall) = (Monotonic::from_nanos(ms * 1_000_000), UnixTime::from_nanos(ms * 1_000_000));
            delivery.add(&sample(high, next), STALL_AFTER, now, wall);
            (delivery.state, delivery.since.nanos() / 1_000_000, delivery.outstanding)
        };
        assert_eq!(at(0, 0, None).0, NoData);
        assert_eq!(at(1000, 150, Some(100)), (Flowing, 1000, 50));
        assert_eq!(at(2000, 200, Some(180)), (Flowing, 1000, 20));
        assert_eq!(at(3000, 200, Some(200)), (Idle, 3000, 0));
        // An hour later the source sends: what waits has waited since then.
        assert_eq!(at(3_600_000, 300, Some(200)), (Flowing, 3_600_000, 100));
        assert_eq!(at(3_601_000, 300, Some(200)), (Flowing, 3_600_000, 100));
        assert_eq!(at(3_601_500, 300, Some(200)), (Stalled, 3_600_000, 100));
        // More data does not help, an acknowledgement does.
        assert_eq!(at(3_602_500, 400, Some(200)), (Stalled, 3_600_000, 200));
        assert_eq!(at(3_603_500, 400, Some(201)), (Flowing, 3_603_500, 199));
        assert_eq!(at(3_604_500, 400, Some(400)), (Idle, 3_604_500, 0));
        // Every receiver has left.
        assert_eq!(at(3_605_500, 400, None).0, NoData);
    }

    #[test]
    fn a_source_gave_up_that_sends_nothing_again_for_ten_seconds() {
        let mut delivery = Delivery::default();
        let mut at = |s: u64, data_packets, next| {
            let now = Monotonic::from_nanos(s * 1_000_000_000);
            let sample = GroupTelemetry { data_packets, ..sample(200, Some(next)) };
            delivery.add(&sample, STALL_AFTER, now, UnixTime::default());
            (delivery.state == DeliveryState::Stalled, delivery.source_gave_up)
        };
        assert_eq!(at(0, 200, 100), (false, false));
        assert_eq!(at(9, 200, 100), (true, false));
        // A retransmission.
        assert_eq!(at(10, 201, 100), (true, false));
        assert_eq!(at(19, 201, 100), (true, false));
        assert_eq!(at(20, 201, 100), (true, true));
        // It has connected again, or an agent has and counts from zero.
        assert_eq!(at(21, 0, 100), (true, false));
        // A source that has nothing to send is idle for as long as it likes.
        assert_eq!(at(22, 0, 200), (false, false));
        assert_eq!(at(99, 0, 200), (false, false));
    }
}
