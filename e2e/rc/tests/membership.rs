// SPDX-License-Identifier: Apache-2.0
//! The membership client against a controller that gives the answers a test configures.
#![allow(clippy::unwrap_used)] // A test that cannot continue panics.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use canopy_control::pb::membership_service_server::{MembershipService, MembershipServiceServer};
use canopy_control::pb::{
    GroupPhase, JoinRequest, JoinResponse, LeaveRequest, LeaveResponse, MemoryRegion, Role, WatchGroupRequest,
    WatchGroupResponse,
};
use canopy_rc::membership::{self, Member};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

const PATIENCE: Duration = Duration::from_secs(20);
const BRIEF: Duration = Duration::from_millis(200);

/// Answers every join alike, sends its states to every watch, and records the requests.
#[derive(Clone, Default)]
struct Controller {
    refusal: Option<tonic::Code>,
    states: Vec<WatchGroupResponse>,
    deleted: bool,
    joins: Arc<Mutex<Vec<JoinRequest>>>,
    leaves: Arc<Mutex<Vec<LeaveRequest>>>,
}

#[tonic::async_trait]
impl MembershipService for Controller {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        self.joins.lock().unwrap().push(request.into_inner());
        match self.refusal {
            Some(code) => Err(Status::new(code, "no such group")),
            None => Ok(Response::new(joined())),
        }
    }

    async fn leave(&self, request: Request<LeaveRequest>) -> Result<Response<LeaveResponse>, Status> {
        self.leaves.lock().unwrap().push(request.into_inner());
        Ok(Response::new(LeaveResponse {}))
    }

    type HoldMembershipStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<canopy_control::pb::HoldMembershipResponse, Status>> + Send>>;

    async fn hold_membership(
        &self,
        _: Request<canopy_control::pb::HoldMembershipRequest>,
    ) -> Result<Response<Self::HoldMembershipStream>, Status> {
        Err(Status::unimplemented("leases are held at the agent"))
    }

    type WatchGroupStream = std::pin::Pin<Box<dyn Stream<Item = Result<WatchGroupResponse, Status>> + Send>>;

    async fn watch_group(&self, _: Request<WatchGroupRequest>) -> Result<Response<Self::WatchGroupStream>, Status> {
        let states = tokio_stream::iter(self.states.clone().into_iter().map(Ok));
        if self.deleted {
            let end = tokio_stream::once(Err(Status::not_found("group \"g\" was deleted")));
            return Ok(Response::new(Box::pin(states.chain(end))));
        }
        Ok(Response::new(Box::pin(states.chain(tokio_stream::pending()))))
    }
}

fn joined() -> JoinResponse {
    JoinResponse {
        proxy_address: "fcfe::7".parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec(),
        designated_qpn: 0x123456,
        start_psn: 0xff_fff0,
        path_mtu: 2048,
        ..JoinResponse::default()
    }
}

fn state(phase: GroupPhase, receivers: u32, write_length: u64) -> WatchGroupResponse {
    let reason = "because".to_owned();
    WatchGroupResponse { phase: phase.into(), reason, receivers, write_length, evicted: vec![], session: 0 }
}

fn request() -> JoinRequest {
    JoinRequest {
        group: "g".to_owned(),
        host: "r1".to_owned(),
        role: Role::Receiver.into(),
        address: vec![1; 16],
        qpn: 0x77,
        memory: Some(MemoryRegion { va: 1, rkey: 2, length: 3 }),
        ..Default::default()
    }
}

async fn serve(controller: Controller, path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    Server::builder()
        .add_service(MembershipServiceServer::new(controller))
        .serve_with_incoming(UnixListenerStream::new(listener))
        .await
        .unwrap();
}

/// A controller on a socket of its own, and its URI.
fn start(controller: Controller) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let uri = format!("unix:{}", path.display());
    tokio::spawn(async move { serve(controller, &path).await });
    (folder, uri)
}

async fn member(controller: Controller) -> (tempfile::TempDir, Member) {
    let (folder, uri) = start(controller);
    let (member, _) = Member::join(&uri, request(), PATIENCE).await.unwrap();
    (folder, member)
}

#[tokio::test]
async fn joins_and_leaves_with_what_it_was_given_once_the_controller_is_there() {
    let controller = Controller::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let uri = format!("unix:{}", path.display());
    let join = tokio::spawn(async move { Member::join(&uri, request(), PATIENCE).await });
    // The first attempts find no socket.
    tokio::task::yield_now().await;
    let server = controller.clone();
    tokio::spawn(async move { serve(server, &path).await });
    let (member, response) = join.await.unwrap().unwrap();
    assert_eq!(response, joined());
    assert_eq!(*controller.joins.lock().unwrap(), [request()]);
    member.leave().await.unwrap();
    let leave = LeaveRequest { group: "g".to_owned(), host: "r1".to_owned(), ..Default::default() };
    assert_eq!(*controller.leaves.lock().unwrap(), [leave]);
}

#[tokio::test]
async fn a_refusal_is_final_and_names_group_and_host() {
    let refusal = Some(tonic::Code::NotFound);
    let controller = Controller { refusal, ..Controller::default() };
    let (_folder, uri) = start(controller.clone());
    let error = Member::join(&uri, request(), PATIENCE).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(text.contains("\"g\"") && text.contains("\"r1\"") && text.contains("no such group"), "{text}");
    assert_eq!(controller.joins.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_absent_controller_is_an_error_after_the_patience() {
    let error = Member::join("unix:/nonexistent/canopy", request(), BRIEF).await.err().unwrap();
    assert!(format!("{error:#}").contains("unix:/nonexistent/canopy"));
    assert!(Member::join("ftp//", request(), BRIEF).await.is_err());
}

#[tokio::test]
async fn ready_waits_for_the_phase_the_receivers_and_the_memory() {
    let states = vec![
        state(GroupPhase::Pending, 0, 0),
        state(GroupPhase::Ready, 1, 0),
        state(GroupPhase::Degraded, 2, 9),
        state(GroupPhase::Ready, 2, 0),
        state(GroupPhase::Ready, 3, 4096),
    ];
    let controller = Controller { states, ..Controller::default() };
    let (_folder, mut member) = member(controller).await;
    let ready = async |member: &mut Member, receivers, write| {
        let state = member.ready(receivers, write, PATIENCE).await.unwrap();
        (state.receivers, state.write_length)
    };
    assert_eq!(ready(&mut member, 1, false).await, (1, 0));
    assert_eq!(ready(&mut member, 2, false).await, (2, 0));
    assert_eq!(ready(&mut member, 2, true).await, (3, 4096));
    let error = member.ready(4, false, BRIEF).await.unwrap_err().to_string();
    assert!(error.contains("3 of 4 receivers") && error.contains("because"), "{error}");
}

#[tokio::test]
async fn a_group_that_is_deleted_is_not_waited_for() {
    let states = vec![state(GroupPhase::Pending, 0, 0)];
    let controller = Controller { states, deleted: true, ..Controller::default() };
    let (_folder, mut member) = member(controller).await;
    let error = format!("{:#}", member.ready(1, false, PATIENCE).await.unwrap_err());
    assert!(error.contains("deleted"), "{error}");
}

#[test]
fn a_connection_takes_all_from_the_contract_and_refuses_what_cannot_be() {
    let local = "fd00::1".parse().unwrap();
    let connection = membership::connection(local, 5, &joined()).unwrap();
    assert_eq!((connection.local, connection.local_qpn), (local, 5));
    assert_eq!(connection.peer.to_string(), "fcfe::7");
    assert_eq!((connection.peer_qpn, connection.start_psn), (0x123456, 0xff_fff0));
    assert_eq!(connection.mtu, 2048);
    let refused = [
        ("proxy_address", JoinResponse { proxy_address: vec![0; 4], ..joined() }),
        ("designated_qpn", JoinResponse { designated_qpn: 1 << 24, ..joined() }),
        ("start_psn", JoinResponse { start_psn: 1 << 24, ..joined() }),
        ("path_mtu", JoinResponse { path_mtu: 1500, ..joined() }),
    ];
    for (field, response) in refused {
        let error = membership::connection(local, 5, &response).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}
