// SPDX-License-Identifier: Apache-2.0
//! Building a declared topology: its network, and the bases of its nodes. Most of the work of declaring a large one, of which nothing needs the
//! domain while it is done: others read and change it meanwhile.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{available_parallelism, scope};

use canopy_model::FieldErrors;
use canopy_model::addressing::AddressPlan;
use canopy_model::node_spec::NodeBase;
use canopy_model::srh_hmac::SrhHmac;
use canopy_model::topology::{Endpoint, TopologySpec};

use super::drains::Drains;
use super::state::State;
use crate::retirement::{Retirements, left};
use crate::routes::node_base;
use crate::topology::Network;

/// Nodes that are worth a thread of their own.
const NODES: usize = 256;

/// What a topology is built from.
pub struct TopologyDraft {
    spec: Arc<TopologySpec>,
    revision: u64,
    addresses: AddressPlan,
    down: BTreeSet<Endpoint>,
    drains: Drains,
    retirements: Retirements,
    hmac: Option<SrhHmac>,
    present: Option<Arc<Network>>,
}

/// A topology that is built, or what is wrong with it.
pub struct BuiltTopology {
    spec: Arc<TopologySpec>,
    revision: u64,
    /// With the bases of its nodes, in their order, without thresholds.
    pub(super) network: Result<(Network, Vec<NodeBase>), FieldErrors>,
}

impl TopologyDraft {
    pub(super) fn new(state: &State, spec: Arc<TopologySpec>) -> Self {
        Self {
            spec,
            revision: state.revision,
            addresses: state.addresses.clone(),
            down: state.down().clone(),
            drains: state.drains.clone(),
            retirements: state.retirements.clone(),
            hmac: state.hmac.keys.clone(),
            present: state.topology.as_ref().map(|topology| Arc::clone(&topology.network)),
        }
    }

    /// Builds it, on as many threads as there are processors.
    pub fn build(self) -> BuiltTopology {
        let Self { spec, revision, addresses, down, drains, retirements, hmac, present } = self;
        let network =
            Network::build_around(Arc::clone(&spec), &addresses, &down, &drains.targets(), &left(&retirements));
        let with_bases = |mut network: Network| {
            if let Some(present) = &present {
                network.share(present);
            }
            let bases = bases(&network, &addresses, hmac.as_ref());
            (network, bases)
        };
        BuiltTopology { spec, revision, network: network.map(with_bases) }
    }
}

impl BuiltTopology {
    /// Whether it is what would be built now.
    pub(super) fn is_of(&self, state: &State, spec: &Arc<TopologySpec>) -> bool {
        self.revision == state.revision && Arc::ptr_eq(&self.spec, spec)
    }
}

fn bases(network: &Network, addresses: &AddressPlan, hmac: Option<&SrhHmac>) -> Vec<NodeBase> {
    let nodes: Vec<usize> = (0..network.len()).collect();
    let processors = available_parallelism().map_or(1, NonZero::get);
    let of_thread = nodes.len().div_ceil(processors).max(NODES);
    scope(|scope| {
        let base = |node: &usize| node_base(network, addresses, hmac, *node);
        let parts: Vec<_> = nodes
            .chunks(of_thread)
            .map(|part| scope.spawn(move || part.iter().map(base).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
