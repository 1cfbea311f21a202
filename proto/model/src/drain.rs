// SPDX-License-Identifier: Apache-2.0
//! A link or node that an operator takes out of service for maintenance.

use serde::{Deserialize, Serialize};

use crate::FieldErrors;
use crate::ids::check_name;

/// Longest reason, characters.
pub const MAX_REASON: usize = 1024;

/// What is taken out of service, and why. A link is drained as long as the topology or any drain has it so; applying a topology changes no
/// drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DrainSpec {
    /// A link between two nodes, `n1/eth1--n2/eth3` or one of its ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// A node with all its links to other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why, for other operators; 1..=1024 characters.
    pub reason: String,
    /// Drain a node although hosts behind it are members of groups, which have no other node.
    #[serde(default)]
    pub accept_loss: bool,
}

/// The target of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainTarget<'a> {
    /// A link, by label or end.
    Link(&'a str),
    /// A node.
    Node(&'a str),
}

impl DrainSpec {
    /// The link or node; `None` unless exactly one is named.
    pub fn target(&self) -> Option<DrainTarget<'_>> {
        match (&self.link, &self.node) {
            (Some(link), None) => Some(DrainTarget::Link(link)),
            (None, Some(node)) => Some(DrainTarget::Node(node)),
            _ => None,
        }
    }

    /// Checks the drain by itself.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn validate(&self, name: &str) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if let Err(e) = check_name("metadata.name", name) {
            errors.0.push(e);
        }
        if self.target().is_none() {
            errors.push("spec", "names a link or a node, and not both: set spec.link or spec.node");
        }
        if self.reason.trim().is_empty() || self.reason.chars().count() > MAX_REASON {
            errors.push(
                "spec.reason",
                format!("is required, with at most {MAX_REASON} characters: other operators read it"),
            );
        }
        if self.accept_loss && self.link.is_some() {
            errors.push("spec.acceptLoss", "is for nodes: a drained link is used as long as there is no other way");
        }
        errors.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_has_one_target_and_a_reason() {
        let link = DrainSpec { link: Some("a/1--b/1".into()), reason: "optics".into(), ..DrainSpec::default() };
        assert_eq!((link.validate("x").is_ok(), link.target()), (true, Some(DrainTarget::Link("a/1--b/1"))));
        let problem = |spec: DrainSpec| spec.validate("x").unwrap_err().to_string();
        assert!(problem(DrainSpec { node: Some("a".into()), ..link.clone() }).contains("not both"));
        assert!(problem(DrainSpec { link: None, ..link.clone() }).contains("spec.link or spec.node"));
        for reason in ["", " ", &"x".repeat(MAX_REASON + 1)] {
            assert!(problem(DrainSpec { reason: reason.to_owned(), ..link.clone() }).contains("spec.reason"));
        }
        assert!(problem(DrainSpec { accept_loss: true, ..link.clone() }).contains("spec.acceptLoss"));
        assert!(link.validate("Not a name").unwrap_err().to_string().contains("metadata.name"));
    }
}
