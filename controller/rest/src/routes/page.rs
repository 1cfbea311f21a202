// SPDX-License-Identifier: Apache-2.0
//! Pages of lists in name order: how long they are, and the token with which the next one begins.

use canopy_model::ids::MAX_NAME;
use canopy_model::topology::MAX_PORT;

use crate::error::ApiError;

/// Items on one page, at most.
pub(crate) const MAX_PAGE: usize = 500;
const DEFAULT_PAGE: usize = 100;

/// A page that a client wants.
pub(super) struct Wanted {
    /// The last name of the page before.
    pub(super) after: Option<String>,
    pub(super) limit: usize,
}

impl Wanted {
    /// From the parameters `limit` and `continue`.
    pub(super) fn new(limit: Option<usize>, token: Option<&str>) -> Result<Self, ApiError> {
        Self::behind(limit, token, is_name)
    }

    /// The same of a list whose items are ports of nodes, `node/port`.
    pub(super) fn of_ports(limit: Option<usize>, token: Option<&str>) -> Result<Self, ApiError> {
        Self::behind(limit, token, |name| {
            name.split_once('/').is_some_and(|(node, port)| is_name(node) && is_port(port))
        })
    }

    fn behind(limit: Option<usize>, token: Option<&str>, is_name: fn(&str) -> bool) -> Result<Self, ApiError> {
        let limit = limit.unwrap_or(DEFAULT_PAGE);
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={MAX_PAGE}")));
        }
        Ok(Self { after: token.map(|token| decode(token, is_name)).transpose()?, limit })
    }
}

/// The token of the page behind this name.
pub(super) fn token(name: String) -> String {
    hex::encode(name)
}

fn decode(token: &str, is_name: fn(&str) -> bool) -> Result<String, ApiError> {
    let name = hex::decode(token).ok().and_then(|b| String::from_utf8(b).ok());
    name.filter(|name| is_name(name) && hex::encode(name) == token).ok_or_else(|| {
        ApiError::bad_request(
            "continue",
            format!("{token:?} is not a token of this API: use the one of the previous page, or leave it out"),
        )
    })
}

/// As the topology takes it.
fn is_port(name: &str) -> bool {
    (1..=MAX_PORT).contains(&name.len()) && !name.contains('/')
}

fn is_name(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_part)
}
