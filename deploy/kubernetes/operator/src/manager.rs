// SPDX-License-Identifier: Apache-2.0
//! Whose a group or a topology is: one writer for each, named in a label at the controller.

use std::fmt;
use std::str::FromStr;

pub use canopy_controller_api::metadata::MANAGED_BY;

/// Longest name of a cluster: with a UID, it is the value of a label.
const MAX_CLUSTER: usize = 15;

/// A cluster among those that declare at one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster(String);

impl FromStr for Cluster {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match canopy_model::ids::check_name("cluster", text) {
            Ok(()) if text.len() <= MAX_CLUSTER => Ok(Self(text.to_owned())),
            _ => Err(format!("use 1 to {MAX_CLUSTER} of a-z, 0-9 and '-', not first or last '-'")),
        }
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Cluster {
    /// The manager that a resource with this UID is. Another resource of the same name has another UID, and is another manager.
    pub fn manager(&self, uid: &str) -> String {
        format!("kubernetes.{self}.{uid}")
    }

    /// Whether this manager is a resource of this cluster, present or past.
    pub fn has(&self, manager: &str) -> bool {
        manager.strip_prefix("kubernetes.").and_then(|of| of.rsplit_once('.')).is_some_and(|(of, _)| of == self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Catches a manager that is no value of a label.
    #[test]
    fn a_manager_is_the_value_of_a_label() {
        let cluster: Cluster = "a23456789012345".parse().unwrap();
        let manager = cluster.manager("0e9a3b52-9c8b-4a3c-8f0e-1f2a3b4c5d6e");
        assert!(
            manager.len() <= 63 && manager.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)),
            "{manager}"
        );
        assert!(cluster.has(&manager), "{manager}");
        for other in ["kubernetes.a.1", "kubernetes.a23456789012345", "a23456789012345.1", "operator"] {
            assert!(!cluster.has(other), "{other}");
        }
        for bad in ["", "a234567890123456", "A", "a.b", "-a"] {
            assert!(bad.parse::<Cluster>().is_err(), "{bad}");
        }
    }
}
