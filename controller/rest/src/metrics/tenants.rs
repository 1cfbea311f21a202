// SPDX-License-Identifier: Apache-2.0
//! Tenants: what they have beside what they may have.

use canopy_controller_actor::Controller;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::view::TenantView;
use canopy_metrics::{Description, Family, Page, Source};

/// Tenants in one scrape, at most: of more, the first by name.
const MAX_TENANTS: usize = 1000;

type Read = fn(&TenantView) -> Option<u64>;

static FAMILIES: [Family<1>; 4] = [
    Family::gauge("canopy_tenant_groups", "Groups of the tenant.", ["tenant"]),
    Family::gauge("canopy_tenant_receivers", "Memberships of receivers in the tenant's groups.", ["tenant"]),
    Family::gauge("canopy_tenant_groups_limit", "Groups that the tenant may have; absent without a limit.", ["tenant"]),
    Family::gauge(
        "canopy_tenant_receivers_limit",
        "Memberships of receivers that the tenant may have; absent without a limit.",
        ["tenant"],
    ),
];
/// In the order of [`FAMILIES`].
const READ: [Read; FAMILIES.len()] = [
    |t| Some(t.usage.groups as u64),
    |t| Some(t.usage.receivers as u64),
    |t| t.quota.groups.map(u64::from),
    |t| t.quota.receivers.map(u64::from),
];

pub(super) fn families() -> Vec<Description> {
    FAMILIES.iter().map(Family::describe).collect()
}

/// The tenants of a scope.
pub(super) fn write(controller: &Controller, scope: &Scope, page: &mut Page<'_>) -> std::fmt::Result {
    let tenants = controller.read(|d| d.tenants(scope, None, MAX_TENANTS));
    // How many more there are, nothing counts.
    page.leave_out(usize::from(tenants.next.is_some()) * FAMILIES.len());
    for (family, read) in FAMILIES.iter().zip(READ) {
        page.write(family, tenants.items.iter().filter_map(|t| Some(([t.name.as_str()], read(t)?))))?;
    }
    Ok(())
}

/// What a caller with roles in tenants alone gets: nothing of the domain.
pub(super) struct OfTenants {
    pub(super) controller: Controller,
    pub(super) scope: Scope,
}

impl Source for OfTenants {
    fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
        write(&self.controller, &self.scope, page)
    }
}
