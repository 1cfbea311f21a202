// SPDX-License-Identifier: Apache-2.0
//! `status`: the domain on one screen.

use std::io::Write;

use canopy_controller_api::health::{DomainStatus, RestartingAgent};
use serde_json::Value;

use super::{commit, problems};
use crate::cli::{Report, StatusArgs};
use crate::client::{Client, parse};
use crate::failure::Failure;
use crate::output::{json, text};

/// Problems that a terminal shows.
const SHOWN: usize = 5;

/// See the module.
///
/// # Errors
/// The controller cannot be reached; the message states what still works.
pub async fn run(client: &Client, args: &StatusArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let doing = "reading the status";
    let answer: Value = client.get(doing, "/api/v1/status").await.map_err(|failure| {
        let message = format!(
            "{failure}\nThe controller is the problem: nodes continue to forward what they have, but nothing can be changed or observed"
        );
        Failure { message, ..failure }
    })?;
    if args.output == Report::Json {
        return json(out, &answer);
    }
    let status: DomainStatus = parse(doing, answer.to_string().as_bytes())?;
    write(&status, args.output == Report::Markdown, out)
}

fn write(status: &DomainStatus, is_markdown: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let DomainStatus { nodes, connected_nodes, synced_nodes, hosts, links, .. } = status;
    writeln!(
        out,
        "Controller {}, term {}: {connected_nodes} of {nodes} agents connected, {synced_nodes} of {nodes} nodes in sync, {hosts} hosts, {links} links",
        text(&status.version),
        status.term
    )?;
    if !status.restarting.is_empty() {
        writeln!(out, "Agents that restart: {}. Their nodes continue to forward", restarting(status))?;
    }
    let groups: Vec<String> = status.groups.iter().map(|(phase, n)| format!("{n} {}", text(phase))).collect();
    if let Some(commit) = &status.pending_commit {
        writeln!(out, "{}", commit::line(commit, status.time_unix_ns))?;
    }
    writeln!(out, "Groups: {}\n", if groups.is_empty() { "none".to_owned() } else { groups.join(", ") })?;
    if status.problems.is_empty() {
        let checked = "agents, nodes, links, ports, routes, programs, groups, receivers, the store";
        return Ok(writeln!(out, "No problem is open. Checked: {checked}.")?);
    }
    for problem in status.problems.iter().take(SHOWN) {
        if is_markdown {
            problems::write_markdown(out, problem, status.time_unix_ns)?;
        } else {
            problems::write(out, problem, status.time_unix_ns)?;
        }
    }
    let total = status.roots.values().sum::<u64>() + status.silenced;
    let shown = status.problems.len().min(SHOWN) as u64;
    if total > shown {
        writeln!(out, "{} more causes: canopyctl get problems", total - shown)?;
    }
    Ok(())
}

/// Names of the nodes whose agents restart, each with why its agent is gone and when it counts as away.
fn restarting(status: &DomainStatus) -> String {
    let one = |agent: &RestartingAgent| {
        let why = if agent.announced { "stopped" } else { "killed or cut off" };
        format!("{} ({why}, {} s left to be back)", text(&agent.node), agent.back_within_ms.div_ceil(1000))
    };
    let mut names: Vec<String> = status.restarting.iter().take(SHOWN).map(one).collect();
    let more = (status.restarting_agents as usize).saturating_sub(names.len());
    if more > 0 {
        names.push(format!("{more} more (canopyctl get nodes)"));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use canopy_controller_api::{ApiVersion, Kind};

    use super::*;

    fn status(problems: usize) -> DomainStatus {
        DomainStatus {
            api_version: ApiVersion,
            kind: Kind::DomainStatus,
            version: "0.1.0".into(),
            term: 7,
            time_unix_ns: 13_500_000_000,
            nodes: 6,
            connected_nodes: 6,
            synced_nodes: 5,
            host_links: 0,
            restarting_agents: 0,
            restarting: Vec::new(),
            hosts: 6,
            links: 12,
            groups: BTreeMap::from([("Ready".into(), 3), ("Stalled".into(), 1)]),
            roots: BTreeMap::from([("critical".into(), problems as u64)]),
            problems: vec![problems::example(); problems],
            left_out: 0,
            silenced: 0,
            pending_commit: None,
        }
    }

    fn shown(problems: usize) -> String {
        let mut out = Vec::new();
        write(&status(problems), false, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_wrong_comes_with_its_cause_and_nothing_wrong_lists_what_was_checked() {
        let text = shown(1);
        assert!(text.starts_with(
            "Controller 0.1.0, term 7: 6 of 6 agents connected, 5 of 6 nodes in sync, 6 hosts, 12 links\n"
        ));
        assert!(text.contains("Groups: 3 Ready, 1 Stalled\n\nCRITICAL  port n5/eth3"), "{text}");
        assert!(shown(0).contains("No problem is open. Checked: agents"));
        let many = shown(8);
        assert!(many.ends_with("3 more causes: canopyctl get problems\n"), "{many}");
        assert!(many.lines().count() < 45, "more than a screen:\n{many}");
    }

    /// Catches an agent that is gone and named nowhere until its problem opens.
    #[test]
    fn agents_that_restart_are_named_before_there_is_a_problem() {
        let of = |n: u32| {
            let agent = |n| RestartingAgent { node: format!("n{n}"), announced: n == 1, back_within_ms: 6_100 };
            let mut out = Vec::new();
            let status =
                DomainStatus { restarting_agents: n, restarting: (1..=n.min(50)).map(agent).collect(), ..status(0) };
            write(&status, false, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!of(0).contains("restart"));
        let two = "\nAgents that restart: n1 (stopped, 7 s left to be back), n2 (killed or cut off, 7 s left to be back). Their nodes continue to forward\nGroups: ";
        assert!(of(2).contains(two), "{}", of(2));
        assert!(of(60).contains("55 more (canopyctl get nodes). Their nodes"), "{}", of(60));
    }
}
