// SPDX-License-Identifier: Apache-2.0
//! Filters of log lines that an agent applies for a while.

use std::time::Duration;

use canopy_model::FieldError;
use canopy_model::log_level::{LogFilter, LogOrder, MAX_HOLD};
use canopy_units::nanos;

use crate::pb;

impl TryFrom<pb::LogLevel> for LogOrder {
    type Error = FieldError;
    fn try_from(wire: pb::LogLevel) -> Result<Self, FieldError> {
        let filter = Some(wire.filter).filter(|filter| !filter.is_empty());
        let filter = filter.map(|filter| LogFilter::new("log_level.filter", &filter)).transpose()?;
        Ok(Self { filter, within: Duration::from_nanos(wire.within_ns).min(MAX_HOLD) })
    }
}

impl From<&LogOrder> for pb::LogLevel {
    fn from(order: &LogOrder) -> Self {
        let filter = order.filter.as_ref().map_or(String::new(), |filter| filter.as_str().to_owned());
        Self { filter, within_ns: nanos(order.within) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_back_as_they_were() {
        let filter = Some(LogFilter::new("", "info,canopy_datapath=debug").unwrap());
        for order in [LogOrder { filter, within: Duration::from_secs(600) }, LogOrder::default()] {
            assert_eq!(LogOrder::try_from(pb::LogLevel::from(&order)).unwrap(), order);
        }
    }

    #[test]
    fn a_filter_that_is_none_is_refused_and_a_longer_time_than_the_longest_is_the_longest() {
        let wire = |filter: &str| pb::LogLevel { filter: filter.into(), within_ns: u64::MAX };
        assert_eq!(LogOrder::try_from(wire("loud")).unwrap_err().field, "log_level.filter");
        assert_eq!(LogOrder::try_from(wire("debug")).unwrap().within, MAX_HOLD);
    }
}
