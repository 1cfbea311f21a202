// SPDX-License-Identifier: Apache-2.0
//! For which receivers the source of a group waits.

use canopy_controller_core::view;
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
