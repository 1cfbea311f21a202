// SPDX-License-Identifier: Apache-2.0
//! Validation errors that name the field.

use serde::{Deserialize, Serialize};

/// An error in one field of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[error("{field}: {detail}")]
pub struct FieldError {
    /// JSON-pointer-like path of the field, for example `spec.links[2].a.device`.
    pub field: String,
    /// The cause and what to do about it, as text for operators.
    pub detail: String,
}

impl FieldError {
    /// An error about `field`.
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), detail: detail.into() }
    }
}

/// Every problem found in one input; never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    /// Adds an error.
    pub fn push(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError::new(field, detail));
    }

    /// `Ok` if no error was added.
    ///
    /// # Errors
    /// The errors added, if any.
    pub fn into_result(self) -> Result<(), FieldErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl std::fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, e) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{e}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldErrors {}

impl From<FieldError> for FieldErrors {
    fn from(e: FieldError) -> Self {
        Self(vec![e])
    }
}
