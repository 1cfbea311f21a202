// SPDX-License-Identifier: Apache-2.0
//! `PacerService`: the API for applications and operators.

use std::net::Ipv6Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::pacer_service_server::PacerService;
use canopy_daemon::callers::Caller;
use canopy_host_core::pacing::Refusal;
use canopy_model::ids::Qpn;
use canopy_units::{Rate, nanos};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use crate::daemon;
use crate::engine::{Closed, Flow, Open, OpenError};

/// Maximum number of concurrent watches.
const MAX_WATCHES: usize = 64;
/// Maximum RTT of a path.
const MAX_RTT: Duration = Duration::from_secs(10);

/// The service; it forwards requests to the daemon.
#[derive(Clone)]
pub(crate) struct Service {
    daemon: mpsc::Sender<daemon::Request>,
    watches: Arc<Semaphore>,
}

impl Service {
    pub(crate) fn new(daemon: mpsc::Sender<daemon::Request>) -> Self {
        Self { daemon, watches: Arc::new(Semaphore::new(MAX_WATCHES)) }
    }

    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> daemon::Request,
    ) -> Result<T, Status> {
        let (to, answer) = oneshot::channel();
        let stopping = || Status::unavailable("canopy-pacer is stopping");
        self.daemon.send(request(to)).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())
    }
}

#[tonic::async_trait]
impl PacerService for Service {
    async fn list_qps(&self, _: Request<pb::ListQpsRequest>) -> Result<Response<pb::ListQpsResponse>, Status> {
        Ok(Response::new(self.ask(daemon::Request::List).await?))
    }

    async fn open_qp(&self, request: Request<pb::OpenQpRequest>) -> Result<Response<pb::OpenQpResponse>, Status> {
        may_change(&request)?;
        let open = read_open(&request.into_inner())?;
        let opened = self.ask(|to| daemon::Request::Open(open, to)).await?;
        let qp = opened.map_err(|error| refusal(open.qpn, error))?;
        Ok(Response::new(pb::OpenQpResponse { qp: Some(qp) }))
    }

    async fn close_qp(&self, request: Request<pb::CloseQpRequest>) -> Result<Response<pb::CloseQpResponse>, Status> {
        may_change(&request)?;
        let qpn = read_qpn("qpn", request.get_ref().qpn)?;
        match self.ask(|to| daemon::Request::Close(qpn, to)).await? {
            Closed::Ended => Ok(Response::new(pb::CloseQpResponse {})),
            Closed::OfAgent => Err(Status::failed_precondition(format!(
                "qpn: QP {qpn} is a source's, as the agent of the host reports, and is paced until that leaves its group"
            ))),
            Closed::Unknown => {
                Err(Status::not_found(format!("qpn: no QP {qpn} is live here (`canopy-pacer status` lists them)")))
            }
        }
    }

    type WatchActionsStream = Pin<Box<dyn Stream<Item = Result<pb::WatchActionsResponse, Status>> + Send>>;

    async fn watch_actions(
        &self,
        _: Request<pb::WatchActionsRequest>,
    ) -> Result<Response<Self::WatchActionsStream>, Status> {
        let place = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_WATCHES} watches are open at this daemon: close some"))
        })?;
        let (state, changes) = self.ask(daemon::Request::Watch).await?;
        let mut missed = 0;
        let changes = BroadcastStream::new(changes).filter_map(move |next| {
            // Held as long as the stream.
            _ = &place;
            match next {
                Ok(change) => {
                    let missed = std::mem::take(&mut missed);
                    Some(Ok(pb::WatchActionsResponse { missed, ..(*change).clone() }))
                }
                Err(BroadcastStreamRecvError::Lagged(count)) => {
                    missed += count;
                    None
                }
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(state.into_iter().map(Ok)).chain(changes))))
    }
}

fn may_change<T>(request: &Request<T>) -> Result<(), Status> {
    let caller = request.extensions().get::<Caller>();
    let caller = caller.ok_or_else(|| Status::internal("the kernel did not report the caller's credentials"))?;
    if caller.may_change {
        return Ok(());
    }
    Err(Status::permission_denied(format!(
        "uid {} may watch, but neither open nor close queue pairs: start canopy-pacer with --uid {}",
        caller.uid, caller.uid
    )))
}

fn read_qpn(field: &str, value: u32) -> Result<Qpn, Status> {
    Qpn::new(field, value.into()).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn read_open(request: &pb::OpenQpRequest) -> Result<Open, Status> {
    let qpn = read_qpn("qpn", request.qpn)?;
    let dest_qpn = read_qpn("dest_qpn", request.dest_qpn)?.get();
    let octets = <[u8; 16]>::try_from(request.peer.as_slice())
        .map_err(|_| Status::invalid_argument("peer: is not an IPv6 address of 16 octets"))?;
    if request.rtt_ns > nanos(MAX_RTT) {
        return Err(Status::invalid_argument(format!("rtt_ns: {} is more than 10 s", request.rtt_ns)));
    }
    let given = |value: u64| (value > 0).then_some(value);
    Ok(Open {
        qpn,
        flow: Flow { peer: Ipv6Addr::from(octets), qpn: dest_qpn },
        line: given(request.line_rate_bps).map(Rate::from_bps),
        min: given(request.min_rate_bps).map(Rate::from_bps),
        rtt: given(request.rtt_ns).map(Duration::from_nanos),
    })
}

fn refusal(qpn: Qpn, error: OpenError) -> Status {
    match error {
        OpenError::FlowTaken(other) => Status::failed_precondition(format!(
            "dest_qpn: QP {other} is registered with this peer and destination QP: close it first, or correct QP {qpn}"
        )),
        OpenError::Refused(Refusal::TooMany) => {
            Status::resource_exhausted("65536 QPs are live: close some (`canopy-pacer close`)")
        }
        OpenError::Refused(_) => Status::invalid_argument(
            "min_rate_bps: has to be from 1 bit/s to the line rate (`canopy-pacer status` shows it)",
        ),
    }
}
