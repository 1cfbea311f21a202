// SPDX-License-Identifier: Apache-2.0
//! A link or node that an operator takes out of service for maintenance.

use std::time::Duration;

use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::ids::check_name;
use crate::{FieldError, FieldErrors, rfc3339};

/// Longest reason, characters.
pub const MAX_REASON: usize = 1024;
/// Longest time until a drain ends: a leap year. What is out of service for longer belongs into the topology.
pub const MAX_TIME: Duration = Duration::from_secs(366 * 24 * 3600);

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
    /// When the controller removes the drain by itself, on its wall clock: RFC 3339, at most 366 days from now. Absent: an operator removes
    /// it.
    #[serde(default, with = "rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, format = DateTime))]
    pub until: Option<UnixTime>,
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

    /// Checks that a drain which is declared `now` ends later, and within [`MAX_TIME`].
    ///
    /// # Errors
    /// The field, with the present time.
    pub fn check_until(&self, now: UnixTime) -> Result<(), FieldError> {
        let Some(until) = self.until else { return Ok(()) };
        let refused = |why: &str| {
            let (until, now) = (rfc3339::format(until), rfc3339::seconds(now));
            Err(FieldError::new("spec.until", format!("{until} is {why}: it is {now} at the controller")))
        };
        if until <= now {
            return refused("in the past");
        }
        if until > now + MAX_TIME {
            return refused("more than 366 days from now");
        }
        Ok(())
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
    fn a_drain_ends_in_the_future_and_within_a_year() {
        let now = rfc3339::parse("2026-11-26T18:00:00Z").unwrap();
        let at = |until: UnixTime| DrainSpec { until: Some(until), ..DrainSpec::default() }.check_until(now);
        let ns = Duration::from_nanos(1);
        assert_eq!([now + ns, now + MAX_TIME].map(at), [Ok(()), Ok(())]);
        assert_eq!(DrainSpec::default().check_until(now), Ok(()));
        for (until, why) in
            [(now, "in the past"), (UnixTime::default(), "in the past"), (now + MAX_TIME + ns, "366 days")]
        {
            let e = at(until).unwrap_err();
            assert_eq!(e.field, "spec.until");
            assert!(e.to_string().contains(why) && e.to_string().contains("it is 2026-11-26T18:00:00Z"), "{e}");
        }
    }

    #[test]
    fn an_end_is_text_and_may_be_absent() {
        let read = |json: &str| serde_json::from_str::<DrainSpec>(json);
        let spec = read(r#"{"node":"n1","reason":"x","until":"2026-11-26T19:00:00+01:00"}"#).unwrap();
        let text = serde_json::to_string(&spec).unwrap();
        assert!(text.contains(r#""until":"2026-11-26T18:00:00Z""#), "{text}");
        assert_eq!(read(&text).unwrap(), spec);
        for absent in [r#"{"node":"n1","reason":"x"}"#, r#"{"node":"n1","reason":"x","until":null}"#] {
            let spec = read(absent).unwrap();
            assert_eq!((spec.until, serde_json::to_string(&spec).unwrap().contains("until")), (None, false));
        }
        let e = read(r#"{"node":"n1","reason":"x","until":"2h"}"#).unwrap_err().to_string();
        assert!(e.contains("\"2h\" is not a time"), "{e}");
    }

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
