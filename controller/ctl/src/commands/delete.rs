// SPDX-License-Identifier: Apache-2.0
//! `delete KIND NAME`, `delete -f FILE`.

use std::io::Write;

use canopy_controller_api::GroupResource;
use tokio::time::sleep;

use super::segment;
use super::wait::POLL;
use crate::cli::{Deletable, DeleteArgs};
use crate::client::Client;
use crate::documents;
use crate::failure::{Exit, Failure};
use crate::output::text;

/// See the module.
///
/// # Errors
/// A resource cannot be deleted; the resources before it are deleted.
pub async fn run(client: &Client, args: &DeleteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    for (name, path) in targets(args)? {
        match client.delete(&format!("deleting {name}"), &path, None).await {
            Ok(None) => writeln!(out, "{name} deleted")?,
            Ok(Some(group)) if args.no_wait => writeln!(out, "{name}: {}", text(&group.status.reason))?,
            Ok(Some(group)) => until_gone(client, &name, &path, group, out).await?,
            Err(f) if f.exit == Exit::NotFound && args.ignore_not_found => writeln!(out, "{name} not found")?,
            Err(f) => return Err(f),
        }
    }
    Ok(())
}

/// Prints how many members of a group are left until it is gone.
pub(super) async fn until_gone(
    client: &Client,
    name: &str,
    path: &str,
    mut group: GroupResource,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (uid, mut shown) = (group.metadata.uid, String::new());
    // One of this name with another uid is another group.
    while group.metadata.uid == uid {
        if group.status.reason != shown {
            shown = group.status.reason;
            writeln!(out, "{name}: {}", text(&shown))?;
        }
        sleep(POLL).await;
        group = match client.get(&format!("waiting until {name} is gone"), path).await {
            Ok(group) => group,
            Err(f) if f.exit == Exit::NotFound => break,
            Err(f) => return Err(f),
        };
    }
    Ok(writeln!(out, "{name} deleted")?)
}

fn targets(args: &DeleteArgs) -> Result<Vec<(String, String)>, Failure> {
    let usage = |why: &str| Failure::new(Exit::Usage, why);
    let Some(kind) = args.kind else {
        let mut documents = Vec::new();
        for file in &args.files {
            documents.extend(documents::read(file)?);
        }
        // Dependent resources are deleted first.
        documents.sort_by_key(|d| std::cmp::Reverse(d.kind));
        return Ok(documents.into_iter().map(|d| (d.name, d.path)).collect());
    };
    let name = args.name.as_deref();
    Ok(vec![match kind {
        Deletable::Topology if name.is_none_or(|n| n == "default") => {
            ("topology/default".into(), "/api/v1/topology".into())
        }
        Deletable::Topology => return Err(usage("the topology's name is default")),
        Deletable::Group => {
            let name = segment("group", name.ok_or_else(|| usage("name the group: delete group NAME"))?)?;
            (format!("group/{name}"), format!("/api/v1/groups/{name}"))
        }
        Deletable::Drain => {
            let name = segment("drain", name.ok_or_else(|| usage("name the drain: delete drain NAME"))?)?;
            (format!("drain/{name}"), format!("/api/v1/drains/{name}"))
        }
        Deletable::Silence => {
            let name = segment("silence", name.ok_or_else(|| usage("name the silence: delete silence NAME"))?)?;
            (format!("silence/{name}"), format!("/api/v1/silences/{name}"))
        }
        Deletable::Member => {
            let host = segment("host", name.ok_or_else(|| usage("name the host: delete member HOST -g GROUP"))?)?;
            let group = segment(
                "group",
                args.group.as_deref().ok_or_else(|| usage("name the group: delete member HOST -g GROUP"))?,
            )?;
            (format!("member/{group}/{host}"), format!("/api/v1/groups/{group}/members/{host}"))
        }
    }])
}
