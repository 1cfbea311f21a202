// SPDX-License-Identifier: Apache-2.0
//! `token create|list|rotate|revoke` and `whoami`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_controller_api::List;
use canopy_controller_api::token::{CallerItem, NewToken, TokenInput, TokenItem};
use hyper::Method;
use serde_json::json;

use super::rows::age;
use super::segment;
use crate::cli::TokenAction;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{clean, table, text};

const PATH: &str = "/api/v1/tokens";

/// Executes the command. The token alone goes to `out`, so that it can be piped; what to do with it goes to `err`.
///
/// # Errors
/// The controller cannot be reached, or refused; the file cannot be written.
pub async fn run(
    client: &Client,
    action: &TokenAction,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    match action {
        TokenAction::Create { name, tenant, role, time, file } => {
            // What cannot be kept is not made.
            if let Some(file) = file.as_deref().filter(|file| file.exists()) {
                return Err(Failure::new(Exit::Usage, format!("{} exists: name a new file", file.display())));
            }
            let for_seconds = Some(u32::try_from(time.as_secs()).unwrap_or(u32::MAX));
            let (name, tenant, role) = (name.clone(), tenant.clone(), *role);
            let doing = format!("making the token {name}");
            let body = json!(TokenInput { name, tenant, role, for_seconds, certificate_request: None });
            let made: NewToken = client.post(&doing, PATH, &body).await?;
            keep(client, &made, file.as_deref(), out, err)
        }
        TokenAction::Rotate { name, file } => {
            let path = format!("{PATH}/{}/rotate", segment("token", name)?);
            let made: NewToken = client.post(&format!("rotating the token {name}"), &path, &json!({})).await?;
            keep(client, &made, file.as_deref(), out, err)
        }
        TokenAction::Revoke { name } => {
            let path = format!("{PATH}/{}", segment("token", name)?);
            client.change(&format!("revoking the token {name}"), Method::DELETE, &path, None).await?;
            Ok(writeln!(out, "token {} does not work any more", clean(name))?)
        }
        TokenAction::List { json } => {
            let list: List<TokenItem> = client.get("listing tokens", PATH).await?;
            if *json {
                return crate::output::json(out, &json!(list));
            }
            if list.items.is_empty() {
                return Ok(writeln!(out, "no tokens")?);
            }
            let row = |item: &TokenItem| {
                let used = item.used_unix_ns.map_or("never".to_owned(), |at| format!("{} ago", age(Some(at))));
                let by = clean(&item.maker.to_string());
                let tenant = item.tenant.as_deref().unwrap_or_default();
                vec![
                    text(&item.name),
                    if item.certificate { "certificate" } else { "secret" }.to_owned(),
                    item.role.to_string(),
                    text(tenant),
                    by,
                    age(Some(item.created_unix_ns)),
                    left(item),
                    used,
                ]
            };
            table(
                out,
                &["NAME", "KIND", "ROLE", "TENANT", "BY", "AGE", "ENDS IN", "USED"],
                list.items.iter().map(row).collect(),
            )
        }
    }
}

/// `whoami`: who the caller is for the controller.
///
/// # Errors
/// The controller cannot be reached, or gives the caller no role at all.
pub async fn caller(client: &Client, out: &mut dyn Write) -> Result<(), Failure> {
    let CallerItem { principal, role, tenants } = client.get("asking who you are", "/api/v1/caller").await?;
    let in_domain = role.map(|role| format!("the role {role}"));
    let in_tenants = tenants.iter().map(|(tenant, role)| format!("the role {role} in tenant {}", clean(tenant)));
    let all: Vec<String> = in_domain.into_iter().chain(in_tenants).collect();
    let roles = if all.is_empty() { "no role".to_owned() } else { all.join(", ") };
    Ok(writeln!(out, "{}, with {roles}", clean(&principal.to_string()))?)
}

/// Prints the token, or writes it into the file.
fn keep(
    client: &Client,
    made: &NewToken,
    file: Option<&Path>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let ends = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(made.expires_unix_ns));
    let place = made.tenant.as_deref().map_or_else(String::new, |tenant| format!(" in tenant {}", clean(tenant)));
    writeln!(
        err,
        "token {} has the role {}{place} until {ends}, and is not shown again",
        clean(&made.name),
        made.role
    )?;
    if let Some(authority) = &made.authority {
        let use_it = "elsewhere: canopyctl context set NAME https://CONTROLLER:PORT --with-token FILE --with-authority";
        writeln!(err, "{use_it} {}", clean(authority))?;
    }
    let server = client.name();
    let secret = made.token.as_ref().map(|token| token.0.as_str());
    let secret = secret.ok_or_else(|| Failure::new(Exit::Error, "the controller's answer has no token".to_owned()))?;
    let Some(file) = file else { return Ok(writeln!(out, "{secret}")?) };
    let written = replace(file, secret);
    written.map_err(|e| {
        let then = format!("revoke it with `canopyctl token revoke {}` and make another", clean(&made.name));
        Failure::new(Exit::Error, format!("the token cannot be written to {}: {e}; {then}", file.display()))
    })?;
    Ok(writeln!(err, "it is in {0}: canopyctl --server {server} --token-file {0} whoami", file.display())?)
}

fn replace(file: &Path, token: &str) -> std::io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = Path::new(&name);
    let mut open = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    let written = (|| {
        writeln!(open, "{token}")?;
        open.sync_all()?;
        fs::rename(new, file)
    })();
    if written.is_err() {
        _ = fs::remove_file(new);
    }
    written
}

fn left(item: &TokenItem) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = Duration::from_nanos(item.expires_unix_ns).saturating_sub(now);
    humantime::format_duration(Duration::from_secs(left.as_secs() / 60 * 60)).to_string()
}
