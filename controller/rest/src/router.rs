// SPDX-License-Identifier: Apache-2.0
//! Routes, and the limits that apply to all of them.

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use canopy_controller_actor::Controller;
use tower_http::trace::TraceLayer;

use crate::error::ApiError;
use crate::{health, index, metrics, openapi, routes};

/// Largest request body, bytes: a topology of 10,000 nodes.
pub const MAX_BODY_BYTES: usize = 4 << 20;
/// A request that takes longer is answered 503 and dropped; its command may still be executed.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The whole northbound API.
pub fn router(controller: Controller) -> Router {
    let v1 = Router::new()
        .route("/topology", get(routes::topology::get).put(routes::topology::put).delete(routes::topology::delete))
        .route("/links", get(routes::links::list))
        .route("/links/{node}/{port}", get(routes::links::get))
        .route("/flows", get(routes::flows::list))
        .route("/nodes", get(routes::nodes::list))
        .route("/nodes/{node}", get(routes::nodes::get))
        .route("/nodes/{node}/telemetry", get(routes::telemetry::node))
        .route("/groups", get(routes::groups::list).post(routes::groups::create))
        .route("/groups/{group}", get(routes::groups::get).put(routes::groups::put).delete(routes::groups::delete))
        .route("/groups/{group}/members", get(routes::members::list).post(routes::members::create))
        .route(
            "/groups/{group}/members/{host}",
            get(routes::members::get).put(routes::members::put).delete(routes::members::delete),
        )
        .route("/groups/{group}/telemetry", get(routes::telemetry::group))
        .route("/events", get(routes::events::list))
        .route("/validate", post(routes::validate::validate))
        .route("/openapi.json", get(openapi::serve));
    Router::new()
        .nest("/api/v1", v1)
        .route("/", get(index::index))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/version", get(health::version))
        .route("/metrics", get(metrics::serve))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(axum::middleware::from_fn(timeout))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(TraceLayer::new_for_http())
        .with_state(controller)
}

async fn no_route(uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "NotFound",
        format!("nothing is served at {}: see /api/v1/openapi.json", uri.path()),
    )
}

async fn no_method(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        format!("{} is not supported at {}", request.method(), request.uri().path()),
    )
}

async fn timeout(request: Request, next: axum::middleware::Next) -> Result<Response, ApiError> {
    let late = |_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Timeout",
            format!("no answer within {REQUEST_TIMEOUT:?}: read the resource to see whether the change was made"),
        )
    };
    tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await.map_err(late)
}
