// SPDX-License-Identifier: Apache-2.0
//! A snapshot of which some pages have arrived.

use canopy_model::FieldError;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::{Generation, GroupId};

use crate::items::Items;
use crate::pb;
use crate::update_error::UpdateError;

/// Most octets of a snapshot that an agent takes: 10,000 groups of 64 receivers come to about 75 MB.
pub const MAX_SNAPSHOT_OCTETS: usize = 128 << 20;

/// The pages of one snapshot up to some position.
#[derive(Clone, Debug)]
pub struct Staged {
    /// Term, generation and digest of the whole.
    name: (u64, Generation, SpecDigest),
    base: Vec<u8>,
    items: Items,
    last: Option<GroupId>,
    octets: usize,
}

impl Staged {
    /// Adds a page to `staged`; the first page of a snapshot starts it over.
    ///
    /// # Errors
    /// A page of another snapshot, groups out of order, more than [`MAX_SNAPSHOT_OCTETS`]: `staged` is emptied.
    pub(crate) fn add(
        staged: &mut Option<Self>,
        name: (u64, Generation, SpecDigest),
        page: pb::SnapshotPage,
    ) -> Result<(), UpdateError> {
        let begun = staged.take();
        let mut all = match begun {
            _ if page.first => Self { name, base: Vec::new(), items: Items::default(), last: None, octets: 0 },
            // A resumed snapshot may have a newer term or generation: its content is the same.
            Some(begun) if begun.name.2 == name.2 => Self { name, ..begun },
            _ => return Err(UpdateError::OtherSnapshot(name.2)),
        };
        all.octets += page.base.len() + page.groups.iter().map(|item| item.program.len()).sum::<usize>();
        if all.octets > MAX_SNAPSHOT_OCTETS {
            let detail = format!("more than {MAX_SNAPSHOT_OCTETS} octets: put fewer groups on this node");
            return Err(FieldError::new("snapshot", detail).into());
        }
        if all.last.is_some() && !page.base.is_empty() {
            return Err(FieldError::new("snapshot.base", "continues behind the first group").into());
        }
        all.base.extend_from_slice(&page.base);
        for item in page.groups {
            let id = GroupId::new("snapshot.groups.group_id", item.group_id.into())?;
            if all.last.is_some_and(|last| last >= id) {
                return Err(FieldError::new("snapshot.groups.group_id", format!("{id} is out of order")).into());
            }
            all.last = Some(id);
            all.items.upsert(id, item.program);
        }
        *staged = Some(all);
        Ok(())
    }

    /// What to ask for when the stream broke off.
    pub fn position(&self) -> pb::SnapshotPosition {
        pb::SnapshotPosition {
            digest: self.name.2.into(),
            base_octets: self.base.len() as u64,
            after_group: self.last.map_or(0, GroupId::get),
        }
    }

    pub(crate) fn into_items(mut self) -> Items {
        if !self.base.is_empty() {
            self.items.set_base(self.base.into());
        }
        self.items
    }
}
