// SPDX-License-Identifier: Apache-2.0
//! Roles of users of the controller's machine: by their groups, so that the machine's own administration gives and takes them.

use std::collections::BTreeMap;

use canopy_controller_core::role::Role;
use serde::{Deserialize, Serialize};

/// Names of the groups whose users have a role; no name: no user has it by a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnixRoles {
    /// Groups of administrators, besides root and the user that the controller runs as.
    pub admin_groups: Vec<String>,
    /// Groups of operators.
    pub operator_groups: Vec<String>,
    /// Groups of viewers.
    pub viewer_groups: Vec<String>,
    /// Groups of programs that scrape metrics.
    pub metrics_groups: Vec<String>,
}

impl Default for UnixRoles {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            admin_groups: one("canopy-admin"),
            operator_groups: one("canopy"),
            viewer_groups: one("canopy-view"),
            metrics_groups: one("canopy-metrics"),
        }
    }
}

/// The same for one tenant; root and the controller's own user are administrators of the domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantRoles {
    /// Groups of administrators.
    pub admin_groups: Vec<String>,
    /// Groups of operators.
    pub operator_groups: Vec<String>,
    /// Groups of viewers.
    pub viewer_groups: Vec<String>,
    /// Groups of programs that scrape metrics.
    pub metrics_groups: Vec<String>,
}

/// All roles of users of the controller's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// In the domain.
    pub domain: UnixRoles,
    /// In single tenants, by the tenant's name.
    pub tenants: BTreeMap<String, TenantRoles>,
}

impl From<UnixRoles> for Roles {
    fn from(domain: UnixRoles) -> Self {
        Self { domain, tenants: BTreeMap::new() }
    }
}

impl TenantRoles {
    /// The highest role of a user.
    pub fn of(&self, is_member: impl Fn(&str) -> bool) -> Option<Role> {
        let has = |groups: &[String]| groups.iter().any(|group| is_member(group));
        Role::ALL.into_iter().rev().find(|role| has(self.groups(*role)))
    }

    /// The groups of a role.
    pub fn groups(&self, role: Role) -> &[String] {
        match role {
            Role::Metrics => &self.metrics_groups,
            Role::Viewer => &self.viewer_groups,
            Role::Operator => &self.operator_groups,
            Role::Admin => &self.admin_groups,
        }
    }
}

impl UnixRoles {
    /// The highest role of a user: root and `own`, the user that the controller runs as, are administrators.
    pub fn of(&self, uid: u32, own: u32, is_member: impl Fn(&str) -> bool) -> Option<Role> {
        if uid == 0 || uid == own {
            return Some(Role::Admin);
        }
        let has = |groups: &[String]| groups.iter().any(|group| is_member(group));
        Role::ALL.into_iter().rev().find(|role| has(self.groups(*role)))
    }

    /// The groups of a role.
    pub fn groups(&self, role: Role) -> &[String] {
        match role {
            Role::Metrics => &self.metrics_groups,
            Role::Viewer => &self.viewer_groups,
            Role::Operator => &self.operator_groups,
            Role::Admin => &self.admin_groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a lower role that is before a higher one, and a user without a group who may do something.
    #[test]
    fn the_highest_group_counts_and_other_users_have_no_role() {
        let roles = UnixRoles::default();
        let of = |uid, groups: &[&str]| roles.of(uid, 990, |group| groups.contains(&group));
        assert_eq!(of(0, &[]), Some(Role::Admin));
        assert_eq!(of(990, &[]), Some(Role::Admin));
        assert_eq!(of(1000, &[]), None);
        assert_eq!(of(1000, &["users", "root", "admin"]), None);
        assert_eq!(of(1000, &["canopy-metrics"]), Some(Role::Metrics));
        assert_eq!(of(1000, &["canopy-metrics", "canopy-view"]), Some(Role::Viewer));
        assert_eq!(of(1000, &["canopy-view", "canopy"]), Some(Role::Operator));
        assert_eq!(of(1000, &["canopy-view", "canopy-admin"]), Some(Role::Admin));
    }

    #[test]
    fn a_role_without_groups_is_for_no_user() {
        let none = UnixRoles { admin_groups: Vec::new(), operator_groups: Vec::new(), ..UnixRoles::default() };
        assert_eq!(none.of(1000, 990, |group| group == "canopy-admin"), None);
        assert_eq!(none.of(1000, 990, |_| true), Some(Role::Viewer));
    }

    #[test]
    fn a_group_of_a_tenant_gives_its_highest_role_there() {
        let one = |name: &str| vec![name.to_owned()];
        let acme = TenantRoles { operator_groups: one("ops"), viewer_groups: one("all"), ..TenantRoles::default() };
        let of = |groups: &[&str]| acme.of(|group| groups.contains(&group));
        assert_eq!(
            (of(&["all"]), of(&["all", "ops"]), of(&["canopy-admin"])),
            (Some(Role::Viewer), Some(Role::Operator), None)
        );
        assert_eq!(TenantRoles::default().of(|_| true), None);
    }
}
