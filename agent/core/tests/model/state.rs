// SPDX-License-Identifier: Apache-2.0
//! One moment of the whole group.

use std::sync::Arc;

use canopy_agent_core::aggregate::{Aggregation, Entry, Input};

use crate::endpoints::{Responder, Source};
use crate::network::{A, B, LINKS, Packet, Place};
use crate::scenario::Scenario;

/// Later than any time in a canonical state.
pub(crate) const NOW: u64 = 1000;
pub(crate) const FIRST_EPOCH: u32 = 1;

/// A node and what its agent has of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) group: Arc<Aggregation>,
    pub(crate) program: Vec<(u32, Entry)>,
}

/// What happened and is not to be seen of anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// A NAK came to the source that somebody lacks something before.
    pub(crate) false_nak: bool,
    /// Feedback of a stranger was taken.
    pub(crate) stranger: bool,
    /// A receiver took another packet for the one that it expected.
    pub(crate) corrupt: bool,
    /// NAKs for one gap at two receivers that came to the source, up to 2.
    pub(crate) shared_naks: u8,
    /// The first change came in the middle of the transfer: some packets were acknowledged before it, others after it.
    pub(crate) changed_amid: bool,
    /// Timeouts and NAKs since something changed.
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
    pub(crate) fn new(s: &Scenario, program: Vec<(u32, Entry)>, epoch: u32) -> Self {
        let mut group = Aggregation::new(s.params(), epoch);
        for (branch, entry) in &program {
            // What was there before the state was lost holds what nobody knows.
            let at_once = Entry { at_boundary: false, ..*entry };
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
        let entry = |receiver| Entry { at_boundary: false, receiver, since: FIRST_EPOCH };
        let parents = s.parents;
        let edge = |e: usize| {
            let of_edge = (0..3).filter(|r| s.members[*r] && parents[*r] == e);
            Node::new(s, of_edge.map(|r| (r as u32, entry(true))).collect(), FIRST_EPOCH)
        };
        let edges = [edge(A), edge(B)];
        let children = (0..2).filter(|e| !edges[*e].program.is_empty()).map(|e| (e as u32, entry(false))).collect();
        let responder = |r: usize| Responder {
            taken: 0,
            nak_said: false,
            first: s.members[r].then_some(0),
            alive: true,
            member: s.members[r],
            parent: parents[r],
        };
        Self {
            source: Source { una: 0, next: 0, sent: 0 },
            root: Node::new(s, children, FIRST_EPOCH),
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
