// SPDX-License-Identifier: Apache-2.0
//! The order to an agent to clean up, and its report.

use canopy_model::FieldError;
use canopy_model::retirement::{CleanUpOrder, CleanedUp, MAX_REMOVED, MAX_TEXT};

use crate::pb;

impl TryFrom<pb::CleanUp> for CleanUpOrder {
    type Error = FieldError;
    fn try_from(wire: pb::CleanUp) -> Result<Self, FieldError> {
        match wire.retirement {
            0 => Err(FieldError::new("clean_up.retirement", "is missing")),
            retirement => Ok(Self { retirement }),
        }
    }
}

impl From<&CleanUpOrder> for pb::CleanUp {
    fn from(order: &CleanUpOrder) -> Self {
        Self { retirement: order.retirement }
    }
}

impl From<pb::CleanedUp> for CleanedUp {
    fn from(wire: pb::CleanedUp) -> Self {
        Self {
            retirement: wire.retirement,
            removed: wire.removed.into_iter().take(MAX_REMOVED).map(cut).collect(),
            failed: Some(wire.failed).filter(|why| !why.is_empty()).map(cut),
        }
    }
}

impl From<&CleanedUp> for pb::CleanedUp {
    fn from(report: &CleanedUp) -> Self {
        Self {
            retirement: report.retirement,
            removed: report.removed.clone(),
            failed: report.failed.clone().unwrap_or_default(),
        }
    }
}

/// At most [`MAX_TEXT`] octets.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn orders_and_reports_survive_the_wire() {
        let order = CleanUpOrder { retirement: 7 };
        assert_eq!(CleanUpOrder::try_from(pb::CleanUp::from(&order)).unwrap(), order);
        assert_eq!(CleanUpOrder::try_from(pb::CleanUp::default()).unwrap_err().field, "clean_up.retirement");
        for failed in [None, Some("busy".to_owned())] {
            let report = CleanedUp { retirement: 7, removed: vec!["12 routes".into()], failed };
            assert_eq!(CleanedUp::from(pb::CleanedUp::from(&report)), report);
        }
        let long = pb::CleanedUp { retirement: 7, removed: vec!["é".repeat(MAX_TEXT); 1000], failed: String::new() };
        let cut = CleanedUp::from(long);
        assert_eq!((cut.removed.len(), cut.removed[0].len()), (MAX_REMOVED, MAX_TEXT));
    }

    /// Catches an order that an agent of an earlier version takes for something else than a confirmation, and a report that an earlier
    /// controller cannot read.
    #[test]
    fn earlier_versions_leave_both_out() {
        #[derive(Clone, PartialEq, Message)]
        struct EarlierWatch {
            #[prost(uint64, tag = "1")]
            term: u64,
        }
        #[derive(Clone, PartialEq, Message)]
        struct EarlierReport {
            #[prost(string, tag = "1")]
            node: String,
        }
        let watch = pb::WatchResponse { term: 3, clean_up: Some(pb::CleanUp { retirement: 7 }), ..Default::default() };
        assert_eq!(EarlierWatch::decode(&*watch.encode_to_vec()).unwrap().term, 3);
        let report = pb::ReportRequest {
            node: "n4".into(),
            cleaned_up: Some(pb::CleanedUp { retirement: 7, ..Default::default() }),
            ..Default::default()
        };
        assert_eq!(EarlierReport::decode(&*report.encode_to_vec()).unwrap().node, "n4");
        let earlier = EarlierReport { node: "n4".into() }.encode_to_vec();
        assert_eq!(pb::ReportRequest::decode(&*earlier).unwrap().cleaned_up, None);
    }
}
