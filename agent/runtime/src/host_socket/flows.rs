// SPDX-License-Identifier: Apache-2.0
//! `SourceFlowService` of the agent of a host: which flows of the host canopy-pacer paces, and whose Long-haul CNPs it applies.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use canopy_control::pb;
use canopy_control::pb::source_flow_service_server::SourceFlowService;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::access::Caller;
use super::closed;
use super::upstream::Flows;

/// Concurrent watches: a machine has one pacer for each interface.
const MAX_WATCHES: usize = 64;

#[derive(Clone)]
pub(super) struct SourceFlows {
    flows: watch::Receiver<Flows>,
    watches: Arc<Semaphore>,
    closing: watch::Receiver<bool>,
}

impl SourceFlows {
    pub(super) fn new(flows: watch::Receiver<Flows>, closing: watch::Receiver<bool>) -> Self {
        Self { flows, watches: Arc::new(Semaphore::new(MAX_WATCHES)), closing }
    }
}

#[tonic::async_trait]
impl SourceFlowService for SourceFlows {
    type WatchSourceFlowsStream = Pin<Box<dyn Stream<Item = Result<pb::WatchSourceFlowsResponse, Status>> + Send>>;

    async fn watch_source_flows(
        &self,
        request: Request<pb::WatchSourceFlowsRequest>,
    ) -> Result<Response<Self::WatchSourceFlowsStream>, Status> {
        Caller::of(&request, None).await?;
        let place = Arc::clone(&self.watches).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{MAX_WATCHES} watches of flows are open at this agent: close some"))
        })?;
        let (flows, closing) = (self.flows.clone(), self.closing.clone());
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let _place = place;
            send_all(flows, closing, sender).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// Sends the flows now and after each change; a slow reader gets the newest.
async fn send_all(
    mut flows: watch::Receiver<Flows>,
    mut closing: watch::Receiver<bool>,
    sender: mpsc::Sender<Result<pb::WatchSourceFlowsResponse, Status>>,
) {
    loop {
        // A part would end the pacing of the rest.
        let all = Some(flows.borrow_and_update()).filter(|flows| flows.is_complete()).map(|flows| response(&flows));
        if let Some(all) = all
            && sender.send(Ok(all)).await.is_err()
        {
            return;
        }
        tokio::select! {
            biased;
            () = closed(&mut closing) => {
                // The reader may be gone: nothing to do.
                _ = sender.send(Err(Status::unavailable("the agent is stopping: watch again"))).await;
                return;
            }
            () = sender.closed() => return,
            changed = flows.changed() => if changed.is_err() { return },
        }
    }
}

fn response(flows: &Flows) -> pb::WatchSourceFlowsResponse {
    let nodes: BTreeSet<&Vec<u8>> = flows.known.values().flat_map(|flow| &flow.nodes).collect();
    pb::WatchSourceFlowsResponse {
        flows: flows.known.values().map(|flow| pb::SourceFlow { nodes: vec![], ..flow.clone() }).collect(),
        nodes: nodes.into_iter().cloned().collect(),
    }
}
