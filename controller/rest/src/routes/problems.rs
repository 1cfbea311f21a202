// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/problems` and `/api/v1/status`: what is wrong, and why.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::Controller;
use canopy_controller_api::health::{DomainStatus, ProblemCodeItem, ProblemItem, SubjectKind};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{ProblemQuery, WatchQuery};
use canopy_controller_api::{ApiVersion, Kind, List};
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;
use canopy_units::UnixTime;

use super::filter;
use crate::caller::Sender;
use crate::error::ApiError;
use crate::extract::{ApiPath, ApiQuery};
use crate::watch::{Topic, Watches, only_with_watch};

/// Problems of a list without `limit`.
const DEFAULT_LIMIT: usize = 200;
/// Problems of a list, at most.
pub(crate) const MAX_LIMIT: usize = 5000;
/// Root problems in the status.
const SHOWN: usize = 50;

/// Every problem that is open: roots first, then roots of which an operator knows, the worst first, then the oldest.
#[utoipa::path(get, path = "/api/v1/problems", tag = "problems", operation_id = "listProblems", params(ProblemQuery),
    responses((status = 200, description = "problems; with `watch` a stream of changes", content((List<ProblemItem> = "application/json"), (String = "text/event-stream"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn list(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<ProblemQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let scope = by.scope(Role::Viewer);
    let stream = WatchQuery { watch: query.watch, after: query.after, timeout_seconds: query.timeout_seconds };
    if stream.watch {
        let others = [
            ("limit", query.limit.is_some()),
            ("root", query.root),
            ("severity", query.severity.is_some()),
            ("kind", query.kind.is_some()),
            ("name", query.name.is_some()),
            ("fieldSelector", !query.field_selector.is_empty()),
        ];
        return watches.open(&controller, Topic::Problems, scope, &stream, &headers, &others);
    }
    only_with_watch(&stream)?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={MAX_LIMIT}")));
    }
    let subject = match (query.kind, query.name.as_deref()) {
        (None, None) => None,
        (Some(kind), Some(name)) => Some((kind, name)),
        _ => return Err(ApiError::bad_request("name", "kind and name name an object together: give both or none")),
    };
    let fields = filter::fields(&query.field_selector)?;
    // What is wrong with the ports to a host concerns it.
    let ports: Vec<String> = match subject {
        Some((SubjectKind::Host, host)) => {
            let links = controller.read(|d| d.host(host)).map(|host| host.status.links).unwrap_or_default();
            links.into_iter().map(|link| format!("{}/{}", link.node, link.port)).collect()
        }
        _ => Vec::new(),
    };
    let wanted = |p: &ProblemItem| {
        (!query.root || p.root)
            && query.severity.is_none_or(|severity| p.severity == severity)
            && subject.is_none_or(|(kind, name)| {
                p.concerns(kind, name) || ports.iter().any(|port| p.is_of(SubjectKind::Port, port))
            })
            && filter::problem_passes(&fields, p)
    };
    let items: Vec<ProblemItem> = items(&controller, &scope).filter(wanted).take(limit).collect();
    Ok(Json(List::new(Kind::ProblemList, items)).into_response())
}

/// One problem.
#[utoipa::path(get, path = "/api/v1/problems/{id}", tag = "problems", operation_id = "getProblem", params(("id" = String, Path)),
    responses((status = 200, body = ProblemItem, description = "the problem"), (status = 404, body = Problem, description = "no such problem is open")))]
pub(crate) async fn get(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<ProblemItem>, ApiError> {
    let found = items(&controller, &by.scope(Role::Viewer)).find(|p| p.id == id);
    found.map(Json).ok_or_else(|| ApiError::not_found("problem", id))
}

/// Every code of a problem, with what it means and what to do.
#[utoipa::path(get, path = "/api/v1/problem-codes", tag = "problems", operation_id = "listProblemCodes", responses((status = 200, body = List<ProblemCodeItem>, description = "the registry")))]
pub(crate) async fn codes() -> Json<List<ProblemCodeItem>> {
    Json(List::new(Kind::ProblemCodeList, ProblemCodeItem::all()))
}

/// The domain on one screen: how many of what, and the root problems.
#[utoipa::path(get, path = "/api/v1/status", tag = "problems", operation_id = "getStatus", responses((status = 200, body = DomainStatus, description = "the status")))]
pub(crate) async fn status(State(controller): State<Controller>) -> Json<DomainStatus> {
    let now = controller.now();
    let (term, topology, awaited) = controller.read(|d| (d.term(), d.topology_status(), d.restarting(now)));
    let (mut roots, mut silenced) = (BTreeMap::new(), 0);
    let mut problems = Vec::new();
    for problem in controller.problems().iter().filter(|problem| problem.is_root()) {
        match problem.silence {
            Some(_) => silenced += 1,
            None => *roots.entry(problem.key.code.info().severity.to_string()).or_default() += 1,
        }
        if problems.len() < SHOWN {
            problems.push(problem.clone().into());
        }
    }
    let count = |of: fn(&canopy_controller_core::view::TopologyStatus) -> u32| topology.as_ref().map_or(0, of);
    Json(DomainStatus {
        api_version: ApiVersion,
        kind: Kind::DomainStatus,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        term,
        time_unix_ns: UnixTime::now().nanos(),
        nodes: count(|t| t.nodes),
        connected_nodes: count(|t| t.connected_nodes),
        synced_nodes: count(|t| t.synced_nodes),
        restarting_agents: awaited.len() as u32,
        restarting: awaited.into_iter().take(SHOWN).map(Into::into).collect(),
        hosts: count(|t| t.hosts),
        links: count(|t| t.links),
        host_links: count(|t| t.host_links),
        groups: controller
            .phases()
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(phase, n)| (phase.to_string(), n as u64))
            .collect(),
        roots,
        silenced,
        problems,
        left_out: controller.problems_left_out(),
        pending_commit: super::commit::pending(&controller),
    })
}

fn items(controller: &Controller, scope: &Scope) -> impl Iterator<Item = ProblemItem> {
    let problems = controller.problems();
    (0..problems.len()).filter_map(move |at| {
        let problem = &problems[at];
        controller.has_problem(scope, problem).then(|| problem.clone().into())
    })
}
