// SPDX-License-Identifier: Apache-2.0
//! Incidents: each opening of a problem, with the charts around it.

use canopy_controller_core::incident;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::chart::ChartSeries;
use crate::{ApiVersion, Kind};

/// One opening of a problem. It stays when the problem has closed; the newest 200 are kept, also over restarts of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncidentItem {
    /// Second of its opening since 1970 in ten digits, a hyphen, and the problem's id.
    pub id: String,
    /// Id of the problem.
    pub problem: String,
    /// What the problem is, and about which object.
    pub of: IncidentProblem,
    /// `critical` or `warning`.
    pub severity: String,
    /// What was wrong; follows the object's name.
    pub title: String,
    /// What was seen when it opened.
    pub evidence: Vec<String>,
    /// When it opened, nanoseconds since the Unix epoch.
    pub opened_unix_ns: u64,
    /// When it closed; absent while it is open, and if the controller ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_unix_ns: Option<u64>,
    /// How often it opened anew within the time of the charts.
    pub reopened: u32,
    /// Problems that explained it when the charts were last saved: other incidents may show more.
    pub causes: Vec<IncidentProblem>,
    /// Problems that it explained then, 50 at most.
    pub affects: Vec<IncidentProblem>,
}

/// A problem with its object, as the controller that saw it named them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncidentProblem {
    /// Stable code; `canopyctl explain CODE` prints what is known of it.
    pub code: String,
    /// Kind of its object: `controller`, `node`, `link`, `port`, `group` or `member`.
    pub kind: String,
    /// Name of its object; a membership's is `group/host`.
    pub name: String,
}

/// An incident with the charts from 5 min before it to 5 min after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Incident`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// What happened.
    pub incident: IncidentItem,
    /// Start of the first step, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// Seconds per step.
    pub step_seconds: u64,
    /// The series of up to 16 objects, 32 at most: those of the problem's object first, then of what it affects.
    pub series: Vec<ChartSeries>,
}

impl From<&incident::ProblemName> for IncidentProblem {
    fn from(of: &incident::ProblemName) -> Self {
        let incident::ProblemName { code, kind, name } = of.clone();
        Self { code, kind, name }
    }
}

impl From<&incident::Incident> for IncidentItem {
    fn from(of: &incident::Incident) -> Self {
        Self {
            id: of.id.clone(),
            problem: of.problem.clone(),
            of: (&of.of).into(),
            severity: of.severity.clone(),
            title: of.title.clone(),
            evidence: of.evidence.clone(),
            opened_unix_ns: of.opened_unix_ns.nanos(),
            closed_unix_ns: of.closed_unix_ns.map(|at| at.nanos()),
            reopened: of.reopened,
            causes: of.causes.iter().map(Into::into).collect(),
            affects: of.affects.iter().map(Into::into).collect(),
        }
    }
}
