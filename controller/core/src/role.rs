// SPDX-License-Identifier: Apache-2.0
//! Roles, the lower ones first: each may do all that those before it may.

use serde::{Deserialize, Serialize};

/// What a principal may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Scrape metrics and discover their targets.
    Metrics,
    /// Read everything.
    Viewer,
    /// Change groups, members, drains and silences, capture packets, set log levels.
    Operator,
    /// Change the topology, enroll and revoke agents, rotate keys, see and revoke tokens of others.
    Admin,
}

/// A text is not a role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a role: use metrics, viewer, operator or admin")]
pub struct NotARole(pub String);

impl Role {
    /// Every role, the lowest first.
    pub const ALL: [Self; 4] = [Self::Metrics, Self::Viewer, Self::Operator, Self::Admin];

    /// As requests and files have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Role {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Self, NotARole> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| NotARole(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_written_as_they_are_read_and_grow() {
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{role}\""));
        }
        assert!(Role::ALL.is_sorted() && Role::Viewer < Role::Operator);
        assert!("Admin".parse::<Role>().unwrap_err().to_string().contains("metrics, viewer, operator or admin"));
    }
}
