// SPDX-License-Identifier: Apache-2.0
//! Tenants own groups. What is of one tenant does not exist for the callers of another.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::metadata::DEFAULT_TENANT;

/// What a caller sees, or may change, of what belongs to tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// Everything.
    #[default]
    Domain,
    /// What belongs to these tenants, and nothing of the domain itself.
    Tenants(BTreeSet<String>),
}

impl Scope {
    /// Whether it has what belongs to this tenant.
    pub fn has(&self, tenant: &str) -> bool {
        match self {
            Self::Domain => true,
            Self::Tenants(tenants) => tenants.contains(tenant),
        }
    }

    /// Whether it has what belongs to this tenant; `None`: to the domain.
    pub fn has_of(&self, tenant: Option<&str>) -> bool {
        match tenant {
            Some(tenant) => self.has(tenant),
            None => self.is_domain(),
        }
    }

    /// Whether it has all that the other has.
    pub fn has_all_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Domain, _) => true,
            (Self::Tenants(_), Self::Domain) => false,
            (Self::Tenants(own), Self::Tenants(others)) => others.is_subset(own),
        }
    }

    /// The tenant, if it has nothing but that one's.
    pub fn only(&self) -> Option<&str> {
        match self {
            Self::Tenants(tenants) if tenants.len() == 1 => tenants.first().map(String::as_str),
            Self::Tenants(_) | Self::Domain => None,
        }
    }

    /// Whether it has everything.
    pub fn is_domain(&self) -> bool {
        *self == Self::Domain
    }
}

/// To which tenant a record about a group belongs: those of versions without tenants belong to [`DEFAULT_TENANT`], and have none.
pub fn recorded(tenant: Option<&str>) -> &str {
    tenant.unwrap_or(DEFAULT_TENANT)
}

/// What a record about a group has of its tenant.
pub fn to_record(tenant: &str) -> Option<String> {
    (tenant != DEFAULT_TENANT).then(|| tenant.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_of_tenants_has_nothing_of_others_and_nothing_of_the_domain() {
        let acme = Scope::Tenants(["acme".to_owned()].into());
        assert!(acme.has("acme") && !acme.has("other") && !acme.has("") && !acme.has(DEFAULT_TENANT));
        assert!(acme.has_of(Some("acme")) && !acme.has_of(None) && !acme.is_domain());
        let both = Scope::Tenants(["acme".to_owned(), "other".to_owned()].into());
        assert!(both.has_all_of(&acme) && !acme.has_all_of(&both) && acme.has_all_of(&acme));
        assert!(Scope::Domain.has_all_of(&both) && !both.has_all_of(&Scope::Domain));
        assert!(Scope::Domain.has("acme") && Scope::Domain.has_of(None) && Scope::default().is_domain());
        assert!(!Scope::Tenants(BTreeSet::new()).has(""));
    }

    #[test]
    fn records_without_a_tenant_belong_to_the_default_one() {
        for tenant in ["acme", DEFAULT_TENANT] {
            assert_eq!(recorded(to_record(tenant).as_deref()), tenant);
        }
        assert_eq!(to_record(DEFAULT_TENANT), None);
    }
}
