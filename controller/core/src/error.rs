// SPDX-License-Identifier: Apache-2.0
//! Why the domain refuses something. Edges map [`DomainError::code`] to their own status codes.

use canopy_model::ids::Generation;
use canopy_model::{FieldError, FieldErrors};

/// A refused command; the domain is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// The input does not make sense; each problem names its field.
    #[error("{0}")]
    Invalid(FieldErrors),
    /// There is no such resource.
    #[error("there is no {kind} {name:?}")]
    NotFound {
        /// `topology`, `node`, `group` or `member`.
        kind: &'static str,
        /// Its name; `group/host` for a member.
        name: String,
    },
    /// It exists already, with other content.
    #[error("{kind} {name:?} exists already: {detail}")]
    AlreadyExists {
        /// Kind of resource.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What differs and what to do.
        detail: String,
    },
    /// The caller's precondition names another generation than the present one.
    #[error("{kind} {name:?} is at generation {actual}, not {expected}: read it again and repeat the change")]
    Conflict {
        /// Kind of resource.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Generation that the caller wanted to change.
        expected: Generation,
        /// Generation there is.
        actual: Generation,
    },
    /// Something else depends on it.
    #[error("{kind} {name:?} is in use: {detail}")]
    InUse {
        /// Kind of resource.
        kind: &'static str,
        /// Its name.
        name: String,
        /// By what, and what to do.
        detail: String,
    },
    /// A bound of this controller is reached.
    #[error("{0}")]
    Limit(String),
    /// The command was prepared against another state than the present one: prepare it again.
    #[error("prepared at revision {prepared}, but the domain is at {current}: prepare the command again")]
    Stale {
        /// Revision the command was prepared against.
        prepared: u64,
        /// Revision of the domain now.
        current: u64,
    },
}

impl DomainError {
    /// A stable word for programs: `Invalid`, `NotFound`, `AlreadyExists`, `Conflict`, `InUse`, `Limit`, `Stale`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::NotFound { .. } => "NotFound",
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::Conflict { .. } => "Conflict",
            Self::InUse { .. } => "InUse",
            Self::Limit(_) => "Limit",
            Self::Stale { .. } => "Stale",
        }
    }

    /// The fields that are wrong; empty unless [`Self::Invalid`].
    pub fn fields(&self) -> &[FieldError] {
        match self {
            Self::Invalid(errors) => &errors.0,
            _ => &[],
        }
    }

    /// An [`Self::Invalid`] about one field.
    pub(crate) fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid(FieldError::new(field, detail).into())
    }
}

impl From<FieldErrors> for DomainError {
    fn from(errors: FieldErrors) -> Self {
        Self::Invalid(errors)
    }
}

impl From<FieldError> for DomainError {
    fn from(error: FieldError) -> Self {
        Self::Invalid(error.into())
    }
}

/// Durable records that do not make a domain. Nothing is served from a store like that: it needs a person.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The configured address plan is impossible.
    #[error("address plan: {0}")]
    AddressPlan(#[source] FieldErrors),
    /// A record is not what its key says.
    #[error("record {key:?} cannot be read")]
    Record {
        /// The record's key.
        key: String,
        /// What the JSON parser says.
        #[source]
        source: serde_json::Error,
    },
    /// A record contradicts its key, another record or a limit.
    #[error("record {key:?}: {detail}")]
    Inconsistent {
        /// The record's key.
        key: String,
        /// The contradiction.
        detail: String,
    },
}
