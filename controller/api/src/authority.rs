// SPDX-License-Identifier: Apache-2.0
//! The authority that signs the certificates of agents, and how another one replaces it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The authority, its replacement, and the agents that have certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authority {
    /// SHA-256 of the public key of the authority that signs, hexadecimal: in every token made from now on.
    pub authority: String,
    /// What is under way, if it is being replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<AuthorityReplacement>,
    /// Since when agents are listed, nanoseconds since 1970. A certificate from before that is listed once its agent has connected.
    pub listed_since_unix_ns: u64,
    /// Agents whose certificates are valid or can be renewed, and are not revoked, by name.
    pub agents: Vec<AuthorityAgent>,
}

/// How far the replacement of the authority is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityReplacement {
    /// The step.
    pub step: ReplacementStep,
    /// When it began, nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// The authority that is replaced, as its hash.
    pub from: String,
    /// The one that replaces it.
    pub to: String,
    /// Agents that the next step would leave behind now.
    pub waits_for: Vec<String>,
}

/// Steps of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReplacementStep {
    /// Agents learn to trust the next authority, which signs nothing yet.
    Announced,
    /// The next authority signs; the former one is trusted still.
    Issuing,
}

/// An agent that has a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityAgent {
    /// `node/NAME` or `host/NAME`.
    pub subject: String,
    /// It has a connection.
    pub connected: bool,
    /// It needs nothing more for the next step.
    pub ready: bool,
    /// It has stored that it trusts the authority that replaces the other, or the only one.
    pub trusts: bool,
    /// The authority that has signed its certificate, as its hash.
    pub authority: String,
    /// When that ends, nanoseconds since 1970.
    pub not_after_unix_ns: u64,
    /// Its key is that of an enrollment here; otherwise the one that it has shown first, of which nothing else is known.
    #[serde(default)]
    pub enrolled: bool,
    /// When a certificate of its name with another key was shown first, nanoseconds since 1970: by the agent before it was enrolled again, or by
    /// another process. Revoking and enrolling it ends both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_key_unix_ns: Option<u64>,
}

/// Orders a step of a replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AuthorityRequest {
    /// Which one.
    pub step: AuthorityStep,
    /// Agents, `node/NAME` or `host/NAME`, that the step may leave behind.
    #[serde(default)]
    pub accept_loss: Vec<String>,
}

/// What can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum AuthorityStep {
    /// Make the next authority, and let agents trust it.
    Rotate,
    /// Let it sign, and agents renew.
    Issue,
    /// Trust the former one no more.
    Finish,
    /// Drop the next one, which has signed nothing.
    Cancel,
}
