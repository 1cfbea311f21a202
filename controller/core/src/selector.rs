// SPDX-License-Identifier: Apache-2.0
//! Label selectors in Kubernetes' syntax.

use canopy_model::FieldError;
use canopy_model::labels::{Labels, is_label_byte};

use crate::scan::Scan;

const SYNTAX: &str = "use key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas";

/// Requirements on labels, all of which must hold. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    /// Also without the label, as in Kubernetes.
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Selector {
    /// Parses `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` and `!key`, separated by commas; an empty text selects
    /// everything.
    ///
    /// # Errors
    /// Names `field`, the position, and what is possible.
    pub fn parse(field: &str, text: &str) -> Result<Self, FieldError> {
        let mut scan = Scan::new(field, text, SYNTAX);
        let mut all = Vec::new();
        loop {
            scan.spaces();
            if !scan.is_at_end_of_part() {
                all.push(requirement(&mut scan)?);
            }
            if !scan.part_ends()? {
                return Ok(Self(all));
            }
        }
    }

    /// True when every requirement holds for `labels`.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|Requirement { key, test }| match (labels.get(key), test) {
            (Some(value), Test::In(values)) => values.contains(value),
            (Some(value), Test::NotIn(values)) => !values.contains(value),
            (value, Test::Exists) => value.is_some(),
            (value, Test::Absent) => value.is_none(),
            (None, Test::In(_)) => false,
            (None, Test::NotIn(_)) => true,
        })
    }

    /// True if the label index finds what this selects.
    pub fn has_equality(&self) -> bool {
        self.equalities().next().is_some()
    }

    /// True if it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The requirements of one value, which the label index answers without a scan.
    pub(crate) fn equalities(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|Requirement { key, test }| match test {
            Test::In(values) => match values.as_slice() {
                [value] => Some((key.as_str(), value.as_str())),
                _ => None,
            },
            _ => None,
        })
    }
}

fn requirement(scan: &mut Scan<'_>) -> Result<Requirement, FieldError> {
    let is_absent = scan.eat("!");
    scan.spaces();
    let key = scan.word(|b| is_label_byte(b) || b == b'/');
    if key.is_empty() {
        return Err(scan.unexpected());
    }
    let key = key.to_owned();
    if is_absent {
        return Ok(Requirement { key, test: Test::Absent });
    }
    scan.spaces();
    let test = if scan.eat("!=") {
        Test::NotIn(vec![value(scan)])
    } else if scan.eat("==") || scan.eat("=") {
        Test::In(vec![value(scan)])
    } else if scan.eat("notin") {
        Test::NotIn(values(scan)?)
    } else if scan.eat("in") {
        Test::In(values(scan)?)
    } else {
        Test::Exists
    };
    Ok(Requirement { key, test })
}

fn value(scan: &mut Scan<'_>) -> String {
    scan.spaces();
    scan.word(is_label_byte).to_owned()
}

fn values(scan: &mut Scan<'_>) -> Result<Vec<String>, FieldError> {
    scan.spaces();
    if !scan.eat("(") {
        return Err(scan.unexpected());
    }
    let mut values = Vec::new();
    loop {
        values.push(value(scan));
        scan.spaces();
        if scan.eat(")") {
            return Ok(values);
        }
        if !scan.eat(",") {
            return Err(scan.unexpected());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str) -> bool {
        let labels = [("job", "llm"), ("team", "a"), ("x.io/in", "")];
        let labels: Labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Selector::parse("selector", text).unwrap().matches(&labels)
    }

    #[test]
    fn selectors_require_all_of_their_parts() {
        for holds in [
            "",
            "job=llm",
            "job == llm , team",
            "team!=b",
            "zone!=x",
            "team in (b, a)",
            "team in(a)",
            "team notin (b,c)",
            "zone notin (b)",
            "!zone",
            "! zone,x.io/in",
            "x.io/in in (,b)",
            "x.io/in=,job",
        ] {
            assert!(matches(holds), "{holds:?}");
        }
        for fails in [
            "job=x",
            "job=llm,zone",
            "team!=a",
            "team in (b,c)",
            "zone in (,a)",
            "team notin (b,a)",
            "!team",
            "in",
            "job in ()",
        ] {
            assert!(!matches(fails), "{fails:?}");
        }
    }

    /// Catches a position that is not the place where the text ceases to be a selector.
    #[test]
    fn a_bad_selector_is_refused_with_the_position() {
        for (bad, position) in [
            ("=x", 1),
            ("a,=x", 3),
            ("a b", 3),
            ("a=b=c", 4),
            ("a=b c", 5),
            ("a in b", 6),
            ("a in (b", 8),
            ("a in (b c)", 9),
            ("a inb", 5),
            ("!a=b", 3),
            ("!", 2),
            ("é", 1),
            ("a=é", 3),
            ("a(", 2),
        ] {
            let e = Selector::parse("labelSelector", bad).unwrap_err().to_string();
            assert!(e.starts_with("labelSelector: ") && e.contains(&format!("character {position}")), "{bad:?}: {e}");
            assert!(e.contains("key notin (a,b)"), "{e}");
        }
    }

    #[test]
    fn a_selector_names_the_values_that_the_index_finds() {
        let selector = Selector::parse("selector", "job=llm,team!=a,zone,rack in (7),row in (1,2)").unwrap();
        assert_eq!(selector.equalities().collect::<Vec<_>>(), [("job", "llm"), ("rack", "7")]);
    }
}
