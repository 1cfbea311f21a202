// SPDX-License-Identifier: Apache-2.0
//! How a browser is distinguished from a program, by headers that no page can remove.

use axum::http::HeaderMap;
use axum::http::header::ORIGIN;

/// Whether a browser sends this request. A browser names the relation of the page to this address, and the page's origin if the request is
/// no GET; no page can remove these headers. `Sec-Fetch-Mode` alone is no sign of a browser: Node sends it.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site") || headers.contains_key("sec-fetch-dest")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_browser_is_recognised_by_headers_that_no_page_can_remove() {
        let is = |name: &'static str| {
            is_browser(&HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static("x"))]))
        };
        assert!(is("origin") && is("sec-fetch-site") && is("sec-fetch-dest"));
        assert!(!is("sec-fetch-mode") && !is("user-agent") && !is("referer"));
    }
}
