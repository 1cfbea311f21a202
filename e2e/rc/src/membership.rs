// SPDX-License-Identifier: Apache-2.0
//! Joins a group at the controller, where an RDMA application would exchange QPNs with its peers.

use std::future::Future;
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::{
    GroupPhase, HoldMembershipRequest, JoinRequest, JoinResponse, LeaveRequest, WatchGroupRequest, WatchGroupResponse,
};
use canopy_host::PodToken;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::connection::Connection;
use crate::psn;
use crate::transfer::MTUS;

const RETRY_INTERVAL: Duration = Duration::from_millis(100);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// With the token of the program's pod, where the agent wants one.
type Client = MembershipServiceClient<InterceptedService<Channel, PodToken>>;

/// A membership in a group.
pub struct Member {
    client: Client,
    group: String,
    host: String,
}

impl Member {
    /// Joins; retries for `patience` while the controller is unreachable. `controller` is `unix:/path` or
    /// `http://host:port`.
    pub async fn join(controller: &str, request: JoinRequest, patience: Duration) -> Result<(Self, JoinResponse)> {
        let endpoint = Endpoint::from_shared(controller.to_owned())
            .with_context(|| format!("controller: {controller:?} is no unix:/path or http://host:port"))?
            .connect_timeout(CALL_TIMEOUT);
        // Of the environment; it goes to an agent on this machine alone.
        let token = if controller.starts_with("unix:") { PodToken::of(None) } else { PodToken::None };
        let mut client = MembershipServiceClient::with_interceptor(endpoint.connect_lazy(), token.clone());
        let deadline = Instant::now() + patience;
        loop {
            let status = match call(client.join(request.clone())).await {
                Ok(response) => {
                    let JoinRequest { group, host, lease, .. } = request;
                    if lease {
                        hold(endpoint, token, group.clone(), host.clone())?;
                    }
                    return Ok((Self { client, group, host }, response));
                }
                Err(status) => status,
            };
            let transient = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
            if !transient || Instant::now() >= deadline {
                let (group, host) = (&request.group, &request.host);
                return Err(status)
                    .with_context(|| format!("joining group {group:?} as host {host:?} at controller {controller}"));
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Waits for `patience` until the group is ready with at least `receivers`, and with memory registered when `write`.
    pub async fn ready(&mut self, receivers: u32, write: bool, patience: Duration) -> Result<WatchGroupResponse> {
        let deadline = Instant::now() + patience;
        let request = WatchGroupRequest { group: self.group.clone(), ..Default::default() };
        let mut seen = None;
        let watch = async {
            let mut stream = self.client.watch_group(request).await?.into_inner();
            while let Some(state) = stream.message().await? {
                let enough = state.receivers >= receivers && (!write || state.write_length > 0);
                if enough && state.phase() == GroupPhase::Ready {
                    return Ok(Some(state));
                }
                seen = Some(state);
            }
            Ok::<_, Status>(None)
        };
        match timeout_at(deadline, watch).await {
            Ok(Ok(Some(state))) => Ok(state),
            Ok(Ok(None)) => bail!("the controller ended the watch of group {:?} without a status", self.group),
            Ok(Err(status)) => Err(status).with_context(|| format!("watching group {:?}", self.group)),
            Err(_) => bail!("group {:?} {}", self.group, why_not_ready(seen, receivers, write)),
        }
    }

    /// Leaves the group.
    pub async fn leave(mut self) -> Result<()> {
        let request = LeaveRequest { group: self.group.clone(), host: self.host.clone(), ..Default::default() };
        let left = call(self.client.leave(request)).await;
        left.map(drop).with_context(|| format!("leaving group {:?} as host {:?}", self.group, self.host))
    }
}

/// Holds the lease of a membership for as long as this process lives; a thread of its own, because the data path has the caller's.
fn hold(endpoint: Endpoint, token: PodToken, group: String, host: String) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let mut client = MembershipServiceClient::with_interceptor(endpoint.connect_lazy(), token);
            loop {
                let request = HoldMembershipRequest { group: group.clone(), host: host.clone() };
                if let Ok(answer) = client.hold_membership(request).await {
                    let mut stream = answer.into_inner();
                    while let Ok(Some(_)) = stream.message().await {}
                }
                sleep(RETRY_INTERVAL).await;
            }
        });
    });
    Ok(())
}

/// The connection that the controller's answer to a join describes.
pub fn connection(local: Ipv6Addr, local_qpn: u32, joined: &JoinResponse) -> Result<Connection> {
    let octets: [u8; 16] = joined.proxy_address.as_slice().try_into().with_context(|| {
        let length = joined.proxy_address.len();
        format!("the controller's proxy_address has {length} octets in place of 16")
    })?;
    let (peer_qpn, start_psn, mtu) = (joined.designated_qpn, joined.start_psn, joined.path_mtu);
    ensure!(peer_qpn <= psn::MASK, "the controller's designated_qpn {peer_qpn} exceeds 24 bits");
    ensure!(start_psn <= psn::MASK, "the controller's start_psn {start_psn} exceeds 24 bits");
    ensure!(MTUS.contains(&mtu), "the controller's path_mtu {mtu} is no RDMA path MTU");
    Ok(Connection { local, local_qpn, peer: octets.into(), peer_qpn, start_psn, mtu })
}

async fn call<T>(answer: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(CALL_TIMEOUT, answer).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("no answer from the controller")),
    }
}

fn why_not_ready(seen: Option<WatchGroupResponse>, receivers: u32, write: bool) -> String {
    let Some(state) = seen else {
        return "has not reported its state in time".to_owned();
    };
    let memory = if write { format!(", {} bytes registered by all", state.write_length) } else { String::new() };
    format!(
        "is not ready in time: {}, {} of {receivers} receivers{memory}, reason {:?}",
        state.phase().as_str_name(),
        state.receivers,
        state.reason,
    )
}
