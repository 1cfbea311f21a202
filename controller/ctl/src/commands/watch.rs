// SPDX-License-Identifier: Apache-2.0
//! `get KIND --watch`: the present state, then a row per change, until it is interrupted.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::event::EventItem;
use canopy_controller_api::health::ProblemItem;
use canopy_controller_api::query::WatchQuery;
use canopy_controller_api::{DrainResource, GroupResource, NodeResource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::rows::{Column, Row};
use super::with_query;
use crate::cli::{GetArgs, Output, Resource};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{clean, text};
use crate::stream::{Event, Stream};

/// Pause before a lost stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// See the module. `notes` gets what is not a row.
///
/// # Errors
/// The controller cannot be reached at the beginning, or its answers are of another API. What is lost later is opened again.
pub(crate) async fn run(
    client: &Client,
    args: &GetArgs,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<(), Failure> {
    let usage = |why: &str| Err(Failure::new(Exit::Usage, why));
    if args.selector.is_some() || args.phase.is_some() || args.field_selector.is_some() {
        return usage("--watch shows everything: leave --selector, --field-selector and --phase out");
    }
    if args.group.is_some() && args.resource != Resource::Events {
        return usage("with --watch, --group is for events");
    }
    if args.node.is_some() && args.resource != Resource::Events {
        return usage("--node is for events");
    }
    if args.within.is_some() {
        return usage("--watch shows what happens from now on: leave --within out");
    }
    if args.output == Output::Yaml {
        return usage("--watch writes tables, names, or with -o json one object per line");
    }
    match args.resource {
        Resource::Groups => follow::<GroupResource>("/api/v1/groups", client, args, out, notes).await,
        Resource::Nodes => follow::<NodeResource>("/api/v1/nodes", client, args, out, notes).await,
        Resource::Problems => follow::<ProblemItem>("/api/v1/problems", client, args, out, notes).await,
        Resource::Drains => follow::<DrainResource>("/api/v1/drains", client, args, out, notes).await,
        Resource::Events if args.name.is_some() => usage("events have no names"),
        Resource::Events => follow::<EventItem>("/api/v1/events", client, args, out, notes).await,
        Resource::Topology
        | Resource::Silences
        | Resource::Tenants
        | Resource::Controllers
        | Resource::Links
        | Resource::Hosts
        | Resource::Flows
        | Resource::Paths
        | Resource::Members
        | Resource::Incidents => usage("--watch is for groups, nodes, drains, problems and events"),
    }
}

/// Why a stream ended.
enum End {
    /// It is continued after the last token.
    Bye,
    /// The controller does not have the changes after the token any more.
    Gone,
    Lost(Failure),
}

async fn follow<T: Row + DeserializeOwned>(
    path: &str,
    client: &Client,
    args: &GetArgs,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<(), Failure> {
    let doing = format!("watching {path}");
    let mut printer = Printer::<T>::new(args);
    let (mut token, mut is_lost, mut has_begun) = (None, false, false);
    loop {
        let target = with_query(path, &WatchQuery::new(token.clone()))?;
        let end = match client.open(&doing, &target).await {
            Ok(mut stream) => {
                has_begun = true;
                read(&mut stream, &mut token, &mut is_lost, &mut printer, out, notes).await?
            }
            Err(failure) if !has_begun => return Err(failure),
            Err(failure) => End::Lost(failure),
        };
        printer.forget_unprinted();
        match end {
            End::Bye => {}
            End::Gone => {
                token = None;
                writeln!(notes, "the controller has restarted, or does not keep so many changes: listing again")?;
            }
            End::Lost(failure) => {
                if !is_lost {
                    writeln!(notes, "{failure}; trying again")?;
                }
                is_lost = true;
                sleep(PAUSE).await;
            }
        }
    }
}

async fn read<T: Row + DeserializeOwned>(
    stream: &mut Stream,
    token: &mut Option<String>,
    is_lost: &mut bool,
    printer: &mut Printer<'_, T>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<End, Failure> {
    let mut is_synced = token.is_some();
    loop {
        let event = match stream.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(End::Lost(Failure::new(Exit::Error, "the controller ended the connection"))),
            Err(failure) => return Ok(End::Lost(failure)),
        };
        if std::mem::take(is_lost) {
            writeln!(notes, "connected again")?;
        }
        match event.name.as_str() {
            "added" | "modified" | "deleted" => printer.add(&event)?,
            "synced" => is_synced = true,
            "gone" => return Ok(End::Gone),
            // Without a token, the present state was not complete.
            "bye" => return Ok(End::Bye),
            // A heartbeat, or an event of a later version.
            _ => {}
        }
        if is_synced {
            printer.print(out)?;
        }
        if event.id.is_some() {
            *token = event.id;
        }
    }
}

/// Writes rows under one header, in columns that only become wider.
struct Printer<'a, T> {
    args: &'a GetArgs,
    columns: Vec<Column<T>>,
    widths: Vec<usize>,
    unprinted: Vec<Vec<String>>,
    has_header: bool,
}

impl<'a, T: Row + DeserializeOwned> Printer<'a, T> {
    fn new(args: &'a GetArgs) -> Self {
        let wide = args.output == Output::Wide;
        let columns: Vec<Column<T>> = T::columns().into_iter().filter(|c| wide || !c.2).collect();
        let widths = vec![0; columns.len() + 1];
        Self { args, columns, widths, unprinted: Vec::new(), has_header: false }
    }

    fn add(&mut self, event: &Event) -> Result<(), Failure> {
        let differs = |e| Failure::new(Exit::Error, format!("the answer differs from the API of this canopyctl: {e}"));
        let object: Value = serde_json::from_str(&event.data).map_err(differs)?;
        let name = object["metadata"]["name"].as_str().or(object["id"].as_str()).unwrap_or_default().to_owned();
        let other_name = self.args.name.as_ref().is_some_and(|wanted| *wanted != name);
        let other_group = self.args.group.as_deref().is_some_and(|wanted| object["group"].as_str() != Some(wanted));
        let other_node = self.args.node.as_deref().is_some_and(|wanted| object["node"].as_str() != Some(wanted));
        if other_name || other_group || other_node {
            return Ok(());
        }
        let is_deleted = event.name == "deleted";
        let cells = match self.args.output {
            Output::Json => vec![json!({"type": event.name, "object": object}).to_string()],
            _ if is_deleted => vec![event.name.clone(), text(&name)],
            output => {
                let row: T = serde_json::from_value(object).map_err(differs)?;
                match output {
                    Output::Name => vec![event.name.clone(), row.name()],
                    _ => {
                        let cells = self.columns.iter().map(|(_, cell, _)| clean(&cell(&row)));
                        std::iter::once(event.name.clone()).chain(cells).collect()
                    }
                }
            }
        };
        self.unprinted.push(cells);
        Ok(())
    }

    fn forget_unprinted(&mut self) {
        self.unprinted.clear();
    }

    fn print(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        let is_table = matches!(self.args.output, Output::Table | Output::Wide);
        if is_table && !std::mem::replace(&mut self.has_header, true) {
            let header = std::iter::once("CHANGE").chain(self.columns.iter().map(|(title, ..)| *title));
            self.unprinted.insert(0, header.map(str::to_owned).collect());
        }
        for row in self.unprinted.iter().filter(|_| is_table) {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in self.unprinted.drain(..) {
            let padded = row.iter().zip(self.widths.iter().chain(std::iter::repeat(&0)));
            let line: Vec<String> = padded.map(|(cell, width)| format!("{cell:width$}")).collect();
            writeln!(out, "{}", line.join("  ").trim_end())?;
        }
        Ok(out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::problems::example;
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> GetArgs {
        match Cli::try_parse_from(["canopyctl", "get"].into_iter().chain(line.split(' '))).unwrap().command {
            Command::Get(args) => args,
            _ => panic!("not get"),
        }
    }

    fn printed(line: &str, events: &[(&str, &Value)]) -> String {
        let args = args(line);
        let mut printer = Printer::<ProblemItem>::new(&args);
        let mut out = Vec::new();
        for (name, data) in events {
            printer.add(&Event { name: (*name).into(), id: None, data: data.to_string() }).unwrap();
            printer.print(&mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    /// Catches rows that are not under their titles, and a deletion that is printed as a change.
    #[test]
    fn a_row_per_change_under_one_header() {
        let problem = serde_json::to_value(example()).unwrap();
        let deleted = json!({"id": "00c0ffee00c0ffee"});
        let text = printed("problems -w", &[("added", &problem), ("modified", &problem), ("deleted", &deleted)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let column = lines[0].find("SEVERITY").unwrap();
        assert!(lines[0].starts_with("CHANGE"), "{text}");
        assert!(lines[1].starts_with("added ") && lines[1][column..].starts_with("critical"), "{text}");
        assert!(lines[2].starts_with("modified "), "{text}");
        assert_eq!(lines[3], "deleted   00c0ffee00c0ffee");
        assert!(printed("problems x -w", &[("added", &problem), ("deleted", &deleted)]).lines().count() == 1);
        assert_eq!(printed("problems -w -o name", &[("added", &problem)]), "added  problem/00c0ffee00c0ffee\n");
        let json: Value = serde_json::from_str(&printed("problems -w -o json", &[("deleted", &deleted)])).unwrap();
        assert_eq!(json, json!({"type": "deleted", "object": deleted}));
    }

    /// Catches a combination that would print something else than what was asked for.
    #[tokio::test]
    async fn what_cannot_be_watched_is_refused() {
        let client = Client::new("unix:/nonexistent/canopy.sock", None).unwrap();
        for bad in [
            "links -w",
            "members -g g -w",
            "groups -l a=b -w",
            "nodes -g g -w",
            "nodes --node n1 -w",
            "events --within 1h -w",
            "groups -o yaml -w",
            "events e -w",
        ] {
            let failure = run(&client, &args(bad), &mut Vec::new(), &mut Vec::new()).await.unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{bad}: {failure}");
        }
        let failure = run(&client, &args("groups -w"), &mut Vec::new(), &mut Vec::new()).await.unwrap_err();
        assert!(failure.message.contains("cannot reach the controller"), "{failure}");
    }
}
