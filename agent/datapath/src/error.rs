// SPDX-License-Identifier: Apache-2.0
//! Errors say what was being done; the cause stays in `source`.

use canopy_agent_core::DatapathError;

/// Adds what was being done to any error.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, DatapathError>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, DatapathError> {
        self.map_err(|e| DatapathError { doing: what.into(), source: e.into() })
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
