// SPDX-License-Identifier: Apache-2.0
//! How long a call to the controller may take.

use std::time::Duration;

use tonic::Status;

/// An answer comes within this.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The answer, or an error in time.
pub(crate) async fn within<T>(call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(ANSWER_WITHIN, call).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {ANSWER_WITHIN:?}"))),
    }
}
