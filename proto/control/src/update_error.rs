// SPDX-License-Identifier: Apache-2.0
//! Why an agent refuses an update.

use canopy_model::FieldError;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::Generation;

/// Why an update was refused; the spec that the agent holds stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The message does not make sense.
    #[error("{0}")]
    Field(#[from] FieldError),
    /// The controller is no longer the leader.
    #[error("term {got} is lower than {accepted}, which this node has accepted already: another controller leads")]
    LowerTerm {
        /// Highest term accepted.
        accepted: u64,
        /// Term of the update.
        got: u64,
    },
    /// The update is older than what the node runs, in the same term.
    #[error("generation {got} of term {term} is older than {current}")]
    OlderGeneration {
        /// Term of both.
        term: u64,
        /// Generation held.
        current: Generation,
        /// Generation of the update.
        got: Generation,
    },
    /// The delta is relative to content that the node does not hold: watch anew to get a snapshot.
    #[error("the delta is relative to content {from}, but this node holds {current}")]
    OtherBase {
        /// Digest held; all zeros without a spec.
        current: SpecDigest,
        /// Digest that the delta is relative to.
        from: SpecDigest,
    },
    /// The page does not continue what was received: watch anew to get the snapshot from its beginning.
    #[error("a page of snapshot {0} arrived without the pages before it")]
    OtherSnapshot(SpecDigest),
    /// What came out is not what the controller meant: watch anew to get a snapshot.
    #[error("generation {generation} comes out with digest {computed}, but the controller announced {announced}")]
    DigestMismatch {
        /// Generation of the update.
        generation: Generation,
        /// Digest of what came out.
        computed: SpecDigest,
        /// Digest in the update.
        announced: SpecDigest,
    },
}
