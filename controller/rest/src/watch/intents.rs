// SPDX-License-Identifier: Apache-2.0
//! Fills the rings of what operators write: the topology, drains, the commit and the audit. Each follows the audit, to which every such write
//! adds an entry.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_actor::news::Follower;
use canopy_controller_actor::{AuditFilter, CommandError, Controller};
use canopy_controller_api::commit::CommitResource;
use canopy_controller_api::history::AuditItem;
use canopy_controller_api::{DrainResource, Kind, TopologyResource};
use canopy_controller_core::audit::AuditEntry;
use canopy_controller_core::view::DrainView;
use tokio::sync::watch;

use super::feed::{Known, Now, PACE, hash, named};
use super::frame::{Change, json};
use super::ring::Ring;
use crate::routes::commit::resource;

/// How often drains are read because groups have moved, at most: each reads the programs of the nodes that it takes out of service.
const DRAINS_PACE: Duration = Duration::from_secs(1);
/// Entries of the audit that are read at once.
const CHUNK: usize = 500;
/// Entries that are read of what was written since; behind more, watchers begin anew.
const MAX_BEHIND: usize = 10_000;

/// The topology. Only what is written of it is a change: nodes have the rest of its status.
pub(super) struct Topology {
    written: watch::Receiver<u64>,
    /// Tag and uid of the one that watchers know.
    known: Option<(String, String)>,
}

impl Topology {
    pub(super) fn new(controller: &Controller) -> Self {
        Self { written: controller.follow_audit(), known: tag(controller) }
    }

    pub(super) async fn feed(mut self, controller: Controller, ring: Arc<Ring>) -> Result<(), CommandError> {
        while self.written.changed().await.is_ok() {
            let now = tag(&controller);
            if now != self.known {
                let resource = controller.read(|d| d.topology()).map(|view| json(&TopologyResource::from(view)));
                controller.settled().await?;
                let uid = |of: &Option<(String, String)>| of.as_ref().map(|(_, uid)| uid.clone());
                let is_same = uid(&self.known) == uid(&now);
                if self.known.is_some() && !is_same {
                    ring.push(Change::Deleted, None, &named(Kind::Topology, "default"));
                }
                if let Some(json) = resource {
                    ring.push(if is_same { Change::Modified } else { Change::Added }, None, &json);
                }
                ring.publish(0);
                self.known = now;
            }
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }
}

fn tag(controller: &Controller) -> Option<(String, String)> {
    controller.read(|d| d.declared_topology().map(|(metadata, _)| (metadata.tag(), metadata.uid.to_string())))
}

/// Drains: also how many groups still use what they take out of service.
pub(super) struct Drains {
    written: watch::Receiver<u64>,
    groups: Follower,
    known: Known,
}

impl Drains {
    pub(super) fn new(controller: &Controller) -> Self {
        let (written, groups) = (controller.follow_audit(), controller.follow_groups());
        let mut known = Known::default();
        for (name, now) in drains(controller) {
            known.see(&name, &now);
        }
        Self { written, groups, known }
    }

    /// Compares all drains, at most 4,096: after a write of an operator, and at most once a second after other changes of groups.
    pub(super) async fn feed(mut self, controller: Controller, ring: Arc<Ring>) -> Result<(), CommandError> {
        let deleted: fn(&str) -> Vec<u8> = |name| named(Kind::Drain, name);
        loop {
            let pace = tokio::select! {
                written = self.written.changed() => match written {
                    Ok(()) => PACE,
                    Err(_) => return Ok(()),
                },
                _ = self.groups.changed() => DRAINS_PACE,
            };
            let items = drains(&controller);
            controller.settled().await?;
            let names: HashSet<&str> = items.iter().map(|(name, _)| name.as_str()).collect();
            for name in self.known.names().into_iter().filter(|name| !names.contains(name.as_str())) {
                self.known.compare(&ring, &name, None, deleted);
            }
            for (name, now) in items {
                self.known.compare(&ring, &name, Some(now), deleted);
            }
            ring.publish(0);
            tokio::select! {
                () = tokio::time::sleep(pace) => {}
                // A write does not wait for what groups do.
                written = self.written.changed(), if pace > PACE => match written {
                    Ok(()) => self.written.mark_changed(),
                    Err(_) => return Ok(()),
                },
            }
        }
    }
}

fn drains(controller: &Controller) -> Vec<(String, Now)> {
    let now = |view: DrainView| {
        let (name, identity) = (view.metadata.name.clone(), hash(&view.metadata.uid));
        (name, Now { identity, owner: None, json: json(&DrainResource::from(view)) })
    };
    controller.read(|d| d.drains()).into_iter().map(now).collect()
}

/// The pending commit, or the last one.
pub(super) struct Commits {
    written: watch::Receiver<u64>,
    known: Option<CommitResource>,
}

impl Commits {
    pub(super) fn new(controller: &Controller) -> Self {
        Self { written: controller.follow_audit(), known: controller.commit().map(resource).map(timeless) }
    }

    pub(super) async fn feed(mut self, controller: Controller, ring: Arc<Ring>) -> Result<(), CommandError> {
        while self.written.changed().await.is_ok() {
            let read = controller.commit().map(resource);
            let now = read.clone().map(timeless);
            controller.settled().await?;
            if let Some(commit) = read.filter(|_| now != self.known) {
                let is_same = self.known.as_ref().is_some_and(|known| known.id == commit.id);
                ring.push(if is_same { Change::Modified } else { Change::Added }, None, &json(&commit));
                ring.publish(0);
            }
            self.known = now;
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }
}

/// Without the time at which it was read, which is no change.
fn timeless(commit: CommitResource) -> CommitResource {
    CommitResource { time_unix_ns: 0, ..commit }
}

/// Entries of the audit.
pub(super) struct Audit {
    next: watch::Receiver<u64>,
    /// Sequence number of the first entry that is not in the ring.
    first: u64,
}

impl Audit {
    /// Entries of before are in the store only.
    pub(super) fn new(controller: &Controller, ring: &Ring) -> Self {
        let next = controller.follow_audit();
        let first = *next.borrow();
        ring.publish(first);
        Self { next, first }
    }

    pub(super) async fn feed(mut self, controller: Controller, ring: Arc<Ring>) -> Result<(), CommandError> {
        loop {
            let first = self.first;
            let Ok(next) = self.next.wait_for(|next| *next > first).await.map(|next| *next) else { return Ok(()) };
            match entries(&controller, first, next, MAX_BEHIND).await? {
                Some(entries) => entries.into_iter().for_each(|entry| {
                    let owner = entry.tenant().map(Arc::from);
                    ring.push(Change::Added, owner, &json(&AuditItem::from(entry)));
                }),
                None => ring.forget(),
            }
            self.first = next;
            ring.publish(next);
            tokio::time::sleep(PACE).await;
        }
    }
}

/// The entries from `first` to before `next`, oldest first; `None` if they are more than `most`.
async fn entries(
    controller: &Controller,
    first: u64,
    next: u64,
    most: usize,
) -> Result<Option<Vec<AuditEntry>>, CommandError> {
    let (mut found, mut before) = (Vec::new(), Some(next));
    while let Some(below) = before.filter(|below| *below > first) {
        let (page, rest) = controller.audit(AuditFilter::default(), Some(below), CHUNK).await?;
        found.extend(page.into_iter().take_while(|entry| entry.sequence >= first));
        if found.len() > most {
            return Ok(None);
        }
        before = rest;
    }
    found.reverse();
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use canopy_controller_actor::Order;
    use canopy_controller_core::Command;
    use canopy_controller_core::principal::Principal;
    use canopy_store::MemStore;

    use super::super::present::{AUDIT_PRESENT, newest};
    use super::*;

    /// Catches an entry between two pages that is left out, one that is there twice, and a watcher far behind for which all is read.
    #[tokio::test]
    async fn entries_of_several_pages_are_whole() {
        let controller =
            canopy_controller_actor::start(Arc::new(MemStore::new()), Default::default()).await.unwrap().controller;
        let first = *controller.follow_audit().borrow();
        for i in 0..CHUNK * 2 + 50 {
            let (name, spec) = (format!("g{i}"), Default::default());
            let put = Command::PutGroup {
                tenant: None,
                name,
                labels: Default::default(),
                spec,
                if_match: None,
                create_only: false,
            };
            let by = Principal::operator("alice", None);
            controller.carry_out(Order::new(put, by)).await.unwrap();
        }
        let next = *controller.follow_audit().borrow();
        assert_eq!(next - first, CHUNK as u64 * 2 + 50);
        for from in [first, first + 1, next - CHUNK as u64, next - 1] {
            let found = entries(&controller, from, next, 2000).await.unwrap().unwrap();
            assert_eq!(found.iter().map(|e| e.sequence).collect::<Vec<_>>(), (from..next).collect::<Vec<_>>());
        }
        assert_eq!(entries(&controller, first, next, 1000).await.unwrap(), None);
        let present = newest(&controller, &Default::default(), next - 1).await.unwrap();
        assert_eq!((present.len(), present.last().map(|e| e.sequence)), (AUDIT_PRESENT, Some(next - 2)));
    }
}
