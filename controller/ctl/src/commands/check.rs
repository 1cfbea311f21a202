// SPDX-License-Identifier: Apache-2.0
//! `check`: whether the domain works as it should, as far as the controller can see. A check that fails has a hint and where to read on.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use canopy_controller_api::health::DomainStatus;
use canopy_controller_api::retirement::RetireStep;
use canopy_controller_api::version::Version;
use canopy_controller_api::{LinkResource, NodeResource};
use hyper::Method;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::pages;
use super::rows::is_restarting;
use crate::cli::{CheckArgs, CheckOutput};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{clean, json};

const POLL: Duration = Duration::from_millis(500);
/// Names that one line has, at most.
const MAX_NAMED: usize = 5;
/// Width of the columns of results and, at least, of names.
const RESULT: usize = 19;
const MIN_NAME: usize = 12;

/// See the module.
///
/// # Errors
/// A check fails or cannot be made; with `--wait`, also not within that time.
pub async fn run(client: &Client, args: &CheckArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let deadline = args.wait.map(|wait| Instant::now() + wait);
    let checks = loop {
        let checks = Domain::read(client).await.checks();
        let may_wait = deadline.is_some_and(|deadline| Instant::now() + POLL <= deadline);
        if checks.iter().all(|check| check.result == Outcome::Ok) || !may_wait {
            break checks;
        }
        sleep(POLL).await;
    };
    let exit = if args.wait.is_some() { Exit::Timeout } else { Exit::Error };
    report(&checks, args.output, exit, out)
}

/// Prints the checks; a failure with `exit` unless all are ok.
pub(super) fn report(checks: &[Check], format: CheckOutput, exit: Exit, out: &mut dyn Write) -> Result<(), Failure> {
    match format {
        CheckOutput::Text => write(checks, out)?,
        CheckOutput::Json => json(out, &json!({"checks": checks}))?,
    }
    let count = |result| checks.iter().filter(|check| check.result == result).count();
    let (failed, unknown) = (count(Outcome::Fails), count(Outcome::CannotBeChecked));
    if failed + unknown == 0 {
        return Ok(());
    }
    Err(Failure::new(exit, format!("of {} checks {failed} fail and {unknown} cannot be made", checks.len())))
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    Ok,
    Fails,
    CannotBeChecked,
}

/// One check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) result: Outcome,
    /// What was found.
    pub(super) detail: String,
    /// What to do; empty unless it fails.
    pub(super) hint: Cow<'static, str>,
    /// Where to read on.
    pub(super) docs: &'static str,
}

/// A check with what to do if it fails.
pub(super) struct About {
    name: &'static str,
    hint: &'static str,
    docs: &'static str,
}

impl About {
    pub(super) const fn new(name: &'static str, hint: &'static str, docs: &'static str) -> Self {
        Self { name, hint, docs }
    }

    pub(super) fn found(&self, result: Outcome, detail: impl Into<String>) -> Check {
        let hint = if result == Outcome::Fails { self.hint } else { "" };
        Check { name: self.name, result, detail: detail.into(), hint: hint.into(), docs: self.docs }
    }

    /// `good` if nothing is wrong; else what `is_wrong` with which of them.
    fn none_of(&self, wrong: &[String], good: String, is_wrong: &str) -> Check {
        if wrong.is_empty() {
            return self.found(Outcome::Ok, good);
        }
        let named: Vec<&str> = wrong.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = match wrong.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.found(Outcome::Fails, format!("{is_wrong}: {}{more}", named.join(", ")))
    }

    pub(super) fn unknown(&self, why: &str) -> Check {
        self.found(Outcome::CannotBeChecked, why)
    }
}

const CONTROLLER: About = About::new(
    "controller",
    "start canopy-controller (`systemctl status canopy-controller`), or name it with --server or CANOPY_SERVER; nodes continue to forward meanwhile",
    "docs/operations.md#what-is-wrong",
);
const STORE: About = About::new(
    "store",
    "free space on the disk of store.path, or run `canopy-controller store acknowledge` once lost changes were made again",
    "docs/operations.md#restart-and-backup",
);
const TOPOLOGY: About = About::new(
    "topology",
    "declare nodes, hosts and links: `canopyctl apply -f topology.yaml`",
    "docs/resources.md#topology",
);
const AGENTS: About = About::new(
    "agents",
    "start canopy-agent on these nodes (`systemctl status canopy-agent`), or mend their path to the controller",
    "docs/problems.md#agentdisconnected",
);
const SYNC: About = About::new(
    "sync",
    "`canopyctl describe node NAME` has what differs; see the agent's log",
    "docs/problems.md#nodebehind",
);
const VERSIONS: About =
    About::new("versions", "upgrade these agents to the controller's version, node by node", "docs/upgrades.md");
const LINKS: About = About::new(
    "links",
    "`canopyctl describe link NODE/PORT` and `canopyctl why link NODE/PORT` have what is known; is the far end's agent running?",
    "docs/operations.md#links",
);
const PROBLEMS: About =
    About::new("problems", "`canopyctl status` has each with its cause and what to do", "docs/problems.md");

/// What the controller answers; each part may be missing.
struct Domain {
    version: Result<Version, String>,
    /// The lines of `/readyz`.
    ready: Result<String, String>,
    status: Result<DomainStatus, String>,
    nodes: Result<Vec<NodeResource>, String>,
    links: Result<Vec<LinkResource>, String>,
}

impl Domain {
    async fn read(client: &Client) -> Self {
        let text = |failure: Failure| clean(&failure.message);
        let doing = "asking the controller";
        let version = client.get(doing, "/version").await.map_err(text);
        if let Err(why) = &version {
            let (why, version) = (|| "the controller does not answer".to_owned(), Err(why.clone()));
            return Self { ready: Err(why()), status: Err(why()), nodes: Err(why()), links: Err(why()), version };
        }
        let ready = client.send(Method::GET, "/readyz?verbose", None).await.map_err(text);
        let nodes = pages::nodes(client).await.map_err(text);
        let links = pages::links(client).await.map_err(text);
        Self {
            version,
            ready: ready.map(|answer| String::from_utf8_lossy(&answer.body).into_owned()),
            status: client.get(doing, "/api/v1/status").await.map_err(text),
            nodes,
            links,
        }
    }

    fn checks(&self) -> Vec<Check> {
        let mut checks = vec![self.controller(), self.store()];
        match &self.nodes {
            Ok(nodes) if nodes.is_empty() => checks.push(TOPOLOGY.found(Outcome::Fails, "no node is declared")),
            Ok(nodes) => {
                // Those that have left have no agents, and are to be taken out of the topology.
                let nodes: Vec<NodeResource> = nodes.iter().filter(|node| !has_left(node)).cloned().collect();
                let nodes = &nodes;
                checks.push(TOPOLOGY.found(Outcome::Ok, counted(nodes.len(), "node")));
                checks.extend([agents(nodes), sync(nodes), self.versions(nodes), self.links(nodes)]);
            }
            Err(why) => checks.extend([TOPOLOGY, AGENTS, SYNC, VERSIONS, LINKS].map(|about| about.unknown(why))),
        }
        checks.push(self.problems());
        checks
    }

    fn controller(&self) -> Check {
        match &self.version {
            Ok(Version { version, term, .. }) => {
                CONTROLLER.found(Outcome::Ok, format!("canopy-controller {} answers, term {term}", clean(version)))
            }
            Err(why) => CONTROLLER.found(Outcome::Fails, why),
        }
    }

    fn store(&self) -> Check {
        let lines = match &self.ready {
            Ok(lines) => lines,
            Err(why) => return STORE.unknown(why),
        };
        let wrong: Vec<String> =
            lines.lines().filter(|l| l.starts_with("[-]") || l.starts_with("[!]")).map(clean).collect();
        let is_known = lines.lines().any(|line| line.starts_with("[+] store: "));
        match (wrong.is_empty(), is_known) {
            (true, true) => STORE.found(Outcome::Ok, "it takes changes"),
            (true, false) => STORE.unknown("the controller does not report on its store"),
            (false, _) => STORE.found(Outcome::Fails, wrong.join("; ")),
        }
    }

    fn versions(&self, nodes: &[NodeResource]) -> Check {
        let own = match &self.version {
            Ok(version) => &version.version,
            Err(why) => return VERSIONS.unknown(why),
        };
        let reported = |n: &&NodeResource| !n.status.agent_version.is_empty();
        if !nodes.iter().any(|n| reported(&n)) {
            return VERSIONS.unknown("no agent has reported its version");
        }
        let differs = |n: &&NodeResource| reported(n) && n.status.agent_version != *own;
        let text = |n: &NodeResource| format!("{} ({})", clean(&n.metadata.name), clean(&n.status.agent_version));
        let wrong: Vec<String> = nodes.iter().filter(differs).map(text).collect();
        VERSIONS.none_of(&wrong, format!("every agent is {}", clean(own)), &format!("not {}", clean(own)))
    }

    /// A direction between two nodes is probed if its agent has sent Echo Requests whose fate is known.
    fn links(&self, nodes: &[NodeResource]) -> Check {
        let links = match &self.links {
            Ok(links) => links,
            Err(why) => return LINKS.unknown(why),
        };
        let connected: BTreeMap<&str, bool> =
            nodes.iter().map(|n| (n.metadata.name.as_str(), n.status.connected)).collect();
        let device = |end: &str| end.split('/').next().unwrap_or_default().to_owned();
        let is_there = |end: &str| connected.contains_key(device(end).as_str());
        let between: Vec<&LinkResource> =
            links.iter().filter(|l| is_there(&l.spec.to) && is_there(&l.metadata.name)).collect();
        let is_probed = |l: &&LinkResource| l.status.loss.as_ref().is_some_and(|loss| loss.requests > 0);
        let has_agent = |l: &&LinkResource| connected.get(device(&l.metadata.name).as_str()).copied().unwrap_or(false);
        let wrong: Vec<String> =
            between.iter().filter(|l| has_agent(l) && !is_probed(l)).map(|l| clean(&l.metadata.name)).collect();
        let away: BTreeSet<String> =
            between.iter().filter(|l| !has_agent(l)).map(|l| clean(&device(&l.metadata.name))).collect();
        if wrong.is_empty() && !away.is_empty() {
            let names: Vec<String> = away.into_iter().take(MAX_NAMED).collect();
            return LINKS
                .unknown(&format!("the agents that probe some of them are not connected: {}", names.join(", ")));
        }
        let good = format!("{} between nodes probed", counted(between.len(), "direction"));
        LINKS.none_of(&wrong, good, "not probed")
    }

    fn problems(&self) -> Check {
        let status = match &self.status {
            Ok(status) => status,
            Err(why) => return PROBLEMS.unknown(why),
        };
        let (known, open): (Vec<_>, Vec<_>) = status.problems.iter().partition(|p| p.silence.is_some());
        let open: Vec<String> =
            open.iter().map(|p| format!("{} {}", clean(&p.code.to_string()), clean(&p.object.name))).collect();
        let good = match known.len() {
            0 => "none is open".to_owned(),
            n => format!("none is open but {n} of which operators know: `canopyctl get silences`"),
        };
        PROBLEMS.none_of(&open, good, "open")
    }
}

fn has_left(node: &NodeResource) -> bool {
    node.status.retirement.as_ref().is_some_and(|retirement| retirement.step == RetireStep::Retired)
}

fn agents(nodes: &[NodeResource]) -> Check {
    let gone = nodes.iter().filter(|n| !n.status.connected);
    let (back, wrong): (Vec<&NodeResource>, Vec<&NodeResource>) = gone.partition(|n| is_restarting(n));
    let names = |nodes: &[&NodeResource]| nodes.iter().map(|n| clean(&n.metadata.name)).collect::<Vec<_>>();
    match wrong.is_empty() && !back.is_empty() {
        true => AGENTS.unknown(&format!("restart at the moment: {}", names(&back).join(", "))),
        false => AGENTS.none_of(&names(&wrong), "all are connected".to_owned(), "not connected"),
    }
}

/// Of the nodes whose agents are connected: the others are counted already.
fn sync(nodes: &[NodeResource]) -> Check {
    let connected: Vec<&NodeResource> = nodes.iter().filter(|n| n.status.connected).collect();
    if connected.is_empty() {
        return SYNC.unknown("no agent is connected");
    }
    let is_behind = |n: &&&NodeResource| {
        let (spec, status) = (&n.spec, &n.status);
        (status.observed_term, status.observed_generation) != (Some(spec.term), Some(spec.generation))
            || !status.errors.is_empty()
    };
    let wrong: Vec<String> = connected.iter().filter(is_behind).map(|n| clean(&n.metadata.name)).collect();
    let good = format!("{} of {} run their desired state", connected.len(), counted(nodes.len(), "node"));
    SYNC.none_of(&wrong, good, "not as desired")
}

fn counted(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

fn write(checks: &[Check], out: &mut dyn Write) -> Result<(), Failure> {
    let longest = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let width = MIN_NAME.max(longest + 2);
    for check in checks {
        let result = match check.result {
            Outcome::Ok => "ok",
            Outcome::Fails => "fails",
            Outcome::CannotBeChecked => "cannot be checked",
        };
        writeln!(out, "{result:<RESULT$}{:<width$}{}", check.name, check.detail)?;
        if !check.hint.is_empty() {
            writeln!(out, "{:<1$}{2}; see {3}", "", RESULT + width, check.hint, check.docs)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use canopy_controller_api::silence::SilenceRef;

    use super::*;

    fn node(name: &str, status: Value) -> NodeResource {
        let mut all = json!({"connected": true, "observedTerm": 3, "observedGeneration": 7, "observedDigest": "", "contract": "1.2",
            "errors": [], "agentVersion": "0.1.0", "kernel": "6.12", "conditions": []});
        all.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
        let node = json!({"apiVersion": "canopy/v1", "kind": "Node",
            "metadata": {"name": name, "tenant": "default", "labels": {}, "generation": 7},
            "spec": {"id": 1, "nodeAddress": "fd00::1", "un": "5f00:0:1::/48", "endMt": "5f00:0:1:1::", "term": 3, "generation": 7,
                "ports": [], "routes": 2, "groups": 0}, "status": all});
        serde_json::from_value(node).unwrap()
    }

    fn link(from: &str, to: &str, loss: Value) -> LinkResource {
        let link = json!({"apiVersion": "canopy/v1", "kind": "Link",
            "metadata": {"name": from, "tenant": "default", "labels": {}, "generation": 1},
            "spec": {"link": format!("{from}--{to}"), "to": to, "drained": false, "rateBps": 0, "bufferBytes": null, "alpha": 1000,
                "kBaseBytes": 64_000, "vEcn": 500, "vGrowthBytesPerMs": null, "rttUs": null},
            "status": {"pushes": 0, "pushedAgoNs": null, "pushedRttNs": null, "reason": "", "thresholds": null, "congestion": null,
                "rtt": {"configuredNs": null, "measuredNs": null, "filteredNs": null, "estimateNs": null, "samples": 0, "lost": 0,
                    "refused": 0, "reportedAgoNs": null}, "loss": loss}});
        serde_json::from_value(link).unwrap()
    }

    fn probed(requests: u64) -> Value {
        json!({"requests": requests, "lost": 0, "queueDrops": 0, "dataPackets": 0, "dataLost": 0, "permille": null})
    }

    fn healthy() -> Domain {
        let status = json!({"apiVersion": "canopy/v1", "kind": "DomainStatus", "version": "0.1.0", "term": 3, "timeUnixNs": 1, "nodes": 2,
            "connectedNodes": 2, "syncedNodes": 2, "hosts": 1, "links": 2, "groups": {}, "roots": {}, "problems": [], "leftOut": 0});
        Domain {
            version: Ok(
                serde_json::from_value(json!({"version": "0.1.0", "apiVersion": "canopy/v1", "term": 3})).unwrap()
            ),
            ready: Ok("[+] commands: executed\n[+] store: revision 7\nready\n".into()),
            status: Ok(serde_json::from_value(status).unwrap()),
            nodes: Ok(vec![node("n1", json!({})), node("n2", json!({}))]),
            links: Ok(vec![
                link("n1/eth1", "n2/eth1", probed(9)),
                link("n2/eth1", "n1/eth1", probed(9)),
                link("n1/eth2", "s1/eth0", Value::Null),
            ]),
        }
    }

    /// `name result` of the checks that are not ok.
    fn wrong(domain: &Domain) -> Vec<String> {
        let checks = domain.checks();
        assert_eq!(checks.len(), 8);
        let of = |c: &Check| format!("{} {:?}: {}", c.name, c.result, c.detail);
        checks.iter().filter(|c| c.result != Outcome::Ok).map(of).collect()
    }

    #[test]
    fn a_domain_that_works_passes_every_check() {
        let domain = healthy();
        assert_eq!(wrong(&domain), Vec::<String>::new());
        let mut out = Vec::new();
        write(&domain.checks(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("ok                 links       2 directions between nodes probed\n"), "{text}");
        assert!(!text.contains("see docs"), "{text}");
    }

    #[test]
    fn each_check_fails_by_itself_and_names_what_is_wrong() {
        let of = |change: &dyn Fn(&mut Domain)| {
            let mut domain = healthy();
            change(&mut domain);
            wrong(&domain)
        };
        let nodes = |status: Value| of(&move |d| d.nodes = Ok(vec![node("n1", json!({})), node("n2", status.clone())]));
        assert_eq!(nodes(json!({"agentVersion": "0.0.9"})), ["versions Fails: not 0.1.0: n2 (0.0.9)"]);
        assert_eq!(nodes(json!({"observedGeneration": 6})), ["sync Fails: not as desired: n2"]);
        assert_eq!(nodes(json!({"observedTerm": 2})), ["sync Fails: not as desired: n2"]);
        let error = json!([{"kind": "route", "name": "x", "group": null, "detail": "gone"}]);
        assert_eq!(nodes(json!({"errors": error})), ["sync Fails: not as desired: n2"]);
        let restarting = json!({"type": "Connected", "status": "Unknown", "reason": "Restarting", "message": ""});
        let retirement = json!({"step": "Retired", "sinceUnixNs": 1, "waitsFor": "", "reason": "old", "acceptLoss": false,
            "withoutAgent": false, "timeoutSeconds": 300, "by": {"kind": "operator"}, "begunUnixNs": 1, "removed": []});
        assert_eq!(nodes(json!({"connected": false, "retirement": retirement})), Vec::<String>::new());
        assert_eq!(
            nodes(json!({"connected": false})),
            [
                "agents Fails: not connected: n2",
                "links CannotBeChecked: the agents that probe some of them are not connected: n2"
            ]
        );
        assert_eq!(
            nodes(json!({"connected": false, "conditions": [restarting]})),
            [
                "agents CannotBeChecked: restart at the moment: n2",
                "links CannotBeChecked: the agents that probe some of them are not connected: n2"
            ]
        );
        let unprobed =
            |loss: Value| of(&move |d| d.links.as_mut().unwrap()[1] = link("n2/eth1", "n1/eth1", loss.clone()));
        for loss in [Value::Null, probed(0)] {
            assert_eq!(unprobed(loss), ["links Fails: not probed: n2/eth1"]);
        }
        for line in ["[!] store: revision 7, read-only: the disk is full", "[-] store: it failed"] {
            let found = of(&|d| d.ready = Ok(format!("[+] commands: executed\n{line}\nready\n")));
            assert_eq!(found, [format!("store Fails: {line}")]);
        }
        let lost = "[!] lost: 3 commits";
        let found = of(&|d| d.ready = Ok(format!("[+] store: revision 7\n{lost}\n")));
        assert_eq!(found, [format!("store Fails: {lost}")]);
        let found = of(&|d| d.status.as_mut().unwrap().problems = vec![crate::commands::problems::example(); 7]);
        assert!(
            found.len() == 1 && found[0].starts_with("problems Fails: open: ") && found[0].ends_with(" and 2 more"),
            "{found:?}"
        );
    }

    #[test]
    fn a_problem_of_which_an_operator_knows_fails_no_check() {
        let mut domain = healthy();
        let mut known = crate::commands::problems::example();
        known.silence = Some(SilenceRef { name: "n5".into(), note: "optics".into(), by: None, until_unix_ns: Some(1) });
        domain.status.as_mut().unwrap().problems = vec![known];
        let check = domain.problems();
        assert_eq!(check.detail, "none is open but 1 of which operators know: `canopyctl get silences`");
    }

    #[test]
    fn what_cannot_be_read_cannot_be_checked_and_comes_with_a_hint() {
        fn down<T>() -> Result<T, String> {
            Err("cannot reach the controller".to_owned())
        }
        let domain = Domain { version: down(), ready: down(), ..healthy() };
        let found = wrong(&domain);
        assert_eq!(found[0], "controller Fails: cannot reach the controller");
        assert_eq!(found[1], "store CannotBeChecked: cannot reach the controller");
        assert_eq!(found[2], "versions CannotBeChecked: cannot reach the controller");
        let domain = Domain { nodes: down(), ..healthy() };
        assert_eq!(wrong(&domain).iter().filter(|line| line.contains("CannotBeChecked")).count(), 5);
        let domain = Domain { nodes: Ok(vec![]), ..healthy() };
        assert_eq!(domain.checks().len(), 4);
        let mut out = Vec::new();
        write(&domain.checks(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "fails              topology    no node is declared\n                               declare nodes, hosts and links: `canopyctl apply -f topology.yaml`; see docs/resources.md#topology\n";
        assert!(text.contains(expected), "{text}");
    }
}
