// SPDX-License-Identifier: Apache-2.0
//! `get KIND [NAME]`.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{flows, link_path, segment};
use crate::cli::{GetArgs, Output, Resource};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{json, list, table, text, yaml};

/// See the module.
///
/// # Errors
/// The controller cannot be reached, or there is no such resource.
pub async fn run(client: &Client, args: &GetArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (items, whole) = fetch(client, args).await?;
    match args.output {
        Output::Json => json(out, &whole),
        Output::Yaml => yaml(out, &whole),
        Output::Name => {
            for item in &items {
                writeln!(out, "{}", name(args.resource, item))?;
            }
            Ok(())
        }
        Output::Table | Output::Wide => columns(args.resource, args.output == Output::Wide, &items, out),
    }
}

/// The resources one by one, and the value to print as JSON: a single resource, or a list of all pages.
async fn fetch(client: &Client, args: &GetArgs) -> Result<(Vec<Value>, Value), Failure> {
    let usage = |why: &str| Failure::new(Exit::Usage, why);
    if args.selector.is_some() && args.resource != Resource::Groups {
        return Err(usage("--selector is for groups"));
    }
    let group = args.group.as_deref().map(|g| segment("group", g)).transpose()?;
    if group.is_some() && !matches!(args.resource, Resource::Members | Resource::Events) {
        return Err(usage("--group is for members and events"));
    }
    if let (Resource::Links, Some(name)) = (args.resource, &args.name) {
        let path = link_path(name)?;
        let value = client.get(&format!("getting {path}"), &path).await?;
        return Ok((vec![value.clone()], value));
    }
    if let Resource::Flows = args.resource {
        let of = args.name.as_deref().map(flows::query).transpose()?.unwrap_or_default();
        return all(client, "/api/v1/flows", &format!("limit={MAX_FLOWS}&{of}")).await;
    }
    let named = args.name.as_deref().map(|n| segment("resource", n)).transpose()?;
    let one = |path: String| async move {
        let value = client.get(&format!("getting {path}"), &path).await?;
        Ok((vec![value.clone()], value))
    };
    match (args.resource, named) {
        (Resource::Topology, None | Some("default")) => one("/api/v1/topology".into()).await,
        (Resource::Topology, Some(_)) => Err(usage("the topology's name is default")),
        (Resource::Nodes, Some(name)) => one(format!("/api/v1/nodes/{name}")).await,
        (Resource::Groups, Some(name)) => one(format!("/api/v1/groups/{name}")).await,
        (Resource::Members, named) => {
            let group = group.ok_or_else(|| usage("name the group: get members -g GROUP"))?;
            match named {
                Some(host) => one(format!("/api/v1/groups/{group}/members/{host}")).await,
                None => all(client, &format!("/api/v1/groups/{group}/members"), "").await,
            }
        }
        (Resource::Events, Some(_)) => Err(usage("events have no names")),
        (Resource::Events, None) => {
            all(client, "/api/v1/events", &group.map(|g| format!("group={g}")).unwrap_or_default()).await
        }
        (Resource::Flows, _) => all(client, "/api/v1/flows", "").await,
        (Resource::Links, _) => all(client, "/api/v1/links", "").await,
        (Resource::Nodes, None) => all(client, "/api/v1/nodes", "").await,
        (Resource::Groups, None) => {
            let selector =
                args.selector.as_deref().map(|s| format!("&labelSelector={}", escape(s))).unwrap_or_default();
            all(client, "/api/v1/groups", &format!("limit=500{selector}")).await
        }
    }
}

async fn all(client: &Client, path: &str, query: &str) -> Result<(Vec<Value>, Value), Failure> {
    let (mut items, mut next) = (Vec::new(), None::<String>);
    loop {
        let after = next.map(|n| format!("&continue={n}")).unwrap_or_default();
        let mut page = client.get(&format!("listing {path}"), &format!("{path}?{query}{after}")).await?;
        if let Some(Value::Array(more)) = page.get_mut("items").map(Value::take) {
            items.extend(more);
        }
        next = page.pointer("/metadata/continue").and_then(Value::as_str).map(str::to_owned);
        if next.is_none() {
            let whole = json!({"apiVersion": page["apiVersion"], "kind": page["kind"], "metadata": {}, "items": items});
            return Ok((items, whole));
        }
    }
}

/// Percent-encodes what cannot stand in a query.
fn escape(text: &str) -> String {
    text.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"-_./".contains(&b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

fn name(resource: Resource, item: &Value) -> String {
    match resource {
        Resource::Topology => format!("topology/{}", text(item, "/metadata/name")),
        Resource::Nodes => format!("node/{}", text(item, "/metadata/name")),
        Resource::Links => format!("link/{}", text(item, "/metadata/name")),
        Resource::Flows => {
            let [node, port, src, dst, qp] = ["/node", "/port", "/src", "/dst", "/dstQp"].map(|p| text(item, p));
            format!("flow/{node}/{port}/{src}/{dst}/{qp}")
        }
        Resource::Groups => format!("group/{}", text(item, "/metadata/name")),
        Resource::Members => format!("member/{}/{}", text(item, "/metadata/group"), text(item, "/metadata/name")),
        Resource::Events => format!("event/{}", text(item, "/sequence")),
    }
}

/// Flows per request: enough for all flows of 64 nodes.
const MAX_FLOWS: usize = 4096;

/// Header and JSON pointer; the bool is true for columns of `-o wide` only.
type Column = (&'static str, &'static str, bool);

const TOPOLOGY: &[Column] = &[
    ("NAME", "/metadata/name", false),
    ("NODES", "/status/nodes", false),
    ("CONNECTED", "/status/connectedNodes", false),
    ("SYNCED", "/status/syncedNodes", false),
    ("HOSTS", "/status/hosts", false),
    ("LINKS", "/status/links", false),
    ("GENERATION", "/metadata/generation", true),
];
const NODES: &[Column] = &[
    ("NAME", "/metadata/name", false),
    ("CONNECTED", "/status/connected", false),
    ("DESIRED", "/spec/generation", false),
    ("APPLIED", "/status/observedGeneration", false),
    ("GROUPS", "/spec/groups", false),
    ("ADDRESS", "/spec/nodeAddress", false),
    ("LOCATOR", "/spec/un", true),
    ("END.MT", "/spec/endMt", true),
    ("ROUTES", "/spec/routes", true),
    ("AGENT", "/status/agentVersion", true),
    ("KERNEL", "/status/kernel", true),
];
const LINKS: &[Column] = &[
    ("FROM", "/metadata/name", false),
    ("TO", "/spec/to", false),
    ("RATE BPS", "/spec/rateBps", false),
    ("RTT NS", "/status/rtt/estimateNs", false),
    ("MEASURED NS", "/status/rtt/measuredNs", true),
    ("K_MAX", "/status/thresholds/kMaxBytes", false),
    ("K_MIN", "/status/thresholds/kMinBytes", false),
    ("BOUND", "/status/thresholds/bound/by", false),
    ("QUEUE", "/status/congestion/queueBytes", false),
    ("LEVEL", "/status/congestion/level", false),
    ("MARKED", "/status/congestion/marked", false),
    ("PEAK", "/status/congestion/peakQueueBytes", true),
    ("PEAK LEVEL", "/status/congestion/peakLevel", true),
    ("WANTED", "/status/thresholds/bound/wantedBytes", true),
    ("BUFFER", "/spec/bufferBytes", true),
    ("ALPHA", "/spec/alpha", true),
    ("K_BASE", "/spec/kBaseBytes", true),
    ("LOST", "/status/rtt/lost", true),
    ("CHANGES", "/status/pushes", true),
    ("REASON", "/status/reason", true),
];
const GROUPS: &[Column] = &[
    ("NAME", "/metadata/name", false),
    ("PHASE", "/status/phase", false),
    ("SOURCE", "/status/source", false),
    ("RECEIVERS", "/status/receivers", false),
    ("PROXY", "/status/connection/proxyAddress", false),
    ("QPN", "/status/connection/designatedQpn", false),
    ("ENCODING", "/status/encoding/mode", false),
    ("EPOCH", "/status/epoch", true),
    ("TREE", "/status/treeId", true),
    ("SRH BYTES", "/status/encoding/srhBytes", true),
    ("REASON", "/status/reason", true),
];
const MEMBERS: &[Column] = &[
    ("HOST", "/metadata/name", false),
    ("ROLE", "/spec/role", false),
    ("ADDRESS", "/status/address", false),
    ("QPN", "/spec/qpn", false),
    ("NODE", "/status/node", false),
    ("PORT", "/status/port", false),
    ("ENCODING", "/status/encoding", true),
    ("MEMORY BYTES", "/spec/memory/length", true),
];
const EVENTS: &[Column] = &[
    ("CODE", "/code", false),
    ("NODE", "/node", false),
    ("GROUP", "/group", false),
    ("BRANCH", "/branch", true),
    ("DETAIL", "/detail", false),
];

fn columns(resource: Resource, wide: bool, items: &[Value], out: &mut dyn Write) -> Result<(), Failure> {
    let own: Vec<Value>;
    let items = match resource {
        Resource::Flows => {
            own = items.iter().map(flows::shown).collect();
            &own
        }
        _ => items,
    };
    let columns = match resource {
        Resource::Flows => flows::COLUMNS,
        Resource::Topology => TOPOLOGY,
        Resource::Nodes => NODES,
        Resource::Links => LINKS,
        Resource::Groups => GROUPS,
        Resource::Members => MEMBERS,
        Resource::Events => EVENTS,
    };
    let shown: Vec<&Column> = columns.iter().filter(|c| wide || !c.2).collect();
    let mut header: Vec<&str> = shown.iter().map(|c| c.0).collect();
    let mut rows: Vec<Vec<String>> = items.iter().map(|i| shown.iter().map(|c| text(i, c.1)).collect()).collect();
    if resource == Resource::Flows {
        header.insert(0, "FROM");
        for (row, item) in rows.iter_mut().zip(items) {
            row.insert(0, text(item, "/from"));
        }
    }
    if resource == Resource::Events {
        header.insert(0, "TIME");
        for (row, item) in rows.iter_mut().zip(items) {
            row.insert(0, time(item));
        }
    }
    table(out, &header, rows)?;
    if resource == Resource::Nodes {
        for (item, error) in items.iter().flat_map(|i| list(i, "/status/errors").iter().map(move |e| (i, e))) {
            writeln!(
                out,
                "! {}: {} {}: {}",
                text(item, "/metadata/name"),
                text(error, "/kind"),
                text(error, "/name"),
                text(error, "/detail")
            )?;
        }
    }
    Ok(())
}

fn time(item: &Value) -> String {
    let ns = item.get("timeUnixNs").and_then(Value::as_u64).unwrap_or(0);
    let at = UNIX_EPOCH + Duration::from_nanos(ns);
    // Years beyond 9999 cannot be written: u64 nanoseconds end in 2554.
    humantime::format_rfc3339_millis(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(resource: Resource, wide: bool, item: Value) -> String {
        let mut out = Vec::new();
        columns(resource, wide, &[item], &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// A long-haul link of 400 Gb/s, full.
    #[test]
    fn links_and_flows_fit_120_columns_and_wide_ones_leave_nothing_out() {
        let link = json!({"metadata": {"name": "leaf-12/eth1"}, "spec": {"to": "spine-3/eth12", "rateBps": 400_000_000_000_u64},
            "status": {"rtt": {"estimateNs": 50_000_000, "measuredNs": 50_000_001}, "pushes": 1,
                "thresholds": {"kMaxBytes": 2_500_000_000_u64, "kMinBytes": 1_250_000_000, "bound": {"by": "bandwidthDelay"}},
                "congestion": {"queueBytes": 2_600_000_000_u64, "level": 255, "marked": 123_456, "peakQueueBytes": 2_700_000_000_u64}}});
        let flow = json!({"node": "leaf-12", "port": "eth1", "src": "2001:db8:1::1", "dst": "2001:db8:2::1",
            "dstQp": 16_777_214, "srcQp": 16_777_213, "origin": "learned", "rateBps": 399_000_000_000_u64, "sharePermille": 1_000,
            "packets": 1, "bytes": 2, "ce": 12_345_678, "suppressed": 3, "cnps": {"rateReduce": 12_345}});
        for (resource, item, always, wide) in [
            (Resource::Links, link, ["2600000000", "255", "123456", "bandwidthDelay"], "2700000000"),
            (Resource::Flows, flow, ["leaf-12/eth1", "100.0 %", "12345678", "16777213"], "learned"),
        ] {
            let text = shown(resource, false, item.clone());
            let widest = text.lines().map(str::len).max().unwrap();
            assert!(widest <= 120, "{widest} columns:\n{text}");
            always.iter().for_each(|word| assert!(text.contains(word), "{word} is not in\n{text}"));
            assert!(!text.contains(wide) && shown(resource, true, item).contains(wide), "{text}");
        }
    }
}
