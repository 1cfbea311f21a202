// SPDX-License-Identifier: Apache-2.0
//! Errors as text for users and exit codes for scripts.

use canopy_controller_api::problem::Problem;

/// Meaning of the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Anything not listed below: the controller cannot be reached, or refused the request.
    Error,
    /// The command line or a file is invalid.
    Usage,
    /// A named resource does not exist.
    NotFound,
    /// The resource exists already, or was changed by another client.
    Conflict,
    /// The state waited for was not reached in time.
    Timeout,
}

impl Exit {
    /// The process exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Conflict => 4,
            Exit::Timeout => 5,
        }
    }
}

/// An error ready to be printed.
#[derive(Debug)]
pub struct Failure {
    /// Its exit code.
    pub exit: Exit,
    /// Text for users; may have several lines.
    pub message: String,
}

impl Failure {
    /// A failure of the given kind.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// An unsuccessful answer of the controller. `doing` names the request.
    pub fn refused(doing: &str, status: u16, body: &[u8]) -> Self {
        let exit = match status {
            404 => Exit::NotFound,
            409 | 412 => Exit::Conflict,
            _ => Exit::Error,
        };
        let message = match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => format!("{doing}: {}", describe(&problem)),
            Err(_) => format!(
                "{doing}: the server answered {status} without a problem document; is that a Canopy controller?"
            ),
        };
        Self { exit, message }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        Self::new(Exit::Error, format!("writing output: {e}"))
    }
}

/// A problem document as text for users.
fn describe(problem: &Problem) -> String {
    let Problem { status, title, detail, extensions } = problem;
    let cause = if detail.is_empty() { title } else { detail };
    let mut text = format!("{cause} ({status} {})", extensions.code);
    // What the controller could not do is in its log.
    if let Some(id) = extensions.request_id.as_ref().filter(|_| *status >= 500) {
        text += &format!("\n  request {id}: the controller's log has it");
    }
    for e in &extensions.errors {
        text += &format!("\n  {}: {}", e.field, e.detail);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_printed_with_its_fields_and_mapped_to_its_code() {
        let body = br#"{"status":422,"title":"Invalid","detail":"the group is not valid","code":"invalid","errors":[{"field":"spec.pathMtu","detail":"100 is odd"}]}"#;
        let f = Failure::refused("applying group a", 422, body);
        assert_eq!(f.message, "applying group a: the group is not valid (422 invalid)\n  spec.pathMtu: 100 is odd");
        assert_eq!(f.exit.code(), 1);
        let failed =
            br#"{"status":500,"title":"Error","detail":"the disk is gone","code":"StoreFailed","requestId":"4bf9"}"#;
        let f = Failure::refused("applying group a", 500, failed);
        assert!(f.message.ends_with("(500 StoreFailed)\n  request 4bf9: the controller's log has it"), "{}", f.message);
        assert_eq!(Failure::refused("x", 404, b"{}").exit.code(), 3);
        assert_eq!(Failure::refused("x", 412, b"{}").exit.code(), 4);
        assert!(Failure::refused("x", 502, b"<html>").message.contains("502"));
    }
}
