// SPDX-License-Identifier: Apache-2.0
//! The same API for applications with a tokio runtime. Every future may be dropped at any time.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_model::member::Connection;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::call::{Pause, channel, until_answered};
use crate::event::Follower;
use crate::token::PodToken;
use crate::{ConnectOptions, Error, Event, JoinOptions, Ready};

/// Time limit for leaving.
const LEAVE_WITHIN: Duration = Duration::from_secs(30);
/// Time between two attempts to hold a lease at an agent that does not know leases.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(4);
/// Time limit for opening a watch.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

type Grpc = MembershipServiceClient<InterceptedService<Channel, PodToken>>;

/// A connection to the agent; clones share it. It reconnects when the agent restarts.
#[derive(Clone, Debug)]
pub struct Client {
    grpc: Grpc,
    /// The task that holds the lease of each membership, by group and host.
    leases: Arc<Mutex<HashMap<(String, String), AbortHandle>>>,
}

impl Client {
    /// Connects to the agent's socket at an absolute path; see [`DEFAULT_SOCKET`](crate::DEFAULT_SOCKET).
    ///
    /// # Errors
    /// [`Error::Socket`]: it is not there, or this user may not open it.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::connect_with(&ConnectOptions::at(path)).await
    }

    /// As [`Self::connect`], with more parameters.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_with(options: &ConnectOptions) -> Result<Self, Error> {
        let token = PodToken::of(options.token_file.as_deref());
        let grpc = MembershipServiceClient::with_interceptor(channel(&options.path).await?, token);
        Ok(Self { grpc, leases: Arc::default() })
    }

    /// Joins. Joining again with the same content is a success, also after this process died in between; once the group was ready, it
    /// means that the queue pair was reset: a source then begins another session, and a receiver starts with the next message. With a lease, which a task on
    /// the runtime holds, the host leaves when this process ends.
    ///
    /// # Errors
    /// An argument is wrong, the group does not exist or failed, the host is in it already with other content or is
    /// not attached to the agent's node, this user may not join it, or the agent did not answer within
    /// `options.timeout`.
    pub async fn join(&self, options: JoinOptions) -> Result<Membership, Error> {
        let request = pb::JoinRequest { instance: instance()?, ..options.request()? };
        let answer = until_answered(options.timeout, || {
            let (mut grpc, request) = (self.grpc.clone(), request.clone());
            async move { grpc.join(request).await }
        });
        let connection = Connection::try_from(answer.await?).map_err(|error| Error::Protocol(error.to_string()))?;
        if options.lease {
            // From here on the lease depends on nothing but this process. An agent that was restarted is waited for by the task alone.
            let (held, is_held) = oneshot::channel();
            let key = (options.group.clone(), options.host.clone());
            let task = tokio::spawn(hold(self.grpc.clone(), key.0.clone(), key.1.clone(), held));
            _ = timeout(options.timeout, is_held).await;
            // Now that this one holds the lease, a task of an earlier join is not needed.
            if let Some(before) = self.leases().insert(key, task.abort_handle()) {
                before.abort();
            }
        }
        Ok(Membership { grpc: self.grpc.clone(), group: options.group, host: options.host, connection })
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), AbortHandle>> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.retain(|_, task| !task.is_finished());
        leases
    }

    /// Ends a membership, also that of a process that has exited. Succeeds if the host is not in the group, because
    /// it left, was evicted, or the group was deleted.
    ///
    /// # Errors
    /// The membership is another user's, or the agent did not answer within 30 s: call again.
    pub async fn leave(&self, group: &str, host: &str) -> Result<(), Error> {
        leave(&self.grpc, group, host).await
    }
}

/// The number of one join, which its repetitions share. Not from a generator that a child process would inherit.
fn instance() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| Error::Internal(format!("the operating system gives no random numbers: {error}")))
}

/// Holds the lease of a membership, also after a restart of the agent, until the membership ends; `held` is sent or dropped once it is known
/// whether the agent gives it.
async fn hold(mut grpc: Grpc, group: String, host: String, held: oneshot::Sender<()>) {
    let (mut pause, mut first) = (Pause::default(), Some(held));
    loop {
        let request = pb::HoldMembershipRequest { group: group.clone(), host: host.clone() };
        let ended = match grpc.hold_membership(request).await {
            Ok(answer) => {
                let mut held = answer.into_inner();
                loop {
                    match held.message().await {
                        Ok(Some(_)) => {
                            pause.reset();
                            // The receiver may have stopped waiting.
                            first.take().map(|first| first.send(()));
                        }
                        // The agent was restarted.
                        Ok(None) => break Code::Unavailable,
                        Err(status) => break status.code(),
                    }
                }
            }
            Err(status) => status.code(),
        };
        match ended {
            Code::NotFound | Code::PermissionDenied => return,
            // An agent that does not know leases keeps the membership. Its successor may know them.
            Code::Unimplemented => {
                first = None;
                tokio::time::sleep(UNKNOWN_PAUSE).await;
            }
            _ => tokio::time::sleep(pause.next()).await,
        }
    }
}

async fn leave(grpc: &Grpc, group: &str, host: &str) -> Result<(), Error> {
    let request = pb::LeaveRequest { group: group.to_owned(), host: host.to_owned(), ..Default::default() };
    let left = until_answered(LEAVE_WITHIN, || {
        let (mut grpc, request) = (grpc.clone(), request.clone());
        async move { grpc.leave(request).await }
    });
    match left.await {
        Ok(_) | Err(Error::NoSuchGroup(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A host's membership of a group. Dropping it does not leave the group; with a lease, the end of the process or of the runtime does.
#[derive(Clone, Debug)]
pub struct Membership {
    grpc: Grpc,
    group: String,
    host: String,
    connection: Connection,
}

impl Membership {
    /// The connection parameters of the queue pair; the same for the source and for receivers.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Name of the group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Waits until the group is ready with at least this many receivers that get data: one that joined late counts once its queue pair
    /// has answered a probe.
    ///
    /// # Errors
    /// [`Error::Timeout`] with what was missing; at once [`Error::GroupFailed`], [`Error::NoSuchGroup`], and [`Error::NotPossible`] when
    /// the member's session has ended.
    pub async fn wait_ready(&self, receivers: u32, within: Duration) -> Result<Ready, Error> {
        let mut events = self.events();
        let mut seen = "no state of the group was received".to_owned();
        let ready = async {
            loop {
                match events.next().await? {
                    Event::Ready { receivers: now, write_length } if now >= receivers => {
                        return Ok(Ready { receivers: now, write_length });
                    }
                    Event::Ready { receivers: now, .. } => seen = format!("{now} of {receivers} receivers"),
                    Event::Failed { reason } => return Err(Error::GroupFailed(reason)),
                    Event::SessionEnded => {
                        let what = "the source left or joined again: reset the queue pair and join again";
                        return Err(Error::NotPossible(format!("group {}: {what}", self.group)));
                    }
                    Event::Deleted => return Err(Error::NoSuchGroup(format!("{} was deleted", self.group))),
                    Event::Waiting { reason } | Event::Degraded { reason } | Event::Disconnected { reason } => {
                        seen = reason;
                    }
                    _ => {}
                }
            }
        };
        let waited = timeout(within, ready).await;
        waited
            .unwrap_or_else(|_| Err(Error::Timeout { after: within, reason: format!("group {}: {seen}", self.group) }))
    }

    /// The events of the group from now on, its current state first. Each call has its own.
    pub fn events(&self) -> Events {
        let (grpc, group) = (self.grpc.clone(), self.group.clone());
        Events {
            grpc,
            group,
            stage: Stage::Closed,
            follower: Follower::of(self.connection.session),
            ready: VecDeque::new(),
            pause: Pause::default(),
            retry_at: None,
            deleted: false,
        }
    }

    /// As [`Client::leave`].
    ///
    /// # Errors
    /// As there.
    pub async fn leave(&self) -> Result<(), Error> {
        leave(&self.grpc, &self.group, &self.host).await
    }
}

/// A group's events; they continue over restarts of the agent and of its controller.
#[derive(Debug)]
pub struct Events {
    grpc: Grpc,
    group: String,
    stage: Stage,
    follower: Follower,
    /// Events that were not returned yet.
    ready: VecDeque<Event>,
    pause: Pause,
    retry_at: Option<Instant>,
    deleted: bool,
}

type Opening = Pin<Box<dyn Future<Output = Result<Streaming<pb::WatchGroupResponse>, Status>> + Send>>;

enum Stage {
    Closed,
    /// Kept between calls: otherwise a caller with short timeouts would never receive the answer of a slow agent.
    Opening(Opening),
    Open(Box<Streaming<pb::WatchGroupResponse>>),
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Closed => "Closed",
            Self::Opening(_) => "Opening",
            Self::Open(_) => "Open",
        })
    }
}

impl Events {
    /// Waits for the next event. After [`Event::Deleted`] it always returns that.
    ///
    /// # Errors
    /// The agent refuses: this user may not call it, or too many watches are open. The next call opens the watch
    /// again.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if self.deleted {
                return Ok(Event::Deleted);
            }
            if let Some(at) = self.retry_at {
                sleep_until(at).await;
                self.retry_at = None;
            }
            let received = match &mut self.stage {
                Stage::Closed => {
                    self.stage = Stage::Opening(Box::pin(open(self.grpc.clone(), self.group.clone())));
                    continue;
                }
                Stage::Opening(opening) => match opening.await {
                    Ok(stream) => {
                        self.stage = Stage::Open(Box::new(stream));
                        continue;
                    }
                    Err(status) => Err(status),
                },
                Stage::Open(stream) => stream.message().await,
            };
            match received {
                Ok(Some(state)) => {
                    self.pause.reset();
                    self.follower.state(state, &mut self.ready);
                }
                // A deleted group has a status of its own: here the agent that served this watch has ended.
                Ok(None) => self.broken(Status::unavailable("the agent ended the watch without a status"))?,
                Err(status) => self.broken(status)?,
            }
        }
    }

    fn broken(&mut self, status: Status) -> Result<(), Error> {
        self.stage = Stage::Closed;
        self.retry_at = Some(Instant::now() + self.pause.next());
        if status.code() == Code::NotFound {
            self.deleted = true;
            return Ok(());
        }
        match Error::from(status) {
            Error::Unavailable(reason) => {
                self.follower.lost(&reason, &mut self.ready);
                Ok(())
            }
            refused => Err(refused),
        }
    }
}

async fn open(mut grpc: Grpc, group: String) -> Result<Streaming<pb::WatchGroupResponse>, Status> {
    match timeout(OPEN_WITHIN, grpc.watch_group(pb::WatchGroupRequest { group, ..Default::default() })).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::unavailable("the agent does not answer")),
    }
}
