// SPDX-License-Identifier: Apache-2.0
//! What an operator knows of and wants no alert about: a problem that is being worked on, or an object under maintenance.

use std::time::Duration;

use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::ids::check_name;
use crate::{FieldError, FieldErrors, rfc3339};

/// Longest note, characters.
pub const MAX_NOTE: usize = 1024;
/// Longest time until a silence ends: a leap year.
pub const MAX_TIME: Duration = Duration::from_secs(366 * 24 * 3600);

/// Which problems are known, and why. Exactly one of `problem`, `node`, `link`, `group` and `host` is set. A silence changes nothing of the
/// problems themselves: they are listed behind the others, and raise no alert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SilenceSpec {
    /// A problem that is open, by its id: it is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// A node: its problems, and those of its ports and links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A link between two nodes, `n1/eth1--n2/eth3` or one of its ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// A group: its problems, and those of its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// A host: the problems of its memberships.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Why, for other operators; 1..=1024 characters.
    pub note: String,
    /// When it begins, on the controller's wall clock: RFC 3339. Absent: now.
    #[serde(default, with = "rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, format = DateTime))]
    pub from: Option<UnixTime>,
    /// When the controller removes it by itself: RFC 3339, at most 366 days from now. Absent, of a problem only: once the problem has not
    /// been open for 60 s.
    #[serde(default, with = "rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, format = DateTime))]
    pub until: Option<UnixTime>,
}

/// What a silence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SilenceTarget<'a> {
    /// A problem, by id.
    Problem(&'a str),
    /// A node.
    Node(&'a str),
    /// A link, by label or end.
    Link(&'a str),
    /// A group.
    Group(&'a str),
    /// A host.
    Host(&'a str),
}

impl SilenceSpec {
    /// What it is about; `None` unless exactly one thing is named.
    pub fn target(&self) -> Option<SilenceTarget<'_>> {
        let all = [
            self.problem.as_deref().map(SilenceTarget::Problem),
            self.node.as_deref().map(SilenceTarget::Node),
            self.link.as_deref().map(SilenceTarget::Link),
            self.group.as_deref().map(SilenceTarget::Group),
            self.host.as_deref().map(SilenceTarget::Host),
        ];
        let mut named = all.into_iter().flatten();
        named.next().filter(|_| named.next().is_none())
    }

    /// Whether it is in force at this time.
    pub fn is_active(&self, now: UnixTime) -> bool {
        self.from.is_none_or(|from| from <= now) && self.until.is_none_or(|until| now < until)
    }

    /// Checks that a silence which is declared `now` ends later, and within [`MAX_TIME`].
    ///
    /// # Errors
    /// The field, with the present time.
    pub fn check_times(&self, now: UnixTime) -> Result<(), FieldError> {
        let refused = |field: &str, at: UnixTime, why: &str| {
            let (at, now) = (rfc3339::format(at), rfc3339::seconds(now));
            Err(FieldError::new(field, format!("{at} is {why}: it is {now} at the controller")))
        };
        match (self.from, self.until) {
            (_, Some(until)) if until <= now => refused("spec.until", until, "in the past"),
            (_, Some(until)) if until > now + MAX_TIME => refused("spec.until", until, "more than 366 days from now"),
            (Some(from), Some(until)) if from >= until => refused("spec.from", from, "not before spec.until"),
            (Some(from), _) if from > now + MAX_TIME => refused("spec.from", from, "more than 366 days from now"),
            _ => Ok(()),
        }
    }

    /// Checks the silence by itself.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn validate(&self, name: &str) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if let Err(e) = check_name("metadata.name", name) {
            errors.0.push(e);
        }
        let is_id = |id: &str| id.len() == 16 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match self.target() {
            None => errors.push(
                "spec",
                "names one thing: set one of spec.problem, spec.node, spec.link, spec.group and spec.host",
            ),
            Some(SilenceTarget::Problem(id)) if !is_id(id) => {
                errors.push(
                    "spec.problem",
                    format!("{id:?} is not 16 hexadecimal digits: `canopyctl get problems` lists the ids"),
                );
            }
            Some(SilenceTarget::Problem(_)) => {}
            Some(_) if self.until.is_none() => {
                errors.push(
                    "spec.until",
                    "is required for an object: a maintenance that has no end hides the next outage",
                );
            }
            Some(_) => {}
        }
        if self.note.trim().is_empty() || self.note.chars().count() > MAX_NOTE {
            let detail = format!("is required, with at most {MAX_NOTE} characters: other operators read it");
            errors.push("spec.note", detail);
        }
        errors.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> SilenceSpec {
        let until = Some(UnixTime::from_nanos(u64::MAX));
        SilenceSpec { node: Some("n4".into()), note: "optics".into(), until, ..SilenceSpec::default() }
    }

    #[test]
    fn a_silence_has_one_target_a_note_and_an_end_unless_it_is_of_a_problem() {
        assert_eq!((node().validate("x"), node().target()), (Ok(()), Some(SilenceTarget::Node("n4"))));
        let acknowledged = SilenceSpec { problem: Some("0123456789abcdef".into()), node: None, until: None, ..node() };
        assert_eq!(acknowledged.validate("x"), Ok(()));
        let field = |spec: SilenceSpec| spec.validate("x").unwrap_err().0[0].field.clone();
        assert_eq!(field(SilenceSpec { group: Some("g".into()), ..node() }), "spec");
        assert_eq!(field(SilenceSpec { node: None, ..node() }), "spec");
        assert_eq!(field(SilenceSpec { until: None, ..node() }), "spec.until");
        for id in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0"] {
            assert_eq!(field(SilenceSpec { problem: Some(id.into()), ..acknowledged.clone() }), "spec.problem");
        }
        for note in ["", " \n", &"x".repeat(MAX_NOTE + 1)] {
            assert_eq!(field(SilenceSpec { note: note.to_owned(), ..node() }), "spec.note");
        }
        assert!(node().validate("Not a name").unwrap_err().to_string().contains("metadata.name"));
    }

    #[test]
    fn it_is_in_force_from_its_beginning_to_before_its_end() {
        let at = |s: u64| UnixTime::from_nanos(s * 1_000_000_000);
        let spec = SilenceSpec { from: Some(at(10)), until: Some(at(20)), ..node() };
        assert_eq!([9, 10, 19, 20].map(|s| spec.is_active(at(s))), [false, true, true, false]);
        assert!(SilenceSpec { from: None, ..spec.clone() }.is_active(at(0)));
        assert!(SilenceSpec { until: None, ..spec.clone() }.is_active(at(1_000_000)));
        let field = |now, spec: &SilenceSpec| spec.check_times(at(now)).map_err(|e| e.field);
        assert_eq!(field(9, &spec), Ok(()));
        assert_eq!(field(15, &spec), Ok(()), "the beginning may be past");
        assert_eq!(field(20, &spec), Err("spec.until".into()));
        let year = MAX_TIME.as_secs();
        assert_eq!(field(5, &SilenceSpec { until: Some(at(6 + year)), ..spec.clone() }), Err("spec.until".into()));
        assert_eq!(field(5, &SilenceSpec { until: Some(at(5 + year)), ..spec.clone() }), Ok(()));
        assert_eq!(field(5, &SilenceSpec { from: Some(at(20)), ..spec.clone() }), Err("spec.from".into()));
        let far = SilenceSpec { from: Some(at(6 + year)), until: None, ..spec };
        assert_eq!(field(5, &far), Err("spec.from".into()));
    }
}
