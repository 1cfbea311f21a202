// SPDX-License-Identifier: Apache-2.0
//! Who calls at the socket, and so who owns what it joins: a user that the kernel names, or a pod that its token names.

use std::fmt;
use std::str::FromStr;

/// Longest service account, octets: NAMESPACE/NAME, a label and a subdomain of RFC 1123.
const MAX_ACCOUNT: usize = 63 + 1 + 253;
/// Longest UID of a pod, octets: a UUID has 36.
const MAX_POD_UID: usize = 64;

/// A caller, or the owner of a membership.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Owner {
    /// By the credentials of the connection.
    User(u32),
    /// By the token of the call.
    Pod(Pod),
}

/// One pod: another one of the same service account is another owner.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Pod {
    account: String,
    uid: String,
}

impl Owner {
    /// Owns everything where users are callers.
    pub(super) const ROOT: Self = Self::User(0);

    /// Its user id and its service account, as requests to the controller have them.
    pub(super) fn for_request(&self) -> (Option<u32>, String) {
        match self {
            Self::User(uid) => (Some(*uid), String::new()),
            Self::Pod(pod) => (None, pod.account.clone()),
        }
    }

    /// Whether a group that does not exist for `self` does not exist for `other` either: it may be one of another tenant.
    pub(super) fn sees_all_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User(_), _) => true,
            (Self::Pod(own), Self::Pod(other)) => own.namespace() == other.namespace(),
            (Self::Pod(_), Self::User(_)) => false,
        }
    }
}

impl Pod {
    /// `None` if one of them is no name of Kubernetes.
    pub(super) fn new(account: &str, uid: &str) -> Option<Self> {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
        };
        let (namespace, name) = account.split_once('/')?;
        let is_uid =
            (1..=MAX_POD_UID).contains(&uid.len()) && uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let is_good = is_name(namespace) && is_name(name) && account.len() <= MAX_ACCOUNT && is_uid;
        is_good.then(|| Self { account: account.to_owned(), uid: uid.to_owned() })
    }

    /// The service account, NAMESPACE/NAME.
    pub(super) fn account(&self) -> &str {
        &self.account
    }

    /// The pod's UID.
    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    fn namespace(&self) -> &str {
        self.account.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

/// As files have it: `1000`, or `NAMESPACE/NAME POD-UID`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => uid.fmt(f),
            Self::Pod(pod) => pod.fmt(f),
        }
    }
}

/// As files have it: `NAMESPACE/NAME POD-UID`.
impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.account, self.uid)
    }
}

impl FromStr for Owner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(' ') {
            Some((account, uid)) => Pod::new(account, uid).map(Self::Pod).ok_or(()),
            None => text.parse().map(Self::User).map_err(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(account: &str, uid: &str) -> Owner {
        Owner::Pod(Pod::new(account, uid).unwrap())
    }

    #[test]
    fn owners_are_read_as_they_are_written() {
        for owner in [Owner::User(1000), Owner::ROOT, pod("training/trainer", "0a1b-2c")] {
            assert_eq!(owner.to_string().parse(), Ok(owner));
        }
        for bad in [
            "",
            "-1",
            "1000 ",
            "trainer u",
            "training/trainer",
            "training/trainer ",
            "Training/t u",
            "a/b/c u",
            "a/b u v",
        ] {
            assert_eq!(bad.parse::<Owner>(), Err(()), "{bad}");
        }
    }

    /// Catches a pod to which a group of another namespace is shown as deleted, and which takes the memberships of that namespace with it.
    #[test]
    fn what_is_not_there_for_a_pod_is_not_there_for_its_namespace_alone() {
        let (own, other) = (pod("a/x", "1"), pod("b/x", "1"));
        assert!(own.sees_all_of(&pod("a/y", "2")) && !own.sees_all_of(&other) && !own.sees_all_of(&Owner::User(7)));
        assert!(Owner::User(7).sees_all_of(&other));
    }
}
