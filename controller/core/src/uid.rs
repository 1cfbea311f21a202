// SPDX-License-Identifier: Apache-2.0
//! Names of resources that are never given twice.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::secret::{Kind, Secret};

/// Names one resource for ever: one that is deleted and created again under the same name has another. 128 pseudorandom bits in the form
/// of a UUID of version 8 (RFC 9562 section 5.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(u128);

impl Uid {
    /// That of the resource that is created by the change to `revision` in `term`. 0 for the term means one of an earlier version, which
    /// had none; `part` distinguishes two such resources that one change has written.
    pub(crate) fn of(secret: &Secret, term: u64, revision: u64, part: u8) -> Self {
        let half = |which: u64| {
            let round = which << 8 | u64::from(part);
            secret.draw(Kind::UidTerm, round, term) ^ secret.draw(Kind::UidRevision, round, revision)
        };
        let bits = u128::from(half(0)) << 64 | u128::from(half(1));
        // Version 8, variant 10.
        let fixed = 8u128 << 76 | 2u128 << 62;
        Self(bits & !(0xF << 76 | 3 << 62) | fixed)
    }

    /// Not that of any resource: of a record that an earlier version has written.
    pub(crate) fn is_absent(&self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = format!("{:032x}", self.0);
        let (a, b, c, d, e) = (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

impl std::str::FromStr for Uid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let has_form = text.len() == 36
            && text.bytes().enumerate().all(|(at, b)| if is_dash(at) { b == b'-' } else { b.is_ascii_hexdigit() });
        let digits = || u128::from_str_radix(&text.replace('-', ""), 16).ok();
        let uid = has_form.then(digits).flatten();
        uid.map(Self)
            .ok_or_else(|| format!("{text:?} is not a uid: it has the form 01234567-89ab-8def-8123-456789abcdef"))
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_uid_is_given_twice_and_each_is_a_uuid_of_version_8() {
        let secret = Secret::new([7; 32]);
        let of = |(term, revision, part)| Uid::of(&secret, term, revision, part);
        let all: Vec<_> = (0..8).flat_map(|t| (0..64).flat_map(move |r| [(t, r, 0), (t, r, 1)])).collect();
        let uids: BTreeSet<Uid> = all.iter().copied().map(of).collect();
        assert_eq!(uids.len(), all.len());
        assert_ne!(Uid::of(&Secret::new([8; 32]), 1, 1, 0), of((1, 1, 0)));
        for uid in uids {
            let text = uid.to_string();
            assert!(text.as_bytes()[14] == b'8' && b"89ab".contains(&text.as_bytes()[19]), "{text}");
            assert_eq!(text.parse::<Uid>(), Ok(uid));
            assert!(!uid.is_absent());
        }
    }

    #[test]
    fn what_has_another_form_is_refused_with_an_example() {
        let good = "01234567-89ab-8def-8123-456789abcdef";
        assert_eq!(good.parse::<Uid>().unwrap().to_string(), good);
        for bad in [
            "",
            "0123456789ab8def8123456789abcdef",
            "01234567-89ab-8def-8123-456789abcdeg",
            "01234567-89ab-8def-8123-456789abcdef0",
            "+1234567-89ab-8def-8123-456789abcdef",
            "012345678-9ab-8def-8123-456789abcdef",
        ] {
            let e = bad.parse::<Uid>().unwrap_err();
            assert!(e.contains("it has the form 01234567-"), "{e}");
        }
    }
}
