// SPDX-License-Identifier: Apache-2.0
//! Where a caller of the northbound API has its role from.
//!
//! - [`UnixRoles`]: the groups whose users have a role on the controller's machine.
//! - [`Tokens`]: what programs and other machines send instead, a file next to the authority's key.
//! - [`Identity`]: a principal with its role, as a request has it.
//!
//! What each request needs is in the REST API (`authorization`), and nowhere else.

mod secret;
mod tokens;
mod unix;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;

pub use secret::{PREFIX, SecretDigest, TokenSecret};
pub use tokens::{MAX_LIFE, MAX_OF_MAKER, MAX_TOKENS, MIN_LIFE, Token, TokenError, TokenRequest, Tokens};
pub use unix::UnixRoles;

/// Who sends a request, and what that principal may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The principal, for records and refusals.
    pub principal: Principal,
    /// `None`: nothing.
    pub role: Option<Role>,
    /// Which secret of a token it was shown by, if it was.
    pub secret: Option<SecretDigest>,
}

impl Identity {
    /// Without a token.
    pub fn new(principal: Principal, role: Option<Role>) -> Self {
        Self { principal, role, secret: None }
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
}
