// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/log-levels`: filters of log lines that hold for a while.

use std::ops::RangeInclusive;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canopy_controller_actor::Controller;
use canopy_controller_actor::log_levels::{LogLevel, LogLevelError, LogTarget};
use canopy_controller_api::log_level::{LogLevelItem, LogLevelRequest};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::{Kind, List};
use canopy_model::FieldError;
use canopy_model::ids::check_name;
use canopy_model::log_level::{LogFilter, LogOrder, MAX_HOLD, MIN_HOLD};
use canopy_units::nanos;

use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::ApiJson;
use crate::request;

/// Seconds that a filter can hold.
pub(crate) const HOLDS: RangeInclusive<u64> = MIN_HOLD.as_secs()..=MAX_HOLD.as_secs();
const DEFAULT: u64 = 600;

/// The filters that operators have set and that hold: the controller's first, then by node.
#[utoipa::path(get, path = "/api/v1/log-levels", tag = "controllers", operation_id = "listLogLevels",
    responses((status = 200, body = List<LogLevelItem>, description = "the filters in force")))]
pub(crate) async fn list(State(controller): State<Controller>) -> Json<List<LogLevelItem>> {
    Json(List::new(Kind::LogLevelList, items(&controller)))
}

/// Sets the filter of log lines of an agent, or of the controller, for a while; then that of its configuration holds again. The answer has
/// all filters in force. They are not stored: a controller that restarts has that of its configuration, and forgets those of agents, which
/// count the time themselves.
#[utoipa::path(post, path = "/api/v1/log-levels", tag = "controllers", operation_id = "setLogLevel", request_body = LogLevelRequest,
    responses((status = 200, body = List<LogLevelItem>, description = "set"), (status = 404, body = Problem, description = "no such node"), (status = 409, body = Problem, description = "the node's agent is not connected, or does not know filters"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn set(
    State(controller): State<Controller>,
    conditions: Conditions,
    ApiJson(LogLevelRequest { node, level, for_seconds }): ApiJson<LogLevelRequest>,
) -> Result<Json<List<LogLevelItem>>, ApiError> {
    let by = conditions.unconditional()?;
    let seconds = for_seconds.map_or(DEFAULT, u64::from);
    if !HOLDS.contains(&seconds) {
        let detail = format!("{seconds} is outside {}..={} seconds", HOLDS.start(), HOLDS.end());
        return Err(ApiError::invalid(FieldError::new("forSeconds", detail)));
    }
    let filter = level.map(|level| LogFilter::new("level", &level)).transpose().map_err(ApiError::invalid)?;
    let target = match node {
        None => LogTarget::Controller,
        Some(node) => {
            check_name("node", &node).map_err(ApiError::invalid)?;
            LogTarget::Agent(node)
        }
    };
    let order = LogOrder { filter, within: Duration::from_secs(seconds) };
    controller.set_log_level(target, order, by, request::current()).await.map_err(refused)?;
    Ok(list(State(controller)).await)
}

fn items(controller: &Controller) -> Vec<LogLevelItem> {
    let now = controller.now();
    let item = |(target, level): (LogTarget, LogLevel)| LogLevelItem {
        node: match target {
            LogTarget::Controller => None,
            LogTarget::Agent(node) => Some(node),
        },
        level: level.filter.as_str().to_owned(),
        by: level.by.into(),
        until_unix_ns: level.until.nanos(),
        left_ns: nanos(level.ends.since(now)),
    };
    controller.log_levels().into_iter().map(item).collect()
}

/// The filter of the controller itself.
pub(crate) fn own(controller: &Controller) -> Option<LogLevelItem> {
    items(controller).into_iter().find(|item| item.node.is_none())
}

fn refused(error: LogLevelError) -> ApiError {
    let detail = error.to_string();
    match error {
        LogLevelError::NoNode(node) => ApiError::not_found("node", node),
        LogLevelError::NotConnected(_) => ApiError::new(StatusCode::CONFLICT, "NotConnected", detail),
        LogLevelError::Unable { .. } => ApiError::new(StatusCode::CONFLICT, "CannotSetLevel", detail),
        LogLevelError::Command(error) => error.into(),
    }
}
