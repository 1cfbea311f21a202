// SPDX-License-Identifier: Apache-2.0
//! `/metrics` of the controller: what it alone knows. What kernels count, agents export themselves, and no family is on both.

use axum::Json;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::Controller;
use canopy_controller_api::prometheus::{TargetGroup, TargetLabels};
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;
use canopy_metrics::format::Format;
use canopy_metrics::{Bound, Description};

use crate::caller::Sender;
use crate::error::ApiError;

mod charts;
mod domain;
mod limits;
mod links;
mod nodes;
mod tenants;

/// Every family of the controller.
pub fn families() -> Vec<Description> {
    let mut all = domain::families();
    all.extend(charts::families());
    all.extend(tenants::families());
    all.extend(nodes::families());
    all.extend(links::families());
    all.extend(limits::families());
    all
}

/// Series in one scrape, at most.
const BOUND: Bound = Bound { most: 50_000, left_out: &domain::LEFT_OUT };

/// Metrics of the controller, as Prometheus text 0.0.4 or OpenMetrics 1.0, whichever the header Accept prefers.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses((status = 200, description = "Prometheus text or OpenMetrics", content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(crate) async fn serve(
    State(controller): State<Controller>,
    Sender(by): Sender,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let store = controller.store_state().await;
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::of(accept.unwrap_or_default());
    let text = tokio::task::spawn_blocking(move || {
        let writable = matches!(store, Ok((_, None)));
        match by.scope(Role::Metrics) {
            Scope::Domain => format.write(domain::Scrape { controller, writable }, BOUND),
            scope => format.write(tenants::OfTenants { controller, scope }, BOUND),
        }
    });
    match text.await {
        Ok(Ok(text)) => Ok(([(CONTENT_TYPE, format.content_type())], text).into_response()),
        _ => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", "the metrics could not be written")),
    }
}

/// The agents that serve metrics, for Prometheus' HTTP service discovery. The label `node` of their series is from here.
#[utoipa::path(get, path = "/api/v1/prometheus/targets", tag = "health", operation_id = "prometheusTargets",
    responses((status = 200, description = "targets, in name order", body = Vec<TargetGroup>)))]
pub(crate) async fn targets(State(controller): State<Controller>) -> Json<Vec<TargetGroup>> {
    let mut all = Vec::new();
    controller.read(|d| {
        d.for_each_node(|node| {
            if !node.metrics_address.is_empty() {
                let labels = TargetLabels { node: node.name.to_owned() };
                all.push(TargetGroup { targets: vec![node.metrics_address.to_owned()], labels });
            }
        });
    });
    all.sort_unstable_by(|a, b| a.labels.node.cmp(&b.labels.node));
    Json(all)
}
