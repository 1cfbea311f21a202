// SPDX-License-Identifier: Apache-2.0
//! MembershipService of the agent: checks the caller and the host; the controller checks everything else.

use std::pin::Pin;
use std::sync::Arc;

use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::membership_service_server::MembershipService;
use canopy_model::ids::check_name;
use tokio::sync::{Semaphore, watch as state};
use tokio::task::block_in_place;
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::access::{Caller, ROOT};
use super::ending::Ending;
use super::leases::{Hold, Leases};
use super::owners::{Key, Owners, ended};
use super::upstream::Upstream;
use super::{ANSWER_WITHIN, watch};

/// Concurrent watches of all callers; the controller's server permits 1024 streams on a connection.
const MAX_WATCHES: usize = 512;

#[derive(Clone)]
pub(super) struct Membership {
    target: String,
    controller: MembershipServiceClient<Channel>,
    owners: Arc<Owners>,
    leases: Arc<Leases>,
    ending: Arc<Ending>,
    /// Of the agent of a host.
    upstream: Option<Arc<Upstream>>,
    watches: Arc<Semaphore>,
    closing: state::Receiver<bool>,
}

impl Membership {
    pub(super) fn new(target: String, ending: &Arc<Ending>, upstream: Option<Arc<Upstream>>) -> Self {
        Self {
            target,
            controller: ending.controller.clone(),
            owners: Arc::clone(&ending.owners),
            leases: Arc::clone(&ending.leases),
            ending: Arc::clone(ending),
            upstream,
            watches: Arc::new(Semaphore::new(MAX_WATCHES)),
            closing: ending.closing.clone(),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), Status> {
        self.ending.served.check(host, &self.target)
    }

    /// Begins the membership's lease; processes have to hold it soon.
    fn lease(&self, key: &Key) -> Result<(), Status> {
        let unheld = block_in_place(|| self.leases.start(key)).map_err(|error| {
            Status::internal(format!("the agent cannot store the lease of the membership: {error}"))
        })?;
        self.ending.schedule(unheld);
        Ok(())
    }

    fn forget_group(&self, group: &str) {
        block_in_place(|| {
            self.owners.forget_group(group);
            self.leases.forget_group(group);
        });
    }

    /// Waits for the controller's answer.
    async fn call<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<Response<T>, Status> {
        let answer = tokio::time::timeout(ANSWER_WITHIN, call).await;
        answer.unwrap_or_else(|_| Err(Status::unavailable("no answer in time"))).map_err(|s| self.refusal(&s))
    }

    /// The caller's status for an error status or a timeout of the controller.
    fn refusal(&self, status: &Status) -> Status {
        if is_settled(status.code()) {
            return Status::new(status.code(), status.message());
        }
        watch::unreachable(&self.target, status)
    }
}

#[tonic::async_trait]
impl MembershipService for Membership {
    async fn join(&self, request: Request<pb::JoinRequest>) -> Result<Response<pb::JoinResponse>, Status> {
        let caller = caller(&request)?;
        let mut request = request.into_inner();
        check_names(&request.group, &request.host)?;
        self.check_host(&request.host)?;
        let key = (request.group.clone(), request.host.clone());
        let (group, host) = &key;
        let has_lease = request.lease;
        request.uid = Some(caller.uid);
        match &self.upstream {
            Some(upstream) if has_lease => upstream.check_place(&key)?,
            _ => request.lease = false,
        }
        let claim = self.owners.claim(group, host, caller.uid)?;
        // Owner and lease of a new membership are on disk before the controller is called; the writes may block.
        block_in_place(|| claim.own())?;
        let is_new = claim.owner().is_none();
        if has_lease && is_new {
            self.lease(&key).inspect_err(|_| block_in_place(|| claim.undo()))?;
        }
        let answer = self.call(self.controller.clone().join(request)).await;
        match &answer {
            Ok(_) => {
                tracing::info!(group, host, %caller, lease = has_lease, "joined");
                if has_lease {
                    // Also when it is new: the answer may have taken its time.
                    self.lease(&key)?;
                    if let Some(upstream) = &self.upstream {
                        upstream.hold(&key);
                    }
                } else {
                    block_in_place(|| self.leases.end(&key));
                }
            }
            Err(refused) => {
                tracing::info!(group, host, %caller, code = ?refused.code(), reason = refused.message(), "join failed");
                // After any other error the join may have succeeded.
                if is_settled(refused.code()) && is_new {
                    block_in_place(|| {
                        self.leases.end(&key);
                        claim.undo();
                    });
                }
                if refused.code() == Code::NotFound {
                    self.forget_group(group);
                }
            }
        }
        answer
    }

    async fn leave(&self, request: Request<pb::LeaveRequest>) -> Result<Response<pb::LeaveResponse>, Status> {
        let caller = caller(&request)?;
        let request = pb::LeaveRequest { uid: Some(caller.uid), ..request.into_inner() };
        check_names(&request.group, &request.host)?;
        let (group, host) = (request.group.clone(), request.host.clone());
        let claim = self.owners.claim(&group, &host, caller.uid)?;
        if claim.owner().is_none() {
            // A host that moved to another node after it joined here may still leave here.
            self.check_host(&host)?;
            if caller.uid != ROOT {
                return Err(Status::permission_denied(format!(
                    "host: uid {} did not join {host} to group {group} through this agent: only root can end that \
                     membership here",
                    caller.uid
                )));
            }
        }
        let answer = self.call(self.controller.clone().leave(request)).await;
        let ended = answer.as_ref().map_or_else(|refused| refused.code() == Code::NotFound, |_| true);
        if ended {
            tracing::info!(group, host, %caller, "left");
            block_in_place(|| {
                self.leases.end(&(group.clone(), host.clone()));
                claim.end();
            });
        }
        answer
    }

    type HoldMembershipStream = Pin<Box<dyn Stream<Item = Result<pb::HoldMembershipResponse, Status>> + Send>>;

    async fn hold_membership(
        &self,
        request: Request<pb::HoldMembershipRequest>,
    ) -> Result<Response<Self::HoldMembershipStream>, Status> {
        let caller = caller(&request)?;
        let pb::HoldMembershipRequest { group, host } = request.into_inner();
        check_names(&group, &host)?;
        let key = (group, host);
        self.owners.check(&key, caller.uid)?;
        let ending = Arc::clone(&self.ending);
        let hold = self.leases.hold(key, move |unheld| ending.schedule(unheld))?;
        let held = tokio_stream::once(Ok(pb::HoldMembershipResponse::default()));
        let ended = tokio_stream::StreamExt::chain(held, ends(hold, self.closing.clone()));
        Ok(Response::new(Box::pin(ended)))
    }

    type WatchGroupStream = Pin<Box<dyn Stream<Item = Result<pb::WatchGroupResponse, Status>> + Send>>;

    async fn watch_group(
        &self,
        request: Request<pb::WatchGroupRequest>,
    ) -> Result<Response<Self::WatchGroupStream>, Status> {
        caller(&request)?;
        let group = request.get_ref().group.clone();
        check_name("group", &group).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let place = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_WATCHES} watches are open at this agent: close some"))
        })?;
        let opened = self.call(self.controller.clone().watch_group(request.into_inner())).await;
        if opened.as_ref().is_err_and(|refused| refused.code() == Code::NotFound) {
            self.forget_group(&group);
        }
        let states = watch::forward(opened?.into_inner(), self.target.clone(), place, self.closing.clone());
        Ok(Response::new(Box::pin(states)))
    }
}

/// Ends with an error once the membership or the agent has ended; dropping the stream releases the lease.
fn ends<T: Send + 'static>(
    mut hold: Hold,
    mut closing: state::Receiver<bool>,
) -> impl Stream<Item = Result<T, Status>> + Send {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let end = tokio::select! {
            () = hold.ended() => ended(hold.key()),
            () = super::closed(&mut closing) => Status::unavailable("the agent is stopping: hold the membership again"),
            // The process has ended, or closed its connection.
            () = sender.closed() => return,
        };
        // The receiver may be gone: nothing to do.
        _ = sender.send(Err(end)).await;
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}

/// Whether the controller refused the call permanently and changed nothing.
fn is_settled(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::ResourceExhausted
    )
}

fn check_names(group: &str, host: &str) -> Result<(), Status> {
    let checked = check_name("group", group).and_then(|()| check_name("host", host));
    checked.map_err(|error| Status::invalid_argument(error.to_string()))
}

pub(super) fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>();
    let caller = caller.ok_or_else(|| Status::internal("the kernel did not report the credentials of the caller"))?;
    caller.check()?;
    Ok(caller.clone())
}
