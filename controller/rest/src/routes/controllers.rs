// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/controllers`: the controller of the domain.

use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::controller::{ControllerResource, ControllerStatus, StoreStatus};
use canopy_controller_api::{Kind, List};
use canopy_units::{Monotonic, nanos};

/// The controllers of the domain: the one that answers.
#[utoipa::path(get, path = "/api/v1/controllers", tag = "controllers", operation_id = "listControllers", responses((status = 200, body = List<ControllerResource>, description = "the controller")))]
pub(crate) async fn list(State(controller): State<Controller>) -> Json<List<ControllerResource>> {
    let (revision, read_only) = match controller.store_state().await {
        Ok(state) => state,
        Err(why) => (0, Some(why)),
    };
    let (engine, octets) = controller.store_size().await;
    let backup = controller.last_backup().await;
    let times = controller.commit_times();
    let store = StoreStatus {
        engine: engine.to_owned(),
        octets,
        revision,
        read_only,
        backup_revision: backup.map(|backup| backup.revision),
        backup_unix_ns: backup.and_then(|backup| backup.at.duration_since(UNIX_EPOCH).ok()).map(nanos),
        measured_commits: times.count() as u32,
        commit_p50_ns: times.percentile(50).map(nanos),
        commit_p99_ns: times.percentile(99).map(nanos),
    };
    let status = ControllerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        term: controller.read(|d| d.term()),
        uptime_ns: nanos(controller.now().since(Monotonic::START)),
        store,
        log_level: super::log_levels::own(&controller),
    };
    Json(List::new(Kind::ControllerList, vec![ControllerResource::new(status)]))
}
