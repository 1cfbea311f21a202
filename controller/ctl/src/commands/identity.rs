// SPDX-License-Identifier: Apache-2.0
//! `node enroll`, `node revoke`, `host enroll` and `host revoke`.

use std::io::Write;

use canopy_controller_api::identity::{Enrollment, Revocation, SubjectRequest};

use crate::cli::IdentityAction;
use crate::client::Client;
use crate::failure::Failure;

/// Executes the command on the agent of this kind, `node` or `host`. The token alone goes to `out`, so that it can be piped to the agent;
/// what to do with it goes to `err`.
///
/// # Errors
/// The controller cannot be reached, or refused.
pub async fn run(
    client: &Client,
    kind: &str,
    action: &IdentityAction,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    match action {
        IdentityAction::Enroll { name } => {
            let doing = format!("enrolling {kind} {name}");
            let made: Enrollment = post(client, &doing, "/api/v1/enrollments", kind, name).await?;
            let minutes = made.expires_in_seconds / 60;
            writeln!(err, "Within {minutes} minutes, on the machine of {kind} {name}, with this token as its input:")?;
            let command = if kind == "host" { "host enroll --host" } else { "enroll --node" };
            writeln!(err, "  canopy-agent {command} {name} --controller https://CONTROLLER:PORT")?;
            writeln!(out, "{}", made.token.0)?;
        }
        IdentityAction::Revoke { name } => {
            let doing = format!("revoking the certificates of {kind} {name}");
            let _: Revocation = post(client, &doing, "/api/v1/revocations", kind, name).await?;
            let rest = if kind == "host" {
                "its memberships with a lease end after grpc.lease_grace"
            } else {
                "what it forwards stays as it is"
            };
            writeln!(out, "revoked: {kind} {name} can do nothing until it is enrolled again; {rest}")?;
        }
    }
    Ok(())
}

async fn post<T: serde::de::DeserializeOwned>(
    client: &Client,
    doing: &str,
    path: &str,
    kind: &str,
    name: &str,
) -> Result<T, Failure> {
    let body = serde_json::to_value(SubjectRequest { subject: format!("{kind}/{name}") }).unwrap_or_default();
    client.post(doing, path, &body).await
}
