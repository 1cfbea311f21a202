// SPDX-License-Identifier: Apache-2.0
//! Liveness, readiness, version.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canopy_controller_actor::Controller;
use canopy_controller_api::ApiVersion;
use canopy_controller_api::version::Version;
use serde::Deserialize;

use crate::extract::ApiQuery;

#[derive(Deserialize)]
pub(crate) struct Verbose {
    verbose: Option<String>,
}

/// The process is alive.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, description = "alive", body = String)))]
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// The controller executes commands and the store responds. With `verbose`, one line per check.
#[utoipa::path(get, path = "/readyz", tag = "health", params(("verbose" = Option<String>, Query, description = "One line per check.")),
    responses((status = 200, description = "ready", body = String), (status = 503, description = "not ready", body = String)))]
pub(crate) async fn readyz(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<Verbose>,
) -> (StatusCode, String) {
    let store = controller.store_revision().await;
    let checks = [
        (
            "commands",
            if controller.is_running() {
                Ok("executed".to_owned())
            } else {
                Err("the controller is stopping".to_owned())
            },
        ),
        ("store", store.map(|r| format!("revision {r}"))),
    ];
    let ready = checks.iter().all(|(_, c)| c.is_ok());
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if ready && query.verbose.is_none() {
        return (status, "ok\n".into());
    }
    let lines = checks.iter().map(|(name, check)| match check {
        Ok(detail) => format!("[+] {name}: {detail}\n"),
        Err(detail) => format!("[-] {name}: {detail}\n"),
    });
    (status, lines.chain([format!("{}\n", if ready { "ready" } else { "not ready" })]).collect())
}

/// Version of the controller and of the API.
#[utoipa::path(get, path = "/version", tag = "health", responses((status = 200, description = "version", body = Version)))]
pub(crate) async fn version(State(controller): State<Controller>) -> Json<Version> {
    Json(Version {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api_version: ApiVersion,
        term: controller.read(|d| d.term()),
    })
}
