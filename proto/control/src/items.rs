// SPDX-License-Identifier: Apache-2.0
//! A node's content as it travels and is stored: encoded items and the digest over them.

use std::ops::Bound;

use bytes::Bytes;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::GroupId;
use canopy_model::node_spec::NodeSpec;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use prost::Message;

use crate::digest::{of_base, of_group};
use crate::pb;

/// Most octets of items in one page of a snapshot, and in a delta before a snapshot is sent in its place.
pub(crate) const MAX_PAGE_OCTETS: usize = 1 << 20;

/// The encoded items of one node. Clones share their items, and finding what differs between two that have a common origin costs
/// what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    base: Bytes,
    groups: OrdMap<GroupId, Bytes>,
    digest: SpecDigest,
}

impl Items {
    /// From encoded items.
    pub fn new(base: Bytes, groups: impl IntoIterator<Item = (GroupId, Bytes)>) -> Self {
        let mut items = Self::default();
        items.set_base(base);
        groups.into_iter().for_each(|(id, octets)| items.upsert(id, octets));
        items
    }

    /// Encodes every item of `spec`.
    pub fn encode(spec: &NodeSpec) -> Self {
        let mut items = Self::default();
        items.set_base(pb::NodeBase::from(&*spec.base).encode_to_vec().into());
        for (id, program) in spec.groups.iter() {
            items.upsert(*id, pb::GroupProgram::from(program).encode_to_vec().into());
        }
        items
    }

    /// Digest of the content.
    pub fn digest(&self) -> SpecDigest {
        self.digest
    }

    /// The encoded base; empty when there is no content.
    pub fn base(&self) -> &Bytes {
        &self.base
    }

    /// The encoded programs, in the order of their groups' identifiers.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &Bytes)> {
        self.groups.iter().map(|(id, octets)| (*id, octets))
    }

    pub(crate) fn set_base(&mut self, base: Bytes) {
        if !self.base.is_empty() {
            self.digest.toggle(of_base(&self.base));
        }
        self.digest.toggle(of_base(&base));
        self.base = base;
    }

    pub(crate) fn upsert(&mut self, id: GroupId, octets: Bytes) {
        self.digest.toggle(of_group(id, &octets));
        if let Some(old) = self.groups.insert(id, octets) {
            self.digest.toggle(of_group(id, &old));
        }
    }

    pub(crate) fn remove(&mut self, id: GroupId) {
        if let Some(old) = self.groups.remove(&id) {
            self.digest.toggle(of_group(id, &old));
        }
    }

    /// What turns `self` into `to`. With a common origin it costs what differs.
    pub fn delta(&self, to: &Self) -> pb::NodeDelta {
        let mut delta = pb::NodeDelta {
            from_digest: self.digest.into(),
            base: (self.base != to.base).then(|| to.base.clone()),
            ..pb::NodeDelta::default()
        };
        for change in self.groups.diff(&to.groups) {
            match change {
                DiffItem::Add(id, octets) | DiffItem::Update { new: (id, octets), .. } => {
                    delta.upserted_groups.push(item(*id, octets.clone()));
                }
                DiffItem::Remove(id, _) => delta.removed_groups.push(id.get()),
            }
        }
        delta
    }

    /// The snapshot from `position` on, in pages of at most [`MAX_PAGE_OCTETS`] (a single program may be longer).
    pub fn pages(&self, position: Position) -> impl Iterator<Item = pb::SnapshotPage> + Send {
        let behind = position.after_group.map_or(Bound::Unbounded, Bound::Excluded);
        let groups = self.groups.range((behind, Bound::Unbounded)).map(|(id, octets)| (*id, octets.clone()));
        pages(self.base.clone(), groups, position)
    }
}

pub(crate) fn item(id: GroupId, octets: Bytes) -> pb::GroupItem {
    pb::GroupItem { group_id: id.get(), program: octets }
}

/// How far into a snapshot; the default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Octets of the base.
    pub base_octets: usize,
    /// The last group.
    pub after_group: Option<GroupId>,
}

/// The pages of a snapshot from `position` on. `groups`: those behind it, in the order of their identifiers; each is asked for when its page
/// is made.
pub(crate) fn pages(
    base: Bytes,
    groups: impl Iterator<Item = (GroupId, Bytes)> + Send,
    position: Position,
) -> impl Iterator<Item = pb::SnapshotPage> + Send {
    let mut first = position == Position::default();
    let mut begin = position.base_octets.min(base.len());
    let (mut groups, mut done) = (groups.peekable(), false);
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let end = base.len().min(begin + MAX_PAGE_OCTETS);
        let mut page = pb::SnapshotPage {
            first: std::mem::take(&mut first),
            base: base.slice(begin..end),
            ..pb::SnapshotPage::default()
        };
        let mut room = MAX_PAGE_OCTETS - (end - begin);
        begin = end;
        if end == base.len() {
            let mut is_empty = page.base.is_empty();
            while let Some((id, octets)) = groups.next_if(|(_, octets)| octets.len() <= room || is_empty) {
                room = room.saturating_sub(octets.len());
                page.groups.push(item(id, octets));
                is_empty = false;
            }
            page.last = groups.peek().is_none();
            done = page.last;
        }
        Some(page)
    })
}

#[cfg(test)]
mod tests;
