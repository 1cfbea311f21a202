// SPDX-License-Identifier: Apache-2.0
//! The present state, as the beginning of a stream: `added` events, page by page, each durable before it is sent.

use std::collections::HashMap;
use std::vec::IntoIter;

use axum::body::Bytes;
use canopy_controller_actor::journal::Recorded;
use canopy_controller_actor::{AuditFilter, CommandError, Controller};
use canopy_controller_api::event::EventItem;
use canopy_controller_api::health::ProblemItem;
use canopy_controller_api::history::AuditItem;
use canopy_controller_api::{DrainResource, GroupResource, NodeResource, TopologyResource};
use canopy_controller_core::GroupFilter;
use canopy_controller_core::tenant::Scope;
use serde::Serialize;

use super::Topic;
use super::frame::{Change, frame, json};
use crate::routes::commit::resource;

/// Resources that are read at once.
const PAGE: usize = 64;
/// Groups of a page, in octets; a single one may be larger.
const PAGE_OCTETS: usize = 256 << 10;
/// Problems that are read at once.
const PROBLEMS: usize = 1000;

/// Entries with which a stream of the audit begins, at most.
pub(super) const AUDIT_PRESENT: usize = 1_000;

/// What a stream has yet to send of the present state.
pub(super) struct Present {
    rest: Rest,
    scope: Scope,
    /// Read, and perhaps not durable yet.
    page: Option<Vec<Bytes>>,
}

enum Rest {
    /// Groups behind this name.
    Groups(Option<String>),
    Nodes(IntoIter<String>),
    /// By id, the worst first.
    Problems(IntoIter<String>),
    /// Sequence numbers: from the first to before the second.
    Events(u64, u64),
    Drains(IntoIter<String>),
    Topology,
    Commits,
    /// The newest entries before this sequence number.
    Audit(u64),
    Nothing,
}

impl Present {
    /// `mark` is the first event that the ring has, or will have.
    pub(super) fn new(controller: &Controller, topic: Topic, scope: Scope, mark: u64) -> Self {
        let rest = match topic {
            Topic::Groups => Rest::Groups(None),
            Topic::Nodes => Rest::Nodes(controller.read(|d| d.node_names()).into_iter()),
            Topic::Problems => {
                let problems = controller.problems();
                let of_scope = problems.iter().filter(|problem| controller.has_problem(&scope, problem));
                let ids: Vec<String> = of_scope.map(|p| p.key.id()).collect();
                Rest::Problems(ids.into_iter())
            }
            Topic::Events => Rest::Events(0, mark),
            Topic::Drains => {
                let names: Vec<String> = controller.read(|d| d.drains()).into_iter().map(|d| d.metadata.name).collect();
                Rest::Drains(names.into_iter())
            }
            Topic::Topology => Rest::Topology,
            Topic::Commits => Rest::Commits,
            Topic::Audit => Rest::Audit(mark),
        };
        Self { rest, scope, page: None }
    }

    /// The next page; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn next(&mut self, controller: &Controller) -> Result<Option<Vec<Bytes>>, CommandError> {
        if self.page.is_none() {
            if let Rest::Audit(next) = self.rest {
                // In the store, not in memory.
                let entries = newest(controller, &self.scope, next).await?;
                self.page = Some(entries.iter().map(added).collect());
                self.rest = Rest::Nothing;
            } else {
                self.page = self.rest.read(controller, &self.scope);
            }
        }
        if self.page.is_some() {
            controller.settled().await?;
        }
        Ok(self.page.take())
    }
}

impl Rest {
    /// The next page, which may be empty; `None` at the end.
    fn read(&mut self, controller: &Controller, scope: &Scope) -> Option<Vec<Bytes>> {
        match self {
            Self::Groups(after) => {
                let filter = GroupFilter { scope: scope.clone(), ..GroupFilter::default() };
                let page = controller.read(|d| d.groups(&filter, after.as_deref(), PAGE));
                let (mut frames, mut octets) = (Vec::new(), 0);
                for view in page.items {
                    if octets >= PAGE_OCTETS {
                        return Some(frames);
                    }
                    *after = Some(view.metadata.name.clone());
                    let frame = added(&GroupResource::from(view));
                    octets += frame.len();
                    frames.push(frame);
                }
                if page.next.is_none() {
                    *self = Self::Nothing;
                }
                Some(frames)
            }
            Self::Nodes(names) if names.len() > 0 => {
                let node = |name: String| controller.read(|d| d.node(&name));
                Some(names.take(PAGE).filter_map(node).map(|view| added(&NodeResource::from(view))).collect())
            }
            Self::Problems(ids) if ids.len() > 0 => {
                let problems = controller.problems();
                let of_scope = problems.iter().filter(|problem| controller.has_problem(scope, problem));
                let open: HashMap<String, _> = of_scope.map(|p| (p.key.id(), p)).collect();
                let item = |id: String| open.get(&id).map(|p| added(&ProblemItem::from((*p).clone())));
                Some(ids.take(PROBLEMS).filter_map(item).collect())
            }
            Self::Events(first, end) => {
                let events = controller.events().since(*first, PAGE).into_iter().filter(|event| event.sequence < *end);
                let events: Vec<_> = events.collect();
                *first = events.last()?.sequence + 1;
                let seen = events.into_iter().filter(|event| scope.has_of(event.tenant.as_deref()));
                Some(seen.map(|event| added(&event_item(event))).collect())
            }
            Self::Drains(names) if names.len() > 0 => {
                let drain = |name: String| controller.read(|d| d.drain(&name));
                Some(names.take(PAGE).filter_map(drain).map(|view| added(&DrainResource::from(view))).collect())
            }
            Self::Topology => {
                *self = Self::Nothing;
                let topology = controller.read(|d| d.topology());
                topology.map(|view| vec![added(&TopologyResource::from(view))])
            }
            Self::Commits => {
                *self = Self::Nothing;
                controller.commit().map(|commit| vec![added(&resource(commit))])
            }
            Self::Nodes(_) | Self::Problems(_) | Self::Drains(_) | Self::Audit(_) | Self::Nothing => None,
        }
    }
}

/// The entries with which a stream begins, oldest first: the newest before `next`.
pub(super) async fn newest(controller: &Controller, scope: &Scope, next: u64) -> Result<Vec<AuditItem>, CommandError> {
    let filter = AuditFilter { scope: scope.clone(), ..AuditFilter::default() };
    let (page, _) = controller.audit(filter, Some(next), AUDIT_PRESENT).await?;
    let mut entries: Vec<AuditItem> = page.into_iter().map(Into::into).collect();
    entries.reverse();
    Ok(entries)
}

/// Without an id: a stream that ends before all of the present state was sent begins anew.
fn added(resource: &impl Serialize) -> Bytes {
    frame(Change::Added.name(), None, &json(resource))
}

/// An event as the API shows it.
pub(crate) fn event_item(event: impl Into<Recorded>) -> EventItem {
    let Recorded { sequence, time, code, node, group, tenant: _, branch, request, detail } = event.into();
    EventItem { sequence, time_unix_ns: time.nanos(), code, node, group, branch, request_id: request, detail }
}
