// SPDX-License-Identifier: Apache-2.0
//! Who makes a change, and when.

use std::sync::Arc;

use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::request_id::RequestId;

/// Longest name that is kept of a principal, octets.
pub const MAX_PRINCIPAL_NAME: usize = 128;
/// Longest service account that is kept, octets: NAMESPACE/NAME, a label and a subdomain of RFC 1123.
pub const MAX_ACCOUNT: usize = 63 + 1 + 253;

/// Kinds of principals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PrincipalKind {
    /// A person or program that uses the REST API.
    Operator,
    /// A user of a host, through the membership API.
    Host,
    /// The controller itself.
    #[default]
    Controller,
}

/// Programs that an operator writes through with a credential of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Via {
    /// The web UI, with the bearer of a session.
    Ui,
}

/// Who makes a change, as far as the socket or the session shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// Kind.
    pub kind: PrincipalKind,
    /// An operator's login name, a host's name; empty for the controller, and where the name is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Numeric user id on the machine of the caller: an operator's on the controller's, a host's user on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Through which program; absent for those that act with the user's own rights, such as `canopyctl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// Name of the token that acts for an operator; absent where the operator does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Service account of the pod at a host, NAMESPACE/NAME; absent for users of hosts. An earlier version reads over it, and shows the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl Principal {
    /// An operator; the name is cut at [`MAX_PRINCIPAL_NAME`].
    pub fn operator(name: impl Into<String>, uid: Option<u32>) -> Self {
        Self { kind: PrincipalKind::Operator, name: cut(name.into()), uid, ..Self::default() }
    }

    /// A user of the host with this name.
    pub fn host(name: impl Into<String>) -> Self {
        Self { kind: PrincipalKind::Host, name: cut(name.into()), ..Self::default() }
    }

    /// A pod with this service account at the host with this name.
    pub fn pod(host: impl Into<String>, account: impl Into<String>) -> Self {
        Self { account: Some(cut_at(account.into(), MAX_ACCOUNT)), ..Self::host(host) }
    }

    /// The same principal in a session of the web UI.
    #[must_use]
    pub fn in_ui(self) -> Self {
        Self { via: Some(Via::Ui), ..self }
    }

    /// The same principal, through the token of this name.
    #[must_use]
    pub fn with_token(self, name: &str) -> Self {
        Self { token: Some(cut(name.to_owned())), ..self }
    }

    /// Whether both are one principal that is known, through whatever program or token. An operator's user id is before the name, which may have
    /// changed; users of hosts are those of one host.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_named = |of: &Self| of.uid.is_none() || of.kind == PrincipalKind::Host;
        let names = |of: &Self| (of.kind, of.uid, is_named(of).then(|| of.name.clone()), of.account.clone());
        names(self) == names(other) && (self.uid.is_some() || !self.name.is_empty())
    }
}

/// `alice`, `alice (UI)`, `alice (token ci)`, `uid 1000`, `host r1`, `uid 1000 of host r1`, `default/trainer of host r1`, `the controller`.
impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.kind, self.name.as_str(), self.uid) {
            (PrincipalKind::Controller, ..) => f.write_str("the controller"),
            (PrincipalKind::Host, name, uid) => match (&self.account, uid) {
                (Some(account), _) => write!(f, "{account} of host {name}"),
                (None, Some(uid)) => write!(f, "uid {uid} of host {name}"),
                (None, None) => write!(f, "host {name}"),
            },
            (PrincipalKind::Operator, "", Some(uid)) => write!(f, "uid {uid}"),
            (PrincipalKind::Operator, "", None) => f.write_str("an operator"),
            (PrincipalKind::Operator, name, _) => f.write_str(name),
        }?;
        match (&self.token, self.via) {
            (Some(token), _) => write!(f, " (token {token})"),
            (None, Some(Via::Ui)) => f.write_str(" (UI)"),
            (None, None) => Ok(()),
        }
    }
}

fn cut(name: String) -> String {
    cut_at(name, MAX_PRINCIPAL_NAME)
}

fn cut_at(mut name: String, most: usize) -> String {
    if name.len() > most {
        let end = (0..=most).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

/// Who wrote a resource's intent, when, and in which request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// On the controller's wall clock; for people, never for a decision.
    pub at: UnixTime,
    /// Who did.
    pub by: Arc<Principal>,
    /// In which request; only what the audit and the versions keep has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
}

impl Written {
    /// What the resource keeps.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { at: self.at, by: Arc::clone(&self.by) }
    }
}

/// Who wrote a resource's intent, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// See [`Written::at`].
    pub at: UnixTime,
    /// See [`Written::by`].
    pub by: Arc<Principal>,
}

impl From<Stamp> for Written {
    fn from(Stamp { at, by }: Stamp) -> Self {
        Self { at, by, request: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_named_as_people_write_it() {
        let names = [
            (Principal::operator("alice", Some(1000)), "alice"),
            (Principal::operator("alice", Some(1000)).in_ui(), "alice (UI)"),
            (Principal::operator("alice", Some(1000)).with_token("ci"), "alice (token ci)"),
            (Principal::operator("", Some(1000)), "uid 1000"),
            (Principal::operator("", None), "an operator"),
            (Principal::host("r1"), "host r1"),
            (Principal { uid: Some(1000), ..Principal::host("r1") }, "uid 1000 of host r1"),
            (Principal::pod("r1", "default/trainer"), "default/trainer of host r1"),
            (Principal::default(), "the controller"),
        ];
        for (principal, name) in names {
            assert_eq!(principal.to_string(), name);
        }
        assert!(Principal::operator("a", Some(1)).with_token("ci").is_same(&Principal::operator("b", Some(1)).in_ui()));
        assert!(!Principal::operator("a", Some(1)).is_same(&Principal::operator("a", Some(2))));
        assert!(!Principal::operator("", None).is_same(&Principal::operator("", None)));
        assert!(!Principal::operator("a", None).is_same(&Principal::operator("b", None)));
        assert!(!Principal::operator("r1", None).is_same(&Principal::host("r1")));
        assert_eq!(Principal::operator(format!("x{}", "ä".repeat(64)), None).name, format!("x{}", "ä".repeat(63)));
        assert_eq!(Principal::host("x".repeat(129)).name.len(), MAX_PRINCIPAL_NAME);
        let (pod, longest) = (Principal::pod("r1", "a/b"), "x".repeat(MAX_ACCOUNT));
        assert!(
            pod.is_same(&pod) && !pod.is_same(&Principal::host("r1")) && !pod.is_same(&Principal::pod("r1", "a/c"))
        );
        assert_eq!(Principal::pod("r1", format!("{longest}y")).account, Some(longest));
    }

    /// Records of an earlier version have neither `via` nor `account`, and an earlier version reads records that have one.
    #[test]
    fn a_record_with_and_one_without_via_are_read_by_both_versions() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Before {
            kind: PrincipalKind,
            name: String,
            uid: Option<u32>,
        }
        let alice = Principal::operator("alice", Some(1000));
        let old = r#"{"kind":"operator","name":"alice","uid":1000}"#;
        assert_eq!(serde_json::to_string(&alice).unwrap(), old);
        assert_eq!(serde_json::from_str::<Principal>(old).unwrap(), alice);
        let new = serde_json::to_string(&alice.clone().in_ui()).unwrap();
        assert_eq!(new, r#"{"kind":"operator","name":"alice","uid":1000,"via":"ui"}"#);
        assert_eq!(serde_json::from_str::<Principal>(&new).unwrap(), alice.in_ui());
        let before = Before { kind: PrincipalKind::Operator, name: "alice".into(), uid: Some(1000) };
        assert_eq!(serde_json::from_str::<Before>(&new).unwrap(), before);
        let pod = Principal::pod("r1", "default/trainer");
        let new = serde_json::to_string(&pod).unwrap();
        assert_eq!(new, r#"{"kind":"host","name":"r1","account":"default/trainer"}"#);
        assert_eq!(serde_json::from_str::<Principal>(&new).unwrap(), pod);
        let before = Before { kind: PrincipalKind::Host, name: "r1".into(), uid: None };
        assert_eq!(serde_json::from_str::<Before>(&new).unwrap(), before);
    }
}
