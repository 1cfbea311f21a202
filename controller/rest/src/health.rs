// SPDX-License-Identifier: Apache-2.0
//! Liveness, readiness, version.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canopy_controller_actor::Controller;
use canopy_controller_api::ApiVersion;
use canopy_controller_api::version::Version;
use canopy_controller_core::role::Role;
use serde::Deserialize;

use crate::caller::Sender;
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

/// One thing that is checked.
enum Check {
    Holds(String),
    /// What an operator has to see to; the API answers all the same.
    Warns(String),
    Fails(String),
}

/// The controller executes commands and the store responds. With `verbose`, one line per check. A store that takes no changes, or that
/// has lost some, is a line that begins with `[!]`, in every answer: reading works, so the controller is ready.
#[utoipa::path(get, path = "/readyz", tag = "health", params(("verbose" = Option<String>, Query, description = "One line per check.")),
    responses((status = 200, description = "ready", body = String), (status = 503, description = "not ready", body = String)))]
pub(crate) async fn readyz(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<Verbose>,
) -> (StatusCode, String) {
    let commands = match controller.is_running() {
        true => Check::Holds("executed".to_owned()),
        false => Check::Fails("the controller is stopping".to_owned()),
    };
    let store = match controller.store_state().await {
        Ok((revision, None)) => Check::Holds(format!("revision {revision}")),
        Ok((revision, Some(why))) => Check::Warns(format!("revision {revision}, read-only: {why}")),
        Err(why) => Check::Fails(why),
    };
    let mut checks = vec![("commands", commands), ("store", store)];
    if let Some(lost) = controller.store_recovery() {
        let what = format!("{lost}; `canopy-controller store acknowledge` takes note of it");
        checks.push(("lost", Check::Warns(what)));
    }
    let is_ready = !checks.iter().any(|(_, check)| matches!(check, Check::Fails(_)));
    let is_well = checks.iter().all(|(_, check)| matches!(check, Check::Holds(_)));
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if is_well && query.verbose.is_none() {
        return (status, "ok\n".into());
    }
    // Paths and what was lost are not for strangers.
    if by.role < Some(Role::Viewer) {
        let word = if is_ready { "ready, and an operator has to see to something" } else { "not ready" };
        return (status, format!("{word}: `canopyctl check` shows it\n"));
    }
    let lines = checks.iter().map(|(name, check)| match check {
        Check::Holds(detail) => format!("[+] {name}: {detail}\n"),
        Check::Warns(detail) => format!("[!] {name}: {detail}\n"),
        Check::Fails(detail) => format!("[-] {name}: {detail}\n"),
    });
    (status, lines.chain([format!("{}\n", if is_ready { "ready" } else { "not ready" })]).collect())
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
