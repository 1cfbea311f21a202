// SPDX-License-Identifier: Apache-2.0
//! Reports the newest status; an older one is never worth a retry.

use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::node_service_client::NodeServiceClient;
use canopy_model::status::NodeStatus;
use tokio::sync::watch;
use tonic::transport::Channel;

use crate::{Backoff, MAX_SENT_BYTES, Random, Session, brief};

/// How long the controller may take over a Report.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Reports on every change of `statuses` and of `session`; ends when either sender is gone.
pub(crate) async fn run(
    channel: Channel,
    mut statuses: watch::Receiver<Option<NodeStatus>>,
    announced: watch::Sender<bool>,
    mut session: watch::Receiver<Session>,
    random: Random,
) {
    let mut client = NodeServiceClient::new(channel).max_encoding_message_size(MAX_SENT_BYTES);
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(15));
    loop {
        // Both count as seen before the attempt, so that whatever happens during it starts another.
        let connected = session.borrow_and_update().up;
        let status = statuses.borrow_and_update().clone();
        let mut retry = None;
        if let (true, Some(status)) = (connected, status) {
            match send(&mut client, &status).await {
                Ok(()) => {
                    backoff.reset();
                    let is_clean = status.cleaned_up.as_ref().is_some_and(|report| report.failed.is_none());
                    if status.back_within.is_some() || is_clean {
                        announced.send_replace(true);
                    }
                }
                Err(error) => {
                    let delay = backoff.next_delay(random());
                    tracing::warn!(error = brief(&error), retry_in = ?delay, "the controller did not take the status report");
                    retry = Some(delay);
                }
            }
        }
        let ended = tokio::select! {
            changed = statuses.changed() => changed.is_err(),
            changed = session.changed() => changed.is_err(),
            () = tokio::time::sleep(retry.unwrap_or_default()), if retry.is_some() => false,
        };
        if ended {
            return;
        }
    }
}

async fn send(client: &mut NodeServiceClient<Channel>, status: &NodeStatus) -> Result<(), tonic::Status> {
    match tokio::time::timeout(ANSWER_WITHIN, client.report(pb::ReportRequest::from(status))).await {
        Ok(answer) => answer.map(|_| ()),
        Err(_) => Err(tonic::Status::deadline_exceeded("no answer in time")),
    }
}
