// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/tenants`: what tenants have beside what they may have.

use axum::Json;
use axum::extract::State;
use canopy_controller_actor::Controller;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::TenantQuery;
use canopy_controller_api::tenant::TenantItem;
use canopy_controller_api::{Kind, List};
use canopy_controller_core::role::Role;

use super::page::{self, Wanted};
use crate::caller::Sender;
use crate::error::ApiError;
use crate::extract::ApiQuery;

/// Tenants in name order: those with groups, those with quotas of their own, and the default one. With roles in tenants alone, the caller's.
#[utoipa::path(get, path = "/api/v1/tenants", tag = "tenants", operation_id = "listTenants", params(TenantQuery),
    responses((status = 200, body = List<TenantItem>, description = "one page"), (status = 400, body = Problem, description = "a parameter is wrong")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<TenantQuery>,
) -> Result<Json<List<TenantItem>>, ApiError> {
    let wanted = Wanted::new(query.limit, query.next.as_deref())?;
    let scope = by.scope(Role::Viewer);
    let page = controller.read(|d| d.tenants(&scope, wanted.after.as_deref(), wanted.limit));
    let mut list = List::new(Kind::TenantList, page.items.into_iter().map(Into::into).collect());
    list.metadata.next = page.next.map(page::token);
    Ok(Json(list))
}
