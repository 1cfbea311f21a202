// SPDX-License-Identifier: Apache-2.0
//! Whose memberships are made at the socket: those of the hosts on a node's ports, or those of the agent's own host.

use std::sync::Arc;

use canopy_agent_link::Random;
use canopy_control::HeldSpec;
use canopy_model::node_spec::{NodeSpec, Peer};
use tokio::sync::watch as state;
use tonic::Status;
use tonic::transport::Channel;

/// The hosts of an agent.
pub enum Served {
    /// On the ports of a node.
    Node {
        /// Its name.
        name: String,
        /// Newest accepted spec, which lists the hosts.
        specs: state::Receiver<Option<Arc<HeldSpec>>>,
    },
    /// The machine on which the agent runs. The controller learns from it that the host is alive.
    Host {
        /// Its name.
        name: String,
        /// Connection on which leases are held at the controller: each is a stream, which would leave fewer to other calls.
        holds: Channel,
        /// Spreads reconnects.
        random: Random,
    },
}

impl Served {
    /// Whether `host` can join here.
    ///
    /// # Errors
    /// It cannot; the message has the hosts that can.
    pub(super) fn check(&self, host: &str, target: &str) -> Result<(), Status> {
        let (name, specs) = match self {
            Self::Node { name, specs } => (name, specs),
            Self::Host { name, .. } if name == host => return Ok(()),
            Self::Host { name, .. } => {
                return Err(Status::invalid_argument(format!("host: {host:?} is not this machine, which is {name:?}")));
            }
        };
        let Some(spec) = specs.borrow().clone() else {
            return Err(Status::unavailable(format!(
                "the agent of node {name} has not received its configuration from the controller at {target} yet: call again once \
                 `canopyctl get nodes` shows the node"
            )));
        };
        let hosts: Vec<&str> = attached(spec.spec()).collect();
        if hosts.contains(&host) {
            return Ok(());
        }
        let hosts = if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") };
        Err(Status::invalid_argument(format!("host: {host:?} is not attached to node {name}; attached are: {hosts}")))
    }

    /// Whether a membership of `host` is still this agent's. True also before the agent of a node has its spec: a host that moved to
    /// another node has a membership of that node's agent.
    pub(super) fn has(&self, host: &str) -> bool {
        match self {
            Self::Node { specs, .. } => {
                specs.borrow().as_ref().is_none_or(|held| attached(held.spec()).any(|name| name == host))
            }
            Self::Host { name, .. } => name == host,
        }
    }
}

/// Names of the hosts on the node's own ports.
fn attached(spec: &NodeSpec) -> impl Iterator<Item = &str> {
    spec.base.ports.iter().filter_map(|port| match &port.peer {
        Peer::Host { name, .. } => Some(name.as_str()),
        Peer::Node { .. } => None,
    })
}
