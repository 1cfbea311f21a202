// SPDX-License-Identifier: Apache-2.0
//! An agent on a Unix socket that gives the answers a test configures.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use canopy_control::pb::membership_service_server::{MembershipService, MembershipServiceServer};
use canopy_control::pb::{
    Evicted, GroupPhase, HoldMembershipRequest, HoldMembershipResponse, JoinRequest, JoinResponse, LeaveRequest,
    LeaveResponse, SourceFlow, WatchGroupRequest, WatchGroupResponse,
};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_stream::wrappers::{UnixListenerStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// Requests to the agent, in order.
#[derive(Default)]
pub struct Requests {
    /// Joins.
    pub joins: Vec<JoinRequest>,
    /// Holds of leases.
    pub holds: Vec<HoldMembershipRequest>,
    /// Holds that were given up.
    pub ended: usize,
    /// Leaves.
    pub leaves: Vec<LeaveRequest>,
    /// What a hold is answered one after the other, the first when it is held.
    pub flows: Vec<SourceFlow>,
}

/// A hold, until it is given up.
struct Hold(Arc<Mutex<Requests>>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.lock().unwrap().ended += 1;
    }
}

/// An item of a watch.
type WatchItem = Option<Result<WatchGroupResponse, Status>>;

/// The test's hold on its agent. Dropping it is like a crash.
pub struct Agent {
    /// What applications asked.
    pub requests: Arc<Mutex<Requests>>,
    state: Option<watch::Sender<WatchItem>>,
    watched: Arc<Mutex<watch::Receiver<WatchItem>>>,
    runtime: Option<Runtime>,
    path: PathBuf,
}

struct Service {
    requests: Arc<Mutex<Requests>>,
    watched: Arc<Mutex<watch::Receiver<WatchItem>>>,
}

/// A state of a group, for a watch.
pub fn state(phase: GroupPhase, reason: &str, receivers: u32, evicted: &[(&str, &str)]) -> WatchGroupResponse {
    let evicted = evicted.iter().map(|(host, why)| Evicted { host: (*host).into(), reason: (*why).into() }).collect();
    WatchGroupResponse {
        phase: phase.into(),
        reason: reason.into(),
        receivers,
        write_length: 4096,
        evicted,
        session: 0,
    }
}

impl Agent {
    /// Accepts connections in `dir` once this returns.
    pub fn start(dir: &Path) -> Self {
        let path = dir.join("host.sock");
        // The socket of an agent that crashed.
        _ = std::fs::remove_file(&path);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let requests = Arc::<Mutex<Requests>>::default();
        let (send, receive) = watch::channel(None);
        let watched = Arc::new(Mutex::new(receive));
        let service = MembershipServiceServer::new(Service { requests: requests.clone(), watched: watched.clone() });
        let listener = runtime.block_on(async { UnixListener::bind(&path) }).unwrap();
        runtime.spawn(Server::builder().add_service(service).serve_with_incoming(UnixListenerStream::new(listener)));
        Self { requests, state: Some(send), watched, runtime: Some(runtime), path }
    }

    /// Its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a state to all current and future watches.
    pub fn send_state(&self, state: WatchGroupResponse) {
        self.state.as_ref().unwrap().send_replace(Some(Ok(state)));
    }

    /// Behaves as if the group were deleted.
    pub fn delete_group(&self) {
        self.state.as_ref().unwrap().send_replace(Some(Err(Status::not_found("group \"g\" was deleted"))));
    }

    /// Ends every watch without a status, like a process that is dropping its tasks.
    pub fn end_watches(&mut self) {
        let (send, receive) = watch::channel(None);
        self.state = Some(send);
        *self.watched.lock().unwrap() = receive;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[tonic::async_trait]
impl MembershipService for Service {
    /// Group `absent` does not exist, group `forbidden` is not the caller's, host `theirs` is another user's; all others join.
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let request = request.into_inner();
        let (group, host) = (request.group.clone(), request.host.clone());
        self.requests.lock().unwrap().joins.push(request);
        if group == "absent" {
            return Err(Status::not_found("group \"absent\" does not exist"));
        }
        if group == "forbidden" {
            return Err(Status::permission_denied("host: a certificate of host/r9 cannot act for it"));
        }
        if host == "theirs" {
            return Err(Status::permission_denied("uid 7: host_socket.uids"));
        }
        Ok(Response::new(JoinResponse {
            proxy_address: "fcfe::7".parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec(),
            designated_qpn: 0x12_3456,
            start_psn: 0xff_fff0,
            path_mtu: 2048,
            write_base_va: 1 << 40,
            write_rkey: 9,
            write_length: 0,
            session: 0,
        }))
    }

    async fn leave(&self, request: Request<LeaveRequest>) -> Result<Response<LeaveResponse>, Status> {
        self.requests.lock().unwrap().leaves.push(request.into_inner());
        Ok(Response::new(LeaveResponse {}))
    }

    type HoldMembershipStream = Pin<Box<dyn Stream<Item = Result<HoldMembershipResponse, Status>> + Send>>;

    async fn hold_membership(
        &self,
        request: Request<HoldMembershipRequest>,
    ) -> Result<Response<Self::HoldMembershipStream>, Status> {
        self.requests.lock().unwrap().holds.push(request.into_inner());
        let hold = Hold(self.requests.clone());
        let mut flows = self.requests.lock().unwrap().flows.clone().into_iter();
        let held = tokio_stream::once(Ok(HoldMembershipResponse { flow: flows.next() }));
        let held = held.chain(tokio_stream::iter(flows).map(|flow| Ok(HoldMembershipResponse { flow: Some(flow) })));
        let held = held.chain(tokio_stream::pending()).map(move |response| {
            let _until_given_up = &hold;
            response
        });
        Ok(Response::new(Box::pin(held)))
    }

    type WatchGroupStream = Pin<Box<dyn Stream<Item = Result<WatchGroupResponse, Status>> + Send>>;

    /// Group `slow` answers late.
    async fn watch_group(
        &self,
        request: Request<WatchGroupRequest>,
    ) -> Result<Response<Self::WatchGroupStream>, Status> {
        if request.get_ref().group == "slow" {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        let states = WatchStream::new(self.watched.lock().unwrap().clone()).filter_map(|state| state);
        Ok(Response::new(Box::pin(states)))
    }
}
