// SPDX-License-Identifier: Apache-2.0
//! Roles of people that an identity provider knows: by the groups that it names, as those of Unix users are by theirs.

use std::collections::BTreeMap;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use serde::{Deserialize, Serialize};

use crate::{Identity, TenantRoles};

/// What is before the name of such a person: no Unix user has a colon in its name.
const BEFORE: &str = "oidc:";

/// Which groups have which role; without a group, a person may do nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRoles {
    /// In the domain.
    pub domain: TenantRoles,
    /// In single tenants, by the tenant's name.
    pub tenants: BTreeMap<String, TenantRoles>,
}

impl GroupRoles {
    /// A person of this name and these groups, in a session of the web UI.
    pub fn identity(&self, name: &str, groups: &[String]) -> Identity {
        let is_member = |group: &str| groups.iter().any(|of| of == group);
        let of = |(tenant, roles): (&String, &TenantRoles)| Some((tenant.clone(), roles.of(is_member)?));
        let tenants: BTreeMap<String, Role> = self.tenants.iter().filter_map(of).collect();
        let principal = Principal::operator(format!("{BEFORE}{name}"), None).in_ui();
        Identity { tenants, ..Identity::new(principal, self.domain.of(is_member)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a person without a group who may do something, and one who is taken for a Unix user of the same name.
    #[test]
    fn a_person_has_the_highest_role_of_its_groups_and_no_other() {
        let one = |name: &str| vec![name.to_owned()];
        let domain = TenantRoles { admin_groups: one("admins"), viewer_groups: one("all"), ..Default::default() };
        let tenants = [("acme".to_owned(), TenantRoles { operator_groups: one("acme-ops"), ..Default::default() })];
        let roles = GroupRoles { domain, tenants: tenants.into() };
        let of = |groups: &[&str]| roles.identity("alice", &groups.iter().map(|g| (*g).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]).highest(), None);
        assert_eq!(of(&["ALL", "Admins", ""]).highest(), None);
        assert_eq!((of(&["all"]).role, of(&["all", "admins"]).role), (Some(Role::Viewer), Some(Role::Admin)));
        let acme = of(&["acme-ops"]);
        assert_eq!((acme.role, acme.role_in("acme"), acme.role_in("other")), (None, Some(Role::Operator), None));
        assert_eq!(GroupRoles::default().identity("alice", &["all".to_owned()]).highest(), None);
        assert_eq!(acme.principal.to_string(), "oidc:alice (UI)");
        assert!(!acme.principal.is_same(&Principal::operator("alice", Some(1000))));
        assert!(acme.principal.is_same(&of(&["all"]).principal));
    }
}
