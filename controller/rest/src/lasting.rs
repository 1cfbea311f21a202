// SPDX-License-Identifier: Apache-2.0
//! A stream lasts no longer than what its caller was permitted it for: its roles are compared while it is open.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use canopy_controller_access::Identity;
use futures::StreamExt;
use tokio::time::{Instant, interval_at};

use crate::caller::Caller;
use crate::watch::frame::{CONTENT, bye};

/// Time between two comparisons. With the second that an identity is kept for, a stream ends within 3 s.
const COMPARED_EVERY: Duration = Duration::from_secs(2);

/// `response`, which ends with `bye` if it is a stream and the caller's roles are others than `then`: what it shows was chosen by those.
pub(crate) fn while_permitted(response: Response, caller: Caller, then: Identity) -> Response {
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == CONTENT);
    if !is_stream || caller.is_known() {
        return response;
    }
    let (head, body) = response.into_parts();
    let changed = Box::pin(changed(caller, then));
    let events = futures::stream::unfold(Some((body.into_data_stream(), changed)), |open| async move {
        let (mut body, mut changed) = open?;
        tokio::select! {
            biased;
            () = &mut changed => Some((Ok(bye("your roles have changed")), None)),
            next = body.next() => next.map(|event| (event, Some((body, changed)))),
        }
    });
    Response::from_parts(head, Body::from_stream(events))
}

/// Returns once the caller's roles are others.
async fn changed(caller: Caller, then: Identity) {
    let mut again = interval_at(Instant::now() + COMPARED_EVERY, COMPARED_EVERY);
    loop {
        again.tick().await;
        if !caller.identity().await.has_roles_of(&then) {
            return;
        }
    }
}
