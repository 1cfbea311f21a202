// SPDX-License-Identifier: Apache-2.0
//! Why a resource is not reconciled yet, and when that is tried again.

use std::time::Duration;

use kube::runtime::finalizer;

/// A reconciliation that has to be done again.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Kubernetes refused or was not reached.
    #[error("Kubernetes: {0}")]
    Kubernetes(#[from] kube::Error),
    /// The controller was not reached, or cannot answer now.
    #[error("{0}")]
    Controller(String),
    /// Something has to happen first, of which the controller's stream brings news.
    #[error("{0}")]
    Waiting(String),
    /// The status was written just now, and has to be written again.
    #[error("the status was written just now")]
    Paced(Duration),
    /// With the resource's finalizer.
    #[error(transparent)]
    Finalizer(Box<finalizer::Error<Self>>),
}

impl From<finalizer::Error<Failure>> for Failure {
    fn from(error: finalizer::Error<Failure>) -> Self {
        match error {
            finalizer::Error::ApplyFailed(own) | finalizer::Error::CleanupFailed(own) => own,
            other => Self::Finalizer(Box::new(other)),
        }
    }
}

impl Failure {
    /// When it is tried again, unless something happens before.
    pub fn retry_in(&self) -> Duration {
        match self {
            Self::Kubernetes(_) | Self::Finalizer(_) | Self::Controller(_) => Duration::from_secs(5),
            Self::Waiting(_) => Duration::from_secs(60),
            Self::Paced(wait) => *wait,
        }
    }
}
