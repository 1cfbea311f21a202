// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/groups/{group}/waited-for`: for which receivers the source of a group waits.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::LimitQuery;
use canopy_controller_api::waited::{WaitedFor, WaitedStrip};

use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};

const DEFAULT_LIMIT: usize = 10;
pub(crate) const MAX_LIMIT: usize = 1000;

/// For which receivers the source waits; of a group without a tree, for none.
#[utoipa::path(get, path = "/api/v1/groups/{group}/waited-for", tag = "groups", operation_id = "getWaitedFor", params(("group" = String, Path), LimitQuery),
    responses((status = 200, body = WaitedFor, description = "the shares of the receivers"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "no such group")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
    ApiQuery(query): ApiQuery<LimitQuery>,
) -> Result<Json<WaitedFor>, ApiError> {
    let limit = limit(&query)?;
    let shares = controller.waited_for(&group).ok_or_else(|| ApiError::not_found("group", &group))?;
    Ok(Json(WaitedFor::new(group, shares, limit)))
}

/// The same by second, over the last 5 minutes.
#[utoipa::path(get, path = "/api/v1/groups/{group}/waited-for/strip", tag = "groups", operation_id = "getWaitedStrip", params(("group" = String, Path), LimitQuery),
    responses((status = 200, body = WaitedStrip, description = "the shares of the receivers"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "no such group")))]
pub(crate) async fn strip(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
    ApiQuery(query): ApiQuery<LimitQuery>,
) -> Result<Json<WaitedStrip>, ApiError> {
    let limit = limit(&query)?;
    let strip = controller.waited_strip(&group).ok_or_else(|| ApiError::not_found("group", &group))?;
    let receivers = strip.receivers.into_iter().map(|r| (r.host, r.node, r.shares));
    Ok(Json(WaitedStrip::new(group, strip.start, receivers, limit)))
}

fn limit(query: &LimitQuery) -> Result<usize, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={MAX_LIMIT}")));
    }
    Ok(limit)
}
