// SPDX-License-Identifier: Apache-2.0
//! Tenants, which own groups.

use canopy_controller_core::quota::Quota;
use canopy_controller_core::view;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A tenant: what it has beside what it may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantItem {
    /// Its name.
    pub name: String,
    /// Its groups.
    pub groups: u64,
    /// Memberships of receivers in them.
    pub receivers: u64,
    /// Groups that it may have; `null`: no limit of its own.
    pub max_groups: Option<u32>,
    /// Memberships of receivers that it may have; `null`: no limit of its own.
    pub max_receivers: Option<u32>,
    /// Writes of operators to its groups and their members in a second; `null`: no limit of its own.
    pub max_changes_per_second: Option<u32>,
}

impl From<view::TenantView> for TenantItem {
    fn from(tenant: view::TenantView) -> Self {
        let view::TenantView { name, usage, quota } = tenant;
        let Quota { groups: max_groups, receivers: max_receivers, changes_per_second: max_changes_per_second } = quota;
        let (groups, receivers) = (usage.groups as u64, usage.receivers as u64);
        Self { name, groups, receivers, max_groups, max_receivers, max_changes_per_second }
    }
}
