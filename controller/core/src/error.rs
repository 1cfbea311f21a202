// SPDX-License-Identifier: Apache-2.0
//! Errors of the domain. Edges map [`DomainError::code`] to their own status codes.

use canopy_model::ids::Generation;
use canopy_model::{FieldError, FieldErrors};

/// A refused command; the domain is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// The input is invalid; each problem names its field.
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
    /// The resource exists already, with other content.
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
        /// Present generation.
        actual: Generation,
    },
    /// Another resource depends on it.
    #[error("{kind} {name:?} is in use: {detail}")]
    InUse {
        /// Kind of resource.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The dependent, and what to do.
        detail: String,
    },
    /// A limit of this controller is reached.
    #[error("{0}")]
    Limit(String),
    /// A tenant has what it may have. Its name is for those who act for it, and not for hosts.
    #[error(
        "tenant {tenant} has {has} {what}, and its quota is {limit} (quotas.{setting}): remove some, or ask an administrator for more"
    )]
    Quota {
        /// Whose quota.
        tenant: String,
        /// How many it has.
        has: usize,
        /// Of what: `groups` or `receivers`.
        what: &'static str,
        /// How many it may have.
        limit: u32,
        /// The quota's name in the configuration.
        setting: &'static str,
    },
    /// The command was prepared against an older revision: prepare it again.
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
            Self::Limit(_) | Self::Quota { .. } => "Limit",
            Self::Stale { .. } => "Stale",
        }
    }

    /// The invalid fields; empty unless [`Self::Invalid`].
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

/// Durable records that are not a consistent domain. The controller does not start on such a store; an operator must
/// repair it.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The configured address plan is invalid.
    #[error("address plan: {0}")]
    AddressPlan(#[source] FieldErrors),
    /// A record contradicts its key, another record or a limit.
    #[error("record {key:?}: {detail}")]
    Inconsistent {
        /// The record's key.
        key: String,
        /// The contradiction.
        detail: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_an_invalid_input() {
        let invalid = DomainError::field("spec.qpn", "is 0");
        assert_eq!(invalid.fields().iter().map(|e| e.field.as_str()).collect::<Vec<_>>(), ["spec.qpn"]);
        assert_eq!(DomainError::Limit("x".into()).fields(), []);
    }
}
