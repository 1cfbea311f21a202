// SPDX-License-Identifier: Apache-2.0
//! Paths of a pair of hosts, and captured headers, with the names of the topology.

use std::net::Ipv6Addr;

pub use canopy_paths::host::Refused;
pub use canopy_paths::pair::{Disjoint, Method};
pub use canopy_paths::path::Style;
pub use canopy_paths::program::Header;

/// The paths of a pair of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathsView {
    /// Those that were chosen, at most [`canopy_paths::pair::MAX_PATHS`], in an order in which each shares little with those before it.
    pub list: Vec<PathView>,
    /// How many there are.
    pub total: u64,
    /// How they were found.
    pub method: Method,
    /// The source may send path programs.
    pub permitted: bool,
    /// Every node that one of them leads over has reported that it forwards path programs of hosts.
    pub forwarded: bool,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathView {
    /// The source's header.
    pub header: Header,
    /// The uSIDs of its program.
    pub program: Vec<String>,
    /// The links in order: that of the source, those between nodes, that of the destination.
    pub links: Vec<PathLink>,
    /// The largest packet that the path carries behind the header.
    pub mtu: u32,
    /// What it does not share with any path before it; `None`: the first one.
    pub disjoint: Option<Disjoint>,
    /// Why the edge of the source refuses the program of a host; `None`: it lets it in, if the host may send programs.
    pub refused: Option<Refused>,
}

impl PathView {
    /// No link of it is out of service, dead or lossy.
    pub fn is_sound(&self) -> bool {
        self.links.iter().all(|link| link.marks == LinkMarks::default())
    }
}

/// A link of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathLink {
    /// `device/port--device/port`, as in the topology.
    pub link: String,
    /// The device that the path comes from.
    pub from: String,
    /// The destination address of packets on it; `None`: they have no outer header there.
    pub destination: Option<Ipv6Addr>,
    /// What is wrong with it.
    pub marks: LinkMarks,
}

/// Why a link is avoided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkMarks {
    /// An operator has taken it out of service.
    pub drained: bool,
    /// It carries nothing.
    pub dead: bool,
    /// It loses packets: so many of a thousand, the worse end's.
    pub lossy_permille: Option<u16>,
}

/// What a captured header leads through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedView {
    /// As far as it was understood.
    pub steps: Vec<DecodedStep>,
    /// Where the program ends, or what no node can carry out, with its place.
    pub end: Result<DecodedEnd, String>,
    /// Every node of the steps has reported that it forwards by path SIDs.
    pub forwarded: bool,
}

/// A uSID that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedStep {
    /// Where it is in the header.
    pub place: String,
    /// The uSID.
    pub usid: String,
    /// The node that carries it out.
    pub node: String,
    /// The link that it leads over.
    pub link: Option<String>,
}

/// Where a program ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedEnd {
    /// The node removes the header and forwards the inner packet by its routes.
    Node {
        /// The node.
        node: String,
    },
    /// The node removes the header and sends the inner packet to a device.
    Port {
        /// The node.
        node: String,
        /// The host or node that has it next.
        to: String,
        /// The link.
        link: String,
    },
    /// A service of the node has the inner packet.
    Service {
        /// The node.
        node: String,
        /// The service's uSID.
        usid: u16,
    },
    /// End.MT of the node.
    EndMt {
        /// The node.
        node: String,
    },
    /// End.Replicate of the node.
    Replicate {
        /// The node.
        node: String,
        /// The tree.
        tree: u32,
    },
}
