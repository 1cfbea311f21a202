// SPDX-License-Identifier: Apache-2.0
//! `drain link|node NAME` and `undrain NAME`.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::health::DomainStatus;
use canopy_controller_api::{API_VERSION, DrainResource, List};
use canopy_model::rfc3339;
use canopy_units::UnixTime;
use hyper::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{link_name, preview, segment};
use crate::cli::{DrainArgs, Drainable, UndrainArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::text;

const POLL: Duration = Duration::from_millis(200);

/// `drain`: takes a link or node out of service, and waits until trees have left it if asked to.
///
/// # Errors
/// The controller refuses it, or trees have not left in time.
pub async fn drain(client: &Client, args: &DrainArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let target = match args.kind {
        Drainable::Link if args.target.contains("--") => args.target.as_str(),
        Drainable::Link => link_name(&args.target).map(|_| args.target.as_str())?,
        Drainable::Node => segment("node", &args.target)?,
    };
    let default = default_name(target);
    let name = segment("drain", args.name.as_deref().unwrap_or(&default))?;
    let field = match args.kind {
        Drainable::Link => "link",
        Drainable::Node => "node",
    };
    let mut spec = json!({"reason": args.reason});
    spec[field] = json!(target);
    if args.accept_loss {
        spec["acceptLoss"] = json!(true);
    }
    if let Some(until) = end(client, args.lasts, args.until.as_ref()).await? {
        spec["until"] = json!(until);
    }
    let body = json!({"apiVersion": API_VERSION, "kind": "Drain", "metadata": {"name": name}, "spec": spec});
    let doing = format!("draining {field} {target}");
    let path = "/api/v1/drains";
    if args.dry_run {
        let answer = client.dry_run(&doing, Method::POST, path, Some(&body)).await?;
        return preview::write(&format!("drain/{name}"), &answer, out);
    }
    client.change(&doing, Method::POST, path, Some(&body)).await?;
    writeln!(out, "drain/{name} created; `canopyctl undrain {name}` puts {field} {target} back into service")?;
    if let Some(until) = body["spec"]["until"].as_str() {
        writeln!(out, "it ends by itself at {}", text(until))?;
    }
    match args.wait {
        Some(timeout) => wait(client, name, timeout, out).await,
        None => Ok(()),
    }
}

/// When it is to end, as the API has it: after a time from now, or at a time.
pub(super) async fn end(
    client: &Client,
    lasts: Option<Duration>,
    until: Option<&String>,
) -> Result<Option<String>, Failure> {
    let Some(lasts) = lasts else { return Ok(until.cloned()) };
    // By the clock that ends it: that of this machine may be another one.
    let status: DomainStatus = client.get("reading the controller's clock", "/api/v1/status").await?;
    let until = UnixTime::from_nanos(status.time_unix_ns) + lasts;
    // Without the fraction: people read it.
    let seconds = until.nanos().div_ceil(1_000_000_000);
    Ok(Some(rfc3339::format(UnixTime::from_nanos(seconds.saturating_mul(1_000_000_000)))))
}

async fn wait(client: &Client, name: &str, timeout: Duration, out: &mut dyn Write) -> Result<(), Failure> {
    let deadline = Instant::now() + timeout;
    loop {
        let drain: DrainResource =
            client.get(&format!("reading drain {name}"), &format!("/api/v1/drains/{name}")).await?;
        if drain.status.groups == 0 {
            let links = drain.status.links.len();
            return Ok(writeln!(out, "no group uses its {links} links any more")?);
        }
        if Instant::now() + POLL > deadline {
            let message = format!(
                "{} groups still use what drain {name} takes out of service: they have no other way, or a node is late \
                 (canopyctl status); it stays in force",
                drain.status.groups
            );
            return Err(Failure::new(Exit::Timeout, message));
        }
        sleep(POLL).await;
    }
}

/// `undrain`: deletes a drain by its name, or the only one of a link or node.
///
/// # Errors
/// There is none, or several name the target.
pub async fn undrain(client: &Client, args: &UndrainArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let all: List<DrainResource> = client.get("listing drains", "/api/v1/drains").await?;
    let names = |d: &&DrainResource| {
        let is = |field: &Option<String>| field.as_deref() == Some(args.name.as_str());
        let ends = d.spec.link.iter().flat_map(|link| link.split("--"));
        is(&d.spec.link) || is(&d.spec.node) || ends.into_iter().any(|end| end == args.name)
    };
    let named = all.items.iter().filter(|d| d.metadata.name == args.name).collect::<Vec<_>>();
    let found = if named.is_empty() { all.items.iter().filter(names).collect() } else { named };
    match found[..] {
        [drain] => {
            let name = segment("drain", &drain.metadata.name)?;
            client
                .change(&format!("deleting drain {name}"), Method::DELETE, &format!("/api/v1/drains/{name}"), None)
                .await?;
            writeln!(out, "drain/{name} deleted")?;
            let others = all.items.iter().filter(|d| d.metadata.name != name);
            let links = &drain.status.links;
            for other in others.filter(|other| other.status.links.iter().any(|link| links.contains(link))) {
                writeln!(out, "still drained by drain/{}: {}", text(&other.metadata.name), text(&other.spec.reason))?;
            }
            Ok(())
        }
        [] => Err(Failure::new(
            Exit::NotFound,
            format!(
                "no drain has this name or target: {}; `canopyctl get drains` lists them, and the topology may drain a link too",
                args.name
            ),
        )),
        ref several => {
            let names: Vec<String> = several.iter().map(|d| text(&d.metadata.name)).collect();
            let message = format!("{} is drained by {}: name the drain", args.name, names.join(", "));
            Err(Failure::new(Exit::Conflict, message))
        }
    }
}

/// A name from a target: `n4/eth3` is `n4-eth3`.
pub(super) fn default_name(target: &str) -> String {
    let first = target.split("--").next().unwrap_or(target);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    first.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_is_named_after_its_target() {
        assert_eq!(
            (default_name("n4/eth3"), default_name("n4/Eth1.3--n2/eth1"), default_name("n4")),
            ("n4-eth3".into(), "n4-eth1-3".into(), "n4".into())
        );
    }
}
