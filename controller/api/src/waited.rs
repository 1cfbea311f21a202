// SPDX-License-Identifier: Apache-2.0
//! For which receivers the source of a group waits.

use canopy_controller_core::view;
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ApiVersion, Kind};

/// For which receivers the source of a group waits.
///
/// Every node counts the PSNs by which the feedback of each of its branches raised the minimum: all other branches had acknowledged them
/// before. A receiver's share is the product of the shares from the headend down to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitedFor {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `WaitedFor`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// The group.
    pub group: String,
    /// The time that the shares cover, the last 5 to 10 s, in nanoseconds; 0 while the headend reports nothing.
    pub covers_ns: u64,
    /// PSNs that were acknowledged to the source in that time.
    pub psns: u64,
    /// Share of the nodes that do not report shares, parts per million.
    pub unknown_ppm: u32,
    /// Receivers; the largest share first, then by name.
    pub receivers: Vec<ReceiverShare>,
    /// Receivers of the tree that are beyond `limit`.
    pub left: u64,
}

/// A receiver's part in what the source waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiverShare {
    /// Its host.
    pub host: String,
    /// Its edge.
    pub node: String,
    /// Its share, parts per million.
    pub share_ppm: u32,
    /// How long data that its edge has forwarded waits for its acknowledgement, on average, in nanoseconds; `null` if nothing was
    /// acknowledged in that time.
    pub wait_ns: Option<u64>,
}

impl WaitedFor {
    /// The first `limit` receivers of a group.
    pub fn new(group: String, of: view::WaitedFor, limit: usize) -> Self {
        let left = of.receivers.len().saturating_sub(limit) as u64;
        let receivers = of.receivers.into_iter().take(limit).map(|r| ReceiverShare {
            host: r.host,
            node: r.node,
            share_ppm: r.ppm,
            wait_ns: r.wait.map(canopy_units::nanos),
        });
        Self {
            api_version: ApiVersion,
            kind: Kind::WaitedFor,
            group,
            covers_ns: canopy_units::nanos(of.covers),
            psns: of.psns,
            unknown_ppm: of.unknown_ppm,
            receivers: receivers.collect(),
            left,
        }
    }
}

/// For which receivers the source of a group waited, by second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitedStrip {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `WaitedStrip`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// The group.
    pub group: String,
    /// Start of the first second, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// Receivers; the largest share of the last minute first, then by name.
    pub receivers: Vec<StripReceiver>,
    /// Receivers of the tree that are beyond `limit`.
    pub left: u64,
}

/// A receiver's shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StripReceiver {
    /// Its host.
    pub host: String,
    /// Its edge.
    pub node: String,
    /// Its share of the last minute, parts per million; `null` if nothing was acknowledged in it.
    pub minute_ppm: Option<u32>,
    /// One per second, the last is not over: its share, parts per million; `null` where nothing was acknowledged to the source, or a node
    /// reports no shares.
    pub shares_ppm: Vec<Option<u32>>,
}

/// Seconds by which receivers are ordered.
const MINUTE: usize = 60;
const WHOLE: f64 = 1_000_000.0;

impl WaitedStrip {
    /// The first `limit` of the receivers, each with its host, edge and shares (0 to 1).
    pub fn new(
        group: String,
        start: UnixTime,
        receivers: impl Iterator<Item = (String, String, Vec<Option<f32>>)>,
        limit: usize,
    ) -> Self {
        let ppm = |share: f64| (share.clamp(0.0, 1.0) * WHOLE).round() as u32;
        let receiver = |(host, node, shares): (String, String, Vec<Option<f32>>)| {
            let minute: Vec<f64> = shares.iter().rev().take(MINUTE).filter_map(|share| share.map(f64::from)).collect();
            let mean = minute.iter().sum::<f64>() / minute.len().max(1) as f64;
            StripReceiver {
                host,
                node,
                minute_ppm: (!minute.is_empty()).then(|| ppm(mean)),
                shares_ppm: shares.into_iter().map(|share| share.map(|share| ppm(share.into()))).collect(),
            }
        };
        let mut receivers: Vec<StripReceiver> = receivers.map(receiver).collect();
        receivers.sort_by(|a, b| b.minute_ppm.cmp(&a.minute_ppm).then_with(|| a.host.cmp(&b.host)));
        let left = receivers.len().saturating_sub(limit) as u64;
        receivers.truncate(limit);
        let (api_version, kind) = (ApiVersion, Kind::WaitedStrip);
        Self { api_version, kind, group, start_unix_ns: start.nanos(), receivers, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an order by what was before the last minute, and a gap that counts as zero.
    #[test]
    fn receivers_are_in_the_order_of_their_last_minute() {
        let early = [vec![Some(1.0); 100], vec![Some(0.0); 60]].concat();
        let late = [vec![Some(0.0); 100], vec![None; 59], vec![Some(0.75)]].concat();
        let rows = [("a", early), ("b", vec![None; 160]), ("c", late)];
        let rows = rows.map(|(host, shares)| (host.to_owned(), "n1".to_owned(), shares));
        let strip = WaitedStrip::new("g".into(), UnixTime::from_nanos(7), rows.into_iter(), 2);
        let minutes: Vec<_> = strip.receivers.iter().map(|r| (r.host.as_str(), r.minute_ppm)).collect();
        assert_eq!((minutes, strip.left), (vec![("c", Some(750_000)), ("a", Some(0))], 1));
        assert_eq!(strip.receivers[0].shares_ppm[98..102], [Some(0), Some(0), None, None]);
    }
}
