// SPDX-License-Identifier: Apache-2.0
//! `audit`: who wrote what.

use std::io::Write;

use canopy_controller_api::List;
use canopy_controller_api::history::{Action, AuditItem, IntentKind};
use canopy_controller_api::query::AuditQuery;
use serde_json::json;

use super::rows::instant;
use super::with_query;
use crate::cli::{AuditAction, AuditArgs, Audited, Output};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{json, table, text, yaml};

const PATH: &str = "/api/v1/audit";
/// Entries per request.
const PAGE: usize = 1000;

/// See the module.
///
/// # Errors
/// The controller cannot be reached or refuses the filter.
pub async fn run(client: &Client, args: &AuditArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let entries = entries(client, args).await?;
    match args.output {
        Output::Json => json(out, &json!(entries)),
        Output::Yaml => yaml(out, &json!(entries)),
        Output::Name => {
            for entry in &entries.items {
                writeln!(out, "audit/{}", entry.sequence)?;
            }
            Ok(())
        }
        Output::Table | Output::Wide => {
            let wide = args.output == Output::Wide;
            let mut header = vec!["TIME", "BY", "ACTION", "OBJECT", "GENERATION", "FIELDS"];
            if wide {
                header.extend(["UID", "REQUEST"]);
            }
            table(out, &header, entries.items.iter().map(|entry| row(entry, wide)).collect())
        }
    }
}

/// As many as wanted, from as many pages as that takes.
async fn entries(client: &Client, args: &AuditArgs) -> Result<List<AuditItem>, Failure> {
    let kind = args.kind.map(kind);
    let wanted = usize::from(args.limit);
    let mut query = AuditQuery {
        limit: Some(wanted.min(PAGE)),
        next: None,
        kind,
        name: args.name.clone(),
        by: args.by.clone(),
        action: args.action.map(action),
        hosts: args.hosts,
        within_seconds: args.within.map(|within| within.as_secs()),
        request: args.request.clone(),
        ..AuditQuery::default()
    };
    let mut all: List<AuditItem> = client.get("reading the audit", &with_query(PATH, &query)?).await?;
    while let Some(next) = all.metadata.next.take().filter(|_| all.items.len() < wanted) {
        (query.next, query.limit) = (Some(next), Some((wanted - all.items.len()).min(PAGE)));
        let page: List<AuditItem> = client.get("reading the audit", &with_query(PATH, &query)?).await?;
        all.items.extend(page.items);
        all.metadata = page.metadata;
    }
    Ok(all)
}

fn kind(kind: Audited) -> IntentKind {
    match kind {
        Audited::Topology => IntentKind::Topology,
        Audited::Drain => IntentKind::Drain,
        Audited::Silence => IntentKind::Silence,
        Audited::Group => IntentKind::Group,
        Audited::Member => IntentKind::Member,
        Audited::Hmac => IntentKind::Hmac,
        Audited::Commit => IntentKind::Commit,
        Audited::ChangeSet => IntentKind::ChangeSet,
        Audited::Identity => IntentKind::Identity,
        Audited::LogLevel => IntentKind::LogLevel,
    }
}

fn action(action: AuditAction) -> Action {
    match action {
        AuditAction::Create => Action::Create,
        AuditAction::Update => Action::Update,
        AuditAction::Delete => Action::Delete,
        AuditAction::Rotate => Action::Rotate,
        AuditAction::Begin => Action::Begin,
        AuditAction::Confirm => Action::Confirm,
        AuditAction::Extend => Action::Extend,
        AuditAction::Cancel => Action::Cancel,
        AuditAction::Expire => Action::Expire,
        AuditAction::Enroll => Action::Enroll,
        AuditAction::Revoke => Action::Revoke,
        AuditAction::Retire => Action::Retire,
        AuditAction::Join => Action::Join,
        AuditAction::Leave => Action::Leave,
    }
}

fn row(entry: &AuditItem, wide: bool) -> Vec<String> {
    let fields = match (entry.fields.join(" "), entry.more_fields) {
        (fields, 0) => fields,
        (fields, more) => format!("{fields} and {more} more"),
    };
    let fields = match entry.last_unix_ns {
        Some(last) => format!("{} times until {}", entry.count, instant(last)),
        None => fields,
    };
    let mut row = vec![
        instant(entry.time_unix_ns),
        text(entry.by.to_string()),
        text(entry.action),
        format!("{}/{}", text(entry.kind).to_lowercase(), text(&entry.name)),
        text(entry.generation),
        text(fields),
    ];
    if wide {
        row.extend([text(entry.uid), text(&entry.request_id)]);
    }
    row
}
