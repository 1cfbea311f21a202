// SPDX-License-Identifier: Apache-2.0
//! The map of the fabric: where nodes stand, and one octet per link direction or node for what is drawn over it, on fixed scales.

use std::collections::VecDeque;
use std::fmt::{Display, Formatter};
use std::str::FromStr;

use canopy_model::ids::Generation;
use canopy_units::{Octets, Rate};

use crate::problem::Severity;
use crate::states::NodeState;
use crate::threshold::Thresholds;
use crate::topology::{Far, Network, NodeIx};
use crate::uid::Uid;

/// What a layer has where nothing was measured.
pub const NOT_MEASURED: u8 = u8::MAX;
/// The largest value of a scale.
const MOST: u8 = NOT_MEASURED - 1;

/// What is drawn over the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Of link directions: 0 in service, 1 drained, not reported (yet, or any more), or a problem of severity info, 2 a warning, 3 critical.
    State,
    /// Of link directions: percent of the port's rate that its data takes.
    Load,
    /// Of link directions: packets of a thousand that are lost.
    Loss,
    /// Of link directions: the deepest queue since the last report, see [`queue`].
    Queue,
    /// Of nodes: 0 in sync, 1 not applied yet, 2 with errors, 3 not connected.
    Nodes,
}

impl Layer {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::State, Self::Load, Self::Loss, Self::Queue, Self::Nodes];

    /// As in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Load => "load",
            Self::Loss => "loss",
            Self::Queue => "queue",
            Self::Nodes => "nodes",
        }
    }
}

impl FromStr for Layer {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|layer| layer.name() == text).ok_or(())
    }
}

/// Names a state of a topology: what has another one belongs to another map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(Uid, Generation);

impl Version {
    /// Of the topology with this uid and generation.
    pub fn new(uid: Uid, generation: Generation) -> Self {
        Self(uid, generation)
    }
}

impl Display for Version {
    /// As in the API.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Nodes, hosts and links in the topology's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapView {
    /// Of the topology.
    pub version: Version,
    /// Forwarding nodes.
    pub nodes: Vec<MapNode>,
    /// Hosts.
    pub hosts: Vec<MapHost>,
    /// Links; link i has the directions 2i, from `a` to `b`, and 2i + 1.
    pub links: Vec<MapLink>,
}

/// A node's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapNode {
    /// Its name.
    pub name: String,
    /// Its number in the SRv6 locator.
    pub id: u16,
    /// As declared, else hops to the nearest host; 1 where no host can be reached.
    pub tier: u32,
    /// As declared.
    pub site: Option<String>,
}

/// A host's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapHost {
    /// Its name.
    pub name: String,
    /// Its node, by its place among the nodes.
    pub node: u32,
}

/// A link's ends: places among the nodes followed by the hosts, and interface names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapLink {
    /// Device at one end.
    pub a: u32,
    /// Its port.
    pub a_port: String,
    /// Device at the other end.
    pub b: u32,
    /// Its port.
    pub b_port: String,
}

/// The values of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerView {
    /// See [`MapView::version`].
    pub version: Version,
    /// One octet per link direction, or per node.
    pub values: Vec<u8>,
}

/// Tiers of all nodes: as declared, else hops to the nearest host.
pub(crate) fn tiers(network: &Network) -> Vec<u32> {
    let mut tiers = vec![0; network.len()];
    let has_host = |node: &NodeIx| network.ports(*node).iter().any(|port| matches!(port.far, Far::Host(_)));
    let mut next: VecDeque<NodeIx> = (0..network.len()).filter(has_host).collect();
    next.iter().for_each(|node| tiers[*node] = 1);
    while let Some(node) = next.pop_front() {
        for port in network.ports(node) {
            if let Far::Node { node: far, .. } = port.far
                && tiers[far] == 0
            {
                tiers[far] = tiers[node] + 1;
                next.push_back(far);
            }
        }
    }
    let declared = network.spec.nodes.iter().map(|node| node.tier.map(u32::from));
    declared.zip(tiers).map(|(declared, hops)| declared.unwrap_or(hops.max(1))).collect()
}

/// The value of a severity in [`Layer::State`].
pub(crate) fn severity(severity: Severity) -> u8 {
    match severity {
        Severity::Info => 1,
        Severity::Warning => 2,
        Severity::Critical => 3,
    }
}

/// The value of a node in [`Layer::Nodes`].
pub(crate) fn node(state: NodeState) -> u8 {
    use NodeState::*;
    match state {
        InSync => 0,
        Behind | NotReported | Restarting | Retiring | Retired => 1,
        ItemErrors => 2,
        NotConnected => 3,
    }
}

/// Percent of a port's rate, rounded up: a port that sends anything is not idle.
pub(crate) fn load(rate: Option<Rate>, of: Rate) -> u8 {
    match rate {
        Some(rate) if of != Rate::ZERO => scale(u128::from(rate.bps()) * 100, of.bps()),
        _ => NOT_MEASURED,
    }
}

/// A queue depth on the scale of its port's thresholds: below 100 percent of K_min; from 100 on how far it is from K_min (100) to K_max (200);
/// above 200 how far it is above K_max, in percent of K_max.
pub(crate) fn queue(depth: Octets, thresholds: Thresholds) -> u8 {
    let Thresholds { k_min, k_max, .. } = thresholds;
    let percent = |part: u64, whole: u64| u128::from(part) * 100 / u128::from(whole.max(1));
    let (depth, k_min, k_max) = (depth.get(), k_min.get(), k_max.get());
    let value = if depth < k_min {
        percent(depth, k_min)
    } else if depth < k_max {
        100 + percent(depth - k_min, k_max - k_min)
    } else {
        200 + percent(depth - k_max, k_max)
    };
    u8::try_from(value).unwrap_or(MOST).min(MOST)
}

/// Packets of a thousand, at most the largest value of the scale.
pub(crate) fn loss(permille: u16) -> u8 {
    u8::try_from(permille).unwrap_or(MOST).min(MOST)
}

fn scale(part: u128, whole: u64) -> u8 {
    u8::try_from(part.div_ceil(u128::from(whole.max(1)))).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{host, link, node};
    use crate::threshold::Bound;
    use canopy_model::addressing::AddressPlan;
    use canopy_model::topology::TopologySpec;

    fn network(change: impl FnOnce(&mut TopologySpec)) -> Network {
        let nodes = vec![node("spine", 1), node("leaf", 2), node("core", 3), node("alone", 4)];
        let ends = [("leaf/h", "h/0"), ("leaf/u", "spine/d"), ("spine/u", "core/d"), ("core/u", "alone/d")];
        let links = ends.map(|(a, b)| link(a, b)).into();
        let mut spec = TopologySpec { nodes, hosts: vec![host("h", 1)], links };
        change(&mut spec);
        Network::build(spec, &AddressPlan::default()).unwrap()
    }

    /// Catches a tier that counts from elsewhere than from hosts, and one that is declared and not taken.
    #[test]
    fn a_tier_is_declared_or_the_number_of_hops_to_the_nearest_host() {
        assert_eq!(tiers(&network(|_| ())), [2, 1, 3, 4]);
        assert_eq!(tiers(&network(|spec| spec.nodes[0].tier = Some(9))), [9, 1, 3, 4]);
        let without = network(|spec| {
            spec.hosts.clear();
            spec.links.remove(0);
        });
        assert_eq!(tiers(&without), [1, 1, 1, 1]);
    }

    /// Catches a depth on the wrong side of a threshold, and one above 254.
    #[test]
    fn queues_are_on_the_scale_of_their_thresholds() {
        let thresholds = Thresholds { k_min: Octets(1_000), k_max: Octets(3_000), bound: Bound::Base };
        let at = |depth| queue(Octets(depth), thresholds);
        assert_eq!([0, 999, 1_000, 2_000, 2_999, 3_000, 4_500].map(at), [0, 99, 100, 150, 199, 200, 250]);
        assert_eq!([5_000, u64::MAX].map(at), [254, 254]);
    }

    /// Catches a port that is idle because it sends little, one of no known rate, and values that wrap.
    #[test]
    fn loads_and_losses_stay_on_their_scales() {
        let at = |bps| load(Some(Rate::from_bps(bps)), Rate::from_bps(10_000));
        assert_eq!([0, 1, 100, 101, 10_000, u64::MAX].map(at), [0, 1, 1, 2, 100, 254]);
        assert_eq!([load(None, Rate::from_bps(1)), load(Some(Rate::from_bps(1)), Rate::ZERO)], [NOT_MEASURED; 2]);
        assert_eq!([0, 1, 254, 255, 1_000].map(loss), [0, 1, 254, 254, 254]);
    }
}
