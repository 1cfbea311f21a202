// SPDX-License-Identifier: Apache-2.0
//! Labels of resources, and of nodes in a topology, in Kubernetes' syntax.

use std::collections::BTreeMap;

use crate::FieldErrors;

/// Most labels per resource.
pub const MAX_LABELS: usize = 32;
/// Bytes of the name in a label's key and of its value, at most.
pub const MAX_LABEL_WORD: usize = 63;
/// Bytes of the prefix in a label's key, at most.
pub const MAX_LABEL_PREFIX: usize = 253;

/// Labels: key to value.
pub type Labels = BTreeMap<String, String>;

/// Checks keys (1..=63 of letters, digits, `-`, `_`, `.`, optionally behind a `prefix/`) and values (up to 63) of the field `at`.
pub fn check(at: &str, labels: &Labels, errors: &mut FieldErrors) {
    if labels.len() > MAX_LABELS {
        errors.push(at, format!("{} labels, at most {MAX_LABELS} are supported", labels.len()));
    }
    for (key, value) in labels {
        let (prefix, name) = key.split_once('/').unwrap_or(("", key));
        if !is_word(name) || name.is_empty() || prefix.len() > MAX_LABEL_PREFIX || !prefix.bytes().all(is_label_byte) {
            errors.push(at, format!("{key:?} is not a label key: use 1..=63 letters, digits, '-', '_' or '.', optionally after a prefix and '/'"));
        }
        if !is_word(value) {
            errors.push(
                format!("{at}[{key}]"),
                format!("{value:?} is not a label value: use up to 63 letters, digits, '-', '_' or '.'"),
            );
        }
    }
}

/// Whether a key or value may have this octet.
pub fn is_label_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

fn is_word(s: &str) -> bool {
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
        check("metadata.labels", &labels(&[("ok.io/a", "b"), ("", "x"), ("k", "a b")]), &mut errors);
        assert_eq!(errors.0.len(), 2, "{errors}");
        assert!(errors.to_string().contains("metadata.labels[k]"));
    }

    /// The limits are those of Kubernetes.
    #[test]
    fn labels_have_limits() {
        let errors = |labels: Labels| {
            let mut errors = FieldErrors::default();
            check("l", &labels, &mut errors);
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
