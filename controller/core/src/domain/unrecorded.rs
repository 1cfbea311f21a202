// SPDX-License-Identifier: Apache-2.0
//! What topology changes have done to groups since their own records were written.

use std::collections::BTreeMap;

use canopy_model::ids::GroupId;

use crate::record::TreeRecord;

/// See [`TopologyRecord`](crate::record::TopologyRecord).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unrecorded {
    pub(super) moved: BTreeMap<u32, u32>,
    pub(super) behind: BTreeMap<u32, Option<TreeRecord>>,
    pub(super) digests: BTreeMap<u32, u64>,
    pub(super) displaced: BTreeMap<u32, u32>,
}

impl Unrecorded {
    /// The group's own record is newer, or it is gone.
    pub(super) fn forget(&mut self, id: GroupId) {
        let id = id.get();
        self.moved.remove(&id);
        self.behind.remove(&id);
        self.digests.remove(&id);
        self.displaced.remove(&id);
    }
}
