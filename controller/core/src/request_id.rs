// SPDX-License-Identifier: Apache-2.0
//! What names one request from the answer to the log, the audit and the events that follow from it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Id of a request: 16 octets, not all zero, as 32 hexadecimal digits. It is the trace id of W3C Trace Context (section 3.2.2.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(u128);

impl RequestId {
    /// From random octets; `None` if all are zero.
    pub fn new(octets: [u8; 16]) -> Option<Self> {
        let id = u128::from_be_bytes(octets);
        (id != 0).then_some(Self(id))
    }

    /// Its octets.
    pub fn octets(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RequestId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hex = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let id = u128::from_str_radix(text, 16).ok().filter(|id| is_hex && *id != 0).map(Self);
        id.ok_or_else(|| format!("{text:?} is not 32 hexadecimal digits in lower case, or all of them are zero"))
    }
}

impl TryFrom<String> for RequestId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_32_digits_and_never_zero() {
        let text = "4bf92f3577b34da6a3ce929d0e0e4736";
        let id: RequestId = text.parse().unwrap();
        assert_eq!((id.to_string(), RequestId::new(id.octets())), (text.to_owned(), Some(id)));
        assert_eq!(serde_json::to_value(id).unwrap(), text);
        assert_eq!(RequestId::new([0; 16]), None);
        for bad in ["", &text[1..], &text.to_uppercase(), &"0".repeat(32), "+bf92f3577b34da6a3ce929d0e0e4736"] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad}");
        }
    }
}
