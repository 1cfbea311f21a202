// SPDX-License-Identifier: Apache-2.0
//! What a captured header leads through, at the source or at any hop behind it: decoded as nodes carry it out, strictly (decisions 5.1).
//!
//! A uN leads over the direct link to its node, or is that of the node that has the packet. A uA leads over the link of a port of that node.
//! The last uSID decides what happens to the inner packet.

use std::fmt;
use std::net::Ipv6Addr;

use canopy_model::addressing::{FUNCTION_END_MT, FUNCTION_REPLICATE};
use canopy_model::ids::{NodeId, PortIndex, ServiceId, TreeId};
use canopy_model::usid::{NotAUsid, SLOTS, Usid, UsidBlock};

use crate::fabric::{Fabric, NodeIx, Port, PortOf};
use crate::program::Header;

/// A uSID of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index in the Segment List; `None`: it is in the Destination Address.
    pub segment: Option<u8>,
    /// Behind the block, from 1.
    pub slot: u8,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.segment {
            None => write!(f, "uSID {} of the destination address", self.slot),
            Some(segment) => write!(f, "uSID {} of Segment List[{segment}]", self.slot),
        }
    }
}

/// A uSID that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it is.
    pub place: Place,
    /// The uSID.
    pub usid: Usid,
    /// The node that carries it out.
    pub node: NodeId,
    /// The link that it leads over: to the node for a uN, away from it for a uA.
    pub crossing: Option<Crossing>,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The port by which it leaves a node.
    pub from: PortOf,
    /// The node that it leads to.
    pub to: NodeId,
    /// Place of the link in the list that the fabric was made of.
    pub link: usize,
}

/// Where a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The node removes the header and forwards the inner packet by its routes.
    Node(NodeId),
    /// The node removes the header and sends the inner packet out of a port.
    Port {
        /// The port.
        port: PortOf,
        /// Place of its link in the list that the fabric was made of.
        link: usize,
        /// The node at its far end; `None`: a host.
        to: Option<NodeId>,
    },
    /// A service of the node has the inner packet.
    Service(NodeId, ServiceId),
    /// End.MT: the node has the packet of a multicast group for its receivers.
    EndMt(NodeId),
    /// End.Replicate: the node copies the packet along a tree.
    Replicate(NodeId, TreeId),
}

/// Why a packet is dropped at a place, or why nothing can be stated about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The address is not of this domain.
    #[error("{0} is outside the SRv6 block {1}")]
    OutsideBlock(Ipv6Addr, UsidBlock),
    /// No uSID at all.
    #[error("the address has no uSID behind the block")]
    NoUsid,
    /// 0 before the last uSID.
    #[error("0 before other uSIDs: no node has this SID")]
    Gap,
    /// A value without a meaning.
    #[error("{0}")]
    Reserved(NotAUsid),
    /// A uN of no node.
    #[error("no node has the uN {0:#06x}")]
    UnknownNode(u16),
    /// No link leads to the node of a uN.
    #[error("no link leads from node {0} to node {1}, and a uN leads over the direct link only")]
    NotConnected(NodeId, NodeId),
    /// Several links lead to the node of a uN.
    #[error("{2} links lead from node {0} to node {1}: a uN does not name one of them, a uA does")]
    Parallel(NodeId, NodeId, usize),
    /// A uA of no port.
    #[error("node {node} has no port {port}, which the uA {usid:#06x} names", node = .0.node, port = .0.port, usid = Usid::Adjacency(.0.port).get())]
    UnknownPort(PortOf),
    /// A local uSID at a node that is not known.
    #[error("{0} means another thing at each node: name the node that the packet was captured at")]
    Where(Usid),
    /// uSIDs behind a uA that leads to a host.
    #[error("port {port} of node {node} leads to a host, and other uSIDs follow", node = .0.node, port = .0.port)]
    BehindHost(PortOf),
    /// A service that is not behind the uN of its edge.
    #[error("{0} is not behind the uN of its edge: no node has this SID")]
    ServiceAlone(Usid),
    /// uSIDs behind a service.
    #[error("{0} ends a program, and other uSIDs follow")]
    BehindService(Usid),
    /// Segments Left exceeds the list.
    #[error("Segments Left is {0}, and the Segment List has {1} segments")]
    SegmentsLeft(u8, usize),
    /// The node where a packet was captured is not of the fabric.
    #[error("there is no node {0}")]
    NoSuchNode(NodeId),
}

/// A place, and what is wrong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct DecodeError {
    /// The place.
    pub place: Place,
    /// The problem.
    pub problem: Problem,
}

/// What a header leads through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// As far as it was understood.
    pub steps: Vec<Step>,
    /// Where it ends, or why it does not.
    pub end: Result<End, DecodeError>,
}

/// Decodes a header that was captured at node `at`, or on a link towards the node of its first uSID, or at the source.
pub fn decode(fabric: &Fabric, header: &Header, at: Option<NodeId>) -> Decoded {
    let mut walk = Walk { fabric, at: None, steps: Vec::new() };
    let end = walk.run(header, at);
    Decoded { steps: walk.steps, end }
}

struct Walk<'a> {
    fabric: &'a Fabric,
    at: Option<NodeIx>,
    steps: Vec<Step>,
}

impl Walk<'_> {
    fn run(&mut self, header: &Header, at: Option<NodeId>) -> Result<End, DecodeError> {
        let start = Place { segment: None, slot: 1 };
        if let Some(node) = at {
            let known = self.fabric.find(node);
            self.at = Some(known.ok_or(DecodeError { place: start, problem: Problem::NoSuchNode(node) })?);
        }
        let left = usize::from(header.segments_left);
        let segments = header.segments.get(..left).ok_or_else(|| {
            let problem = Problem::SegmentsLeft(header.segments_left, header.segments.len());
            DecodeError { place: start, problem }
        })?;
        let first = std::iter::once((None, header.destination));
        let behind = segments.iter().enumerate().rev().map(|(index, address)| (Some(index as u8), *address));
        for (segment, address) in first.chain(behind) {
            let is_last_address = segment.unwrap_or(header.segments_left) == 0;
            if let Some(end) = self.address(segment, address, is_last_address)? {
                return Ok(end);
            }
        }
        let node = self.at.map(|node| self.fabric.id(node));
        node.map(End::Node).ok_or(DecodeError { place: start, problem: Problem::NoUsid })
    }

    /// Carries out the uSIDs of one address; where the program ends, if it does so before the address does.
    fn address(
        &mut self,
        segment: Option<u8>,
        address: Ipv6Addr,
        is_last_address: bool,
    ) -> Result<Option<End>, DecodeError> {
        let block = self.fabric.block();
        let place = |slot: usize| Place { segment, slot: slot as u8 + 1 };
        let fail = |slot: usize, problem| DecodeError { place: place(slot), problem };
        let slots = block.slots(address).ok_or_else(|| fail(0, Problem::OutsideBlock(address, block)))?;
        let last = slots.iter().rposition(|&value| value != 0).ok_or_else(|| fail(0, Problem::NoUsid))?;
        for slot in 0..=last {
            let is_behind_node = slot > 0 && matches!(Usid::try_from(slots[slot - 1]), Ok(Usid::Node(_)));
            if let (true, Some(node)) = (is_behind_node, self.at)
                && let Some(end) = of_multicast(&slots, slot, self.fabric.id(node))
            {
                return Ok(Some(end));
            }
            let usid = Usid::try_from(slots[slot])
                .map_err(|e| fail(slot, if e == NotAUsid::End { Problem::Gap } else { Problem::Reserved(e) }))?;
            let is_last = is_last_address && slot == last;
            let end = match usid {
                Usid::Node(node) => self.node(place(slot), usid, node).map(|()| None),
                Usid::Adjacency(port) => self.adjacency(place(slot), usid, port, is_last),
                Usid::Service(_) if !is_behind_node => Err(Problem::ServiceAlone(usid)),
                Usid::Service(_) if !is_last => Err(Problem::BehindService(usid)),
                Usid::Service(service) => self.service(place(slot), usid, service).map(Some),
            };
            if let Some(end) = end.map_err(|problem| fail(slot, problem))? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn node(&mut self, place: Place, usid: Usid, node: NodeId) -> Result<(), Problem> {
        let to = self.fabric.find(node).ok_or(Problem::UnknownNode(node.get()))?;
        let crossing = match self.at {
            Some(at) if at != to => {
                let from = self.fabric.id(at);
                match self.fabric.between(at, to) {
                    [port] => Some(self.crossing(at, *port, to)),
                    [] => return Err(Problem::NotConnected(from, node)),
                    several => return Err(Problem::Parallel(from, node, several.len())),
                }
            }
            _ => None,
        };
        self.at = Some(to);
        self.steps.push(Step { place, usid, node, crossing });
        Ok(())
    }

    fn adjacency(&mut self, place: Place, usid: Usid, port: PortIndex, is_last: bool) -> Result<Option<End>, Problem> {
        let at = self.at.ok_or(Problem::Where(usid))?;
        let from = PortOf { node: self.fabric.id(at), port };
        let port = self.fabric.port(at, port).ok_or(Problem::UnknownPort(from))?;
        let step = Step { place, usid, node: from.node, crossing: None };
        if is_last {
            self.steps.push(step);
            return Ok(Some(End::Port { port: from, link: port.link, to: port.far.map(|far| self.fabric.id(far)) }));
        }
        let to = port.far.ok_or(Problem::BehindHost(from))?;
        self.steps.push(Step { crossing: Some(self.crossing(at, port, to)), ..step });
        self.at = Some(to);
        Ok(None)
    }

    fn service(&mut self, place: Place, usid: Usid, service: ServiceId) -> Result<End, Problem> {
        let node = self.fabric.id(self.at.ok_or(Problem::Where(usid))?);
        self.steps.push(Step { place, usid, node, crossing: None });
        Ok(End::Service(node, service))
    }

    fn crossing(&self, at: NodeIx, port: Port, to: NodeIx) -> Crossing {
        Crossing { from: PortOf { node: self.fabric.id(at), port: port.port }, to: self.fabric.id(to), link: port.link }
    }
}

/// The functions of multicast groups, which stand behind a uN and have arguments of their own.
fn of_multicast(slots: &[u16; SLOTS], slot: usize, node: NodeId) -> Option<End> {
    match slots[slot] {
        FUNCTION_END_MT => Some(End::EndMt(node)),
        FUNCTION_REPLICATE => {
            let half = |at: usize| slots.get(at).map(|&half| u64::from(half));
            let tree = TreeId::new("tree", half(slot + 1)? << 16 | half(slot + 2)?).ok()?;
            Some(End::Replicate(node, tree))
        }
        _ => None,
    }
}
