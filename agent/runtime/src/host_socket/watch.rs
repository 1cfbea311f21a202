// SPDX-License-Identifier: Apache-2.0
//! One application's watch: the newest state, whatever the application's pace.

use canopy_control::pb::WatchGroupResponse;
use tokio::sync::{OwnedSemaphorePermit, watch as state};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Status, Streaming};

use super::closed;

type Said = Option<Result<WatchGroupResponse, Status>>;

/// Reads the controller's stream as it comes, so that a slow application does not hold up the others on the same
/// connection; what it missed in between is not said again. `place` is given back when either side is gone.
pub(super) fn pass_on(
    mut states: Streaming<WatchGroupResponse>,
    target: String,
    place: OwnedSemaphorePermit,
    mut closing: state::Receiver<bool>,
) -> impl Stream<Item = Result<WatchGroupResponse, Status>> + Send {
    let (said, hear) = state::channel(Said::None);
    tokio::spawn(async move {
        let _place = place;
        loop {
            let next = tokio::select! {
                next = states.message() => next,
                () = said.closed() => return,
                () = closed(&mut closing) => Err(Status::unavailable("the agent is stopping: watch again")),
            };
            match next {
                Ok(Some(state)) => said.send_replace(Some(Ok(state))),
                // A deleted group has a status of its own: an end without one was not meant.
                Ok(None) => {
                    let cut_off = Status::unavailable("it ended the watch without a status");
                    said.send_replace(Some(Err(unreachable(&target, &cut_off))));
                    return;
                }
                Err(status) if status.code() == Code::NotFound => {
                    said.send_replace(Some(Err(Status::not_found(status.message()))));
                    return;
                }
                Err(status) => {
                    said.send_replace(Some(Err(unreachable(&target, &status))));
                    return;
                }
            };
        }
    });
    WatchStream::new(hear).filter_map(|said| said)
}

/// The controller did not answer, or not to the end.
pub(super) fn unreachable(target: &str, status: &Status) -> Status {
    Status::unavailable(format!(
        "the agent cannot reach its controller at {target} ({}): groups go on forwarding as they are; start the \
         controller or correct `controller` in the agent's configuration, and call again",
        status.message()
    ))
}
