// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/events`: the last events, from a bounded ring in memory.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::RING;
use canopy_controller_api::event::EventItem;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::EventQuery;
use canopy_controller_api::{Kind, List};

use crate::error::ApiError;
use crate::extract::ApiQuery;

const DEFAULT_LIMIT: usize = 200;

/// The newest events, oldest first.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", operation_id = "listEvents", params(EventQuery),
    responses((status = 200, body = List<EventItem>, description = "events"), (status = 400, body = Problem, description = "a parameter is wrong")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<EventQuery>,
) -> Result<Json<List<EventItem>>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=RING).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={RING}")));
    }
    let wanted = |asked: &Option<String>, has: &Option<String>| asked.is_none() || asked == has;
    let events = controller.events().newest(limit, |e| {
        wanted(&query.group, &e.group) && wanted(&query.node, &e.node) && query.after.is_none_or(|a| e.sequence > a)
    });
    let items = events.into_iter().map(|e| EventItem {
        sequence: e.sequence,
        time_unix_ns: e.time.nanos(),
        code: e.code.to_string(),
        node: e.node,
        group: e.group,
        branch: e.branch,
        detail: e.detail,
    });
    Ok(Json(List::new(Kind::EventList, items.collect())))
}
