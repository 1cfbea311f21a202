// SPDX-License-Identifier: Apache-2.0
//! An error names the failed operation; the cause stays in `source`.

/// A failed operation on the kernel.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct Error {
    /// The operation, such as `reading map groups`.
    pub doing: String,
    /// Why it failed.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The result of an operation on the kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the failed operation to any error.
pub trait Context<T> {
    /// Names the operation that failed.
    ///
    /// # Errors
    /// That of `self`, as the source.
    fn context(self, operation: &'static str) -> Result<T>;

    /// As [`Context::context`] with a formatted text; `operation` is called only on error.
    ///
    /// # Errors
    /// That of `self`, as the source.
    fn with_context(self, operation: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Context<T> for std::result::Result<T, E> {
    fn context(self, operation: &'static str) -> Result<T> {
        self.with_context(|| operation.into())
    }

    fn with_context(self, operation: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error { doing: operation(), source: e.into() })
    }
}

/// The error and its causes on one line.
pub fn chain(e: &dyn std::error::Error) -> String {
    let mut s = e.to_string();
    let mut cause = e.source();
    while let Some(c) = cause {
        s.push_str(": ");
        s.push_str(&c.to_string());
        cause = c.source();
    }
    s
}
