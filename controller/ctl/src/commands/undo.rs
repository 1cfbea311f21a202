// SPDX-License-Identifier: Apache-2.0
//! `undo KIND NAME [--to GENERATION]`: an earlier version is written again, as a new generation. Nothing is rewound.

use std::io::Write;

use canopy_controller_api::API_VERSION;
use canopy_controller_api::history::VersionItem;
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
        let wanted = match wanted(&versions.items, to) {
            Wanted::Found(version) => version,
            Wanted::None => {
                return Err(none(match to {
                    None => "has no earlier version".to_owned(),
                    Some(to) => format!("has no earlier generation {to}"),
                }));
            }
            Wanted::OfAnother { version, tenant } => {
                let of = version.tenant.as_deref().unwrap_or_default();
                let text = format!(
                    "generation {} of {shown} is of tenant {of}, in which a group of this name was before; the last one of it is tenant {tenant}'s, which does not get what {of} had: `canopyctl history` lists both, create it by hand if that is wanted",
                    version.generation
                );
                return Err(Failure::new(Exit::Conflict, text));
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

/// The version that is to be put back.
#[derive(Debug, PartialEq)]
enum Wanted<'a> {
    Found(&'a VersionItem),
    None,
    /// There is one in another tenant alone than `tenant`, in which the group is, or was last.
    OfAnother {
        version: &'a VersionItem,
        tenant: &'a str,
    },
}

/// The newest earlier version, or the newest one of generation `to`, of the tenant in which the group is, or was last: groups of other tenants may
/// have had its name before.
fn wanted(versions: &[VersionItem], to: Option<u64>) -> Wanted<'_> {
    let tenant = versions.first().and_then(|last| last.tenant.as_deref());
    let replaced = || versions.iter().filter(|v| v.ended_unix_ns.is_some() && to.is_none_or(|to| v.generation == to));
    let own = replaced().find(|v| v.tenant.as_deref() == tenant);
    match (own, replaced().next(), tenant) {
        (Some(version), ..) => Wanted::Found(version),
        (None, Some(version), Some(tenant)) => Wanted::OfAnother { version, tenant },
        (None, ..) => Wanted::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(tenant: &str, generation: u64, ended: bool) -> VersionItem {
        let version = json!({
            "tenant": tenant, "uid": "01234567-89ab-8def-8123-456789abcdef", "generation": generation, "labels": {}, "spec": {},
            "endedUnixNs": ended.then_some(1), "deleted": false
        });
        serde_json::from_value(version).unwrap()
    }

    /// Catches an undo by which one tenant gets what a group of another tenant was that had the name before.
    #[test]
    fn what_another_tenant_had_under_the_name_is_not_put_back() {
        let versions = [version("b", 2, false), version("b", 1, true), version("a", 2, true), version("a", 1, true)];
        assert_eq!(wanted(&versions, None), Wanted::Found(&versions[1]));
        assert_eq!(wanted(&versions, Some(1)), Wanted::Found(&versions[1]));
        assert_eq!(wanted(&versions, Some(2)), Wanted::OfAnother { version: &versions[2], tenant: "b" });
        assert_eq!(wanted(&versions, Some(7)), Wanted::None);
        // Created a moment ago: its name has no version before that is its own.
        let created = [version("b", 1, false), version("a", 2, true)];
        assert_eq!(wanted(&created, None), Wanted::OfAnother { version: &created[1], tenant: "b" });
        // Deleted: it comes back where it was last.
        assert_eq!(wanted(&versions[2..], None), Wanted::Found(&versions[2]));
        assert_eq!(wanted(&versions[1..], Some(2)), Wanted::OfAnother { version: &versions[2], tenant: "b" });
        assert_eq!(wanted(&[], None), Wanted::None);
    }
}
