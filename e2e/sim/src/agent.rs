// SPDX-License-Identifier: Apache-2.0
//! A node: its agent, and the data path that outlives it.

use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::sync::Arc;

use canopy_controller_core::LateNews;
use canopy_model::member::LateStart;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::{ItemError, ItemKind, NodeStatus};

use crate::controller::Controller;
use crate::fabric::{Fabric, Place, PortId};
use crate::kernel::{Kernel, Step};
use crate::program::steps;

/// From its first answer on, ns, a fresh queue pair answers a probe as one within this time.
const FRESH_WITHIN: u64 = 1_000_000_000;

/// A node and its agent.
pub struct Node {
    /// Its device.
    pub place: Place,
    /// Its name.
    pub name: String,
    /// Its node address.
    pub address: Ipv6Addr,
    /// What is pinned.
    pub kernel: Kernel,
    /// It forwards nothing.
    pub is_down: bool,
    /// The agent runs.
    pub awake: bool,
    /// Counts the agent's starts: events of a former one do nothing.
    pub life: u64,
    /// The newest spec that was received.
    pub newest: Option<Arc<NodeSpec>>,
    /// The spec in the ledger, which is what is carried out.
    pub ledger: Option<Arc<NodeSpec>>,
    /// The spec that was carried out last, without an error.
    pub applied: Option<Arc<NodeSpec>>,
    /// What was reported last.
    pub status: Option<NodeStatus>,
    /// Steps of the reconciliation in progress.
    pub work: Option<VecDeque<Step>>,
    /// Nothing was pinned when the agent started, and it has carried out no spec since.
    pub cold: bool,
    /// Reconciliations that will fail.
    pub refusals: u32,
    /// Names of ports that the agent knows to have no carrier.
    pub no_carrier: Vec<String>,
    /// Until when and when next the last feedback is repeated, ns.
    pub repeats: (u64, u64),
    /// A poll is scheduled.
    pub polls: bool,
    /// When late receivers are probed next, ns.
    pub probes: u64,
    /// A sample is scheduled.
    pub samples: bool,
    /// Times of arrival of the last spec and of the last report: each stream keeps its order.
    pub last_arrival: u64,
    /// See `last_arrival`.
    pub last_report: u64,
}

impl Node {
    /// A node whose agent has carried out `spec`, in which the group has no program yet.
    pub fn new(place: Place, spec: Arc<NodeSpec>) -> Self {
        Self {
            place,
            name: spec.base.name.clone(),
            address: spec.base.node_address,
            kernel: Kernel::default(),
            is_down: false,
            awake: true,
            life: 0,
            newest: Some(Arc::clone(&spec)),
            ledger: Some(Arc::clone(&spec)),
            applied: Some(spec),
            status: None,
            work: None,
            cold: false,
            refusals: 0,
            no_carrier: Vec::new(),
            repeats: (0, 0),
            polls: false,
            probes: 0,
            samples: false,
            last_arrival: 0,
            last_report: 0,
        }
    }

    /// Takes a spec unless it is older than what was received before.
    pub fn receive(&mut self, spec: Arc<NodeSpec>) {
        if self.newest.as_ref().is_none_or(|known| version(known) < version(&spec)) {
            self.newest = Some(spec);
        }
    }

    /// Begins a reconciliation with the newest spec. False if the agent cannot now.
    pub fn begin(&mut self, fabric: &Fabric) -> bool {
        if !self.awake || self.is_down || self.work.is_some() {
            return false;
        }
        self.ledger = self.newest.clone();
        // A program that cannot be carried out changes nothing.
        self.work = self.ledger.is_some().then(|| self.differences(fabric).unwrap_or_default());
        self.work.is_some()
    }

    /// The steps from what is pinned to what the spec in the ledger wants; `None` if that needs a port that the node does not have.
    pub fn differences(&self, fabric: &Fabric) -> Option<VecDeque<Step>> {
        let spec = self.ledger.as_ref()?;
        let port = |index| -> Option<PortId> {
            let port = spec.base.ports.iter().find(|p| p.index == index)?;
            fabric.port(self.place, &port.name)
        };
        steps(&self.kernel, Controller::program(spec), port, self.cold)
    }

    /// The spec in the ledger was carried out, or not.
    pub fn finish(&mut self, refused: bool) {
        self.work = None;
        self.cold &= refused;
        self.applied = if refused { None } else { self.ledger.clone() };
    }

    /// The agent ends; what is pinned stays.
    pub fn stop(&mut self) {
        (self.awake, self.work, self.repeats) = (false, None, (0, 0));
        self.life += 1;
    }

    /// What the agent reports.
    pub fn report(&mut self, refused: bool) -> Option<NodeStatus> {
        let spec = self.ledger.as_ref()?;
        let error =
            |kind, name: &str, group| ItemError { kind, name: name.to_owned(), group, detail: "simulated".into() };
        let group = spec.groups.keys().next().copied();
        let mut errors: Vec<ItemError> = self.no_carrier.iter().map(|port| error(ItemKind::Link, port, None)).collect();
        errors.extend(refused.then(|| error(ItemKind::Group, "g", group)));
        self.status = Some(NodeStatus {
            node: self.name.clone(),
            observed_term: spec.term,
            observed_generation: spec.generation,
            errors,
            ..NodeStatus::default()
        });
        self.status.clone()
    }

    /// The late receivers of which the controller has to know something, in the present program.
    pub fn late(&self) -> Vec<(Ipv6Addr, LateNews)> {
        let Some(machine) = self.kernel.machine.as_ref() else { return Vec::new() };
        let of = |slot: u32| {
            if machine.inner.probing().any(|probed| probed == slot) {
                if machine.inner.is_lost(slot) {
                    return Some(LateNews::Lost);
                }
                let (first, last) = self.kernel.answered.get(&slot)?;
                return (last - first > FRESH_WITHIN).then_some(LateNews::NotFresh);
            }
            if machine.inner.pending().any(|pending| pending == slot) {
                return Some(LateNews::Answered);
            }
            let start = machine.inner.start(slot)?;
            Some(LateNews::Started(LateStart { shift: start.shift, msn_base: start.msn_base }))
        };
        self.kernel.peers.iter().filter_map(|(address, peer)| Some((*address, of(peer.slot)?))).collect()
    }

    /// It runs exactly this spec, and has nothing left to do.
    pub fn runs(&self, spec: &NodeSpec) -> bool {
        let applied = self.applied.as_ref().is_some_and(|applied| version(applied) == version(spec));
        applied && self.work.is_none() && self.awake && !self.is_down
    }
}

/// Specs are ordered by term, then generation.
fn version(spec: &NodeSpec) -> (u64, u64) {
    (spec.term, spec.generation)
}
