// SPDX-License-Identifier: Apache-2.0
//! Where a caller of the northbound API has its role from.
//!
//! - [`Roles`]: the groups whose users have a role on the controller's machine, in the domain or in a tenant.
//! - [`GroupRoles`]: the same for groups that an identity provider names.
//! - [`Tokens`]: what programs and other machines send instead, a file next to the authority's key.
//! - [`Identity`]: a principal with its roles, as a request has them.
//! - [`Live`]: what of it can be read again while the controller runs.
//! - [`Origin`]: where browsers on other machines have the web UI from.
//!
//! What each request needs is in the REST API (`authorization`), and nowhere else.

mod groups;
mod identity;
mod live;
mod origin;
mod secret;
mod tokens;
mod unix;

pub use groups::GroupRoles;
pub use identity::Identity;
pub use live::Live;
pub use origin::{NotAnOrigin, Origin};
pub use secret::{PREFIX, SecretDigest, TokenSecret};
pub use tokens::{
    MAX_CERTIFICATE_LIFE, MAX_LIFE, MAX_OF_MAKER, MAX_TOKENS, MIN_LIFE, Token, TokenError, TokenRequest, Tokens,
};
pub use unix::{Roles, TenantRoles, UnixRoles};
