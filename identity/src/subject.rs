// SPDX-License-Identifier: Apache-2.0
//! Names of programs and of operators' certificates, as SPIFFE IDs (SPIFFE-ID, section 2).

use std::fmt;
use std::str::FromStr;

use canopy_model::ids::check_name;

/// Longest trust domain, octets (SPIFFE-ID, section 2.1).
const MAX_DOMAIN: usize = 255;

/// The domain in which names mean something: one per authority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(String);

/// What a certificate names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The controller.
    Controller,
    /// The agent of the node with this name in the topology.
    Node(String),
    /// The agent of the host with this name in the topology.
    Host(String),
    /// What an operator has under this name among the tokens.
    Operator(String),
}

/// The text is no name of a program or of a trust domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is {why}")]
pub struct NotASubject {
    text: String,
    why: &'static str,
}

impl FromStr for TrustDomain {
    type Err = NotASubject;

    fn from_str(text: &str) -> Result<Self, NotASubject> {
        let is_one = (1..=MAX_DOMAIN).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b));
        let why = "not a trust domain: use 1 to 255 of a-z, 0-9, '.', '-' and '_'";
        if is_one { Ok(Self(text.to_owned())) } else { Err(NotASubject { text: text.to_owned(), why }) }
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Subject {
    type Err = NotASubject;

    fn from_str(text: &str) -> Result<Self, NotASubject> {
        let refuse = |why| Err(NotASubject { text: text.to_owned(), why });
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        let is_name = check_name("name", name).is_ok();
        match kind {
            "controller" if text == "controller" => Ok(Self::Controller),
            "node" if is_name => Ok(Self::Node(name.to_owned())),
            "host" if is_name => Ok(Self::Host(name.to_owned())),
            "operator" if is_name => Ok(Self::Operator(name.to_owned())),
            _ => refuse(
                "not a subject: use controller, node/NAME, host/NAME or operator/NAME, a name is of a-z, 0-9 and '-'",
            ),
        }
    }
}

/// `controller`, `node/n4`, `host/r1`, `operator/laptop`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => f.write_str("controller"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Host(name) => write!(f, "host/{name}"),
            Self::Operator(name) => write!(f, "operator/{name}"),
        }
    }
}

impl Subject {
    /// `spiffe://DOMAIN/node/n4`.
    pub fn uri(&self, domain: &TrustDomain) -> String {
        format!("spiffe://{domain}/{self}")
    }

    /// Whether it is what an agent acts for.
    pub fn is_agent(&self) -> bool {
        matches!(self, Self::Node(_) | Self::Host(_))
    }

    /// The reverse of [`Subject::uri`].
    ///
    /// # Errors
    /// It is another URI.
    pub fn of_uri(uri: &str) -> Result<(TrustDomain, Self), NotASubject> {
        let refuse = || NotASubject { text: uri.to_owned(), why: "not spiffe://DOMAIN/SUBJECT" };
        let (domain, path) = uri.strip_prefix("spiffe://").and_then(|id| id.split_once('/')).ok_or_else(refuse)?;
        Ok((domain.parse()?, path.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_written_and_read_as_spiffe_ids() {
        let domain: TrustDomain = "fabric-1.example".parse().unwrap();
        for (subject, uri) in [
            (Subject::Controller, "spiffe://fabric-1.example/controller"),
            (Subject::Node("n4".into()), "spiffe://fabric-1.example/node/n4"),
            (Subject::Host("r1".into()), "spiffe://fabric-1.example/host/r1"),
            (Subject::Operator("laptop".into()), "spiffe://fabric-1.example/operator/laptop"),
        ] {
            assert_eq!(subject.uri(&domain), uri);
            assert_eq!(Subject::of_uri(uri), Ok((domain.clone(), subject)));
        }
    }

    /// Catches a name that another one is a part of: a certificate of `node/n4/x` or `controller/x` is none of the controller.
    #[test]
    fn other_names_are_refused() {
        for uri in [
            "spiffe://a/controller/",
            "spiffe://a/controller/x",
            "spiffe://a/node/",
            "spiffe://a/node/n4/x",
            "spiffe://a/node/N4",
            "spiffe://a/Node/n4",
            "spiffe://a/nodes/n4",
            "spiffe://a//node/n4",
            "spiffe://A/node/n4",
            "spiffe://a:1/node/n4",
            "spiffe://u@a/node/n4",
            "spiffe:///node/n4",
            "spiffe://a",
            "SPIFFE://a/node/n4",
            "https://a/node/n4",
            "spiffe://a/node/n4?x",
            "spiffe://a/node/n4\0",
        ] {
            assert!(Subject::of_uri(uri).is_err(), "{uri}");
        }
        assert!(TrustDomain::from_str(&"a".repeat(256)).is_err());
    }
}
