// SPDX-License-Identifier: Apache-2.0
//! MembershipService of the agent: checks the caller and the host; the controller checks everything else.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::membership_service_server::MembershipService;
use canopy_model::ids::check_name;
use tokio::sync::{Semaphore, watch as state};
use tokio::task::block_in_place;
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::access::Caller;
use super::ending::Ending;
use super::leases::{Hold, Leases};
use super::owner::Owner;
use super::owners::{Key, Owners, ended};
use super::tokens::Tokens;
use super::upstream::Upstream;
use super::{ANSWER_WITHIN, watch};

/// Concurrent watches of all callers; the controller's server permits 1024 streams on a connection.
const MAX_WATCHES: usize = 512;
/// A caller that is not identified within this is one that cannot be now; shorter than the time that a lease is waited for.
const SLOW: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub(super) struct Membership {
    target: String,
    controller: MembershipServiceClient<Channel>,
    owners: Arc<Owners>,
    leases: Arc<Leases>,
    ending: Arc<Ending>,
    /// Where pods are callers.
    tokens: Option<Arc<Tokens>>,
    /// Of the agent of a host.
    upstream: Option<Arc<Upstream>>,
    watches: Arc<Semaphore>,
    closing: state::Receiver<bool>,
}

impl Membership {
    pub(super) fn new(
        target: String,
        ending: &Arc<Ending>,
        tokens: Option<Arc<Tokens>>,
        upstream: Option<Arc<Upstream>>,
    ) -> Self {
        Self {
            target,
            controller: ending.controller.clone(),
            owners: Arc::clone(&ending.owners),
            leases: Arc::clone(&ending.leases),
            ending: Arc::clone(ending),
            tokens,
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

    /// The group does not exist for this caller.
    fn forget_group(&self, group: &str, by: &Owner) {
        block_in_place(|| {
            let gone = self.owners.forget_group(group, by);
            match by {
                // Also those whose owner is not known.
                Owner::User(_) => self.leases.forget_group(group),
                Owner::Pod(_) => gone.iter().for_each(|key| self.leases.end(key)),
            }
        });
    }

    async fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        Caller::of(request, self.tokens.as_ref()).await
    }

    /// The caller who wants to hold this lease. It may be the process that joined: no lease ends because tokens cannot be confirmed now.
    async fn holder<T: Sync>(&self, request: &Request<T>, key: &Key) -> Result<Caller, Status> {
        let wait_longer = || self.leases.wait_longer(key).into_iter().for_each(|unheld| self.ending.schedule(unheld));
        let identifying = self.caller(request);
        tokio::pin!(identifying);
        let caller = match tokio::time::timeout(SLOW, &mut identifying).await {
            Ok(caller) => caller,
            Err(_) => {
                wait_longer();
                identifying.await
            }
        };
        if caller.as_ref().is_err_and(|refused| refused.code() == Code::Unavailable) {
            wait_longer();
        }
        caller
    }

    /// A refusal because of another owner; that of a group that is not there for this pod, if it is one of another tenant.
    async fn refuse(&self, refused: Status, group: &str, by: &Owner) -> Status {
        let (_, account) = by.for_request();
        if account.is_empty() || !matches!(refused.code(), Code::PermissionDenied | Code::Aborted) {
            return refused;
        }
        let request = pb::WatchGroupRequest { group: group.to_owned(), account };
        match self.call(self.controller.clone().watch_group(request)).await {
            Ok(_) => refused,
            Err(hidden) => hidden,
        }
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
        let caller = self.caller(&request).await?;
        let mut request = request.into_inner();
        check_names(&request.group, &request.host)?;
        self.check_host(&request.host)?;
        let key = (request.group.clone(), request.host.clone());
        let (group, host) = &key;
        let has_lease = request.lease;
        (request.uid, request.account) = caller.owner.for_request();
        match &self.upstream {
            Some(upstream) if has_lease => upstream.check_place(&key)?,
            _ => request.lease = false,
        }
        let claim = match self.owners.claim(group, host, &caller.owner) {
            Ok(claim) => claim,
            Err(refused) => return Err(self.refuse(refused, group, &caller.owner).await),
        };
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
                    self.forget_group(group, &caller.owner);
                }
            }
        }
        answer
    }

    async fn leave(&self, request: Request<pb::LeaveRequest>) -> Result<Response<pb::LeaveResponse>, Status> {
        let caller = self.caller(&request).await?;
        let (uid, account) = caller.owner.for_request();
        let request = pb::LeaveRequest { uid, account, ..request.into_inner() };
        check_names(&request.group, &request.host)?;
        let (group, host) = (request.group.clone(), request.host.clone());
        let claim = match self.owners.claim(&group, &host, &caller.owner) {
            Ok(claim) => claim,
            Err(refused) => return Err(self.refuse(refused, &group, &caller.owner).await),
        };
        if claim.owner().is_none() {
            // A host that moved to another node after it joined here may still leave here.
            self.check_host(&host)?;
            let (who, may) = match &caller.owner {
                owner if *owner == Owner::ROOT => (String::new(), None),
                Owner::User(uid) => (format!("uid {uid}"), Some("only root can end that membership here")),
                Owner::Pod(_) => ("this pod".to_owned(), Some("only an operator can end that membership")),
            };
            if let Some(may) = may {
                let why = format!("host: {who} did not join {host} to group {group} through this agent: {may}");
                return Err(self.refuse(Status::permission_denied(why), &group, &caller.owner).await);
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
        let pb::HoldMembershipRequest { group, host } = request.get_ref().clone();
        check_names(&group, &host)?;
        let key = (group, host);
        let caller = self.holder(&request, &key).await?;
        if let Err(refused) = self.owners.check(&key, &caller.owner) {
            let refused = self.refuse(refused, &key.0, &caller.owner).await;
            return Err(if refused.code() == Code::NotFound { ended(&key) } else { refused });
        }
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
        let caller = self.caller(&request).await?;
        let (_, account) = caller.owner.for_request();
        let request = pb::WatchGroupRequest { account, ..request.into_inner() };
        let group = request.group.clone();
        check_name("group", &group).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let place = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_WATCHES} watches are open at this agent: close some"))
        })?;
        let opened = self.call(self.controller.clone().watch_group(request)).await;
        if opened.as_ref().is_err_and(|refused| refused.code() == Code::NotFound) {
            self.forget_group(&group, &caller.owner);
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
