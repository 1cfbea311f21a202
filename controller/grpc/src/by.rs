// SPDX-License-Identifier: Apache-2.0
//! Who at a host joins, leaves or watches, as its agent reports it, and what there is for that caller.

use canopy_controller_core::metadata::DEFAULT_TENANT;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::tenant::Scope;
use canopy_controller_kubernetes::Account;
use canopy_model::FieldError;
use tonic::Status;

use crate::error;

/// A user or a pod at a host.
#[derive(Debug)]
pub(crate) struct By {
    /// For the audit.
    pub(crate) principal: Principal,
    /// Groups of other tenants do not exist for it.
    pub(crate) scope: Scope,
}

impl By {
    /// At this host. Users see every group, pods those of the tenant with the name of their namespace, and those without a tenant.
    ///
    /// # Errors
    /// `account` is not NAMESPACE/NAME.
    pub(crate) fn at(host: &str, uid: Option<u32>, account: &str) -> Result<Self, Status> {
        if account.is_empty() {
            return Ok(Self { principal: Principal { uid, ..Principal::host(host) }, scope: Scope::Domain });
        }
        let account: Account =
            account.parse().map_err(|bad| error::field(FieldError::new("account", format!("{bad}"))))?;
        let tenants = [account.namespace.clone(), DEFAULT_TENANT.to_owned()].into();
        Ok(Self { principal: Principal::pod(host, account.to_string()), scope: Scope::Tenants(tenants) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Catches a pod that sees the groups of another namespace, or of the whole domain.
    #[test]
    fn a_pod_has_the_groups_of_its_namespace_and_those_of_none() {
        let pod = By::at("r1", Some(7), "training/trainer").unwrap();
        assert_eq!(pod.principal.to_string(), "training/trainer of host r1");
        assert!(pod.scope.has("training") && pod.scope.has(DEFAULT_TENANT) && !pod.scope.has("trainer"));
        assert!(!pod.scope.is_domain());
        let user = By::at("r1", Some(7), "").unwrap();
        assert!(user.principal.to_string() == "uid 7 of host r1" && user.scope.is_domain());
        assert_eq!(By::at("r1", None, "training").unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
