// SPDX-License-Identifier: Apache-2.0
//! A multicast group as the operator declares it.

use std::ops::RangeInclusive;
use std::time::Duration;

use canopy_units::numbers;
use serde::{Deserialize, Serialize};

use crate::FieldErrors;
use crate::ids::Psn;

/// Packets that a source has in flight at most, if the group does not set it (decisions 3.11).
pub const DEFAULT_FLIGHT: u32 = 65_536;
/// Largest permitted flight: less than W, the window in which PSNs are unwrapped (decisions 3.3).
pub const MAX_FLIGHT: u32 = (1 << 22) - 2;
/// Most receivers that a group can wait for.
pub const MAX_RECEIVERS: u32 = 16_384;
/// Path MTUs of RDMA, bytes of payload per packet.
pub const PATH_MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];
/// Shortest and longest CNP aggregation window.
pub const CNP_WINDOW: RangeInclusive<Duration> = Duration::from_micros(50)..=Duration::from_secs(1);
/// Shortest and longest time without progress after which a branch is reported.
pub const STALL_AFTER: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
/// Time without progress of a stall, if the group does not set it.
const DEFAULT_STALL_AFTER: Duration = Duration::from_millis(200);
/// CNP aggregation window, if the group does not set it.
const DEFAULT_CNP_WINDOW: Duration = Duration::from_millis(1);

/// Desired configuration of a group. Members join separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct GroupSpec {
    /// How receiver lists are distributed to the edges.
    pub encoding: EncodingChoice,
    /// What replicates packets between nodes; cannot change while the group has members.
    pub replication: Replication,
    /// RDMA path MTU in bytes of payload per packet: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u32,
    /// First PSN of the source; chosen by the controller when absent.
    pub start_psn: Option<Psn>,
    /// Reaction to a receiver that stops acknowledging or fails fatally.
    pub stall_policy: StallPolicy,
    /// Time without progress after which a branch that stalls the group is reported, in milliseconds, 10..=60000: two and a
    /// half times the source's retransmission timeout, so that the stall is reported within three.
    #[cfg_attr(feature = "schema", schema(value_type = u32, default = json!(DEFAULT_STALL_AFTER.as_millis() as u32)))]
    #[serde(rename = "stallAfterMs", with = "numbers::millis")]
    pub stall_after: Duration,
    /// CNP aggregation window T in microseconds, 50..=1000000 (draft-li, CNP Aggregation).
    #[cfg_attr(feature = "schema", schema(value_type = u32, default = json!(DEFAULT_CNP_WINDOW.as_micros() as u32)))]
    #[serde(rename = "cnpWindowUs", with = "numbers::micros")]
    pub cnp_window: Duration,
    /// Largest number of packets that the source has in flight, 1..=4194302. Its first packet is dropped if its PSN is further from the
    /// start PSN, later ones if they are further ahead of the newest: a stray packet of an earlier connection cannot stop the group.
    pub max_flight: u32,
    /// Receivers that must have joined before the headend takes data, 1..=16384. Who joins later starts with a later message.
    pub min_receivers: u32,
}

impl Default for GroupSpec {
    fn default() -> Self {
        Self {
            encoding: EncodingChoice::Auto,
            replication: Replication::Srv6,
            path_mtu: 4096,
            start_psn: None,
            stall_policy: StallPolicy::Wait,
            stall_after: DEFAULT_STALL_AFTER,
            cnp_window: DEFAULT_CNP_WINDOW,
            max_flight: DEFAULT_FLIGHT,
            min_receivers: 1,
        }
    }
}

impl GroupSpec {
    /// Checks ranges.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if !PATH_MTUS.contains(&self.path_mtu) {
            errors.push(
                "spec.pathMtu",
                format!("{} is not an RDMA path MTU: use 256, 512, 1024, 2048 or 4096", self.path_mtu),
            );
        }
        if !CNP_WINDOW.contains(&self.cnp_window) {
            let micros = self.cnp_window.as_micros();
            errors.push("spec.cnpWindowUs", format!("{micros} is outside 50..=1000000 microseconds"));
        }
        if !(1..=MAX_FLIGHT).contains(&self.max_flight) {
            errors.push("spec.maxFlight", format!("{} is outside 1..={MAX_FLIGHT} packets", self.max_flight));
        }
        if !(1..=MAX_RECEIVERS).contains(&self.min_receivers) {
            errors
                .push("spec.minReceivers", format!("{} is outside 1..={MAX_RECEIVERS} receivers", self.min_receivers));
        }
        if !STALL_AFTER.contains(&self.stall_after) {
            errors.push(
                "spec.stallAfterMs",
                format!(
                    "{} is outside 10..=60000 milliseconds: use two and a half times the source's retransmission timeout",
                    self.stall_after.as_millis()
                ),
            );
        }
        errors.into_result()
    }
}

/// Desired distribution of receiver lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum EncodingChoice {
    /// In-band while the SRH fits its limits, else hybrid, else provisioned.
    #[default]
    Auto,
    /// Every edge's list in End.MT TLVs; refused if it does not fit.
    InBand,
    /// No TLV: edges hold their lists as provisioned state.
    Provisioned,
}

/// What replicates packets between nodes (decisions 2.3). Feedback is aggregated hop by hop in both modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum Replication {
    /// RFC 9524: each node rewrites the outer Destination Address to every child's SID.
    #[default]
    Srv6,
    /// Native IP multicast: the first SID is the group's ff3e:: address and the nodes follow kernel multicast routes. Receivers
    /// must join before the group opens (`minReceivers`); a node copies to at most 32 ports over all such groups.
    Multicast,
}

/// Reaction of the controller to a failed receiver (decisions 3.7, 3.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum StallPolicy {
    /// Wait for the receiver and raise an alarm.
    #[default]
    Wait,
    /// Remove the receiver from the group; the others continue.
    Evict,
    /// Fail the whole group: it forwards nothing until every member has left.
    Fail,
}

/// Distribution of receiver lists in force (decisions 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum EncodingMode {
    /// All lists in End.MT TLVs.
    InBand,
    /// No TLVs.
    Provisioned,
    /// Some edges by TLV, the others provisioned.
    Hybrid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_carried_out_is_refused_by_field() {
        let problem = |spec: GroupSpec| spec.validate().unwrap_err().to_string();
        assert!(GroupSpec::default().validate().is_ok());
        assert!(problem(GroupSpec { path_mtu: 1500, ..GroupSpec::default() }).contains("spec.pathMtu"));
        for max_flight in [0, MAX_FLIGHT + 1] {
            assert!(problem(GroupSpec { max_flight, ..GroupSpec::default() }).contains("spec.maxFlight"));
        }
        assert!(
            problem(GroupSpec { cnp_window: Duration::from_micros(1), ..GroupSpec::default() })
                .contains("spec.cnpWindowUs")
        );
        for stall_after in [0, 9, 60_001].map(Duration::from_millis) {
            assert!(problem(GroupSpec { stall_after, ..GroupSpec::default() }).contains("spec.stallAfterMs"));
        }
        for stall_policy in [StallPolicy::Wait, StallPolicy::Evict, StallPolicy::Fail] {
            let spec = GroupSpec { stall_policy, stall_after: Duration::from_millis(10), ..GroupSpec::default() };
            assert!(spec.validate().is_ok(), "{stall_policy:?}");
        }
    }
}
