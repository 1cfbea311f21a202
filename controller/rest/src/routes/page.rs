// SPDX-License-Identifier: Apache-2.0
//! Pages of lists in name order: how long they are, and the token with which the next one begins.

use canopy_model::ids::MAX_NAME;

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
        let limit = limit.unwrap_or(DEFAULT_PAGE);
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(ApiError::bad_request("limit", format!("{limit} is outside 1..={MAX_PAGE}")));
        }
        Ok(Self { after: token.map(decode).transpose()?, limit })
    }
}

/// The token of the page behind this name.
pub(super) fn token(name: String) -> String {
    hex::encode(name)
}

fn decode(token: &str) -> Result<String, ApiError> {
    let name = hex::decode(token).ok().and_then(|b| String::from_utf8(b).ok());
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let of_a_name = |name: &String| (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_part);
    name.filter(|name| of_a_name(name) && hex::encode(name) == token).ok_or_else(|| {
        ApiError::bad_request(
            "continue",
            format!("{token:?} is not a token of this API: use the one of the previous page, or leave it out"),
        )
    })
}
