// SPDX-License-Identifier: Apache-2.0
//! `SteerService`: the API for operators.

use std::net::Ipv6Addr;

use canopy_control::pb;
use canopy_control::pb::steer_service_server::SteerService;
use canopy_daemon::callers::Caller;
use canopy_host_core::steering::Refused;
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status};

use crate::daemon;

/// The service; it forwards requests to the daemon.
#[derive(Clone)]
pub(crate) struct Service {
    daemon: mpsc::Sender<daemon::Request>,
}

impl Service {
    pub(crate) fn new(daemon: mpsc::Sender<daemon::Request>) -> Self {
        Self { daemon }
    }

    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> daemon::Request,
    ) -> Result<T, Status> {
        let (to, answer) = oneshot::channel();
        let stopping = || Status::unavailable("canopy-steer is stopping");
        self.daemon.send(request(to)).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())
    }
}

#[tonic::async_trait]
impl SteerService for Service {
    async fn get_steering(
        &self,
        _: Request<pb::GetSteeringRequest>,
    ) -> Result<Response<pb::GetSteeringResponse>, Status> {
        Ok(Response::new(self.ask(daemon::Request::Get).await?))
    }

    async fn get_steered_paths(
        &self,
        request: Request<pb::GetSteeredPathsRequest>,
    ) -> Result<Response<pb::GetSteeredPathsResponse>, Status> {
        // It may give the host programs.
        may_change(&request)?;
        let address = read_address(&request.get_ref().address)?;
        let paths = self.ask(|to| daemon::Request::Paths(address, to)).await?;
        Ok(Response::new(paths.map_err(|why| refusal(&why))?))
    }

    async fn pin_path(&self, request: Request<pb::PinPathRequest>) -> Result<Response<pb::PinPathResponse>, Status> {
        may_change(&request)?;
        let pb::PinPathRequest { address, number } = request.into_inner();
        let address = read_address(&address)?;
        let number = (number > 0).then_some(number as usize);
        let pinned = self.ask(|to| daemon::Request::Pin(address, number, to)).await?;
        let destination = Some(pinned.map_err(|why| refusal(&why))?);
        Ok(Response::new(pb::PinPathResponse { destination }))
    }
}

fn may_change<T>(request: &Request<T>) -> Result<(), Status> {
    let caller = request.extensions().get::<Caller>();
    let caller = caller.ok_or_else(|| Status::internal("the kernel did not report the caller's credentials"))?;
    if caller.may_change {
        return Ok(());
    }
    Err(Status::permission_denied(format!(
        "uid {} may see the status, but neither ask for paths nor pin them: start canopy-steer with --uid {}",
        caller.uid, caller.uid
    )))
}

fn read_address(octets: &[u8]) -> Result<Ipv6Addr, Status> {
    let octets = <[u8; 16]>::try_from(octets);
    octets.map(Ipv6Addr::from).map_err(|_| Status::invalid_argument("address: is not an IPv6 address of 16 octets"))
}

fn refusal(why: &Refused) -> Status {
    let text = why.to_string();
    match why {
        Refused::NoFabric => Status::unavailable(text),
        Refused::NotAHost(_) | Refused::NoSuchPath { .. } => Status::not_found(text),
        Refused::NoPath(_) => Status::failed_precondition(text),
        Refused::Full | Refused::NoIds => Status::resource_exhausted(text),
    }
}
