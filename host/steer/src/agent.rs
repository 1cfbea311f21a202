// SPDX-License-Identifier: Apache-2.0
//! The agent of the host, which has the fabric from the controller.

use std::path::{Path, PathBuf};
use std::time::Duration;

use canopy_control::fabric::{Held, Received};
use canopy_control::pb::WatchFabricRequest;
use canopy_control::pb::fabric_service_client::FabricServiceClient;
use tokio::sync::mpsc;
use tonic::transport::Endpoint;

/// Time between two attempts to reach the agent.
const RETRY: Duration = Duration::from_secs(2);
/// An agent that hangs is detected within the sum of interval and timeout.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Octets of a message, at most: a list of a million links out of service is smaller.
const MAX_MESSAGE: usize = 16 << 20;

/// What the agent reports.
#[derive(Debug)]
pub(crate) enum News {
    /// A fabric, and what the host may send.
    Held(Held),
    /// The agent does not answer, for this reason.
    Away(String),
}

/// Passes on what the agent at this socket reports of `host`, or of its own host without a name, for ever. While it is away, its last report stays in force.
pub(crate) async fn follow(socket: PathBuf, host: String, daemon: mpsc::Sender<News>) {
    let mut received = Received::default();
    loop {
        let Err(reason) = watch(&socket, &host, &daemon, &mut received).await else { return };
        if daemon.send(News::Away(reason)).await.is_err() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Until the daemon has ended.
async fn watch(socket: &Path, host: &str, daemon: &mpsc::Sender<News>, received: &mut Received) -> Result<(), String> {
    let uri = format!("unix:{}", socket.display());
    let endpoint = Endpoint::from_shared(uri).map_err(|error| error.to_string())?;
    let endpoint =
        endpoint.connect_timeout(KEEPALIVE).http2_keep_alive_interval(KEEPALIVE).keep_alive_timeout(KEEPALIVE);
    let channel = endpoint.connect().await.map_err(|error| canopy_bpf::chain(&error))?;
    let mut client = FabricServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
    let refused = |status: tonic::Status| format!("{:?}: {}", status.code(), status.message());
    let request = WatchFabricRequest { host: host.to_owned(), digest: received.digest() };
    let mut stream = client.watch_fabric(request).await.map_err(refused)?.into_inner();
    while let Some(page) = stream.message().await.map_err(refused)? {
        let taken = received.apply(page).map_err(|error| format!("what it sent is not taken: {error}"))?;
        if let Some(held) = taken
            && daemon.send(News::Held(held)).await.is_err()
        {
            return Ok(());
        }
    }
    Err("it ended the stream".to_owned())
}
