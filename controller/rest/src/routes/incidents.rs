// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/incidents`: each opening of a problem, with the charts around it.

use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::Controller;
use canopy_controller_api::incident::{Incident, IncidentItem};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::IncidentQuery;
use canopy_controller_api::{ApiVersion, Kind, List};
use canopy_controller_core::incident::MAX_INCIDENTS;

use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};

/// Incidents of a list without `limit`.
const DEFAULT_LIMIT: usize = 50;

/// The newest incidents, the newest first, without their charts.
#[utoipa::path(get, path = "/api/v1/incidents", tag = "problems", operation_id = "listIncidents", params(IncidentQuery),
    responses((status = 200, body = List<IncidentItem>, description = "incidents"), (status = 400, body = Problem, description = "a parameter is wrong")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<IncidentQuery>,
) -> Result<Response, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_INCIDENTS).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={MAX_INCIDENTS}")));
    }
    let all = controller.incidents();
    let wanted = all.iter().filter(|i| query.problem.as_ref().is_none_or(|problem| i.problem == *problem));
    let items: Vec<IncidentItem> = wanted.take(limit).map(|incident| (&**incident).into()).collect();
    Ok(([(CACHE_CONTROL, "no-store")], Json(List::new(Kind::IncidentList, items))).into_response())
}

/// One incident with its charts: one step per second, from 5 min before the problem opened to 5 min after. A gap is `null`, never zero.
#[utoipa::path(get, path = "/api/v1/incidents/{incident}", tag = "problems", operation_id = "getIncident", params(("incident" = String, Path)),
    responses((status = 200, body = Incident, description = "the incident"), (status = 404, body = Problem, description = "no such incident is kept")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath(incident): ApiPath<String>,
) -> Result<Response, ApiError> {
    let kept = controller.incident(&incident).ok_or_else(|| ApiError::not_found("incident", incident))?;
    let series = kept.series.iter().map(|saved| super::charts::item(&saved.object, saved.series, &saved.points));
    let charts = Incident {
        api_version: ApiVersion,
        kind: Kind::Incident,
        incident: (&*kept).into(),
        start_unix_ns: kept.start_unix_ns.nanos(),
        step_seconds: 1,
        series: series.collect(),
    };
    Ok(([(CACHE_CONTROL, "no-store")], Json(charts)).into_response())
}
