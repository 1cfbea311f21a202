// SPDX-License-Identifier: Apache-2.0
//! Routes, and the limits that apply to all of them. A route's path and method are those of its handler's attribute.

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use canopy_controller_actor::Controller;
use tower_http::trace::TraceLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::routes::{events, flows, groups, links, members, nodes, telemetry, topology, validate};
use crate::{health, index, metrics, openapi};

/// Largest request body, bytes: a topology of 10,000 nodes.
pub const MAX_BODY_BYTES: usize = 4 << 20;
/// A request that takes longer is answered 503 and dropped; its command may still be executed.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The whole northbound API.
pub fn router(controller: Controller) -> Router {
    let (described, _) = described().split_for_parts();
    described
        .route("/", get(index::index))
        .route("/api/v1/openapi.json", get(openapi::serve))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(axum::middleware::from_fn(timeout))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(TraceLayer::new_for_http())
        .with_state(controller)
}

/// Every route of the API's description.
pub(crate) fn described() -> OpenApiRouter<Controller> {
    OpenApiRouter::with_openapi(openapi::header())
        .routes(routes!(topology::get, topology::put, topology::delete))
        .routes(routes!(links::list))
        .routes(routes!(links::get))
        .routes(routes!(flows::list))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::get))
        .routes(routes!(telemetry::node))
        .routes(routes!(groups::list, groups::create))
        .routes(routes!(groups::get, groups::put, groups::delete))
        .routes(routes!(members::list, members::create))
        .routes(routes!(members::get, members::put, members::delete))
        .routes(routes!(telemetry::group))
        .routes(routes!(events::list))
        .routes(routes!(validate::validate))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::version))
        .routes(routes!(metrics::serve))
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
