// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/groups/{group}/members`: one membership per host.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use canopy_controller_access::Identity;
use canopy_controller_actor::Controller;
use canopy_controller_api::check::DryRun;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{WriteHeaders, WriteQuery};
use canopy_controller_api::{Input, Kind, List, MemberResource};
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Domain};
use canopy_model::FieldError;
use canopy_model::member::MemberSpec;

use super::tagged;
use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath};

/// All members of a group, in host order. A viewer sees no `memory`.
#[utoipa::path(get, path = "/api/v1/groups/{group}/members", tag = "members", operation_id = "listMembers", params(("group" = String, Path)),
    responses((status = 200, body = List<MemberResource>, description = "all members"), (status = 404, body = Problem, description = "no such group")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiPath(group): ApiPath<String>,
) -> Result<Json<List<MemberResource>>, ApiError> {
    let members = controller.read(|d| d.members(&group)).ok_or_else(|| ApiError::not_found("group", group))?;
    let shown = members.into_iter().map(|view| shown(view.into(), &by)).collect();
    Ok(Json(List::new(Kind::MemberList, shown)))
}

/// Joins a group; joining again with the same content is a success (200), with other content 409.
#[utoipa::path(post, path = "/api/v1/groups/{group}/members", tag = "members", operation_id = "createMember", params(("group" = String, Path), WriteQuery, WriteHeaders),
    request_body = Input<MemberSpec>,
    responses((status = 201, body = MemberResource, description = "joined; see the Location header"), (status = 200, body = MemberResource, description = "was a member already"),
        (status = 404, body = Problem, description = "no such group"), (status = 409, body = Problem, description = "is a member with other content"), (status = 422, body = Problem, description = "not valid, or over a quota of the tenant"), (status = 429, body = Problem, description = "the tenant has made too many changes: see Retry-After")))]
pub(crate) async fn create(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<MemberSpec>>,
) -> Result<Response, ApiError> {
    let host = input.spec.host.clone();
    let command = command(&controller, &conditions.scope, &group, None, input, true)?;
    super::write(&controller, command, conditions, path(&group, &host), move |d| read(d, &group, &host)).await
}

/// One membership. A viewer sees no `memory`.
#[utoipa::path(get, path = "/api/v1/groups/{group}/members/{host}", tag = "members", operation_id = "getMember", params(("group" = String, Path), ("host" = String, Path)),
    responses((status = 200, body = MemberResource, description = "the membership"), (status = 404, body = Problem, description = "no such membership")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiPath((group, host)): ApiPath<(String, String)>,
) -> Result<Response, ApiError> {
    let (tag, resource) = controller.read(|d| read(d, &group, &host))?;
    Ok(tagged(StatusCode::OK, &tag, shown(resource, &by)))
}

/// Joins a group, or replaces the membership.
#[utoipa::path(put, path = "/api/v1/groups/{group}/members/{host}", tag = "members", operation_id = "putMember",
    params(("group" = String, Path), ("host" = String, Path), WriteQuery, WriteHeaders), request_body = Input<MemberSpec>,
    responses((status = 200, body = MemberResource, description = "changed or unchanged"), (status = 201, body = MemberResource, description = "joined"),
        (status = 404, body = Problem, description = "no such group"), (status = 412, body = Problem, description = "changed meanwhile"), (status = 422, body = Problem, description = "not valid, or over a quota of the tenant"), (status = 429, body = Problem, description = "the tenant has made too many changes: see Retry-After")))]
pub(crate) async fn put(
    State(controller): State<Controller>,
    ApiPath((group, host)): ApiPath<(String, String)>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<MemberSpec>>,
) -> Result<Response, ApiError> {
    let command = command(&controller, &conditions.scope, &group, Some(&host), input, false)?;
    super::write(&controller, command, conditions, path(&group, &host), move |d| read(d, &group, &host)).await
}

/// Leaves a group.
#[utoipa::path(delete, path = "/api/v1/groups/{group}/members/{host}", tag = "members", operation_id = "deleteMember",
    params(("group" = String, Path), ("host" = String, Path), WriteQuery, WriteHeaders),
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 204, description = "left"), (status = 404, body = Problem, description = "no such membership"), (status = 412, body = Problem, description = "changed meanwhile"), (status = 429, body = Problem, description = "the tenant has made too many changes: see Retry-After")))]
pub(crate) async fn delete(
    State(controller): State<Controller>,
    ApiPath((group, host)): ApiPath<(String, String)>,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    super::delete(&controller, Command::DeleteMember { group, host }, conditions).await
}

pub(crate) fn command(
    controller: &Controller,
    scope: &Scope,
    group: &str,
    host: Option<&str>,
    input: Input<MemberSpec>,
    create_only: bool,
) -> Result<Command, ApiError> {
    input.check_member(group, host)?;
    let tenant = controller.read(|d| d.tenant_of(group).filter(|tenant| scope.has(tenant)).map(str::to_owned));
    if let (Some(wanted), Some(tenant)) = (&input.metadata.tenant, tenant)
        && *wanted != tenant
    {
        let detail = format!("{wanted:?} is not {tenant:?}, the tenant of group {group}: leave it out");
        return Err(ApiError::invalid(FieldError::new("metadata.tenant", detail)));
    }
    Ok(Command::PutMember { group: group.to_owned(), spec: input.spec, create_only, instance: None, lease: None })
}

fn path(group: &str, host: &str) -> String {
    format!("/api/v1/groups/{group}/members/{host}")
}

/// What a caller may see of it: with address and R_Key of a receiver's memory, every host that reaches the receiver can write there.
fn shown(mut member: MemberResource, by: &Identity) -> MemberResource {
    if by.role_in(&member.metadata.metadata.tenant) < Some(Role::Operator) {
        member.spec.memory = None;
    }
    member
}

fn read(domain: &Domain, group: &str, host: &str) -> Result<(String, MemberResource), ApiError> {
    let view = domain.member(group, host).ok_or_else(|| match domain.group(group) {
        Some(_) => ApiError::not_found("member", format!("{group}/{host}")),
        None => ApiError::not_found("group", group),
    })?;
    Ok((view.metadata.tag(), view.into()))
}
