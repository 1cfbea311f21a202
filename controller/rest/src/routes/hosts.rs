// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/hosts`: the hosts of the topology, with the state of their port and their groups.

use axum::Json;
use axum::extract::{Extension, State};
use canopy_controller_actor::Controller;
use canopy_controller_api::host::HostAgent;
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::HostQuery;
use canopy_controller_api::{HostResource, Kind, List};
use canopy_controller_authority::Registrar;
use canopy_controller_core::NameFilter;
use canopy_controller_core::view::HostView;
use canopy_identity::Subject;

use super::authority::Signing;
use super::filter;
use super::page::{self, Wanted};
use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};

/// Hosts in name order, with the numbers of their groups. A page under a filter may be short: only one without `metadata.continue` is the last.
#[utoipa::path(get, path = "/api/v1/hosts", tag = "hosts", operation_id = "listHosts", params(HostQuery),
    responses((status = 200, body = List<HostResource>, description = "one page"), (status = 400, body = Problem, description = "a parameter is wrong")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Extension(registrar): Signing,
    ApiQuery(query): ApiQuery<HostQuery>,
) -> Result<Json<List<HostResource>>, ApiError> {
    let wanted = Wanted::new(query.limit, query.next.as_deref())?;
    let fields = filter::fields(&query.field_selector)?;
    let filter = NameFilter { fields, contains: query.name_contains, ..NameFilter::default() };
    let page = controller.read(|d| d.hosts(&filter, wanted.after.as_deref(), wanted.limit));
    let items = page.items.into_iter().map(|view| shown(view, registrar.as_deref()));
    let mut list = List::new(Kind::HostList, items.collect());
    list.metadata.next = page.next.map(page::token);
    Ok(Json(list))
}

/// One host, with its groups.
#[utoipa::path(get, path = "/api/v1/hosts/{host}", tag = "hosts", operation_id = "getHost", params(("host" = String, Path)),
    responses((status = 200, body = HostResource, description = "the host"), (status = 404, body = Problem, description = "no such host")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    Extension(registrar): Signing,
    ApiPath(host): ApiPath<String>,
) -> Result<Json<HostResource>, ApiError> {
    let view = controller.read(|d| d.host(&host)).ok_or_else(|| ApiError::not_found("host", host))?;
    Ok(Json(shown(view, registrar.as_deref())))
}

/// With its agent, which the authority knows.
fn shown(view: HostView, registrar: Option<&Registrar>) -> HostResource {
    let subject = Subject::Host(view.name.clone());
    let mut host = HostResource::from(view);
    host.status.agent = match registrar.and_then(|registrar| registrar.is_connected(&subject)) {
        None => HostAgent::OfNode,
        Some(true) => HostAgent::Connected,
        Some(false) => HostAgent::NotConnected,
    };
    host
}
