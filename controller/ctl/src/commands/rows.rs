// SPDX-License-Identifier: Apache-2.0
//! Resources as rows of a table.

use std::io::Write;
use std::iter;
use std::time::{Duration, UNIX_EPOCH};

use canopy_controller_api::condition::ConditionReason;
use canopy_controller_api::controller::ControllerResource;
use canopy_controller_api::event::EventItem;
use canopy_controller_api::health::ProblemItem;
use canopy_controller_api::host::HostPort;
use canopy_controller_api::incident::IncidentItem;
use canopy_controller_api::link::{Bound, LinkCongestion, LinkResource, Thresholds};
use canopy_controller_api::metadata::Metadata;
use canopy_controller_api::retirement::RetireStep;
use canopy_controller_api::tenant::TenantItem;
use canopy_controller_api::{
    DrainResource, GroupResource, HostResource, MemberResource, NodeResource, SilenceResource, TopologyResource,
};
use canopy_model::rfc3339;
use canopy_model::silence::SilenceTarget;

use super::log_level::described;
use crate::failure::Failure;
use crate::output::{table, text};

/// Header and cell; the bool is true for columns of `-o wide` only.
pub(super) type Column<T> = (&'static str, fn(&T) -> String, bool);

/// Header of the column that is there as soon as resources of several tenants are.
const TENANT: &str = "TENANT";

/// Whether a column of `-o wide` is needed in a table of these resources.
pub(super) fn is_needed<T>((title, cell, _): &Column<T>, rows: &[T]) -> bool {
    *title == TENANT && rows.windows(2).any(|two| cell(&two[0]) != cell(&two[1]))
}

/// A kind of resource that can be listed.
pub(super) trait Row: Sized {
    /// All columns.
    fn columns() -> Vec<Column<Self>>;

    /// `kind/name`.
    fn name(&self) -> String;

    /// Lines to print below the table.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Writes `rows` as a table of `columns`.
pub(super) fn write<T>(columns: &[Column<T>], rows: &[T], out: &mut dyn Write) -> Result<(), Failure> {
    let header: Vec<&str> = columns.iter().map(|(title, ..)| *title).collect();
    let cells = |row: &T| columns.iter().map(|(_, cell, _)| cell(row)).collect();
    table(out, &header, rows.iter().map(cells).collect())
}

impl Row for TopologyResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |t| text(&t.metadata.name), false),
            ("NODES", |t| text(t.status.nodes), false),
            ("CONNECTED", |t| text(t.status.connected_nodes), false),
            ("SYNCED", |t| text(t.status.synced_nodes), false),
            ("HOSTS", |t| text(t.status.hosts), false),
            ("LINKS", |t| text(t.status.links), false),
            ("GENERATION", |t| text(t.metadata.generation), false),
            ("CHANGED", |t| changed(&t.metadata), false),
        ]
    }

    fn name(&self) -> String {
        format!("topology/{}", text(&self.metadata.name))
    }
}

impl Row for ControllerResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |c| text(&c.metadata.name), false),
            ("VERSION", |c| text(&c.status.version), false),
            ("TERM", |c| text(c.status.term), false),
            ("UPTIME", |c| span(Some(c.status.uptime_ns)), false),
            ("STORE", |c| text(&c.status.store.engine), false),
            (
                "SIZE",
                |c| c.status.store.octets.map_or("-".into(), |octets| format!("{:.1} MB", octets as f64 / 1e6)),
                false,
            ),
            ("REVISION", |c| text(c.status.store.revision), false),
            ("COMMIT P50", |c| span(c.status.store.commit_p50_ns), false),
            ("P99", |c| span(c.status.store.commit_p99_ns), false),
            ("COMMITS", |c| text(c.status.store.measured_commits), true),
        ]
    }

    fn name(&self) -> String {
        format!("controller/{}", text(&self.metadata.name))
    }

    fn notes(&self) -> Vec<String> {
        let store =
            self.status.store.read_only.iter().map(|why| format!("! the store takes no changes: {}", text(why)));
        let level = self.status.log_level.iter().map(|level| format!("logs {}", described(level)));
        store.chain(level).collect()
    }
}

/// A time in the largest unit that leaves two places or more.
fn span(nanoseconds: Option<u64>) -> String {
    let Some(ns) = nanoseconds else { return "-".into() };
    match Duration::from_nanos(ns) {
        time if time.as_secs() >= 100 => humantime::format_duration(Duration::from_secs(time.as_secs())).to_string(),
        time if time.as_millis() >= 100 => format!("{:.1} s", time.as_secs_f64()),
        time => format!("{:.2} ms", time.as_secs_f64() * 1e3),
    }
}

impl Row for DrainResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |d| text(&d.metadata.name), false),
            ("TARGET", |d| text(d.spec.link.as_ref().or(d.spec.node.as_ref())), false),
            ("LINKS", |d| text(d.status.links.len()), false),
            ("GROUPS LEFT", |d| text(d.status.groups), false),
            ("HOSTS", |d| text(d.status.hosts.join(",")), false),
            ("ENDS", |d| text(d.spec.until.map(rfc3339::format)), false),
            ("AGE", |d| age(d.metadata.created_unix_ns), false),
            ("BY", |d| text(d.metadata.written_by.as_ref().map(ToString::to_string)), false),
            ("REASON", |d| text(&d.spec.reason), false),
        ]
    }

    fn name(&self) -> String {
        format!("drain/{}", text(&self.metadata.name))
    }
}

impl Row for SilenceResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |s| text(&s.metadata.name), false),
            ("OF", silenced, false),
            ("ACTIVE", |s| text(s.status.active), false),
            ("BEGINS", |s| text(s.spec.from.map(rfc3339::format)), true),
            ("ENDS", |s| s.spec.until.map_or("with the problem".into(), |at| text(rfc3339::format(at))), false),
            ("AGE", |s| age(s.metadata.created_unix_ns), false),
            ("BY", |s| text(s.metadata.written_by.as_ref().map(ToString::to_string)), false),
            ("NOTE", |s| text(&s.spec.note), false),
        ]
    }

    fn name(&self) -> String {
        format!("silence/{}", text(&self.metadata.name))
    }
}

/// `node n4`.
fn silenced(silence: &SilenceResource) -> String {
    match silence.spec.target() {
        Some(SilenceTarget::Problem(id)) => format!("problem {}", text(id)),
        Some(SilenceTarget::Node(name)) => format!("node {}", text(name)),
        Some(SilenceTarget::Link(name)) => format!("link {}", text(name)),
        Some(SilenceTarget::Group(name)) => format!("group {}", text(name)),
        Some(SilenceTarget::Host(name)) => format!("host {}", text(name)),
        None => "-".to_owned(),
    }
}

/// Whether its agent is gone and to be back soon.
pub(super) fn is_restarting(node: &NodeResource) -> bool {
    node.status.conditions.iter().any(|condition| condition.reason == ConditionReason::Restarting)
}

/// Whether its agent is connected, or is to be back soon; of a node that leaves, the step.
pub(super) fn connection(node: &NodeResource) -> String {
    if let Some(retirement) = &node.status.retirement {
        return match retirement.step {
            RetireStep::Retired => "Retired".to_owned(),
            step => format!("Retiring ({step})"),
        };
    }
    if is_restarting(node) { "Restarting".to_owned() } else { text(node.status.connected) }
}

/// Whether it has what it was given.
fn state(node: &NodeResource) -> String {
    text(format!("{:?}", node.status.state))
}

impl Row for NodeResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |n| text(&n.metadata.name), false),
            ("STATE", state, false),
            ("CONNECTED", connection, false),
            ("DESIRED", |n| text(n.spec.generation), false),
            ("APPLIED", |n| text(n.status.observed_generation), false),
            ("GROUPS", |n| text(n.spec.groups), false),
            ("ADDRESS", |n| text(n.spec.node_address), false),
            ("LOCATOR", |n| text(n.spec.un), true),
            ("END.MT", |n| text(n.spec.end_mt), true),
            ("ROUTES", |n| text(n.spec.routes), true),
            ("AGENT", |n| text(&n.status.agent_version), true),
            ("KERNEL", |n| text(&n.status.kernel), true),
        ]
    }

    fn name(&self) -> String {
        format!("node/{}", text(&self.metadata.name))
    }

    fn notes(&self) -> Vec<String> {
        let errors = self.status.errors.iter();
        let name = text(&self.metadata.name);
        errors.map(|e| format!("! {name}: {} {}: {}", text(e.kind), text(&e.name), text(&e.detail))).collect()
    }
}

impl Row for LinkResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("FROM", |l| text(&l.metadata.name), false),
            ("TO", |l| text(&l.spec.to), false),
            ("STATE", link_state, false),
            ("RATE BPS", |l| text(l.spec.rate_bps), false),
            ("LOAD", load, false),
            ("RTT NS", |l| text(l.status.rtt.estimate_ns), false),
            ("MEASURED NS", |l| text(l.status.rtt.measured_ns), true),
            ("K_MAX", |l| of_thresholds(l, |t| text(t.k_max_bytes)), false),
            ("K_MIN", |l| of_thresholds(l, |t| text(t.k_min_bytes)), true),
            ("BOUND", |l| of_thresholds(l, |t| bound(t.bound).to_owned()), true),
            ("QUEUE", |l| of_queue(l, |c| text(c.queue.queue)), false),
            ("LEVEL", |l| of_queue(l, |c| text(c.queue.level)), false),
            ("MARKED", |l| of_queue(l, |c| text(c.queue.marked)), false),
            ("PEAK", |l| of_queue(l, |c| text(c.queue.peak_queue)), true),
            ("PEAK LEVEL", |l| of_queue(l, |c| text(c.queue.peak_level)), true),
            ("WANTED", |l| of_thresholds(l, |t| text(wanted(t.bound))), true),
            ("BUFFER", |l| text(l.spec.buffer_bytes), true),
            ("DRAINED", |l| text(l.spec.drained), true),
            ("ALPHA", |l| text(l.spec.alpha), true),
            ("K_BASE", |l| text(l.spec.k_base_bytes), true),
            ("LOST", |l| text(l.status.rtt.lost), true),
            ("CHANGES", |l| text(l.status.pushes), true),
            ("REASON", |l| text(&l.status.reason), true),
        ]
    }

    fn name(&self) -> String {
        format!("link/{}", text(&self.metadata.name))
    }
}

/// In one word: the code of its worst problem, if it has one.
fn link_state(link: &LinkResource) -> String {
    match &link.status.problem {
        Some(problem) => text(&problem.code),
        None => text(format!("{:?}", link.status.state)),
    }
}

fn of_thresholds(link: &LinkResource, cell: fn(&Thresholds) -> String) -> String {
    link.status.thresholds.as_ref().map_or_else(|| text(()), cell)
}

fn of_queue(link: &LinkResource, cell: fn(&LinkCongestion) -> String) -> String {
    link.status.congestion.as_ref().map_or_else(|| text(()), cell)
}

/// Percent of the port's rate that data took between the agent's last two reports.
fn load(link: &LinkResource) -> String {
    let load = link.status.congestion.as_ref().and_then(|congestion| congestion.load_bps);
    match load.filter(|_| link.spec.rate_bps > 0) {
        Some(bps) => format!("{:.1} %", bps as f64 * 100.0 / link.spec.rate_bps as f64),
        None => text(()),
    }
}

/// What decided K_max, in one word.
fn bound(bound: Bound) -> &'static str {
    match bound {
        Bound::BandwidthDelay => "bandwidthDelay",
        Bound::Base => "base",
        Bound::Buffer { .. } => "buffer",
    }
}

fn wanted(bound: Bound) -> Option<u64> {
    match bound {
        Bound::Buffer { wanted_bytes } => Some(wanted_bytes),
        Bound::BandwidthDelay | Bound::Base => None,
    }
}

/// What each link of a host has, where there are several.
fn of_links(host: &HostResource, each: impl Fn(&HostPort) -> String, only: impl Fn() -> String) -> String {
    match host.status.links.as_slice() {
        [] | [_] => only(),
        several => several.iter().map(each).collect::<Vec<_>>().join(","),
    }
}

/// What is wrong with the ports to a host, each reason once.
fn reasons(host: &HostResource) -> String {
    let all = iter::once(&host.status.reason).chain(host.status.links.iter().map(|link| &link.reason));
    let mut reasons: Vec<&String> = Vec::new();
    for reason in all.filter(|reason| !reason.is_empty()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    text(reasons.into_iter().map(String::as_str).collect::<Vec<_>>().join("; "))
}

impl Row for HostResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |h| text(&h.metadata.name), false),
            ("NODE", |h| of_links(h, |link| text(&link.node), || text(&h.spec.node)), false),
            ("PORT", |h| of_links(h, |link| text(&link.port), || text(&h.spec.port)), false),
            ("STATE", |h| of_links(h, |link| text(link.state), || text(h.status.port)), false),
            ("ADDRESS", |h| text(h.spec.address), false),
            ("SENDS TO", |h| text(h.status.sources), false),
            ("RECEIVES FROM", |h| text(h.status.receivers), false),
            ("AGENT", |h| text(h.status.agent), true),
            ("PREFIX", |h| text(h.spec.prefix), true),
            ("MTU", |h| text(h.spec.mtu), true),
            ("PROGRAMS", |h| if h.spec.path_programs { "permitted" } else { "-" }.to_owned(), true),
            ("REASON", |h| reasons(h), true),
        ]
    }

    fn name(&self) -> String {
        format!("host/{}", text(&self.metadata.name))
    }
}

impl Row for GroupResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |g| text(&g.metadata.name), false),
            (TENANT, |g| text(&g.metadata.tenant), true),
            ("PHASE", |g| text(g.status.phase), false),
            ("SOURCE", |g| text(&g.status.source), false),
            ("RECEIVERS", |g| text(g.status.receivers), false),
            ("PROXY", |g| text(g.status.connection.proxy_address), false),
            ("QPN", |g| text(g.status.connection.designated_qpn), false),
            ("ENCODING", |g| text(g.status.encoding.as_ref().map(|e| e.mode)), false),
            ("AGE", |g| age(g.metadata.created_unix_ns), false),
            ("CHANGED", |g| changed(&g.metadata), true),
            ("EPOCH", |g| text(g.status.epoch), true),
            ("TREE", |g| text(g.status.tree_id), true),
            ("SRH BYTES", |g| text(g.status.encoding.as_ref().map(|e| e.srh_bytes)), true),
            ("REASON", |g| text(&g.status.reason), true),
        ]
    }

    fn name(&self) -> String {
        format!("group/{}", text(&self.metadata.name))
    }
}

impl Row for TenantItem {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("NAME", |t| text(&t.name), false),
            ("GROUPS", |t| text(t.groups), false),
            ("OF", |t| text(t.max_groups), false),
            ("RECEIVERS", |t| text(t.receivers), false),
            ("OF", |t| text(t.max_receivers), false),
            ("CHANGES/S", |t| text(t.max_changes_per_second), false),
        ]
    }

    fn name(&self) -> String {
        format!("tenant/{}", text(&self.name))
    }
}

impl Row for MemberResource {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("HOST", |m| text(&m.metadata.metadata.name), false),
            ("ROLE", |m| text(m.spec.role), false),
            ("ADDRESS", |m| text(m.status.address), false),
            ("QPN", |m| text(m.spec.qpn), false),
            ("NODE", |m| text(&m.status.node), false),
            ("PORT", |m| text(&m.status.port), false),
            ("SESSION", |m| if m.status.ended { "ended" } else { "present" }.to_owned(), false),
            ("ENCODING", |m| text(m.status.encoding), true),
            ("MEMORY BYTES", |m| text(m.spec.memory.map(|r| r.length)), true),
        ]
    }

    fn name(&self) -> String {
        format!("member/{}/{}", text(&self.metadata.group), text(&self.metadata.metadata.name))
    }
}

impl Row for EventItem {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("TIME", time, false),
            ("CODE", |e| text(&e.code), false),
            ("NODE", |e| text(&e.node), false),
            ("GROUP", |e| text(&e.group), false),
            ("BRANCH", |e| text(e.branch), true),
            ("DETAIL", |e| text(&e.detail), false),
        ]
    }

    fn name(&self) -> String {
        format!("event/{}", self.sequence)
    }
}

impl Row for IncidentItem {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("ID", |i| text(&i.id), false),
            ("OPENED", |i| instant(i.opened_unix_ns), false),
            ("LASTED", lasted, false),
            ("SEVERITY", |i| text(&i.severity), false),
            ("CODE", |i| text(&i.of.code), false),
            ("OBJECT", |i| format!("{}/{}", text(&i.of.kind), text(&i.of.name)), false),
            ("AFFECTS", |i| text(i.affects.len()), false),
            ("REOPENED", |i| text(i.reopened), true),
            ("EVIDENCE", |i| text(i.evidence.first()), true),
        ]
    }

    fn name(&self) -> String {
        format!("incident/{}", text(&self.id))
    }
}

/// From opening to closing, in whole seconds.
fn lasted(of: &IncidentItem) -> String {
    of.closed_unix_ns.map_or_else(|| text(()), |closed| super::problems::ago(of.opened_unix_ns, closed))
}

impl Row for ProblemItem {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("ID", |p| text(&p.id), false),
            ("SEVERITY", |p| text(p.severity), false),
            ("CODE", |p| text(&p.code), false),
            ("OBJECT", |p| format!("{}/{}", text(p.object.kind), text(&p.object.name)), false),
            ("SINCE", |p| instant(p.since_unix_ns), false),
            ("CAUSED BY", |p| text(p.causes.first().map(|c| &c.id)), false),
            ("AFFECTS", |p| text(p.affects.len()), false),
            ("SILENCE", |p| text(p.silence.as_ref().map(|s| &s.name)), false),
            ("TIMES", |p| text(p.count), true),
            ("ENDS", |p| text(p.closing), true),
            ("EVIDENCE", |p| text(p.evidence.first()), true),
        ]
    }

    fn name(&self) -> String {
        format!("problem/{}", text(&self.id))
    }
}

/// `5m`: how long ago that was, in the largest unit that shows it.
pub(super) fn age(unix_ns: Option<u64>) -> String {
    let Some(at) = unix_ns else { return text(()) };
    let passed = (UNIX_EPOCH + Duration::from_nanos(at)).elapsed().unwrap_or_default().as_secs();
    match passed {
        0..120 => format!("{passed}s"),
        120..7_200 => format!("{}m", passed / 60),
        7_200..172_800 => format!("{}h", passed / 3_600),
        _ => format!("{}d", passed / 86_400),
    }
}

/// `5m ago by alice`.
pub(super) fn changed(metadata: &Metadata) -> String {
    match (age(metadata.written_unix_ns), &metadata.written_by) {
        (age, Some(by)) if metadata.written_unix_ns.is_some() => format!("{age} ago by {}", text(by.to_string())),
        _ => text(()),
    }
}

fn time(event: &EventItem) -> String {
    instant(event.time_unix_ns)
}

/// RFC 3339, UTC.
pub(super) fn instant(unix_ns: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_nanos(unix_ns);
    // Years beyond 9999 cannot be written: u64 nanoseconds end in 2554.
    humantime::format_rfc3339_millis(at).to_string()
}
