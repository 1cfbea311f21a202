// SPDX-License-Identifier: Apache-2.0
//! Versions, and which of them work together.

use std::fmt;
use std::str::FromStr;

/// A version, such as 0.2.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Release {
    /// Whether both work together: their minor versions are equal, or follow one another.
    pub fn works_with(self, other: Self) -> bool {
        self.steps_to(other).is_some_and(|steps| steps <= 1)
    }

    /// Minor versions from one to the other; `None` between major versions.
    pub fn steps_to(self, other: Self) -> Option<u32> {
        (self.major == other.major).then(|| self.minor.abs_diff(other.minor))
    }

    /// The minor version that is one step from this one towards `to`, such as `0.2`; `None` if no step leads there.
    pub fn next_towards(self, to: Self) -> Option<String> {
        let minor = if to.minor > self.minor { self.minor + 1 } else { self.minor.checked_sub(1)? };
        (self.major == to.major && self.minor != to.minor).then(|| format!("{}.{minor}", self.major))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Release {
    type Err = String;

    /// What a package or a build adds behind the three numbers does not count: `0.2.0~git1`, `0.2.0-rc.1`, `0.2.0+next1`.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split(['~', '-', '+']).next().unwrap_or_default();
        let parsed: Option<Vec<u32>> = numbers.split('.').map(|part| part.parse().ok()).collect();
        match parsed.as_deref() {
            Some(&[major, minor, patch]) => Ok(Self { major, minor, patch }),
            _ => Err(format!("{text:?} is no version: write MAJOR.MINOR.PATCH, such as 0.2.0")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    #[test]
    fn neighboring_minor_versions_work_together_and_others_do_not() {
        for (a, b, together) in [
            ("0.2.0", "0.2.9", true),
            ("0.2.0", "0.1.0", true),
            ("0.2.0", "0.3.4", true),
            ("0.2.0", "0.4.0", false),
            ("0.2.0", "0.0.9", false),
            ("1.2.0", "0.2.0", false),
            ("1.0.0", "0.9.0", false),
        ] {
            assert_eq!(release(a).works_with(release(b)), together, "{a} {b}");
            assert_eq!(release(b).works_with(release(a)), together, "{b} {a}");
        }
    }

    #[test]
    fn the_way_to_a_version_has_one_minor_version_after_the_other() {
        let towards = |from: &str, to: &str| release(from).next_towards(release(to));
        assert_eq!(towards("0.1.5", "0.3.0").as_deref(), Some("0.2"));
        assert_eq!(towards("0.4.0", "0.1.0").as_deref(), Some("0.3"));
        assert_eq!(towards("0.0.1", "1.0.0"), None);
        assert_eq!(towards("1.1.1", "1.1.3"), None);
    }

    #[test]
    fn versions_of_packages_are_versions_and_other_texts_are_refused() {
        assert_eq!(release("0.2.0~git20261127.abc").to_string(), "0.2.0");
        assert_eq!(release("10.20.30-rc.1+x"), release("10.20.30"));
        assert!(release("0.10.0") > release("0.9.9"));
        for text in ["", "0.2", "0.2.0.1", "v0.2.0", "0.2.x", "0.2.-1", "0.2.99999999999"] {
            let error = text.parse::<Release>().unwrap_err();
            assert!(error.contains("MAJOR.MINOR.PATCH"), "{error}");
        }
    }
}
