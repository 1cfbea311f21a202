// SPDX-License-Identifier: Apache-2.0
//! `history KIND NAME`: the versions of a resource.

use std::io::Write;

use canopy_controller_api::List;
use canopy_controller_api::history::{IntentKind, VersionItem};
use canopy_controller_api::query::VersionQuery;
use serde_json::json;

use super::rows::instant;
use super::{segment, with_query};
use crate::cli::{HistoryArgs, Output, Versioned};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{json, table, text, yaml};

/// See the module.
///
/// # Errors
/// There was never such a resource, or its versions are no longer kept.
pub async fn run(client: &Client, args: &HistoryArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (name, versions) = versions(client, args.kind, args.name.as_deref()).await?;
    match args.output {
        Output::Json => json(out, &json!(versions)),
        Output::Yaml => yaml(out, &json!(versions)),
        Output::Name => {
            for version in &versions.items {
                writeln!(out, "{} {}", shown(args.kind, &name), version.generation)?;
            }
            Ok(())
        }
        Output::Table | Output::Wide => {
            let wide = args.output == Output::Wide;
            let mut header = vec!["GENERATION", "WRITTEN", "BY", "UNTIL", "ENDED BY", "STATE"];
            header.extend(wide.then_some("UID"));
            table(out, &header, versions.items.iter().map(|version| row(version, wide)).collect())
        }
    }
}

/// The versions of a resource, with its name.
pub(super) async fn versions(
    client: &Client,
    kind: Versioned,
    name: Option<&str>,
) -> Result<(String, List<VersionItem>), Failure> {
    let usage = |why: &str| Failure::new(Exit::Usage, why);
    let (kind, name) = match (kind, name) {
        (Versioned::Topology, None | Some("default")) => (IntentKind::Topology, "default"),
        (Versioned::Topology, Some(_)) => return Err(usage("the topology's name is default")),
        (Versioned::Drain, Some(name)) => (IntentKind::Drain, segment("drain", name)?),
        (Versioned::Group, Some(name)) => (IntentKind::Group, segment("group", name)?),
        (Versioned::Drain | Versioned::Group, None) => return Err(usage("name the resource: history group NAME")),
    };
    let query = VersionQuery { kind, name: name.to_owned() };
    let versions =
        client.get(&format!("reading the versions of {name}"), &with_query("/api/v1/versions", &query)?).await?;
    Ok((name.to_owned(), versions))
}

/// `group/demo`.
pub(super) fn shown(kind: Versioned, name: &str) -> String {
    let kind = match kind {
        Versioned::Topology => "topology",
        Versioned::Drain => "drain",
        Versioned::Group => "group",
    };
    format!("{kind}/{name}")
}

fn row(version: &VersionItem, wide: bool) -> Vec<String> {
    let at = |time: Option<u64>| time.map_or_else(|| text(()), instant);
    let by = |who: &Option<canopy_controller_api::metadata::Principal>| text(who.as_ref().map(ToString::to_string));
    let state = match (version.ended_unix_ns, version.deleted) {
        (None, _) => "in force",
        (Some(_), false) => "replaced",
        (Some(_), true) => "deleted",
    };
    let mut row = vec![
        text(version.generation),
        at(version.written_unix_ns),
        by(&version.written_by),
        at(version.ended_unix_ns),
        by(&version.ended_by),
        state.to_owned(),
    ];
    row.extend(wide.then(|| text(version.uid)));
    row
}
