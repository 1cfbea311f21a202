// SPDX-License-Identifier: Apache-2.0
//! Fills a ring: reads what changed, waits until it is durable, serialises it once. One task per kind, from its first watcher on.
//!
//! Work follows the names of what changed, whatever the number of watchers. A resource that changes faster than [`PACE`] appears with its
//! last state only.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_actor::news::Follower;
use canopy_controller_actor::{CommandError, Controller};
use canopy_controller_api::health::ProblemItem;
use canopy_controller_api::{GroupResource, Kind, NodeResource};
use canopy_controller_core::health::Problem;
use serde_json::json;
use tokio::sync::watch;

use super::frame::{Change, json};
use super::present::event_item;
use super::ring::{Owner, Ring};

/// Time between two publications of a ring, at least: so often are its watchers woken, at most.
pub(super) const PACE: Duration = Duration::from_millis(50);
/// Resources that are read before the next wait for the store.
const CHUNK: usize = 64;

/// A resource as it is now.
pub(super) struct Now {
    /// Differs between two resources that had the same name.
    pub(super) identity: u64,
    pub(super) owner: Owner,
    pub(super) json: Vec<u8>,
}

/// The resources of which the watchers know.
#[derive(Default)]
pub(super) struct Known(HashMap<String, Seen>);

/// What a resource was; `None` until its first change.
#[derive(Default)]
struct Seen {
    owner: Owner,
    identity: Option<u64>,
    digest: Option<u64>,
}

impl Seen {
    fn of(now: &Now) -> Self {
        Self { owner: now.owner.clone(), identity: Some(now.identity), digest: Some(hash(&now.json)) }
    }

    /// Whether a resource of the same name is the same one.
    fn is_same(&self, now: &Self) -> bool {
        self.owner == now.owner && (self.identity.is_none() || self.identity == now.identity)
    }
}

pub(super) fn hash(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Known {
    /// Those that a watcher may find before the feed has begun.
    fn of(names: impl Iterator<Item = (String, Owner)>) -> Self {
        Self(names.map(|(name, owner)| (name, Seen { owner, ..Seen::default() })).collect())
    }

    /// Takes note of a resource that watchers have.
    pub(super) fn see(&mut self, name: &str, now: &Now) {
        self.0.insert(name.to_owned(), Seen::of(now));
    }

    /// The names of all, in order.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Adds to the ring what became of a resource; nothing if it is as before.
    pub(super) fn compare(&mut self, ring: &Ring, name: &str, now: Option<Now>, deleted: fn(&str) -> Vec<u8>) {
        let Some(now) = now else {
            if let Some(before) = self.0.remove(name) {
                ring.push(Change::Deleted, before.owner, &deleted(name));
            }
            return;
        };
        let seen = Seen::of(&now);
        let Now { owner, json, .. } = now;
        match self.0.get(name) {
            Some(before) if !before.is_same(&seen) => {
                ring.push(Change::Deleted, before.owner.clone(), &deleted(name));
                ring.push(Change::Added, owner, &json);
            }
            Some(before) if before.digest == seen.digest => return,
            Some(_) => ring.push(Change::Modified, owner, &json),
            None => ring.push(Change::Added, owner, &json),
        }
        self.0.insert(name.to_owned(), seen);
    }
}

/// A kind whose changes come by name.
pub(super) struct Named {
    follower: Follower,
    known: Known,
    read: fn(&Controller, &str) -> Option<Now>,
    deleted: fn(&str) -> Vec<u8>,
}

impl Named {
    pub(super) fn groups(controller: &Controller) -> Self {
        // Before the names: what is deleted in between was known, or was never seen.
        let follower = controller.follow_groups();
        let owner = |name: &str| controller.read(|d| d.tenant_of(name).map(Arc::from));
        let known = Known::of(controller.group_names().into_iter().map(|name| {
            let owner = owner(&name);
            (name, owner)
        }));
        let read = |controller: &Controller, name: &str| {
            let view = controller.read(|d| d.group(name))?;
            let identity = view.status.group_id.get().into();
            let owner = Some(view.metadata.tenant.as_str().into());
            Some(Now { identity, owner, json: json(&GroupResource::from(view)) })
        };
        Self { follower, known, read, deleted: |name| named(Kind::Group, name) }
    }

    pub(super) fn nodes(controller: &Controller) -> Self {
        let follower = controller.follow_nodes();
        let known = Known::of(controller.read(|d| d.node_names()).into_iter().map(|name| (name, None)));
        let read = |controller: &Controller, name: &str| {
            let view = controller.read(|d| d.node(name))?;
            Some(Now { identity: view.spec.id.get().into(), owner: None, json: json(&NodeResource::from(view)) })
        };
        Self { follower, known, read, deleted: |name| named(Kind::Node, name) }
    }

    pub(super) async fn feed(mut self, controller: Controller, ring: Arc<Ring>) -> Result<(), CommandError> {
        loop {
            let names = self.follower.changed().await;
            for chunk in names.chunks(CHUNK) {
                let now: Vec<Option<Now>> = chunk.iter().map(|name| (self.read)(&controller, name)).collect();
                controller.settled().await?;
                for (name, now) in chunk.iter().zip(now) {
                    self.known.compare(&ring, name, now, self.deleted);
                }
                ring.publish(0);
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

/// All that is known of a resource that no longer exists.
pub(super) fn named(kind: Kind, name: &str) -> Vec<u8> {
    json(&json!({"apiVersion": canopy_controller_api::API_VERSION, "kind": kind, "metadata": {"name": name}}))
}

pub(super) struct Problems {
    changes: watch::Receiver<u64>,
    known: Known,
}

impl Problems {
    pub(super) fn new(controller: &Controller) -> Self {
        let changes = controller.follow_problems();
        let mut known = Known::default();
        for (owner, item) in problems(controller) {
            known.see(&item.id, &Now { identity: 0, owner, json: json(&item) });
        }
        Self { changes, known }
    }

    /// Reads all problems, at most 20,000, since one that opens may change what explains others. That is at most twice a second, and only
    /// after a change.
    pub(super) async fn feed(mut self, controller: Controller, ring: Arc<Ring>) -> Result<(), CommandError> {
        let deleted = |id: &str| json(&json!({"id": id}));
        while self.changes.changed().await.is_ok() {
            let items = problems(&controller);
            controller.settled().await?;
            let closed = self.known.names();
            let open: std::collections::HashSet<&str> = items.iter().map(|(_, item)| item.id.as_str()).collect();
            for id in closed.iter().filter(|id| !open.contains(id.as_str())) {
                self.known.compare(&ring, id, None, deleted);
            }
            for chunk in items.chunks(CHUNK) {
                for (owner, item) in chunk {
                    let now = Now { identity: 0, owner: owner.clone(), json: json(item) };
                    self.known.compare(&ring, &item.id, Some(now), deleted);
                }
                tokio::task::yield_now().await;
            }
            ring.publish(0);
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }
}

/// All, with the tenants to which those of groups belong. What such a one is explained by, or explains, is the domain's or of the same group.
fn problems(controller: &Controller) -> Vec<(Owner, ProblemItem)> {
    let owner = |problem: &Problem| controller.tenant_of_problem(problem).map(Arc::from);
    controller.problems().iter().map(|problem| (owner(problem), problem.clone().into())).collect()
}

pub(super) struct Events {
    next: watch::Receiver<u64>,
    /// Sequence number of the first event that is not in the ring.
    first: u64,
}

impl Events {
    /// Events of before are in the controller's own ring only.
    pub(super) fn new(controller: &Controller, ring: &Ring) -> Self {
        let next = controller.events().follow();
        let first = *next.borrow();
        ring.publish(first);
        Self { next, first }
    }

    pub(super) async fn feed(mut self, controller: Controller, ring: Arc<Ring>) -> Result<(), CommandError> {
        loop {
            let first = self.first;
            if self.next.wait_for(|next| *next > first).await.is_err() {
                return Ok(());
            }
            let events = controller.events().since(first, usize::MAX);
            controller.settled().await?;
            if events.first().is_some_and(|event| event.sequence > first) {
                // Some were overwritten before they were read: watchers have to begin anew.
                ring.forget();
            }
            for event in events {
                self.first = event.sequence + 1;
                let owner = event.tenant.as_deref().map(Arc::from);
                ring.push(Change::Added, owner, &json(&event_item(event)));
            }
            ring.publish(self.first);
            tokio::time::sleep(PACE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use canopy_controller_core::tenant::Scope;

    use super::super::ring::BOUNDS;
    use super::*;

    /// Catches a change without a difference, a resource of the same name that is taken for the one before, and a deletion of what
    /// no watcher has seen.
    #[test]
    fn the_ring_gets_differences_only() {
        let ring = Ring::new(BOUNDS);
        let mut known = Known::of([("old".to_owned(), None)].into_iter());
        let now = |identity, text: &str| Some(Now { identity, owner: None, json: text.into() });
        let mut expected = 0;
        let mut compare = |name: &str, now, changes: &[&str]| {
            known.compare(&ring, name, now, |name| format!("\"{name}\"").into_bytes());
            let (frames, cursor) = ring.after(expected, &Scope::Domain).unwrap();
            expected = cursor;
            let names: Vec<&str> =
                frames.iter().map(|f| std::str::from_utf8(f).unwrap().lines().next().unwrap()).collect();
            assert_eq!(names, changes.iter().map(|c| format!("event: {c}")).collect::<Vec<_>>());
        };
        compare("old", now(1, "1"), &["modified"]);
        compare("old", now(1, "1"), &[]);
        compare("old", now(1, "2"), &["modified"]);
        compare("new", now(2, "1"), &["added"]);
        compare("new", now(3, "1"), &["deleted", "added"]);
        compare("new", None, &["deleted"]);
        compare("new", None, &[]);
        compare("never", None, &[]);
    }

    /// Catches a watcher of a tenant that is not shown the end of its group because another tenant has one of this name since.
    #[test]
    fn a_name_that_goes_to_another_tenant_is_deleted_for_the_first_and_added_for_the_second() {
        let ring = Ring::new(BOUNDS);
        let owner = |name: &str| Some(Arc::from(name));
        let mut known = Known::of([("g".to_owned(), owner("acme"))].into_iter());
        let now = Now { identity: 7, owner: owner("other"), json: b"2".to_vec() };
        known.compare(&ring, "g", Some(now), |name| name.as_bytes().to_vec());
        for (tenant, seen) in [("acme", "deleted"), ("other", "added")] {
            let (frames, _) = ring.after(0, &Scope::Tenants([tenant.to_owned()].into())).unwrap();
            let names: Vec<&str> =
                frames.iter().map(|f| std::str::from_utf8(f).unwrap().lines().next().unwrap()).collect();
            assert_eq!(names, [format!("event: {seen}")], "{tenant}");
        }
    }
}
