// SPDX-License-Identifier: Apache-2.0
//! A principal with its roles.

use std::collections::BTreeMap;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;

use crate::SecretDigest;

/// Who sends a request, and what that principal may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The principal, for records and refusals.
    pub principal: Principal,
    /// In the whole domain, and so in every tenant; `None`: nothing.
    pub role: Option<Role>,
    /// In single tenants, besides.
    pub tenants: BTreeMap<String, Role>,
    /// Which secret of a token it was shown by, if it was.
    pub secret: Option<SecretDigest>,
}

impl Identity {
    /// Without a token, and without a role in a single tenant.
    pub fn new(principal: Principal, role: Option<Role>) -> Self {
        Self { principal, role, tenants: BTreeMap::new(), secret: None }
    }

    /// An operator who is not known, and may do nothing.
    pub fn unknown() -> Self {
        Self::new(Principal::operator("", None), None)
    }

    /// The same identity in a session of the web UI.
    #[must_use]
    pub fn in_ui(self) -> Self {
        Self { principal: self.principal.in_ui(), ..self }
    }

    /// Whether it may do exactly what another may.
    pub fn has_roles_of(&self, other: &Self) -> bool {
        (self.role, &self.tenants) == (other.role, &other.tenants)
    }

    /// Its role in a tenant: the higher one of that and its role in the domain.
    pub fn role_in(&self, tenant: &str) -> Option<Role> {
        self.role.max(self.tenants.get(tenant).copied())
    }

    /// Its highest role in any tenant.
    pub fn highest(&self) -> Option<Role> {
        self.role.max(self.tenants.values().copied().max())
    }

    /// What it has this role for.
    pub fn scope(&self, needed: Role) -> Scope {
        if self.role >= Some(needed) {
            return Scope::Domain;
        }
        let tenants = self.tenants.iter().filter(|(_, role)| **role >= needed);
        Scope::Tenants(tenants.map(|(tenant, _)| tenant.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a role in one tenant that counts in another, or for the domain.
    #[test]
    fn a_role_in_a_tenant_is_for_that_tenant_alone() {
        let tenants = BTreeMap::from([("acme".to_owned(), Role::Operator), ("other".to_owned(), Role::Metrics)]);
        let none = Identity { tenants, ..Identity::unknown() };
        assert_eq!((none.role_in("acme"), none.role_in("default")), (Some(Role::Operator), None));
        assert_eq!(none.highest(), Some(Role::Operator));
        let scope = none.scope(Role::Viewer);
        assert!(scope.has("acme") && !scope.has("other") && !scope.has("default") && !scope.is_domain());
        assert_eq!(none.scope(Role::Admin), Scope::Tenants(Default::default()));
        let viewer = Identity { role: Some(Role::Viewer), ..none };
        assert_eq!(viewer.role_in("other"), Some(Role::Viewer));
        assert!(viewer.scope(Role::Viewer).is_domain());
        assert!(viewer.scope(Role::Operator).has("acme") && !viewer.scope(Role::Operator).has("other"));
        assert_eq!(Identity::unknown().highest(), None);
    }
}
