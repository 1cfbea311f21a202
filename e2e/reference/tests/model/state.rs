// SPDX-License-Identifier: Apache-2.0
//! One state of the whole group.

use std::sync::Arc;

use canopy_reference::aggregate::{Aggregation, Entry, Input, Params};
use canopy_units::Monotonic;

use crate::endpoints::{Responder, Source};
use crate::network::{A, B, LINKS, Packet, Place};
use crate::scenario::Scenario;

/// Later than any time in a canonical state.
pub(crate) const NOW: Monotonic = Monotonic::from_nanos(1000);
pub(crate) const FIRST_EPOCH: u32 = 1;

/// A node, and the program that its agent got from the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) group: Arc<Aggregation>,
    pub(crate) program: Vec<(u32, Entry)>,
}

/// Past events that the rest of the state does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// The source received a NAK although a receiver lacks an earlier packet.
    pub(crate) false_nak: bool,
    /// Feedback of an unknown branch was accepted, or refused feedback changed state.
    pub(crate) unknown_accepted: bool,
    /// A receiver accepted another packet than the one that it expected.
    pub(crate) corrupt: bool,
    /// NAKs for one gap at two receivers that the source received, up to 2.
    pub(crate) shared_naks: u8,
    /// The first change was within the transfer: some packets were acknowledged before it, others after it.
    pub(crate) changed_amid: bool,
    /// Timeouts and NAKs since the last progress.
    pub(crate) idle: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) source: Source,
    pub(crate) root: Node,
    pub(crate) edges: [Node; 2],
    pub(crate) receivers: [Responder; 3],
    pub(crate) links: [Vec<Packet>; LINKS.len()],
    pub(crate) faults: u8,
    pub(crate) crashes: u8,
    /// Changes that the controller has made.
    pub(crate) changed: usize,
    pub(crate) history: History,
}

impl Node {
    /// `lost`: it had a state.
    pub(crate) fn new(s: &Scenario, program: Vec<(u32, Entry)>, epoch: u32, lost: bool) -> Self {
        let mut group = Aggregation::new(Params { lost, ..s.params() }, epoch);
        for (branch, entry) in &program {
            // After lost state, it is unknown which data the branch holds; the queue pair of a late receiver is probed again.
            let at_once = Entry { at_boundary: entry.at_boundary && entry.receiver, ..*entry };
            assert_eq!(group.handle(Input::Join(*branch, at_once), NOW), Ok(None));
        }
        Self { group: Arc::new(group.canonical()), program }
    }

    pub(crate) fn is_active(&self, branch: u32) -> bool {
        self.group.active().any(|b| b == branch)
    }
}

impl State {
    pub(crate) fn new(s: &Scenario) -> Self {
        let entry = |receiver| Entry { receiver, since: FIRST_EPOCH, ..Entry::default() };
        let parents = s.parents;
        let edge = |e: usize| {
            let of_edge = (0..3).filter(|r| s.members[*r] && parents[*r] == e);
            Node::new(s, of_edge.map(|r| (r as u32, entry(true))).collect(), FIRST_EPOCH, false)
        };
        let edges = [edge(A), edge(B)];
        let children = (0..2).filter(|e| !edges[*e].program.is_empty()).map(|e| (e as u32, entry(false))).collect();
        let responder = |r: usize| Responder {
            taken: 0,
            nak_sent: false,
            first: s.members[r].then_some(0),
            alive: true,
            member: s.members[r],
            parent: parents[r],
        };
        Self {
            source: Source { una: 0, next: 0, sent: 0 },
            root: Node::new(s, children, FIRST_EPOCH, false),
            edges,
            receivers: [responder(0), responder(1), responder(2)],
            links: Default::default(),
            faults: s.faults,
            crashes: s.crashes,
            changed: 0,
            history: History::default(),
        }
    }

    pub(crate) fn node(&mut self, place: Place) -> &mut Node {
        match place {
            Place::Root => &mut self.root,
            Place::Edge(e) => &mut self.edges[e],
            Place::Source | Place::Receiver(_) => panic!("{place:?} is no node"),
        }
    }

    pub(crate) fn finished(&self, s: &Scenario) -> bool {
        self.source.una == s.packets
    }
}
