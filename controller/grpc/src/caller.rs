// SPDX-License-Identifier: Apache-2.0
//! Which program makes a call, and what it may do with whose name: the only place of the southbound API that decides it.
//!
//! | caller | NodeService | MembershipService, FabricService | IdentityService |
//! |---|---|---|---|
//! | a program that can open the controller's socket | any node | any host | - |
//! | the agent of a node | that node | hosts that are attached to it | Renew, FollowAuthorities, IdentifyPod on its node |
//! | the agent of a host | - | that host | Renew, FollowAuthorities, IdentifyPod on its node |
//! | an expired certificate | - | - | Renew |
//! | no certificate | - | - | Enroll |

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use canopy_controller_actor::Controller;
use canopy_controller_actor::events::Code;
use canopy_daemon::limits::network;
use canopy_identity::{Certificate, KeyHash, Subject};
use tonic::codegen::http;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

use crate::keys::Keys;

/// The program at the other end.
#[derive(Clone, Debug)]
pub enum Caller {
    /// Of this machine, through the controller's socket, whose file mode limits who can open it.
    Local(String),
    /// With a certificate of the domain that is not revoked.
    Certified {
        /// The certificate.
        certificate: Certificate,
        /// It has ended, and can be renewed.
        is_expired: bool,
        /// Where the connection comes from.
        address: SocketAddr,
    },
    /// Over TLS, without a certificate.
    Anonymous(SocketAddr),
}

/// For logs: `uid=0 gid=0 pid=123`, `node/n4 at 192.0.2.4:40000`.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(user) => f.write_str(user),
            Self::Certified { certificate, address, .. } => write!(f, "{} at {address}", certificate.subject),
            Self::Anonymous(address) => address.fmt(f),
        }
    }
}

impl Caller {
    /// Of a request.
    ///
    /// # Errors
    /// It came over a connection of another kind: nothing is known of the caller.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        if let Some(caller) = request.extensions().get::<Self>() {
            return Ok(caller.clone());
        }
        let Some(info) = request.extensions().get::<UdsConnectInfo>() else {
            return Err(Status::unauthenticated("nothing is known of the caller"));
        };
        Ok(Self::Local(match info.peer_cred {
            Some(c) => {
                format!("uid={} gid={} pid={}", c.uid(), c.gid(), c.pid().map_or_else(|| "?".into(), |p| p.to_string()))
            }
            None => "unix socket".into(),
        }))
    }

    /// Whether it may act as the agent of `node`, in whose name no other key is connected.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn as_node(&self, controller: &Controller, keys: &Keys, node: &str) -> Result<(), Status> {
        match self.subject()? {
            None => Ok(()),
            Some(Subject::Node(own)) if own == node => match self.key() {
                Some(key) if keys.is_other(node, key) => Err(self.second(controller, node)),
                _ => Ok(()),
            },
            Some(other) => Err(Status::permission_denied(format!(
                "node: a certificate of {other} cannot act as node {node:?}: set `node` of the agent to the name that it was enrolled with, or enroll it as that node"
            ))),
        }
    }

    /// The refusal of an agent in the name of a node that is connected with another key, which is an event.
    pub(crate) fn second(&self, controller: &Controller, node: &str) -> Status {
        tracing::warn!(node, caller = %self, "refused a second agent in the name of a connected node");
        let detail = format!(
            "{self} has a certificate of this node with another key than the connected agent: if it is not a machine that replaces the node's, run `canopyctl node revoke {node}` and enroll the right one"
        );
        controller.events().note(Code::SecondAgentRefused, Some(node), detail);
        Status::permission_denied(format!(
            "node: {node:?} is connected with another key: stop the other agent, or revoke its certificate with `canopyctl node revoke {node}`"
        ))
    }

    /// The key of its certificate, if it has shown one.
    pub(crate) fn key(&self) -> Option<KeyHash> {
        match self {
            Self::Certified { certificate, .. } => Some(certificate.key),
            Self::Local(_) | Self::Anonymous(_) => None,
        }
    }

    /// Whether it may join and leave for `host`.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn as_host(&self, controller: &Controller, keys: &Keys, host: &str) -> Result<(), Status> {
        match self.subject()? {
            None => Ok(()),
            Some(Subject::Host(own)) if own == host => Ok(()),
            Some(Subject::Node(own)) if controller.read(|domain| domain.node_of_host(host) == Some(own.as_str())) => {
                self.as_node(controller, keys, own)
            }
            Some(other) => Err(Status::permission_denied(format!(
                "host: a certificate of {other} cannot act for host {host:?}: the agent of a node acts for the hosts whose first link is to it, that of a host for itself"
            ))),
        }
    }

    /// Which agent it is.
    ///
    /// # Errors
    /// It is none, or has no valid certificate of one.
    pub(crate) fn as_agent(&self) -> Result<&Subject, Status> {
        match self.subject()? {
            Some(agent) if agent.is_agent() => Ok(agent),
            _ => Err(Status::permission_denied(
                "only an agent asks which pod a token is of, with its certificate: set `controller` of the agent to https://HOST:PORT",
            )),
        }
    }

    /// Whether it may read a group's phase.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn as_reader(&self) -> Result<(), Status> {
        self.subject().map(|_| ())
    }

    /// What the certificate names; `None` for programs of this machine, which may act as every agent.
    fn subject(&self) -> Result<Option<&Subject>, Status> {
        match self {
            Self::Local(_) => Ok(None),
            Self::Certified { is_expired: true, .. } => Err(Status::unauthenticated(
                "the certificate has expired and can only be renewed: is the agent's clock right?",
            )),
            Self::Certified { certificate, .. } => Ok(Some(&certificate.subject)),
            Self::Anonymous(_) => {
                Err(Status::unauthenticated("no certificate: enroll first, with `canopy-agent enroll`"))
            }
        }
    }
}

/// Who has what is in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Programs that can open the controller's socket.
    Machine,
    /// An agent, by the key of its certificate.
    Key(KeyHash),
    /// Without a valid certificate, by network.
    Stranger(IpAddr),
}

impl Source {
    /// Of a request with these extensions.
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        match extensions.get::<Caller>() {
            Some(Caller::Certified { certificate, is_expired: false, .. }) => Self::Key(certificate.key),
            Some(Caller::Certified { address, .. } | Caller::Anonymous(address)) => {
                Self::Stranger(network(address.ip()))
            }
            Some(Caller::Local(_)) | None => Self::Machine,
        }
    }
}
