// SPDX-License-Identifier: Apache-2.0
//! The agent of the host, which knows the flows of its sources and the nodes that carry them.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use canopy_control::pb::WatchSourceFlowsRequest;
use canopy_control::pb::source_flow_service_client::SourceFlowServiceClient;
use canopy_model::member::SourceFlow;
use tokio::sync::mpsc;
use tonic::transport::Endpoint;

/// Time between two attempts to reach the agent.
const RETRY: Duration = Duration::from_secs(2);
/// An agent that hangs is detected within the sum of interval and timeout.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// All that the agent reports.
#[derive(Debug)]
pub(crate) struct Given {
    /// Queue pairs of sources, and their flows.
    pub(crate) flows: Vec<SourceFlow>,
    /// Nodes that carry them.
    pub(crate) nodes: BTreeSet<Ipv6Addr>,
}

/// Passes on what the agent at this socket reports, for ever. While it is away, its last report stays in force: it has ended no membership.
pub(crate) async fn follow(socket: PathBuf, daemon: mpsc::Sender<Given>) {
    let mut reported = String::new();
    loop {
        let Err(reason) = watch(&socket, &daemon, &mut reported).await else { return };
        if reason != reported {
            tracing::warn!(socket = %socket.display(), reason, retry = ?RETRY, "agent: the host's agent does not answer; its last report stays in force");
            reported = reason;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Until the daemon has ended.
async fn watch(socket: &Path, daemon: &mpsc::Sender<Given>, reported: &mut String) -> Result<(), String> {
    let uri = format!("unix:{}", socket.display());
    let endpoint = Endpoint::from_shared(uri).map_err(|error| error.to_string())?;
    let endpoint =
        endpoint.connect_timeout(KEEPALIVE).http2_keep_alive_interval(KEEPALIVE).keep_alive_timeout(KEEPALIVE);
    let channel = endpoint.connect().await.map_err(|error| chain(&error))?;
    let mut client = SourceFlowServiceClient::new(channel);
    let refused = |status: tonic::Status| format!("{:?}: {}", status.code(), status.message());
    let mut stream = client.watch_source_flows(WatchSourceFlowsRequest {}).await.map_err(refused)?.into_inner();
    while let Some(message) = stream.message().await.map_err(refused)? {
        let (flows, nodes) =
            message.try_into().map_err(|error: canopy_model::FieldError| format!("a malformed answer: {error}"))?;
        reported.clear();
        if daemon.send(Given { flows, nodes }).await.is_err() {
            return Ok(());
        }
    }
    Err("it ended the stream".to_owned())
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
