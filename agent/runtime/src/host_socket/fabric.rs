// SPDX-License-Identifier: Apache-2.0
//! `FabricService` of the agent of a host: what canopy-steer composes path programs from, also while the controller is away.

use std::pin::Pin;
use std::sync::Arc;

use canopy_control::fabric::{FabricDigest, Held};
use canopy_control::pb;
use canopy_control::pb::fabric_service_server::FabricService;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::access::Caller;
use super::closed;

/// Concurrent watches: a machine has one canopy-steer, and people that try something.
const MAX_WATCHES: usize = 16;

#[derive(Clone)]
pub(super) struct Fabrics {
    /// This machine.
    host: Arc<str>,
    held: watch::Receiver<Option<Held>>,
    watches: Arc<Semaphore>,
    closing: watch::Receiver<bool>,
}

type Page = Result<pb::WatchFabricResponse, Status>;

impl Fabrics {
    pub(super) fn new(host: &str, held: watch::Receiver<Option<Held>>, closing: watch::Receiver<bool>) -> Self {
        Self { host: host.into(), held, watches: Arc::new(Semaphore::new(MAX_WATCHES)), closing }
    }
}

#[tonic::async_trait]
impl FabricService for Fabrics {
    type WatchFabricStream = Pin<Box<dyn Stream<Item = Page> + Send>>;

    async fn watch_fabric(
        &self,
        request: Request<pb::WatchFabricRequest>,
    ) -> Result<Response<Self::WatchFabricStream>, Status> {
        Caller::of(&request, None).await?;
        let pb::WatchFabricRequest { host, digest } = request.into_inner();
        if !host.is_empty() && *host != *self.host {
            let own = &self.host;
            return Err(Status::invalid_argument(format!("host: {host:?} is not this machine, which is {own:?}")));
        }
        let known = FabricDigest::from_field("digest", &digest).map_err(|e| Status::invalid_argument(e.to_string()))?;
        let place = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!(
                "{MAX_WATCHES} watches of the fabric are open at this agent: close some"
            ))
        })?;
        let (held, closing) = (self.held.clone(), self.closing.clone());
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let _place = place;
            send_all(held, known, closing, sender).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// Sends the fabric, unless the reader has it, and then each change; a slow reader gets the newest. Nothing is sent before there is one.
async fn send_all(
    mut held: watch::Receiver<Option<Held>>,
    known: Option<FabricDigest>,
    mut closing: watch::Receiver<bool>,
    sender: mpsc::Sender<Page>,
) {
    let mut sent: Option<Held> = None;
    loop {
        let next = held.borrow_and_update().clone();
        if let Some(next) = next.filter(|next| sent.as_ref() != Some(next)) {
            let has_it = known == Some(next.items.digest());
            let from = sent.as_ref().map(|sent| &*sent.items).or_else(|| has_it.then_some(&*next.items));
            for page in next.items.pages(from).with_state(next.state()) {
                if sender.send(Ok(page)).await.is_err() {
                    return;
                }
            }
            sent = Some(next);
        }
        tokio::select! {
            biased;
            () = closed(&mut closing) => {
                // The reader may be gone: nothing to do.
                _ = sender.send(Err(Status::unavailable("the agent is stopping: watch again"))).await;
                return;
            }
            () = sender.closed() => return,
            changed = held.changed() => if changed.is_err() { return },
        }
    }
}
