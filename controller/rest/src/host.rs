// SPDX-License-Identifier: Apache-2.0
//! Accepts only requests whose Host header names this machine, and writes of a browser only from a page of this address.
//!
//! A web page can make its own name resolve to 127.0.0.1 and then send requests as if we were its origin (DNS
//! rebinding). Its requests carry its name in Host; requests of local users and programs carry localhost or a loopback
//! address.
//!
//! A page of another origin, also one on another port of this machine, can send requests here without reading the answers.
//! A browser names the page's origin in every request that is no GET or HEAD; programs name none.

use std::net::IpAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn};
use axum::response::Response;

use crate::error::ApiError;
use crate::request;

/// `router` for a TCP listener on loopback: other names in Host are answered 421, writes of pages of other origins 403. Not needed for a
/// Unix socket.
pub fn only_local_names(router: Router) -> Router {
    router.layer(from_fn(check)).layer(from_fn(request::identify))
}

async fn check(request: Request, next: Next) -> Result<Response, ApiError> {
    let host = request.headers().get(HOST).and_then(|h| h.to_str().ok()).unwrap_or("");
    if is_local(host) {
        check_origin(request.method(), request.headers(), host)?;
        return Ok(next.run(request).await);
    }
    Err(ApiError::new(
        StatusCode::MISDIRECTED_REQUEST,
        "ForeignHost",
        format!("Host is {host:?}: use localhost or a loopback address"),
    ))
}

/// Refuses a write of a page that this address did not serve.
fn check_origin(method: &Method, headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    let foreign = |origin: &str| {
        ApiError::new(
            StatusCode::FORBIDDEN,
            "ForeignOrigin",
            format!("Origin is {origin:?}: pages of http://{host} only"),
        )
    };
    for origin in headers.get_all(ORIGIN) {
        let origin = origin.to_str().map_err(|_| foreign("?"))?;
        let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !named.is_some_and(|named| named.eq_ignore_ascii_case(host)) {
            return Err(foreign(origin));
        }
    }
    match headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(site) => Err(foreign(&String::from_utf8_lossy(site))),
    }
}

fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn names_of_others_are_foreign() {
        for ok in ["localhost", "LOCALHOST:8640", "127.0.0.1:8640", "127.0.0.1", "[::1]:8640", "[::1]"] {
            assert!(is_local(ok), "{ok}");
        }
        for bad in
            ["", "evil.example", "evil.example:8640", "localhost.evil.example", "192.0.2.1:8640", "[2001:db8::1]:80"]
        {
            assert!(!is_local(bad), "{bad}");
        }
    }
}
