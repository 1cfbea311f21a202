// SPDX-License-Identifier: Apache-2.0
//! `/api/v1/audit` and `/api/v1/versions`: what operators wrote.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use canopy_controller_actor::books::Version;
use canopy_controller_actor::{AuditFilter, Controller, Target};
use canopy_controller_api::history::{AuditItem, IntentKind, VersionItem};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{AuditQuery, VersionQuery, WatchQuery};
use canopy_controller_api::{Kind, List};
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::recorded;
use canopy_units::{UnixTime, nanos};

use crate::caller::Sender;
use crate::error::ApiError;
use crate::extract::ApiQuery;
use crate::watch::{Topic, Watches, only_with_watch};

/// Entries of the audit on one page, at most.
pub(crate) const MAX_PAGE: usize = 1000;
const DEFAULT_PAGE: usize = 100;
/// Kinds whose versions are kept.
pub(crate) const VERSIONED: [IntentKind; 3] = [IntentKind::Topology, IntentKind::Drain, IntentKind::Group];

/// The writes of operators, the newest first; with `hosts` the joins and leaves of hosts, those of one principal and group within a minute as one entry. A page may be short although more entries follow: as long as there is a `continue`.
#[utoipa::path(get, path = "/api/v1/audit", tag = "history", operation_id = "listAudit", params(AuditQuery),
    responses((status = 200, description = "one page; with `watch` a stream of new entries", content((List<AuditItem> = "application/json"), (String = "text/event-stream"))), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn audit(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<AuditQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let scope = by.scope(Role::Viewer);
    let stream = WatchQuery { watch: query.watch, after: query.after, timeout_seconds: query.timeout_seconds };
    if stream.watch {
        let others = [
            ("limit", query.limit.is_some()),
            ("continue", query.next.is_some()),
            ("kind", query.kind.is_some()),
            ("name", query.name.is_some()),
            ("by", query.by.is_some()),
            ("action", query.action.is_some()),
            ("withinSeconds", query.within_seconds.is_some()),
            ("request", query.request.is_some()),
            ("hosts", query.hosts),
        ];
        return watches.open(&controller, Topic::Audit, scope, &stream, &headers, &others);
    }
    only_with_watch(&stream)?;
    let limit = query.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={MAX_PAGE}")));
    }
    let before = query.next.as_deref().map(|token| {
        token.parse::<u64>().map_err(|_| {
            let detail =
                format!("{token:?} is not a token of this API: use the one of the previous page, or leave it out");
            ApiError::bad_request("continue", detail)
        })
    });
    let request = query.request.as_deref().map(|id| id.parse().map_err(|e| ApiError::bad_request("request", e)));
    let filter = AuditFilter {
        scope,
        hosts: query.hosts,
        kind: query.kind.map(Into::into),
        name: query.name,
        by: query.by,
        action: query.action,
        since: query.within_seconds.map(ago),
        request: request.transpose()?,
    };
    let (entries, next) = controller.audit(filter, before.transpose()?, limit).await?;
    let entries: Vec<AuditItem> = entries.into_iter().map(Into::into).collect();
    let mut list = List::new(Kind::AuditList, entries);
    list.metadata.next = next.map(|sequence| sequence.to_string());
    Ok(Json(list).into_response())
}

/// The versions of a resource, the newest first: the one in force, if there is one, then those that were replaced or deleted.
#[utoipa::path(get, path = "/api/v1/versions", tag = "history", operation_id = "listVersions", params(VersionQuery),
    responses((status = 200, body = List<VersionItem>, description = "all versions that are kept"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 404, body = Problem, description = "there is no version of such a resource")))]
pub(crate) async fn versions(
    State(controller): State<Controller>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<VersionQuery>,
) -> Result<Json<List<VersionItem>>, ApiError> {
    let kind = match query.kind {
        IntentKind::Topology => "topology",
        IntentKind::Drain => "drain",
        IntentKind::Group => "group",
        IntentKind::Silence
        | IntentKind::Member
        | IntentKind::Hmac
        | IntentKind::Commit
        | IntentKind::ChangeSet
        | IntentKind::Identity
        | IntentKind::LogLevel => {
            let detail = "has no versions: use Topology, Drain or Group; /api/v1/audit has who wrote it";
            return Err(ApiError::bad_request("kind", detail));
        }
    };
    let target = Target { kind: query.kind.into(), name: query.name.clone() };
    let mut versions = controller.versions(target).await?;
    // A group that is gone may have had this name in another tenant.
    let scope = by.scope(Role::Viewer);
    let owner = |version: &Version| match query.kind {
        IntentKind::Group => Some(recorded(version.tenant.as_deref()).to_owned()),
        _ => None,
    };
    versions.retain(|version| scope.has_of(owner(version).as_deref()));
    if versions.is_empty() {
        return Err(ApiError::not_found(kind, query.name));
    }
    let item = |version| item(owner(&version), version);
    Ok(Json(List::new(Kind::VersionList, versions.into_iter().map(item).collect())))
}

/// The instant so many seconds ago.
pub(super) fn ago(seconds: u64) -> UnixTime {
    UnixTime::from_nanos(UnixTime::now().nanos().saturating_sub(nanos(Duration::from_secs(seconds))))
}

fn item(tenant: Option<String>, version: Version) -> VersionItem {
    let Version { uid, generation, labels, spec, written, ended, deleted, tenant: _ } = version;
    VersionItem {
        tenant,
        uid,
        generation,
        labels,
        spec: spec.into_json(),
        written_unix_ns: written.as_ref().map(|w| w.at.nanos()),
        written_by: written.map(|w| w.by.into()),
        ended_unix_ns: ended.as_ref().map(|w| w.at.nanos()),
        ended_by: ended.map(|w| w.by.into()),
        deleted,
    }
}
