// SPDX-License-Identifier: Apache-2.0
//! Limits of one domain. Each is checked where the object is created.

pub use canopy_model::limits::{MAX_HOSTS, MAX_LINKS, MAX_NODES};

/// Groups.
pub const MAX_GROUPS: usize = 1_048_576;
/// Members of one group.
pub const MAX_MEMBERS: usize = 16_384;
/// Drains.
pub const MAX_DRAINS: usize = 4_096;
/// Silences.
pub const MAX_SILENCES: usize = 1_024;
/// Evicted receivers that a group remembers.
pub const MAX_EVICTED: usize = 256;
/// Item errors that one node may report.
pub const MAX_ITEM_ERRORS: usize = 16_384;
/// Items of one page.
pub const MAX_PAGE: usize = 1_000;
