// SPDX-License-Identifier: Apache-2.0
//! `ack ID`, `silence KIND NAME` and `unsilence NAME`.

use std::io::Write;

use canopy_controller_api::{API_VERSION, List, SilenceResource};
use hyper::Method;
use serde_json::json;

use super::drain::{default_name, end};
use super::{link_name, preview, segment};
use crate::cli::{AckArgs, SilenceArgs, Silenced, UnsilenceArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::text;

const PATH: &str = "/api/v1/silences";

/// `ack`: the silence of one problem.
///
/// # Errors
/// The problem is not open, or the controller refuses the silence.
pub async fn ack(client: &Client, args: &AckArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let AckArgs { problem, note, lasts, until } = args;
    let silence = SilenceArgs {
        kind: Silenced::Problem,
        target: problem.clone(),
        note: note.clone(),
        name: None,
        from: None,
        lasts: *lasts,
        until: until.clone(),
        dry_run: false,
    };
    run(client, &silence, out).await
}

/// `silence`: an operator knows of these problems; they raise no alert.
///
/// # Errors
/// The controller refuses it.
pub async fn run(client: &Client, args: &SilenceArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let field = field(args.kind);
    let target = match args.kind {
        Silenced::Link if args.target.contains("--") => args.target.as_str(),
        Silenced::Link => link_name(&args.target).map(|_| args.target.as_str())?,
        Silenced::Problem | Silenced::Node | Silenced::Group | Silenced::Host => segment(field, &args.target)?,
    };
    let default = format!("{field}-{}", default_name(target));
    let name = segment("silence", args.name.as_deref().unwrap_or(&default))?;
    let mut spec = json!({"note": args.note});
    spec[field] = json!(target);
    if let Some(from) = &args.from {
        spec["from"] = json!(from);
    }
    if let Some(until) = end(client, args.lasts, args.until.as_ref()).await? {
        spec["until"] = json!(until);
    }
    let body = json!({"apiVersion": API_VERSION, "kind": "Silence", "metadata": {"name": name}, "spec": spec});
    let doing = format!("silencing {field} {target}");
    if args.dry_run {
        let answer = client.dry_run(&doing, Method::POST, PATH, Some(&body)).await?;
        return preview::write(&format!("silence/{name}"), &answer, out);
    }
    client.change(&doing, Method::POST, PATH, Some(&body)).await?;
    let ends = match body["spec"]["until"].as_str() {
        Some(until) => format!("it ends by itself at {}", text(until)),
        None => "it ends by itself with the problem".to_owned(),
    };
    writeln!(out, "silence/{name} created; {ends}, or by `canopyctl unsilence {name}`")?;
    Ok(())
}

/// `unsilence`: deletes a silence by its name, or the only one of a problem or object.
///
/// # Errors
/// There is none, or several name the target.
pub async fn unsilence(client: &Client, args: &UnsilenceArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let all: List<SilenceResource> = client.get("listing silences", PATH).await?;
    let wanted = args.name.as_str();
    let is_of = |s: &&SilenceResource| {
        let spec = &s.spec;
        let targets = [&spec.problem, &spec.node, &spec.link, &spec.group, &spec.host];
        let mut ends = spec.link.iter().flat_map(|link| link.split("--"));
        targets.into_iter().flatten().any(|target| target == wanted) || ends.any(|end| end == wanted)
    };
    let named: Vec<_> = all.items.iter().filter(|s| s.metadata.name == wanted).collect();
    let found = if named.is_empty() { all.items.iter().filter(is_of).collect() } else { named };
    match found[..] {
        [silence] => {
            let name = segment("silence", &silence.metadata.name)?;
            client.change(&format!("deleting silence {name}"), Method::DELETE, &format!("{PATH}/{name}"), None).await?;
            Ok(writeln!(out, "silence/{name} deleted: its problems raise alerts again")?)
        }
        [] => {
            let message = format!("no silence has this name or target: {wanted}; `canopyctl get silences` lists them");
            Err(Failure::new(Exit::NotFound, message))
        }
        ref several => {
            let names: Vec<String> = several.iter().map(|s| text(&s.metadata.name)).collect();
            let message = format!("{wanted} is silenced by {}: name the silence", names.join(", "));
            Err(Failure::new(Exit::Conflict, message))
        }
    }
}

fn field(kind: Silenced) -> &'static str {
    match kind {
        Silenced::Problem => "problem",
        Silenced::Node => "node",
        Silenced::Link => "link",
        Silenced::Group => "group",
        Silenced::Host => "host",
    }
}
