// SPDX-License-Identifier: Apache-2.0
//! The identity provider by which people sign in at the addresses for browsers on other machines.

use canopy_controller_access::{GroupRoles, Live};
use canopy_controller_oidc::Provider;

/// A provider, and which of its groups may do what.
pub struct SingleSignOn {
    /// The provider.
    pub provider: Provider,
    /// Roles of groups, which can be read again.
    pub roles: Live<GroupRoles>,
}
