// SPDX-License-Identifier: Apache-2.0
//! Round-trip times of links by STAMP, RFC 8762, unauthenticated mode. Pure: packets and the time come in.
//!
//! - [`Session`]: the Session-Sender of one link: sends test packets, accepts answers, counts losses.
//! - [`Reflector`]: the stateless Session-Reflector of one port: answers its neighbour at a limited rate.
//! - [`stamp_links`]: which links of a node have both.
//!
//! Two clocks: a [`canopy_units::Monotonic`] is any monotonic clock, for timers; a [`Timestamp`] is the wall clock, carried in packets.

mod bucket;
mod reflector;
mod session;
mod timestamp;

pub use reflector::{Answer, Reflector, Refused};
pub use session::{Session, SessionSettings};
pub use timestamp::Timestamp;

use std::future::Future;
use std::net::Ipv6Addr;
use std::pin::Pin;

use canopy_model::ids::PortIndex;
use canopy_model::node_spec::{NodeSpec, Peer};
use canopy_model::telemetry::LinkRtt;
use canopy_packet::stamp::ErrorEstimate;

use crate::echo::EchoCounts;

/// Error estimate of the agent's timestamps: not known to be synchronised, NTP format, accurate within 2^-10 s.
pub const ERROR_ESTIMATE: ErrorEstimate = ErrorEstimate { synchronized: false, ptp: false, scale: 22, multiplier: 1 };

/// A link to another node, for its session and its reflector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StampLink {
    /// Port on this node.
    pub port: PortIndex,
    /// Its interface.
    pub interface: String,
    /// Link-local address of this end.
    pub own: Ipv6Addr,
    /// Link-local address of the neighbour.
    pub neighbour: Ipv6Addr,
}

/// The links of a node to other nodes, in port order; links to hosts are not measured.
pub fn stamp_links(spec: &NodeSpec) -> Vec<StampLink> {
    let link = |p: &canopy_model::node_spec::Port| match p.peer {
        Peer::Node { link_local, .. } => {
            Some(StampLink { port: p.index, interface: p.name.clone(), own: p.link_local, neighbour: link_local })
        }
        Peer::Host { .. } => None,
    };
    spec.base.ports.iter().filter_map(link).collect()
}

/// Link measurement as the agent's event loop uses it.
pub trait LinkProber: Send {
    /// Measures these links from now on, and no others. Called again with the same links, it changes nothing.
    fn watch(&mut self, links: Vec<StampLink>);

    /// Measurements since the last call.
    fn take(&mut self) -> Vec<LinkRtt>;

    /// What became of the Echo Requests on each link, since the agent started.
    fn losses(&self) -> Vec<(StampLink, EchoCounts)>;

    /// Links that carry nothing any more, although they did (decisions 3.14).
    fn silent(&self) -> Vec<StampLink>;

    /// Completes when [`LinkProber::silent`] has changed since the last call. Cancel safe.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProber;

impl LinkProber for NoProber {
    fn watch(&mut self, _links: Vec<StampLink>) {}

    fn take(&mut self) -> Vec<LinkRtt> {
        Vec::new()
    }

    fn losses(&self) -> Vec<(StampLink, EchoCounts)> {
        Vec::new()
    }

    fn silent(&self) -> Vec<StampLink> {
        Vec::new()
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

#[cfg(test)]
mod tests;
