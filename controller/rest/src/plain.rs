// SPDX-License-Identifier: Apache-2.0
//! `/plain`: the state of the domain on one page, for browsers without JavaScript and without a session, so that it links to nothing below
//! `/api/`. Rendered here, every text escaped.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use axum::response::{Html, IntoResponse, Response};
use canopy_controller_actor::Controller;
use canopy_controller_core::condition::ConditionReason;
use canopy_controller_core::health::Problem;
use canopy_controller_core::problem::Severity;
use canopy_controller_core::view::{GroupView, NodeView};
use canopy_controller_core::{GroupFilter, NameFilter};

/// Rows per table, at most.
const MAX_ROWS: usize = 200;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1b1f24;background:#fff}\
h1{margin:0}h2{margin:2rem 0 .5rem}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #d8dee4;vertical-align:top}\
code,td.n{font-family:ui-monospace,monospace;font-size:13px}.ok{color:#116329}.wait{color:#7d4e00}.bad{color:#a40e26}nav a{margin-right:1rem}p.sub{margin:.2rem 0 1rem;color:#57606a}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}a{color:#58a6ff}.ok{color:#3fb950}.wait{color:#d29922}.bad{color:#ff7b72}p.sub{color:#8d96a0}}";

pub(crate) async fn page(State(controller): State<Controller>) -> Response {
    let (nodes, page, topology, term) = controller.read(|d| {
        let nodes = d.nodes(&NameFilter::default(), None, MAX_ROWS, false);
        (nodes, d.groups(&GroupFilter::default(), None, MAX_ROWS), d.topology_status(), d.term())
    });
    let mut html = String::with_capacity(16 << 10);
    // Writing to a String cannot fail.
    _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><meta http-equiv=\"refresh\" content=\"5\">\
<title>Canopy</title><style>{STYLE}</style><h1>Canopy</h1><p class=\"sub\">RDMA multicast over SRv6 &middot; controller {} &middot; term {term}</p><nav><a href=\"/\">Web UI</a>",
        env!("CARGO_PKG_VERSION")
    );
    for path in ["/metrics", "/readyz?verbose", "/version"] {
        _ = write!(html, "<a href=\"{path}\">{path}</a>");
    }
    html.push_str("</nav>");
    match topology {
        Some(t) => {
            _ = write!(
                html,
                "<p>Topology: {} nodes ({} connected, {} in sync), {} hosts, {} links.</p>",
                t.nodes, t.connected_nodes, t.synced_nodes, t.hosts, t.links
            )
        }
        None => html.push_str("<p>No topology yet: <code>canopyctl apply -f topology.yaml</code></p>"),
    }
    causes(&mut html, &controller.problems());
    groups(&mut html, &page.items, page.next.is_some());
    node_table(&mut html, &nodes.items, nodes.next.is_some());
    html.push_str("</html>");
    let headers =
        [(CACHE_CONTROL, "no-store"), (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'")];
    (headers, Html(html)).into_response()
}

/// What is wrong, before everything else.
fn causes(html: &mut String, problems: &[Problem]) {
    html.push_str("<h2>What is wrong</h2>");
    let mut roots = problems.iter().filter(|p| p.is_root()).peekable();
    if roots.peek().is_none() {
        html.push_str("<p class=\"ok\">No problem is open.</p>");
        return;
    }
    html.push_str("<table><tr><th>Severity<th>What<th>Seen<th>Affects<th>What to do");
    for p in roots.take(MAX_ROWS) {
        let info = p.key.code.info();
        let class = match info.severity {
            Severity::Critical => "bad",
            Severity::Warning => "wait",
            Severity::Info => "sub",
        };
        _ = write!(
            html,
            "<tr><td class=\"{class}\">{}<td><code>{}</code> {}<td>",
            info.severity,
            Escaped(&p.key.object.to_string()),
            Escaped(info.title)
        );
        for evidence in p.evidence.iter().take(5) {
            _ = write!(html, "<div>{}</div>", Escaped(evidence));
        }
        _ = write!(html, "<td class=\"n\">{}<td>{}", p.affects.len(), Escaped(info.remedy));
    }
    html.push_str("</table>");
}

fn groups(html: &mut String, groups: &[GroupView], more: bool) {
    html.push_str("<h2>Groups</h2><table><tr><th>Name<th>Phase<th>Source<th>Receivers<th>Proxy Address<th>Designated QPN<th>Encoding<th>Reason");
    for g in groups {
        let (s, name) = (&g.status, Escaped(&g.metadata.name));
        let phase = format!("{:?}", s.phase);
        let class = match phase.as_str() {
            "Ready" => "ok",
            "Degraded" | "Stalled" | "Failed" => "bad",
            _ => "wait",
        };
        let encoding = s.encoding.as_ref().map_or_else(|| "-".into(), |e| format!("{:?}, {} bytes SRH", e.mode, e.srh));
        _ = write!(
            html,
            "<tr><td><code>{name}</code><td class=\"{class}\">{phase}<td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td>{}<td>{}",
            Escaped(s.source.as_deref().unwrap_or("-")),
            s.receivers,
            s.connection.proxy_address,
            s.connection.designated_qpn,
            Escaped(&encoding),
            Escaped(&s.reason)
        );
    }
    html.push_str("</table>");
    if groups.is_empty() {
        html.push_str("<p>None.</p>");
    }
    if more {
        _ = write!(html, "<p>Only the first {MAX_ROWS} are shown.</p>");
    }
}

fn node_table(html: &mut String, nodes: &[NodeView], more: bool) {
    html.push_str(
        "<h2>Nodes</h2><table><tr><th>Name<th>Agent<th>Desired<th>Applied<th>Groups<th>Address<th>Locator<th>Errors",
    );
    for n in nodes {
        let (name, s) = (Escaped(&n.name), &n.status);
        let is_restarting = s.conditions.iter().any(|c| c.reason == ConditionReason::Restarting);
        let (class, agent) = match (s.connected, is_restarting) {
            (true, _) => ("ok", "connected"),
            (false, true) => ("wait", "restarting"),
            (false, false) => ("bad", "not connected"),
        };
        let applied = s.observed_generation.map_or_else(|| "-".into(), |g| g.to_string());
        let synced = if s.observed_generation == Some(n.spec.generation) { "ok" } else { "wait" };
        _ = write!(
            html,
            "<tr><td><code>{name}</code><td class=\"{class}\">{agent}<td class=\"n\">{}<td class=\"n {synced}\">{applied}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td>",
            n.spec.generation, n.spec.groups, n.spec.node_address, n.spec.un
        );
        for e in s.errors.iter().take(5) {
            _ = write!(html, "<div class=\"bad\">{} {}: {}</div>", e.kind, Escaped(&e.name), Escaped(&e.detail));
        }
    }
    html.push_str("</table>");
    if more {
        _ = write!(html, "<p>Only the first {MAX_ROWS} are shown.</p>");
    }
}

/// Text inside HTML, in elements and in quoted attributes.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_nodes_cannot_become_markup() {
        assert_eq!(
            Escaped("<img src=x onerror='a()'>&\"").to_string(),
            "&lt;img src=x onerror=&#39;a()&#39;&gt;&amp;&quot;"
        );
    }
}
