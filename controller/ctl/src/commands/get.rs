// SPDX-License-Identifier: Apache-2.0
//! `get KIND [NAME]`; with `--watch`, see `watch`.

use std::io::Write;

use canopy_controller_api::controller::ControllerResource;
use canopy_controller_api::event::EventItem;
use canopy_controller_api::health::ProblemItem;
use canopy_controller_api::incident::IncidentItem;
use canopy_controller_api::link::FlowView;
use canopy_controller_api::query::{
    DrainQuery, EventQuery, FlowQuery, HostQuery, IncidentQuery, LinkQuery, ListQuery, NodeQuery, ProblemQuery,
    TenantQuery,
};
use canopy_controller_api::tenant::TenantItem;
use canopy_controller_api::{
    DrainResource, GroupResource, HostResource, LinkResource, List, MemberResource, NodeResource, SilenceResource,
    TopologyResource,
};
use canopy_model::status::GroupPhase;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::pages::{PAGE, list, pages};
use super::rows::{self, Column, Row};
use super::{flows, link_path, paths, segment, watch, with_query};
use crate::cli::{GetArgs, Output, Resource};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{json, yaml};

/// Events of one answer, at most.
const MAX_EVENTS: usize = 4096;
/// Flows per request: enough for all flows of 64 nodes.
const MAX_FLOWS: usize = 4096;
/// Incidents that the controller keeps.
const MAX_INCIDENTS: usize = 200;
/// Problems per request.
const MAX_PROBLEMS: usize = 5000;

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or there is no such resource.
pub async fn run(client: &Client, args: &GetArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if args.watch {
        return watch::run(client, args, out, &mut std::io::stderr()).await;
    }
    let answer = fetch(client, args).await?;
    match args.resource {
        Resource::Topology => show::<TopologyResource>(answer, args.output, out),
        Resource::Drains => show::<DrainResource>(answer, args.output, out),
        Resource::Silences => show::<SilenceResource>(answer, args.output, out),
        Resource::Nodes => show::<NodeResource>(answer, args.output, out),
        Resource::Links => show::<LinkResource>(answer, args.output, out),
        Resource::Hosts => show::<HostResource>(answer, args.output, out),
        Resource::Flows => show::<FlowView>(answer, args.output, out),
        Resource::Paths => paths::show(whole(answer), args.output, out),
        Resource::Groups => show::<GroupResource>(answer, args.output, out),
        Resource::Members => show::<MemberResource>(answer, args.output, out),
        Resource::Tenants => show::<TenantItem>(answer, args.output, out),
        Resource::Controllers => show::<ControllerResource>(answer, args.output, out),
        Resource::Events => show::<EventItem>(answer, args.output, out),
        Resource::Problems => show::<ProblemItem>(answer, args.output, out),
        Resource::Incidents => show::<IncidentItem>(answer, args.output, out),
    }
}

/// Resources as the API sent them: JSON and YAML output leaves nothing out, whatever the controller's version.
enum Answer {
    One(Value),
    All(List<Value>),
}

async fn fetch(client: &Client, args: &GetArgs) -> Result<Answer, Failure> {
    let usage = |why: &str| Failure::new(Exit::Usage, why);
    check_filter(args)?;
    let group = args.group.as_deref().map(|g| segment("group", g)).transpose()?;
    if group.is_some() && !matches!(args.resource, Resource::Members | Resource::Events) {
        return Err(usage("--group is for members and events"));
    }
    if (args.node.is_some() || args.within.is_some()) && args.resource != Resource::Events {
        return Err(usage("--node and --within are for events"));
    }
    if let (Resource::Links, Some(name)) = (args.resource, &args.name) {
        return one(client, &link_path(name)?).await;
    }
    if let Resource::Flows = args.resource {
        let of = args.name.as_deref().map(flows::query).transpose()?.unwrap_or_default();
        let query = FlowQuery { limit: Some(MAX_FLOWS), ..of };
        return list(client, "/api/v1/flows", &with_query("/api/v1/flows", &query)?).await.map(Answer::All);
    }
    let named = args.name.as_deref().map(|n| segment("resource", n)).transpose()?;
    let all = async |path: &str| list(client, path, path).await.map(Answer::All);
    match (args.resource, named) {
        (Resource::Topology, None | Some("default")) => one(client, "/api/v1/topology").await,
        (Resource::Topology, Some(_)) => Err(usage("the topology's name is default")),
        (Resource::Drains, Some(name)) => one(client, &format!("/api/v1/drains/{name}")).await,
        (Resource::Silences, Some(name)) => one(client, &format!("/api/v1/silences/{name}")).await,
        (Resource::Silences, None) => all("/api/v1/silences").await,
        (Resource::Drains, None) => {
            let query = DrainQuery {
                label_selector: given(&args.selector),
                field_selector: given(&args.field_selector),
                ..DrainQuery::default()
            };
            filtered(client, "/api/v1/drains", &query).await
        }
        (Resource::Nodes, Some(name)) => one(client, &format!("/api/v1/nodes/{name}")).await,
        (Resource::Hosts, Some(name)) => one(client, &format!("/api/v1/hosts/{name}")).await,
        (Resource::Hosts, None) => {
            let field_selector = given(&args.field_selector);
            let query = |next| HostQuery {
                limit: Some(PAGE),
                next,
                field_selector: field_selector.clone(),
                ..HostQuery::default()
            };
            pages(client, "/api/v1/hosts", query).await.map(Answer::All)
        }
        (Resource::Groups, Some(name)) => one(client, &format!("/api/v1/groups/{name}")).await,
        (Resource::Members, named) => {
            let group = group.ok_or_else(|| usage("name the group: get members -g GROUP"))?;
            match named {
                Some(host) => one(client, &format!("/api/v1/groups/{group}/members/{host}")).await,
                None => all(&format!("/api/v1/groups/{group}/members")).await,
            }
        }
        (Resource::Tenants, named) => tenants(client, named).await.map(Answer::All),
        (Resource::Controllers, None | Some("controller")) => all("/api/v1/controllers").await,
        (Resource::Controllers, Some(_)) => Err(usage("the controller's name is controller")),
        (Resource::Events, Some(_)) => Err(usage("events have no names")),
        (Resource::Events, None) => {
            let query = EventQuery {
                limit: args.within.map(|_| MAX_EVENTS),
                group: group.map(str::to_owned),
                node: args.node.clone(),
                within_seconds: args.within.map(|within| within.as_secs()),
                ..EventQuery::default()
            };
            list(client, "/api/v1/events", &with_query("/api/v1/events", &query)?).await.map(Answer::All)
        }
        (Resource::Problems, Some(id)) => one(client, &format!("/api/v1/problems/{id}")).await,
        (Resource::Problems, None) => {
            let field_selector = given(&args.field_selector);
            let query = ProblemQuery { limit: Some(MAX_PROBLEMS), field_selector, ..ProblemQuery::default() };
            filtered(client, "/api/v1/problems", &query).await
        }
        (Resource::Incidents, named) => {
            let query = IncidentQuery { limit: Some(MAX_INCIDENTS), problem: named.map(str::to_owned) };
            list(client, "/api/v1/incidents", &with_query("/api/v1/incidents", &query)?).await.map(Answer::All)
        }
        (Resource::Flows, _) => all("/api/v1/flows").await,
        (Resource::Paths, named) => one(client, &paths::target(named, args.to.as_deref())?).await,
        (Resource::Links, _) => {
            let field_selector = given(&args.field_selector);
            let query = |next| LinkQuery { limit: Some(PAGE), next, field_selector: field_selector.clone() };
            pages(client, "/api/v1/links", query).await.map(Answer::All)
        }
        (Resource::Nodes, None) => {
            // No table shows ports.
            let summary = !matches!(args.output, Output::Json | Output::Yaml);
            let query = NodeQuery {
                label_selector: given(&args.selector),
                field_selector: given(&args.field_selector),
                summary,
                ..NodeQuery::default()
            };
            pages(client, "/api/v1/nodes", |next| NodeQuery { limit: Some(PAGE), next, ..query.clone() })
                .await
                .map(Answer::All)
        }
        (Resource::Groups, None) => {
            let phase = args.phase.as_deref().map(phase).transpose()?;
            let query = |next| ListQuery {
                limit: Some(PAGE),
                next,
                label_selector: given(&args.selector),
                field_selector: given(&args.field_selector),
                phase,
                ..ListQuery::default()
            };
            pages(client, "/api/v1/groups", query).await.map(Answer::All)
        }
    }
}

/// All of them, or one.
async fn tenants(client: &Client, name: Option<&str>) -> Result<List<Value>, Failure> {
    let query = |next| TenantQuery { limit: Some(PAGE), next };
    let mut all: List<Value> = pages(client, "/api/v1/tenants", query).await?;
    if let Some(name) = name {
        all.items.retain(|tenant| tenant["name"] == name);
        if all.items.is_empty() {
            return Err(Failure::new(
                Exit::NotFound,
                format!("there is no tenant {name:?} with groups or quotas of its own"),
            ));
        }
    }
    Ok(all)
}

async fn one(client: &Client, path: &str) -> Result<Answer, Failure> {
    client.get(&format!("getting {path}"), path).await.map(Answer::One)
}

/// A list that has no pages, with a filter.
async fn filtered(client: &Client, path: &str, query: &impl Serialize) -> Result<Answer, Failure> {
    list(client, path, &with_query(path, query)?).await.map(Answer::All)
}

/// Refuses a filter where it would be ignored.
fn check_filter(args: &GetArgs) -> Result<(), Failure> {
    let usage = |why: &str| Err(Failure::new(Exit::Usage, why));
    let resource = args.resource;
    if args.to.is_some() && resource != Resource::Paths {
        return usage("a second name is for paths: get paths FROM TO");
    }
    let has_fields = matches!(
        resource,
        Resource::Groups | Resource::Nodes | Resource::Hosts | Resource::Links | Resource::Drains | Resource::Problems
    );
    if args.selector.is_some() && !matches!(resource, Resource::Groups | Resource::Nodes | Resource::Drains) {
        return usage("--selector is for groups, nodes and drains: other resources have no labels");
    }
    if args.phase.is_some() && resource != Resource::Groups {
        return usage("--phase is for groups");
    }
    if args.field_selector.is_some() && !has_fields {
        return usage("--field-selector is for groups, nodes, hosts, links, drains and problems");
    }
    let is_filtered = args.selector.is_some() || args.phase.is_some() || args.field_selector.is_some();
    if is_filtered && args.name.is_some() {
        return usage("a filter is for lists: leave NAME out, or the filter");
    }
    Ok(())
}

fn given(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}

fn phase(text: &str) -> Result<GroupPhase, Failure> {
    let known = GroupPhase::ALL.into_iter().find(|phase| phase.to_string().eq_ignore_ascii_case(text));
    known.ok_or_else(|| {
        let all = GroupPhase::ALL.map(|phase| phase.to_string()).join(", ");
        Failure::new(Exit::Usage, format!("--phase {text:?} is none of {all}"))
    })
}

fn show<T: Row + DeserializeOwned>(answer: Answer, output: Output, out: &mut dyn Write) -> Result<(), Failure> {
    let wide = match output {
        Output::Json => return json(out, &whole(answer)),
        Output::Yaml => return yaml(out, &whole(answer)),
        Output::Name => {
            for item in items::<T>(answer)? {
                writeln!(out, "{}", item.name())?;
            }
            return Ok(());
        }
        Output::Table => false,
        Output::Wide => true,
    };
    let items = items::<T>(answer)?;
    let columns: Vec<Column<T>> =
        T::columns().into_iter().filter(|c| wide || !c.2 || rows::is_needed(c, &items)).collect();
    rows::write(&columns, &items, out)?;
    for note in items.iter().flat_map(T::notes) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn whole(answer: Answer) -> Value {
    match answer {
        Answer::One(resource) => resource,
        Answer::All(list) => json!(list),
    }
}

fn items<T: DeserializeOwned>(answer: Answer) -> Result<Vec<T>, Failure> {
    let items = match answer {
        Answer::One(resource) => vec![resource],
        Answer::All(list) => list.items,
    };
    let differs = |e| Failure::new(Exit::Error, format!("the answer differs from the API of this canopyctl: {e}"));
    items.into_iter().map(|item| serde_json::from_value(item).map_err(differs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<T: Row + DeserializeOwned>(output: Output, item: &Value) -> String {
        let mut out = Vec::new();
        show::<T>(Answer::One(item.clone()), output, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn fits<T: Row + DeserializeOwned>(item: &Value, always: [&str; 4], wide: &str) {
        let text = shown::<T>(Output::Table, item);
        let widest = text.lines().map(str::len).max().unwrap();
        assert!(widest <= 120, "{widest} columns:\n{text}");
        always.iter().for_each(|word| assert!(text.contains(word), "{word} is not in\n{text}"));
        assert!(!text.contains(wide) && shown::<T>(Output::Wide, item).contains(wide), "{text}");
    }

    /// A long-haul link of 400 Gb/s, full.
    #[test]
    fn links_and_flows_fit_120_columns_and_wide_ones_leave_nothing_out() {
        let counts = |rate_reduce: u32| {
            json!({"suppressed": 3, "rateLimitedFlow": 0, "rateLimitedPort": 0, "unknownSourceQp": 0,
                "cnps": {"notify": 0, "pause": 0, "rateReduce": rate_reduce, "resume": 0, "failed": 0}})
        };
        let with_counts = |mut value: Value, rate_reduce| {
            let counts = counts(rate_reduce);
            value.as_object_mut().unwrap().extend(counts.as_object().unwrap().clone());
            value
        };
        let congestion = json!({"queueBytes": 2_600_000_000_u64, "level": 255, "marked": 123_456, "peakQueueBytes": 2_700_000_000_u64,
            "peakLevel": 255, "depthSource": "kernel", "emrPermille": 1, "qgrBytesPerMs": 1, "packets": 1, "bytes": 1, "ce": 1,
            "notEct": 0, "reportedAgoNs": 1});
        let link = json!({"apiVersion": "canopy/v1", "kind": "Link",
            "metadata": {"name": "leaf-12/eth1", "tenant": "default", "labels": {}, "generation": 1},
            "spec": {"link": "leaf-12/eth1--spine-3/eth12", "to": "spine-3/eth12", "rateBps": 400_000_000_000_u64, "bufferBytes": null,
                "alpha": 1000, "kBaseBytes": 64_000, "vEcn": 500, "vGrowthBytesPerMs": null, "rttUs": null},
            "status": {"state": "AgentNotConnected", "problem": null, "pushes": 1, "pushedAgoNs": 1, "pushedRttNs": 1, "reason": "",
                "rtt": {"configuredNs": null, "measuredNs": 50_000_001, "filteredNs": 50_000_000, "estimateNs": 50_000_000, "samples": 1,
                    "lost": 0, "refused": 0, "reportedAgoNs": 1},
                "thresholds": {"kMaxBytes": 2_500_000_000_u64, "kMinBytes": 1_250_000_000, "bound": {"by": "bandwidthDelay"}},
                "congestion": with_counts(congestion, 0)}});
        let flow = json!({"node": "leaf-12", "port": "eth1", "src": "2001:db8:1::1", "dst": "2001:db8:2::1",
            "dstQp": 16_777_214, "srcQp": 16_777_213, "origin": "learned", "rateBps": 399_000_000_000_u64, "sharePermille": 1_000,
            "packets": 1, "bytes": 2, "ce": 12_345_678, "reportedAgoNs": 1});
        fits::<LinkResource>(&link, ["2600000000", "255", "123456", "AgentNotConnected"], "bandwidthDelay");
        let flow = with_counts(flow, 12_345);
        fits::<FlowView>(&flow, ["leaf-12/eth1", "100.0 %", "12345678", "16777213"], "learned");
    }

    /// Catches a table that shows `-` for a field that the controller calls otherwise.
    #[test]
    fn a_field_that_is_missing_is_an_error() {
        let event = json!({"sequence": 1, "timeUnixNs": 1, "code": "x", "node": null, "group": null, "branch": null});
        let e = show::<EventItem>(Answer::One(event), Output::Table, &mut Vec::new()).unwrap_err();
        assert!(e.message.contains("missing field `detail`"), "{e}");
    }
}
