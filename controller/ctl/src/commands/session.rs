// SPDX-License-Identifier: Apache-2.0
//! `session list|revoke`.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::List;
use canopy_controller_api::sign_in::SessionItem;
use hyper::Method;
use serde_json::json;

use crate::cli::SessionAction;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{clean, table};

const PATH: &str = "/api/v1/sessions";

/// Executes the command.
///
/// # Errors
/// The controller cannot be reached, or refused.
pub async fn run(client: &Client, action: &SessionAction, out: &mut dyn Write) -> Result<(), Failure> {
    match action {
        SessionAction::Revoke { id } => {
            client.change(&format!("ending the session {id}"), Method::DELETE, &format!("{PATH}/{id}"), None).await?;
            Ok(writeln!(out, "session {id} has ended")?)
        }
        SessionAction::List { json } => {
            let list: List<SessionItem> = client.get("listing sessions", PATH).await?;
            if *json {
                return crate::output::json(out, &json!(list));
            }
            if list.items.is_empty() {
                return Ok(writeln!(out, "no sessions")?);
            }
            let titles = ["ID", "BY", "ROLE", "WITH", "AGE", "UNUSED FOR", "ENDS IN"];
            table(out, &titles, list.items.iter().map(row).collect())
        }
    }
}

fn row(item: &SessionItem) -> Vec<String> {
    let of_tenants = item.tenants.iter().map(|(tenant, role)| format!("{role} in {}", clean(tenant)));
    let roles: Vec<String> = item.role.iter().map(ToString::to_string).chain(of_tenants).collect();
    let time = |seconds| humantime::format_duration(Duration::from_secs(seconds)).to_string();
    vec![
        item.id.to_string(),
        clean(&item.by.to_string()),
        roles.join(", "),
        if item.is_cookie { "cookie" } else { "bearer" }.to_owned(),
        time(item.age_seconds),
        time(item.unused_seconds),
        time(item.expires_in_seconds),
    ]
}
