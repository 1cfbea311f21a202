// SPDX-License-Identifier: Apache-2.0
//! The services and their limits.

use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb::fabric_service_server::FabricServiceServer;
use canopy_control::pb::identity_service_server::IdentityServiceServer;
use canopy_control::pb::membership_service_server::MembershipServiceServer;
use canopy_control::pb::node_service_server::NodeServiceServer;
use canopy_controller_actor::Controller;
use canopy_controller_authority::Registrar;
use canopy_controller_kubernetes::Attestor;
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Status};

use crate::caller::Caller;
use crate::fabric::Fabrics;
use crate::guard::{Guard, Guarded};
use crate::identity::Identities;
use crate::keys::Keys;
use crate::leases::Leases;
use crate::membership::Membership;
use crate::node::Nodes;
use crate::whole::MAX_REQUEST_BYTES;

/// Largest response message, bytes: a snapshot of 10,000 groups of 64 receivers.
pub const MAX_RESPONSE_BYTES: usize = 256 << 20;
/// Largest request for a certificate, bytes.
const MAX_ENROLLMENT_BYTES: usize = 4 << 10;
/// Largest request of MembershipService, bytes: two names and some numbers.
const MAX_MEMBERSHIP_BYTES: usize = 16 << 10;
/// Largest request of FabricService, bytes: a name and a digest.
const MAX_FABRIC_BYTES: usize = 4 << 10;
/// Calls at once on one connection: an agent has three, that of a host one for the fabric, and one per group that it watches and per membership that it holds.
const MAX_STREAMS: u32 = 1024;
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// Octets that a client may send before the controller has taken them, on one call and on one connection.
const WINDOWS: (u32, u32) = (256 << 10, 1 << 20);
/// Calls that a client has reset and of which the controller has not yet noticed; a client with more of them is disconnected.
const MAX_PENDING_RESETS: usize = 20;
/// Calls that the controller has reset because of what the client sent; a client with more of them is disconnected.
const MAX_RESETS_BY_ERROR: usize = 256;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// NodeService, MembershipService, FabricService, IdentityService and gRPC health. `registrar` makes the certificates of agents, if they connect over TLS, also for those that `attestor` confirms. When `closing` becomes true, open streams end with UNAVAILABLE.
pub async fn server(
    controller: Controller,
    registrar: Option<Arc<Registrar>>,
    attestor: Option<Arc<Attestor>>,
    leases: Leases,
    closing: watch::Receiver<bool>,
) -> Router {
    let (health, health_service) = tonic_health::server::health_reporter();
    let identities =
        IdentityServiceServer::new(Identities::new(controller.clone(), registrar, closing.clone(), attestor));
    let keys = Keys::default();
    let nodes = NodeServiceServer::new(Nodes::new(controller.clone(), keys.clone(), closing.clone()));
    let fabric = FabricServiceServer::new(Fabrics::new(controller.clone(), keys.clone(), closing.clone()));
    let membership = MembershipServiceServer::new(Membership::new(controller, keys, leases, closing));
    let nodes = nodes.max_decoding_message_size(MAX_REQUEST_BYTES).max_encoding_message_size(MAX_RESPONSE_BYTES);
    let membership =
        membership.max_decoding_message_size(MAX_MEMBERSHIP_BYTES).max_encoding_message_size(MAX_RESPONSE_BYTES);
    let fabric = fabric.max_decoding_message_size(MAX_FABRIC_BYTES).max_encoding_message_size(MAX_RESPONSE_BYTES);
    health.set_serving::<NodeServiceServer<Nodes>>().await;
    health.set_serving::<FabricServiceServer<Fabrics>>().await;
    health.set_serving::<MembershipServiceServer<Membership>>().await;
    let guard = Guard::default();
    Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_RESETS))
        .http2_max_local_error_reset_streams(Some(MAX_RESETS_BY_ERROR))
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(Guarded::new(health_service, &guard))
        .add_service(Guarded::new(identities.max_decoding_message_size(MAX_ENROLLMENT_BYTES), &guard))
        .add_service(InterceptedService::new(Guarded::new(nodes, &guard.apart()), only_known))
        .add_service(InterceptedService::new(Guarded::new(membership, &guard.apart()), only_known))
        .add_service(InterceptedService::new(Guarded::new(fabric, &guard.apart()), only_known))
}

/// Refuses callers without a valid certificate before a message of theirs is read, which may be large.
#[allow(clippy::result_large_err, reason = "the signature of an interceptor")]
fn only_known(request: Request<()>) -> Result<Request<()>, Status> {
    Caller::of(&request)?.as_reader()?;
    Ok(request)
}
