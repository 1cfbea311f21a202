// SPDX-License-Identifier: Apache-2.0
//! The socket for RDMA applications on attached hosts: `MembershipService`, forwarded to the controller.
//!
//! The kernel reports the caller's credentials (`SO_PEERCRED`), or the caller is a pod that sends its token, which [`tokens`] has the
//! controller confirm: [`access`] decides whether the caller is permitted, [`slots`] limits concurrent connections. A membership belongs to the
//! user or the pod that made it ([`owner`]); [`owners`] stores the owner across restarts, and [`known`] has the tokens that count. With a lease
//! it ends with the process that made it: [`leases`] has who holds which, [`ending`] leaves.
//! [`service`] checks each call and forwards it over a separate connection, so that slow applications do not delay the agent's
//! own calls. [`Served`] has the hosts: those of a node, or the machine itself, whose leases [`upstream`] holds at the controller.
//! For the daemons of such a machine, [`flows`] has its sources, and [`fabric`] what path programs are composed from, as [`follow`] has it from
//! the controller, or from the file of the agent before.
//!
//! Errors here never stop forwarding: if the socket cannot be created, the agent logs an error and retries.

mod access;
mod ending;
mod fabric;
mod flows;
mod follow;
mod known;
mod leases;
mod listen;
mod owner;
mod owners;
mod served;
mod service;
mod slots;
mod stored;
mod tokens;
mod upstream;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb::fabric_service_server::FabricServiceServer;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::membership_service_server::MembershipServiceServer;
use canopy_control::pb::source_flow_service_server::SourceFlowServiceServer;
use tokio::sync::watch as state;
use tonic::transport::{Channel, Server};

use crate::config::HostSocket;
use access::Access;
use ending::Ending;
use fabric::Fabrics;
use flows::SourceFlows;
use follow::Follower;
use leases::{Leases, Unheld};
use owners::Owners;
pub use served::Served;
use service::Membership;
pub use tokens::Clock;
use tokens::Tokens;
use upstream::Upstream;

/// Concurrent calls on one connection, including watches and one per membership with a lease.
const MAX_STREAMS: u32 = 1024;
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// A Join has two names of at most 63 bytes and some numbers.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Timeout of a call to the controller; the controller's own timeout is shorter.
const ANSWER_WITHIN: Duration = Duration::from_secs(35);
/// Time between attempts to create the socket.
const RETRY: Duration = Duration::from_secs(5);

/// Configuration and dependencies of the socket's server.
pub struct Hosts {
    /// Path and permissions.
    pub config: HostSocket,
    /// Whose memberships are made here.
    pub served: Served,
    /// The controller's address, for messages.
    pub target: String,
    /// Separate connection to the controller.
    pub controller: Channel,
    /// Directory of the file of membership owners.
    pub state_dir: PathBuf,
    /// By which tokens of pods end.
    pub clock: Clock,
    /// Called whenever the socket has become ready.
    pub on_ready: Box<dyn Fn() + Send + Sync>,
}

impl Hosts {
    /// Serves until `closing` is true; does nothing if no path is configured.
    pub async fn run(self, mut closing: state::Receiver<bool>) {
        if self.config.path.as_os_str().is_empty() {
            return;
        }
        if self.config.group.is_empty() && !(self.config.uids.is_empty() && self.config.gids.is_empty()) {
            tracing::warn!(
                "host_socket.uids and host_socket.gids permit users, but only the agent's own group can open the socket: \
                 set host_socket.group to a group of these users"
            );
        }
        let (leases, unheld) = Leases::load(&self.state_dir);
        let ending = Arc::new(Ending {
            controller: MembershipServiceClient::new(self.controller.clone()),
            owners: Arc::new(Owners::load(&self.state_dir)),
            leases: Arc::clone(&leases),
            served: self.served,
            closing: closing.clone(),
        });
        let upstream = match &ending.served {
            Served::Node { .. } => None,
            Served::Host { holds, random, .. } => {
                Some(Arc::new(Upstream::new(holds.clone(), Arc::clone(&leases), Arc::clone(random), closing.clone())))
            }
        };
        // At once: the controller waits for the machine, the agent for its processes.
        if let Some(upstream) = &upstream {
            upstream.resume(unheld.iter().map(|unheld| &unheld.key));
        }
        let access = Arc::new(Access::new(&self.config));
        let tokens = self.config.kubernetes.then(|| {
            Tokens::load(&self.state_dir, self.controller.clone(), self.target.clone(), Arc::clone(&self.clock))
        });
        // A pacer has the flows of all sources of the machine, whichever pods they are of: where pods are callers, there is none for it.
        let flows = upstream.as_ref().filter(|_| tokens.is_none());
        let flows = flows.map(|upstream| SourceFlows::new(upstream.flows(), closing.clone()));
        // One stream on the connection of the calls of applications, of which [`service`] lets half as many be open as the controller permits.
        let follower = match &ending.served {
            Served::Host { name, random, .. } if tokens.is_none() => {
                let (controller, random) = (self.controller.clone(), Arc::clone(random));
                Some((name, Follower::load(name, &self.state_dir, controller, random, closing.clone())))
            }
            _ => None,
        };
        let fabric = follower.as_ref().map(|(name, follower)| Fabrics::new(name, follower.held(), closing.clone()));
        // It ends once its file is written.
        let following = async {
            if let Some((_, follower)) = &follower {
                follower.run().await;
            }
        };
        let membership = Membership::new(self.target, &ending, tokens, upstream);
        let socket = Socket { config: self.config, access, membership, flows, fabric, on_ready: self.on_ready };
        let serving = socket.serve(&ending, unheld, &mut closing);
        tokio::select! {
            _ = async { tokio::join!(serving, following) } => {}
            () = leases.watch_the_clock() => {}
        }
    }
}

/// The socket's file and who can use it.
struct Socket {
    config: HostSocket,
    access: Arc<Access>,
    membership: Membership,
    /// Of the agent of a host: that of a node has them in no stream.
    flows: Option<SourceFlows>,
    /// Of the agent of a host.
    fabric: Option<Fabrics>,
    on_ready: Box<dyn Fn() + Send + Sync>,
}

impl Socket {
    async fn serve(&self, ending: &Arc<Ending>, mut unheld: Vec<Unheld>, closing: &mut state::Receiver<bool>) {
        loop {
            let failed = match listen::bind(&self.config, self.access.clone()).await {
                Ok((incoming, _file)) => {
                    tracing::info!(path = %self.config.path.display(), "serving applications");
                    (self.on_ready)();
                    // Only now can processes hold their leases again.
                    unheld.drain(..).for_each(|unheld| ending.schedule(unheld.renewed()));
                    let service = MembershipServiceServer::new(self.membership.clone())
                        .max_decoding_message_size(MAX_REQUEST_BYTES);
                    let mut end = closing.clone();
                    let served = Server::builder()
                        .max_concurrent_streams(MAX_STREAMS)
                        .http2_max_header_list_size(MAX_HEADER_BYTES)
                        .add_service(service)
                        .add_optional_service(self.flows.clone().map(SourceFlowServiceServer::new))
                        .add_optional_service(self.fabric.clone().map(FabricServiceServer::new))
                        .serve_with_incoming_shutdown(incoming, async move { closed(&mut end).await });
                    match served.await {
                        Ok(()) => return,
                        Err(error) => error.to_string(),
                    }
                }
                Err(reason) => reason,
            };
            tracing::error!(path = %self.config.path.display(), reason = failed, retry_in = ?RETRY,
                "host_socket.path: cannot serve the socket, applications cannot join through this agent");
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = closed(closing) => return,
            }
        }
    }
}

/// Waits until `closing` is true or its sender is dropped.
async fn closed(closing: &mut state::Receiver<bool>) {
    // An error means that the sender was dropped: the agent is stopping.
    _ = closing.wait_for(|closing| *closing).await;
}
