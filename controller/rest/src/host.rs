// SPDX-License-Identifier: Apache-2.0
//! Accepts only requests whose Host header names this machine.
//!
//! A web page can make its own name resolve to 127.0.0.1 and then send requests as if we were its origin (DNS
//! rebinding). Its requests carry its name in Host; requests of local users and programs carry localhost or a loopback
//! address.

use std::net::IpAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::middleware::{Next, from_fn};
use axum::response::Response;

use crate::error::ApiError;

/// `router` for a TCP listener on loopback: other names in Host are answered 421. Not needed for a Unix socket.
pub fn only_local_names(router: Router) -> Router {
    router.layer(from_fn(check))
}

async fn check(request: Request, next: Next) -> Result<Response, ApiError> {
    let host = request.headers().get(HOST).and_then(|h| h.to_str().ok()).unwrap_or("");
    if is_local(host) {
        return Ok(next.run(request).await);
    }
    Err(ApiError::new(
        StatusCode::MISDIRECTED_REQUEST,
        "ForeignHost",
        format!("Host is {host:?}: use localhost or a loopback address"),
    ))
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
