// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/paths`: the paths by uSIDs of a pair of hosts, and what a captured header leads through. Both are computed for the answer.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::path::{DecodedPath, PathStyle, Paths};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{DecodeQuery, PathQuery};
use canopy_controller_core::path::Header;

use super::page::{self, Wanted};
use crate::error::ApiError;
use crate::extract::ApiQuery;

/// Segments of an SRH, at most: Hdr Ext Len has 8 bits.
pub(crate) const MAX_SEGMENTS: usize = 127;

/// The paths from one host to another, each with its program, links and MTU.
#[utoipa::path(get, path = "/api/v1/paths", tag = "paths", operation_id = "listPaths", params(PathQuery),
    responses((status = 200, body = Paths, description = "one page"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "no such host")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<PathQuery>,
) -> Result<Json<Paths>, ApiError> {
    let wanted = Wanted::new(query.limit, query.next.as_deref())?;
    let after = match wanted.after.map(|after| after.parse::<usize>()) {
        None => 0,
        Some(Ok(after)) => after,
        Some(Err(_)) => {
            return Err(ApiError::bad_request(
                "continue",
                "is not a token of this list: use the one of the previous page",
            ));
        }
    };
    let PathQuery { from, to, style, .. } = query;
    if from == to {
        return Err(ApiError::bad_request("to", "is the host of from: name two hosts"));
    }
    let style = style.unwrap_or(PathStyle::Nodes).into();
    let view = controller.read(|d| match [&from, &to].into_iter().find(|host| d.node_of_host(host).is_none()) {
        Some(unknown) => Err(ApiError::not_found("host", unknown)),
        None => Ok(d.paths(&from, &to, style)),
    })?;
    let view = view.ok_or_else(|| ApiError::not_found("host", &from))?;
    let (mut page, next) = Paths::page(from, to, view, after, wanted.limit);
    page.metadata.next = next.map(|next| page::token(next.to_string()));
    Ok(Json(page))
}

/// What a captured outer header leads through, at the source or at any hop behind it.
#[utoipa::path(get, path = "/api/v1/paths/decode", tag = "paths", operation_id = "decodePath", params(DecodeQuery),
    responses((status = 200, body = DecodedPath, description = "what it leads through, as far as it is understood"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "no such node, or no topology")))]
pub(crate) async fn decode(
    State(controller): State<Controller>,
    ApiQuery(query): ApiQuery<DecodeQuery>,
) -> Result<Json<DecodedPath>, ApiError> {
    let DecodeQuery { address, segments, segments_left, at } = query;
    let listed = segments.iter().flat_map(|listed| listed.split(','));
    let segments = listed.map(|segment| {
        let detail = || {
            format!("{segment:?} is not an IPv6 address: write the Segment List in the order of the wire, with commas")
        };
        segment.parse().map_err(|_| ApiError::bad_request("segments", detail()))
    });
    let segments: Vec<_> = segments.collect::<Result<_, _>>()?;
    if segments.len() > MAX_SEGMENTS {
        let detail = format!("{} segments: an SRH has at most {MAX_SEGMENTS}", segments.len());
        return Err(ApiError::bad_request("segments", detail));
    }
    let segments_left = segments_left.unwrap_or(0);
    let header = Header { destination: address, segments, segments_left };
    let view = controller.read(|d| d.decode_path(&header, at.as_deref()));
    let view = view.ok_or_else(|| match &at {
        Some(node) => ApiError::not_found("node", node),
        None => ApiError::not_found("topology", "default"),
    })?;
    Ok(Json(view.into()))
}
