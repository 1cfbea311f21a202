// SPDX-License-Identifier: Apache-2.0
//! Metadata that every resource carries.

use std::collections::BTreeMap;

use canopy_model::FieldErrors;
use canopy_model::ids::Generation;
use serde::{Deserialize, Serialize};

use crate::principal::Written;
use crate::uid::Uid;

/// The tenant of what names none, and of all that earlier versions wrote.
pub const DEFAULT_TENANT: &str = "default";

/// Most labels per resource.
pub const MAX_LABELS: usize = 32;
/// Bytes of the name in a label's key and of its value, at most.
pub const MAX_LABEL_WORD: usize = 63;
/// Bytes of the prefix in a label's key, at most.
pub const MAX_LABEL_PREFIX: usize = 253;

/// Label of a group that chooses its metrics; with the value [`BRANCHES`], agents export those of its branches, too.
pub const METRICS_LABEL: &str = "canopy/metrics";
/// See [`METRICS_LABEL`].
pub const BRANCHES: &str = "branches";

/// Label of a resource that one writer manages, with that writer's name: no other one changes or deletes it.
pub const MANAGED_BY: &str = "canopy/managed-by";

/// Labels of a resource: key to value, both in Kubernetes' syntax.
pub type Labels = BTreeMap<String, String>;

/// Identity and bookkeeping of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Unique among resources of its kind.
    pub name: String,
    /// Owner: of a group the tenant that it was created in, of a member its group's; `default` of all else.
    pub tenant: String,
    /// For selectors and for people.
    #[serde(default)]
    pub labels: Labels,
    /// 1 at creation, grows by one with every change of labels or spec.
    pub generation: Generation,
    /// Names this resource for ever. Absent from records of earlier versions.
    #[serde(default, skip_serializing_if = "Uid::is_absent")]
    pub uid: Uid,
    /// Who created it, and when; absent if an earlier version did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Written>,
    /// Who changed labels or spec last, and when; absent if it is as it was created, or an earlier version did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Written>,
}

impl Metadata {
    /// Metadata of a new resource of the domain.
    pub(crate) fn created(name: &str, labels: Labels, uid: Uid, written: &Written) -> Self {
        let created = Some(written.of_resource());
        Self {
            name: name.to_owned(),
            tenant: DEFAULT_TENANT.to_owned(),
            labels,
            generation: 1,
            uid,
            created,
            changed: None,
        }
    }

    /// The same in this tenant.
    pub(crate) fn in_tenant(self, tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..self }
    }

    /// The same resource after one more change.
    pub(crate) fn changed(&self, labels: Labels, written: &Written) -> Self {
        Self { labels, generation: self.generation + 1, changed: Some(written.of_resource()), ..self.clone() }
    }

    /// Who wrote the present intent.
    pub fn written(&self) -> Option<&Written> {
        self.changed.as_ref().or(self.created.as_ref())
    }

    /// Tag of this intent, the API's ETag: a resource that was deleted and created again never has one of before.
    pub fn tag(&self) -> String {
        format!("{}.{}", self.uid, self.generation)
    }
}

/// Checks keys (1..=63 of letters, digits, `-`, `_`, `.`, optionally behind a `prefix/`) and values (up to 63).
pub(crate) fn check_labels(labels: &Labels, errors: &mut FieldErrors) {
    if labels.len() > MAX_LABELS {
        errors.push("metadata.labels", format!("{} labels, at most {MAX_LABELS} are supported", labels.len()));
    }
    for (key, value) in labels {
        let (prefix, name) = key.split_once('/').unwrap_or(("", key));
        if !is_label_word(name)
            || name.is_empty()
            || prefix.len() > MAX_LABEL_PREFIX
            || !prefix.bytes().all(is_label_byte)
        {
            errors.push("metadata.labels", format!("{key:?} is not a label key: use 1..=63 letters, digits, '-', '_' or '.', optionally after a prefix and '/'"));
        }
        if !is_label_word(value) {
            errors.push(
                format!("metadata.labels[{key}]"),
                format!("{value:?} is not a label value: use up to 63 letters, digits, '-', '_' or '.'"),
            );
        }
    }
}

pub(crate) fn is_label_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

fn is_label_word(s: &str) -> bool {
    s.len() <= MAX_LABEL_WORD && s.bytes().all(is_label_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn bad_labels_are_named() {
        let mut errors = FieldErrors::default();
        check_labels(&labels(&[("ok.io/a", "b"), ("", "x"), ("k", "a b")]), &mut errors);
        assert_eq!(errors.0.len(), 2, "{errors}");
        assert!(errors.to_string().contains("metadata.labels[k]"));
    }

    /// The limits are those of Kubernetes.
    #[test]
    fn labels_have_limits() {
        let errors = |labels: Labels| {
            let mut errors = FieldErrors::default();
            check_labels(&labels, &mut errors);
            errors.0.len()
        };
        let number = |n: usize| errors((0..n).map(|i| (format!("k{i}"), String::new())).collect());
        assert_eq!([31, 32, 33, 40].map(number), [0, 0, 1, 1]);
        let key = |key: String| errors([(key, String::new())].into());
        assert_eq!([252, 253, 254, 300].map(|n| key("p".repeat(n) + "/k")), [0, 0, 1, 1]);
        assert_eq!([62, 63, 64].map(|n| key("k".repeat(n))), [0, 0, 1]);
        assert_eq!(["p/", "p q/k", "p/q/k"].map(|k| key(k.to_owned())), [1, 1, 1]);
    }
}
