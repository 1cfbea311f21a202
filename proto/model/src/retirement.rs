// SPDX-License-Identifier: Apache-2.0
//! A node that leaves the domain for good: what an operator wants, the order to its agent, and the agent's report.

use serde::{Deserialize, Serialize};

use crate::drain::MAX_REASON;
use crate::{FieldError, FieldErrors};

/// Minor version of the southbound contract from which on agents take the order to clean up.
pub const MINOR_VERSION: u32 = 6;
/// Seconds after which a retirement that is not finished is a problem.
pub const TIMEOUT_SECONDS: std::ops::RangeInclusive<u64> = 10..=86_400;
/// The same, if nothing else is wanted.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// Entries that a report has, at most, and octets of each.
pub const MAX_REMOVED: usize = 64;
/// Octets of an entry or a reason, at most; longer ones are cut.
pub const MAX_TEXT: usize = 1024;

/// How a node is to leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RetireSpec {
    /// Why, for other operators; 1..=1024 characters.
    #[serde(default = "default_reason")]
    pub reason: String,
    /// Remove the hosts behind the node from their groups, which have no other node. Without it, a node with such hosts is not retired.
    #[serde(default)]
    pub accept_loss: bool,
    /// Continue without the report of its agent: what is left on its machine has to be removed by hand.
    #[serde(default)]
    pub without_agent: bool,
    /// Seconds after which it is a problem that the node has not left, 10 to 86400; nothing is given up then.
    #[serde(default = "default_timeout")]
    pub timeout_seconds: u64,
}

fn default_reason() -> String {
    "retired".to_owned()
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_SECONDS
}

impl Default for RetireSpec {
    fn default() -> Self {
        Self {
            reason: default_reason(),
            accept_loss: false,
            without_agent: false,
            timeout_seconds: DEFAULT_TIMEOUT_SECONDS,
        }
    }
}

impl RetireSpec {
    /// Checks every field.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if self.reason.trim().is_empty() || self.reason.chars().count() > MAX_REASON {
            errors.push("reason", format!("has 1 to {MAX_REASON} characters: other operators read it"));
        }
        if !TIMEOUT_SECONDS.contains(&self.timeout_seconds) {
            let (least, most) = (TIMEOUT_SECONDS.start(), TIMEOUT_SECONDS.end());
            errors.0.push(FieldError::new(
                "timeoutSeconds",
                format!("{} is outside {least}..={most} seconds", self.timeout_seconds),
            ));
        }
        errors.into_result()
    }
}

/// The order to an agent to remove everything that it programmed into the kernel, and to stay stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanUpOrder {
    /// Names the retirement, among all of the domain.
    pub retirement: u64,
}

/// What an agent has removed after such an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanedUp {
    /// Of the order.
    pub retirement: u64,
    /// What it has removed, for a person: `12 routes`.
    pub removed: Vec<String>,
    /// Why something is left; `None` if nothing is.
    pub failed: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retirement_has_a_reason_and_a_timeout_within_a_day() {
        let read = |json: &str| serde_json::from_str::<RetireSpec>(json);
        let default = read("{}").unwrap();
        assert_eq!((default.validate(), &default), (Ok(()), &RetireSpec::default()));
        assert!(read(r#"{"acceptLos": true}"#).unwrap_err().to_string().contains("acceptLos"));
        let problem = |spec: RetireSpec| spec.validate().unwrap_err().to_string();
        for reason in ["", " ", &"x".repeat(MAX_REASON + 1)] {
            assert!(problem(RetireSpec { reason: reason.to_owned(), ..RetireSpec::default() }).contains("reason"));
        }
        for timeout_seconds in [9, 86_401] {
            assert!(problem(RetireSpec { timeout_seconds, ..RetireSpec::default() }).contains("timeoutSeconds"));
        }
    }
}
