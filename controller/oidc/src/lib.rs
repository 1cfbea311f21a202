// SPDX-License-Identifier: Apache-2.0
//! Single sign-on: the authorization code flow of OpenID Connect with PKCE (OpenID Connect Core 1.0, RFC 6749, RFC 7636, RFC 9207).
//!
//! ```text
//! browser                    controller                             provider
//!    |--- begin ----------------->| configuration of the provider ----->|
//!    |<-- address, cookie --------|                                      |
//!    |--- address: state, nonce, challenge ----------------------------->|
//!    |<-- code, state, iss ----------------------------------------------|
//!    |--- code, state, cookie --->| code, verifier, secret ------------->|
//!    |                            |<-- ID token: signature, nonce, ... --|
//! ```
//!
//! - [`Login`]: what one sign-in is recognized by, in a cookie of the browser; state, nonce and verifier follow from it.
//! - [`Provider`]: asks the provider, over TLS, within bounds. [`Person`]: what it asserts about who has signed in.
//! - `token`: what an ID token must have, without any input or output; `keys`: the provider's keys; `https`: requests.
//!
//! Who may do what is not decided here.

mod https;
mod keys;
mod login;
mod provider;
mod token;

pub use login::Login;
pub use provider::{Answer, ClientSecret, Failure, Provider, Settings};
pub use token::Person;
