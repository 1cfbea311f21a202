// SPDX-License-Identifier: Apache-2.0
//! An error names the failed operation; the cause stays in `source`.

use canopy_agent_core::DatapathError;

/// Adds the failed operation to any error.
pub(crate) trait Context<T> {
    fn context(self, operation: &'static str) -> Result<T, DatapathError>;

    /// As [`Context::context`] with a formatted text; `operation` is called only on error.
    fn with_context(self, operation: impl FnOnce() -> String) -> Result<T, DatapathError>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Context<T> for Result<T, E> {
    fn context(self, operation: &'static str) -> Result<T, DatapathError> {
        self.with_context(|| operation.into())
    }

    fn with_context(self, operation: impl FnOnce() -> String) -> Result<T, DatapathError> {
        self.map_err(|e| DatapathError { doing: operation(), source: e.into() })
    }
}

/// The error and its causes on one line.
pub(crate) fn chain(e: &dyn std::error::Error) -> String {
    let mut s = e.to_string();
    let mut cause = e.source();
    while let Some(c) = cause {
        s.push_str(": ");
        s.push_str(&c.to_string());
        cause = c.source();
    }
    s
}
