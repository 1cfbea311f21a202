// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/topology`: one resource, named `default`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use canopy_controller_actor::Controller;
use canopy_controller_api::check::DryRun;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{WriteHeaders, WriteQuery};
use canopy_controller_api::{Input, Kind, TopologyResource};
use canopy_controller_core::{Command, Domain};
use canopy_model::topology::TopologySpec;

use super::tagged;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::ApiJson;

const NAME: &str = "default";

/// The declared network and its status.
#[utoipa::path(get, path = "/api/v1/topology", tag = "topology", operation_id = "getTopology",
    responses((status = 200, body = TopologyResource, description = "the topology"), (status = 404, body = Problem, description = "none was declared")))]
pub(crate) async fn get(State(controller): State<Controller>) -> Result<Response, ApiError> {
    let (tag, resource) = controller.read(read)?;
    Ok(tagged(StatusCode::OK, &tag, resource))
}

/// Declares or replaces the whole network.
#[utoipa::path(put, path = "/api/v1/topology", tag = "topology", operation_id = "putTopology", params(WriteQuery, WriteHeaders),
    request_body = Input<TopologySpec>,
    responses((status = 200, body = TopologyResource, description = "replaced or unchanged"), (status = 201, body = TopologyResource, description = "declared"),
        (status = 409, body = Problem, description = "in use"), (status = 412, body = Problem, description = "changed meanwhile"), (status = 422, body = Problem, description = "not valid")))]
pub(crate) async fn put(
    State(controller): State<Controller>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<TopologySpec>>,
) -> Result<Response, ApiError> {
    super::write(&controller, command(input)?, conditions, "/api/v1/topology".into(), read).await
}

/// Removes the topology.
#[utoipa::path(delete, path = "/api/v1/topology", tag = "topology", operation_id = "deleteTopology", params(WriteQuery, WriteHeaders),
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 204, description = "removed"), (status = 404, body = Problem, description = "none was declared"), (status = 409, body = Problem, description = "groups have members")))]
pub(crate) async fn delete(State(controller): State<Controller>, conditions: Conditions) -> Result<Response, ApiError> {
    super::delete(&controller, Command::DeleteTopology, conditions).await
}

pub(crate) fn command(input: Input<TopologySpec>) -> Result<Command, ApiError> {
    input.check(Kind::Topology, Some(NAME))?;
    Ok(Command::PutTopology { labels: input.metadata.labels, spec: input.spec.into(), if_match: None })
}

fn read(domain: &Domain) -> Result<(String, TopologyResource), ApiError> {
    let view = domain.topology().ok_or_else(|| ApiError::not_found("topology", NAME))?;
    Ok((view.metadata.tag(), view.into()))
}
