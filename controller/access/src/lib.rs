// SPDX-License-Identifier: Apache-2.0
//! Where a caller of the northbound API has its role from.
//!
//! - [`Roles`]: the groups whose users have a role on the controller's machine, in the domain or in a tenant.
//! - [`Tokens`]: what programs and other machines send instead, a file next to the authority's key.
//! - [`Identity`]: a principal with its roles, as a request has them.
//!
//! What each request needs is in the REST API (`authorization`), and nowhere else.

mod identity;
mod secret;
mod tokens;
mod unix;

pub use identity::Identity;
pub use secret::{PREFIX, SecretDigest, TokenSecret};
pub use tokens::{MAX_LIFE, MAX_OF_MAKER, MAX_TOKENS, MIN_LIFE, Token, TokenError, TokenRequest, Tokens};
pub use unix::{Roles, TenantRoles, UnixRoles};
