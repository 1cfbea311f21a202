// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/groups`.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_api::check::DryRun;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{ListQuery, WatchQuery, WriteHeaders, WriteQuery};
use canopy_controller_api::{GroupResource, Input, Kind, List};
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::{Command, Domain};
use canopy_model::group::GroupSpec;
use canopy_model::status::GroupPhase;

use super::page::{self, Wanted};
use super::{deleted, filter, marked, tagged};
use crate::caller::Sender;
use crate::conditions::Conditions;
use crate::error::ApiError;
use crate::extract::{ApiJson, ApiPath, ApiQuery};
use crate::watch::{Topic, Watches, only_with_watch};

/// Groups in name order. A page under a filter may be short: only one without `metadata.continue` is the last.
#[utoipa::path(get, path = "/api/v1/groups", tag = "groups", operation_id = "listGroups", params(ListQuery),
    responses((status = 200, description = "one page; with `watch` a stream of changes", content((List<GroupResource> = "application/json"), (String = "text/event-stream"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<ListQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let stream = WatchQuery { watch: query.watch, after: query.after.clone(), timeout_seconds: query.timeout_seconds };
    if stream.watch {
        let others = [
            ("limit", query.limit.is_some()),
            ("continue", query.next.is_some()),
            ("labelSelector", !query.label_selector.is_empty()),
            ("fieldSelector", !query.field_selector.is_empty()),
            ("phase", query.phase.is_some()),
            ("namePrefix", !query.name_prefix.is_empty()),
        ];
        return watches.open(&controller, Topic::Groups, by.scope(Role::Viewer), &stream, &headers, &others);
    }
    only_with_watch(&stream)?;
    let wanted = Wanted::new(query.limit, query.next.as_deref())?;
    let filter = filter::of_groups(&query, by.scope(Role::Viewer))?;
    let page = controller.groups(&filter, wanted.after.as_deref(), wanted.limit);
    let groups: Vec<GroupResource> = page.items.into_iter().map(Into::into).collect();
    let mut list = List::new(Kind::GroupList, groups);
    list.metadata.next = page.next.map(page::token);
    Ok(Json(list).into_response())
}

/// Creates a group; 409 when there is one of this name.
#[utoipa::path(post, path = "/api/v1/groups", tag = "groups", operation_id = "createGroup", params(WriteQuery, WriteHeaders), request_body = Input<GroupSpec>,
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 201, body = GroupResource, description = "created; see the Location header"), (status = 412, body = Problem, description = "a condition does not hold"), (status = 409, body = Problem, description = "exists"), (status = 422, body = Problem, description = "not valid, or over a quota of the tenant"), (status = 429, body = Problem, description = "the tenant has made too many changes: see Retry-After")))]
pub(crate) async fn create(
    State(controller): State<Controller>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<GroupSpec>>,
) -> Result<Response, ApiError> {
    let name = input.metadata.name.clone().unwrap_or_default();
    let command = command(&name, input, true, &conditions.scope)?;
    super::write(&controller, command, conditions, format!("/api/v1/groups/{name}"), move |d| read(d, &name)).await
}

/// One group.
#[utoipa::path(get, path = "/api/v1/groups/{group}", tag = "groups", operation_id = "getGroup", params(("group" = String, Path)),
    responses((status = 200, body = GroupResource, description = "the group"), (status = 404, body = Problem, description = "no such group")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
) -> Result<Response, ApiError> {
    let (tag, resource) = controller.read(|d| read(d, &group))?;
    Ok(tagged(StatusCode::OK, &tag, resource))
}

/// Creates or replaces a group.
#[utoipa::path(put, path = "/api/v1/groups/{group}", tag = "groups", operation_id = "putGroup", params(("group" = String, Path), WriteQuery, WriteHeaders),
    request_body = Input<GroupSpec>,
    responses((status = 200, body = GroupResource, description = "changed or unchanged"), (status = 201, body = GroupResource, description = "created"),
        (status = 412, body = Problem, description = "changed meanwhile"), (status = 422, body = Problem, description = "not valid, or over a quota of the tenant"), (status = 429, body = Problem, description = "the tenant has made too many changes: see Retry-After")))]
pub(crate) async fn put(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
    conditions: Conditions,
    ApiJson(input): ApiJson<Input<GroupSpec>>,
) -> Result<Response, ApiError> {
    let command = command(&group, input, false, &conditions.scope)?;
    super::write(&controller, command, conditions, format!("/api/v1/groups/{group}"), move |d| read(d, &group)).await
}

/// Removes a group and its memberships.
///
/// 204: it is gone. 202: it has too many members for one transaction; it is stopped, no host can join it, and its members are being
/// removed, also over a restart of the controller. It is gone once a GET answers 404; a stream of the groups has its `deleted`.
#[utoipa::path(delete, path = "/api/v1/groups/{group}", tag = "groups", operation_id = "deleteGroup", params(("group" = String, Path), WriteQuery, WriteHeaders),
    responses((status = 200, body = DryRun, description = "with `dryRun`: what it would do"), (status = 202, body = GroupResource, description = "its members are being removed; phase `Deleting`"), (status = 204, description = "removed"), (status = 404, body = Problem, description = "no such group"), (status = 412, body = Problem, description = "changed meanwhile"), (status = 429, body = Problem, description = "the tenant has made too many changes: see Retry-After")))]
pub(crate) async fn delete(
    State(controller): State<Controller>,
    ApiPath(group): ApiPath<String>,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    let order = conditions.order(Command::DeleteGroup { name: group.clone() });
    // Another group of this name may be there when a deletion is sent again.
    let left = move |d: &Domain| {
        let view = d.group(&group).filter(|view| view.status.phase == GroupPhase::Deleting)?;
        Some((view.metadata.tag(), GroupResource::from(view)))
    };
    let (done, left) = controller.carry_out_and_show(order, left).await?;
    match left.flatten() {
        Some((tag, resource)) => Ok(marked(tagged(StatusCode::ACCEPTED, &tag, resource), done.replayed)),
        None => Ok(deleted(done)),
    }
}

/// Without a tenant, a group that is new is in the caller's, if that is one.
pub(crate) fn command(
    name: &str,
    input: Input<GroupSpec>,
    create_only: bool,
    scope: &Scope,
) -> Result<Command, ApiError> {
    input.check(Kind::Group, Some(name))?;
    let tenant = input.metadata.tenant.or_else(|| scope.only().map(str::to_owned));
    Ok(Command::PutGroup {
        tenant,
        name: name.to_owned(),
        labels: input.metadata.labels,
        spec: input.spec,
        if_match: None,
        create_only,
    })
}

fn read(domain: &Domain, group: &str) -> Result<(String, GroupResource), ApiError> {
    let view = domain.group(group).ok_or_else(|| ApiError::not_found("group", group))?;
    Ok((view.metadata.tag(), view.into()))
}
