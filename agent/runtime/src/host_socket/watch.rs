// SPDX-License-Identifier: Apache-2.0
//! The watch of one application: delivers the newest state, skipping states that the application is too slow to read.

use canopy_control::pb::WatchGroupResponse;
use tokio::sync::{OwnedSemaphorePermit, watch as state};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Status, Streaming};

use super::closed;

type Latest = Option<Result<WatchGroupResponse, Status>>;

/// Reads the controller's stream without waiting for the application, so that a slow one does not delay others on the same
/// connection; states that it misses are not sent again. `place` is released when either side ends.
pub(super) fn forward(
    mut states: Streaming<WatchGroupResponse>,
    target: String,
    place: OwnedSemaphorePermit,
    mut closing: state::Receiver<bool>,
) -> impl Stream<Item = Result<WatchGroupResponse, Status>> + Send {
    let (sender, receiver) = state::channel(Latest::None);
    tokio::spawn(async move {
        let _place = place;
        loop {
            let next = tokio::select! {
                next = states.message() => next,
                () = sender.closed() => return,
                () = closed(&mut closing) => Err(Status::unavailable("the agent is stopping: watch again")),
            };
            match next {
                Ok(Some(state)) => sender.send_replace(Some(Ok(state))),
                // A deleted group ends the watch with a status: an end without one is a lost connection.
                Ok(None) => {
                    let cut_off = Status::unavailable("it ended the watch without a status");
                    sender.send_replace(Some(Err(unreachable(&target, &cut_off))));
                    return;
                }
                Err(status) if status.code() == Code::NotFound => {
                    sender.send_replace(Some(Err(Status::not_found(status.message()))));
                    return;
                }
                Err(status) => {
                    sender.send_replace(Some(Err(unreachable(&target, &status))));
                    return;
                }
            };
        }
    });
    WatchStream::new(receiver).filter_map(|latest| latest)
}

/// The status for a controller that did not answer, or whose stream was interrupted.
pub(super) fn unreachable(target: &str, status: &Status) -> Status {
    Status::unavailable(format!(
        "the agent cannot reach its controller at {target} ({}): groups continue to forward unchanged; start the \
         controller or correct `controller` in the agent's configuration, and call again",
        status.message()
    ))
}
