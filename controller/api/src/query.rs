// SPDX-License-Identifier: Apache-2.0
//! Query parameters.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::health::{Severity, SubjectKind};

/// Parameters of every write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct WriteQuery {
    /// Check everything and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Filter and page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Groups on this page, 1..=500; 100 when absent.
    pub limit: Option<usize>,
    /// Token from the previous page.
    #[serde(rename = "continue")]
    #[param(rename = "continue")]
    pub after: Option<String>,
    /// `key=value,key!=value,key`; all must hold.
    #[serde(default)]
    pub label_selector: String,
}

/// Filter for events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Number of newest events, 1..=4096; 200 when absent.
    pub limit: Option<usize>,
    /// Only events of this group.
    pub group: Option<String>,
    /// Only events of this node.
    pub node: Option<String>,
    /// Only events with a larger sequence number.
    pub after: Option<u64>,
}

/// Filter for problems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ProblemQuery {
    /// Number of problems, 1..=5000; 200 when absent.
    pub limit: Option<usize>,
    /// Only problems that no other open problem explains.
    #[serde(default)]
    pub root: bool,
    /// Only problems of this severity.
    #[param(inline)]
    pub severity: Option<Severity>,
    /// With `name`: only problems of this object, and those that affect it.
    #[param(inline)]
    pub kind: Option<SubjectKind>,
    /// The object's name.
    pub name: Option<String>,
}

/// Filter for flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct FlowQuery {
    /// Number of flows, 1..=4096; 200 when absent.
    pub limit: Option<usize>,
    /// Only flows through this node.
    pub node: Option<String>,
    /// Only flows that leave through this port; requires `node`.
    pub port: Option<String>,
}
