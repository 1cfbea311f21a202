// SPDX-License-Identifier: Apache-2.0
//! `delete KIND NAME`, `delete -f FILE`.

use std::io::Write;

use hyper::Method;

use super::segment;
use crate::cli::{Deletable, DeleteArgs};
use crate::client::Client;
use crate::documents;
use crate::failure::{Exit, Failure};

/// See the module.
///
/// # Errors
/// A resource cannot be deleted; the resources before it are deleted.
pub async fn run(client: &Client, args: &DeleteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    for (name, path) in targets(args)? {
        match client.change(&format!("deleting {name}"), Method::DELETE, &path, None).await {
            Ok(()) => writeln!(out, "{name} deleted")?,
            Err(f) if f.exit == Exit::NotFound && args.ignore_not_found => writeln!(out, "{name} not found")?,
            Err(f) => return Err(f),
        }
    }
    Ok(())
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
