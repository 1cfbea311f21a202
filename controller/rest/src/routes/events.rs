// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/events`: the last events, from a bounded ring in memory.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::RING;
use canopy_controller_api::event::EventItem;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{EventQuery, WatchQuery};
use canopy_controller_api::{Kind, List};

use crate::error::ApiError;
use crate::extract::ApiQuery;
use crate::watch::present::event_item;
use crate::watch::{Topic, Watches, only_with_watch};

const DEFAULT_LIMIT: usize = 200;

/// The newest events, oldest first.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", operation_id = "listEvents", params(EventQuery),
    responses((status = 200, description = "events; with `watch` a stream of changes", content((List<EventItem> = "application/json"), (String = "text/event-stream"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    ApiQuery(query): ApiQuery<EventQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if query.watch {
        let others =
            [("limit", query.limit.is_some()), ("group", query.group.is_some()), ("node", query.node.is_some())];
        let stream = WatchQuery { watch: true, after: query.after, timeout_seconds: query.timeout_seconds };
        return watches.open(&controller, Topic::Events, &stream, &headers, &others);
    }
    // `after` has a meaning of its own for a list.
    only_with_watch(&WatchQuery { watch: false, after: None, timeout_seconds: query.timeout_seconds })?;
    let after = query.after.as_deref().map(sequence).transpose()?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=RING).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={RING}")));
    }
    let wanted = |asked: &Option<String>, has: &Option<String>| asked.is_none() || asked == has;
    let events = controller.events().newest(limit, |e| {
        wanted(&query.group, &e.group) && wanted(&query.node, &e.node) && after.is_none_or(|a| e.sequence > a)
    });
    let items: Vec<EventItem> = events.into_iter().map(event_item).collect();
    Ok(Json(List::new(Kind::EventList, items)).into_response())
}

fn sequence(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| ApiError::bad_request("after", format!("{text:?} is not a sequence number")))
}
