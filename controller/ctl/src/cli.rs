// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod ca;
mod certificate;
mod change_set;
mod check;
mod history;
mod identity;
mod log_level;
mod maintenance;
mod route;
mod session;
mod token;
mod upgrade;

pub use ca::{CaAction, CaArgs, LossArgs};
pub use certificate::{CertificateAction, CertificateArgs};
pub use change_set::{ChangeSetAction, ChangeSetArgs};
pub use check::{CheckArgs, CheckOutput, MachineRole, PreArgs};
pub use history::{AuditAction, AuditArgs, Audited, DiffArgs, HistoryArgs, UndoArgs, Versioned, VersionedArgs};
pub use identity::{IdentityAction, IdentityArgs, NodeAction, NodeArgs, RetireArgs, RetireOutput};
pub use log_level::{LogLevelAction, LogLevelArgs};
pub use maintenance::{AckArgs, DrainArgs, Drainable, SilenceArgs, Silenced, UndrainArgs, UnsilenceArgs};
pub use route::RouteArgs;
pub use session::{SessionAction, SessionArgs};
pub use token::{TokenAction, TokenArgs};
pub use upgrade::{PlanOutput, UpgradeAction, UpgradeArgs};

/// Canopy's command line: RDMA multicast groups over SRv6.
#[derive(Parser)]
#[command(
    name = "canopyctl",
    version,
    after_help = "Exit codes: 0 done; 1 the controller refused or cannot be reached; 2 wrong usage or unreadable file; \
3 not found; 4 conflict (exists already, or changed meanwhile); 5 timed out."
)]
pub struct Cli {
    /// Address of the controller: unix:/path, http://host:port of this machine, or https://host:port [env: CANOPY_SERVER] [default: unix:/run/canopy/rest.sock if there is one, else http://127.0.0.1:8640].
    #[arg(long, global = true)]
    pub server: Option<String>,
    /// Named server, instead of --server: see `context` [env: CANOPY_CONTEXT]. A flag is before a variable, and that before `context use`.
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// File with a token to send, which only you can read; without one you are the user that runs this command: see `token` [env: CANOPY_TOKEN_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with a certificate to show to an https server and its key, which only you can read: see `certificate` [env: CANOPY_CERTIFICATE_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    pub certificate_file: Option<PathBuf>,
    /// Hash of the controller's authority, by which an https server is recognized, as `token create` prints it [env: CANOPY_AUTHORITY].
    #[arg(long, global = true, value_name = "HASH")]
    pub authority: Option<String>,
    /// Make changes a part of this pending commit: see `commit`.
    #[arg(long, global = true, env = "CANOPY_COMMIT", value_name = "ID")]
    pub commit: Option<String>,
    /// Change groups and the topology although another writer, such as Kubernetes, manages them; they have no manager from then on.
    #[arg(long, global = true)]
    pub take_over: bool,
    /// Command to execute.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Subcommand)]
pub enum Command {
    /// Create or change resources from files; all are checked before the first is applied.
    Apply(ApplyArgs),
    /// List resources, or show one.
    Get(GetArgs),
    /// Show the domain on one screen: what is wrong first, with the cause and what to do.
    Status(StatusArgs),
    /// Check that controller, store, agents, links and groups work, as far as the controller can see; with --pre, that this machine can run Canopy.
    #[command(
        after_help = "Exit codes: 0 every check is ok; 1 a check fails or cannot be made; 5 the same, after the time of --wait."
    )]
    Check(CheckArgs),
    /// Show in which order controller and agents are upgraded.
    Upgrade(UpgradeArgs),
    /// Show why a group, link, node or host does not work as it should.
    Why(WhyArgs),
    /// Show the receivers that the source of a group waits for, with their shares of the last 5 to 10 s.
    Top(TopArgs),
    /// Capture one packet of a group at every hop, and show its headers and what each node changed in them.
    ///
    /// Frames are captured up to the end of their BTH, at most 192 octets: never the payload, and no R_Key.
    Packet(PacketArgs),
    /// Show which nodes and links a captured address with uSIDs leads through, at the source or at any hop.
    Decode(DecodeArgs),
    /// Print the routes of Linux with which one host sends to another along a path of uSIDs; run it on the host that sends.
    Route(RouteArgs),
    /// Print what a problem's code means and what to do, or what a field of a resource is; without an argument, list all codes.
    Explain {
        /// Code, as in `get problems`; or a kind with or without fields, as in group.spec.pathMtu.
        #[arg(value_name = "CODE|KIND[.FIELD]")]
        what: Option<String>,
    },
    /// Show a group, node, link, host or drain in full, with its datapath counters.
    Describe(DescribeArgs),
    /// Show what files, or an earlier version of a resource, would change, and what that would do to nodes, groups and paths.
    Diff(DiffArgs),
    /// Draw what was measured of a group, branch, link, node or the fleet over the last minutes or hours.
    Chart(ChartArgs),
    /// Show the versions of a resource, and who wrote them.
    History(HistoryArgs),
    /// Put an earlier version of a resource back into force; of a deleted one, its last.
    Undo(UndoArgs),
    /// Show who wrote what, the newest first.
    Audit(AuditArgs),
    /// Delete resources.
    Delete(DeleteArgs),
    /// Take a link or node out of service: trees leave it without loss where another path exists.
    Drain(DrainArgs),
    /// Put a link or node back into service.
    Undrain(UndrainArgs),
    /// Acknowledge a problem: it is listed behind the others and raises no alert until it ends.
    Ack(AckArgs),
    /// Silence the problems of an object under maintenance, or one problem: they are listed behind the others and raise no alert.
    Silence(SilenceArgs),
    /// End a silence: its problems raise alerts again.
    Unsilence(UnsilenceArgs),
    /// Wait until a group reaches a state.
    Wait(WaitArgs),
    /// Show, confirm, cancel or extend a confirmed commit: changes that are taken back unless they are confirmed in time.
    Commit(CommitArgs),
    /// List change sets, show how far one is, or take one back: `apply` sends many resources as one.
    ChangeSet(ChangeSetArgs),
    /// Show or rotate the keys of the SRH HMAC TLV.
    Hmac(HmacArgs),
    /// Show or replace the authority that signs the certificates of agents.
    Ca(CaArgs),
    /// Enroll the agent of a node that connects over TLS, revoke its certificates, or let a node leave for good.
    Node(NodeArgs),
    /// Enroll the agent of a host, or revoke its certificates.
    Host(IdentityArgs),
    /// Make, list, rotate and revoke tokens, which programs and other machines send instead of being a user of the controller's machine.
    Token(TokenArgs),
    /// Certificates by which operators are known at an https address, instead of tokens: 12 hours at most, and the key stays where it was made.
    Certificate(CertificateArgs),
    /// List and end sessions of the web UI.
    Session(SessionArgs),
    /// Show who you are for the controller, and what you may do.
    Whoami,
    /// Set what an agent or the controller logs for a while; then its configuration decides again.
    LogLevel(LogLevelArgs),
    /// Open the web UI in a browser, signed in as you.
    ///
    /// The controller makes a code that works once, within a minute; the browser exchanges it for a session of at most 12 h, which ends with the controller.
    /// Where a browser cannot use the controller's address, a Unix socket or https, this command serves the UI at 127.0.0.1 and forwards to it until it is interrupted.
    /// The same session works at /docs, where every operation of the REST API is described and can be tried out.
    Ui(UiArgs),
    /// Named servers, in canopy/contexts.yaml below the user's configuration directory.
    Context(ContextArgs),
    /// Print the names of a kind that begin with a prefix, for completion.
    #[command(hide = true)]
    Names {
        /// Kind, singular or plural.
        kind: String,
        /// Beginning of the names.
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Print a completion script; that of bash also completes names of groups, nodes, links, hosts and drains.
    Completion {
        /// Shell to print the script for.
        shell: clap_complete::Shell,
    },
    /// Print the versions of this program and of the controller.
    Version,
}

/// Arguments of `context`.
#[derive(Args)]
pub struct ContextArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: ContextAction,
}

/// What to do with named servers.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ContextAction {
    /// List them; * is the one that is used.
    List,
    /// Use this one if neither a flag nor a variable names a server.
    Use {
        /// Its name.
        name: String,
    },
    /// Add or change one; the first is used from then on.
    Set {
        /// Its name.
        name: String,
        /// Its address: unix:/path, http://host:port or https://host:port.
        #[arg(value_name = "SERVER")]
        address: String,
        /// Hash of its authority, where the address is https.
        #[arg(long = "with-authority", value_name = "HASH")]
        authority: Option<String>,
        /// File with the token to send to it.
        #[arg(long = "with-token", value_name = "FILE")]
        token: Option<PathBuf>,
        /// File with the certificate to show to it; it is recognized by that, too.
        #[arg(long = "with-certificate", value_name = "FILE")]
        certificate: Option<PathBuf>,
    },
    /// Forget one.
    Delete {
        /// Its name.
        name: String,
    },
}

/// Arguments of `commit`.
#[derive(Args)]
pub struct CommitArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: CommitAction,
}

/// What to do with confirmed commits. At most one is pending in a domain; meanwhile other changes of operators are refused.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum CommitAction {
    /// Show the pending commit and whether it can be taken back, or how the last one ended.
    Status {
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Report,
    },
    /// Begin one, for changes by other commands with --commit or CANOPY_COMMIT; prints its id. `apply --confirm` does it all.
    Begin {
        /// Time until it is rolled back unless it is confirmed, 1s to 24h.
        #[arg(long, value_parser = humantime::parse_duration)]
        confirm: Duration,
    },
    /// Keep the changes. Without ID: of the pending one, if you have begun it.
    Confirm {
        /// Its id.
        id: Option<String>,
    },
    /// Take the changes back now. Without ID: of the pending one, if you have begun it.
    Cancel {
        /// Its id.
        id: Option<String>,
    },
    /// Give it another time from now.
    Extend {
        /// Time from now, 1s to 24h.
        #[arg(value_parser = humantime::parse_duration)]
        time: Duration,
        /// Its id; without it, the pending one, if you have begun it.
        id: Option<String>,
    },
}

/// Arguments of `ui`.
#[derive(Args)]
pub struct UiArgs {
    /// Print the address, to be opened on this machine, instead of opening it. It contains the code.
    #[arg(long)]
    pub print: bool,
    /// Port of 127.0.0.1 to serve at, where a browser cannot use the controller's address; 0 selects a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// Arguments of `chart`.
#[derive(Args)]
pub struct ChartArgs {
    /// fleet, group/G, branch/G/NODE/ADDRESS, link/NODE/PORT or node/NODE.
    #[arg(required_unless_present = "incident")]
    pub object: Option<String>,
    /// Only this series, such as bytes, goodput or outstanding.
    pub series: Option<String>,
    /// How long ago it starts, for example 30m; 5m if absent. Older than 5m has steps of 10s; older than 1h only the fleet.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub from: Option<Duration>,
    /// Time per point, for example 10s.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub step: Option<Duration>,
    /// Draw what was saved around the opening of a problem; `get incidents` has the names.
    #[arg(long, value_name = "ID", conflicts_with_all = ["object", "series", "from", "step"])]
    pub incident: Option<String>,
    /// Print the API's JSON.
    #[arg(long)]
    pub json: bool,
    /// Draw with plain ASCII; the default where the locale is not UTF-8.
    #[arg(long)]
    pub ascii: bool,
}

/// Arguments of `hmac`.
#[derive(Args)]
pub struct HmacArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: HmacAction,
}

/// What to do with the keys of the SRH HMAC TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum HmacAction {
    /// Show the phase, the identifiers of the keys, and the nodes that have not confirmed.
    Status,
    /// Begin to replace the key; the steps follow by themselves once every node has confirmed.
    Rotate,
}

/// Arguments of `apply`.
#[derive(Args)]
pub struct ApplyArgs {
    /// YAML or JSON with Topology, Drain, Silence, Group and Member resources; - is standard input.
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// Only check the files.
    #[arg(long)]
    pub dry_run: bool,
    /// Put the drains, groups and silences of the files into this set: they get the label canopy/set. A resource of another set is refused.
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
    /// Delete what the set has and the files no longer have, once all of them are applied; --dry-run shows what that does.
    #[arg(long, requires = "set")]
    pub prune: bool,
    /// Take everything back unless `canopyctl commit confirm` follows within this time, 1s to 24h; if a resource is refused, at once.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "dry_run")]
    pub confirm: Option<Duration>,
}

/// Arguments of `status`.
#[derive(Args)]
pub struct StatusArgs {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
}

/// Arguments of `why`.
#[derive(Args)]
pub struct WhyArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Questionable,
    /// Name; a link's is `a--b` or one of its ports, n1/eth1.
    pub name: String,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Report,
}

/// Arguments of `top`.
#[derive(Args)]
pub struct TopArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Countable,
    /// The group's name.
    pub name: String,
    /// Number of receivers, 1..=1000.
    #[arg(short, long, default_value = "10")]
    pub limit: Option<usize>,
    /// The receivers that the source waited for over the last 5 minutes, 5 s in a character.
    #[arg(long)]
    pub strip: bool,
    /// Read again every 2 s until interrupted.
    #[arg(short, long)]
    pub watch: bool,
    /// The API's JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `packet`.
#[derive(Args)]
pub struct PacketArgs {
    /// The group's name.
    pub group: String,
    /// PSN of the packet, as the source sends it; without it, one that the source is about to send.
    #[arg(long)]
    pub psn: Option<u32>,
    /// How long to wait for a packet, for example 15s. One capture waits for 5s; without --psn others follow while the source sends.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// Show what the packet has to be at every place, from the programs of the nodes; nothing is captured.
    #[arg(long, conflicts_with_all = ["psn", "pcapng"])]
    pub expected: bool,
    /// Write the frames to this file as pcapng, with an interface for each node, port and direction.
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<std::path::PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: PacketOutput,
}

/// Formats of `packet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PacketOutput {
    /// For a terminal.
    #[default]
    Text,
    /// The API's JSON.
    Json,
}

/// Kinds of `top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Countable {
    /// The receivers of a group.
    Group,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Report {
    /// For a terminal.
    #[default]
    Text,
    /// For the channel of an incident.
    Markdown,
    /// The API's JSON.
    Json,
}

/// Kinds that `why` answers about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Questionable {
    /// A multicast group with its members.
    Group,
    /// A link.
    Link,
    /// A forwarding node with its ports and links.
    Node,
    /// A host in all its groups.
    Host,
}

/// Kinds that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Resource {
    /// The network.
    Topology,
    /// Links and nodes that are out of service.
    #[value(alias = "drain")]
    Drains,
    /// Problems that operators know of.
    #[value(alias = "silence")]
    Silences,
    /// Forwarding nodes.
    #[value(alias = "node")]
    Nodes,
    /// Link directions with their queues and queue thresholds; a direction is named by the sending port: n1/eth1.
    #[value(alias = "link")]
    Links,
    /// Hosts with their port and how many groups they send to and receive from.
    #[value(alias = "host")]
    Hosts,
    /// Flows through the nodes' ports in descending order of rate; NAME is a node or its port: n1/eth1.
    #[value(alias = "flow")]
    Flows,
    /// Paths by uSIDs from a host to another one: get paths FROM TO.
    #[value(alias = "path")]
    Paths,
    /// Multicast groups.
    #[value(alias = "group")]
    Groups,
    /// Members of a group (-g).
    #[value(alias = "member")]
    Members,
    /// Tenants, with what they have and may have.
    #[value(alias = "tenant")]
    Tenants,
    /// The controller: its version, store, and the times of its commits.
    #[value(alias = "controller")]
    Controllers,
    /// Recent events.
    #[value(alias = "event")]
    Events,
    /// What is wrong: causes first, the worst first.
    #[value(alias = "problem")]
    Problems,
    /// Problems that opened, the newest first, also those that have closed since; NAME is the id of a problem.
    #[value(alias = "incident")]
    Incidents,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// The API's JSON.
    Json,
    /// The API's resources as YAML; can be applied again.
    Yaml,
    /// One kind/name per line.
    Name,
}

/// Arguments of `get`.
#[derive(Args)]
pub struct GetArgs {
    /// Kind to list.
    #[arg(value_enum)]
    pub resource: Resource,
    /// Name of a single resource; of paths, the source.
    pub name: Option<String>,
    /// The destination of paths.
    pub to: Option<String>,
    /// Group whose members or events are listed.
    #[arg(short, long)]
    pub group: Option<String>,
    /// Node whose events are listed.
    #[arg(long)]
    pub node: Option<String>,
    /// Only events within this time, for example 2h, also of before the controller started.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub within: Option<Duration>,
    /// Only groups, nodes or drains with these labels: key=value, key!=value, 'key in (a,b)', 'key notin (a,b)', key or '!key', separated by commas.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Only those with these fields: field=value,field!=value. Groups have name, phase, source and tenant; nodes connected, name, state and
    /// synced; hosts name, node and port; links drained, link, name, node, queue, state and to; drains link, name and node; problems code, kind, name, root and
    /// severity.
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// Only groups in this phase: Pending, Programming, Ready, Stalled, Unknown, Degraded or Failed.
    #[arg(long)]
    pub phase: Option<String>,
    /// Print the present state, then a row per change, until interrupted: groups, nodes, drains, problems and events.
    #[arg(short, long)]
    pub watch: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Arguments of `decode`.
#[derive(Args)]
pub struct DecodeArgs {
    /// Destination address of a captured packet.
    pub address: Ipv6Addr,
    /// Segment List of its SRH in the order of the wire, separated by commas.
    #[arg(long, value_name = "ADDRESS,...")]
    pub segments: Option<String>,
    /// Segments Left of its SRH.
    #[arg(long, value_name = "N")]
    pub segments_left: Option<u8>,
    /// Node that it was captured at; required if the first uSID is a uA.
    #[arg(long, value_name = "NODE")]
    pub at: Option<String>,
    /// The API's JSON.
    #[arg(long)]
    pub json: bool,
}

/// Kinds that can be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Describable {
    /// A multicast group.
    Group,
    /// A forwarding node.
    Node,
    /// A link direction, by its sending port: n1/eth1.
    Link,
    /// A link or node that is out of service.
    Drain,
    /// A host with its groups.
    Host,
}

/// Arguments of `describe`.
#[derive(Args)]
pub struct DescribeArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Describable,
    /// Name.
    pub name: String,
}

/// Kinds that can be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Deletable {
    /// The topology; no group may have members.
    Topology,
    /// A group with its memberships.
    Group,
    /// A membership; NAME is the host, -g the group.
    Member,
    /// A drain: what it took out of service returns.
    Drain,
    /// A silence: its problems raise alerts again.
    Silence,
}

/// Arguments of `delete`.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["kind", "files"]))]
pub struct DeleteArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Option<Deletable>,
    /// Name; a member's is its host.
    #[arg(requires = "kind")]
    pub name: Option<String>,
    /// The group that the member leaves.
    #[arg(short, long, requires = "kind")]
    pub group: Option<String>,
    /// Delete the resources in these files, members first.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<String>,
    /// Treat resources that do not exist as deleted.
    #[arg(long)]
    pub ignore_not_found: bool,
    /// Do not wait until the members of a large group are removed: the controller removes them all the same.
    #[arg(long)]
    pub no_wait: bool,
}

/// Kinds that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Waitable {
    /// A multicast group.
    Group,
}

/// States to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// Every node read the group's state back from its kernel.
    Ready,
    /// The group does not exist any more.
    Deleted,
}

/// Arguments of `wait`.
#[derive(Args)]
pub struct WaitArgs {
    /// Kind.
    #[arg(value_enum)]
    pub kind: Waitable,
    /// Name.
    pub name: String,
    /// State to wait for.
    #[arg(long = "for", value_enum, default_value = "ready")]
    pub until: Until,
    /// Timeout, for example 30s or 2m.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_valid_and_documents_its_exit_codes() {
        Cli::command().debug_assert();
        let help = Cli::command().render_help().to_string();
        assert!(help.contains("Exit codes") && help.contains("CANOPY_SERVER"), "{help}");
        for good in [
            "get groups",
            "get group g1 -o yaml",
            "get groups -l !a --phase Stalled",
            "get hosts --field-selector node=n4,port!=Up",
            "get members -g g1",
            "get links",
            "hmac status",
            "status",
            "status -o markdown",
            "why group g",
            "why link n1/eth1 -o markdown",
            "explain",
            "explain LinkDown",
            "explain group.spec.pathMtu",
            "drain link n1/eth1 -r optics --wait 2m",
            "drain node n4 --reason kernel --accept-loss --dry-run",
            "drain link n1/eth1 -r optics --for 2h",
            "drain link n1/eth1 -r optics --until 2026-11-26T18:00:00Z",
            "describe drain n1-eth1",
            "check",
            "check --wait 2m -o json",
            "check --pre",
            "check --pre --role node --interface eth1 --interface eth2 --mtu 9000 -o json",
            "check --pre --role controller --state-dir /srv/canopy --port 8641",
            "upgrade plan",
            "upgrade plan --to 0.2.0 --batch 5 -o json",
            "get hosts -o wide",
            "describe host r1",
            "undrain n4",
            "get drains",
            "get controllers -o wide",
            "get problems",
            "get events -g g1 -w",
            "hmac rotate",
            "ca status",
            "ca rotate",
            "ca issue",
            "ca finish --accept-loss node/n4 --accept-loss host/r1",
            "ca cancel",
            "node enroll n4",
            "node revoke n4",
            "host enroll r1",
            "get flows n1/eth1 -o wide",
            "describe link n1/eth1",
            "wait group g --for deleted --timeout 2m",
            "delete -f x",
            "apply -f a -f b --dry-run",
            "apply -f a --confirm 5m",
            "commit status",
            "commit begin --confirm 10m",
            "commit confirm",
            "commit cancel 0123456789abcdef",
            "commit extend 10m",
            "--commit 0123456789abcdef undrain n4",
            "diff -f a",
            "diff group g --to 3",
            "history topology",
            "history group g -o json",
            "undo drain n4 --dry-run",
            "audit --kind group --name g -n 7",
            "ui",
            "ui --print",
            "context list",
            "context set lab unix:/run/c.sock",
            "--context lab status",
        ] {
            Cli::try_parse_from(["canopyctl"].into_iter().chain(good.split(' ')))
                .unwrap_or_else(|e| panic!("{good}: {e}"));
        }
        for bad in [
            "get pods",
            "upgrade",
            "upgrade plan --to two",
            "upgrade plan --batch 0",
            "apply",
            "apply -f a --confirm 5m --dry-run",
            "commit extend",
            "delete",
            "delete group g -f x",
            "drain link n1/eth1",
            "drain link n1/eth1 -r optics --for 2h --until 2026-11-26T18:00:00Z",
            "drain link n1/eth1 -r optics --for ever",
            "wait group g --timeout soon",
            "describe",
            "diff",
            "diff group g -f x",
            "undo member r1",
            "audit -n 0",
            "audit --kind pod",
        ] {
            assert!(Cli::try_parse_from(["canopyctl"].into_iter().chain(bad.split(' '))).is_err(), "{bad}");
        }
    }
}
