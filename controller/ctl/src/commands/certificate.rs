// SPDX-License-Identifier: Apache-2.0
//! `certificate request|create|store`: the private key stays on the machine that it was made on.
//!
//! ```text
//! laptop: request --> controller's machine: create --> laptop: store
//! ```

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use canopy_controller_api::token::{NewToken, TokenInput};
use canopy_identity::{Credentials, PrivateKey, request_to_pem};
use serde_json::json;

use crate::cli::CertificateAction;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::clean;

/// Octets that are read: more than any request or certificate has.
const MAX_INPUT: u64 = 64 << 10;

/// Executes what needs no controller; `None`: the command needs one.
pub fn offline(action: &CertificateAction, out: &mut dyn Write, err: &mut dyn Write) -> Option<Result<(), Failure>> {
    match action {
        CertificateAction::Request { file } => Some(request(file, out)),
        CertificateAction::Store { file } => Some(store(file, err)),
        CertificateAction::Create { .. } => None,
    }
}

/// Executes what [`offline`] does not.
///
/// # Errors
/// Standard input has no request; the controller cannot be reached, or refused.
pub async fn run(
    client: &Client,
    action: &CertificateAction,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let CertificateAction::Create { name, tenant, role, time } = action else { return Ok(()) };
    let request = input("a certificate request, as `canopyctl certificate request` prints it")?;
    let body = json!(TokenInput {
        name: name.clone(),
        tenant: tenant.clone(),
        role: *role,
        for_seconds: Some(u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
        certificate_request: Some(request),
    });
    let made: NewToken = client.post(&format!("making the certificate {name}"), "/api/v1/tokens", &body).await?;
    let ends = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(made.expires_unix_ns));
    let place = made.tenant.as_deref().map_or_else(String::new, |tenant| format!(" in tenant {}", clean(tenant)));
    let certificate = made.certificate.unwrap_or_default();
    writeln!(err, "certificate {} has the role {}{place} until {ends}", clean(&made.name), made.role)?;
    writeln!(err, "where its key is, with this as input: canopyctl certificate store --file FILE")?;
    Ok(write!(out, "{certificate}")?)
}

fn request(file: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{} cannot be made: {why}", file.display()));
    let key = PrivateKey::generate().map_err(|e| failed(&e))?;
    let request = key.request().map_err(|e| failed(&e))?;
    if file.exists() {
        return Err(failed(&"it exists: move it away, or name a new file"));
    }
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut made = made.map_err(|e| failed(&e))?;
    made.write_all(key.to_pem().as_bytes()).and_then(|()| made.sync_all()).map_err(|e| failed(&e))?;
    Ok(write!(out, "{}", request_to_pem(&request))?)
}

fn store(file: &Path, err: &mut dyn Write) -> Result<(), Failure> {
    let answer = input("a certificate, as `canopyctl certificate create` prints it")?;
    let stored = Credentials::complete_file(file, &answer);
    let own = stored.map_err(|e| Failure::new(Exit::Usage, format!("not stored: {e}")))?.certificate;
    let ends = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(own.not_after.nanos()));
    writeln!(
        err,
        "{} until {ends}: canopyctl context set NAME https://CONTROLLER:PORT --with-certificate {}",
        own.subject,
        file.display()
    )?;
    Ok(())
}

fn input(what: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_INPUT).read_to_string(&mut text);
    let failed = |why: String| Failure::new(Exit::Usage, format!("standard input has to be {what}: {why}"));
    read.map_err(|e| failed(e.to_string()))?;
    if text.trim().is_empty() { Err(failed("it is empty".to_owned())) } else { Ok(text) }
}
