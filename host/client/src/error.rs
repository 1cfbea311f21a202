// SPDX-License-Identifier: Apache-2.0
//! Every way a call can fail.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use canopy_model::FieldError;
use tonic::{Code, Status};

/// Why a call failed. Every message names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent's socket cannot be opened.
    #[error("{}: {reason}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The cause and the remedy.
        reason: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An argument is wrong, here or at the controller; nothing was done.
    #[error("{field}: {reason}")]
    Invalid {
        /// Which: `group`, `host`, `role`, `address`, `qpn`, `memory`, `memory.length`, `token_file`, ...
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This user or pod may not call the agent, or the membership is another one's.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// There is no such group, or it was deleted.
    #[error("no such group: {0}")]
    NoSuchGroup(String),
    /// The host is in the group already, with another QPN, role, address or memory: leave first.
    #[error("joined already with other content: {0}")]
    AlreadyJoined(String),
    /// The stall policy stopped the group: every member has to leave before it can be used again.
    #[error("the group failed: {0}")]
    GroupFailed(String),
    /// The group's state does not permit this.
    #[error("not possible now: {0}")]
    NotPossible(String),
    /// A limit of the agent or the controller.
    #[error("limit reached: {0}")]
    Limit(String),
    /// The agent or the controller was unreachable until the call's timeout. The request may have been executed:
    /// repeating it is safe.
    #[error("not reachable: {0}")]
    Unavailable(String),
    /// The group did not become ready in time; the message names what was missing.
    #[error("not within {after:?}: {reason}")]
    Timeout {
        /// The timeout of the call.
        after: Duration,
        /// The last state received.
        reason: String,
    },
    /// The agent's answer is not intelligible: agent and library have incompatible versions.
    #[error("unintelligible answer: {0}")]
    Protocol(String),
    /// A fault of the agent, the controller or this library.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Invalid { field: error.field, reason: error.detail }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let text = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument => match text.split_once(": ") {
                // The controller names the fields of its resource.
                Some((field, reason)) => {
                    let field = field.strip_prefix("spec.").unwrap_or(field).to_owned();
                    Self::Invalid { field, reason: reason.to_owned() }
                }
                None => Self::Invalid { field: String::new(), reason: text },
            },
            Code::PermissionDenied | Code::Unauthenticated => Self::NotPermitted(text),
            Code::NotFound => Self::NoSuchGroup(text),
            Code::AlreadyExists => Self::AlreadyJoined(text),
            Code::FailedPrecondition if text.contains("failed") => Self::GroupFailed(text),
            Code::FailedPrecondition => Self::NotPossible(text),
            Code::ResourceExhausted => Self::Limit(text),
            Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled | Code::Unknown => {
                Self::Unavailable(text)
            }
            Code::Unimplemented => Self::Protocol(text),
            code => Self::Internal(format!("{code:?}: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_field_and_its_kind() {
        let error = Error::from(Status::invalid_argument("spec.address: 2001:db8::9 is outside the host's prefix"));
        assert_eq!(error.to_string(), "address: 2001:db8::9 is outside the host's prefix");
        assert!(
            matches!(Error::from(Status::permission_denied("uid 7")), Error::NotPermitted(text) if text == "uid 7")
        );
        let failed = Status::failed_precondition("group \"g\" is in use: it failed: receiver r1 stalled");
        assert!(matches!(Error::from(failed), Error::GroupFailed(_)));
    }
}
