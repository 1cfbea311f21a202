// SPDX-License-Identifier: Apache-2.0
//! Northbound REST API: axum routes over the controller's handle.
//!
//! - [`router`]: everything that is served; [`openapi`]: its description.
//! - [`error`] maps every refusal to a status code and a problem document (RFC 9457), in one place.
//! - [`Caller`]: who sends a request; [`Accounts`]: service accounts of Kubernetes; `authorization`: which role each request needs.
//! - `extract`: bodies and queries, refused with the field's name; `conditions`: who sends a write, and its preconditions.
//! - The types of requests and responses are those of `canopy_controller_api`.
//! - `limits`: octets of bodies and answers that one caller may have in flight.
//! - [`Watches`]: changes as server-sent events.
//! - [`Sessions`]: the browsers that are signed in; [`for_browsers`]: where those on other machines come in.
//! - `browser`: how a browser is distinguished from a program; `single_sign_on`: the identity provider.
//! - `lasting`: a stream ends when its caller's roles change.
//! - `routes`: one file per resource; `health`, `metrics` and `plain` for operators; `ui`: the web UI.

mod accounts;
mod authorization;
mod body_size;
mod browser;
mod caller;
mod conditions;
pub mod error;
mod extract;
mod health;
mod host;
mod lasting;
mod limits;
mod map_layers;
pub mod metrics;
mod openapi;
mod plain;
mod preview;
mod request;
mod router;
mod routes;
mod sessions;
mod single_sign_on;
mod site;
mod ui;
mod watch;

pub use accounts::{Accounts, Credentials, NotNamed};
pub use body_size::{MAX_BODY_BYTES, MAX_TOPOLOGY_BYTES};
pub use caller::{Arrival, Caller};
pub use host::only_local_names;
pub use limits::Limits;
pub use openapi::openapi;
pub use router::{REQUEST_TIMEOUT, router, router_with};
pub use sessions::Sessions;
pub use single_sign_on::SingleSignOn;
pub use site::for_browsers;
pub use watch::Watches;
