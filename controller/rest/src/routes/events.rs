// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/events`: what happened, from a bounded ring in memory and the journal behind it.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_actor::events::RING;
use canopy_controller_actor::journal::EventFilter;
use canopy_controller_api::event::EventItem;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{EventQuery, WatchQuery};
use canopy_controller_api::{Kind, List};
use canopy_controller_core::role::Role;
use canopy_units::UnixTime;

use super::history::ago;
use crate::caller::Sender;
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
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<EventQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let scope = by.scope(Role::Viewer);
    if query.watch {
        let others = [
            ("limit", query.limit.is_some()),
            ("group", query.group.is_some()),
            ("node", query.node.is_some()),
            ("code", query.code.is_some()),
            ("before", query.before.is_some()),
            ("withinSeconds", query.within_seconds.is_some()),
        ];
        let stream = WatchQuery { watch: true, after: query.after, timeout_seconds: query.timeout_seconds };
        return watches.open(&controller, Topic::Events, scope, &stream, &headers, &others);
    }
    // `after` has a meaning of its own for a list.
    only_with_watch(&WatchQuery { watch: false, after: None, timeout_seconds: query.timeout_seconds })?;
    let after = query.after.as_deref().map(|text| sequence("after", text)).transpose()?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=RING).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={RING}")));
    }
    let EventQuery { node, group, code, before, within_seconds, .. } = query;
    let before = before.as_deref().map(|text| sequence("before", text)).transpose()?;
    let since = within_seconds.map_or_else(UnixTime::default, ago);
    let filter = EventFilter { scope, node, group, code, after, before, since };
    let events = controller.recorded_events(limit, filter).await?;
    Ok(Json(List::new(Kind::EventList, events.into_iter().map(event_item).collect())).into_response())
}

fn sequence(field: &str, text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| ApiError::bad_request(field, format!("{text:?} is not a sequence number")))
}
