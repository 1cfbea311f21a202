// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/groups/{group}/captures`: one packet of a group, as every node of its tree saw it.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::Controller;
use canopy_controller_actor::captures::{CaptureError, CaptureNow};
use canopy_controller_api::capture::{
    Capture, CaptureFormat, CaptureItem, CaptureQuery, CaptureRequest, ExpectedPacket,
};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::{Kind, List};
use canopy_model::FieldError;
use canopy_model::capture::MAX_WITHIN;
use canopy_model::ids::Psn;

use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath, ApiQuery};

/// Seconds that a packet can be waited for.
pub(crate) const WITHIN: RangeInclusive<u64> = 1..=MAX_WITHIN.as_secs();
const PCAPNG: &str = "application/vnd.tcpdump.pcap";

/// Captures one packet of a group: the one with `psn`, or one that the source is about to send. One capture runs at a time.
#[utoipa::path(post, path = "/api/v1/groups/{group}/captures", tag = "groups", operation_id = "createCapture", params(("group" = String, Path)), request_body = CaptureRequest,
    responses((status = 201, body = Capture, description = "armed; see the Location header"), (status = 404, body = Problem, description = "no such group"), (status = 409, body = Problem, description = "another capture runs, or no data can pass, or no agent of the tree captures"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn create(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
    conditions: Conditions,
    ApiJson(CaptureRequest { psn, within_seconds }): ApiJson<CaptureRequest>,
) -> Result<Response, ApiError> {
    let scope = conditions.scope.clone();
    let by = conditions.unconditional()?;
    let psn = psn.map(|psn| Psn::new("psn", psn.into())).transpose().map_err(ApiError::invalid)?;
    let within = within_seconds.map_or(*WITHIN.end(), u64::from);
    if !WITHIN.contains(&within) {
        let detail = format!("{within} is outside {}..={} seconds", WITHIN.start(), WITHIN.end());
        return Err(ApiError::invalid(FieldError::new("withinSeconds", detail)));
    }
    let armed = controller.arm_capture(&group, psn, Duration::from_secs(within), by).map_err(|error| match error {
        // The one that runs is of a group that the caller does not see.
        CaptureError::Running { group, left, .. } if !controller.read(|d| scope.has_of(d.tenant_of(&group))) => {
            let detail = format!("a packet is being captured, for {left:?} more: try again then");
            ApiError::new(StatusCode::CONFLICT, "CaptureRunning", detail)
        }
        error => refused(error),
    })?;
    let shown = resource(&armed);
    let location = format!("/api/v1/groups/{group}/captures/{}", shown.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(shown)).into_response())
}

/// The captures of a group that are kept, the newest first: of the last 32 of all groups.
#[utoipa::path(get, path = "/api/v1/groups/{group}/captures", tag = "groups", operation_id = "listCaptures", params(("group" = String, Path)),
    responses((status = 200, body = List<CaptureItem>, description = "captures"), (status = 404, body = Problem, description = "no such group")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
) -> Result<Response, ApiError> {
    let kept = controller.captures_of(&group).ok_or_else(|| ApiError::not_found("group", &group))?;
    let items = kept.iter().map(|now| CaptureItem::new(&now.capture, now.state)).collect();
    Ok(([(CACHE_CONTROL, "no-store")], Json(List::new(Kind::CaptureList, items))).into_response())
}

/// What a packet of a group has to be at every place that it passes, from the programs of the nodes. Nothing is captured for it.
#[utoipa::path(get, path = "/api/v1/groups/{group}/packet", tag = "groups", operation_id = "getExpectedPacket", params(("group" = String, Path)),
    responses((status = 200, body = ExpectedPacket, description = "the packet at every place"), (status = 404, body = Problem, description = "no such group")))]
pub(crate) async fn expected(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
) -> Result<Json<ExpectedPacket>, ApiError> {
    let plan = controller.expected_packet(&group).ok_or_else(|| ApiError::not_found("group", &group))?;
    Ok(Json(ExpectedPacket::new(group, plan.as_ref())))
}

/// A capture as it is now. With `format=pcapng` the frames that are there, with one interface for each node, port and direction.
#[utoipa::path(get, path = "/api/v1/groups/{group}/captures/{capture}", tag = "groups", operation_id = "getCapture", params(("group" = String, Path), ("capture" = String, Path), CaptureQuery),
    responses((status = 200, description = "the capture", content((Capture = "application/json"), (String = "application/vnd.tcpdump.pcap"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "no such capture is kept")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath((group, capture)): ApiPath<(String, String)>,
    ApiQuery(query): ApiQuery<CaptureQuery>,
) -> Result<Response, ApiError> {
    let id = u32::from_str_radix(&capture, 16).ok().and_then(NonZeroU32::new);
    let found = id.and_then(|id| controller.capture(&group, id));
    let found = found.ok_or_else(|| ApiError::not_found("capture", capture))?;
    let shown = resource(&found);
    Ok(match query.format {
        CaptureFormat::Json => ([(CACHE_CONTROL, "no-store")], Json(shown)).into_response(),
        CaptureFormat::Pcapng => {
            let file = format!("attachment; filename=\"{}-{}.pcapng\"", shown.group, shown.id);
            let headers: [(HeaderName, String); 3] = [
                (CACHE_CONTROL, "no-store".to_owned()),
                (CONTENT_TYPE, PCAPNG.to_owned()),
                (CONTENT_DISPOSITION, file),
            ];
            (headers, found.capture.pcapng()).into_response()
        }
    })
}

fn resource(now: &CaptureNow) -> Capture {
    Capture::new(&now.capture, now.state, now.sent)
}

fn refused(error: CaptureError) -> ApiError {
    let detail = error.to_string();
    match error {
        CaptureError::NoGroup(group) => ApiError::not_found("group", group),
        CaptureError::NoTree(_) => ApiError::new(StatusCode::CONFLICT, "NoTree", detail),
        CaptureError::Running { .. } => ApiError::new(StatusCode::CONFLICT, "CaptureRunning", detail),
        CaptureError::Unable(_) => ApiError::new(StatusCode::CONFLICT, "CannotCapture", detail),
        CaptureError::Random => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", detail),
    }
}
