// SPDX-License-Identifier: Apache-2.0
//! The whole API, with the limits that apply to every route.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use canopy_controller_actor::Controller;
use canopy_controller_authority::Registrar;
use tokio::sync::watch;
use tower_http::trace::TraceLayer;

use crate::accounts::Credentials;
use crate::body_size::MAX_BODY_BYTES;
use crate::error::ApiError;
use crate::limits::{self, Limits};
use crate::sessions::{self, Bearers, Sessions};
use crate::single_sign_on::SingleSignOn;
use crate::watch::Watches;
use crate::{authorization, openapi, plain, request, ui};

/// A request that takes longer is answered 503 and dropped; its command may still be executed. Streams last longer: their answer is
/// complete with its headers.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Streams of a router without a listener.
const STREAMS: usize = 512;

/// The whole northbound API with streams, sessions and tokens of its own, which end with it. A request needs a [`Caller`](crate::Caller).
pub fn router(controller: Controller) -> Router {
    let (open, closing) = watch::channel(false);
    let watches = Watches::new(closing, STREAMS);
    router_with(controller, watches, Limits::default(), Sessions::default(), Credentials::default(), None, None)
        .layer(Extension(Arc::new(open)))
}

/// The whole northbound API with these streams, limits, sessions and credentials; `registrar` has the identities of agents, if they connect over TLS,
/// and `single_sign_on` the identity provider, if there is one.
pub fn router_with(
    controller: Controller,
    watches: Watches,
    limits: Limits,
    sessions: Sessions,
    credentials: Credentials,
    registrar: Option<Arc<Registrar>>,
    single_sign_on: Option<Arc<SingleSignOn>>,
) -> Router {
    let tokens = credentials.tokens.clone();
    let bearers = Bearers { sessions: sessions.clone(), credentials };
    let (described, _) = openapi::described().split_for_parts();
    described
        .route_layer(axum::middleware::from_fn(openapi::parameters::refuse_unknown))
        .route("/plain", get(plain::page))
        .route("/api/v1/openapi.json", get(openapi::serve))
        // Behind the decision about the caller's role, so that a stranger's octets are not read.
        .route_layer(axum::middleware::from_fn_with_state(limits, limits::count))
        .route_layer(axum::middleware::from_fn_with_state(controller.clone(), authorization::authorize))
        .method_not_allowed_fallback(no_method)
        .layer(axum::middleware::from_fn_with_state(controller.clone(), settle))
        // Not below `settle`: the UI is served whatever the state of the store.
        .fallback(ui::fallback)
        .layer(axum::middleware::from_fn(timeout))
        .layer(Extension(watches))
        .layer(Extension(registrar))
        .layer(Extension(single_sign_on))
        .layer(Extension(tokens))
        .layer(axum::middleware::from_fn_with_state(bearers, sessions::require))
        .layer(Extension(sessions))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(TraceLayer::new_for_http().make_span_with(request::span))
        .layer(axum::middleware::from_fn_with_state(controller.clone(), request::traced))
        .layer(axum::middleware::from_fn(request::identify))
        .with_state(controller)
}

async fn no_method(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        format!("{} is not supported at {}", request.method(), request.uri().path()),
    )
}

/// An answer shows nothing that a power cut can take back. Probes show no resources, and must not wait for a disk.
async fn settle(
    State(controller): State<Controller>,
    request: Request,
    next: axum::middleware::Next,
) -> Result<Response, ApiError> {
    let is_probe = matches!(request.uri().path(), "/livez" | "/readyz");
    let response = next.run(request).await;
    if !is_probe {
        controller.settled().await?;
    }
    Ok(response)
}

async fn timeout(request: Request, next: axum::middleware::Next) -> Result<Response, ApiError> {
    let late = |_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Timeout",
            format!(
                "no answer within {REQUEST_TIMEOUT:?}: read the resource to see whether the change was made, or send it again with the same Idempotency-Key"
            ),
        )
    };
    tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await.map_err(late)
}
