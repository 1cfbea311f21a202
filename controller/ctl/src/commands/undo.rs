// SPDX-License-Identifier: Apache-2.0
//! `undo KIND NAME [--to GENERATION]`: an earlier version is written again, as a new generation. Nothing is rewound.

use std::io::Write;

use canopy_controller_api::API_VERSION;
use hyper::Method;
use serde_json::{Value, json};

use super::{history, preview};
use crate::cli::{UndoArgs, Versioned};
use crate::client::Client;
use crate::failure::{Exit, Failure};

/// See the module.
///
/// # Errors
/// There is no such version, the controller refuses it, or another operator wrote meanwhile.
pub async fn run(client: &Client, args: &UndoArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if args.dry_run {
        return show(client, args.kind, args.name.as_deref(), args.to, out).await;
    }
    let earlier = Earlier::find(client, args.kind, args.name.as_deref(), args.to).await?;
    let doing = format!("putting generation {} of {} back", earlier.generation, earlier.name);
    let (header, tag) = &earlier.condition;
    let condition = (*header, tag.as_str());
    client.change_if(&doing, Method::PUT, &earlier.path, Some(&earlier.body), condition).await?;
    let Earlier { name, generation, is_there, .. } = &earlier;
    if *is_there {
        writeln!(out, "{name} is as in generation {generation} again; `canopyctl undo` once more takes this back")?;
    } else {
        writeln!(out, "{name} was deleted, and is there again as in generation {generation}")?;
    }
    Ok(())
}

/// What putting the version back would change and do.
pub(super) async fn show(
    client: &Client,
    kind: Versioned,
    name: Option<&str>,
    to: Option<u64>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let earlier = Earlier::find(client, kind, name, to).await?;
    let doing = format!("comparing {} with generation {}", earlier.name, earlier.generation);
    let answer = client.dry_run(&doing, Method::PUT, &earlier.path, Some(&earlier.body)).await?;
    preview::write(&earlier.name, &answer, out)
}

/// An earlier version, ready to be sent.
struct Earlier {
    name: String,
    generation: u64,
    path: String,
    body: Value,
    /// The resource was there, and not deleted, when the versions were read.
    is_there: bool,
    /// It is as it was then.
    condition: (&'static str, String),
}

impl Earlier {
    async fn find(client: &Client, kind: Versioned, name: Option<&str>, to: Option<u64>) -> Result<Self, Failure> {
        let (name, versions) = history::versions(client, kind, name).await?;
        let shown = history::shown(kind, &name);
        let none = |what: String| {
            Failure::new(Exit::NotFound, format!("{shown} {what}: `canopyctl history` lists those that are kept"))
        };
        let present = versions.items.first().filter(|v| v.ended_unix_ns.is_none());
        let mut replaced = versions.items.iter().filter(|v| v.ended_unix_ns.is_some());
        let wanted = match to {
            None => replaced.next().ok_or_else(|| none("has no earlier version".to_owned()))?,
            // Of a resource that was deleted and created again, the newest of this generation.
            Some(to) => {
                replaced.find(|v| v.generation == to).ok_or_else(|| none(format!("has no earlier generation {to}")))?
            }
        };
        let (api_kind, path) = match kind {
            Versioned::Topology => ("Topology", "/api/v1/topology".to_owned()),
            Versioned::Drain => ("Drain", format!("/api/v1/drains/{name}")),
            Versioned::Group => ("Group", format!("/api/v1/groups/{name}")),
        };
        let mut metadata = json!({"name": name, "labels": wanted.labels});
        // One that is there stays in its tenant.
        if let (Some(tenant), None) = (&wanted.tenant, present) {
            metadata["tenant"] = json!(tenant);
        }
        let body = json!({"apiVersion": API_VERSION, "kind": api_kind, "metadata": metadata, "spec": wanted.spec});
        let condition = match present {
            Some(v) => ("if-match", format!("\"{}.{}\"", v.uid, v.generation)),
            None => ("if-none-match", "*".to_owned()),
        };
        Ok(Self { name: shown, generation: wanted.generation, path, body, is_there: present.is_some(), condition })
    }
}
