// SPDX-License-Identifier: Apache-2.0
//! The origin of a web page (RFC 6454), as browsers name it in `Origin` and in their address bar.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SCHEME: &str = "https://";

/// An origin over TLS: `https://canopy.example`, `https://192.0.2.1:8443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A text is no origin, and how one is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no origin over TLS: write https://HOST or https://HOST:PORT as browsers do, in lower case, without a path and without :443"
)]
pub struct NotAnOrigin(pub String);

impl Origin {
    /// As `Origin` has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As `Host` has it: the name, and the port if it is another than 443.
    pub fn host(&self) -> &str {
        &self.0[SCHEME.len()..]
    }
}

impl FromStr for Origin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let host = text.strip_prefix(SCHEME).filter(|host| is_host(host));
        host.map(|_| Self(text.to_owned())).ok_or_else(|| NotAnOrigin(text.to_owned()))
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|n| n != 443 && n > 0 && n.to_string() == port));
    let is_name =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b));
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    is_port && (is_name || address.is_some_and(|a| a.parse::<std::net::Ipv6Addr>().is_ok_and(|ip| ip.to_string() == a)))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an origin that no browser would send so, and that would match no request.
    #[test]
    fn origins_are_written_as_browsers_send_them() {
        for (text, host) in [
            ("https://canopy.example", "canopy.example"),
            ("https://canopy.example:8443", "canopy.example:8443"),
            ("https://192.0.2.1:8443", "192.0.2.1:8443"),
            ("https://[2001:db8::1]:8443", "[2001:db8::1]:8443"),
            ("https://[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().host(), host);
        }
        for text in [
            "",
            "canopy.example",
            "http://canopy.example",
            "https://",
            "https://canopy.example/",
            "https://Canopy.example",
            "https://canopy.example:443",
            "https://canopy.example:0",
            "https://canopy.example:08443",
            "https://a@b",
            "https://*",
            "https://canopy.example:",
            "https://[2001:DB8::1]",
            "https://:8443",
            "https://a b",
            "https://[::1",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
