// SPDX-License-Identifier: Apache-2.0
//! `why KIND NAME`: the problems of an object, from the symptom down to its causes.

use std::collections::BTreeMap;
use std::io::Write;

use canopy_controller_api::health::{DeliveryState, DomainStatus, ProblemItem, SubjectKind};
use canopy_controller_api::host::{HostPort, PortState};
use canopy_controller_api::query::{LimitQuery, ProblemQuery};
use canopy_controller_api::waited::WaitedFor;
use canopy_controller_api::{GroupResource, HostResource, LinkResource, List, NodeResource};

use super::{link_path, problems, segment, top, with_query};
use crate::cli::{Questionable, Report, WhyArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{json, text};

/// Problems per request: all that concern one object, as a rule.
const MAX_PROBLEMS: usize = 1000;

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or there is no such object.
pub async fn run(client: &Client, args: &WhyArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (kind, name, state) = subject(client, args).await?;
    let query =
        ProblemQuery { limit: Some(MAX_PROBLEMS), kind: Some(kind), name: Some(name), ..ProblemQuery::default() };
    let path = with_query("/api/v1/problems", &query)?;
    let doing = format!("reading the problems of {}", args.name);
    if args.output == Report::Json {
        return json(out, &client.get(&doing, &path).await?);
    }
    let found: List<ProblemItem> = client.get(&doing, &path).await?;
    // Ages are by the controller's clock.
    let status: DomainStatus = client.get(&doing, "/api/v1/status").await?;
    write(&state, &found.items, args.output == Report::Markdown, status.time_unix_ns, out)
}

/// What is asked about, as the API names it, and its state in one line.
async fn subject(client: &Client, args: &WhyArgs) -> Result<(SubjectKind, String, String), Failure> {
    let name = &args.name;
    match args.kind {
        Questionable::Group => {
            let path = format!("/api/v1/groups/{}", segment("group", name)?);
            let group: GroupResource = client.get(&format!("reading group {name}"), &path).await?;
            let mut state = group_state(&group);
            let of_one = with_query(&format!("{path}/waited-for"), &LimitQuery { limit: Some(1) })?;
            // A controller of an earlier version has none.
            let shares = client.get::<WaitedFor>(&format!("reading the shares of group {name}"), &of_one).await;
            if let Some(sentence) = shares.ok().as_ref().and_then(top::sentence) {
                state = format!("{state}\n{sentence}");
            }
            Ok((SubjectKind::Group, name.clone(), state))
        }
        Questionable::Node => {
            let path = format!("/api/v1/nodes/{}", segment("node", name)?);
            let node: NodeResource = client.get(&format!("reading node {name}"), &path).await?;
            let failing = node.status.conditions.iter().filter(|c| text(c.status) != "True");
            let failing: Vec<String> = failing.map(|c| text(&c.message)).collect();
            let state = if failing.is_empty() {
                " is connected, in sync and healthy".to_owned()
            } else {
                format!(": {}", failing.join("; "))
            };
            Ok((SubjectKind::Node, name.clone(), format!("node {name}{state}")))
        }
        Questionable::Link => {
            let label = if name.contains("--") {
                let found = of_label(client, name).await?;
                found.ok_or_else(|| {
                    Failure::new(Exit::NotFound, format!("there is no link {name}: `canopyctl get links` lists them"))
                })?
            } else {
                let link: LinkResource = client.get(&format!("reading link {name}"), &link_path(name)?).await?;
                link.spec.link
            };
            Ok((SubjectKind::Link, label.clone(), format!("link {label}")))
        }
        Questionable::Host => {
            let path = format!("/api/v1/hosts/{}", segment("host", name)?);
            let host: HostResource = client.get(&format!("reading host {name}"), &path).await?;
            Ok((SubjectKind::Host, name.clone(), format!("host {name}{}", ports(&host))))
        }
    }
}

/// What its ports are in, unless all are up.
fn ports(host: &HostResource) -> String {
    let not_up = host.status.links.iter().filter(|link| link.state != PortState::Up);
    let state = |link: &HostPort| format!("port {}/{} is {}", text(&link.node), text(&link.port), text(link.state));
    match not_up.map(state).collect::<Vec<_>>().join(", ") {
        states if states.is_empty() => states,
        states => format!(": {states}"),
    }
}

/// The link called `name`, `a--b`, if there is one: read by one of its ends, because out of a host none is there.
async fn of_label(client: &Client, name: &str) -> Result<Option<String>, Failure> {
    // Names of devices and ports may have the dashes, too.
    for (at, _) in name.match_indices("--") {
        for end in [&name[..at], &name[at + 2..]] {
            let Ok(path) = link_path(end) else { continue };
            match client.get::<LinkResource>(&format!("reading link {end}"), &path).await {
                Ok(link) if link.spec.link == name => return Ok(Some(link.spec.link)),
                Err(failure) if failure.exit != Exit::NotFound => return Err(failure),
                _ => {}
            }
        }
    }
    Ok(None)
}

fn group_state(group: &GroupResource) -> String {
    let (name, status) = (text(&group.metadata.name), &group.status);
    let phase = text(status.phase);
    if !status.reason.is_empty() {
        return format!("group {name} is {phase}: {}", text(&status.reason));
    }
    let since =
        |ns: u64| humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + std::time::Duration::from_nanos(ns));
    match status.delivery.as_ref().map(|d| (d.state, d)) {
        Some((DeliveryState::Idle, d)) => {
            format!("group {name} is {phase}: all data is acknowledged, idle since {}", since(d.since_unix_ns))
        }
        Some((DeliveryState::Flowing, d)) => format!(
            "group {name} is {phase}: data is being acknowledged, {} packets are outstanding",
            d.outstanding_packets
        ),
        Some((DeliveryState::NoData, _)) | None => format!("group {name} is {phase}: the source has sent nothing yet"),
        Some((DeliveryState::Stalled, _)) => format!("group {name} is {phase}"),
    }
}

fn write(state: &str, found: &[ProblemItem], is_markdown: bool, now: u64, out: &mut dyn Write) -> Result<(), Failure> {
    let heading = if is_markdown { "**" } else { "" };
    writeln!(out, "{heading}{state}{heading}\n")?;
    if found.is_empty() {
        return Ok(writeln!(out, "No open problem concerns it.")?);
    }
    let by_id: BTreeMap<&str, &ProblemItem> = found.iter().map(|p| (p.id.as_str(), p)).collect();
    for root in found.iter().filter(|p| p.root) {
        if is_markdown {
            problems::write_markdown(out, root, now)?;
        } else {
            problems::write(out, root, now)?;
        }
    }
    let explained: Vec<&ProblemItem> = found.iter().filter(|p| !p.root).collect();
    if explained.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}Explained by that:", if is_markdown { "\n" } else { "" })?;
    for p in explained {
        let cause = |id: &str| by_id.get(id).map(|c| problems::object(&c.object));
        let causes: Vec<String> =
            p.causes.iter().map(|c| cause(&c.id).unwrap_or_else(|| problems::object(&c.object))).collect();
        let (what, causes) = (format!("{} {}", problems::object(&p.object), text(&p.title)), causes.join(", "));
        writeln!(out, "- {what} ({}), because of {causes}", text(&p.code))?;
    }
    Ok(())
}
