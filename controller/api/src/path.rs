// SPDX-License-Identifier: Apache-2.0
//! Paths by uSIDs of a pair of hosts, and what a captured header leads through.

use std::net::Ipv6Addr;

use canopy_controller_core::path;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ApiVersion, Kind, ListMetadata};

/// The paths by uSIDs from a host to another one, one page of them.
///
/// They are in an order in which each shares as little as it can with those before it. They follow from the topology: links that are out of
/// service, dead or lossy are marked, and their paths are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paths {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `Paths`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Start of the next page.
    pub metadata: ListMetadata,
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
    /// How the paths were found.
    pub method: PathMethod,
    /// How many paths there are; of more than 256, 256 are listed that are spread evenly over all.
    pub total: u64,
    /// Whether `from` may send path programs: `pathPrograms` of the host in the topology.
    #[serde(default)]
    pub permitted: bool,
    /// Whether every node that one of the paths leads over has reported that it forwards path programs of hosts.
    pub forwarded: bool,
    /// The paths of this page.
    pub items: Vec<PathItem>,
}

/// A path from a host to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathItem {
    /// The uSIDs of its program, each with its kind: `uN 0x0001`.
    pub program: Vec<String>,
    /// Destination Address of the source's outer header.
    #[schema(value_type = String)]
    pub destination: Ipv6Addr,
    /// Segment List of its SRH in the order of the wire; empty: there is no SRH.
    #[schema(value_type = Vec<String>)]
    pub segments: Vec<Ipv6Addr>,
    /// Segments Left of its SRH.
    pub segments_left: u8,
    /// Octets that the outer header adds to a packet.
    pub overhead: u64,
    /// The largest packet that the path carries behind the outer header.
    pub mtu: u32,
    /// What the path does not share with any path before it; `null`: it is the first one.
    pub disjoint: Option<PathDisjoint>,
    /// Why the edge of `from` refuses this program, also of a host that may send programs; `null`: it does not.
    #[serde(default)]
    pub refused: Option<String>,
    /// No link of it is out of service, dead or lossy.
    pub sound: bool,
    /// The links in order, those of the hosts with them.
    pub links: Vec<PathLink>,
}

/// A link of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathLink {
    /// Its two ends.
    pub link: String,
    /// The device that the path comes from.
    pub from: String,
    /// Destination Address of packets on it; `null`: they have no outer header there.
    #[schema(value_type = Option<String>)]
    pub destination: Option<Ipv6Addr>,
    /// An operator has taken it out of service.
    pub drained: bool,
    /// It carries nothing.
    pub dead: bool,
    /// Packets of a thousand that it loses; `null`: it is not known to lose any.
    pub lossy_permille: Option<u16>,
}

/// How paths were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PathMethod {
    /// All shortest up-down paths of a Clos.
    UpDown,
    /// At most 16 paths by a heuristic.
    Detours,
}

/// What a path does not share with any path before it. What a host has one of, its link and its edge, does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PathDisjoint {
    /// Not even the plane.
    Plane,
    /// No node.
    Node,
    /// No link.
    Link,
    /// It shares a link.
    Not,
}

/// Which uSIDs name a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PathStyle {
    /// The uN of every node, and the uA of a link next to which there are others.
    Nodes,
    /// The uA of every link.
    Links,
}

impl From<PathStyle> for path::Style {
    fn from(style: PathStyle) -> Self {
        match style {
            PathStyle::Nodes => Self::Nodes,
            PathStyle::Links => Self::Links,
        }
    }
}

impl Paths {
    /// The page of `limit` paths behind the first `after`, and the number of paths up to its end if others follow.
    pub fn page(from: String, to: String, of: path::PathsView, after: usize, limit: usize) -> (Self, Option<usize>) {
        let end = after.saturating_add(limit);
        let next = (end < of.list.len()).then_some(end);
        let method = match of.method {
            path::Method::UpDown => PathMethod::UpDown,
            path::Method::Detours => PathMethod::Detours,
        };
        let items = of.list.into_iter().skip(after).take(limit).map(Into::into).collect();
        let (api_version, kind, metadata) = (ApiVersion, Kind::Paths, ListMetadata::default());
        let (total, permitted, forwarded) = (of.total, of.permitted, of.forwarded);
        (Self { api_version, kind, metadata, from, to, method, total, permitted, forwarded, items }, next)
    }
}

impl From<path::PathView> for PathItem {
    fn from(view: path::PathView) -> Self {
        let sound = view.is_sound();
        let overhead = view.header.overhead().get();
        let path::PathView { header, program, links, mtu, disjoint, refused } = view;
        let refused = refused.map(|why| why.to_string());
        let disjoint = disjoint.map(|class| match class {
            path::Disjoint::Plane => PathDisjoint::Plane,
            path::Disjoint::Node => PathDisjoint::Node,
            path::Disjoint::Link => PathDisjoint::Link,
            path::Disjoint::Not => PathDisjoint::Not,
        });
        let link = |path::PathLink { link, from, destination, marks }| {
            let path::LinkMarks { drained, dead, lossy_permille } = marks;
            PathLink { link, from, destination, drained, dead, lossy_permille }
        };
        let path::Header { destination, segments, segments_left } = header;
        let links = links.into_iter().map(link).collect();
        Self { program, destination, segments, segments_left, overhead, mtu, disjoint, refused, sound, links }
    }
}

/// What a captured header leads through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecodedPath {
    /// `canopy/v1`.
    #[schema(value_type = String)]
    pub api_version: ApiVersion,
    /// `DecodedPath`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// Whether every node of the steps has reported that it forwards by path SIDs.
    pub forwarded: bool,
    /// The uSIDs in order, as far as they were understood.
    pub steps: Vec<DecodedStep>,
    /// Where the program ends; `null`: see `error`.
    pub end: Option<DecodedEnd>,
    /// What no node can carry out, with its place; empty otherwise.
    pub error: String,
}

/// A uSID that was understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecodedStep {
    /// Where it is in the header.
    pub place: String,
    /// The uSID, with its kind.
    pub usid: String,
    /// The node that carries it out.
    pub node: String,
    /// The link that it leads over: to the node for a uN, away from it for a uA; `null`: over none.
    pub link: Option<String>,
}

/// Where a program ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecodedEnd {
    /// What happens to the packet.
    pub action: DecodedAction,
    /// The node.
    pub node: String,
    /// The link that the inner packet leaves by; `null`: by the node's routes.
    pub link: Option<String>,
    /// The host or node at the far end of that link.
    pub to: Option<String>,
    /// The service's uSID.
    pub service: Option<u16>,
    /// The tree of End.Replicate.
    pub tree: Option<u32>,
}

/// What happens at the end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum DecodedAction {
    /// The node removes the header and forwards the inner packet by its routes.
    Decapsulate,
    /// The node removes the header and sends the inner packet out of a port.
    Deliver,
    /// A service of the node has the inner packet.
    Service,
    /// End.MT: the node sends the packet of a group to its receivers.
    EndMt,
    /// End.Replicate: the node copies the packet along a tree.
    Replicate,
}

impl From<path::DecodedView> for DecodedPath {
    fn from(view: path::DecodedView) -> Self {
        let step = |path::DecodedStep { place, usid, node, link }| DecodedStep { place, usid, node, link };
        let (end, error) = match view.end {
            Ok(end) => (Some(end.into()), String::new()),
            Err(error) => (None, error),
        };
        let (steps, forwarded) = (view.steps.into_iter().map(step).collect(), view.forwarded);
        Self { api_version: ApiVersion, kind: Kind::DecodedPath, forwarded, steps, end, error }
    }
}

impl From<path::DecodedEnd> for DecodedEnd {
    fn from(end: path::DecodedEnd) -> Self {
        use path::DecodedEnd as Of;
        let at = |action, node| Self { action, node, link: None, to: None, service: None, tree: None };
        match end {
            Of::Node { node } => at(DecodedAction::Decapsulate, node),
            Of::Port { node, to, link } => Self { link: Some(link), to: Some(to), ..at(DecodedAction::Deliver, node) },
            Of::Service { node, usid } => Self { service: Some(usid), ..at(DecodedAction::Service, node) },
            Of::EndMt { node } => at(DecodedAction::EndMt, node),
            Of::Replicate { node, tree } => Self { tree: Some(tree), ..at(DecodedAction::Replicate, node) },
        }
    }
}
