// SPDX-License-Identifier: Apache-2.0
//! A multicast group as the operator declares it.

use serde::{Deserialize, Serialize};

use crate::FieldErrors;
use crate::ids::Psn;

/// What the operator asks of a group. Members join separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct GroupSpec {
    /// How receiver lists travel to the edges.
    pub encoding: EncodingChoice,
    /// RDMA path MTU in bytes of payload per packet: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u32,
    /// First PSN of the source; chosen by the controller when absent.
    pub start_psn: Option<Psn>,
    /// What to do about a receiver that stops acknowledging or fails fatally.
    pub stall_policy: StallPolicy,
    /// CNP aggregation window T in microseconds, 50..=1000000 (draft-li, CNP Aggregation).
    pub cnp_window_us: u32,
}

impl Default for GroupSpec {
    fn default() -> Self {
        Self {
            encoding: EncodingChoice::Auto,
            path_mtu: 4096,
            start_psn: None,
            stall_policy: StallPolicy::Wait,
            cnp_window_us: 1000,
        }
    }
}

impl GroupSpec {
    /// Checks ranges.
    ///
    /// # Errors
    /// Every field that is off.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if ![256, 512, 1024, 2048, 4096].contains(&self.path_mtu) {
            errors.push(
                "spec.pathMtu",
                format!("{} is not an RDMA path MTU: use 256, 512, 1024, 2048 or 4096", self.path_mtu),
            );
        }
        if !(50..=1_000_000).contains(&self.cnp_window_us) {
            errors.push("spec.cnpWindowUs", format!("{} is outside 50..=1000000 microseconds", self.cnp_window_us));
        }
        if self.stall_policy != StallPolicy::Wait {
            errors.push(
                "spec.stallPolicy",
                "only wait is carried out by this version: remove a stalled receiver with `canopyctl delete member HOST -g GROUP`",
            );
        }
        errors.into_result()
    }
}

/// The operator's wish about receiver lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum EncodingChoice {
    /// In-band while the SRH fits its limits, else hybrid, else provisioned.
    #[default]
    Auto,
    /// Every edge's list in End.MT TLVs; refused when it does not fit.
    InBand,
    /// No TLV: edges hold their lists as provisioned state.
    Provisioned,
}

/// What the controller does about a dead receiver (decisions 3.7, 3.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum StallPolicy {
    /// Keep waiting and raise an alarm.
    #[default]
    Wait,
    /// Remove the receiver from the group.
    Evict,
    /// Fail the whole group.
    Fail,
}

/// How receiver lists actually travel (decisions 2.6).
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
        assert!(problem(GroupSpec { cnp_window_us: 1, ..GroupSpec::default() }).contains("spec.cnpWindowUs"));
        let evict = GroupSpec { stall_policy: StallPolicy::Evict, ..GroupSpec::default() };
        assert!(problem(evict).contains("spec.stallPolicy"));
    }
}
