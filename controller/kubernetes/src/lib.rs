// SPDX-License-Identifier: Apache-2.0
//! Callers in Kubernetes: a pod shows a token of its service account, and the API server confirms whose it is and on which node the pod runs.
//!
//! - [`Attestor`] decides whether a token makes its sender the agent of a node or of a host, and whose it is otherwise.
//! - `review` has the request and the answer of the API server (TokenReview, authentication.k8s.io/v1).
//! - `publish` writes the hashes of the authority where agents find them.
//! - `api`: one HTTP request at a time over TLS, without a client library: two calls need none, and the controller's tree stays small.
//! - [`Outcome`] counts what became of each token.

mod api;
mod attestor;
mod outcome;
mod publish;
mod review;
mod settings;

pub use attestor::{Attested, Attestor, Refusal};
pub use outcome::Outcome;
pub use settings::{Account, Address, BadSetting, Settings};
